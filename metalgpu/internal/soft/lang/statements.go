package lang

import "strings"

func (p *parser) block() *Block {
	p.expect("{")
	p.open()
	b := &Block{}
	for !p.accept("}") {
		b.List = append(b.List, p.statement())
	}
	p.close()
	return b
}

// body is the statement under an if or a loop, with a scope of its own.
func (p *parser) body() Stmt {
	p.open()
	s := p.statement()
	p.close()
	return s
}

func (p *parser) statement() Stmt {
	p.enter()
	defer p.leave()
	switch t := p.peek(); t.text {
	case "{":
		return p.block()
	case "if":
		p.next()
		s := &If{Cond: p.condition()}
		s.Then = p.body()
		if p.accept("else") {
			s.Else = p.body()
		}
		return s
	case "while":
		place := p.place()
		p.next()
		s := &Loop{Place: place, Cond: p.condition()}
		p.loops++
		s.Body = p.body()
		p.loops--
		return s
	case "for":
		return p.loop()
	case "break", "continue":
		p.next()
		if p.loops == 0 {
			p.fail("%s outside a loop", t.text)
		}
		p.expect(";")
		return &Jump{What: t.text}
	case "return":
		p.next()
		s := &Jump{What: "return", Result: p.result}
		if p.result.Kind != Void {
			s.Value = p.expr()
			p.same(s.Value, p.result.Kind)
		}
		p.expect(";")
		return s
	case "BARRIER":
		s := &Barrier{Place: p.place()}
		p.next()
		if !p.inMain {
			p.fail("a barrier in a function")
		}
		p.expect("(")
		p.expect(")")
		p.expect(";")
		return s
	}
	s := p.simple()
	p.expect(";")
	return s
}

func (p *parser) condition() Expr {
	p.expect("(")
	e := p.expr()
	p.same(e, Bool)
	p.expect(")")
	return e
}

func (p *parser) loop() Stmt {
	s := &Loop{Place: p.place()}
	p.expect("for")
	p.expect("(")
	p.open()
	if p.peek().text != ";" {
		s.Before = p.simple()
	}
	p.expect(";")
	s.Cond = p.expr()
	p.same(s.Cond, Bool)
	p.expect(";")
	if p.peek().text != ")" {
		s.Next = p.simple()
	}
	p.expect(")")
	p.loops++
	s.Body = p.body()
	p.loops--
	p.close()
	return s
}

// simple is a declaration, an assignment or a call, without its semicolon.
func (p *parser) simple() Stmt {
	t := p.peek()
	if k, ok := kinds[t.text]; ok {
		p.next()
		name := p.name()
		p.expect("=")
		e := p.expr() // the name is not yet known in it
		p.same(e, k)
		return &Assign{p.declareVariable(name, k), e}
	}
	if !t.name {
		p.fail("expected a statement, found %q", t.text)
	}
	if f := p.functions[t.text]; f != nil {
		call, ok := p.primary().(*Call)
		if !ok {
			p.fail("expected a call")
		}
		return &Do{call}
	}
	if v := p.lookup(t.text); v != nil {
		p.next()
		return &Assign{v, p.assigned(&Load{v})}
	}
	target, ok := p.primary().(*Element)
	if !ok {
		p.fail("%s cannot be assigned to", t.text)
	}
	if !target.Array.Writes {
		p.fail("buffer %s is not written", target.Array.Name)
	}
	return &Store{target, p.assigned(target)}
}

// assigned reads an assignment's operator and right side.
func (p *parser) assigned(target Expr) Expr {
	place := p.place()
	op := p.next().text
	e := p.expr()
	if op != "=" {
		s, ok := strings.CutSuffix(op, "=")
		if !ok || strings.Contains("<>=!", s) {
			p.fail("expected an assignment, found %q", op)
		}
		e = p.binary(place, s, target, e)
	}
	p.same(e, target.Kind())
	return e
}

// same refuses an expression of another type.
func (p *parser) same(e Expr, k Kind) {
	if e.Kind() != k {
		p.fail("expected %v, found %v", k, e.Kind())
	}
}
