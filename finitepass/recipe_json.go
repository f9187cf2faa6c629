package finitepass

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/hfcompress/compress/internal/strictjson"
)

// validated is a recipe of any pass.
type validated interface{ Validate() error }

// parseRecipe reads the JSON form of a recipe into r and validates it.
func parseRecipe(data []byte, r validated) error {
	if len(data) > maxRecipeBytes {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrRecipe, len(data), maxRecipeBytes)
	}
	if err := strictjson.Check(data, strictjson.Options{}); err != nil {
		return fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(r); err != nil {
		return fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	if err := r.Validate(); err != nil {
		return err
	}
	// encoding/json folds the case of keys and fills what is missing; a recipe that
	// reads differently once written has used one of these liberties.
	own, err := encodeRecipe(r)
	if err != nil {
		return err
	}
	same, err := sameJSON(data, own)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	if !same {
		return fmt.Errorf("%w: keys are missing, misspelt or redundant", ErrRecipe)
	}
	return nil
}

// encodeRecipe writes a recipe, compact and always the same for equal ones.
func encodeRecipe(r any) ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	return data, nil
}

func sameJSON(a, b []byte) (bool, error) {
	canonical := func(data []byte) ([]byte, error) {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		return json.Marshal(v) // maps are written in key order
	}
	x, err := canonical(a)
	if err != nil {
		return false, err
	}
	y, err := canonical(b)
	return bytes.Equal(x, y), err
}
