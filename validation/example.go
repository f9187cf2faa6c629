package validation

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/hfcompress/compress/architectures"
)

// Example is one call of a model.
type Example struct {
	Name   string
	Inputs architectures.Inputs
}

// Digest identifies examples by everything in them, order included: a SHA-256 in
// hexadecimal.
func Digest(examples []Example) string {
	h := sha256.New()
	text := func(s string) {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(s)))
		h.Write(size[:])
		h.Write([]byte(s))
	}
	for _, e := range examples {
		text("example")
		text(e.Name)
		for _, name := range slices.Sorted(maps.Keys(e.Inputs.Tensors)) {
			t := e.Inputs.Tensors[name]
			text("tensor")
			text(name)
			text(t.String())
			h.Write(t.Bytes()) // its length follows from the description
		}
		for _, name := range slices.Sorted(maps.Keys(e.Inputs.Flags)) {
			text("flag")
			text(name)
			if e.Inputs.Flags[name] {
				text("true")
			} else {
				text("false")
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// positions is the number of token positions that an example makes a model
// compute.
func (e Example) positions() int {
	n := 0
	for _, t := range e.Inputs.Tensors { // a decoder's may be longer than input_ids
		n = max(n, t.Len())
	}
	return n
}

// isUsual reports whether an input is one that every token model may have.
func isUsual(name string) bool {
	return name == inputIDs || name == attentionMask || name == positionIDs
}

// Names that inputs and flags have in the reference implementation.
const (
	inputIDs      = "input_ids"
	attentionMask = "attention_mask"
	positionIDs   = "position_ids"

	flagHiddenStates = "output_hidden_states"
	flagAttentions   = "output_attentions"
)
