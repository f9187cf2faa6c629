//go:build amd64 && gc && !noasm

package floatcodec

import (
	"bytes"
	"testing"

	"github.com/hfcompress/compress/tensor"
)

// TestKernelsMatch encodes and decodes with and without the kernels.
func TestKernelsMatch(t *testing.T) {
	kernels, wide := haveKernels, haveWideKernels
	defer func() { haveKernels, haveFieldKernels, haveWideKernels = kernels, kernels, wide }()
	for _, d := range []tensor.DType{tensor.BF16, tensor.F16, tensor.F32, tensor.I8, tensor.F8E4M3, tensor.F8E5M2} {
		for _, n := range []int{100, 256, 4096 + 17, 70_001} {
			for seed := range uint64(3) {
				raw := gaussian(d, n, seed)
				if seed == 2 { // rare symbols and values outside the window
					copy(raw[n/2:], randomBytes(min(200, n/4), 1))
				}
				var encs [][]byte
				for _, mode := range [][2]bool{{false, false}, {true, false}, {true, true}} {
					haveKernels, haveWideKernels = kernels && mode[0], wide && mode[1]
					haveFieldKernels = haveKernels
					enc, err := Encode(nil, d, nil, raw, Options{})
					if err != nil {
						t.Fatal(err)
					}
					if encs = append(encs, enc); !bytes.Equal(enc, encs[0]) {
						t.Fatalf("%v, %d elements: kernels %v write other bytes", d, n, mode)
					}
					dec, err := Decode(nil, encs[0], Limits{})
					if err != nil || !bytes.Equal(dec, raw) {
						t.Fatalf("%v, %d elements: kernels %v read other bytes: %v", d, n, mode, err)
					}
				}
			}
		}
	}
}
