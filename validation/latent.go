package validation

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
)

// Names of the inputs of models that take images.
const (
	inputImage  = "hidden_states"
	inputTime   = "timestep"
	inputLabels = "class_labels"
)

// fileTensor is a tensor in the JSON form of examples: its bytes, in the order of
// safetensors, in base64.
type fileTensor struct {
	DType tensor.DType `json:"dtype"`
	Shape tensor.Shape `json:"shape"`
	Data  []byte       `json:"data"`
}

func (f fileTensor) tensor() (*tensor.Tensor, error) {
	if f.DType != tensor.F32 && f.DType != tensor.I64 {
		return nil, fmt.Errorf("%w %v, want F32 or I64", tensor.ErrDType, f.DType)
	}
	if len(f.Shape) < 1 || len(f.Shape) > 8 {
		return nil, fmt.Errorf("%w: %d axes", tensor.ErrShape, len(f.Shape))
	}
	size, err := f.Shape.Bytes(f.DType)
	if err != nil {
		return nil, err
	}
	if size != len(f.Data) {
		return nil, fmt.Errorf("%w: %d bytes, %v%v needs %d", tensor.ErrShape, len(f.Data), f.DType, f.Shape, size)
	}
	return tensor.FromBytes(f.DType, f.Shape, f.Data)
}

// checkLatent holds the inputs of an example against what a model takes. Which
// timesteps and labels are declared is for the model to say.
func checkLatent(in architectures.Inputs, spec *architectures.LatentInput) error {
	for _, name := range slices.Sorted(maps.Keys(in.Tensors)) {
		if name != inputImage && name != inputTime && name != inputLabels {
			return fmt.Errorf("the model takes no %.80s", name)
		}
	}
	image, times, labels := in.Tensors[inputImage], in.Tensors[inputTime], in.Tensors[inputLabels]
	if image == nil || times == nil || labels == nil {
		return fmt.Errorf("%s, %s and %s are needed, as tensors", inputImage, inputTime, inputLabels)
	}
	shape := image.Shape()
	if image.DType() != tensor.F32 || len(shape) != 4 || shape[0] < 1 || !shape.Equal(tensor.Shape{shape[0], spec.Channels, spec.Size, spec.Size}) {
		return fmt.Errorf("%w: %s are %v, want F32[batch,%d,%d,%d]", tensor.ErrShape, inputImage, image, spec.Channels, spec.Size, spec.Size)
	}
	if times.DType() != tensor.F32 && times.DType() != tensor.I64 || !times.Shape().Equal(shape[:1]) {
		return fmt.Errorf("%w: %s is %v, want F32 or I64[%d]", tensor.ErrShape, inputTime, times, shape[0])
	}
	if labels.DType() != tensor.I64 || !labels.Shape().Equal(shape[:1]) {
		return fmt.Errorf("%w: %s are %v, want I64[%d]", tensor.ErrShape, inputLabels, labels, shape[0])
	}
	if err := inRange(labels, int64(spec.Labels), inputLabels); err != nil {
		return err
	}
	if in.Flags[flagAttentions] {
		return errors.New("the model gives no attention weights")
	}
	return checkFlags(in)
}

// latents covers batches of the sizes around powers of two and around the given
// boundaries, up to half of the budget, and then every timestep and every label in
// a call of its own.
func (g *generator) latents(spec *architectures.LatentInput) {
	size, label := spec.Labels, func(i int) int { return i }
	if len(spec.LabelIDs) > 0 {
		size, label = len(spec.LabelIDs), func(i int) int { return spec.LabelIDs[i] }
	}
	steps := len(spec.Timesteps)
	if size < 1 || steps < 1 {
		return
	}
	random := func(n int) (times []float32, labels []int64) {
		for range n {
			times = append(times, spec.Timesteps[g.rng.IntN(steps)])
			labels = append(labels, int64(label(g.rng.IntN(size))))
		}
		return times, labels
	}
	for _, n := range g.batchSizes() {
		if n <= (g.o.MaxPositions/2-g.spent)/imagePositions(spec) {
			times, labels := random(n)
			g.addLatent(spec, fmt.Sprintf("images-%d", n), times, labels)
		}
	}
	for _, i := range sample(steps, g.o.MaxSingles) {
		t := spec.Timesteps[i]
		_, labels := random(1)
		g.addLatent(spec, fmt.Sprintf("timestep-%g", t), []float32{t}, labels)
	}
	for _, i := range sample(size, g.o.MaxSingles) {
		times, _ := random(1)
		g.addLatent(spec, fmt.Sprintf("class-%d", label(i)), times, []int64{int64(label(i))})
	}
}

// batchSizes are the sizes around powers of two and around the given boundaries, in
// increasing order, some of them more than once.
func (g *generator) batchSizes() []int {
	var sizes []int
	add := func(n int) {
		if n >= 1 {
			sizes = append(sizes, n)
		}
	}
	for _, b := range g.o.Boundaries {
		for _, n := range []int{b - 1, b, b + 1} {
			add(n)
		}
	}
	for p := 1; p-1 <= g.o.MaxRows; p *= 2 {
		for _, n := range []int{p - 1, p, p + 1} {
			if n <= g.o.MaxRows {
				add(n)
			}
		}
	}
	slices.Sort(sizes)
	return sizes
}

// imagePositions is what an image counts of the budget: a position for every four
// values, so that the usual four channels make it one for each place.
func imagePositions(spec *architectures.LatentInput) int {
	return max(1, spec.Channels*spec.Size*spec.Size/4)
}

// addLatent enters an example with random images unless its name is taken or the
// budget is spent.
func (g *generator) addLatent(spec *architectures.LatentInput, name string, times []float32, labels []int64) {
	n := len(times)
	positions := n * imagePositions(spec)
	if g.names[name] || g.spent+positions > g.o.MaxPositions {
		return
	}
	must := func(t *tensor.Tensor, err error) *tensor.Tensor {
		if err != nil {
			panic(err) // the budget bounds it
		}
		return t
	}
	image := must(tensor.New(tensor.F32, n, spec.Channels, spec.Size, spec.Size))
	for i := range image.Float32s() {
		image.Float32s()[i] = float32(g.rng.NormFloat64())
	}
	t := must(tensor.New(tensor.F32, n))
	copy(t.Float32s(), times)
	if g.names == nil {
		g.names = map[string]bool{}
	}
	g.names[name] = true
	g.spent += positions
	g.examples = append(g.examples, Example{name, architectures.Inputs{
		Tensors: map[string]*tensor.Tensor{inputImage: image, inputTime: t, inputLabels: must(tensor.FromInt64s(labels, n))},
		Flags:   map[string]bool{flagHiddenStates: true},
	}})
}
