package finitepass

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"

	"github.com/hfcompress/compress/internal/strictjson"
)

// Profile is a further table of the whole domain for calls with few rows: those
// with at most MaxRows that no earlier profile takes. Its rows are what the
// source computes in calls of EvaluationRows identical tokens.
type Profile struct {
	MaxRows        int `json:"max_rows"`
	EvaluationRows int `json:"evaluation_rows"`
}

// Limits of a profile list. A table per profile is compiled, so real lists are
// short; the row limits keep one call's result within memory.
const (
	MaxProfiles    = 64
	MaxProfileRows = 1 << 16

	maxProfileBytes = 64 << 10
)

// CheckProfiles refuses a list that is too long, whose MaxRows do not strictly
// increase from 1 up, or that has EvaluationRows below 1. The empty list is
// fine: it means that one table serves all calls. Errors wrap [ErrProfiles].
func CheckProfiles(profiles []Profile) error {
	if len(profiles) > MaxProfiles {
		return fmt.Errorf("%w: %d profiles, the limit is %d", ErrProfiles, len(profiles), MaxProfiles)
	}
	last := 0
	for i, p := range profiles {
		switch {
		case p.MaxRows < 1 || p.MaxRows > MaxProfileRows:
			return fmt.Errorf("%w: profile %d: max_rows is %d, expected 1 to %d", ErrProfiles, i, p.MaxRows, MaxProfileRows)
		case p.MaxRows <= last:
			return fmt.Errorf("%w: profile %d: max_rows %d does not exceed the previous %d", ErrProfiles, i, p.MaxRows, last)
		case p.EvaluationRows < 1 || p.EvaluationRows > MaxProfileRows:
			return fmt.Errorf("%w: profile %d: evaluation_rows is %d, expected 1 to %d", ErrProfiles, i, p.EvaluationRows, MaxProfileRows)
		}
		last = p.MaxRows
	}
	return nil
}

// ParseProfiles reads a profile file: a JSON list, not empty, of objects with
// exactly the keys max_rows and evaluation_rows, both integers:
//
//	[{"max_rows": 1, "evaluation_rows": 1}, {"max_rows": 15, "evaluation_rows": 2}]
//
// Anything else is refused with an error that wraps [ErrProfiles].
func ParseProfiles(data []byte) ([]Profile, error) {
	if len(data) > maxProfileBytes {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrProfiles, len(data), maxProfileBytes)
	}
	if err := strictjson.Check(data, strictjson.Options{}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProfiles, err)
	}
	if trimmed := bytes.TrimSpace(data); trimmed[0] != '[' {
		return nil, fmt.Errorf("%w: expected a list of objects", ErrProfiles)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProfiles, err)
	}
	if len(raw) == 0 {
		return nil, fmt.Errorf("%w: the list is empty; leave the profiles out for none", ErrProfiles)
	}
	if len(raw) > MaxProfiles {
		return nil, fmt.Errorf("%w: %d profiles, the limit is %d", ErrProfiles, len(raw), MaxProfiles)
	}
	profiles := make([]Profile, len(raw))
	for i, r := range raw {
		// A map, since struct decoding would fold the case of keys.
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(r, &fields); err != nil || fields == nil {
			return nil, fmt.Errorf("%w: entry %d is not an object", ErrProfiles, i)
		}
		for key := range fields {
			if key != "max_rows" && key != "evaluation_rows" {
				return nil, fmt.Errorf("%w: entry %d has the unknown key %s", ErrProfiles, i, quoteShort(key))
			}
		}
		var err error
		if profiles[i].MaxRows, err = integerField(fields, "max_rows"); err == nil {
			profiles[i].EvaluationRows, err = integerField(fields, "evaluation_rows")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: entry %d: %w", ErrProfiles, i, err)
		}
	}
	if err := CheckProfiles(profiles); err != nil {
		return nil, err
	}
	return profiles, nil
}

func integerField(fields map[string]json.RawMessage, key string) (int, error) {
	raw, ok := fields[key]
	if !ok {
		return 0, fmt.Errorf("%s is missing", key)
	}
	n, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s is %s, expected an integer", key, quoteShort(string(raw)))
	}
	return int(n), nil
}

// quoteShort quotes text from outside, cut to a length fit for an error.
func quoteShort(s string) string {
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return strconv.Quote(s)
}

// route returns which table serves a call of n rows: 0 for the bulk table, i+1
// for profiles[i].
func route(profiles []Profile, n int) int {
	i := sort.Search(len(profiles), func(i int) bool { return n <= profiles[i].MaxRows })
	if i == len(profiles) {
		return 0
	}
	return i + 1
}

// bulkRows is the smallest row count that the bulk table serves.
func bulkRows(profiles []Profile) int {
	if len(profiles) == 0 {
		return 1
	}
	return profiles[len(profiles)-1].MaxRows + 1
}
