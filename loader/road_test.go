package loader_test

import (
	"testing"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func TestRoad(t *testing.T) {
	dir := t.TempDir()
	a, _ := tensor.FromFloat32s([]float32{1, 2, 3, 4}, 2, 2)
	b, _ := tensor.FromInt64s([]int64{7}, 1)
	names, err := loader.WriteSharded(dir, []loader.Entry{{Name: "a<&>", Tensor: a}, {Name: "b", Tensor: b}}, 16, loader.WriteOptions{Metadata: map[string]string{"format": "pt"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(dir, loader.Options{})
	if err != nil {
		t.Fatal(names, err)
	}
	defer c.Close()
	got, err := c.Tensor("a<&>")
	if err != nil || !tensor.BitEqual(got, a) {
		t.Fatal(err)
	}
	_, err = loader.Strict(c, []loader.Param{{Name: "a<&>", Shape: tensor.Shape{4}}, {Name: "c"}, {Name: "d", Shape: tensor.Shape{1}, DTypes: []tensor.DType{tensor.F32}}}, loader.Policy{})
	t.Log(err)
	t.Log(err.(*loader.StrictError).Summary())
}
