package declared_test

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/declared"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func readUCE(t testing.TB) *declared.Blueprint {
	t.Helper()
	b, _, err := declared.ReadFile("testdata/uce.json")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// openUCE returns the golden file: weights, and tensors of the calls by names
// with a slash.
func openUCE(t testing.TB) *loader.Checkpoint {
	t.Helper()
	c, err := loader.Open("testdata/uce.safetensors", loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func cpu(t testing.TB, mode string) nn.Device {
	t.Helper()
	dev, err := nn.OpenCPU(nn.CPUOptions{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// The tower of uce.json computes what PyTorch's modules compute with the same
// weights, with and without padding.
func TestGolden(t *testing.T) {
	c := openUCE(t)
	m, err := readUCE(t).Build(cpu(t, ""), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"plain", "padded"} {
		in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}}
		for _, name := range []string{"input_ids", "attention_mask"} {
			if x, err := c.Tensor(call + "/" + name); err == nil {
				in.Tensors[name] = x
			}
		}
		out, err := m.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) != 2 {
			t.Fatalf("%d outputs", len(out))
		}
		for _, o := range out {
			want, err := c.Tensor(call + "/" + o.Name)
			if err != nil {
				t.Fatal(err)
			}
			if !want.Shape().Equal(o.Tensor.Shape()) {
				t.Fatalf("%s %s: shape %v, expected %v", call, o.Name, o.Tensor.Shape(), want.Shape())
			}
			worst, scale := 0.0, 0.0
			for i, v := range o.Tensor.Float32s() {
				w := want.Float32s()[i]
				if call == "padded" && o.Name == "gene_embeddings" {
					// The reference leaves hidden positions to chance.
					mask := in.Tensors["attention_mask"].Int64s()
					if mask[i/want.Shape()[2]] == 0 {
						continue
					}
				}
				worst, scale = max(worst, math.Abs(float64(v-w))), max(scale, math.Abs(float64(w)))
			}
			if !(worst <= 1e-5*scale) {
				t.Errorf("%s %s: %g apart at a scale of %g", call, o.Name, worst, scale)
			}
		}
	}
}

// The documents show the file that the tests run.
func TestDocExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/arch-file.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("testdata/uce.json")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```json\n"+string(file)+"```") {
		t.Error("docs/arch-file.md does not show testdata/uce.json as it is")
	}
}
