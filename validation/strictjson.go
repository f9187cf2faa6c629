package validation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// strictJSON walks data, which must be one JSON value without repeated keys and
// without null. With plainKeys, keys must be lower-case letters and
// underscores: encoding/json matches struct fields under Unicode case folding, so
// "Input_IDs" would otherwise silently override "input_ids".
func strictJSON(data []byte, plainKeys bool) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type level struct {
		keys  map[string]bool // nil in an array
		value bool            // the next token of an object is a value
	}
	var stack []level
	for {
		token, err := d.Token()
		if err == io.EOF && len(stack) == 0 {
			return errors.New("empty file")
		}
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if top := len(stack) - 1; top >= 0 && stack[top].keys != nil && token != json.Delim('}') {
			if key, ok := token.(string); ok && !stack[top].value {
				if stack[top].keys[key] {
					return fmt.Errorf("key %.80q appears twice", key)
				}
				if plainKeys && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") != "" {
					return fmt.Errorf("unknown key %.80q", key)
				}
				stack[top].keys[key], stack[top].value = true, true
				continue
			}
			stack[top].value = false
		}
		switch token {
		case nil:
			return errors.New("null is no value here")
		case json.Delim('{'):
			stack = append(stack, level{keys: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
		if len(stack) == 0 {
			if _, err := d.Token(); err != io.EOF {
				return errors.New("text after the JSON value")
			}
			return nil
		}
	}
}
