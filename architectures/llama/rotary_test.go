package llama_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
)

// TestInverseFrequencies compares with the inv_freq buffer that transformers
// 5.24.0 computes (LlamaRotaryEmbedding under torch 2.15.0, CPU), as float32 bit
// patterns.
func TestInverseFrequencies(t *testing.T) {
	for _, c := range []struct {
		rope nn.Rope
		size int
		want string
	}{
		{nn.Rope{Scaling: nn.RopeDefault, Theta: 10000}, 64,
			"3f800000 3f3ff911 3f0ff59a 3ed7e89b 3ea1e89b 3e72d423 3e361887 3e088d77 3dcccccd 3d99940d " +
				"3d6655c2 3d2cba15 3d0186e3 3cc2434f 3c91ad39 3c5a7bf2 3c23d70a 3bf5b9b0 3bb8449c 3b8a2e77 " +
				"3b4f3e38 3b1b690d 3ae91528 3aaec98e 3a83126f 3a44948c 3a136a16 39dd1725 39a5cb60 3978a815 " +
				"393a7753 390bd472"},
		{nn.Rope{Scaling: nn.RopeLinear, Theta: 1e6, Factor: 3}, 16,
			"3eaaaaab 3d72cb5f 3c2cb3d9 3af5b0d0 39aec33f 38789f19 3730d8ed 35fb9657"},
		{nn.Rope{Scaling: nn.RopeLlama3, Theta: 500000, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalPositions: 8192}, 128,
			"3f800000 3f508ac1 3f29e1c6 3f0a6384 3ee177bc 3eb7ab7d 3e959ee3 3e73c461 3e4693b0 3e21c3a0 " +
				"3e03c6a0 3dd6b19c 3daee4ad 3d8e7898 3d681e67 3d3d1684 3d1a08c8 3cfaf53f 3ccc6f49 3ca68939 " +
				"3c87a9c3 3c5d06ec 3c340d6d 3c12ac7f 3beef74f 3bc2aa76 3b9e9402 3b812e35 3b527720 3b0dfd06 " +
				"3ab3d11d 3a60979e 3a0995d2 39a3f108 393b2dd2 38c86886 38a3418d 3884fdbf 3858ac81 38308199 " +
				"380fc8f8 37ea426f 37bed4f4 379b7475 377d45c3 374e51f5 3728126b 3708ea0f 36df10c4 36b5b687 " +
				"369406cb 36712b80 36447610 36200a69 36025f34 35d46808 35ad07a7 358cf400 3565a54d 353b12c7 " +
				"351864a7 34f848c2 34ca41b0 34a4c2ff"},
	} {
		want := strings.Fields(c.want)
		c.rope.Dim = c.size
		got, err := c.rope.InverseFrequencies()
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d frequencies, want %d", c.rope.Scaling, len(got), len(want))
		}
		for i, g := range got {
			w, err := strconv.ParseUint(want[i], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			if math.Float32bits(g) != uint32(w) {
				t.Errorf("%s, frequency %d: %g, want %g", c.rope.Scaling, i, g, math.Float32frombits(uint32(w)))
			}
		}
	}
}
