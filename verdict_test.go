package compress_test

import (
	"strings"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/finitepass"
)

// TestVerdict: the sentences of a report say what is more and what is less.
func TestVerdict(t *testing.T) {
	change := func(before, after int64) compress.Change { return compress.Change{Before: before, After: after} }
	for _, c := range []struct {
		status         finitepass.Status
		reason         string
		resident, disk compress.Change
		want           string
	}{
		{finitepass.Compressed, "", change(4000, 3000), change(8000, 6000), "1,000 bytes less (25.00 %) in memory, 2,000 bytes less (25.00 %) on disk. "},
		{finitepass.Compressed, "", change(4000, 3000), change(4000, 4200), "1,000 bytes less (25.00 %) in memory, 200 bytes more (5.00 %) on disk. "},
		{finitepass.Compressed, "", change(4000, 3000), change(4000, 0), "1,000 bytes less (25.00 %) in memory. "},
		{finitepass.NoReduction, "no block could be rewritten with a saving", change(4000, 4000), change(0, 0), "Nothing was gained: no block could be rewritten with a saving. "},
	} {
		r := compress.Report{Status: c.status, Reason: c.reason}
		r.Bytes.Resident, r.Bytes.Disk = c.resident, c.disk
		if got := r.Verdict(); strings.TrimRight(got, " ") != strings.TrimRight(c.want, " ") {
			t.Errorf("%q, expected %q", got, c.want)
		}
	}
}
