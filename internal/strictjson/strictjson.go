// Package strictjson refuses JSON that encoding/json reads but two readers could
// take differently: repeated keys, text after the value, and keys that match a
// struct field only when case is folded.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxDepth bounds nesting; no format of this module needs much of it.
const maxDepth = 64

// Options say what else to refuse.
type Options struct {
	// Key, when not nil, must hold for every key. Formats that are decoded into
	// structs want [LowerKey], since encoding/json matches fields under Unicode
	// case folding: "Input_IDs" would silently override "input_ids".
	Key func(key string) bool
	// NoNull refuses null, which encoding/json takes for any zero value.
	NoNull bool
}

// LowerKey accepts keys of lower-case letters, digits and underscores.
func LowerKey(key string) bool {
	for i := 0; i < len(key); i++ {
		if c := key[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// Check walks data, which must be exactly one JSON value without repeated keys.
func Check(data []byte, o Options) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("empty, expected a JSON value")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := o.value(d, 0); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("text after the JSON value")
	}
	return nil
}

func (o Options) value(d *json.Decoder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("JSON nested deeper than %d", maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return err
	}
	delim, composite := token.(json.Delim)
	if !composite {
		if token == nil && o.NoNull {
			return errors.New("null is no value here")
		}
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		if delim == '{' {
			token, err := d.Token()
			if err != nil {
				return err
			}
			key, _ := token.(string)
			if seen[key] {
				return fmt.Errorf("key %.80q appears twice", key)
			}
			if o.Key != nil && !o.Key(key) {
				return fmt.Errorf("unknown key %.80q", key)
			}
			seen[key] = true
		}
		if err := o.value(d, depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token() // the closing delimiter
	return err
}
