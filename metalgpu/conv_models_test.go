package metalgpu

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/hfcompress/compress/architectures/f5dit"
	_ "github.com/hfcompress/compress/architectures/hyenadna"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// lanesCPU is the CPU device, but for linear maps over few rows, which add in the
// order of the GPU device.
type lanesCPU struct{ nn.Device }

func (d lanesCPU) Begin(ctx context.Context) nn.Session {
	s := d.Device.Begin(ctx)
	return &lanesSession{s, s.(nn.Convolver), s.(nn.LongConvolver)}
}

type lanesSession struct {
	nn.Session
	nn.Convolver
	nn.LongConvolver
}

func (s *lanesSession) Linear(x, w, b nn.Array) nn.Array {
	if isNil(b) {
		b = nil
	}
	e := env{s: s.Session, dtype: x.DType(), reference: true}
	return e.linear(x, w, b)
}

// TestConvolvingModels runs small models that convolve on the GPU: all outputs have
// the bits of the CPU device with the GPU's order of few rows.
func TestConvolvingModels(t *testing.T) {
	var dirs []string
	for _, pattern := range []string{"f5dit/testdata/*", "hyenadna/testdata/golden/*"} {
		found, err := filepath.Glob(filepath.Join("..", "architectures", pattern, "model.safetensors"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no models in %s: %v", pattern, err)
		}
		dirs = append(dirs, found...)
	}
	eachDevice(t, func(t *testing.T, o Options) {
		d, cpu := openTest(t, o), lanesCPU{openCPU(t)}
		for i, path := range dirs {
			if (testing.Short() || o.API == "go") && i%5 != 0 {
				continue
			}
			dir := filepath.Dir(path)
			family, _, _ := strings.Cut(filepath.ToSlash(dir)[len("../architectures/"):], "/")
			t.Run(family+"/"+filepath.Base(dir), func(t *testing.T) {
				got, spec, tolerance := buildModel(t, d, dir)
				want, _, _ := buildModel(t, cpu, dir)
				examples := validation.Generate(spec, validation.Options{MaxPositions: 1500, MaxSingles: 2, MaxLength: 100})
				step := max(1, len(examples)/24)
				if testing.Short() || o.API == "go" {
					step = max(1, len(examples)/3)
				}
				same, outputs := 0, 0
				for i := 0; i < len(examples); i += step {
					e := examples[i]
					a, err := got.Forward(context.Background(), e.Inputs)
					if err != nil {
						t.Fatalf("%s: %v", e.Name, err)
					}
					b, err := want.Forward(context.Background(), e.Inputs)
					if err != nil {
						t.Fatal(err)
					}
					for j, out := range b {
						outputs++
						if tensor.BitEqual(a[j].Tensor, out.Tensor) {
							same++
							continue
						}
						t.Errorf("%s: %s has other bits", e.Name, out.Name)
						near(t, e.Name+", "+out.Name, a[j].Tensor, out.Tensor, tolerance)
					}
				}
				t.Logf("%d of %d outputs of %d calls have the CPU's bits", same, outputs, (len(examples)+step-1)/step)
				if outputs == 0 {
					t.Error("nothing was compared")
				}
			})
		}
	})
}
