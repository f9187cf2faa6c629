package loader

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// scanner reads JSON token by token from memory. It knows no schema, keeps no
// tree and does not recurse, so its memory and stack do not depend on the input.
// The standard decoder is not used because it merges duplicate keys and replaces
// invalid UTF-8, silently both.
type scanner struct {
	b   []byte
	pos int
}

// syntaxError is a fault of the JSON text itself.
type syntaxError struct {
	pos    int
	reason string
}

func (e *syntaxError) Error() string {
	return e.reason + " (at byte " + strconv.Itoa(e.pos) + ")"
}

// within puts the place in the schema before a syntax error's reason.
func within(place string, err error) error {
	if se := (*syntaxError)(nil); errors.As(err, &se) {
		se.reason = place + ": " + se.reason
	}
	return err
}

func (s *scanner) errorf(format string, args ...any) error {
	return &syntaxError{s.pos, fmt.Sprintf(format, args...)}
}

// peek skips white space and returns the next byte without consuming it, or 0
// at the end. A NUL in the text cannot be mistaken for the end: no caller
// accepts 0.
func (s *scanner) peek() byte {
	for s.pos < len(s.b) {
		switch c := s.b[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// found describes the next byte for an error message.
func (s *scanner) found() string {
	if s.pos >= len(s.b) {
		return "the end"
	}
	return strconv.QuoteRuneToASCII(rune(s.b[s.pos]))
}

// expect consumes c, skipping white space before it.
func (s *scanner) expect(c byte) error {
	if s.peek() != c || s.pos >= len(s.b) {
		return s.errorf("expected %q, found %s", string(c), s.found())
	}
	s.pos++
	return nil
}

// more is called before each element of a list or object that ends with end; n
// is the number of elements read so far. It consumes the comma or the end and
// reports whether an element follows.
func (s *scanner) more(end byte, n int) (bool, error) {
	if s.peek() == end {
		s.pos++
		return false, nil
	}
	if n == 0 {
		return true, nil
	}
	if s.peek() != ',' {
		return false, s.errorf("expected \",\" or %q, found %s", string(end), s.found())
	}
	s.pos++
	return true, nil
}

// finish accepts only white space up to the end.
func (s *scanner) finish() error {
	s.peek()
	if s.pos < len(s.b) {
		return s.errorf("expected the end, found %s", s.found())
	}
	return nil
}

// null consumes the literal null if it comes next.
func (s *scanner) null() bool {
	if s.peek() == 'n' && s.pos+4 <= len(s.b) && string(s.b[s.pos:s.pos+4]) == "null" {
		s.pos += 4
		return true
	}
	return false
}

// raw consumes a string and returns the bytes between its quotes, checked but
// with escapes in place; plain says that there are none. It allocates nothing.
func (s *scanner) raw() (text []byte, plain bool, err error) {
	if err := s.expect('"'); err != nil {
		return nil, false, err
	}
	start := s.pos
	plain = true
	for s.pos < len(s.b) {
		switch c := s.b[s.pos]; {
		case c == '"':
			text = s.b[start:s.pos]
			s.pos++
			return text, plain, nil
		case c == '\\':
			plain = false
			if err := s.escape(); err != nil {
				return nil, false, err
			}
		case c < 0x20:
			return nil, false, s.errorf("control character %#02x in a string", c)
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, size := utf8.DecodeRune(s.b[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return nil, false, s.errorf("invalid UTF-8 in a string")
			}
			s.pos += size
		}
	}
	return nil, false, s.errorf("string without an end")
}

// escape checks and consumes one escape sequence; a surrogate must be half of a
// pair.
func (s *scanner) escape() error {
	_, size, ok := unescape(s.b[s.pos:])
	if !ok {
		return s.errorf("invalid escape sequence or lone surrogate in a string")
	}
	s.pos += size
	return nil
}

// unescape decodes the escape sequence at the start of b.
func unescape(b []byte) (r rune, size int, ok bool) {
	if len(b) < 2 {
		return 0, 0, false
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2, true
	case 'b':
		return '\b', 2, true
	case 'f':
		return '\f', 2, true
	case 'n':
		return '\n', 2, true
	case 'r':
		return '\r', 2, true
	case 't':
		return '\t', 2, true
	case 'u':
	default:
		return 0, 0, false
	}
	hi, ok := hex4(b[2:])
	switch {
	case !ok:
		return 0, 0, false
	case hi < 0xd800 || hi > 0xdfff:
		return hi, 6, true
	case hi > 0xdbff || len(b) < 12 || b[6] != '\\' || b[7] != 'u':
		return 0, 0, false
	}
	lo, ok := hex4(b[8:])
	if !ok || lo < 0xdc00 || lo > 0xdfff {
		return 0, 0, false
	}
	return 0x10000 + (hi-0xd800)<<10 + (lo - 0xdc00), 12, true
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// str consumes a string of at most limit bytes, counted after decoding.
func (s *scanner) str(limit int) (string, error) {
	start := s.pos
	text, plain, err := s.raw()
	if err != nil {
		return "", err
	}
	if !plain {
		text = decode(text)
	}
	if len(text) > limit {
		s.pos = start
		return "", limitError{s.errorf("string of %d bytes, the limit is %d", len(text), limit)}
	}
	return string(text), nil
}

// decode resolves the escapes of a string that raw accepted.
func decode(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			out = append(out, text[i])
			i++
			continue
		}
		r, size, _ := unescape(text[i:])
		out = utf8.AppendRune(out, r)
		i += size
	}
	return out
}

// uint consumes a non-negative integer that fits an int64. Signs, fractions,
// exponents and leading zeros are refused: shapes and offsets never need them.
func (s *scanner) uint() (int64, error) {
	c := s.peek()
	if c < '0' || c > '9' {
		return 0, s.errorf("expected a non-negative integer, found %s", s.found())
	}
	start := s.pos
	var v int64
	for s.pos < len(s.b) && s.b[s.pos] >= '0' && s.b[s.pos] <= '9' {
		d := int64(s.b[s.pos] - '0')
		if v > (1<<63-1-d)/10 {
			s.pos = start
			return 0, s.errorf("integer does not fit 63 bits")
		}
		v = v*10 + d
		s.pos++
	}
	if s.pos < len(s.b) {
		switch s.b[s.pos] {
		case '.', 'e', 'E':
			return 0, s.errorf("expected an integer, found a number with a fraction or an exponent")
		}
	}
	if s.b[start] == '0' && s.pos > start+1 {
		s.pos = start
		return 0, s.errorf("integer with a leading zero")
	}
	return v, nil
}

// limitError marks a refusal for its size rather than its form.
type limitError struct{ error }

func (e limitError) Unwrap() []error { return []error{e.error, ErrLimit} }

// skip consumes one value of any kind, nested at most 64 deep. What is open is
// kept as one bit a level instead of by recursion.
func (s *scanner) skip() error {
	const most = 64
	var objects uint64 // bit i: level i is an object
	depth := 0
	for {
		// One value, or the opening of one.
		switch c := s.peek(); {
		case c == '{' || c == '[':
			if depth == most {
				return limitError{s.errorf("nested more than %d deep", most)}
			}
			s.pos++
			objects &^= 1 << depth
			end := byte(']')
			if c == '{' {
				objects |= 1 << depth
				end = '}'
			}
			depth++
			if s.peek() == end {
				break // closed below
			}
			if c == '{' {
				if err := s.key(); err != nil {
					return err
				}
			}
			continue
		case c == '"':
			if _, _, err := s.raw(); err != nil {
				return err
			}
		case c == '-' || c >= '0' && c <= '9':
			if err := s.number(); err != nil {
				return err
			}
		default:
			if !s.literal("true") && !s.literal("false") && !s.null() {
				return s.errorf("expected a value, found %s", s.found())
			}
		}
		// Close what ends here, or step to the next element.
		for {
			if depth == 0 {
				return nil
			}
			object := objects>>(depth-1)&1 == 1
			end := byte(']')
			if object {
				end = '}'
			}
			if s.peek() == end {
				s.pos++
				depth--
				continue
			}
			if err := s.expect(','); err != nil {
				return err
			}
			if object {
				if err := s.key(); err != nil {
					return err
				}
			}
			break
		}
	}
}

func (s *scanner) key() error {
	if _, _, err := s.raw(); err != nil {
		return err
	}
	return s.expect(':')
}

func (s *scanner) literal(word string) bool {
	if s.pos+len(word) <= len(s.b) && string(s.b[s.pos:s.pos+len(word)]) == word {
		s.pos += len(word)
		return true
	}
	return false
}

// number consumes a number of any form that JSON has.
func (s *scanner) number() error {
	digits := func() bool {
		start := s.pos
		for s.pos < len(s.b) && s.b[s.pos] >= '0' && s.b[s.pos] <= '9' {
			s.pos++
		}
		return s.pos > start
	}
	at := func(set string) bool {
		if s.pos < len(s.b) {
			for i := range len(set) {
				if s.b[s.pos] == set[i] {
					s.pos++
					return true
				}
			}
		}
		return false
	}
	at("-")
	if !at("0") && !digits() {
		return s.errorf("expected a digit, found %s", s.found())
	}
	if at(".") && !digits() {
		return s.errorf("expected a digit, found %s", s.found())
	}
	if at("eE") {
		at("+-")
		if !digits() {
			return s.errorf("expected a digit, found %s", s.found())
		}
	}
	return nil
}
