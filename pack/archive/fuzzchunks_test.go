package archive

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// FuzzChunks gives decoders chunks and tables whose checksums hold.
func FuzzChunks(f *testing.F) {
	f.Add(byte(kindBytes), uint32(10), []byte{methodRaw, 1, 2, 3})
	f.Add(byte(kindBytes), uint32(3000), append([]byte{methodZstd}, packIndex(make([]byte, 3000))...))
	zeros := func(n int, level floatcodec.Level) (*floatcodec.Model, error) {
		return trainBytes(source{mem: make([]byte, n), size: int64(n)}, level, 1, func(raw []byte, _ int64) ([]byte, error) { return raw, nil })
	}
	m, err := zeros(100, floatcodec.Dense)
	if err != nil {
		f.Fatal(err)
	}
	d := &deltaModel{kind: kindULP, form: formOf(tensor.BF16), classes: m}
	f.Add(byte(kindULP), uint32(200), d.appendChunk(nil, 0, make([]byte, 200), make([]byte, 200))[4:])
	d.fine, d.run = m, 10
	f.Add(byte(kindULP), uint32(200), d.appendChunk(nil, 0, bytes.Repeat([]byte{1, 2}, 100), make([]byte, 200))[4:])
	table := encodeTable(&choice{kind: kindFloat, model: m}, []int{17})
	f.Add(byte(kindFloat), uint32(200), table[:len(table)-4])
	table = encodeTable(&choice{kind: kindULP, delta: d}, []int{17})
	f.Add(byte(kindULP), uint32(200), table[:len(table)-4])
	d.kind, d.product = kindRank, &product{rank: 1, cols: 10, bytes: 2, a: make([]float32, 10), b: make([]float32, 10)}
	table = encodeTable(&choice{kind: kindRank, delta: d}, []int{17})
	f.Add(byte(kindRank), uint32(200), table[:len(table)-4])
	_, stored, err := parseProduct(d.product.append(nil), 100)
	if err != nil || len(stored) > 0 {
		f.Fatal(len(stored), err)
	}
	d.fine, d.run = nil, 0
	f.Add(byte(kindRank), uint32(200), append(d.product.append(nil), d.appendChunk(nil, 0, make([]byte, 200), make([]byte, 200))[4:]...))
	f.Fuzz(func(t *testing.T, kind byte, size uint32, body []byte) {
		size %= maxChunk
		dst := make([]byte, size)
		enc := append(binary.LittleEndian.AppendUint32(nil, chunkSum(kind, 0, len(dst), body)), body...)
		s := &stream{kind: kind % (kindRank + 1), size: int64(size), total: int64(size), data: int64(size), dtype: kind % byte(len(dtypes))}
		for _, table := range [][]byte{body, binary.AppendUvarint(bytes.Clone(body), uint64(size))} {
			if _, err := parseTable(binary.LittleEndian.AppendUint32(bytes.Clone(table), crc32.Checksum(table, castagnoli)), s); err != nil && !refused(err) {
				t.Error(err)
			}
		}
		switch kind {
		case kindBytes:
			if err := decodeBytesChunk(dst, 0, enc); err != nil && !refused(err) {
				t.Error(err)
			}
		case kindRank: // a product, then the chunk it is for
			for _, d := range []tensor.DType{tensor.BF16, tensor.F32} {
				w := d.Size()
				n := int(size) / w * w
				if n == 0 || n/w > floatcodec.ChunkElements {
					continue
				}
				p, chunk, err := parseProduct(body, int64(n/w))
				if err != nil {
					if !refused(err) {
						t.Error(err)
					}
					continue
				}
				m, err := zeros(n/w, floatcodec.Fast)
				if err != nil {
					t.Fatal(err)
				}
				base := bytes.Repeat([]byte{0x80, 0x3f, 0xff, 0x7f, 1, 0x80, 0xc0, 0xff}, n/8+1)[:n]
				p.addTo(base, 0, w)
				if cut := n / w / 2; cut > 0 { // as the second chunk would be
					p.addTo(bytes.Clone(base[cut*w:]), int64(cut), w)
				}
				enc := append(binary.LittleEndian.AppendUint32(nil, chunkSum(kind, 0, n, chunk)), chunk...)
				model := &deltaModel{kind: kind, form: formOf(d), classes: m, product: p}
				if err := model.decodeChunk(dst[:n], 0, enc, base); err != nil && !refused(err) {
					t.Error(err)
				}
			}
		case kindULP, kindXOR:
			// Any model for elements of every width.
			for _, d := range []tensor.DType{tensor.U8, tensor.BF16, tensor.F32, tensor.F64} {
				w := d.Size()
				n := int(size) / w * w
				if n == 0 || n/w > floatcodec.ChunkElements {
					continue
				}
				m, err := zeros(n/w, floatcodec.Fast)
				if err != nil {
					t.Fatal(err)
				}
				enc := append(binary.LittleEndian.AppendUint32(nil, chunkSum(kind, 0, n, body)), body...)
				for _, run := range []int{0, 1, 100} {
					for _, fine := range []*floatcodec.Model{nil, m} {
						model := &deltaModel{kind: kind, form: formOf(d), classes: m, fine: fine, run: run}
						if err := model.decodeChunk(dst[:n], 0, enc, make([]byte, n)); err != nil && !refused(err) {
							t.Error(err)
						}
					}
				}
			}
		}
	})
}
