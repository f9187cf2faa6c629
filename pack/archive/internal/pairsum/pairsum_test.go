package pairsum

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func random(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// Every length around the edges of blocks and of the padding, at every pair of
// places where two digests may stand.
func TestLengths(t *testing.T) {
	data := random(1, 4*blockSize)
	for before := range 2 * blockSize {
		for n := range 3*blockSize + 1 {
			a, b := New(), New()
			a.Write(data[:before])
			Write(a, b, data[:n])
			want := sha256.Sum256(append(bytes.Clone(data[:before]), data[:n]...))
			if got := a.Sum(); got != want {
				t.Fatalf("%d bytes after %d: %x, want %x", n, before, got, want)
			}
			if got, want := b.Sum(), sha256.Sum256(data[:n]); got != want {
				t.Fatalf("%d bytes: %x, want %x", n, got, want)
			}
		}
	}
}

// Any order of writes to one or both gives what the standard library gives.
func TestWrites(t *testing.T) {
	data := random(2, 5000)
	rapid.Check(t, func(t *rapid.T) {
		a, b := New(), New()
		wantA, wantB := sha256.New(), sha256.New()
		for range rapid.IntRange(0, 12).Draw(t, "writes") {
			from := rapid.IntRange(0, len(data)).Draw(t, "from")
			p := data[from:rapid.IntRange(from, len(data)).Draw(t, "to")]
			switch rapid.IntRange(0, 3).Draw(t, "which") {
			case 0:
				a.Write(p)
				wantA.Write(p)
			case 1:
				b.Write(p)
				wantB.Write(p)
			default:
				Write(a, b, p)
				wantA.Write(p)
				wantB.Write(p)
			}
		}
		if got, want := a.Sum(), wantA.Sum(nil); !bytes.Equal(got[:], want) {
			t.Fatalf("a: %x, want %x", got, want)
		}
		if got, want := b.Sum(), wantB.Sum(nil); !bytes.Equal(got[:], want) {
			t.Fatalf("b: %x, want %x", got, want)
		}
	})
}

// A digest of the standard library may be paired with one of this package.
func TestMixed(t *testing.T) {
	data := random(3, 1000)
	a, b := New(), &Digest{std: sha256.New()}
	Write(a, b, data)
	want := sha256.Sum256(data)
	if a.Sum() != want || b.Sum() != want {
		t.Error("differs")
	}
}

func BenchmarkPair(b *testing.B) {
	p := random(4, 128<<10)
	b.Run("two by the standard library", func(b *testing.B) {
		x, y := sha256.New(), sha256.New()
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			x.Write(p)
			y.Write(p)
		}
	})
	b.Run("pair", func(b *testing.B) {
		x, y := New(), New()
		y.Write([]byte{1, 2, 3})
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			Write(x, y, p)
		}
	})
}
