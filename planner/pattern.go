package planner

import (
	"regexp"
	"strings"
	"sync"
)

// pattern matches tensor names: # stands for a number, and {a,b} for either of
// its alternatives, of which one may be empty. Everything else stands for
// itself.
type pattern struct{ re *regexp.Regexp }

// compiled holds the patterns of the declarations, which are few and fixed.
var compiled sync.Map

func compile(text string) pattern {
	if p, ok := compiled.Load(text); ok {
		return p.(pattern)
	}
	p := translate(text)
	compiled.Store(text, p)
	return p
}

func translate(text string) pattern {
	var b strings.Builder
	b.WriteByte('^')
	depth := 0
	for _, r := range text {
		switch {
		case r == '#':
			b.WriteString("[0-9]+")
		case r == '{':
			depth++
			b.WriteString("(?:")
		case r == '}' && depth > 0:
			depth--
			b.WriteByte(')')
		case r == ',' && depth > 0:
			b.WriteByte('|')
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	b.WriteString(strings.Repeat(")", depth))
	b.WriteByte('$')
	return pattern{regexp.MustCompile(b.String())}
}

func (p pattern) match(name string) bool { return p.re.MatchString(name) }
