package declared

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/hfcompress/compress/architectures/nn"
)

// The operations of steps. Unlike layers they may look at other positions.
const (
	stepLayers    = "layers"
	stepSum       = "sum"
	stepProduct   = "product"
	stepAttention = "attention"
	stepPositions = "positions"
	stepRotary    = "rotary"
	stepPool      = "pool"
	stepRepeat    = "repeat"
)

// The ways of pooling a sequence into one row.
const (
	poolFirst = "first"
	poolLast  = "last"
	poolMean  = "mean"
)

// step computes one value from others, all of them by number.
type step struct {
	op   string
	from []int
	to   int

	layers []layer // stepLayers

	// Attention and rotary positions.
	heads, kvHeads, headDim int
	causal                  bool
	scale                   float32
	rope                    nn.Rope
	style                   nn.RotaryStyle

	// Learned positions: row offset+p of table is added at position p.
	table  string
	offset int

	how string // stepPool
}

// value is what a block or step makes: rows of a width, one per token position,
// or one per sequence once it is pooled.
type value struct {
	name, path string
	width      int
	pooled     bool
	// shown is the name under which it is an output when hidden states are asked
	// for, empty for values inside of a repetition.
	shown string
	inner bool
	read  bool
}

// steps parses a list of steps; top says that it is the file's own and not that
// of a repetition. It returns the number of the last value.
func (p *parser) steps(r *reader, key string, scope map[string]int, top bool) int {
	last := -1
	r.objects(key, maxChain, func(o *reader) {
		if p.nodes++; p.nodes > maxNodes {
			o.failAt(o.path, "more than %d layers and steps in all", maxNodes)
		}
		last = p.step(o, scope, top)
		o.done()
	})
	return last
}

func (p *parser) step(r *reader, scope map[string]int, top bool) int {
	name := r.name("name")
	s := step{op: r.text("op", true)}
	if p.err != nil {
		return 0
	}
	v := value{shown: name, inner: !top}
	if !top {
		v.shown = ""
	}
	switch s.op {
	case stepLayers:
		from := p.source(r, &s, &v, scope)
		s.layers, v.width = p.layers(r, "layers", from)
	case stepSum, stepProduct:
		p.several(r, &s, &v, scope)
	case stepAttention:
		p.attention(r, &s, &v, scope)
	case stepPositions:
		v.width = p.source(r, &s, &v, scope)
		p.perPosition(r, s, "from")
		if s.offset = r.integer("offset", 0, 0, maxPositions); p.err == nil && p.b.maxPositions == 0 {
			r.fail("op", "learned positions need max_positions")
		}
		s.table = p.tensor(r, "tensor", true, p.b.maxPositions+s.offset, v.width)
	case stepRotary:
		v.width = p.source(r, &s, &v, scope)
		p.rotary(r, &s, v.width)
	case stepPool:
		v.width = p.source(r, &s, &v, scope)
		p.perPosition(r, s, "from")
		s.how, v.pooled = r.choice("how", poolFirst, poolLast, poolMean), true
	case stepRepeat:
		if !top {
			r.fail("op", "a repetition cannot hold another")
			return 0
		}
		return p.repeat(r, name, scope)
	default:
		r.wrong("op", "layers, sum, product, attention, positions, rotary, pool or repeat")
	}
	s.to = p.value(r, "name", scope, name, v)
	p.b.steps = append(p.b.steps, s)
	return s.to
}

// source reads the one value that a step starts from and returns its width.
func (p *parser) source(r *reader, s *step, v *value, scope map[string]int) int {
	i := p.use(r, "from", scope)
	s.from = []int{i}
	if p.err != nil {
		return 1
	}
	v.pooled = p.b.values[i].pooled
	return p.b.values[i].width
}

// perPosition refuses a pooled operand.
func (p *parser) perPosition(r *reader, s step, key string) {
	for _, i := range s.from {
		if p.err == nil && p.b.values[i].pooled {
			r.fail(key, "%s has one row per sequence, expected one per position", quote(p.b.values[i].name))
		}
	}
}

func (p *parser) several(r *reader, s *step, v *value, scope map[string]int) {
	names := r.texts("of", maxChain)
	if p.err == nil && len(names) < 2 {
		r.wrong("of", "two or more names of values")
	}
	for i, name := range names {
		s.from = append(s.from, p.find(r, "of", name, scope))
		if p.err != nil {
			return
		}
		w := p.b.values[s.from[i]]
		if i == 0 {
			v.width, v.pooled = w.width, w.pooled
		} else if w.width != v.width || w.pooled != v.pooled {
			r.fail("of", "%s has %s, %s has %s", quote(names[0]), form(*v), quote(name), form(w))
		}
	}
}

func form(v value) string {
	if v.pooled {
		return fmt.Sprintf("one row of width %d per sequence", v.width)
	}
	return fmt.Sprintf("one row of width %d per position", v.width)
}

func (p *parser) attention(r *reader, s *step, v *value, scope map[string]int) {
	for _, key := range []string{"q", "k", "v"} {
		s.from = append(s.from, p.use(r, key, scope))
	}
	s.heads = r.integer("heads", required, 1, maxWidth)
	s.kvHeads = r.integer("kv_heads", s.heads, 1, maxWidth)
	s.causal = r.flag("causal")
	if p.err != nil {
		return
	}
	p.perPosition(r, *s, "q")
	q, k, w := p.b.values[s.from[0]].width, p.b.values[s.from[1]].width, p.b.values[s.from[2]].width
	s.headDim = q / s.heads
	switch {
	case q%s.heads != 0:
		r.fail("heads", "%d does not divide the width %d of q", s.heads, q)
	case s.heads%s.kvHeads != 0:
		r.fail("kv_heads", "%d does not divide heads %d", s.kvHeads, s.heads)
	case k != s.kvHeads*s.headDim || w != k:
		r.fail("k", "%d heads of size %d need width %d, k has %d and v %d", s.kvHeads, s.headDim, s.kvHeads*s.headDim, k, w)
	}
	if p.err == nil {
		s.scale = float32(r.number("scale", 1/math.Sqrt(float64(s.headDim))))
	}
	v.width = q
}

func (p *parser) rotary(r *reader, s *step, width int) {
	p.perPosition(r, *s, "from")
	s.heads = r.integer("heads", required, 1, maxWidth)
	if p.err == nil && width%s.heads != 0 {
		r.fail("heads", "%d does not divide the width %d", s.heads, width)
		return
	}
	size := width / max(1, s.heads)
	s.rope = nn.Rope{Theta: r.number("theta", 1e4), Dim: r.integer("dim", size, 1, max(1, size))}
	if r.choice("style", "halves", "pairs") == "pairs" {
		s.style = nn.RotatePairs
	}
	if p.err != nil {
		return
	}
	if _, err := s.rope.InverseFrequencies(); err != nil {
		r.failAt(r.path, "%v", err)
	}
}

// repeat parses its steps once for each repetition. In them, "in" is the result
// of the one before, and {i} in the names of tensors its number.
func (p *parser) repeat(r *reader, name string, scope map[string]int) int {
	at := p.use(r, "from", scope)
	count := r.integer("count", required, 1, maxRepeat)
	first := r.integer("first", 0, 0, maxRepeat)
	if p.err == nil && len(r.list("steps", maxChain)) == 0 {
		r.fail("steps", "expected at least one step")
	}
	if n := len(r.fields["steps"]); n*count > maxRepeated {
		r.fail("count", "%d repetitions of %d bytes are more than %d", count, n, maxRepeated)
	}
	if p.err != nil {
		return 0
	}
	in := p.b.values[at]
	for i := range count {
		inner := maps.Clone(scope)
		inner["in"] = at
		p.index = first + i
		at = p.steps(r, "steps", inner, false)
		p.index = -1
		if p.err != nil {
			return 0
		}
		out := &p.b.values[at]
		if out.width != in.width || out.pooled != in.pooled {
			r.fail("steps", "the last step gives %s, the next repetition takes %s", form(*out), form(in))
			return 0
		}
		out.shown, out.read = fmt.Sprintf("%s.%d", name, i), true
		for _, k := range slices.Sorted(maps.Keys(inner)) {
			if j := inner[k]; p.b.values[j].inner && k != "in" && !p.b.values[j].read && p.err == nil {
				r.fail("steps", "nothing reads %s", quote(k))
			}
		}
	}
	// The result goes by the repetition's name from here on.
	p.b.values[at].inner, p.b.values[at].read = false, false
	if _, taken := scope[name]; taken && p.err == nil {
		r.fail("name", "%s is used twice", quote(name))
	}
	p.b.values[at].name = name
	scope[name] = at
	return at
}
