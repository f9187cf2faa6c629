package floatcodec

import (
	"hash/crc32"
	"testing"

	"github.com/hfcompress/compress/tensor"
)

// BenchmarkParts measures the parts of the fast level for one BF16 chunk; MB/s
// are those of the chunk's decoded bytes.
func BenchmarkParts(b *testing.B) {
	raw := gaussian(tensor.BF16, ChunkElements, 3)
	m, err := train(tensor.BF16, nil, raw, Options{})
	if err != nil {
		b.Fatal(err)
	}
	var s scratch
	sym, low := s.streams(m.layout, ChunkElements)
	m.split.split(raw, ChunkElements, sym, low)
	enc := m.syms.encoder()
	payload := enc.append(nil, sym, prefetch{}, func(int) {})
	packed := packFields(nil, low[0], 7)
	chunk := m.AppendChunk(nil, 0, raw)
	dst := make([]byte, len(raw))
	var h runReader
	for _, part := range []struct {
		name string
		run  func()
	}{
		{"split", func() { m.split.split(raw, ChunkElements, sym, low) }},
		{"pack", func() { packed = packFields(packed[:0], low[0], 7) }},
		{"probe", func() { probe(raw, 2) }},
		{"choose", func() {
			for i := 0; i < len(sym); i += blockLen {
				enc.choose(sym[i : i+blockLen])
			}
		}},
		{"huffman-encode", func() { payload = enc.append(payload[:0], sym, prefetch{}, func(int) {}) }},
		{"huffman-decode", func() {
			if err := h.init(payload, len(sym), m.syms.decoder()); err != nil {
				b.Fatal(err)
			}
			if err := h.each(func([]uint16, []byte) {}); err != nil {
				b.Fatal(err)
			}
		}},
		{"unpack", func() { unpackFields(low[0], packed, 7) }},
		{"merge", func() { m.split.merge(dst, ChunkElements, sym, low) }},
		{"checksum", func() { crc32.Checksum(chunk, castagnoli) }},
		{"encode", func() { chunk = m.AppendChunk(chunk[:0], 0, raw) }},
		{"decode", func() {
			if err := m.DecodeChunk(dst, 0, chunk); err != nil {
				b.Fatal(err)
			}
		}},
	} {
		b.Run(part.name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				part.run()
			}
		})
	}
}
