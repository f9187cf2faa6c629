// Package thousands writes counts as the project's texts do.
package thousands

import "strconv"

// Group writes n with its thousands set apart by commas, such as -1,234,567.
func Group(n int64) string {
	s := strconv.FormatInt(n, 10)
	first := 0
	if n < 0 {
		first = 1
	}
	for i := len(s) - 3; i > first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
