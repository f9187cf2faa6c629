package declared

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
)

// ErrInput is wrapped by every error about what a call was given.
var ErrInput = errors.New("bad model input")

// Bounds of one call. The second keeps outputs within 16 GiB.
const (
	maxCallTokens  = 1 << 20
	maxCallOutputs = 1 << 32
)

const (
	inputIDs       = "input_ids"
	inputMask      = "attention_mask"
	inputPositions = "position_ids"

	flagHidden     = "output_hidden_states"
	flagAttentions = "output_attentions"
)

// call is a checked set of inputs. Rows are ordered by sequence, then position.
type call struct {
	batch, length int
	ids           []int
	// mask is nil when everything is visible.
	mask               []bool
	positions          []int
	hidden, attentions bool
}

// parseCall checks in: input_ids, and attention_mask and position_ids if the file
// says that the model takes them.
func (b *Blueprint) parseCall(in architectures.Inputs) (*call, error) {
	for _, name := range slices.Sorted(maps.Keys(in.Tensors)) {
		if name != inputIDs && (!b.masks || name != inputMask && name != inputPositions) {
			return nil, fmt.Errorf("%w: %s is not an input of this model", ErrInput, quote(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Flags)) {
		if name != flagHidden && name != flagAttentions {
			return nil, fmt.Errorf("%w: %s is not a flag of this model; flags: %s, %s", ErrInput, quote(name), flagHidden, flagAttentions)
		}
	}
	t := in.Tensors[inputIDs]
	if t == nil {
		return nil, fmt.Errorf("%w: %s is missing", ErrInput, inputIDs)
	}
	if len(t.Shape()) != 2 || t.DType() != tensor.I64 {
		return nil, fmt.Errorf("%w: %s: expected I64[batch,length], found %v", ErrInput, inputIDs, t)
	}
	c := &call{batch: t.Shape()[0], length: t.Shape()[1], hidden: in.Flags[flagHidden], attentions: in.Flags[flagAttentions]}
	if n := t.Len(); n == 0 || n > maxCallTokens {
		return nil, fmt.Errorf("%w: %s: %v has %d tokens; expected 1 to %d", ErrInput, inputIDs, t, n, maxCallTokens)
	}
	if b.maxPositions > 0 && c.length > b.maxPositions {
		return nil, fmt.Errorf("%w: %s: %d positions; the model takes %d", ErrInput, inputIDs, c.length, b.maxPositions)
	}
	ids, err := c.integers(t, inputIDs, b.vocabulary)
	if err != nil {
		return nil, err
	}
	c.ids = ids
	return c, b.parsePlaces(c, in)
}

// parsePlaces reads mask and positions.
func (b *Blueprint) parsePlaces(c *call, in architectures.Inputs) error {
	if t := in.Tensors[inputMask]; t != nil {
		seen, err := c.integers(t, inputMask, 2)
		if err != nil {
			return err
		}
		if slices.Contains(seen, 0) {
			c.mask = make([]bool, len(seen))
			for i, v := range seen {
				c.mask[i] = v == 1
			}
		}
	}
	t := in.Tensors[inputPositions]
	if t == nil {
		c.positions = make([]int, len(c.ids))
		for i := range c.positions {
			c.positions[i] = i % c.length
		}
		return nil
	}
	limit := b.maxPositions
	if limit == 0 {
		limit = maxPositions
	}
	var err error
	c.positions, err = c.integers(t, inputPositions, limit)
	return err
}

// integers reads an input of the shape of input_ids with values below limit.
func (c *call) integers(t *tensor.Tensor, name string, limit int) ([]int, error) {
	if t.DType() != tensor.I64 || !t.Shape().Equal(tensor.Shape{c.batch, c.length}) {
		return nil, fmt.Errorf("%w: %s: expected I64[%d,%d] like %s, found %v", ErrInput, name, c.batch, c.length, inputIDs, t)
	}
	out := make([]int, t.Len())
	for i, v := range t.Int64s() {
		if v < 0 || v >= int64(limit) {
			return nil, fmt.Errorf("%w: %s: %d for sequence %d at position %d; expected 0 to %d",
				ErrInput, name, v, i/c.length, i%c.length, limit-1)
		}
		out[i] = int(v)
	}
	return out, nil
}

// bound limits the values that a call returns. It counts in float64, which
// cannot overflow.
func (b *Blueprint) bound(c *call) error {
	rows := float64(c.batch) * float64(c.length)
	n := 0.0
	for _, o := range b.outputs {
		n += rows * float64(b.values[o.from].width)
	}
	if c.hidden {
		for _, v := range b.values {
			if v.shown != "" {
				n += rows * float64(v.width)
			}
		}
	}
	if c.attentions {
		for _, s := range b.steps {
			if s.op == stepAttention {
				n += rows * float64(s.heads) * float64(c.length)
			}
		}
	}
	if n > maxCallOutputs {
		return fmt.Errorf("%w: %s: %d sequences of %d ids ask for up to %.0f output values; the limit is %d",
			ErrInput, inputIDs, c.batch, c.length, n, int64(maxCallOutputs))
	}
	return nil
}

// pool takes one row per sequence of t [batch·length, width]: the first, the
// last that the mask shows, or the mean of those that it shows, added in order in
// float32. The mean of none is zero, and the last of none is the last.
func (c *call) pool(t *tensor.Tensor, how string) (*tensor.Tensor, error) {
	width := t.Shape()[1]
	out, err := tensor.New(tensor.F32, c.batch, width)
	if err != nil {
		return nil, err
	}
	from, to := t.Float32s(), out.Float32s()
	row := func(i int) []float32 { return from[i*width : (i+1)*width] }
	for b := range c.batch {
		sum := to[b*width : (b+1)*width]
		last, shown := c.length-1, 0
		for i := range c.length {
			if c.mask != nil && !c.mask[b*c.length+i] {
				continue
			}
			shown++
			last = i
			if how == poolMean {
				for j, v := range row(b*c.length + i) {
					sum[j] += v
				}
			}
		}
		switch how {
		case poolFirst:
			copy(sum, row(b*c.length))
		case poolLast:
			copy(sum, row(b*c.length+last))
		case poolMean:
			for j := range sum {
				sum[j] /= float32(max(1, shown))
			}
		}
	}
	return out, nil
}
