package llama

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

// Bounds of one call. The first is far above what this package is for; the
// second keeps outputs within 16 GiB.
const (
	maxCallTokens  = 1 << 20
	maxCallOutputs = 1 << 32
)

// Names of inputs and flags.
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
	// lastOnly asks for the logits of each sequence's last position alone.
	lastOnly bool
}

// parse checks in. past is the number of positions in front of the call's, from
// which default positions count.
func (c *Config) parse(in architectures.Inputs, past int) (*call, error) {
	for _, name := range slices.Sorted(maps.Keys(in.Tensors)) {
		switch name {
		case inputIDs, inputMask, inputPositions:
		default:
			return nil, fmt.Errorf("%w: %s is not an input of this model; inputs: %s, %s, %s",
				ErrInput, quote(name), inputIDs, inputMask, inputPositions)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Flags)) {
		if name != flagHidden && name != flagAttentions {
			return nil, fmt.Errorf("%w: %s is not a flag of this model; flags: %s, %s",
				ErrInput, quote(name), flagHidden, flagAttentions)
		}
	}
	t := in.Tensors[inputIDs]
	if t == nil {
		return nil, fmt.Errorf("%w: %s is missing", ErrInput, inputIDs)
	}
	if len(t.Shape()) != 2 || t.DType() != tensor.I64 {
		return nil, fmt.Errorf("%w: %s: expected I64[batch,length], found %v", ErrInput, inputIDs, t)
	}
	k := &call{batch: t.Shape()[0], length: t.Shape()[1], hidden: in.Flags[flagHidden], attentions: in.Flags[flagAttentions]}
	rows := t.Len()
	if rows == 0 || rows > maxCallTokens {
		return nil, fmt.Errorf("%w: %s: %v has %d tokens; expected 1 to %d", ErrInput, inputIDs, t, rows, maxCallTokens)
	}

	k.ids = make([]int, rows)
	for i, id := range t.Int64s() {
		if id < 0 || id >= int64(c.VocabSize) {
			return nil, fmt.Errorf("%w: %s: id %d of sequence %d at position %d; valid ids are 0 to %d",
				ErrInput, inputIDs, id, i/k.length, i%k.length, c.VocabSize-1)
		}
		k.ids[i] = int(id)
	}
	if err := k.parseMask(in.Tensors[inputMask]); err != nil {
		return nil, err
	}
	return k, k.parsePositions(in.Tensors[inputPositions], past)
}

// checkOutputs bounds the float32 values that a call over keys positions
// returns. It counts in float64, which cannot overflow.
func (c *Config) checkOutputs(k *call, keys int) error {
	rows := float64(k.batch) * float64(k.length)
	n := rows * float64(c.VocabSize)
	if k.lastOnly {
		n = float64(k.batch) * float64(c.VocabSize)
	}
	if k.hidden {
		n += rows * float64(c.HiddenSize) * float64(c.Layers+1)
	}
	if k.attentions {
		n += rows * float64(c.Heads) * float64(c.Layers) * float64(keys)
	}
	if n > maxCallOutputs {
		return fmt.Errorf("%w: %s: %d sequences of %d ids ask for %.0f output values; the limit is %d",
			ErrInput, inputIDs, k.batch, k.length, n, int64(maxCallOutputs))
	}
	return nil
}

func (k *call) parseMask(t *tensor.Tensor) error {
	if t == nil {
		return nil
	}
	if err := k.checkShape(inputMask, t); err != nil {
		return err
	}
	mask, hides := make([]bool, t.Len()), false
	for i, v := range t.Int64s() {
		if v != 0 && v != 1 {
			return fmt.Errorf("%w: %s: %d for sequence %d at position %d; expected 0 or 1",
				ErrInput, inputMask, v, i/k.length, i%k.length)
		}
		mask[i] = v == 1
		hides = hides || v == 0
	}
	if hides {
		k.mask = mask
	}
	return nil
}

func (k *call) parsePositions(t *tensor.Tensor, past int) error {
	k.positions = make([]int, len(k.ids))
	if t == nil {
		for i := range k.positions {
			k.positions[i] = past + i%k.length
		}
		return nil
	}
	if err := k.checkShape(inputPositions, t); err != nil {
		return err
	}
	for i, p := range t.Int64s() {
		if p < 0 || p >= maxPositions {
			return fmt.Errorf("%w: %s: %d for sequence %d at position %d; expected 0 to %d",
				ErrInput, inputPositions, p, i/k.length, i%k.length, maxPositions-1)
		}
		k.positions[i] = int(p)
	}
	return nil
}

func (k *call) checkShape(name string, t *tensor.Tensor) error {
	if t.DType() != tensor.I64 || !t.Shape().Equal(tensor.Shape{k.batch, k.length}) {
		return fmt.Errorf("%w: %s: expected I64[%d,%d] like %s, found %v", ErrInput, name, k.batch, k.length, inputIDs, t)
	}
	return nil
}
