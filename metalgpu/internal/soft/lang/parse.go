package lang

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

// maxDepth bounds the nesting of statements and expressions.
const maxDepth = 200

// reserved are names that a kernel must not give to a variable: types and words of
// GLSL, of Metal's language and of this one.
var reserved = map[string]bool{}

func init() {
	for _, s := range strings.Fields(`void bool int uint float double half short long char true false if else for while do
		switch case default break continue return struct const in out inout uniform buffer shared layout readonly writeonly
		coherent volatile restrict precise discard sample patch flat smooth centroid invariant input output common partition
		active asm class union enum typedef template this resource goto inline noinline public static extern external
		interface fixed unsigned signed superp lowp mediump highp filter sizeof cast namespace using kernel device constant
		thread threadgroup vertex fragment auto operator private protected virtual friend new delete try catch throw
		main min max gid lid wid p FN F2U U2F INOUT BARRIER`) {
		reserved[s] = true
	}
}

// Parse reads and checks a kernel.
func Parse(k *kernel.Kernel) (*Program, error) {
	p := &parser{program: &Program{}, functions: map[string]*Function{}}
	if err := p.declare(k); err != nil {
		return nil, err
	}
	if err := p.source("functions", k.Functions, func() {
		for p.peek().text != "" {
			p.function()
		}
	}); err != nil {
		return nil, err
	}
	p.arrays = map[string]*Array{}
	for _, a := range slices.Concat(p.program.Buffers, p.program.Shared) {
		if p.arrays[a.Name] != nil || reserved[a.Name] || p.functions[a.Name] != nil {
			return nil, &Error{"declarations", 1, "the name " + a.Name}
		}
		p.arrays[a.Name] = a
	}
	p.inMain = true
	p.result = &Variable{Kind: Void}
	err := p.source("body", k.Body, func() {
		p.program.Body = &Block{}
		p.open()
		for p.peek().text != "" {
			p.program.Body.List = append(p.program.Body.List, p.statement())
		}
		p.close()
	})
	if err != nil {
		return nil, err
	}
	return p.program, nil
}

type parser struct {
	program   *Program
	functions map[string]*Function
	arrays    map[string]*Array
	inMain    bool

	part   string
	tokens []token
	at     int
	depth  int
	loops  int
	result *Variable // of the function that is read
	scopes []map[string]*Variable
}

// declare reads what surrounds the source.
func (p *parser) declare(k *kernel.Kernel) error {
	for i, b := range k.Buffers {
		p.program.Buffers = append(p.program.Buffers, &Array{Name: b.Name, Kind: kinds[b.Type], Writes: b.Writes, Index: i})
	}
	for i, s := range k.Shared {
		if s.Elements < 1 || s.Elements > 1<<16 {
			return &Error{"declarations", 1, fmt.Sprintf("%d elements of %s", s.Elements, s.Name)}
		}
		p.program.Shared = append(p.program.Shared, &Array{Name: s.Name, Kind: kinds[s.Type], Shared: true, Writes: true, Index: i, Elements: s.Elements})
	}
	for _, a := range slices.Concat(p.program.Buffers, p.program.Shared) {
		if a.Kind != Float && a.Kind != Uint {
			return &Error{"declarations", 1, "the type of " + a.Name}
		}
	}
	for i, name := range k.Push {
		v := Variable{Name: name, Kind: Uint, Index: i}
		if n, ok := strings.CutSuffix(name, ":float"); ok {
			v.Name, v.Kind = n, Float
		}
		p.program.Constants = append(p.program.Constants, v)
	}
	return nil
}

// source reads one part by f, whose failures are panics of *Error.
func (p *parser) source(part, text string, f func()) (err error) {
	p.part, p.at = part, 0
	if p.tokens, err = lex(part, text); err != nil {
		return err
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			err = r
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

func (p *parser) fail(format string, args ...any) {
	panic(&Error{p.part, p.peek().line, fmt.Sprintf(format, args...)})
}

func (p *parser) place() Place { return Place{p.part, p.peek().line} }

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.text == "" {
		p.fail("the source ends too early")
	}
	p.at++
	return t
}

func (p *parser) accept(text string) bool {
	if p.peek().text == text {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.fail("expected %s, found %q", text, p.peek().text)
	}
}

func (p *parser) name() string {
	t := p.next()
	if !t.name || reserved[t.text] || strings.Contains(t.text, "__") {
		p.at--
		p.fail("%q is no name for something of one's own", t.text)
	}
	return t.text
}

func (p *parser) kind() Kind {
	t := p.next()
	k, ok := kinds[t.text]
	if !ok {
		p.at--
		p.fail("expected a type, found %q", t.text)
	}
	return k
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		p.fail("nested too deeply")
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) open()  { p.scopes = append(p.scopes, map[string]*Variable{}) }
func (p *parser) close() { p.scopes = p.scopes[:len(p.scopes)-1] }

func (p *parser) newVariable(name string, k Kind) *Variable {
	v := &Variable{Name: name, Kind: k, Index: p.program.Variables}
	p.program.Variables++
	return v
}

func (p *parser) declareVariable(name string, k Kind) *Variable {
	scope := p.scopes[len(p.scopes)-1]
	if k == Void {
		p.fail("a variable of type void")
	}
	if scope[name] != nil || p.functions[name] != nil || p.inMain && p.arrays[name] != nil {
		p.fail("%s is declared already", name)
	}
	v := p.newVariable(name, k)
	scope[name] = v
	return v
}

func (p *parser) lookup(name string) *Variable {
	for i := len(p.scopes) - 1; i >= 0; i-- {
		if v := p.scopes[i][name]; v != nil {
			return v
		}
	}
	return nil
}

func (p *parser) function() {
	p.expect("FN")
	kind := p.kind()
	f := &Function{Name: p.name()}
	if p.functions[f.Name] != nil {
		p.fail("function %s is declared already", f.Name)
	}
	f.Result = p.newVariable(f.Name, kind)
	p.open()
	p.expect("(")
	for !p.accept(")") {
		if len(f.Parameters) > 0 {
			p.expect(",")
		}
		inout := p.accept("INOUT")
		if inout {
			p.expect("(")
		}
		k := p.kind()
		if inout {
			p.expect(",")
		}
		v := p.declareVariable(p.name(), k)
		v.Inout = inout
		if inout {
			p.expect(")")
		}
		f.Parameters = append(f.Parameters, v)
	}
	p.result = f.Result
	if p.peek().text != "{" {
		p.fail("a function without a body")
	}
	f.Body = p.block()
	p.close()
	if kind != Void && !ends(f.Body) {
		p.fail("function %s may end without a result", f.Name)
	}
	p.functions[f.Name] = f
	p.program.Functions = append(p.program.Functions, f)
}

// ends reports whether a statement always returns.
func ends(s Stmt) bool {
	switch s := s.(type) {
	case *Block:
		return len(s.List) > 0 && ends(s.List[len(s.List)-1])
	case *Jump:
		return s.What == "return"
	case *If:
		return s.Else != nil && ends(s.Then) && ends(s.Else)
	}
	return false
}
