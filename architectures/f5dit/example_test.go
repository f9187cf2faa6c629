package f5dit_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/f5dit"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// The times at which the published sampler evaluates the model in seven steps.
func ExampleTimesteps() {
	times, err := f5dit.Timesteps(7)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range times {
		fmt.Println(t)
	}
	// Output:
	// 0
	// 0.0048152804
	// 0.01921469
	// 0.043059647
	// 0.076120496
	// 0.29289323
	// 0.6173166
}

// Load a checkpoint for the times of the published sampler and take the first step
// of speech from noise.
func Example() {
	dir := filepath.Join("testdata", "v1")
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		log.Fatal(err)
	}
	cfg, err := architectures.ParseConfig(text)
	if err != nil {
		log.Fatal(err)
	}
	family, err := architectures.ForConfig(cfg)
	if err != nil {
		log.Fatal(err)
	}
	blueprint, err := family.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	times, err := f5dit.Timesteps(f5dit.DefaultSteps)
	if err != nil {
		log.Fatal(err)
	}
	domain, err := nn.NewTimesteps(nn.Cast{DType: tensor.F32}, times)
	if err != nil {
		log.Fatal(err)
	}
	if blueprint, err = blueprint.(architectures.Scheduled).WithTimesteps(domain); err != nil {
		log.Fatal(err)
	}
	checkpoint, err := loader.Open(filepath.Join(dir, "model.safetensors"), loader.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer checkpoint.Close()
	weights, err := loader.Strict(checkpoint, blueprint.Params(), loader.Policy{})
	if err != nil {
		log.Fatal(err)
	}
	device, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	model, err := blueprint.Build(device, weights, nil)
	if err != nil {
		log.Fatal(err)
	}

	const rows, mel = 12, 5
	noise := make([]float32, rows*mel)
	for i := range noise {
		noise[i] = float32(i%7) - 3
	}
	must := func(t *tensor.Tensor, err error) *tensor.Tensor {
		if err != nil {
			log.Fatal(err)
		}
		return t
	}
	out, err := model.Forward(context.Background(), architectures.Inputs{
		Tensors: map[string]*tensor.Tensor{
			"x":    must(tensor.FromFloat32s(noise, 1, rows, mel)),
			"cond": must(tensor.New(tensor.F32, 1, rows, mel)),
			"text": must(tensor.FromInt64s([]int64{4, 1, 9, 3}, 1, 4)),
			"time": must(tensor.FromFloat32s(times[:1], 1)),
		},
		Flags: map[string]bool{"cfg_infer": true},
	})
	if err != nil {
		log.Fatal(err)
	}
	c := model.(*f5dit.Model).Config()
	fmt.Println(&c)
	fmt.Println(out[0].Name, out[0].Tensor)
	// Output:
	// f5_dit: 2 layers, width 32, 2 heads, 11 text ids with 4 convolutions
	// flow F32[2,12,5]
}
