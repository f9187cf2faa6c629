package loader

import (
	"fmt"
	"slices"

	"github.com/hfcompress/compress/tensor"
)

// NonFinite says what a strict load does with infinities and NaNs.
type NonFinite uint8

// Policies for values that are not finite.
const (
	RefuseNonFinite NonFinite = iota
	AllowNonFinite
)

// Policy says what [Strict] accepts. The zero value is the strictest.
type Policy struct {
	// NonFinite applies to F64, F32, F16, BF16, C64 and the 8-bit float types.
	// Ignored tensors are not checked. To refuse means to read every byte once.
	NonFinite NonFinite
}

// Fill reports that a declared parameter was absent and is read from the one
// that it is tied to.
type Fill struct {
	// Name was absent, From is the tensor of the checkpoint in its place.
	Name string `json:"name"`
	From string `json:"from"`
}

// Weights are the tensors of a checkpoint under the names of a set of declared
// parameters, all of them present and as declared. They live as long as the
// checkpoint is open and are safe for concurrent use.
type Weights struct {
	c       *Checkpoint
	source  map[string]string // declared name to stored name
	names   []string
	filled  []Fill
	ignored []string
}

// Tensor returns the tensor of a declared parameter, with ties resolved. See
// [Checkpoint.Tensor] for its lifetime. A name that was not declared, or was
// declared as ignored, gives an error that wraps [ErrNoTensor].
func (w *Weights) Tensor(name string) (*tensor.Tensor, error) {
	stored, ok := w.source[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w %s among the declared parameters", w.c.path, ErrNoTensor, quote(name))
	}
	return w.c.Tensor(stored)
}

// Source returns the checkpoint's name of the tensor that a parameter reads, ""
// for an undeclared one. Tied parameters have the same source.
func (w *Weights) Source(name string) string { return w.source[name] }

// Names lists the parameters that can be read, in the order of declaration. It
// must not be changed.
func (w *Weights) Names() []string { return w.names }

// Filled lists the parameters that were absent and are read from a tied one, in
// the order of declaration. It must not be changed.
func (w *Weights) Filled() []Fill { return w.filled }

// Ignored lists the tensors that are present and not read because they are
// declared as ignored. It must not be changed.
func (w *Weights) Ignored() []string { return w.ignored }

// Checkpoint returns the checkpoint that the weights are read from.
func (w *Weights) Checkpoint() *Checkpoint { return w.c }

// Strict holds a checkpoint against the parameters that a model declares. Every
// disagreement is found before it returns: missing and unexpected tensors, wrong
// shapes and types, tied parameters whose bits differ, values that are not
// finite; all are listed in one [*StrictError]. Nothing is ever cast or
// reshaped.
//
// Of a group of tied parameters at least one must be present; the others are
// filled from it and reported. Params that contradict each other, such as two
// of one name, are the caller's mistake and give a plain error.
func Strict(c *Checkpoint, params []Param, policy Policy) (*Weights, error) {
	ties, err := tieGroups(params)
	if err != nil {
		return nil, err
	}
	s := &strictRun{c: c, report: StrictError{Source: c.path, Declared: len(params), Found: len(c.names)}}
	w := &Weights{c: c, source: make(map[string]string, len(params))}
	declared := make(map[string]*Param, len(params))
	good := map[string]bool{} // present, with the declared shape and type
	for i := range params {
		p := &params[i]
		declared[p.Name] = p
		if info, err := c.Info(p.Name); err == nil {
			good[p.Name] = s.compare(p, &info)
			if p.Ignored {
				w.ignored = append(w.ignored, p.Name)
			}
		}
	}
	for _, name := range c.names {
		if declared[name] == nil {
			info, _ := c.Info(name)
			s.add(Unexpected, name, "", info.DTypeName+info.Shape.String())
		}
	}
	for i := range params {
		p := &params[i]
		if p.Ignored {
			continue
		}
		w.names = append(w.names, p.Name)
		if _, present := good[p.Name]; present {
			w.source[p.Name] = p.Name
			continue
		}
		from := ""
		for _, member := range ties[p.Name] {
			if _, present := good[member]; present {
				from = member
				break
			}
		}
		if from == "" {
			s.missing(p, ties[p.Name])
			continue
		}
		w.source[p.Name] = from
		w.filled = append(w.filled, Fill{Name: p.Name, From: from})
		// The one in its place may be of a type that only itself may have.
		if info, _ := c.Info(from); good[from] && len(p.DTypes) > 0 && !slices.Contains(p.DTypes, info.DType) {
			s.addFrom(DTypeMismatch, p.Name, from, dtypeNames(p.DTypes), info.DTypeName+" from "+quote(from))
		}
	}
	if err := s.values(params, ties, good, policy); err != nil {
		return nil, err
	}
	// Tied parameters that are all present read one and the same tensor.
	for name, group := range ties {
		for _, member := range group {
			if good[member] {
				w.source[name] = member
				break
			}
		}
	}
	if len(s.report.Problems) > 0 {
		s.report.sort()
		return nil, &s.report
	}
	return w, nil
}

// tieGroups checks the declarations and returns, for each parameter that is tied
// to another or has others tied to it, its whole group, the root first and the
// rest in the order of declaration.
func tieGroups(params []Param) (map[string][]string, error) {
	byName := make(map[string]*Param, len(params))
	for i := range params {
		p := &params[i]
		if byName[p.Name] != nil {
			return nil, fmt.Errorf("declared parameters: %s is declared twice", quote(p.Name))
		}
		byName[p.Name] = p
	}
	byRoot := map[string][]string{}
	for i := range params {
		p := &params[i]
		if p.TiedTo == "" {
			continue
		}
		root := p
		for steps := 0; root.TiedTo != ""; steps++ {
			next := byName[root.TiedTo]
			switch {
			case next == nil:
				return nil, fmt.Errorf("declared parameters: %s is tied to %s, which is not declared", quote(root.Name), quote(root.TiedTo))
			case steps > len(params):
				return nil, fmt.Errorf("declared parameters: %s is tied to itself", quote(p.Name))
			case !next.Shape.Equal(p.Shape):
				return nil, fmt.Errorf("declared parameters: %s is %v and tied to %s, which is %v", quote(p.Name), p.Shape, quote(next.Name), next.Shape)
			case p.Ignored || next.Ignored:
				return nil, fmt.Errorf("declared parameters: %s is tied to %s and one of them is ignored", quote(p.Name), quote(next.Name))
			}
			root = next
		}
		if len(byRoot[root.Name]) == 0 {
			byRoot[root.Name] = []string{root.Name}
		}
		byRoot[root.Name] = append(byRoot[root.Name], p.Name)
	}
	groups := map[string][]string{}
	for _, group := range byRoot {
		for _, name := range group {
			groups[name] = group
		}
	}
	return groups, nil
}

type strictRun struct {
	c      *Checkpoint
	report StrictError
}

func (s *strictRun) add(kind ProblemKind, name, expected, found string) {
	s.addFrom(kind, name, name, expected, found)
}

func (s *strictRun) addFrom(kind ProblemKind, name, stored, expected, found string) {
	s.report.Problems = append(s.report.Problems, Problem{Kind: kind, Tensor: name,
		File: s.c.FileOf(stored), Expected: expected, Found: found})
}

// compare holds a present tensor against its declaration.
func (s *strictRun) compare(p *Param, info *TensorInfo) bool {
	ok := true
	if (p.Shape != nil || !p.Ignored) && !p.Shape.Equal(info.Shape) {
		s.add(ShapeMismatch, p.Name, p.Shape.String(), info.Shape.String())
		ok = false
	}
	if len(p.DTypes) > 0 && !slices.Contains(p.DTypes, info.DType) {
		s.add(DTypeMismatch, p.Name, dtypeNames(p.DTypes), info.DTypeName)
		ok = false
	}
	return ok
}

func (s *strictRun) missing(p *Param, group []string) {
	expected := p.Shape.String()
	if len(p.DTypes) > 0 {
		expected = dtypeNames(p.DTypes) + expected
	}
	if len(group) > 1 {
		others := slices.DeleteFunc(slices.Clone(group), func(n string) bool { return n == p.Name })
		expected += fmt.Sprintf(", or tied %q", others)
	}
	s.add(Missing, p.Name, expected, "")
}

func dtypeNames(types []tensor.DType) string {
	text := ""
	for i, d := range types {
		if i > 0 {
			text += "|"
		}
		text += d.String()
	}
	return text
}
