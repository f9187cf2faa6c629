package run

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
)

// Sum describes a finite block whose rows are sums of rows of several tables,
// such as tokens and positions: its domain is their product, which is as a rule
// far larger than what it could replace. It is declared so that a report can say
// so in numbers.
type Sum struct {
	Path     string
	Terms    []Term
	Width    int // of every table
	Removes  []string
	Outputs  []nn.Output
	Declared []loader.Param
}

// Term is one table of a [Sum].
type Term struct {
	What  string // such as "positions"
	Table string // its tensor
	Rows  int
}

// Spec declares the block, refused, with the arithmetic of the refusal.
func (s *Sum) Spec() architectures.BlockSpec {
	elements, terms, others := 1, []string{}, []string{}
	for i, t := range s.Terms {
		elements *= t.Rows
		terms = append(terms, digits(t.Rows)+" "+t.What)
		if i > 0 {
			others = append(others, t.What)
		}
	}
	columns, bytes := 0, 0
	for _, o := range s.Outputs {
		columns += o.Width
		bytes += o.Width * o.DType.Size()
	}
	removed := 0
	for _, name := range s.Removes {
		for _, p := range s.Declared {
			if p.Name == name {
				n, err := p.Shape.Bytes(p.DTypes[0])
				if err != nil { // the configuration bounds shapes
					panic(err)
				}
				removed += int(n)
			}
		}
	}
	return architectures.BlockSpec{
		Path: s.Path, Contract: architectures.TokenIndicesOnly,
		NumTokens: elements, EmbeddingWidth: s.Width, Embedding: s.Terms[0].Table,
		Removes: s.Removes, Outputs: s.Outputs,
		Refusal: fmt.Sprintf("%s are added to the token's row before the first projection, so the block is a function of %s = %s combinations; "+
			"a table of %s columns for each takes %s bytes, the tensors that it would replace take %s",
			strings.Join(others, " and "), strings.Join(terms, " × "), digits(elements), digits(columns), digits(elements*bytes), digits(removed)),
	}
}

// Summed is the source form of a [Sum]. Index ((i·n₁ + j)·n₂ + k)… means row i of
// the first table, row j of the second with n₁ rows, and so on. Rows are added
// from left to right.
type Summed struct {
	Spec     architectures.BlockSpec
	Tables   []nn.Table
	Prefix   []nn.RowLocal
	Branches [][]nn.RowLocal
}

// NumTokens is the number of combinations.
func (b *Summed) NumTokens() int { return b.Spec.NumTokens }

// Outputs lists the declared outputs.
func (b *Summed) Outputs() []nn.Output { return b.Spec.Outputs }

// Forward evaluates the combinations.
func (b *Summed) Forward(s nn.Session, ids []int) []nn.Array {
	rows := make([][]int, len(b.Tables))
	for i := range rows {
		rows[i] = make([]int, len(ids))
	}
	for at, id := range ids {
		for i := len(b.Tables) - 1; i > 0; i-- {
			n := b.Tables[i].NumRows()
			rows[i][at], id = id%n, id/n
		}
		rows[0][at] = id
	}
	x := nn.Apply(s, b.Prefix, AddRows(s, b.Tables, rows))
	var out []nn.Array
	for _, layers := range b.Branches {
		out = append(out, nn.Apply(s, layers, x))
	}
	return out
}

// AddRows gathers rows of several tables and adds them from left to right.
func AddRows(s nn.Session, tables []nn.Table, rows [][]int) nn.Array {
	x := s.Gather(tables[0], rows[0])
	for i, t := range tables[1:] {
		x = s.Add(x, s.Gather(t, rows[i+1]))
	}
	return x
}

// digits writes n with thousands separated.
func digits(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
