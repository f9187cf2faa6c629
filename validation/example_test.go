package validation_test

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

func ExampleCompare() {
	source, err := tensor.FromFloat32s([]float32{0, 1, 2}, 1, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	candidate, err := tensor.FromFloat32s([]float32{0, 1, 2.5}, 1, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := validation.Compare("logits", source, candidate, validation.Gate{})
	fmt.Println(r.Accepted, r.MaxAbs)
	fmt.Println(r.Reason)
	// Output:
	// false 0.5
	// max abs 0.5 exceeds 1e-05; first at [0 2]: source 2 (0x40000000), candidate 2.5 (0x40200000)
}

func ExampleGenerate() {
	spec := architectures.InputSpec{Vocabulary: 84, MaxPositions: 128, Masks: true}
	examples := validation.Generate(spec, validation.Options{Boundaries: []int{1, 15}})
	for _, e := range examples[:4] {
		fmt.Println(e.Name, e.Inputs.Tensors["input_ids"])
	}
	// Output:
	// rows-1 I64[1,1]
	// rows-2 I64[1,2]
	// rows-2x1 I64[2,1]
	// rows-14 I64[1,14]
}

func ExampleRun() {
	source := newFake()
	candidate := source.with(func(_ int, out architectures.Outputs) (architectures.Outputs, error) {
		out.Get("experts").Int64s()[0] ^= 1
		return out, nil
	})
	examples := validation.Generate(architectures.InputSpec{Vocabulary: source.vocabulary}, validation.Options{MaxLength: 4, MaxRows: 4})
	report, err := validation.Run(context.Background(), source, candidate, examples, validation.Gate{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Accepted, report.FirstFailure.Example, report.FirstFailure.Output)
	// Output:
	// false rows-1 experts
}
