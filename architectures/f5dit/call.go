package f5dit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/tensor"
)

// The names of the inputs and flags.
const (
	inputNoised = "x"
	inputKnown  = "cond"
	inputText   = "text"
	inputTime   = "time"
	inputMask   = "mask"

	flagDropAudio = "drop_audio_cond"
	flagDropText  = "drop_text"
	flagGuided    = "cfg_infer"
)

// call is a checked set of inputs.
type call struct {
	// given is the number of sequences that were given; with guidance each is
	// evaluated twice.
	given, length int
	noised, known *tensor.Tensor
	// text holds the rows of the text table for every position of the given
	// sequences, 0 for the filler.
	text []int
	// lengths are those of the given sequences, nil when all are whole.
	lengths []int
	times   []float32
	runs    []conditions
	hidden  bool
	// indices are those of the schedule for every evaluated sequence, nil without a
	// schedule.
	indices []int
}

// conditions are what one evaluation of the sequences leaves out.
type conditions struct{ dropAudio, dropText bool }

// sequences is the number of evaluated sequences.
func (k *call) sequences() int { return k.given * len(k.runs) }

func (k *call) rows() int { return k.sequences() * k.length }

// source returns the given sequence behind evaluated sequence i, and its conditions.
func (k *call) source(i int) (int, conditions) { return i % k.given, k.runs[i/k.given] }

// visible is the number of visible rows of evaluated sequence i.
func (k *call) visible(i int) int {
	if k.lengths == nil {
		return k.length
	}
	return k.lengths[i%k.given]
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %w", batch.ErrInput, fmt.Errorf(format, args...))
}

// parse checks in.
func (m *Model) parse(in architectures.Inputs) (*call, error) {
	c := &m.cfg
	k := &call{noised: in.Tensors[inputNoised], known: in.Tensors[inputKnown]}
	if err := k.parseFlags(in); err != nil {
		return nil, err
	}
	want := fmt.Sprintf("F32[batch,length,%d]", c.MelDim)
	if k.noised == nil {
		return nil, bad("%s is missing; expected %s", inputNoised, want)
	}
	shape := k.noised.Shape()
	if k.noised.DType() != tensor.F32 || len(shape) != 3 || shape[2] != c.MelDim || shape[0] < 1 || shape[1] < 1 {
		return nil, bad("%s: expected %s, found %v", inputNoised, want, k.noised)
	}
	k.given, k.length = shape[0], shape[1]
	if k.known == nil || k.known.DType() != tensor.F32 || !k.known.Shape().Equal(shape) {
		return nil, bad("%s: expected F32%v like %s, found %v", inputKnown, shape, inputNoised, found(k.known))
	}
	if k.given > batch.MaxTokens/len(k.runs) || k.length > batch.MaxTokens/k.sequences() {
		return nil, bad("%s: %d sequences of %d rows; expected %d rows at most", inputNoised, k.sequences(), k.length, batch.MaxTokens)
	}
	if c.ConvLayers > 0 && k.length > maxTextRows {
		return nil, bad("%s: %d rows; there are positions for %d rows of text", inputNoised, k.length, maxTextRows)
	}
	if err := k.parseMask(in.Tensors[inputMask]); err != nil {
		return nil, err
	}
	if err := k.parseText(in.Tensors[inputText], c.TextEmbeds); err != nil {
		return nil, err
	}
	if err := k.parseTimes(in.Tensors[inputTime]); err != nil {
		return nil, err
	}
	return k, m.findTimes(k)
}

// found describes an input, or its absence.
func found(t *tensor.Tensor) string {
	if t == nil {
		return "none"
	}
	return t.String()
}

func (k *call) parseFlags(in architectures.Inputs) error {
	inputs := []string{inputNoised, inputKnown, inputText, inputTime, inputMask}
	for _, name := range slices.Sorted(maps.Keys(in.Tensors)) {
		if !slices.Contains(inputs, name) {
			return bad("%.80q is not an input of this model; inputs: %s", name, strings.Join(inputs, ", "))
		}
	}
	flags := []string{batch.FlagHidden, flagDropAudio, flagDropText, flagGuided}
	for _, name := range slices.Sorted(maps.Keys(in.Flags)) {
		switch {
		case name == batch.FlagAttentions && in.Flags[name]:
			return bad("this model gives no attention weights")
		case name != batch.FlagAttentions && !slices.Contains(flags, name):
			return bad("%.80q is not a flag of this model; flags: %s", name, strings.Join(flags, ", "))
		}
	}
	k.hidden = in.Flags[batch.FlagHidden]
	drop := conditions{in.Flags[flagDropAudio], in.Flags[flagDropText]}
	k.runs = []conditions{drop}
	if in.Flags[flagGuided] {
		if drop != (conditions{}) {
			return bad("%s evaluates with and without conditions; %s and %s do not go with it", flagGuided, flagDropAudio, flagDropText)
		}
		k.runs = []conditions{{}, {true, true}}
	}
	return nil
}

// parseMask reads the lengths of the sequences.
func (k *call) parseMask(t *tensor.Tensor) error {
	if t == nil {
		return nil
	}
	if t.DType() != tensor.I64 || !t.Shape().Equal(tensor.Shape{k.given, k.length}) {
		return bad("%s: expected I64[%d,%d], found %v", inputMask, k.given, k.length, t)
	}
	lengths, longest, shortest := make([]int, k.given), 0, k.length
	for i, v := range t.Int64s() {
		b, at := i/k.length, i%k.length
		switch {
		case v == 1 && lengths[b] == at:
			lengths[b]++
		case v != 0:
			return bad("%s: %d for sequence %d at row %d; expected ones and then zeros", inputMask, v, b, at)
		}
	}
	for b, n := range lengths {
		if n == 0 {
			return bad("%s: sequence %d has no visible row", inputMask, b)
		}
		longest, shortest = max(longest, n), min(shortest, n)
	}
	if longest < k.length {
		return bad("%s: the longest sequence has %d visible rows of %d; expected one without zeros", inputMask, longest, k.length)
	}
	if shortest < k.length {
		k.lengths = lengths
	}
	return nil
}

// parseText lays the texts along the sequences, filler behind their ends.
func (k *call) parseText(t *tensor.Tensor, embeds int) error {
	if t == nil || t.DType() != tensor.I64 || len(t.Shape()) != 2 || t.Shape()[0] != k.given {
		return bad("%s: expected I64[%d,characters], found %v", inputText, k.given, found(t))
	}
	k.text = make([]int, k.given*k.length)
	characters := t.Shape()[1]
	for i, id := range t.Int64s() {
		b, at := i/characters, i%characters
		if id < -1 || id >= int64(embeds) {
			return bad("%s: id %d of sequence %d at position %d; valid are 0 to %d, and -1 behind the end", inputText, id, b, at, embeds-1)
		}
		if at < k.visible(b) {
			k.text[b*k.length+at] = int(id) + 1
		}
	}
	return nil
}

func (k *call) parseTimes(t *tensor.Tensor) error {
	scalar := t != nil && len(t.Shape()) == 0
	if t == nil || t.DType() != tensor.F32 || !scalar && !t.Shape().Equal(tensor.Shape{k.given}) {
		return bad("%s: expected F32[%d] or F32[], found %v", inputTime, k.given, found(t))
	}
	k.times = make([]float32, k.given)
	for i := range k.times {
		k.times[i] = t.Float32s()[0]
		if !scalar {
			k.times[i] = t.Float32s()[i]
		}
		if v := k.times[i]; v-v != 0 {
			return bad("%s of sequence %d is %g", inputTime, i, v)
		}
	}
	return nil
}

// findTimes looks the times up in the schedule, if there is one.
func (m *Model) findTimes(k *call) error {
	if m.domain == nil {
		return nil
	}
	k.indices = make([]int, k.sequences())
	for i := range k.indices {
		b, _ := k.source(i)
		var err error
		if k.indices[i], err = m.domain.TimestepIndex(k.times[b]); err != nil {
			return bad("%s of sequence %d: %w", inputTime, b, err)
		}
	}
	return nil
}
