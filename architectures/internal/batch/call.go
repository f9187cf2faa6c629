package batch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
)

// ErrInput is wrapped by every error about what a call was given.
var ErrInput = errors.New("bad model input")

// Bounds of one call. The first is far above what this project is for; the
// second keeps outputs within 16 GiB.
const (
	MaxTokens  = 1 << 20
	MaxOutputs = 1 << 32
)

// MaxPositions bounds positions without a table: float32 counts exactly up to
// here.
const MaxPositions = 1 << 24

// Names of inputs and flags.
const (
	IDs        = "input_ids"
	Mask       = "attention_mask"
	Positions  = "position_ids"
	TokenTypes = "token_type_ids"

	FlagHidden     = "output_hidden_states"
	FlagAttentions = "output_attentions"
)

// Call is a checked set of inputs. Rows are ordered by sequence, then position.
type Call struct {
	Batch, Length int
	IDs           []int
	// Mask is nil when everything is visible.
	Mask       []bool
	Positions  []int
	TokenTypes []int // nil where the model has none

	// Hidden and Attentions ask for these outputs too.
	Hidden, Attentions bool
	// LastOnly asks for the logits of each sequence's last position alone.
	LastOnly bool
}

// Limits says what a model takes.
type Limits struct {
	// Vocabulary is the number of valid ids.
	Vocabulary int
	// Positions is the number of rows of a position table, 0 when there is none.
	Positions int
	// NoPositions says that position_ids is not an input.
	NoPositions bool
	// TokenTypes is the number of token types, 0 when there are none.
	TokenTypes int
	// Unmasked says that attention_mask is not an input.
	Unmasked bool
}

func (l *Limits) inputs() []string {
	in := []string{IDs}
	if !l.Unmasked {
		in = append(in, Mask)
	}
	if !l.NoPositions {
		in = append(in, Positions)
	}
	if l.TokenTypes > 0 {
		in = append(in, TokenTypes)
	}
	return in
}

// Parse checks in. past is the number of positions in front of the call's, from
// which default positions count.
func (l *Limits) Parse(in architectures.Inputs, past int) (*Call, error) {
	if err := CheckNames(in, l.inputs()); err != nil {
		return nil, err
	}
	k := &Call{Hidden: in.Flags[FlagHidden], Attentions: in.Flags[FlagAttentions]}
	var err error
	if k.Batch, k.Length, k.IDs, err = Tokens(in, IDs, l.Vocabulary); err != nil {
		return nil, err
	}
	if k.Mask, err = k.parseMask(in.Tensors[Mask]); err != nil {
		return nil, err
	}
	if l.TokenTypes > 0 {
		k.TokenTypes = make([]int, len(k.IDs))
		if err := k.parseIndices(k.TokenTypes, TokenTypes, in.Tensors[TokenTypes], l.TokenTypes); err != nil {
			return nil, err
		}
	}
	return k, k.parsePositions(in.Tensors[Positions], past, l.Positions)
}

// CheckNames refuses inputs and flags that a model does not know: a caller who
// passes a mask must not get an answer that ignored it.
func CheckNames(in architectures.Inputs, inputs []string) error {
	for _, name := range slices.Sorted(maps.Keys(in.Tensors)) {
		if !slices.Contains(inputs, name) {
			return fmt.Errorf("%w: %s is not an input of this model; inputs: %s",
				ErrInput, quote(name), strings.Join(inputs, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Flags)) {
		if name != FlagHidden && name != FlagAttentions {
			return fmt.Errorf("%w: %s is not a flag of this model; flags: %s, %s",
				ErrInput, quote(name), FlagHidden, FlagAttentions)
		}
	}
	return nil
}

// Tokens reads the ids of the named input.
func Tokens(in architectures.Inputs, name string, vocabulary int) (batch, length int, ids []int, err error) {
	t := in.Tensors[name]
	if t == nil {
		return 0, 0, nil, fmt.Errorf("%w: %s is missing", ErrInput, name)
	}
	if len(t.Shape()) != 2 || t.DType() != tensor.I64 {
		return 0, 0, nil, fmt.Errorf("%w: %s: expected I64[batch,length], found %v", ErrInput, name, t)
	}
	batch, length = t.Shape()[0], t.Shape()[1]
	rows := t.Len()
	if rows == 0 || rows > MaxTokens {
		return 0, 0, nil, fmt.Errorf("%w: %s: %v has %d tokens; expected 1 to %d", ErrInput, name, t, rows, MaxTokens)
	}
	ids = make([]int, rows)
	for i, id := range t.Int64s() {
		if id < 0 || id >= int64(vocabulary) {
			return 0, 0, nil, fmt.Errorf("%w: %s: id %d of sequence %d at position %d; valid ids are 0 to %d",
				ErrInput, name, id, i/length, i%length, vocabulary-1)
		}
		ids[i] = int(id)
	}
	return batch, length, ids, nil
}

// ParseMask reads the named mask of a batch; it is nil when nothing is hidden.
func ParseMask(name string, t *tensor.Tensor, batch, length int) ([]bool, error) {
	if t == nil {
		return nil, nil
	}
	if t.DType() != tensor.I64 || !t.Shape().Equal(tensor.Shape{batch, length}) {
		return nil, fmt.Errorf("%w: %s: expected I64[%d,%d] like %s, found %v", ErrInput, name, batch, length, IDs, t)
	}
	mask, hides := make([]bool, t.Len()), false
	for i, v := range t.Int64s() {
		if v != 0 && v != 1 {
			return nil, fmt.Errorf("%w: %s: %d for sequence %d at position %d; expected 0 or 1",
				ErrInput, name, v, i/length, i%length)
		}
		mask[i] = v == 1
		hides = hides || v == 0
	}
	if !hides {
		return nil, nil
	}
	return mask, nil
}

func (k *Call) parseMask(t *tensor.Tensor) ([]bool, error) {
	return ParseMask(Mask, t, k.Batch, k.Length)
}

// parseIndices reads indices below limit; dst keeps its values when t is nil.
func (k *Call) parseIndices(dst []int, name string, t *tensor.Tensor, limit int) error {
	if t == nil {
		return nil
	}
	if t.DType() != tensor.I64 || !t.Shape().Equal(tensor.Shape{k.Batch, k.Length}) {
		return fmt.Errorf("%w: %s: expected I64[%d,%d] like %s, found %v", ErrInput, name, k.Batch, k.Length, IDs, t)
	}
	for i, p := range t.Int64s() {
		if p < 0 || p >= int64(limit) {
			return fmt.Errorf("%w: %s: %d for sequence %d at position %d; expected 0 to %d",
				ErrInput, name, p, i/k.Length, i%k.Length, limit-1)
		}
		dst[i] = int(p)
	}
	return nil
}

// parsePositions reads positions; table is the number of rows that there are
// for them, 0 when they are computed.
func (k *Call) parsePositions(t *tensor.Tensor, past, table int) error {
	k.Positions = make([]int, len(k.IDs))
	limit := MaxPositions
	if table > 0 {
		limit = table
	}
	if t == nil && past+k.Length > limit {
		return fmt.Errorf("%w: %s: %d positions; the model has %d", ErrInput, IDs, past+k.Length, limit)
	}
	for i := range k.Positions {
		k.Positions[i] = past + i%k.Length
	}
	return k.parseIndices(k.Positions, Positions, t, limit)
}

// CheckOutputs bounds the values that a call returns: perRow for each row of
// logits, hidden for each position, attentions for each position when they are
// asked for. It counts in float64, which cannot overflow.
func (k *Call) CheckOutputs(perRow, hidden, attentions float64) error {
	rows := float64(k.Batch) * float64(k.Length)
	n := rows * perRow
	if k.LastOnly {
		n = float64(k.Batch) * perRow
	}
	if k.Hidden {
		n += rows * hidden
	}
	if k.Attentions {
		n += rows * attentions
	}
	if n > MaxOutputs {
		return fmt.Errorf("%w: %s: %d sequences of %d ids ask for %.0f output values; the limit is %d",
			ErrInput, IDs, k.Batch, k.Length, n, int64(MaxOutputs))
	}
	return nil
}

// Rows is the number of positions of the call.
func (k *Call) Rows() int { return len(k.IDs) }

func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.QuoteToGraphic(s)
}
