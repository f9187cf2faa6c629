package finitepass

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// SharedKind is the kind of a [Sharing].
const SharedKind = "shared_tensors"

// Sharing says which tensors of a model are the same bytes and need to be stored
// once. Its JSON form is what a package keeps.
type Sharing struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	// Groups lists the stored tensors, ordered by name.
	Groups []SharedGroup `json:"groups"`
}

// SharedGroup is one stored tensor and the names that stand for it.
type SharedGroup struct {
	// Tensor is the name under which the bytes are stored.
	Tensor string `json:"tensor"`
	// SHA256 is the digest of its bytes.
	SHA256 string `json:"sha256"`
	// Names lists the other tensors with the same type, shape and bytes, ordered.
	Names []string `json:"names"`
}

// ShareReport tells what [ShareTensors] found.
type ShareReport struct {
	// Compared counts the tensors that had another of their type and shape, whose
	// bytes were therefore read.
	Compared int `json:"compared"`
	// Shared counts the names that are stored under another one from now on, and
	// AlreadyShared those that had the same storage before, which saves nothing.
	Shared        int `json:"shared"`
	AlreadyShared int `json:"already_shared"`
	// Account measures the whole model; logical bytes count every name and do not
	// fall.
	Account Account `json:"account"`
}

// Saves reports whether resident bytes fall by more than the recipe takes. Names
// stay, so logical bytes do not.
func (r *ShareReport) Saves() bool { return r.Account.BytesSaved > r.Account.RecipeBytes }

// ShareTensors finds the tensors of a model that are equal in type, shape and
// every byte, such as position buffers that each layer keeps a copy of. +0 and −0
// differ. Tensors marked Ignored are left out. Only tensors with a partner of
// their type and shape are read, one at a time; equal digests are confirmed byte
// by byte. The sharing is nil when nothing is saved.
func ShareTensors(ctx context.Context, params []loader.Param, weights architectures.Weights) (*Sharing, *ShareReport, error) {
	inv, err := NewInventory(params, weights)
	if err != nil {
		return nil, nil, err
	}
	report := &ShareReport{}
	type key struct {
		shape  string
		digest [sha256.Size]byte
	}
	partners := map[string]int{}
	for _, e := range inv.entries {
		partners[e.kind()]++
	}
	first := map[key][]string{}
	groups := map[string]*SharedGroup{}
	for _, e := range inv.entries {
		if partners[e.kind()] < 2 || e.bytes == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		t, err := weights.Tensor(e.name)
		if err != nil {
			return nil, nil, fmt.Errorf("sharing: %w", err)
		}
		report.Compared++
		k := key{e.kind(), sha256.Sum256(t.Bytes())}
		target := ""
		for _, name := range first[k] {
			other, err := weights.Tensor(name)
			if err != nil {
				return nil, nil, fmt.Errorf("sharing: %w", err)
			}
			if tensor.BitEqual(t, other) {
				target = name
				break
			}
		}
		if target == "" {
			first[k] = append(first[k], e.name)
			continue
		}
		if e.storage == inv.entries[inv.index[target]].storage {
			report.AlreadyShared++
			continue
		}
		if groups[target] == nil {
			groups[target] = &SharedGroup{Tensor: target, SHA256: hex.EncodeToString(k.digest[:])}
		}
		groups[target].Names = append(groups[target].Names, e.name)
		report.Shared++
	}
	sharing := &Sharing{Kind: SharedKind, Version: 1, Groups: []SharedGroup{}}
	before := inv.Total()
	for _, g := range groups {
		slices.Sort(g.Names)
		sharing.Groups = append(sharing.Groups, *g)
		for _, name := range g.Names {
			inv.merge(inv.entries[inv.index[g.Tensor]].storage, inv.entries[inv.index[name]].storage)
		}
	}
	slices.SortFunc(sharing.Groups, func(a, b SharedGroup) int { return strings.Compare(a.Tensor, b.Tensor) })
	text, err := encodeRecipe(sharing)
	if err != nil {
		return nil, nil, err
	}
	after := inv.Total()
	report.Account = account(before, after, after, int64(len(text)))
	if !report.Saves() {
		return nil, report, nil
	}
	return sharing, report, nil
}

// kind identifies type and shape.
func (e entry) kind() string { return e.dtype.String() + e.shape.String() }

// ParseSharing reads the JSON form, which must be exactly what [Sharing.Encode]
// writes, up to white space and the order of keys. Errors wrap [ErrRecipe].
func ParseSharing(data []byte) (*Sharing, error) {
	s := &Sharing{}
	if err := parseRecipe(data, s); err != nil {
		return nil, err
	}
	return s, nil
}

// Encode writes the JSON form.
func (s *Sharing) Encode() ([]byte, error) { return encodeRecipe(s) }

// Validate refuses empty and repeated names, and a tensor that is stored under
// another name while names stand for it. Errors wrap [ErrRecipe].
func (s *Sharing) Validate() error {
	if s.Kind != SharedKind || s.Version != 1 {
		return fmt.Errorf("%w: kind %s, version %d, expected %q and 1", ErrRecipe, quoteShort(s.Kind), s.Version, SharedKind)
	}
	seen := map[string]bool{}
	last := ""
	for _, g := range s.Groups {
		if g.Tensor <= last {
			return fmt.Errorf("%w: group %s does not follow %s", ErrRecipe, quoteShort(g.Tensor), quoteShort(last))
		}
		last = g.Tensor
		if b, err := hex.DecodeString(g.SHA256); err != nil || len(b) != sha256.Size || strings.ToLower(g.SHA256) != g.SHA256 {
			return fmt.Errorf("%w: group %s has the digest %s", ErrRecipe, quoteShort(g.Tensor), quoteShort(g.SHA256))
		}
		if len(g.Names) == 0 || !slices.IsSorted(g.Names) {
			return fmt.Errorf("%w: group %s has %d names, expected some in order", ErrRecipe, quoteShort(g.Tensor), len(g.Names))
		}
		for _, name := range append([]string{g.Tensor}, g.Names...) {
			if err := checkText("tensor name", name); err != nil {
				return fmt.Errorf("%w: %w", ErrRecipe, err)
			}
			if seen[name] {
				return fmt.Errorf("%w: tensor %s is named twice", ErrRecipe, quoteShort(name))
			}
			seen[name] = true
		}
	}
	return nil
}

// Apply returns a view of weights in which all names of a group give the one
// stored tensor. Names and stored tensor must be declared in params with one
// shape, and the stored bytes must have the recorded digest, which is checked
// here once. What weights holds under the other names is not read.
func (s *Sharing) Apply(params []loader.Param, weights architectures.Weights) (architectures.Weights, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	declared := map[string]loader.Param{}
	for _, p := range params {
		declared[p.Name] = p
	}
	view := sharedWeights{weights, map[string]*tensor.Tensor{}}
	for _, g := range s.Groups {
		t, err := weights.Tensor(g.Tensor)
		if err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(t.Bytes()); hex.EncodeToString(sum[:]) != g.SHA256 {
			return nil, fmt.Errorf("%w: tensor %q has other bytes than when it was shared", ErrRecipe, g.Tensor)
		}
		for _, name := range append([]string{g.Tensor}, g.Names...) {
			p, ok := declared[name]
			if !ok {
				return nil, fmt.Errorf("%w: the model has no tensor %s", ErrRecipe, quoteShort(name))
			}
			if !p.Shape.Equal(t.Shape()) || !slices.Contains(p.DTypes, t.DType()) {
				return nil, fmt.Errorf("%w: tensor %q is %v%v, shared with %v", ErrRecipe, name, p.DTypes, p.Shape, t)
			}
			view.shared[name] = t
		}
	}
	return view, nil
}

type sharedWeights struct {
	architectures.Weights
	shared map[string]*tensor.Tensor
}

func (w sharedWeights) Tensor(name string) (*tensor.Tensor, error) {
	if t, ok := w.shared[name]; ok {
		return t, nil
	}
	return w.Weights.Tensor(name)
}

// Rows passes packed rows of the weights below through.
func (w sharedWeights) Rows(name string) (nn.RowSource, error) {
	if r, ok := w.Weights.(architectures.RowWeights); ok && w.shared[name] == nil {
		return r.Rows(name)
	}
	return nil, nil
}
