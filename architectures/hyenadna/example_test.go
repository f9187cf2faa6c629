package hyenadna_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/hyenadna"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
)

// open builds the model in dir on a new CPU device.
func open(dir string) (*hyenadna.Model, error) {
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
	return model.(*hyenadna.Model), nil
}

func ExampleModel_Forward() {
	model, err := open("testdata/golden/third_order")
	if err != nil {
		fmt.Println(err)
		return
	}
	letters := map[rune]int{'A': 7, 'C': 8, 'G': 9, 'T': 10, 'N': 11}
	var ids []int
	for _, letter := range "GATTACA" {
		ids = append(ids, letters[letter])
	}
	in, err := architectures.TokenInputs(append(ids, 1)) // 1 is [SEP]
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := model.Forward(context.Background(), in)
	fmt.Println(out.Get("logits"), err)
	// Output: F32[1,8,16] <nil>
}
