package xortable_test

import (
	"fmt"

	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// Two tables that differ by rounding: the second costs its differences only.
func Example() {
	bulk := make([]float32, 4*256)
	for i := range bulk {
		bulk[i] = 1 + float32(i)/1024
	}
	single := append([]float32(nil), bulk...)
	for i := 0; i < len(single); i += 3 {
		single[i] *= 1 + 0x1p-23 // one unit in the last place
	}
	a, err := tensor.FromFloat32s(bulk, 4, 256)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := tensor.FromFloat32s(single, 4, 256)
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := xortable.Encode([]*tensor.Tensor{a, b}, xortable.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := set.Report()
	fmt.Println(r.Routes[1].Mode, r.TotalBytes, "of", r.FullBytes, r.Status)

	row := make([]byte, 4*256)
	if err := set.Route(1).DecodeRow(row, 2); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(row) == string(b.Row(2)))
	// Output:
	// packed 4324 of 8192 byte_verified
	// true
}
