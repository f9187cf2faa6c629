package soft

import (
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/metalgpu/internal/soft/lang"
)

// A kernel becomes a tree of closures. A statement runs for some lanes and returns
// those that go on behind it; the others have left by a jump. An expression
// returns a value for each of the lanes, in a slice over all lanes: a variable's
// own, or a temporary, of which an expression at depth d of its statement uses
// number d.

type statement func(m *machine, act lanes) lanes

type expression func(m *machine, act lanes) []uint32

// pipeline is a kernel made ready.
type pipeline struct {
	device  *device // closures have room for one run at a time
	kernel  *kernel.Kernel
	program *lang.Program
	code    statement
	temps   int
}

func (p *pipeline) Kernel() *kernel.Kernel { return p.kernel }

// newPipeline parses and compiles a kernel.
func newPipeline(k *kernel.Kernel) (*pipeline, error) {
	program, err := lang.Parse(k)
	if err != nil {
		return nil, err
	}
	p := &pipeline{kernel: k, program: program}
	c := &compiler{p: p, functions: map[*lang.Function]*function{}}
	for _, f := range program.Functions {
		// A function's temporaries lie above those of its callers: it is compiled for
		// each depth that it is called from, when it is.
		c.functions[f] = &function{f, map[int]statement{}}
	}
	p.code = c.statement(program.Body)
	return p, nil
}

type function struct {
	source *lang.Function
	bodies map[int]statement // by depth
}

// compiler holds where jumps go to.
type compiler struct {
	p         *pipeline
	functions map[*lang.Function]*function
	base      int // depth of the function that is compiled
	loop      *jumps
}

// jumps collects the lanes that leave a loop's body.
type jumps struct{ broken, continued lanes }

func (c *compiler) statement(s lang.Stmt) statement {
	switch s := s.(type) {
	case *lang.Block:
		return c.block(s)
	case *lang.If:
		return c.branch(s)
	case *lang.Loop:
		return c.loopOf(s)
	case *lang.Assign:
		return c.assign(s)
	case *lang.Store:
		return c.store(s)
	case *lang.Jump:
		return c.jump(s)
	case *lang.Do:
		call := c.expression(s.Call, c.base)
		return func(m *machine, act lanes) lanes {
			call(m, act)
			return act
		}
	case *lang.Barrier:
		place := s.Place
		return func(m *machine, act lanes) lanes {
			if len(act) != m.size {
				m.fail(place, act[0], "a barrier that %d of %d invocations reach", len(act), m.size)
			}
			m.now++
			return act
		}
	}
	panic("unknown statement")
}

func (c *compiler) block(s *lang.Block) statement {
	list := make([]statement, len(s.List))
	for i, x := range s.List {
		list[i] = c.statement(x)
	}
	return func(m *machine, act lanes) lanes {
		for _, f := range list {
			if len(act) == 0 {
				break
			}
			act = f(m, act)
		}
		return act
	}
}

func (c *compiler) branch(s *lang.If) statement {
	cond := c.expression(s.Cond, c.base)
	then := c.statement(s.Then)
	var other statement
	if s.Else != nil {
		other = c.statement(s.Else)
	}
	var yes, no, out lanes // no recursion: one activation at a time
	return func(m *machine, act lanes) lanes {
		v := cond(m, act)
		yes, no = yes[:0], no[:0]
		for _, i := range act {
			if v[i] != 0 {
				yes = append(yes, i)
			} else {
				no = append(no, i)
			}
		}
		t, f := yes, no
		if len(t) > 0 {
			t = then(m, t)
		}
		if len(f) > 0 && other != nil {
			f = other(m, f)
		}
		out = merge(out, t, f)
		return out
	}
}

func (c *compiler) loopOf(s *lang.Loop) statement {
	var before, next statement
	if s.Before != nil {
		before = c.statement(s.Before)
	}
	if s.Next != nil {
		next = c.statement(s.Next)
	}
	cond := c.expression(s.Cond, c.base)
	outer := c.loop
	j := &jumps{}
	c.loop = j
	body := c.statement(s.Body)
	c.loop = outer
	var active, done, spare, cur lanes
	place := s.Place
	return func(m *machine, act lanes) lanes {
		if before != nil {
			act = before(m, act)
		}
		cur, done = clone(cur, act), done[:0]
		j.broken = j.broken[:0]
		for turns := 0; ; turns++ {
			if turns == maxTurns {
				m.fail(place, cur[0], "a loop of more than %d turns", maxTurns)
			}
			v := cond(m, cur)
			active = active[:0]
			left := spare[:0]
			for _, i := range cur {
				if v[i] != 0 {
					active = append(active, i)
				} else {
					left = append(left, i)
				}
			}
			spare = left
			if len(left) > 0 {
				done = clone(done, merge(nil, done, left))
			}
			if len(active) == 0 {
				break
			}
			j.continued = j.continued[:0]
			goOn := body(m, active)
			if len(j.continued) > 0 {
				cur = clone(cur, merge(nil, goOn, j.continued))
			} else {
				cur = clone(cur, goOn)
			}
			if len(cur) == 0 {
				break
			}
			if next != nil {
				next(m, cur)
			}
		}
		if len(j.broken) > 0 {
			done = clone(done, merge(nil, done, j.broken))
		}
		return done
	}
}

// maxTurns bounds loops, as a kernel that does not end would hang a GPU.
const maxTurns = 1 << 26

func (c *compiler) jump(s *lang.Jump) statement {
	j := c.loop
	switch s.What {
	case "break":
		return func(_ *machine, act lanes) lanes {
			j.broken = clone(nil, merge(nil, j.broken, act))
			return nil
		}
	case "continue":
		return func(_ *machine, act lanes) lanes {
			j.continued = clone(nil, merge(nil, j.continued, act))
			return nil
		}
	}
	if s.Value == nil {
		return func(*machine, lanes) lanes { return nil }
	}
	value, result := c.expression(s.Value, c.base), s.Result.Index
	return func(m *machine, act lanes) lanes {
		v, dst := value(m, act), m.variables[result]
		for _, i := range act {
			dst[i] = v[i]
		}
		return nil
	}
}

func (c *compiler) assign(s *lang.Assign) statement {
	value, variable := c.expression(s.Value, c.base), s.Variable.Index
	return func(m *machine, act lanes) lanes {
		v, dst := value(m, act), m.variables[variable]
		if len(act) == m.size {
			copy(dst, v)
			return act
		}
		for _, i := range act {
			dst[i] = v[i]
		}
		return act
	}
}

func (c *compiler) store(s *lang.Store) statement {
	a, place := s.Target.Array, s.Target.Place
	index := c.expression(s.Target.Index, c.base)
	value := c.expression(s.Value, c.base+1)
	return func(m *machine, act lanes) lanes {
		at, v := index(m, act), value(m, act)
		if a.Shared {
			mem := &m.shared[a.Index]
			for _, i := range act {
				m.storeShared(place, a, mem, i, at[i], v[i])
			}
			return act
		}
		mem := &m.buffers[a.Index]
		for _, i := range act {
			m.storeBuffer(place, a, mem, i, at[i], v[i])
		}
		return act
	}
}
