package run

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures/nn"
)

// ErrBlock is wrapped by errors about a block path that is not declared, or a
// block that does not fit its place.
var ErrBlock = errors.New("unknown or unsuitable block")

// Slot is a place that a block can take.
type Slot struct {
	Path    string
	Tokens  int
	Domain  *nn.Domain  // nil for token ids
	Outputs []nn.Output // residual included
}

// Check compares a block with the slot.
func (s *Slot) Check(block nn.TokenBlock) error {
	if err := nn.CheckBlock(block, s.Tokens, s.Domain, s.Outputs); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrBlock, s.Path, err)
	}
	return nil
}

// Slots lists a model's places; nil when it declares no block.
type Slots []Slot

// Index returns the place of a path.
func (s Slots) Index(path string) (int, error) {
	i := slices.IndexFunc(s, func(s Slot) bool { return s.Path == path })
	if i >= 0 {
		return i, nil
	}
	if len(s) == 0 {
		return 0, fmt.Errorf("%w: %q; this model declares no block that can be replaced", ErrBlock, path)
	}
	var declared []string
	for _, slot := range s {
		declared = append(declared, slot.Path)
	}
	return 0, fmt.Errorf("%w: %q; declared: %s", ErrBlock, path, strings.Join(declared, ", "))
}

// Place returns the place of a path once block was found to fit it.
func (s Slots) Place(path string, block nn.TokenBlock) (int, error) {
	i, err := s.Index(path)
	if err == nil {
		err = s[i].Check(block)
	}
	return i, err
}

// Given checks the blocks that a Build was given and returns them in the order
// of the slots, nil where there is none.
func (s Slots) Given(blocks map[string]nn.TokenBlock) ([]nn.TokenBlock, error) {
	out := make([]nn.TokenBlock, len(s))
	for _, path := range slices.Sorted(maps.Keys(blocks)) {
		i, err := s.Place(path, blocks[path])
		if err != nil {
			return nil, err
		}
		out[i] = blocks[path]
	}
	return out, nil
}
