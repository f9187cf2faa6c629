package validation

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
)

// Names of the inputs and flags of models that take rows of features.
const (
	flowNoised = "x"
	flowKnown  = "cond"
	flowText   = "text"
	flowTime   = "time"
	flowMask   = "mask"

	flagDropAudio = "drop_audio_cond"
	flagDropText  = "drop_text"
	flagGuided    = "cfg_infer"
)

// checkFlow holds the inputs of an example against what a model takes. Which
// timesteps are declared is for the model to say.
func checkFlow(in architectures.Inputs, spec *architectures.FlowInput) error {
	for _, name := range slices.Sorted(maps.Keys(in.Tensors)) {
		if !slices.Contains([]string{flowNoised, flowKnown, flowText, flowTime, flowMask}, name) {
			return fmt.Errorf("the model takes no %.80s", name)
		}
	}
	x, cond, text, times := in.Tensors[flowNoised], in.Tensors[flowKnown], in.Tensors[flowText], in.Tensors[flowTime]
	if x == nil || cond == nil || text == nil || times == nil {
		return fmt.Errorf("%s, %s, %s and %s are needed, as tensors", flowNoised, flowKnown, flowText, flowTime)
	}
	shape := x.Shape()
	if x.DType() != tensor.F32 || len(shape) != 3 || shape[0] < 1 || shape[1] < 1 || shape[2] != spec.Features {
		return fmt.Errorf("%w: %s is %v, want F32[batch,length,%d]", tensor.ErrShape, flowNoised, x, spec.Features)
	}
	if spec.MaxLength > 0 && shape[1] > spec.MaxLength {
		return fmt.Errorf("%d rows, the model takes %d", shape[1], spec.MaxLength)
	}
	for _, c := range []struct {
		name string
		t    *tensor.Tensor
		d    tensor.DType
		want tensor.Shape
	}{{flowKnown, cond, tensor.F32, shape}, {flowTime, times, tensor.F32, shape[:1]}, {flowMask, in.Tensors[flowMask], tensor.I64, shape[:2]}} {
		if c.t != nil && (c.t.DType() != c.d || !c.t.Shape().Equal(c.want)) {
			return fmt.Errorf("%w: %s is %v, want %v%v", tensor.ErrShape, c.name, c.t, c.d, c.want)
		}
	}
	if text.DType() != tensor.I64 || len(text.Shape()) != 2 || text.Shape()[0] != shape[0] {
		return fmt.Errorf("%w: %s is %v, want I64[%d,characters]", tensor.ErrShape, flowText, text, shape[0])
	}
	for i, id := range text.Int64s() {
		if id < -1 || id >= int64(spec.Characters) {
			return fmt.Errorf("%s [%d] is %d, want -1 to %d", flowText, i, id, spec.Characters-1)
		}
	}
	if mask := in.Tensors[flowMask]; mask != nil {
		if err := inRange(mask, 2, flowMask); err != nil {
			return err
		}
	}
	return checkFlowFlags(in.Flags)
}

func checkFlowFlags(flags map[string]bool) error {
	rest := maps.Clone(flags)
	for _, name := range []string{flagDropAudio, flagDropText, flagGuided} {
		delete(rest, name)
	}
	if flags[flagAttentions] {
		return errors.New("the model gives no attention weights")
	}
	if flags[flagGuided] && (flags[flagDropAudio] || flags[flagDropText]) {
		return fmt.Errorf("%s does not go with %s and %s", flagGuided, flagDropAudio, flagDropText)
	}
	return checkFlags(architectures.Inputs{Flags: rest})
}

// flows covers batches of the sizes around powers of two and around the given
// boundaries, up to half of the budget, then masks, flags and a long sequence, and
// every timestep in a call of its own.
func (g *generator) flows(spec *architectures.FlowInput) {
	if len(spec.Timesteps) == 0 || spec.Characters < 1 || spec.Features < 1 {
		return
	}
	longest := g.o.MaxLength
	if spec.MaxLength > 0 {
		longest = min(longest, spec.MaxLength)
	}
	short, usual := min(2, longest), min(9, longest)
	for _, n := range g.batchSizes() {
		length := short
		if n <= 4 {
			length = usual
		}
		if n*length <= (g.o.MaxPositions/2-g.spent)/featurePositions(spec) {
			g.addFlow(spec, fmt.Sprintf("sequences-%d", n), g.steps(spec, n), length, nil)
		}
	}
	padded := []int{usual, (usual + 1) / 2, 1}
	g.addFlow(spec, "padded", g.steps(spec, 3), usual, padded)
	g.addFlow(spec, "no-audio", g.steps(spec, 1), usual, nil, flagDropAudio)
	g.addFlow(spec, "no-text", g.steps(spec, 1), usual, nil, flagDropText)
	g.addFlow(spec, "guided", g.steps(spec, 1), usual, nil, flagGuided)
	g.addFlow(spec, "guided-padded", g.steps(spec, 3), usual, padded, flagGuided)
	g.addFlow(spec, "long", g.steps(spec, 1), longest, nil)
	for _, i := range sample(len(spec.Timesteps), g.o.MaxSingles) {
		t := spec.Timesteps[i]
		g.addFlow(spec, fmt.Sprintf("timestep-%g", t), []float32{t}, short, nil)
	}
}

// steps returns n random timesteps.
func (g *generator) steps(spec *architectures.FlowInput, n int) []float32 {
	times := make([]float32, n)
	for i := range times {
		times[i] = spec.Timesteps[g.rng.IntN(len(spec.Timesteps))]
	}
	return times
}

// featurePositions is what a row counts of the budget: a position for every four
// values.
func featurePositions(spec *architectures.FlowInput) int { return max(1, spec.Features/4) }

// addFlow enters an example with a sequence for each timestep, all of one length or
// of the visible ones, and with random texts, some longer than their sequence, unless
// its name is taken or the budget is spent.
func (g *generator) addFlow(spec *architectures.FlowInput, name string, times []float32, length int, visible []int, flags ...string) {
	n := len(times)
	positions := n * length * featurePositions(spec)
	if g.names[name] || g.spent+positions > g.o.MaxPositions {
		return
	}
	must := func(t *tensor.Tensor, err error) *tensor.Tensor {
		if err != nil {
			panic(err) // the budget bounds it
		}
		return t
	}
	random := func() *tensor.Tensor {
		t := must(tensor.New(tensor.F32, n, length, spec.Features))
		for i := range t.Float32s() {
			t.Float32s()[i] = float32(g.rng.NormFloat64())
		}
		return t
	}
	characters := length + 1
	text := make([]int64, n*characters)
	for i := range n {
		end := 1 + g.rng.IntN(characters)
		for j := range characters {
			text[i*characters+j] = -1
			if j < end {
				text[i*characters+j] = int64(g.rng.IntN(spec.Characters))
			}
		}
	}
	t := must(tensor.New(tensor.F32, n))
	copy(t.Float32s(), times)
	in := architectures.Inputs{
		Tensors: map[string]*tensor.Tensor{
			flowNoised: random(), flowKnown: random(), flowTime: t,
			flowText: must(tensor.FromInt64s(text, n, characters)),
		},
		Flags: map[string]bool{flagHiddenStates: true},
	}
	if visible != nil {
		mask := make([]int64, n*length)
		for i, v := range visible {
			for j := range v {
				mask[i*length+j] = 1
			}
		}
		in.Tensors[flowMask] = must(tensor.FromInt64s(mask, n, length))
	}
	for _, f := range flags {
		in.Flags[f] = true
	}
	if g.names == nil {
		g.names = map[string]bool{}
	}
	g.names[name] = true
	g.spent += positions
	g.examples = append(g.examples, Example{name, in})
}
