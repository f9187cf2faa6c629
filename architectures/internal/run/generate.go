package run

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/tensor"
)

// Generate continues each prompt by up to maxNew tokens, each the most likely
// one, and returns prompts and continuations together. A sequence ends with one
// of the end tokens, which is included. Prompts may differ in length: shorter
// ones are padded on the left, hidden from attention, and their positions count
// from their first token.
func (m *Causal) Generate(ctx context.Context, prompts [][]int, maxNew int) ([][]int, error) {
	longest := 0
	for i, p := range prompts {
		if len(p) == 0 {
			return nil, fmt.Errorf("%w: prompt %d is empty", batch.ErrInput, i)
		}
		longest = max(longest, len(p))
	}
	if len(prompts) == 0 {
		return nil, fmt.Errorf("%w: no prompts", batch.ErrInput)
	}
	if maxNew < 0 || maxNew > batch.MaxPositions {
		return nil, fmt.Errorf("%w: %d new tokens; expected 0 to %d", batch.ErrInput, maxNew, batch.MaxPositions)
	}
	out := make([][]int, len(prompts))
	for i, p := range prompts {
		out[i] = slices.Clone(p)
	}
	in, err := m.padded(prompts, longest)
	if err != nil {
		return nil, err
	}
	if _, err := m.Limits.Parse(in, 0); err != nil { // also when maxNew is 0
		return nil, err
	}
	if maxNew == 0 {
		return out, nil
	}
	d, err := m.NewDecoder(len(prompts), longest+maxNew)
	if err != nil {
		return nil, err
	}

	done := make([]bool, len(prompts))
	for made := 0; ; {
		step, err := d.step(ctx, in, true)
		if err != nil {
			return nil, err
		}
		logits := architectures.Floats(step.Get("logits"))
		width := len(logits) / len(prompts)
		ids, open := make([]int, len(prompts)), 0
		positions := make([]int, len(prompts))
		for i := range prompts {
			positions[i] = len(out[i])
			if done[i] { // the batch goes on; this row's results are not used
				ids[i], positions[i] = m.Fill, 0
				continue
			}
			if ids[i], err = Argmax(logits[i*width : (i+1)*width]); err != nil {
				return nil, fmt.Errorf("sequence %d after %d tokens: %w", i, len(out[i]), err)
			}
			out[i] = append(out[i], ids[i])
			if done[i] = slices.Contains(m.EndTokens, ids[i]); !done[i] {
				open++
			}
		}
		if made++; open == 0 || made == maxNew {
			return out, nil
		}
		for i, at := range positions {
			if limit := m.Limits.Positions; limit > 0 && at >= limit {
				return nil, fmt.Errorf("%w: %d new tokens behind the %d of sequence %d: the model has %d positions, which are full after %d",
					batch.ErrInput, maxNew, len(prompts[i]), i, limit, made)
			}
		}
		if in, err = m.column(ids, positions); err != nil {
			return nil, err
		}
	}
}

// padded packs prompts of different lengths, aligned on the right.
func (m *Causal) padded(prompts [][]int, width int) (architectures.Inputs, error) {
	if width > batch.MaxPositions || len(prompts) > batch.MaxTokens/width {
		return architectures.Inputs{}, fmt.Errorf("%w: %d prompts of up to %d tokens; the limit is %d tokens",
			batch.ErrInput, len(prompts), width, batch.MaxTokens)
	}
	n := len(prompts) * width
	ids, mask, positions := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, p := range prompts {
		pad := width - len(p)
		for t := range width {
			at := i*width + t
			if t < pad {
				ids[at] = int64(m.Fill)
				continue
			}
			ids[at], mask[at], positions[at] = int64(p[t-pad]), 1, int64(t-pad)
		}
	}
	return m.pack(ids, mask, positions, len(prompts), width)
}

// column is one new, visible position per sequence.
func (m *Causal) column(ids, positions []int) (architectures.Inputs, error) {
	n := len(ids)
	wide, mask, at := make([]int64, n), make([]int64, n), make([]int64, n)
	for i := range n {
		wide[i], mask[i], at[i] = int64(ids[i]), 1, int64(positions[i])
	}
	return m.pack(wide, mask, at, n, 1)
}

func (m *Causal) pack(ids, mask, positions []int64, sequences, length int) (architectures.Inputs, error) {
	in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}}
	named := map[string][]int64{batch.IDs: ids, batch.Mask: mask}
	if !m.Limits.NoPositions {
		named[batch.Positions] = positions
	}
	for name, values := range named {
		t, err := tensor.FromInt64s(values, sequences, length)
		if err != nil {
			return architectures.Inputs{}, err
		}
		in.Tensors[name] = t
	}
	return in, nil
}

// Argmax returns the index of the largest value, the first one among equals as
// in the reference. A NaN has no place in an order and is an error.
func Argmax(values []float32) (int, error) {
	best := 0
	for i, v := range values {
		if math.IsNaN(float64(v)) {
			return 0, fmt.Errorf("logit %d is NaN", i)
		}
		if v > values[best] {
			best = i
		}
	}
	return best, nil
}
