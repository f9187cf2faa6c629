package declared

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// ErrFile is wrapped by every error about the contents of an architecture file.
var ErrFile = errors.New("bad architecture file")

// reader reads one JSON object. The first failure of a whole file sticks in
// sink, so that a run of reads is checked once; it names the place as a path
// such as blocks[0].layers[2].out.
type reader struct {
	path   string
	fields map[string]json.RawMessage
	known  map[string]bool
	sink   *error
}

func newReader(data []byte, sink *error) *reader {
	return child("", data, sink)
}

func child(path string, data []byte, sink *error) *reader {
	r := &reader{path: path, known: map[string]bool{}, sink: sink}
	if *sink != nil {
		return r
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '{' {
		r.failAt(path, "expected an object, found %s", snippet(data))
		return r
	}
	if err := json.Unmarshal(data, &r.fields); err != nil {
		r.failAt(path, "%v", err)
	}
	return r
}

// failAt records the first failure.
func (r *reader) failAt(path, format string, args ...any) {
	if *r.sink == nil {
		if path != "" {
			path += ": "
		}
		*r.sink = fmt.Errorf("%w: %s%s", ErrFile, path, fmt.Sprintf(format, args...))
	}
}

func (r *reader) fail(key, format string, args ...any) { r.failAt(r.at(key), format, args...) }

func (r *reader) failed() bool { return *r.sink != nil }

// at is the path of a key.
func (r *reader) at(key string) string {
	if r.path == "" {
		return key
	}
	return r.path + "." + key
}

// raw returns the value of key, nil when it is absent.
func (r *reader) raw(key string) json.RawMessage {
	r.known[key] = true
	return r.fields[key]
}

func (r *reader) has(key string) bool {
	_, ok := r.fields[key]
	return ok
}

func (r *reader) wrong(key, expected string) {
	r.fail(key, "expected %s, found %s", expected, snippet(r.fields[key]))
}

// done refuses keys that nobody asked for.
func (r *reader) done() {
	for _, key := range slices.Sorted(maps.Keys(r.fields)) {
		if !r.known[key] {
			r.fail(shorten(key), "unknown key; known here: %s", strings.Join(slices.Sorted(maps.Keys(r.known)), ", "))
			return
		}
	}
}

// integer reads an integer from low to high; an absent one is byDefault, or
// missing when that is [required].
func (r *reader) integer(key string, byDefault, low, high int) int {
	v := r.raw(key)
	if v == nil {
		if byDefault == required {
			r.fail(key, "is missing")
			return low
		}
		return byDefault
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(v)))
	if err != nil || n < low || n > high {
		r.wrong(key, fmt.Sprintf("an integer from %d to %d", low, high))
		return low
	}
	return n
}

// required marks an integer without a default.
const required = math.MinInt

// number reads a number that is finite as a float32.
func (r *reader) number(key string, byDefault float64) float64 {
	v := r.raw(key)
	if v == nil {
		if math.IsNaN(byDefault) {
			r.fail(key, "is missing")
		}
		return byDefault
	}
	var x float64
	if c := bytes.TrimSpace(v)[0]; c != '-' && (c < '0' || c > '9') {
		r.wrong(key, "a number")
	} else if err := json.Unmarshal(v, &x); err != nil || math.IsInf(float64(float32(x)), 0) {
		r.wrong(key, "a number within the range of float32")
	}
	return x
}

// epsilon reads a number between 0 and 1 that float32 does not round to 0.
func (r *reader) epsilon(byDefault float64) float32 {
	e := float32(r.number("eps", byDefault))
	if !r.failed() && !(e > 0 && e < 1) {
		r.wrong("eps", "a number between 0 and 1")
	}
	return e
}

func (r *reader) flag(key string) bool {
	v := bytes.TrimSpace(r.raw(key))
	switch string(v) {
	case "", "false":
		return false
	case "true":
		return true
	}
	r.wrong(key, "true or false")
	return false
}

// text reads a string; an absent one is "", or missing when must is set.
func (r *reader) text(key string, must bool) string {
	v := r.raw(key)
	if v == nil {
		if must {
			r.fail(key, "is missing")
		}
		return ""
	}
	var s string
	if v = bytes.TrimSpace(v); v[0] != '"' || json.Unmarshal(v, &s) != nil || s == "" || len(s) > maxName {
		r.wrong(key, fmt.Sprintf("a string of 1 to %d bytes", maxName))
		return ""
	}
	return s
}

// name reads a word that may stand in paths and output names.
func (r *reader) name(key string) string {
	s := r.text(key, true)
	if !r.failed() && !isName(s) {
		r.wrong(key, "letters, digits, underscores and hyphens")
	}
	return s
}

func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

// list reads an array of at most most elements; nil when it is absent.
func (r *reader) list(key string, most int) []json.RawMessage {
	v := r.raw(key)
	if v == nil || r.failed() {
		return nil
	}
	var all []json.RawMessage
	if v = bytes.TrimSpace(v); v[0] != '[' || json.Unmarshal(v, &all) != nil || len(all) > most {
		r.wrong(key, fmt.Sprintf("a list of at most %d entries", most))
		return nil
	}
	return all
}

// objects calls f with every object of a list.
func (r *reader) objects(key string, most int, f func(o *reader)) {
	for i, v := range r.list(key, most) {
		if r.failed() {
			return
		}
		f(child(fmt.Sprintf("%s[%d]", r.at(key), i), v, r.sink))
	}
}

// texts reads a list of strings.
func (r *reader) texts(key string, most int) []string {
	var out []string
	for i, v := range r.list(key, most) {
		var s string
		if v = bytes.TrimSpace(v); v[0] != '"' || json.Unmarshal(v, &s) != nil || s == "" || len(s) > maxName {
			r.failAt(fmt.Sprintf("%s[%d]", r.at(key), i), "expected a string of 1 to %d bytes, found %s", maxName, snippet(v))
			return nil
		}
		out = append(out, s)
	}
	return out
}

// object reads an object that must be there.
func (r *reader) object(key string) *reader {
	v := r.raw(key)
	if v == nil {
		r.fail(key, "is missing")
	}
	return child(r.at(key), v, r.sink)
}

// choice reads a string that must be one of options; the first is the default.
func (r *reader) choice(key string, options ...string) string {
	s := r.text(key, false)
	if s == "" {
		return options[0]
	}
	if !r.failed() && !slices.Contains(options, s) {
		r.wrong(key, "one of "+strings.Join(options, ", "))
	}
	return s
}

// snippet shows a raw JSON value in an error, without echoing hostile text at
// length.
func snippet(v []byte) string {
	if v = bytes.TrimSpace(v); len(v) == 0 {
		return "nothing"
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n', c == '\t', c == '\r':
			return ' '
		case !strconv.IsGraphic(c):
			return unicode.ReplacementChar
		}
		return c
	}, shorten(string(v)))
}

// quote is [snippet] for plain text.
func quote(s string) string { return strconv.QuoteToGraphic(shorten(s)) }

func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
