package loader_test

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	weight, err := tensor.FromFloat32s([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	bias, err := tensor.FromFloat32s([]float32{0, 0}, 2)
	if err != nil {
		log.Fatal(err)
	}
	// At most 24 bytes in a shard: two shards and an index.
	_, err = loader.WriteSharded(dir, []loader.Entry{
		{Name: "fc.weight", Tensor: weight},
		{Name: "fc.bias", Tensor: bias},
	}, 24, loader.WriteOptions{Metadata: map[string]string{"format": "pt"}})
	if err != nil {
		log.Fatal(err)
	}

	c, err := loader.Open(dir, loader.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for _, name := range c.Names() {
		t, err := c.Tensor(name)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(name, t, "in", c.FileOf(name))
	}
	// Output:
	// fc.weight F32[2,3] in model-00001-of-00002.safetensors
	// fc.bias F32[2] in model-00002-of-00002.safetensors
}

func ExampleStrict() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	embed, err := tensor.FromFloat32s([]float32{1, 2, 3, 4}, 2, 2)
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	if err := loader.WriteFile(path, []loader.Entry{{Name: "embed", Tensor: embed}}, loader.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
	c, err := loader.Open(path, loader.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	f32 := []tensor.DType{tensor.F32}
	weights, err := loader.Strict(c, []loader.Param{
		{Name: "embed", Shape: tensor.Shape{2, 2}, DTypes: f32},
		{Name: "head", Shape: tensor.Shape{2, 2}, DTypes: f32, TiedTo: "embed"},
	}, loader.Policy{})
	if err != nil {
		log.Fatal(err)
	}
	head, err := weights.Tensor("head")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("head is", head, "filled:", weights.Filled())

	_, err = loader.Strict(c, []loader.Param{
		{Name: "embed", Shape: tensor.Shape{2, 3}, DTypes: []tensor.DType{tensor.BF16}},
		{Name: "norm", Shape: tensor.Shape{3}, DTypes: f32},
	}, loader.Policy{})
	for _, p := range err.(*loader.StrictError).Problems {
		fmt.Println(p)
	}
	// Output:
	// head is F32[2,2] filled: [{head embed}]
	// missing "norm": expected F32[3]
	// shape "embed" in model.safetensors: expected [2,3], found [2,2]
	// dtype "embed" in model.safetensors: expected BF16, found F32
}

func ExampleScanHeader() {
	var file bytes.Buffer
	x, err := tensor.FromInt64s([]int64{1, 2, 3}, 3)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := loader.Write(&file, []loader.Entry{{Name: "ids", Tensor: x}}, loader.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
	h, err := loader.ScanHeader(bytes.NewReader(file.Bytes()), int64(file.Len()), loader.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range h.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Bytes(), "bytes")
	}
	fmt.Printf("%s\n", bytes.TrimRight(h.Raw(), " ")) // padded to eight bytes

	// One byte less is an error that says which tensor is cut.
	_, err = loader.ScanHeader(bytes.NewReader(file.Bytes()), int64(file.Len()-1), loader.Limits{})
	fmt.Println(err)
	// Output:
	// ids I64 [3] 24 bytes
	// {"ids":{"dtype":"I64","shape":[3],"data_offsets":[0,24]}}
	// truncated in tensor "ids": expected at least 96 bytes, found 95
}
