package xet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// splitmix is the noise of conformance/oracle.mjs.
func splitmix(n int) []byte {
	out := make([]byte, n)
	var state uint64
	for i := 0; i < n; i += 8 {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(out[i:], z^z>>31)
	}
	return out
}

// The cuts that the reference implementation's own test states for this data.
func TestGoldenCuts(t *testing.T) {
	want := []int{84493, 134421, 144853, 243318, 271793, 336457, 467529, 494581, 582000, 596735, 616815, 653164, 678202, 724510, 815591, 827760, 958832, 991092, 1000000}
	var got []int
	end := 0
	for c := NewChunker(bytes.NewReader(splitmix(1_000_000))); ; {
		b, err := c.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		end += len(b)
		got = append(got, end)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("cuts at %v, want %v", got, want)
	}
}

// The vectors were computed by npm @huggingface/xetchunk-wasm 0.2.0 with the
// script conformance/oracle.mjs. The conformance tests hold more content
// against github.com/wzshiming/xet.
func TestGoldenHashes(t *testing.T) {
	tests := []struct {
		name       string
		data       []byte
		xorb, file string
		chunks     int
	}{
		{"hello", []byte("Hello World!"), "d8d408e608fb9ca213b9909a65d86d725f2de4d8d540324be8a363e7a6e228cb", "a9dae0ad88b060bdd7e7c87abdcf95b132c95a0414b06d4f6beb68d287b87165", 1},
		{"zeros", make([]byte, 1_000_000), "66df762464541c4b4525314f0cb292f49017a961ce8c95b5a2ced973fdbf7527", "c0c85185f4307d40facfd366573176e54fc9c76041e44e32d52489780a6d1eaa", 8},
		{"noise", splitmix(1_000_000), "6f2ce16ca5e317f0100ff0e7e5bf40a0de9032e9ee1ad04b6b8ff4e36cdfbf6c", "3d17b2d7d64a0e011b6717a52d9a16bd2c3f05b743fa8adf52a7d75dafab6d89", 19},
		{"empty", nil, strings.Repeat("0", 64), strings.Repeat("0", 64), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tree Tree
			chunks := 0
			for c := NewChunker(bytes.NewReader(tt.data)); ; chunks++ {
				b, err := c.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				tree.Add(ChunkHash(b), uint64(len(b)))
			}
			if chunks != tt.chunks || tree.XorbHash().String() != tt.xorb || tree.FileHash().String() != tt.file {
				t.Errorf("%d chunks, xorb %v, file %v; want %d, %s, %s", chunks, tree.XorbHash(), tree.FileHash(), tt.chunks, tt.xorb, tt.file)
			}
			h, n, err := HashFile(iotest.HalfReader(bytes.NewReader(tt.data)))
			if err != nil || n != int64(len(tt.data)) || h.String() != tt.file {
				t.Errorf("HashFile: %v, %d, %v", h, n, err)
			}
		})
	}
}

// The example of the public specification, page "CAS API".
func TestHashText(t *testing.T) {
	var h Hash
	for i := range h {
		h[i] = byte(i)
	}
	const text = "07060504030201000f0e0d0c0b0a0908171615141312111f1e1d1c1b1a1918"
	// The page prints 62 digits (it drops a byte of the third group); the
	// rule that it states gives 64.
	full := text[:46] + "10" + text[46:]
	if got := h.String(); got != full {
		t.Fatalf("got %s, want %s", got, full)
	}
	back, err := ParseHash(full)
	if err != nil || back != h {
		t.Fatalf("parsed %v, %v", back, err)
	}
	for _, bad := range []string{"", full[:63], full + "0", strings.Repeat("g", 64)} {
		if _, err := ParseHash(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	var u Hash
	if b, err := h.MarshalText(); err != nil || u.UnmarshalText(b) != nil || u != h {
		t.Errorf("text round trip: %s, %v", b, err)
	}
}

// treeByDefinition follows the wording of the specification: whole levels in
// memory, each walked from its start.
func treeByDefinition(nodes []node) Hash {
	if len(nodes) == 0 {
		return Hash{}
	}
	for len(nodes) > 1 {
		var up []node
		for rest := nodes; len(rest) > 0; {
			n := min(len(rest), 9)
			if len(rest) <= 2 {
				n = len(rest)
			} else {
				for i := 2; i < min(9, len(rest)); i++ {
					if binary.LittleEndian.Uint64(rest[i].hash[24:])%4 == 0 {
						n = i + 1
						break
					}
				}
			}
			up = append(up, merge(rest[:n]))
			rest = rest[n:]
		}
		nodes = up
	}
	return nodes[0].hash
}

func TestTreeEqualsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 600).Draw(t, "chunks")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		mod := rapid.SampledFrom([]uint64{1, 2, 4, 9, 1 << 40}).Draw(t, "closing hashes")
		var tree Tree
		var nodes []node
		for range n {
			var h Hash
			for i := 0; i < 24; i += 8 {
				binary.LittleEndian.PutUint64(h[i:], rng.Uint64())
			}
			binary.LittleEndian.PutUint64(h[24:], rng.Uint64()%mod)
			size := 1 + rng.Uint64N(MaxChunk)
			nodes = append(nodes, node{h, size})
			tree.Add(h, size)
			if rng.IntN(50) == 0 && tree.XorbHash() != treeByDefinition(nodes) {
				t.Fatalf("after %d chunks", len(nodes))
			}
		}
		if got, want := tree.XorbHash(), treeByDefinition(nodes); got != want {
			t.Fatalf("%d chunks: %v, want %v", n, got, want)
		}
		for i, l := range tree.levels {
			if len(l.open) >= maxChildren {
				t.Fatalf("level %d keeps %d nodes", i, len(l.open))
			}
		}
	})
}

// Cutting byte by byte as the specification's pseudocode does.
func cutsByDefinition(data []byte) (ends []int) {
	var h uint64
	start := 0
	for i, b := range data {
		h = h<<1 + gear[b]
		if size := i + 1 - start; size < MinChunk || size < MaxChunk && h&0xffff000000000000 != 0 {
			continue
		}
		ends = append(ends, i+1)
		start, h = i+1, 0
	}
	if start < len(data) {
		ends = append(ends, len(data))
	}
	return ends
}

func TestChunkerEqualsItsDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, MinChunk - 1, MinChunk, MinChunk + 1, MaxChunk, MaxChunk + 1, 3 << 20} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		if n > 2<<20 {
			clear(data[1<<20 : 2<<20])
		}
		var ends []int
		end := 0
		for c := NewChunker(iotest.OneByteReader(bytes.NewReader(data))); ; {
			b, err := c.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			end += len(b)
			ends = append(ends, end)
		}
		if got, want := fmt.Sprint(ends), fmt.Sprint(cutsByDefinition(data)); got != want {
			t.Errorf("%d bytes: cuts %s, want %s", n, got, want)
		}
	}
}

func TestHashFileGivesReadErrors(t *testing.T) {
	broken := errors.New("broken")
	if _, _, err := HashFile(io.MultiReader(bytes.NewReader(make([]byte, 300000)), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}
