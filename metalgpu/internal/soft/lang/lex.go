package lang

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrSyntax is wrapped by every error about a source.
var ErrSyntax = errors.New("bad kernel source")

// Error is an [ErrSyntax] with its place. Lines count from 1 within the part of
// the source that Part names.
type Error struct {
	Part string
	Line int
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s, line %d: %s", e.Part, e.Line, e.Text) }

func (e *Error) Unwrap() error { return ErrSyntax }

// token is one word of a source.
type token struct {
	// text is the token itself; empty at the end.
	text string
	line int
	// kind is that of a literal, Void for others.
	kind Kind
	// bits is a literal's value.
	bits uint32
	name bool
}

// operators, longer ones first.
var operators = []string{
	"<<=", ">>=", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "|=", "&=", "^=",
	"+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", "=", "(", ")", "[", "]", "{", "}", ";", ",", ".",
}

func isLetter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// lex cuts a source. The last token is empty.
func lex(part, src string) ([]token, error) {
	var list []token
	line := 1
	fail := func(format string, args ...any) ([]token, error) {
		return nil, &Error{part, line, fmt.Sprintf(format, args...)}
	}
next:
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t':
			i++
		case strings.HasPrefix(src[i:], "//"):
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case isLetter(c):
			j := i
			for j < len(src) && (isLetter(src[j]) || isDigit(src[j])) {
				j++
			}
			list = append(list, token{text: src[i:j], line: line, name: true})
			i = j
		case isDigit(c):
			j := i
			for j < len(src) && (isLetter(src[j]) || isDigit(src[j]) || src[j] == '.') {
				j++
			}
			t, err := literal(src[i:j])
			if err != nil {
				return fail("%v", err)
			}
			t.line = line
			list = append(list, t)
			i = j
		default:
			for _, op := range operators {
				if strings.HasPrefix(src[i:], op) {
					list = append(list, token{text: op, line: line})
					i += len(op)
					continue next
				}
			}
			return fail("character %q", c)
		}
	}
	return append(list, token{line: line}), nil
}

// literal reads a number: 1.5f, 7u or 0x7u, 7 or 0x7.
func literal(text string) (token, error) {
	t := token{text: text}
	if s, ok := strings.CutSuffix(text, "f"); ok && strings.Contains(text, ".") {
		v, err := strconv.ParseFloat(s, 32)
		if err != nil {
			return t, fmt.Errorf("number %s", text)
		}
		t.kind, t.bits = Float, math.Float32bits(float32(v))
		return t, nil
	}
	s, unsigned := strings.CutSuffix(text, "u")
	t.kind = Int
	size := 31
	if unsigned {
		t.kind, size = Uint, 32
	}
	if len(s) > 1 && s[0] == '0' && s[1] != 'x' || strings.Contains(s, "_") {
		return t, fmt.Errorf("number %s", text) // octal in C
	}
	v, err := strconv.ParseUint(s, 0, size)
	if err != nil {
		return t, fmt.Errorf("number %s", text)
	}
	t.bits = uint32(v)
	return t, nil
}
