package main

import (
	"testing"

	compress "github.com/hfcompress/compress"
)

// A package can be larger than its source: both numbers then have one sign.
func TestChange(t *testing.T) {
	for want, c := range map[string]compress.Change{
		"5,120 of 9,484 bytes (53.99 %)":   {Before: 9484, After: 4364},
		"−2,001 of 9,900 bytes (−20.21 %)": {Before: 9900, After: 11901},
		"0 of 7 bytes (0.00 %)":            {Before: 7, After: 7},
		"–":                                {},
	} {
		if got := change(c); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}
