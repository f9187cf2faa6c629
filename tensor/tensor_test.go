package tensor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/hfcompress/compress/tensor"
)

func TestDTypeNames(t *testing.T) {
	for d := tensor.Bool; d <= tensor.C64; d++ {
		got, err := tensor.ParseDType(d.String())
		if err != nil || got != d {
			t.Errorf("ParseDType(%q) = %v, %v", d.String(), got, err)
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var back tensor.DType
		if err := json.Unmarshal(text, &back); err != nil || back != d {
			t.Errorf("JSON %s gave %v, %v", text, back, err)
		}
	}
	for _, bad := range []string{"", "f32", "INVALID", "F33"} {
		if _, err := tensor.ParseDType(bad); !errors.Is(err, tensor.ErrDType) {
			t.Errorf("ParseDType(%q): %v", bad, err)
		}
	}
	if _, err := json.Marshal(tensor.Invalid); err == nil {
		t.Error("an invalid dtype was written")
	}
}

func TestShapeBytes(t *testing.T) {
	big := math.MaxInt/2 + 1
	for _, c := range []struct {
		shape tensor.Shape
		dtype tensor.DType
		want  int
		bad   bool
	}{
		{tensor.Shape{}, tensor.F32, 4, false},
		{tensor.Shape{84, 512}, tensor.F32, 172032, false},
		{tensor.Shape{0, big, big}, tensor.F64, 0, false},
		{tensor.Shape{3}, tensor.F4, 0, true}, // 12 bits
		{tensor.Shape{4}, tensor.F4, 2, false},
		{tensor.Shape{big, 2}, tensor.U8, 0, true},
		{tensor.Shape{big}, tensor.F32, 0, true},
		{tensor.Shape{-1}, tensor.F32, 0, true},
		{tensor.Shape{-1, 0}, tensor.F32, 0, true},
		{tensor.Shape{1}, tensor.Invalid, 0, true},
	} {
		got, err := c.shape.Bytes(c.dtype)
		if (err != nil) != c.bad || got != c.want {
			t.Errorf("%v of %v: %d, %v", c.shape, c.dtype, got, err)
		}
	}
}

func TestBitEqual(t *testing.T) {
	zero := []float32{0, 1}
	negative := []float32{float32(math.Copysign(0, -1)), 1}
	a, _ := tensor.FromFloat32s(zero, 2)
	b, _ := tensor.FromFloat32s(negative, 2)
	if tensor.BitEqual(a, b) {
		t.Error("+0 and −0 compare equal")
	}
	if !tensor.BitEqual(a, a.Clone()) {
		t.Error("a clone differs")
	}
	c, _ := a.Reshape(1, 2)
	if tensor.BitEqual(a, c) {
		t.Error("shapes are not compared")
	}
	nan1, nan2 := math.Float32frombits(0x7fc00001), math.Float32frombits(0x7fc00002)
	d, _ := tensor.FromFloat32s([]float32{nan1}, 1)
	e, _ := tensor.FromFloat32s([]float32{nan2}, 1)
	if tensor.BitEqual(d, e) || !tensor.BitEqual(d, d.Clone()) {
		t.Error("NaN payloads are not compared by bits")
	}
}

func TestFromBytesAligns(t *testing.T) {
	raw := make([]byte, 4*3+1)
	for i := range raw {
		raw[i] = byte(i)
	}
	for offset := range 2 {
		x, err := tensor.FromBytes(tensor.F32, tensor.Shape{3}, raw[offset:offset+12])
		if err != nil {
			t.Fatal(err)
		}
		if got := x.Uint32s()[0] & 0xff; got != uint32(offset) {
			t.Errorf("offset %d: first byte %d", offset, got)
		}
	}
	if _, err := tensor.FromBytes(tensor.F32, tensor.Shape{3}, raw); !errors.Is(err, tensor.ErrShape) {
		t.Errorf("13 bytes accepted for 12: %v", err)
	}
}

func Example() {
	x, err := tensor.FromFloat32s([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		panic(err)
	}
	y := x.Clone()
	y.Float32s()[0] = 7
	fmt.Println(x, tensor.BitEqual(x, y))
	// Output: F32[2,3] false
}
