package xet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var storeURL = &url.URL{Scheme: "https", Host: "cas.example", Path: "/"}

const hashA, hashB = "00000000000000010000000000000002000000000000000300000000000000aa", "00000000000000010000000000000002000000000000000300000000000000bb"

// The example of the public specification, in both forms: two terms share a
// byte range.
func reconExamples() map[string]string {
	terms := `"offset_into_first_range":0,"terms":[
		{"hash":"` + hashA + `","unpacked_length":263873,"range":{"start":1,"end":4}},
		{"hash":"` + hashB + `","unpacked_length":143890,"range":{"start":0,"end":3}},
		{"hash":"` + hashA + `","unpacked_length":3063572,"range":{"start":3,"end":43}}]`
	return map[string]string{
		"v1": `{` + terms + `,"fetch_info":{
			"` + hashA + `":[{"range":{"start":1,"end":43},"url":"https://t.example/a?Signature=s","url_range":{"start":57980,"end":1433008}}],
			"` + hashB + `":[{"range":{"start":0,"end":3},"url":"https://t.example/b?Signature=s","url_range":{"start":0,"end":65670}}]}}`,
		"v2": `{` + terms + `,"xorbs":{
			"` + hashA + `":[{"url":"https://t.example/a?Signature=s","ranges":[{"chunks":{"start":1,"end":43},"bytes":{"start":57980,"end":1433008}}]}],
			"` + hashB + `":[{"url":"https://t.example/b?Signature=s","ranges":[{"chunks":{"start":0,"end":3},"bytes":{"start":0,"end":65670}}]}]}}`,
	}
}

func TestPlanOfTheExample(t *testing.T) {
	const size = 263873 + 143890 + 3063572
	for name, body := range reconExamples() {
		r, err := parseRecon([]byte(body), storeURL)
		if err != nil {
			t.Fatal(name, err)
		}
		w, err := plan(r, Range{0, size}, size, ranges{{0, size}})
		if err != nil {
			t.Fatal(name, err)
		}
		if len(w.jobs) != 2 || len(w.terms) != 3 || w.end != size {
			t.Fatalf("%s: %d jobs, %d terms, end %d", name, len(w.jobs), len(w.terms), w.end)
		}
		a, b := w.jobs[0], w.jobs[1]
		if a.first != 57980 || a.last != 1433008 || a.next != 1 || a.until != 43 || len(a.terms) != 2 || a.terms[1].off != 263873+143890 {
			t.Errorf("%s: first job %+v", name, a)
		}
		if u, _ := w.url(b.partKey); b.last != 65670 || u.Path != "/b" {
			t.Errorf("%s: second job %+v at %v", name, b, u)
		}
		// Only what is wanted is fetched.
		w, err = plan(r, Range{0, size}, size, ranges{{263873, 263874}})
		if err != nil || len(w.jobs) != 1 || w.jobs[0].last != 65670 {
			t.Errorf("%s: %d jobs for one byte, %v", name, len(w.jobs), err)
		}
	}
}

// A store over TLS cannot send content over an open line.
func TestAddressesKeepTLS(t *testing.T) {
	for address, want := range map[string]bool{
		"https://x.example/a?b": true, "/relative": true,
		"http://x.example/a": false, "file:///a": false, "ftp://x/a": false, "https://%": false, "https:///a": false,
	} {
		if _, err := checkURL(address, storeURL); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	open := &url.URL{Scheme: "http", Host: "127.0.0.1"}
	if _, err := checkURL("http://127.0.0.1/a", open); err != nil {
		t.Error(err)
	}
}

// Property: the part found covers the term, and none is missed.
func TestCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts []part
		for range rapid.IntRange(0, 12).Draw(t, "parts") {
			start := rapid.Uint32Range(0, 30).Draw(t, "start")
			parts = append(parts, part{partKey: partKey{start: start, end: start + rapid.Uint32Range(1, 10).Draw(t, "length")}})
		}
		slices.SortStableFunc(parts, func(a, b part) int { return int(a.start) - int(b.start) })
		start := rapid.Uint32Range(0, 32).Draw(t, "term")
		term := reconTerm{start: start, end: start + rapid.Uint32Range(1, 10).Draw(t, "chunks")}
		exists := slices.ContainsFunc(parts, func(p part) bool { return p.start <= term.start && p.end >= term.end })
		k := cover(parts, reach(parts), term)
		if exists != (k >= 0) || k >= 0 && (parts[k].start > term.start || parts[k].end < term.end) {
			t.Fatalf("found %d for %+v in %+v", k, term, parts)
		}
	})
}

func FuzzPlan(f *testing.F) {
	for _, body := range reconExamples() {
		f.Add([]byte(body), int64(0), int64(3471335))
	}
	f.Add([]byte(`{"offset_into_first_range":5,"terms":[{"hash":"`+hashA+`","unpacked_length":9,"range":{"start":0,"end":1}}],"xorbs":{}}`), int64(5), int64(9))
	f.Fuzz(func(t *testing.T, body []byte, start, size int64) {
		if start < 0 || size <= start || size > 1<<50 {
			return
		}
		r, err := parseRecon(body, storeURL)
		if err != nil {
			if !errors.Is(err, ErrProtocol) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		w, err := plan(r, Range{start, size}, size, ranges{{start, size}})
		if err != nil {
			if !errors.Is(err, ErrProtocol) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		if w.start > start || w.start < 0 || w.end != size {
			t.Fatalf("window %d-%d for %d-%d", w.start, w.end, start, size)
		}
		for _, j := range w.jobs {
			for _, tm := range j.terms {
				if tm.start < j.start || tm.end > j.end || tm.end > j.until || tm.off < 0 || tm.off+tm.size > size {
					t.Fatalf("term %+v in job %+v", tm, j.partKey)
				}
			}
		}
	})
}

func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 60
		var rs ranges
		var bits [n]bool
		draw := func() Range {
			a := rapid.Int64Range(0, n).Draw(t, "start")
			return Range{a, rapid.Int64Range(0, n).Draw(t, "end")}
		}
		set := func(r Range, v bool) {
			for i := r.Start; i < r.End; i++ {
				bits[i] = v
			}
		}
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			r := draw()
			if rapid.Bool().Draw(t, "add") {
				rs.add(r)
				set(r, true)
			} else {
				rs.remove(r)
				set(r, false)
			}
			var want ranges
			for i := range bits {
				switch {
				case !bits[i]:
				case i > 0 && bits[i-1]:
					want[len(want)-1].End++
				default:
					want = append(want, Range{int64(i), int64(i) + 1})
				}
			}
			if !slices.Equal(rs, want) {
				t.Fatalf("after %v: %v, want %v", r, rs, want)
			}
		}
		r := draw()
		var inside int64
		_ = rs.within(r, func(p Range) error { inside += p.End - p.Start; return nil })
		var want int64
		for i := r.Start; i < r.End; i++ {
			if bits[i] {
				want++
			}
		}
		if inside != want || rs.overlaps(r) != (want > 0) {
			t.Fatalf("%v has %d of %v, want %d", rs, inside, r, want)
		}
	})
}

func TestTokens(t *testing.T) {
	now := time.Unix(1000, 0)
	var asked []bool
	tokens := NewTokens(func(_ context.Context, force bool) (Token, error) {
		asked = append(asked, force)
		return Token{Access: fmt.Sprint("t", len(asked)), CAS: "https://cas.example", Expires: now.Add(100 * time.Second)}, nil
	})
	tokens.now = func() time.Time { return now }
	ctx := context.Background()
	expect := func(refused, want string) {
		t.Helper()
		if tok, err := tokens.Token(ctx, refused); err != nil || tok.Access != want {
			t.Fatalf("got %q, %v; want %q", tok.Access, err, want)
		}
	}
	expect("", "t1")
	expect("", "t1")
	now = now.Add(69 * time.Second)
	expect("", "t1")
	now = now.Add(time.Second) // 30 s before its end
	expect("", "t2")
	expect("t1", "t2") // an old one was refused: the current is newer
	expect("t2", "t3")
	if want := []bool{false, false, true}; !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}

	// However many need one, the source is asked once.
	var calls int
	release := make(chan struct{})
	tokens = NewTokens(func(context.Context, bool) (Token, error) {
		calls++
		<-release
		return Token{Access: "x", CAS: "https://cas.example"}, nil
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := tokens.Token(ctx, ""); err != nil {
				t.Error(err)
			}
		}()
	}
	close(release)
	wg.Wait()
	if calls != 1 {
		t.Errorf("asked %d times", calls)
	}
	broken := errors.New("broken")
	tokens = NewTokens(func(context.Context, bool) (Token, error) { return Token{}, broken })
	if _, err := tokens.Token(ctx, ""); !errors.Is(err, ErrToken) || !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "Mon, 01 Jan 2001 00:00:00 GMT": 0, "99999999999999": 0} {
		if got := retryAfter(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestHashJSON(t *testing.T) {
	var h struct{ H Hash }
	if err := json.Unmarshal([]byte(`{"H":"`+hashA+`"}`), &h); err != nil || h.H.String() != hashA || bytes.Count(h.H[:], []byte{0}) != 28 {
		t.Errorf("%v, %v", h.H, err)
	}
}
