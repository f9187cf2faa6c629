package llama_test

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"testing"
)

// TestBitsAreTheSameEverywhere pins the bytes of whole outputs on the CPU
// device. They must not depend on the processor, the port or the number of
// threads; a changed digest on one machine alone is a bug, and a change
// everywhere means that an operation's order or rounding was changed.
func TestBitsAreTheSameEverywhere(t *testing.T) {
	dev := openCPU(t)
	for _, c := range []struct{ name, run, want string }{
		{"gqa", "left_pad", "4d41da2b0e4fa301"},
		{"bias", "posids", "a089d8517b5f19de"},
		{"llama3_rope", "long", "66d43601b16fcb13"},
	} {
		golden := readTensors(t, filepath.Join(goldenDir, c.name, "golden.safetensors"))
		sum := sha256.New()
		for _, o := range forward(t, build(t, dev, c.name, nil), inputsOf(golden, c.run)) {
			sum.Write(o.Tensor.Bytes())
		}
		if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != c.want {
			t.Errorf("%s/%s: %s, want %s", c.name, c.run, got, c.want)
		}
	}
}
