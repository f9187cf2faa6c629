package floatcodec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hfcompress/compress/tensor"
)

// sampleNames names the samples; new ones go to the end.
var sampleNames = []string{
	"bf16-fast", "bf16-dense", "bf16-sparse", "f32-max-tail", "i64-fast", "u8-repeats", "bf16-constant",
	"f8e4m3-dense", "u8-random", "empty", "bf16-max-contexts", "bf16-runs", "f32-runs",
}

// samples are small tensors whose blobs use every kind of chunk and stream.
func samples(t testing.TB) (raws, encs [][]byte) {
	t.Helper()
	sparse := gaussian(tensor.BF16, 3000, 1)
	for i := range 3000 {
		if i%7 != 0 {
			clear(sparse[2*i : 2*i+2])
		}
	}
	repeats := bytes.Repeat(randomBytes(512, 4), 16)
	for _, c := range []struct {
		d     tensor.DType
		raw   []byte
		level Level
		shape tensor.Shape
	}{
		{tensor.BF16, gaussian(tensor.BF16, 3000, 1), Fast, nil},
		{tensor.BF16, gaussian(tensor.BF16, 3000, 1), Dense, nil},
		{tensor.BF16, sparse, Fast, nil},
		{tensor.F32, append(gaussian(tensor.F32, 1500, 1), 1, 2), Max, nil},
		{tensor.I64, gaussian(tensor.I64, 500, 1), Fast, nil},
		{tensor.U8, repeats, Fast, nil},
		{tensor.BF16, bytes.Repeat([]byte{1, 2}, 700), Fast, nil},
		{tensor.F8E4M3, gaussian(tensor.F8E4M3, 3000, 1), Dense, nil},
		{tensor.U8, randomBytes(100, 1), Fast, nil},
		{tensor.U8, nil, Fast, nil},
		{tensor.BF16, lowRank(64, 96, 1), Max, tensor.Shape{64, 96}},
		{tensor.BF16, append(gaussian(tensor.BF16, 8500, 1), randomBytes(90, 1)...), Fast, nil},
		{tensor.F32, gaussian(tensor.F32, 3000, 1), Fast, nil},
	} {
		enc, err := Encode(nil, c.d, c.shape, c.raw, Options{Level: c.level})
		if err != nil {
			t.Fatal(err)
		}
		raws, encs = append(raws, c.raw), append(encs, enc)
	}
	return raws, encs
}

// blobs returns the encoded samples and the golden files, which show what
// earlier versions wrote.
func blobs(t testing.TB) [][]byte {
	t.Helper()
	_, encs := samples(t)
	files, err := filepath.Glob("testdata/golden/*.bin")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		enc, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(encs, func(e []byte) bool { return bytes.Equal(e, enc) }) {
			encs = append(encs, enc)
		}
	}
	return encs
}

func typed(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrVersion)
}

func TestEveryBitFlipIsRefused(t *testing.T) {
	encs := blobs(t)
	for i, enc := range encs {
		bad := bytes.Clone(enc)
		m, chunks, err := parseBlob(bad, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		head := len(bad)
		for _, c := range chunks {
			head -= len(c)
		}
		for bit := range 8 * head {
			bad[bit>>3] ^= 1 << (bit & 7)
			if _, err := Decode(nil, bad, Limits{MaxSize: 1 << 20}); !typed(err) {
				t.Fatalf("sample %d: bit %d flipped: %v", i, bit, err)
			}
			bad[bit>>3] ^= 1 << (bit & 7)
		}
		step := 1
		if len(enc) > 6000 { // others show what every bit does
			step = 11
		}
		// The model stays as it is: its tables are made once.
		for k, c := range chunks {
			dst := make([]byte, m.ChunkSize(k))
			for bit := 0; bit < 8*len(c); bit += step {
				c[bit>>3] ^= 1 << (bit & 7)
				if err := m.DecodeChunk(dst, k, c); !typed(err) {
					t.Fatalf("sample %d: bit %d of chunk %d flipped: %v", i, bit, k, err)
				}
				c[bit>>3] ^= 1 << (bit & 7)
			}
			if err := m.DecodeChunk(dst, k, c); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	encs := blobs(t)
	for i, enc := range encs {
		for n := range enc {
			if _, err := Decode(nil, enc[:n:n], Limits{}); !typed(err) {
				t.Fatalf("sample %d: cut to %d of %d bytes: %v", i, n, len(enc), err)
			}
		}
		if _, err := Decode(nil, append(bytes.Clone(enc), 0), Limits{}); !typed(err) {
			t.Fatalf("sample %d: one byte appended: %v", i, err)
		}
	}
}

// reseal gives a blob valid checksums, so that what lies behind them is reached.
func reseal(enc []byte) bool {
	if len(enc) < 5 {
		return false
	}
	size, b, ok := uvarint(enc[4:], uint64(len(enc)))
	if !ok || size > uint64(len(b)) || size < 12 {
		return false
	}
	stored := b[:size]
	binary.LittleEndian.PutUint32(stored[size-4:], crc32.Checksum(stored[:size-4], castagnoli))
	m, err := ParseModel(stored, Limits{MaxSize: 1 << 22})
	if err != nil {
		return false
	}
	b = b[size:]
	n := m.Chunks()
	if n > len(b)/4-1 {
		return false
	}
	table := b[:4*n]
	binary.LittleEndian.PutUint32(b[4*n:], crc32.Checksum(enc[:len(enc)-len(b)+4*n], castagnoli))
	b = b[4*n+4:]
	for i := range n {
		size := binary.LittleEndian.Uint32(table[4*i:])
		if uint64(size) > uint64(len(b)) || size < chunkHeader {
			return false
		}
		binary.LittleEndian.PutUint32(b, m.chunkSum(i, m.ChunkSize(i), b[4:size]))
		b = b[size:]
	}
	return true
}

func TestResealedFlipsNeverPanic(t *testing.T) {
	encs := blobs(t)
	for _, enc := range encs {
		for bit := 0; bit < 8*len(enc); bit += 7 { // FuzzDecode goes further
			bad := bytes.Clone(enc)
			bad[bit>>3] ^= 1 << (bit & 7)
			if !reseal(bad) {
				continue
			}
			if _, err := Decode(nil, bad, Limits{MaxSize: 1 << 20}); err != nil && !typed(err) {
				t.Fatalf("bit %d: %v", bit, err)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	encs := blobs(f)
	for _, enc := range encs {
		f.Add(enc)
	}
	f.Fuzz(func(t *testing.T, enc []byte) {
		enc = bytes.Clone(enc)
		for range 2 { // as it is, then behind valid checksums
			out, err := Decode(nil, enc, Limits{MaxSize: 1 << 20})
			if err != nil && !typed(err) {
				t.Fatal(err)
			}
			if err == nil && len(out) > 1<<20 {
				t.Fatalf("%d bytes came out", len(out))
			}
			if !reseal(enc) {
				return
			}
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	raws, _ := samples(f)
	for i, raw := range raws {
		f.Add(raw, uint8(i), uint8(i), uint8(2*i))
	}
	f.Fuzz(func(t *testing.T, raw []byte, d, level, rows uint8) {
		opts := Options{Level: Level(level % 3)}
		dtype := tensor.Bool + tensor.DType(d)%(tensor.C64-tensor.Bool+1)
		var shape tensor.Shape // a matrix, where it is one
		if n := len(raw) * 8 / dtype.Bits(); rows > 0 && n%int(rows) == 0 {
			shape = tensor.Shape{int(rows), n / int(rows)}
		}
		enc, err := Encode(nil, dtype, shape, raw, opts)
		if err != nil {
			t.Fatal(err)
		}
		dec, err := Decode(nil, enc, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dec, raw) {
			t.Fatal("other bytes came back")
		}
	})
}

func TestLimits(t *testing.T) {
	raw := gaussian(tensor.BF16, 3000, 1)
	enc, err := Encode(nil, tensor.BF16, nil, raw, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(nil, enc, Limits{MaxSize: int64(len(raw)) - 1}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("above the limit: %v", err)
	}
	if _, err := Decode(nil, enc, Limits{MaxSize: int64(len(raw))}); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	// A blob that declares exabytes is refused for want of chunks, whatever the
	// limit, before anything is allocated.
	m := (&Model{layout: layout{2, 8, 9}, size: math.MaxInt64 &^ 1, chunkLog: chunkLog, low: make([]*coder, 1)}).seal()
	stored := m.stored
	blob := append(append(append([]byte{}, blobMagic[:]...), byte(len(stored))), stored...)
	blob = append(blob, make([]byte, 100)...)
	if _, err := Decode(nil, blob, Limits{MaxSize: math.MaxInt64}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("absurd size: %v", err)
	}
	if _, err := Decode(nil, blob, Limits{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("absurd size under the default limit: %v", err)
	}
}

func TestChunksAreBoundToTheirPlace(t *testing.T) {
	raw := gaussian(tensor.BF16, 3*ChunkElements, 1)
	m, err := train(tensor.BF16, nil, raw, Options{})
	if err != nil {
		t.Fatal(err)
	}
	enc := m.AppendChunk(nil, 0, m.chunkOf(raw, 0))
	dst := make([]byte, m.ChunkSize(0))
	if err := m.DecodeChunk(dst, 0, enc); err != nil {
		t.Fatal(err)
	}
	if err := m.DecodeChunk(dst, 1, enc); !errors.Is(err, ErrCorrupt) {
		t.Errorf("chunk 0 read as chunk 1: %v", err)
	}
	raw[0] ^= 1
	other, err := train(tensor.BF16, nil, gaussian(tensor.BF16, 3*ChunkElements, 2), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.DecodeChunk(dst, 0, enc); !errors.Is(err, ErrCorrupt) {
		t.Errorf("chunk read with another tensor's model: %v", err)
	}
}
