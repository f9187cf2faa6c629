package dit

import (
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/tensor"
)

// The names of the inputs.
const (
	inputImage  = "hidden_states"
	inputTime   = "timestep"
	inputLabels = "class_labels"
)

// call is a checked set of inputs.
type call struct {
	batch  int
	image  *tensor.Tensor
	steps  []float32
	labels []int
	hidden bool
	// pairs are the indices of the schedule's pairs, nil without a schedule.
	pairs []int
}

// parse checks in.
func (m *Model) parse(in architectures.Inputs) (*call, error) {
	c := &m.cfg
	if err := batch.CheckNames(in, []string{inputImage, inputTime, inputLabels}); err != nil {
		return nil, err
	}
	if in.Flags[batch.FlagAttentions] {
		return nil, fmt.Errorf("%w: this model gives no attention weights", batch.ErrInput)
	}
	k := &call{image: in.Tensors[inputImage], hidden: in.Flags[batch.FlagHidden]}
	want := fmt.Sprintf("F32[batch,%d,%d,%d]", c.InChannels, c.SampleSize, c.SampleSize)
	if k.image == nil {
		return nil, fmt.Errorf("%w: %s is missing; expected %s", batch.ErrInput, inputImage, want)
	}
	shape := k.image.Shape()
	if k.image.DType() != tensor.F32 || len(shape) != 4 || !shape.Equal(tensor.Shape{shape[0], c.InChannels, c.SampleSize, c.SampleSize}) {
		return nil, fmt.Errorf("%w: %s: expected %s, found %v", batch.ErrInput, inputImage, want, k.image)
	}
	k.batch = shape[0]
	if k.batch == 0 || k.batch > batch.MaxTokens/c.patches() {
		return nil, fmt.Errorf("%w: %s: %d images of %d patches; expected 1 to %d", batch.ErrInput, inputImage, k.batch, c.patches(), batch.MaxTokens/c.patches())
	}
	if err := k.parseSteps(in.Tensors[inputTime]); err != nil {
		return nil, err
	}
	if err := k.parseLabels(in.Tensors[inputLabels], c.labels()); err != nil {
		return nil, err
	}
	return k, m.parsePairs(k)
}

func (k *call) parseSteps(t *tensor.Tensor) error {
	if t == nil {
		return fmt.Errorf("%w: %s is missing", batch.ErrInput, inputTime)
	}
	if (t.DType() != tensor.F32 && t.DType() != tensor.I64) || !t.Shape().Equal(tensor.Shape{k.batch}) {
		return fmt.Errorf("%w: %s: expected F32 or I64[%d], one for each image, found %v", batch.ErrInput, inputTime, k.batch, t)
	}
	k.steps = make([]float32, k.batch)
	for i := range k.steps {
		if t.DType() == tensor.I64 {
			k.steps[i] = float32(t.Int64s()[i])
		} else {
			k.steps[i] = t.Float32s()[i]
		}
		if v := k.steps[i]; v-v != 0 {
			return fmt.Errorf("%w: %s of image %d is %g", batch.ErrInput, inputTime, i, v)
		}
	}
	return nil
}

func (k *call) parseLabels(t *tensor.Tensor, labels int) error {
	if t == nil {
		return fmt.Errorf("%w: %s is missing", batch.ErrInput, inputLabels)
	}
	if t.DType() != tensor.I64 || !t.Shape().Equal(tensor.Shape{k.batch}) {
		return fmt.Errorf("%w: %s: expected I64[%d], one for each image, found %v", batch.ErrInput, inputLabels, k.batch, t)
	}
	k.labels = make([]int, k.batch)
	for i, v := range t.Int64s() {
		if v < 0 || v >= int64(labels) {
			return fmt.Errorf("%w: %s of image %d is %d; valid are 0 to %d, the null class", batch.ErrInput, inputLabels, i, v, labels-1)
		}
		k.labels[i] = int(v)
	}
	return nil
}

// parsePairs finds the declared pairs of the call.
func (m *Model) parsePairs(k *call) error {
	if m.domain == nil {
		return nil
	}
	k.pairs = make([]int, k.batch)
	for i := range k.pairs {
		step, err := m.domain.Factors[0].TimestepIndex(k.steps[i])
		if err != nil {
			return fmt.Errorf("%w: %s of image %d: %w", batch.ErrInput, inputTime, i, err)
		}
		label, err := m.domain.Factors[1].Index(uint64(k.labels[i]))
		if err != nil {
			return fmt.Errorf("%w: %s of image %d: class %d: %w", batch.ErrInput, inputLabels, i, k.labels[i], err)
		}
		if k.pairs[i], err = m.domain.PairIndex(step, label); err != nil {
			return fmt.Errorf("%w: %w", batch.ErrInput, err)
		}
	}
	return nil
}
