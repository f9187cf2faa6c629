package llama_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/architectures"
	_ "github.com/hfcompress/compress/architectures/llama"
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
