package nn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Keys lists distinct keys in increasing order. Its text form has each maximal
// run of neighbours as "first-last", or "first" alone, in hexadecimal without
// leading zeros, separated by commas: "0-1f,3c,40-7f". There is one text for a
// list, and no other is read.
type Keys []uint64

// maxKeys bounds what a text can expand to.
const maxKeys = 1 << 22

// MarshalText writes the text form.
func (k Keys) MarshalText() ([]byte, error) {
	if err := k.validate(); err != nil {
		return nil, err
	}
	var b []byte
	for i := 0; i < len(k); {
		j := i
		for j+1 < len(k) && k[j+1] == k[j]+1 {
			j++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, k[i], 16)
		if j > i {
			b = append(b, '-')
			b = strconv.AppendUint(b, k[j], 16)
		}
		i = j + 1
	}
	return b, nil
}

// UnmarshalText reads the text form, of at most 4,194,304 keys.
func (k *Keys) UnmarshalText(text []byte) error {
	out := Keys{}
	last, any := uint64(0), false
	for _, part := range strings.Split(string(text), ",") {
		first, end, isRun := strings.Cut(part, "-")
		from, err := parseKey(first)
		if err != nil {
			return err
		}
		to := from
		if isRun {
			if to, err = parseKey(end); err != nil {
				return err
			}
			if to <= from {
				return fmt.Errorf("keys: run %.40q does not increase", part)
			}
		}
		if any && (from <= last || from-last == 1) {
			return fmt.Errorf("keys: %.40q does not follow %x with a gap", part, last)
		}
		if to-from >= uint64(maxKeys-len(out)) {
			return fmt.Errorf("keys: more than %d", maxKeys)
		}
		for v := from; ; v++ {
			out = append(out, v)
			if v == to {
				break
			}
		}
		last, any = to, true
	}
	*k = out
	return nil
}

func parseKey(s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil || strconv.FormatUint(v, 16) != s {
		return 0, fmt.Errorf("keys: %.40q is no key", s)
	}
	return v, nil
}

func (k Keys) validate() error {
	if len(k) == 0 || len(k) > maxKeys {
		return fmt.Errorf("%d keys, expected 1 to %d", len(k), maxKeys)
	}
	for i := 1; i < len(k); i++ {
		if k[i] <= k[i-1] {
			return fmt.Errorf("keys: %#x follows %#x", k[i], k[i-1])
		}
	}
	return nil
}

// newKeys sorts and drops repetitions.
func newKeys(all []uint64) Keys {
	k := Keys(slices.Clone(all))
	slices.Sort(k)
	return slices.Compact(k)
}
