package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
)

// Batches of the trained model's forward pass, as in torch_forward.py.
var (
	batches = []int{1, 16, 256}
	tokens  = 64
)

// forward times whole passes of a package's model, logits read back, and prints
// tokens per second: the best of some rounds.
func forward(ctx context.Context, dir, device string) error {
	model, err := compress.Load(ctx, dir, compress.LoadOptions{Device: device})
	if err != nil {
		return err
	}
	defer model.Close()
	fmt.Printf("forward pass of %s on %s, %d tokens each\n", dir, device, tokens)
	for _, batch := range batches {
		ids := make([][]int, batch)
		for b := range ids {
			ids[b] = make([]int, tokens)
			for t := range ids[b] {
				ids[b][t] = 3 + (b+7*t)%29
			}
		}
		inputs, err := architectures.TokenInputs(ids...)
		if err != nil {
			return err
		}
		best := time.Duration(1<<63 - 1)
		for range 6 {
			start := time.Now()
			if _, err := model.Forward(ctx, inputs); err != nil {
				return err
			}
			best = min(best, time.Since(start))
		}
		fmt.Printf("batch %3d: %12.0f tokens/s\n", batch, float64(batch*tokens)/best.Seconds())
	}
	return nil
}
