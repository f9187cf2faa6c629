package settings

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

// Object reads typed values from a JSON object. The first failure sticks in Err,
// so that a run of reads is checked once. null counts as absent throughout, as
// it does in the reference.
type Object struct {
	// Err is the first failure.
	Err error

	kind   error
	path   string
	fields map[string]json.RawMessage
}

// Required marks a size that has no default.
const Required = -1

// Parse reads a whole config.json. Every error wraps kind.
func Parse(kind error, data []byte) (*Object, error) { return parse(kind, "", data) }

func parse(kind error, path string, data []byte) (*Object, error) {
	o := &Object{kind: kind, path: path}
	if len(data) == 0 {
		return o, nil
	}
	if err := json.Unmarshal(data, &o.fields); err != nil {
		return nil, fmt.Errorf("%w: %v", kind, err)
	}
	return o, nil
}

// Fail makes an error that names the key with its path.
func (o *Object) Fail(key, format string, args ...any) error {
	return fmt.Errorf("%w: %s%s: %s", o.kind, o.path, key, fmt.Sprintf(format, args...))
}

func (o *Object) wrong(key, expected string) {
	if o.Err == nil {
		o.Err = o.Fail(key, "expected %s, found %s", expected, Snippet(o.Raw(key)))
	}
}

// Raw returns the compacted value of key, or nil when it is absent or null.
func (o *Object) Raw(key string) json.RawMessage {
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

// Keys lists the keys in order.
func (o *Object) Keys() []string { return slices.Sorted(maps.Keys(o.fields)) }

// Size reads an integer from 1 to limit. byDefault may be [Required].
func (o *Object) Size(key string, byDefault, limit int) int {
	v := o.Raw(key)
	if v == nil {
		if byDefault == Required && o.Err == nil {
			o.Err = o.Fail(key, "is missing")
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

// First returns the first of several keys for one setting that is there, or the
// first of them.
func (o *Object) First(keys ...string) string {
	for _, key := range keys {
		if o.Raw(key) != nil {
			return key
		}
	}
	return keys[0]
}

// Null reports that the key is there and null.
func (o *Object) Null(key string) bool {
	_, there := o.fields[key]
	return there && o.Raw(key) == nil
}

// Count reads an integer from 0 to limit.
func (o *Object) Count(key string, byDefault, limit int) int {
	v := o.Raw(key)
	if v == nil {
		return byDefault
	}
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 0 || n > limit {
		o.wrong(key, fmt.Sprintf("an integer from 0 to %d", limit))
		return 0
	}
	return n
}

// Number reads a finite number.
func (o *Object) Number(key string, byDefault float64) float64 {
	v := o.Raw(key)
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

// Text reads a string.
func (o *Object) Text(key, byDefault string) string {
	v := o.Raw(key)
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

// Flag reads true or false.
func (o *Object) Flag(key string, byDefault bool) bool {
	v := o.Raw(key)
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

// Texts reads a list of at most limit strings.
func (o *Object) Texts(key string, limit int) []string {
	v := o.Raw(key)
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

// IDs reads a token id or a list of them. Some configurations spell "none" as
// -1, so that is allowed.
func (o *Object) IDs(key string, byDefault, limit int) []int {
	v, present := o.Raw(key), false
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

// Object reads a nested object; an absent one is empty.
func (o *Object) Object(key string) *Object {
	n, err := parse(o.kind, o.path+key+".", o.Raw(key))
	if err != nil {
		o.wrong(key, "an object")
		return &Object{kind: o.kind, path: o.path + key + "."}
	}
	return n
}

// Snippet shows a raw JSON value in an error, without echoing hostile text at
// length.
func Snippet(v json.RawMessage) string {
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

// Quote is [Snippet] for plain text.
func Quote(s string) string { return strconv.QuoteToGraphic(shorten(s)) }

func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
