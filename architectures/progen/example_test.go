package progen_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/architectures/progen"
	"github.com/hfcompress/compress/loader"
)

// open builds the model in dir on a new CPU device.
func open(dir string) (*progen.Model, error) {
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	cfg, err := architectures.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	family, err := architectures.ForConfig(cfg)
	if err != nil {
		return nil, err
	}
	blueprint, err := family.New(cfg)
	if err != nil {
		return nil, err
	}
	checkpoint, err := loader.Open(dir, loader.Options{File: "model.safetensors"})
	if err != nil {
		return nil, err
	}
	blueprint = architectures.ForNames(blueprint, checkpoint.Names())
	weights, err := loader.Strict(checkpoint, blueprint.Params(), loader.Policy{})
	if err != nil {
		return nil, err
	}
	device, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		return nil, err
	}
	model, err := blueprint.Build(device, weights, nil)
	if err != nil {
		return nil, err
	}
	return model.(*progen.Model), nil
}

func ExampleModel_Generate() {
	model, err := open("testdata/golden/plain")
	if err != nil {
		fmt.Println(err)
		return
	}
	ids, err := model.Generate(context.Background(), [][]int{{2, 5, 7}}, 5)
	fmt.Println(ids, err)
	// Output: [[2 5 7 5 3 6 5 16]] <nil>
}
