package xet

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pierrec/lz4/v4"
	"pgregory.net/rapid"
)

func TestChunkHeader(t *testing.T) {
	good := ChunkHeader{Scheme: SchemeBG4, Stored: 70000, Size: MaxChunk}
	b := good.Append(nil)
	if want := []byte{0, 0x70, 0x11, 0x01, 2, 0, 0, 2}; !bytes.Equal(b, want) {
		t.Fatalf("header is % x, want % x", b, want)
	}
	if got, err := ParseChunkHeader(b); err != nil || got != good {
		t.Fatalf("parsed %+v, %v", got, err)
	}
	bad := map[string][]byte{
		"short":        b[:7],
		"version":      {1, 1, 0, 0, 0, 1, 0, 0},
		"scheme 3":     {0, 1, 0, 0, 3, 1, 0, 0},
		"scheme 99":    {0, 1, 0, 0, 99, 1, 0, 0},
		"no content":   {0, 1, 0, 0, 1, 0, 0, 0},
		"nothing":      {0, 0, 0, 0, 1, 1, 0, 0},
		"too large":    {0, 1, 0, 0, 1, 1, 0, 2},
		"stored large": {0, 1, 0, 4, 1, 1, 0, 0},
		"plain":        {0, 2, 0, 0, 0, 1, 0, 0},
		"footer":       []byte("XETBLOB\x01"),
	}
	for name, b := range bad {
		if h, err := ParseChunkHeader(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}

// group is the forward transform, by its definition.
func group(data []byte) (out []byte) {
	for j := range 4 {
		for i := j; i < len(data); i += 4 {
			out = append(out, data[i])
		}
	}
	return out
}

func TestUngroup(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		got := make([]byte, n)
		ungroup(got, group(data))
		if !bytes.Equal(got, data) {
			t.Fatalf("%d bytes come back wrong", n)
		}
	}
}

// Reference: github.com/pierrec/xxHash and the xxHash specification give these
// for seed 0.
func TestXXH32(t *testing.T) {
	for in, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff,
		"Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32([]byte(in)); got != want {
			t.Errorf("xxh32(%q) = %#08x, want %#08x", in, got, want)
		}
	}
}

// mixed is content that is compressible in part.
func mixed(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, n)
	for i := 0; i < n; {
		run := 1 + rng.IntN(400)
		if rng.IntN(2) == 0 {
			c := byte(rng.Uint32())
			for ; run > 0 && i < n; run-- {
				b[i] = c
				i++
			}
			continue
		}
		for ; run > 0 && i < n; run-- {
			b[i] = byte(rng.Uint32())
			i++
		}
	}
	return b
}

// frameOf packs with the library's own writer, under every legal flag.
func frameOf(t interface{ Fatal(...any) }, data []byte, opts ...lz4.Option) []byte {
	var buf bytes.Buffer
	w := lz4.NewWriter(&buf)
	if err := w.Apply(opts...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestDecodeEveryFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := mixed(rapid.IntRange(1, MaxChunk).Draw(t, "size"), rapid.Uint64().Draw(t, "seed"))
		opts := []lz4.Option{
			lz4.BlockSizeOption(rapid.SampledFrom([]lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb}).Draw(t, "block")),
			lz4.BlockChecksumOption(rapid.Bool().Draw(t, "block checksum")),
			lz4.ChecksumOption(rapid.Bool().Draw(t, "checksum")),
		}
		if rapid.Bool().Draw(t, "sized") {
			opts = append(opts, lz4.SizeOption(uint64(len(data))))
		}
		scheme := rapid.SampledFrom([]Scheme{SchemeLZ4, SchemeBG4}).Draw(t, "scheme")
		in := data
		if scheme == SchemeBG4 {
			in = group(data)
		}
		stored := frameOf(t, in, opts...)
		if rapid.Bool().Draw(t, "skippable") {
			stored = append([]byte{0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}, stored...)
		}
		got := make([]byte, len(data))
		var d Decoder
		h := ChunkHeader{Scheme: scheme, Stored: len(stored), Size: len(data)}
		if err := d.Decode(got, h, stored); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("scheme %d, %d bytes: %v", scheme, len(data), err)
		}
		for _, wrong := range []int{len(data) - 1, len(data) + 1} {
			h.Size = wrong
			if err := d.Decode(make([]byte, wrong), h, stored); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("decoded %d bytes as %d: %v", len(data), wrong, err)
			}
		}
	})
}

// The library's writer makes independent blocks only, so the linked form is
// packed by hand: a block that repeats what the one before it held.
func TestDecodeLinkedBlocks(t *testing.T) {
	plain := mixed(200, 1)
	first := append([]byte{200, 0, 0, 0x80}, plain...)
	// No literal, a match of 4+15+181 bytes at distance 200, then the last
	// five bytes as literals, as the block format demands.
	second := []byte{0x0f, 200, 0, 181, 0x50, 'a', 'b', 'c', 'd', 'e'}
	desc := []byte{0x40, 0x40}
	f := append([]byte{0x04, 0x22, 0x4d, 0x18}, desc...)
	f = append(f, byte(xxh32(desc)>>8))
	f = append(f, first...)
	f = append(f, byte(len(second)), 0, 0, 0)
	f = append(f, second...)
	f = append(f, 0, 0, 0, 0)
	want := append(append(append([]byte{}, plain...), plain...), "abcde"...)
	got := make([]byte, len(want))
	if err := decodeFrames(got, f); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("linked blocks: %v", err)
	}
	// The same blocks declared independent reach before their start.
	f[4] |= flagIndependent
	f[6] = byte(xxh32(f[4:6]) >> 8)
	if err := decodeFrames(got, f); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("reached into another block: %v", err)
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	data := mixed(9000, 2)
	stored := frameOf(t, data, lz4.BlockChecksumOption(true), lz4.ChecksumOption(true), lz4.SizeOption(9000))
	for i := range stored {
		bad := append([]byte(nil), stored...)
		bad[i] ^= 1 << (i % 8)
		got := make([]byte, len(data))
		if err := decodeFrames(got, bad); err == nil && !bytes.Equal(got, data) {
			t.Fatalf("bit %d of byte %d: wrong content was accepted", i%8, i)
		}
		if err := decodeFrames(got, stored[:i]); err == nil {
			t.Fatalf("%d of %d bytes were accepted", i, len(stored))
		}
	}
}

func FuzzDecode(f *testing.F) {
	data := mixed(300, 5)
	f.Add(byte(1), 300, frameOf(f, data))
	f.Add(byte(2), 300, frameOf(f, group(data), lz4.BlockChecksumOption(true)))
	f.Add(byte(0), 5, []byte("plain"))
	f.Fuzz(func(t *testing.T, scheme byte, size int, stored []byte) {
		h := ChunkHeader{Scheme: Scheme(scheme), Stored: len(stored), Size: size}
		h, err := ParseChunkHeader(h.Append(nil))
		if err != nil || h.Stored != len(stored) || h.Size != size {
			return
		}
		room := make([]byte, size+64)
		for i := range room {
			room[i] = 0xa5
		}
		var d Decoder
		if err := d.Decode(room[:size:size], h, stored); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("untyped error: %v", err)
		}
		for _, b := range room[size:] {
			if b != 0xa5 {
				t.Fatal("wrote beyond the chunk")
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	text := mixed(64<<10, 9)
	for _, bb := range []struct {
		name   string
		scheme Scheme
		stored []byte
	}{
		{"none", SchemeNone, text},
		{"lz4", SchemeLZ4, frameOf(b, text)},
		{"bg4", SchemeBG4, frameOf(b, group(text))},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var d Decoder
			dst := make([]byte, len(text))
			h := ChunkHeader{Scheme: bb.scheme, Stored: len(bb.stored), Size: len(text)}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := d.Decode(dst, h, bb.stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkUngroup(b *testing.B) {
	src, dst := mixed(64<<10, 9), make([]byte, 64<<10)
	b.SetBytes(64 << 10)
	for b.Loop() {
		ungroup(dst, src)
	}
}

func BenchmarkChunkHash(b *testing.B) {
	data := mixed(64<<10, 9)
	h := newKeyed(&dataKey)
	b.SetBytes(64 << 10)
	for b.Loop() {
		keyedSum(h, data)
	}
}
