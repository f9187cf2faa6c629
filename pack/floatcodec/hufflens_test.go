package floatcodec

import (
	"math/rand/v2"
	"testing"
)

// TestPlainHuffmanIsOptimal compares the two ways to an optimal code, which may
// differ in lengths but not in cost, where the limit does not bind.
func TestPlainHuffmanIsOptimal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	plain := 0
	for range 2000 {
		n := 2 + r.IntN(255)
		leaves := make([]leaf, n)
		for i := range leaves {
			weight := 1 + uint64(i)*uint64(r.IntN(5))
			if i > 0 {
				last := leaves[i-1].weight()
				weight = max(weight+last*uint64(r.IntN(2)), last)
			}
			leaves[i] = leaf(min(weight, 1<<20))<<8 | leaf(i)
		}
		var a, b codeLens
		for i := range a {
			a[i], b[i] = absent, absent
		}
		for _, l := range leaves {
			b[l.sym()] = 0
		}
		packageMerge(leaves, &b)
		if err := b.check(); err != nil {
			t.Fatal(err)
		}
		if !plainHuffman(leaves, &a) {
			continue
		}
		plain++
		if err := a.check(); err != nil {
			t.Fatal(err)
		}
		costA, costB := uint64(0), uint64(0)
		for _, l := range leaves {
			costA += l.weight() * uint64(a[l.sym()])
			costB += l.weight() * uint64(b[l.sym()])
		}
		if costA != costB {
			t.Fatalf("%d leaves: %d bits, and %d by package-merge", n, costA, costB)
		}
	}
	if plain < 100 {
		t.Errorf("only %d codes within the limit", plain)
	}
}
