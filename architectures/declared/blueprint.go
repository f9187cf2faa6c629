package declared

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// Architecture stands for a declared model where the name of a family is
// expected. It is no registered family: such a model cannot be built without its
// file.
const Architecture = "declared"

// ErrBlock is wrapped by errors about a block path that is not declared, or a
// block that does not fit its place.
var ErrBlock = errors.New("unknown or unsuitable block")

// ErrPattern is wrapped by errors about patterns of keep and ignore that name
// nothing.
var ErrPattern = errors.New("pattern matches no unbound tensor")

// Blueprint is the model that an architecture file describes, without weights.
// It is immutable and safe for concurrent use.
type Blueprint struct {
	name         string
	dtype        tensor.DType
	vocabulary   int
	maxPositions int
	pad          int
	masks        bool
	keep, ignore []string

	params  []loader.Param
	extra   []loader.Param // kept and ignored tensors of a checkpoint
	blocks  []block
	steps   []step
	values  []value
	outputs []output
}

// block is a finite block of row-local layers.
type block struct {
	path, refusal string
	embedding     string
	width         int
	prefix        []layer
	branches      []branch
	residual      string
	removes       []string
	owns          bool // nothing else reads the embedding
}

type branch struct {
	name   string
	layers []layer
	width  int
}

// output is a value that the model returns. decides is not 0 when its largest
// elements are a decision.
type output struct {
	name    string
	from    int
	decides int
}

// Name is the name that the file gives the model.
func (b *Blueprint) Name() string { return b.name }

// Params lists the bound tensors in the order in which the file names them, then,
// after [Blueprint.Bind], what is kept and ignored of the checkpoint. All bound
// tensors are of the file's element type.
func (b *Blueprint) Params() []loader.Param { return slices.Concat(b.params, b.extra) }

// Bind returns the blueprint for a checkpoint that holds tensors. Those that the
// file does not bind are entered as it says: kept ones as parameters that nothing
// reads, so that a package has them too, and ignored ones as ignored, so that the
// load reports them and a package does not have them. What no pattern names is
// left out, and a strict load refuses it.
//
// A pattern without a * names one tensor; a * stands for any characters. The
// first list is keep. A pattern that matches no unbound tensor is an error that
// wraps [ErrPattern].
func (b *Blueprint) Bind(tensors []loader.TensorInfo) (*Blueprint, error) {
	bound := map[string]bool{}
	for _, p := range b.params {
		bound[p.Name] = true
	}
	used := map[string]bool{}
	view := *b
	view.extra = nil
	for _, t := range tensors {
		if bound[t.Name] {
			continue
		}
		kept, ignored := matches(b.keep, t.Name, "keep", used), matches(b.ignore, t.Name, "ignore", used)
		switch {
		case kept:
			view.extra = append(view.extra, loader.Param{Name: t.Name, Shape: t.Shape, DTypes: []tensor.DType{t.DType}})
		case ignored:
			view.extra = append(view.extra, loader.Param{Name: t.Name, Ignored: true})
		}
	}
	for _, list := range []struct {
		key      string
		patterns []string
	}{{"keep", b.keep}, {"ignore", b.ignore}} {
		for i, p := range list.patterns {
			if !used[list.key+p] {
				return nil, fmt.Errorf("%w: %s[%d]: %s", ErrPattern, list.key, i, quote(p))
			}
		}
	}
	return &view, nil
}

// matches marks every pattern that matches, not only the first.
func matches(patterns []string, name, key string, used map[string]bool) bool {
	found := false
	for _, p := range patterns {
		if match(p, name) {
			used[key+p], found = true, true
		}
	}
	return found
}

// match reports whether a pattern in which * stands for any characters matches
// the whole name.
func match(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	name = name[len(first):]
	parts := strings.Split(rest, "*")
	for _, part := range parts[:len(parts)-1] {
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}

// Blocks lists the declared blocks. What each removes is counted: the tensors
// that nothing else in the file reads, the embedding included when no residual
// carries it out.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	var out []architectures.BlockSpec
	for i := range b.blocks {
		k := &b.blocks[i]
		out = append(out, architectures.BlockSpec{
			Path: k.path, Contract: architectures.TokenIndicesOnly,
			NumTokens: b.vocabulary, EmbeddingWidth: k.width,
			Embedding: k.embedding, Removes: slices.Clone(k.removes),
			Outputs: k.branchOutputs(b.dtype), OwnsEmbedding: k.owns, Refusal: k.refusal,
		})
	}
	return out
}

// Inputs says what the model takes.
func (b *Blueprint) Inputs() architectures.InputSpec {
	return architectures.InputSpec{
		Vocabulary: b.vocabulary, MaxPositions: b.maxPositions, PadToken: b.pad, Masks: b.masks,
	}
}

// Decisions lists the outputs that the file marks as decisions. A block's path
// and output are named where a decision is one of its branches, unchanged.
func (b *Blueprint) Decisions() []architectures.Decision {
	out := []architectures.Decision{}
	for _, o := range b.outputs {
		if o.decides == 0 {
			continue
		}
		d := architectures.Decision{Output: o.name, Top: o.decides}
		for _, k := range b.blocks {
			for _, br := range k.branches {
				if b.values[o.from].name == k.path+"."+br.name {
					d.Block, d.BlockOutput = k.path, br.name
				}
			}
		}
		out = append(out, d)
	}
	return out
}

var (
	_ architectures.Blueprint = (*Blueprint)(nil)
	_ architectures.Decider   = (*Blueprint)(nil)
)
