package xortable

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestKernelsAgreeWithTheDefinition packs random codes of every width and decodes
// them by kernels and by the general loop. A kernel must exist up to the width that the generator
// was told, so that the fast path is really taken.
func TestKernelsAgreeWithTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, bits := range []uint{16, 32, 64} {
		g := newGeometry(bits)
		size := int(bits) * groupColumns / 8
		checked := 0
		for k := uint(1); k <= bits; k++ {
			for _, diff := range []bool{false, true} {
				if diff && k == bits {
					continue
				}
				base := make([]byte, size)
				codes := make([]uint64, groupColumns)
				for i := range codes {
					codes[i] = rng.Uint64() & lowMask(k)
					// Small differences must stay within a lane: keep the base in its middle.
					b := rng.Uint64() & lowMask(bits)
					if diff {
						b = b>>2 | 1<<(bits-2)
					}
					storeWord(base, i, bits, b)
				}
				packed := g.appendCodes(nil, codes, k)
				if len(packed) != int(8*k) {
					t.Fatalf("%d bits, width %d: %d bytes", bits, k, len(packed))
				}
				want, got := make([]byte, size), make([]byte, size)
				carries := false
				for i, c := range codes {
					v := loadWord(base, i, bits) ^ c
					if diff {
						var ok bool
						v, ok = difference(loadWord(base, i, bits), c, k, bits)
						carries = carries || !ok
					}
					if g.code(packed, i, k) != c {
						t.Fatalf("%d bits, width %d, code %d: %#x, want %#x", bits, k, i, g.code(packed, i, k), c)
					}
					storeWord(want, i, bits, v)
				}
				if carries {
					continue // such a group is never made
				}
				g.decodeGroup(got, base, packed, k, diff)
				if !bytes.Equal(got, want) {
					t.Errorf("%d bits, width %d, diff %v: decodeGroup is wrong", bits, k, diff)
				}
				for n := 1; n <= groupColumns; n++ {
					clear(got)
					g.decodePart(got[:n*int(bits)/8], base[:n*int(bits)/8], g.appendCodes(nil, codes[:n], k), n, k, diff)
					if !bytes.Equal(got[:n*int(bits)/8], want[:n*int(bits)/8]) {
						t.Fatalf("%d bits, width %d, diff %v: decodePart of %d columns is wrong", bits, k, diff, n)
					}
				}
				checked++
			}
		}
		if checked < int(2*bits-5) {
			t.Errorf("%d bits: only %d combinations were checked", bits, checked)
		}
	}
	for k := uint(1); k <= 16; k++ {
		p := make([]byte, 8*k)
		var d32, b32 [256]byte
		if !xor32(&d32, &b32, p, k) || !diff32(&d32, &b32, p, k) {
			t.Errorf("no 32-bit kernel for width %d", k)
		}
		var d16, b16 [128]byte
		if has := xor16(&d16, &b16, p, k) && diff16(&d16, &b16, p, k); has != (k <= 8) {
			t.Errorf("16-bit kernel for width %d: %v", k, has)
		}
	}
}

func TestDifferenceRange(t *testing.T) {
	for _, c := range []struct {
		b, code  uint64
		k, width uint
		ok       bool
	}{
		{0, 4, 3, 32, true},
		{0, 3, 3, 32, false}, // −1
		{lowMask(32), 4, 3, 32, true},
		{lowMask(32), 5, 3, 32, false},
		{lowMask(16), 5, 3, 16, false},
		{lowMask(16), 5, 3, 32, true},
		{0, 3, 3, 64, false},
		{lowMask(64), 5, 3, 64, false},
		{lowMask(64), 4, 3, 64, true},
		{1, 3, 3, 64, true},
	} {
		if _, ok := difference(c.b, c.code, c.k, c.width); ok != c.ok {
			t.Errorf("%+v: %v", c, ok)
		}
	}
}

// TestKernelsAreGenerated runs the generator again: the files here are its work.
func TestKernelsAreGenerated(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("go", "run", "./internal/genkernels", "-out", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != 6 {
		t.Errorf("%d files were generated, want 6", len(made))
	}
	for _, f := range made {
		want, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what go generate makes (%v)", f.Name(), err)
		}
	}
}
