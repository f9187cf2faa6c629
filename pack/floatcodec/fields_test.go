//go:build (amd64 || arm64) && gc && !noasm

package floatcodec

import (
	"bytes"
	"testing"
)

// TestFieldKernels compares kernels for fields with their twins on any bits.
func TestFieldKernels(t *testing.T) {
	if !haveFieldKernels {
		t.Log("this processor lacks the instructions: nothing to compare")
		return
	}
	for _, base := range []int{0, 1, 200, 511} {
		for _, blocks := range []int{1, 2, 7} {
			n := 64 * blocks
			s := newSplitter(bf16Layout, base)
			raw := randomBytes(2*n, uint64(base+blocks))
			if blocks == 2 { // inside the window of base 0
				for i := 1; i < len(raw); i += 2 {
					raw[i] &= 0xbf
				}
			}
			sym, field := make([]byte, n), make([]byte, n)
			over := s.splitBF16(raw, n, sym, field)
			packed := packFields(nil, field, 7)
			gotSym, gotPacked := make([]byte, n), make([]byte, len(packed)+packSlack)
			gotOver := splitFieldsBF16(&gotSym[0], &gotPacked[0], &raw[0], blocks, s.negBase) != 0
			if gotOver != over || !bytes.Equal(gotSym, sym) || !bytes.Equal(gotPacked[:len(packed)], packed) {
				t.Errorf("base %d, %d blocks: split differs", base, blocks)
			}
			for i := range sym { // any symbol, any field
				sym[i] += byte(i)
			}
			want, got := make([]byte, 2*n), make([]byte, 2*n)
			s.mergeBF16(want, n, sym, field)
			mergeFieldsBF16(&got[0], &sym[0], &packed[0], blocks, s.swar.base)
			if !bytes.Equal(got, want) {
				t.Errorf("base %d, %d blocks: merge differs", base, blocks)
			}
		}
	}
}
