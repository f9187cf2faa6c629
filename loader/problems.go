package loader

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hfcompress/compress/tensor"
)

// Kinds of problem, for errors.Is on a [*StrictError]. Wrong shapes and types
// are tensor.ErrShape and tensor.ErrDType.
var (
	ErrMissing    = errors.New("missing tensor")
	ErrUnexpected = errors.New("unexpected tensor")
	ErrTie        = errors.New("tied tensors differ")
	ErrNonFinite  = errors.New("value is not finite")
)

// ProblemKind says in what way a checkpoint and a declaration disagree.
type ProblemKind uint8

// The kinds, in the order in which they are listed.
const (
	Missing ProblemKind = iota
	Unexpected
	ShapeMismatch
	DTypeMismatch
	TieConflict
	NonFiniteValue
)

var kinds = [...]struct {
	name string
	err  error
}{
	Missing:        {"missing", ErrMissing},
	Unexpected:     {"unexpected", ErrUnexpected},
	ShapeMismatch:  {"shape", tensor.ErrShape},
	DTypeMismatch:  {"dtype", tensor.ErrDType},
	TieConflict:    {"tie conflict", ErrTie},
	NonFiniteValue: {"not finite", ErrNonFinite},
}

// String names the kind, as "missing" or "shape".
func (k ProblemKind) String() string {
	if int(k) < len(kinds) {
		return kinds[k].name
	}
	return fmt.Sprintf("ProblemKind(%d)", uint8(k))
}

// Problem is one disagreement.
type Problem struct {
	// Kind says in what way.
	Kind ProblemKind
	// Tensor is the tensor's name.
	Tensor string
	// File is the name of the file that holds it, empty when it is missing.
	File string
	// Expected is what was declared, Found what the checkpoint has. Expected is
	// empty for an unexpected tensor, Found for a missing one.
	Expected, Found string
}

// String writes the problem on one line.
func (p Problem) String() string {
	s := quote(p.Tensor)
	if p.File != "" {
		s += " in " + p.File
	}
	switch p.Kind {
	case Missing:
		return "missing " + s + ": expected " + p.Expected
	case Unexpected:
		return "unexpected " + s + ": found " + p.Found
	}
	return fmt.Sprintf("%v %s: expected %s, found %s", p.Kind, s, p.Expected, p.Found)
}

// StrictError lists everything on which a checkpoint and the declared parameters
// disagree. errors.Is finds the kinds of problem in it.
type StrictError struct {
	// Source is the path of the checkpoint.
	Source string
	// Declared is the number of declared parameters, Found that of the tensors.
	Declared, Found int
	// Problems is never empty, sorted by kind and then as declared or stored.
	Problems []Problem
}

func (e *StrictError) sort() {
	slices.SortStableFunc(e.Problems, func(a, b Problem) int { return cmp.Compare(a.Kind, b.Kind) })
}

// Summary says on one line how many problems of each kind there are and what the
// first one is.
func (e *StrictError) Summary() string {
	var counts [len(kinds)]int
	for _, p := range e.Problems {
		counts[p.Kind]++
	}
	var parts []string
	for k, n := range counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %v", n, ProblemKind(k)))
		}
	}
	s := fmt.Sprintf("%s does not match the model: %s; ", e.Source, strings.Join(parts, ", "))
	if len(e.Problems) > 1 {
		s += "first: "
	}
	return s + e.Problems[0].String()
}

// Error lists the problems, one a line; of each kind at most 50.
func (e *StrictError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s does not match the model (%d parameters declared, %d tensors found):", e.Source, e.Declared, e.Found)
	const most = 50
	shown := 0
	for i, p := range e.Problems {
		if i > 0 && p.Kind != e.Problems[i-1].Kind {
			shown = 0
		}
		if shown++; shown <= most {
			b.WriteString("\n  " + p.String())
		}
		if last := i+1 == len(e.Problems) || e.Problems[i+1].Kind != p.Kind; last && shown > most {
			fmt.Fprintf(&b, "\n  … and %d more %v", shown-most, p.Kind)
		}
	}
	return b.String()
}

// Is reports whether one of the problems is of the kind target.
func (e *StrictError) Is(target error) bool {
	return slices.ContainsFunc(e.Problems, func(p Problem) bool { return kinds[p.Kind].err == target })
}
