package llama

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// object reads typed values from a JSON object. The first failure sticks in err,
// so that a run of reads is checked once. null counts as absent throughout, as
// it does in the reference.
type object struct {
	path   string
	fields map[string]json.RawMessage
	err    error
}

// required marks a size that has no default.
const required = -1

func parseObject(path string, data []byte) (*object, error) {
	o := &object{path: path}
	if len(data) == 0 {
		return o, nil
	}
	if err := json.Unmarshal(data, &o.fields); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrConfig, err)
	}
	return o, nil
}

// fail makes an error that names the key with its path.
func (o *object) fail(key, format string, args ...any) error {
	return fmt.Errorf("%w: %s%s: %s", ErrConfig, o.path, key, fmt.Sprintf(format, args...))
}

func (o *object) wrong(key, expected string) {
	if o.err == nil {
		o.err = o.fail(key, "expected %s, found %s", expected, snippet(o.raw(key)))
	}
}

// raw returns the compacted value of key, or nil when it is absent or null.
func (o *object) raw(key string) json.RawMessage {
	v, ok := o.fields[key]
	if v = bytes.TrimSpace(v); !ok || bytes.Equal(v, []byte("null")) {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, v); err != nil { // Unmarshal accepted it
		return v
	}
	return b.Bytes()
}

func (o *object) keys() []string { return slices.Sorted(maps.Keys(o.fields)) }

// size reads an integer from 1 to limit. byDefault may be [required].
func (o *object) size(key string, byDefault, limit int) int {
	v := o.raw(key)
	if v == nil {
		if byDefault == required && o.err == nil {
			o.err = o.fail(key, "is missing")
		}
		return max(byDefault, 1)
	}
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 1 || n > limit {
		o.wrong(key, fmt.Sprintf("an integer from 1 to %d", limit))
		return 1
	}
	return n
}

func (o *object) number(key string, byDefault float64) float64 {
	v := o.raw(key)
	if v == nil {
		return byDefault
	}
	var x float64
	if err := json.Unmarshal(v, &x); err != nil || math.IsInf(x, 0) {
		o.wrong(key, "a number")
		return byDefault
	}
	return x
}

func (o *object) text(key, byDefault string) string {
	v := o.raw(key)
	if v == nil {
		return byDefault
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		o.wrong(key, "a string")
		return byDefault
	}
	return s
}

func (o *object) flag(key string, byDefault bool) bool {
	v := o.raw(key)
	if v == nil {
		return byDefault
	}
	var b bool
	if err := json.Unmarshal(v, &b); err != nil {
		o.wrong(key, "true or false")
		return byDefault
	}
	return b
}

func (o *object) texts(key string, limit int) []string {
	v := o.raw(key)
	if v == nil {
		return nil
	}
	var list []string
	if err := json.Unmarshal(v, &list); err != nil || len(list) > limit {
		o.wrong(key, fmt.Sprintf("a list of at most %d strings", limit))
		return nil
	}
	return list
}

// ids reads a token id or a list of them. Some configurations spell "none" as
// -1, so that is allowed.
func (o *object) ids(key string, byDefault, limit int) []int {
	v, present := o.raw(key), false
	if _, present = o.fields[key]; !present {
		return []int{byDefault}
	}
	if v == nil {
		return nil
	}
	if v[0] != '[' {
		v = slices.Concat([]byte("["), v, []byte("]"))
	}
	var list []int32
	if err := json.Unmarshal(v, &list); err != nil || len(list) > limit || slices.ContainsFunc(list, func(id int32) bool { return id < -1 }) {
		o.wrong(key, fmt.Sprintf("a token id, or a list of at most %d", limit))
		return nil
	}
	out := make([]int, len(list))
	for i, id := range list {
		out[i] = int(id)
	}
	return out
}

// object reads a nested object; an absent one is empty.
func (o *object) object(key string) *object {
	n, err := parseObject(o.path+key+".", o.raw(key))
	if err != nil {
		o.wrong(key, "an object")
		return &object{path: o.path + key + "."}
	}
	return n
}

// snippet shows a raw JSON value in an error, without echoing hostile text at
// length.
func snippet(v json.RawMessage) string {
	if v == nil {
		return "nothing"
	}
	return strings.Map(func(r rune) rune {
		if !strconv.IsGraphic(r) {
			return unicode.ReplacementChar
		}
		return r
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
