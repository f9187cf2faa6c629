package metalgpu_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu"
	"github.com/hfcompress/compress/tensor"
)

// A linear map on the driver in plain Go, which every machine has; without API it
// runs on the best GPU.
func ExampleOpen() {
	ctx := context.Background()
	dev, err := metalgpu.Open(ctx, metalgpu.Options{API: "go"})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	weight, err := tensor.FromFloat32s([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	row, err := tensor.FromFloat32s([]float32{1, 10, 100}, 1, 3)
	if err != nil {
		log.Fatal(err)
	}
	w, err := dev.Upload(weight, nn.AsMatrix)
	if err != nil {
		log.Fatal(err)
	}

	s := dev.Begin(ctx)
	y := s.ToHost(s.Linear(s.FromHost(row), w, nil))
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(y.Float32s())
	for _, r := range dev.Info().Regimes {
		fmt.Println(r.Name, "from", r.MinRows)
	}
	// Output:
	// [321 654]
	// lanes from 1
	// tiled from 16
}

// What a device has too little memory for is an error with the numbers.
func ExampleMemoryError() {
	ctx := context.Background()
	dev, err := metalgpu.Open(ctx, metalgpu.Options{API: "go", MemoryLimit: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	weight, err := tensor.FromFloat32s(make([]float32, 8<<20), 1<<10, 8<<10)
	if err != nil {
		log.Fatal(err)
	}
	_, err = dev.Upload(weight, nn.AsMatrix)
	var short *metalgpu.MemoryError
	if errors.As(err, &short) {
		fmt.Printf("%d bytes do not fit into %d\n", short.Wanted, short.Capacity)
	}
	// Output:
	// 33554432 bytes do not fit into 16777216
}
