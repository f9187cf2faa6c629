package lang

// precedence of the binary operators, as in C.
var precedence = map[string]int{
	"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
	"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}

func (p *parser) expr() Expr { return p.above(1) }

// above reads operators of at least the given precedence.
func (p *parser) above(least int) Expr {
	p.enter()
	defer p.leave()
	x := p.unary()
	for {
		op := p.peek().text
		n := precedence[op]
		if n == 0 || n < least {
			return x
		}
		place := p.place()
		p.next()
		x = p.binary(place, op, x, p.above(n+1))
	}
}

// binary checks the operands' types.
func (p *parser) binary(place Place, op string, x, y Expr) Expr {
	k := x.Kind()
	if op != "<<" && op != ">>" {
		p.same(y, k)
	}
	e := &Binary{Place: place, Op: op, X: x, Y: y, Type: k}
	number := k == Float || k == Int || k == Uint
	ok := false
	switch op {
	case "+", "-", "*":
		ok = number
	case "/", "%":
		if k == Float {
			p.fail("floats are not divided: no API rounds the quotient everywhere")
		}
		ok = number
	case "&", "|", "^":
		ok = k == Int || k == Uint
	case "<<", ">>":
		ok = (k == Int || k == Uint) && (y.Kind() == Uint || y.Kind() == Int)
	case "<", ">", "<=", ">=":
		e.Type, ok = Bool, number
	case "==", "!=":
		// Of floats, drivers may assume that none is a NaN.
		e.Type, ok = Bool, k == Int || k == Uint || k == Bool
	case "&&", "||":
		ok = k == Bool
	}
	if !ok {
		p.fail("operator %s of %v and %v", op, k, y.Kind())
	}
	return e
}

func (p *parser) unary() Expr {
	p.enter()
	defer p.leave()
	for _, op := range []string{"-", "!", "~"} {
		if p.accept(op) {
			e := &Unary{Op: op, X: p.unary()}
			k := e.Kind()
			if ok := op == "-" && (k == Float || k == Int) || op == "!" && k == Bool || op == "~" && k == Uint; !ok {
				p.fail("operator %s of %v", op, k)
			}
			return e
		}
	}
	return p.primary()
}

func (p *parser) primary() Expr {
	place := p.place()
	t := p.next()
	switch {
	case t.kind != Void:
		return &Literal{t.kind, t.bits}
	case t.text == "(":
		e := p.expr()
		p.expect(")")
		return e
	case !t.name:
		p.at--
		p.fail("expected an expression, found %q", t.text)
	case t.text == "true":
		return &Literal{Bool, 1}
	case t.text == "false":
		return &Literal{Bool, 0}
	case t.text == "p":
		p.expect(".")
		name := p.next().text
		for _, c := range p.program.Constants {
			if c.Name == name && p.inMain {
				return &Constant{c.Kind, c.Index}
			}
		}
		p.fail("no push constant %s here", name)
	case t.text == "gid" || t.text == "lid" || t.text == "wid":
		p.expect(".")
		axis := map[string]int{"x": 1, "y": 2, "z": 3}[p.next().text]
		if axis == 0 || !p.inMain {
			p.fail("no such part of %s here", t.text)
		}
		return &Position{t.text, axis - 1}
	case t.text == "F2U" || t.text == "U2F" || t.text == "float" || t.text == "int" || t.text == "uint":
		return p.conversion(place, t.text)
	case t.text == "min":
		p.expect("(")
		x := p.expr()
		p.expect(",")
		y := p.expr()
		p.expect(")")
		p.same(x, Uint)
		p.same(y, Uint)
		return &Binary{Place: place, Op: "min", X: x, Y: y, Type: Uint}
	}
	if f := p.functions[t.text]; f != nil {
		return p.call(f)
	}
	if v := p.lookup(t.text); v != nil {
		return &Load{v}
	}
	if a := p.arrays[t.text]; a != nil && p.inMain {
		p.expect("[")
		i := p.expr()
		p.same(i, Uint)
		p.expect("]")
		return &Element{place, a, i}
	}
	p.at--
	p.fail("unknown name %s", t.text)
	return nil
}

func (p *parser) conversion(place Place, name string) Expr {
	p.expect("(")
	x := p.expr()
	p.expect(")")
	e := &Convert{Place: place, X: x}
	switch from := x.Kind(); {
	case name == "F2U" && from == Float:
		e.Type, e.Bits = Uint, true
	case name == "U2F" && from == Uint:
		e.Type, e.Bits = Float, true
	case name == "float" && (from == Int || from == Uint), name == "int" && (from == Float || from == Uint),
		name == "uint" && (from == Float || from == Int):
		e.Type = kinds[name]
		e.Bits = e.Type != Float && from != Float
	default:
		p.fail("conversion %s of %v", name, from)
	}
	return e
}

func (p *parser) call(f *Function) Expr {
	e := &Call{Function: f}
	p.expect("(")
	for i, v := range f.Parameters {
		if i > 0 {
			p.expect(",")
		}
		x := p.expr()
		p.same(x, v.Kind)
		var out *Variable
		if v.Inout {
			load, ok := x.(*Load)
			if !ok {
				p.fail("parameter %s of %s needs a variable", v.Name, f.Name)
			}
			out = load.Variable
		}
		e.Args, e.Outs = append(e.Args, x), append(e.Outs, out)
	}
	p.expect(")")
	return e
}
