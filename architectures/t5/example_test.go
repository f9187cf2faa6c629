package t5_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/architectures/t5"
	"github.com/hfcompress/compress/loader"
)

// open builds the model in dir on a new CPU device.
func open(dir string) (*t5.Model, error) {
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
	return model.(*t5.Model), nil
}

func ExampleModel_GenerateFrom() {
	model, err := open("testdata/golden/byt5")
	if err != nil {
		fmt.Println(err)
		return
	}
	ids, err := model.GenerateFrom(context.Background(), [][]int{{2, 5, 7}}, 5)
	fmt.Println(ids, err)
	// Output: [[1]] <nil>
}
