package soft

import (
	"math"

	"github.com/hfcompress/compress/metalgpu/internal/soft/lang"
)

// expression compiles e with its temporaries from depth d on.
func (c *compiler) expression(e lang.Expr, d int) expression {
	c.p.temps = max(c.p.temps, d+2)
	switch e := e.(type) {
	case *lang.Literal:
		var v []uint32
		return func(m *machine, _ lanes) []uint32 {
			if len(v) != m.size {
				v = make([]uint32, m.size)
				for i := range v {
					v[i] = e.Bits
				}
			}
			return v
		}
	case *lang.Load:
		n := e.Variable.Index
		return func(m *machine, _ lanes) []uint32 { return m.variables[n] }
	case *lang.Constant:
		n := e.Index
		return func(m *machine, _ lanes) []uint32 { return m.constants[n] }
	case *lang.Position:
		name, axis := e.Name, e.Axis
		return func(m *machine, _ lanes) []uint32 { return m.position[name][axis] }
	case *lang.Element:
		return c.element(e, d)
	case *lang.Unary:
		return c.unary(e, d)
	case *lang.Binary:
		switch {
		case e.Op == "&&" || e.Op == "||":
			return c.logical(e, d)
		case e.X.Kind() == lang.Float:
			return c.floats(e, d)
		default:
			return c.integers(e, d)
		}
	case *lang.Convert:
		return c.convert(e, d)
	case *lang.Call:
		return c.call(e, d)
	}
	panic("unknown expression")
}

func (c *compiler) element(e *lang.Element, d int) expression {
	index, a, place := c.expression(e.Index, d), e.Array, e.Place
	return func(m *machine, act lanes) []uint32 {
		at, out := index(m, act), m.temps[d]
		if a.Shared {
			mem := &m.shared[a.Index]
			for _, i := range act {
				out[i] = m.loadShared(place, a, mem, i, at[i])
			}
			return out
		}
		mem := &m.buffers[a.Index]
		if mem.wrote == nil {
			words := mem.words
			for _, i := range act {
				n := at[i]
				if uint64(n) >= uint64(len(words)) {
					m.bound(place, a, mem, i, n)
				}
				out[i] = words[n]
			}
			return out
		}
		for _, i := range act {
			out[i] = m.loadBuffer(place, a, mem, i, at[i])
		}
		return out
	}
}

func (c *compiler) unary(e *lang.Unary, d int) expression {
	x := c.expression(e.X, d)
	var f func(v uint32) uint32
	switch {
	case e.Op == "!":
		f = func(v uint32) uint32 { return v ^ 1 }
	case e.Op == "~":
		f = func(v uint32) uint32 { return ^v }
	case e.X.Kind() == lang.Float:
		f = func(v uint32) uint32 { return v ^ 0x80000000 }
	default:
		f = func(v uint32) uint32 { return -v }
	}
	return func(m *machine, act lanes) []uint32 {
		v, out := x(m, act), m.temps[d]
		for _, i := range act {
			out[i] = f(v[i])
		}
		return out
	}
}

// logical evaluates the second operand only where the first does not decide.
func (c *compiler) logical(e *lang.Binary, d int) expression {
	x, y := c.expression(e.X, d), c.expression(e.Y, d+1)
	decides := uint32(0)
	if e.Op == "||" {
		decides = 1
	}
	var open lanes
	return func(m *machine, act lanes) []uint32 {
		v, out := x(m, act), m.temps[d]
		open = open[:0]
		for _, i := range act {
			out[i] = v[i]
			if v[i] != decides {
				open = append(open, i)
			}
		}
		if len(open) > 0 {
			w := y(m, open)
			for _, i := range open {
				out[i] = w[i]
			}
		}
		return out
	}
}

// floats compiles arithmetic and comparisons of floats.
func (c *compiler) floats(e *lang.Binary, d int) expression {
	x, y, op := c.expression(e.X, d), c.expression(e.Y, d+1), e.Op
	plain := func(m *machine, act lanes) []uint32 {
		a, b, out := x(m, act), y(m, act), m.temps[d]
		switch op {
		case "+":
			for _, i := range act {
				out[i] = toBits(fromBits(a[i]) + fromBits(b[i]))
			}
		case "-":
			for _, i := range act {
				out[i] = toBits(fromBits(a[i]) - fromBits(b[i]))
			}
		case "*":
			for _, i := range act {
				out[i] = toBits(fromBits(a[i]) * fromBits(b[i]))
			}
		case "<":
			for _, i := range act {
				out[i] = truth(fromBits(a[i]) < fromBits(b[i]))
			}
		case ">":
			for _, i := range act {
				out[i] = truth(fromBits(a[i]) > fromBits(b[i]))
			}
		case "<=":
			for _, i := range act {
				out[i] = truth(fromBits(a[i]) <= fromBits(b[i]))
			}
		case ">=":
			for _, i := range act {
				out[i] = truth(fromBits(a[i]) >= fromBits(b[i]))
			}
		}
		return out
	}
	xTimes, yTimes := isProduct(e.X), isProduct(e.Y)
	return func(m *machine, act lanes) []uint32 {
		switch m.fault {
		case None:
			return plain(m, act)
		case FlushSubnormals:
			a, b := x(m, act), y(m, act)
			fa, fb := m.scratch[0], m.scratch[1]
			for _, i := range act {
				fa[i], fb[i] = flushed(a[i]), flushed(b[i])
			}
			out := floatOp(op, m.temps[d], fa, fb, act)
			if e.Type == lang.Float {
				for _, i := range act {
					out[i] = flushed(out[i])
				}
			}
			return out
		default:
			a, b, out := x(m, act), y(m, act), m.temps[d]
			switch {
			case op == "*":
				for _, i := range act {
					m.wide[d][i] = float64(fromBits(a[i])) * float64(fromBits(b[i]))
				}
			case (op == "+" || op == "-") && (xTimes || yTimes):
				return m.fused(op, out, a, b, d, xTimes, act)
			}
			return floatOp(op, out, a, b, act)
		}
	}
}

// isProduct reports whether an operand is one that contraction takes in.
func isProduct(e lang.Expr) bool {
	b, ok := e.(*lang.Binary)
	return ok && b.Op == "*" && b.Type == lang.Float
}

// fused adds an exact product of one operand to the other one.
func (m *machine) fused(op string, out, a, b []uint32, d int, left bool, act lanes) []uint32 {
	for _, i := range act {
		x, y := float64(fromBits(a[i])), float64(fromBits(b[i]))
		if left {
			x = m.wide[d][i]
		} else {
			y = m.wide[d+1][i]
		}
		if op == "-" {
			y = -y
		}
		out[i] = toBits(float32(x + y))
	}
	return out
}

// floatOp is one operation over lanes.
func floatOp(op string, out, a, b []uint32, act lanes) []uint32 {
	for _, i := range act {
		x, y := fromBits(a[i]), fromBits(b[i])
		switch op {
		case "+":
			out[i] = toBits(x + y)
		case "-":
			out[i] = toBits(x - y)
		case "*":
			out[i] = toBits(x * y)
		case "<":
			out[i] = truth(x < y)
		case ">":
			out[i] = truth(x > y)
		case "<=":
			out[i] = truth(x <= y)
		case ">=":
			out[i] = truth(x >= y)
		}
	}
	return out
}

func truth(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// integers compiles arithmetic and comparisons of int, uint and bool.
func (c *compiler) integers(e *lang.Binary, d int) expression {
	x, y := c.expression(e.X, d), c.expression(e.Y, d+1)
	signed, place := e.X.Kind() == lang.Int, e.Place
	loop := func(f func(a, b uint32) uint32) expression {
		return func(m *machine, act lanes) []uint32 {
			a, b, out := x(m, act), y(m, act), m.temps[d]
			for _, i := range act {
				out[i] = f(a[i], b[i])
			}
			return out
		}
	}
	// checked is for operations that have no result for some operands.
	checked := func(f func(a, b uint32) (v uint32, ok bool)) expression {
		return func(m *machine, act lanes) []uint32 {
			a, b, out := x(m, act), y(m, act), m.temps[d]
			for _, i := range act {
				v, ok := f(a[i], b[i])
				if !ok {
					m.fail(place, i, "%d %s %d is not defined", int64(int32(a[i])), e.Op, int64(int32(b[i])))
				}
				out[i] = v
			}
			return out
		}
	}
	// inInt is for signed results, which must not overflow.
	inInt := func(f func(a, b int64) int64) expression {
		return checked(func(a, b uint32) (uint32, bool) {
			v := f(int64(int32(a)), int64(int32(b)))
			return uint32(v), v == int64(int32(v))
		})
	}
	switch e.Op {
	case "+":
		if signed {
			return inInt(func(a, b int64) int64 { return a + b })
		}
		return func(m *machine, act lanes) []uint32 {
			a, b, out := x(m, act), y(m, act), m.temps[d]
			for _, i := range act {
				out[i] = a[i] + b[i]
			}
			return out
		}
	case "-":
		if signed {
			return inInt(func(a, b int64) int64 { return a - b })
		}
		return loop(func(a, b uint32) uint32 { return a - b })
	case "*":
		if signed {
			return inInt(func(a, b int64) int64 { return a * b })
		}
		return loop(func(a, b uint32) uint32 { return a * b })
	case "/", "%":
		return checked(func(a, b uint32) (uint32, bool) { return divided(e.Op, a, b, signed) })
	case "&":
		return loop(func(a, b uint32) uint32 { return a & b })
	case "|":
		return loop(func(a, b uint32) uint32 { return a | b })
	case "^":
		return loop(func(a, b uint32) uint32 { return a ^ b })
	case "<<":
		return checked(func(a, b uint32) (uint32, bool) { return a << (b & 31), b < 32 && !signed })
	case ">>":
		if signed {
			return checked(func(a, b uint32) (uint32, bool) { return uint32(int32(a) >> (b & 31)), b < 32 })
		}
		return checked(func(a, b uint32) (uint32, bool) { return a >> (b & 31), b < 32 })
	case "min":
		return loop(func(a, b uint32) uint32 { return min(a, b) })
	case "==":
		return loop(func(a, b uint32) uint32 { return truth(a == b) })
	case "!=":
		return loop(func(a, b uint32) uint32 { return truth(a != b) })
	}
	// Order: of signed numbers, that of unsigned ones with the sign turned round.
	turn := uint32(0)
	if signed {
		turn = 0x80000000
	}
	switch e.Op {
	case "<":
		return loop(func(a, b uint32) uint32 { return truth(a^turn < b^turn) })
	case ">":
		return loop(func(a, b uint32) uint32 { return truth(a^turn > b^turn) })
	case "<=":
		return loop(func(a, b uint32) uint32 { return truth(a^turn <= b^turn) })
	case ">=":
		return loop(func(a, b uint32) uint32 { return truth(a^turn >= b^turn) })
	}
	panic("unknown operator " + e.Op)
}

func divided(op string, a, b uint32, signed bool) (uint32, bool) {
	switch {
	case b == 0 || signed && a == 0x80000000 && b == 0xffffffff:
		return 0, false
	case signed && op == "/":
		return uint32(int32(a) / int32(b)), true
	case signed: // of negative numbers GLSL says nothing
		return a % max(b, 1), int32(a) >= 0 && int32(b) > 0
	case op == "/":
		return a / b, true
	}
	return a % b, true
}

func (c *compiler) convert(e *lang.Convert, d int) expression {
	x, from, to, place := c.expression(e.X, d), e.X.Kind(), e.Type, e.Place
	if e.Bits {
		return x
	}
	return func(m *machine, act lanes) []uint32 {
		v, out := x(m, act), m.temps[d]
		for _, i := range act {
			switch {
			case to == lang.Float && from == lang.Int:
				out[i] = toBits(float32(int32(v[i])))
			case to == lang.Float:
				out[i] = toBits(float32(v[i]))
			default:
				f := math.Trunc(float64(fromBits(v[i])))
				ok := f >= 0 && f < 1<<32
				if to == lang.Int {
					ok = f >= -1<<31 && f < 1<<31
				}
				if !ok {
					m.fail(place, i, "%v has no %v", fromBits(v[i]), to)
				}
				out[i] = uint32(int64(f))
			}
		}
		return out
	}
}

func (c *compiler) call(e *lang.Call, d int) expression {
	args := make([]expression, len(e.Args))
	for i, a := range e.Args {
		args[i] = c.expression(a, d+i)
	}
	inner := d + len(args) + 1
	f := c.functions[e.Function]
	body := f.bodies[inner]
	if body == nil {
		base, loop := c.base, c.loop
		c.base, c.loop = inner, nil
		body = c.statement(f.source.Body)
		c.base, c.loop = base, loop
		f.bodies[inner] = body
	}
	parameters, outs, result := e.Function.Parameters, e.Outs, e.Function.Result
	values := make([][]uint32, len(args))
	return func(m *machine, act lanes) []uint32 {
		for n, f := range args {
			values[n] = f(m, act)
		}
		for n, v := range parameters {
			dst := m.variables[v.Index]
			for _, i := range act {
				dst[i] = values[n][i]
			}
		}
		body(m, act)
		for n, v := range outs {
			if v == nil {
				continue
			}
			src, dst := m.variables[parameters[n].Index], m.variables[v.Index]
			for _, i := range act {
				dst[i] = src[i]
			}
		}
		if result.Kind == lang.Void {
			return nil
		}
		src, out := m.variables[result.Index], m.temps[d]
		for _, i := range act {
			out[i] = src[i]
		}
		return out
	}
}
