package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// maxListedIDs bounds what ranges can expand to.
const maxListedIDs = 1 << 22

// idList reads what --reachable-ids was given: ids and ranges such as
// "0-31,50", or the name of a file with a JSON list.
func idList(text string) ([]int, error) { return listOf("--reachable-ids", "token id", text) }

// labelList is [idList] for --labels.
func labelList(text string) ([]int, error) { return listOf("--labels", "class label", text) }

// listOf reads what a flag with a list of ids was given.
func listOf(flag, what, text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	if strings.Trim(text, "0123456789,- ") != "" {
		data, err := readSmall(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		var ids []int
		d := json.NewDecoder(bytes.NewReader(data))
		if err := d.Decode(&ids); err != nil || d.More() || len(ids) == 0 {
			return nil, usagef("%s: %s holds no list of %ss, such as [0, 1, 2]", flag, text, what)
		}
		return ids, nil
	}
	var ids []int
	for _, field := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(field), "-")
		from, err := strconv.Atoi(first)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err != nil || to < from {
			return nil, usagef("%s: %q is neither a %s nor a range such as 0-31", flag, field, what)
		}
		if to-from >= maxListedIDs-len(ids) {
			return nil, usagef("%s: more than %d ids", flag, maxListedIDs)
		}
		for id := from; id <= to; id++ {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// timestepList reads what --timesteps was given: numbers such as "0,20.5,40", or
// the name of a file with a JSON list.
func timestepList(text string) ([]float32, error) {
	if text == "" {
		return nil, nil
	}
	if strings.Trim(text, "0123456789,.eE+- ") != "" {
		data, err := readSmall(text)
		if err != nil {
			return nil, fmt.Errorf("--timesteps: %w", err)
		}
		var steps []float32
		d := json.NewDecoder(bytes.NewReader(data))
		if err := d.Decode(&steps); err != nil || d.More() || len(steps) == 0 {
			return nil, usagef("--timesteps: %s holds no list of timesteps, such as [0, 20, 40]", text)
		}
		return steps, nil
	}
	var steps []float32
	for _, field := range strings.Split(text, ",") {
		t, err := strconv.ParseFloat(strings.TrimSpace(field), 32)
		if err != nil {
			return nil, usagef("--timesteps: %q is not a timestep", field)
		}
		steps = append(steps, float32(t))
	}
	return steps, nil
}
