package llama_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/llama"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
)

// newBlueprint reads a config.json and finds the family that it describes.
func newBlueprint(configFile string) (architectures.Blueprint, error) {
	data, err := os.ReadFile(configFile)
	if err != nil {
		return nil, err
	}
	cfg, err := architectures.ParseConfig(data)
	if err != nil {
		return nil, err
	}
	family, err := architectures.ForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return family.New(cfg)
}

// generate loads the model in dir onto a new CPU device and continues prompt.
func generate(dir string, prompt []int, maxNew int) (ids []int, err error) {
	blueprint, err := newBlueprint(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	checkpoint, err := loader.Open(dir, loader.Options{File: "model.safetensors"})
	if err != nil {
		return nil, err
	}
	defer checkpoint.Close()
	weights, err := loader.Strict(checkpoint, blueprint.Params(), loader.Policy{})
	if err != nil {
		return nil, err
	}
	device, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		return nil, err
	}
	defer device.Close()
	model, err := blueprint.Build(device, weights, nil)
	if err != nil {
		return nil, err
	}
	out, err := model.(architectures.Generator).Generate(context.Background(), [][]int{prompt}, maxNew)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// ExampleModel_NewDecoder feeds a sequence in two pieces, as a program does that
// chooses tokens in its own way.
func ExampleModel_NewDecoder() {
	err := func() error {
		blueprint, err := newBlueprint("testdata/golden/mqa/config.json")
		if err != nil {
			return err
		}
		checkpoint, err := loader.Open("testdata/golden/mqa", loader.Options{File: "model.safetensors"})
		if err != nil {
			return err
		}
		defer checkpoint.Close()
		device, err := nn.OpenCPU(nn.CPUOptions{})
		if err != nil {
			return err
		}
		defer device.Close()
		model, err := blueprint.Build(device, checkpoint, nil)
		if err != nil {
			return err
		}

		decoder, err := model.(*llama.Model).NewDecoder(1, 8) // one sequence of up to 8 positions
		if err != nil {
			return err
		}
		for _, ids := range [][]int{{1, 5, 3}, {14}} {
			in, err := architectures.TokenInputs(ids)
			if err != nil {
				return err
			}
			out, err := decoder.Step(context.Background(), in)
			if err != nil {
				return err
			}
			fmt.Println(out.Get("logits"), decoder.Len(), "of", decoder.Capacity())
		}
		return nil
	}()
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// F32[1,3,19] 3 of 8
	// F32[1,1,19] 4 of 8
}

// A model is built from its configuration and its checkpoint: the family that
// the configuration names declares the parameters, the loader checks the
// checkpoint against them, and the blueprint uploads them to a device.
func Example() {
	ids, err := generate("testdata/golden/mqa", []int{1, 5, 3}, 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ids)
	// Output: [1 5 3 14 10 14 14 16 14 13 2]
}
