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
func idList(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	if strings.Trim(text, "0123456789,- ") != "" {
		data, err := readSmall(text)
		if err != nil {
			return nil, fmt.Errorf("--reachable-ids: %w", err)
		}
		var ids []int
		d := json.NewDecoder(bytes.NewReader(data))
		if err := d.Decode(&ids); err != nil || d.More() || len(ids) == 0 {
			return nil, usagef("--reachable-ids: %s holds no list of token ids, such as [0, 1, 2]", text)
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
			return nil, usagef("--reachable-ids: %q is neither a token id nor a range such as 0-31", field)
		}
		if to-from >= maxListedIDs-len(ids) {
			return nil, usagef("--reachable-ids: more than %d ids", maxListedIDs)
		}
		for id := from; id <= to; id++ {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
