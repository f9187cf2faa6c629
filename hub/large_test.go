package hub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestLargeSizes: sizes beyond 32 bits, and beyond what the Hub gives in one
// plain answer (50 GB), go through every form in which a size comes.
func TestLargeSizes(t *testing.T) {
	etag, oid := strings.Repeat("e", 64), strings.Repeat("b", 40)
	for _, size := range []int64{1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 1, 8 << 30, 50_000_000_000, 50_000_000_001, 1 << 44, maxParts * maxPart} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			// Listings, of the API and in the cache.
			files, err := parseTree(fmt.Appendf(nil, `[{"type":"file","path":"m","oid":%q,"size":%d,"lfs":{"oid":%q,"size":%d,"pointerSize":135}}]`, oid, size, etag, size))
			if err != nil || len(files) != 1 || files[0].Size != size {
				t.Fatalf("%+v, %v", files, err)
			}
			b, err := encodeTree(files)
			if err != nil {
				t.Fatal(err)
			}
			if again, ok := decodeTree(b); !ok || len(again) != 1 || again[0].Size != size {
				t.Errorf("%+v from %s", again, b)
			}
			// Headers.
			h := http.Header{"X-Linked-Size": {fmt.Sprint(size)}, "X-Linked-Etag": {etag}, "X-Repo-Commit": {oid}, "Location": {"/x"}}
			m, err := readMetadata(&answer{Response: &http.Response{StatusCode: 302, Header: h}, url: &url.URL{Scheme: "http", Host: "h"}})
			if err != nil || m.Size != size || m.file("m").Size != size {
				t.Errorf("%+v, %v", m, err)
			}
			if cr, err := parseContentRange(fmt.Sprintf("bytes %d-%d/%d", size-2, size-1, size)); err != nil || cr != (contentRange{size - 2, size - 1, size}) {
				t.Errorf("%+v, %v", cr, err)
			}
			// The journal: parts that cover the file once, and lines for the
			// last of them.
			head := journalHeader{Format: journalFormat, Etag: etag, Size: size, Part: partSize(size), Host: "h"}
			p := newPartial("", "", head)
			next := int64(0)
			for i := range p.parts() {
				from, to := p.span(i)
				if from != next || to <= from {
					t.Fatalf("part %d is [%d, %d), expected to begin at %d", i, from, to, next)
				}
				next = to
			}
			if next != size {
				t.Errorf("the parts end at %d of %d", next, size)
			}
			first, err := json.Marshal(head)
			if err != nil {
				t.Fatal(err)
			}
			last := p.parts() - 1
			text := string(first) + "\n" + journalLine(last, 0xdeadbeef)
			if len(first)+1+p.parts()*len(journalLine(last, 1)) > maxJournal {
				t.Errorf("a complete journal of %d parts exceeds its limit", p.parts())
			}
			got, sums, ok := parseJournal([]byte(text))
			if !ok || got.Size != size || sums[last] != 0xdeadbeef {
				t.Errorf("%+v, %v, %v", got, sums, ok)
			}
		})
	}
	if _, err := (&Client{}).openPartial(spot{}, etag, maxParts*maxPart+1); err == nil {
		t.Error("a size without a journal was accepted")
	}
}
