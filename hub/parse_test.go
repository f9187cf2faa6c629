package hub

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseLinks(t *testing.T) {
	for h, want := range map[string]map[string]string{
		`<https://h/p?cursor=a%3D>; rel="next"`:                   {"next": "https://h/p?cursor=a%3D"},
		`<a>; rel=next, <b>;rel="prev last"`:                      {"next": "a", "prev": "b", "last": "b"},
		`<a,b;c>;title="x, <y>; rel=\"no\"" ; REL = "next"`:       {"next": "a,b;c"},
		`<t>; rel="xet-auth", <r>; rel="xet-reconstruction-info"`: {"xet-auth": "t", "xet-reconstruction-info": "r"},
		`</rel/ative?x=1> ;  rel="next"`:                          {"next": "/rel/ative?x=1"},
		`<a>`:                                                     {}, `nonsense`: {}, `<unclosed`: {}, `<a>; rel="open`: {"open": "a"}, ``: {},
	} {
		if got := parseLinks([]string{h}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", h, got, want)
		}
	}
}

func FuzzParseLinks(f *testing.F) {
	f.Add(`<https://h/p>; rel="next", <b>; rel=prev`)
	f.Add(`<a>;title="\"";rel`)
	f.Fuzz(func(t *testing.T, h string) {
		for rel, target := range parseLinks([]string{h}) {
			if !strings.Contains(h, target) || rel == "" || strings.ContainsAny(rel, " \t") {
				t.Fatalf("%q: %q → %q", h, rel, target)
			}
		}
	})
}

func TestParseContentRange(t *testing.T) {
	for h, want := range map[string]contentRange{
		"bytes 0-0/1": {0, 0, 1}, "bytes 5-9/*": {5, 9, -1}, "bytes */7": {-1, -1, 7}, "bytes 10-19/9223372036854775807": {10, 19, 1<<63 - 1},
	} {
		if got, err := parseContentRange(h); err != nil || got != want {
			t.Errorf("%s: %+v, %v", h, got, err)
		}
	}
	for _, h := range []string{"", "bytes", "bytes 0-0", "bytes 5-4/9", "bytes 0-9/9", "bytes -1-2/9", "bytes +1-2/9", "items 0-0/1", "bytes a-b/c", "bytes 0-99999999999999999999/*", "bytes 1 - 2/3"} {
		if got, err := parseContentRange(h); err == nil {
			t.Errorf("%q was accepted as %+v", h, got)
		}
	}
}

func FuzzParseContentRange(f *testing.F) {
	f.Add("bytes 0-9/10")
	f.Add("bytes */5")
	f.Fuzz(func(t *testing.T, h string) {
		cr, err := parseContentRange(h)
		if err == nil && (cr.start > cr.end || cr.start < -1 || cr.total >= 0 && cr.end >= cr.total) {
			t.Fatalf("%q gave %+v", h, cr)
		}
	})
}

func TestRateHeaders(t *testing.T) {
	for h, want := range map[string]rateState{
		`"resolvers";r=2999;t=172`:         {"resolvers", 2999, 172 * time.Second},
		`"api";t=5;r=0`:                    {"api", 0, 5 * time.Second},
		`"a,b;c";r=1;t=2, "pages";r=0;t=9`: {"pages", 0, 9 * time.Second},
		` "x" ; r=3 ; t=4 ; new=yes `:      {"x", 3, 4 * time.Second},
	} {
		if got, ok := parseRateLimit(h); !ok || got != want {
			t.Errorf("%s: %+v, %v", h, got, ok)
		}
	}
	for _, h := range []string{"", "x", `"x";r=1`, `"x";t=1`, `"x";r=-1;t=1`, `"x";r=a;t=1`, `"x";r=99999999999999999999;t=1`} {
		if got, ok := parseRateLimit(h); ok {
			t.Errorf("%q: %+v", h, got)
		}
	}
	if q, ok := parseRatePolicy(`"fixed window";"resolvers";q=3000;w=300`, "resolvers"); !ok || q != 3000 {
		t.Error(q, ok)
	}
	if q, ok := parseRatePolicy(`"api";q=5, "resolvers";q=7`, "resolvers"); !ok || q != 7 {
		t.Error(q, ok)
	}
}

func TestRateWait(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		h    http.Header
		want time.Duration
		ok   bool
	}{
		{http.Header{"Ratelimit": {`"api";r=0;t=7`}, "Retry-After": {"100"}}, 8 * time.Second, true},
		// r>0 beside a 429: the limit is somebody else's.
		{http.Header{"Ratelimit": {`"api";r=3;t=7`}, "Retry-After": {"2"}}, 3 * time.Second, true},
		{http.Header{"Ratelimit": {`"api";r=3;t=7`}}, 0, false},
		{http.Header{"Retry-After": {"Fri, 02 Jan 2026 03:04:25 GMT"}}, 21 * time.Second, true},
		{http.Header{"Retry-After": {"soon"}}, 0, false},
		{http.Header{"Retry-After": {"-4"}}, 0, false},
		{http.Header{}, 0, false},
	} {
		if d, ok := rateWait(tc.h, now); d != tc.want || ok != tc.ok {
			t.Errorf("%v: %v, %v", tc.h, d, ok)
		}
	}
}

func FuzzRateHeaders(f *testing.F) {
	f.Add(`"resolvers";r=2999;t=172`, `"fixed window";"resolvers";q=3000;w=300`)
	f.Fuzz(func(t *testing.T, limit, policy string) {
		if st, ok := parseRateLimit(limit); ok && (st.remaining < 0 || st.reset < 0) {
			t.Fatalf("%q: %+v", limit, st)
		}
		if q, ok := parseRatePolicy(policy, "api"); ok && q <= 0 {
			t.Fatalf("%q: %d", policy, q)
		}
		retryAfter(limit, time.Now())
	})
}

func TestParseTree(t *testing.T) {
	oid, sum := strings.Repeat("a", 40), strings.Repeat("b", 64)
	body := `[{"type":"directory","path":"d","oid":"x"},{"type":"","path":"../odd"},
	 {"type":"file","path":"b","oid":"` + oid + `","size":3,"unknown":{}},
	 {"type":"file","path":"d/a","oid":"` + oid + `","size":130,"lfs":{"oid":"` + sum + `","size":9,"pointerSize":130},"xetHash":"` + sum + `"}]`
	files, err := parseTree([]byte(body))
	want := []File{{Path: "b", Size: 3, BlobID: oid}, {Path: "d/a", Size: 9, BlobID: oid, SHA256: sum, XetHash: sum}}
	if err != nil || !reflect.DeepEqual(files, want) {
		t.Fatalf("%+v, %v", files, err)
	}
	if want[0].Etag() != oid || want[1].Etag() != sum {
		t.Error("etags")
	}
	enc, err := encodeTree(files)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "{\n \"format_version\": 1,\n \"files\": {\n  \"b\": {\n   \"size\": 3,\n   \"blob_id\": \"OID\"\n  },\n  \"d/a\": {\n   \"size\": 9,\n   \"blob_id\": \"OID\",\n   \"lfs_sha256\": \"SUM\",\n   \"lfs_size\": 9,\n   \"xet_hash\": \"SUM\"\n  }\n }\n}"
	if got := strings.NewReplacer(oid, "OID", sum, "SUM").Replace(string(enc)); got != golden {
		t.Errorf("%s", got)
	}
	if back, ok := decodeTree(enc); !ok || !reflect.DeepEqual(back, want) {
		t.Errorf("%+v, %v", back, ok)
	}
	for name, body := range map[string]string{
		"traversal": `[{"type":"file","path":"../x","oid":"` + oid + `"}]`,
		"drive":     `[{"type":"file","path":"C:\\x","oid":"` + oid + `"}]`,
		"unc":       `[{"type":"file","path":"\\\\h\\s","oid":"` + oid + `"}]`,
		"bad oid":   `[{"type":"file","path":"x","oid":"../../y"}]`,
		"no oid":    `[{"type":"file","path":"x"}]`,
		"bad sha":   `[{"type":"file","path":"x","oid":"` + oid + `","lfs":{"oid":"zz"}}]`,
		"negative":  `[{"type":"file","path":"x","oid":"` + oid + `","size":-1}]`,
		"no json":   `<html>`,
	} {
		if files, err := parseTree([]byte(body)); err == nil {
			t.Errorf("%s: accepted as %+v", name, files)
		}
	}
	if err := sortFiles([]File{{Path: "a"}, {Path: "b"}, {Path: "a"}}); err == nil {
		t.Error("a file listed twice was accepted")
	}
}

func FuzzTree(f *testing.F) {
	f.Add([]byte(`[{"type":"file","path":"b","oid":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","size":3}]`))
	f.Add([]byte(`{"format_version":1,"files":{"b":{"size":3,"blob_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","xet_hash":null}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(files []File) {
			for _, x := range files {
				if x.check() != nil {
					t.Fatalf("unchecked file %+v", x)
				}
			}
		}
		if files, err := parseTree(b); err == nil {
			check(files)
			if sortFiles(files) == nil {
				enc, err := encodeTree(files)
				if err != nil {
					t.Fatal(err)
				}
				if back, ok := decodeTree(enc); !ok || len(back) != len(files) {
					t.Fatalf("%s does not round-trip", enc)
				}
			}
		}
		if files, ok := decodeTree(b); ok {
			check(files)
		}
	})
}

func TestRefs(t *testing.T) {
	rc := repoCache{root: t.TempDir()}
	rc.dir = filepath.Join(rc.root, "models--a--b")
	cm := Commit(strings.Repeat("c", 40))
	for _, rev := range []string{"main", "refs/pr/1"} {
		if err := rc.writeRef(rev, cm); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(rc.dir, "refs", rev))
		if err != nil || string(b) != string(cm) {
			t.Fatalf("%q, %v", b, err)
		}
		if got := rc.readRef(rev); got != cm {
			t.Error(got)
		}
	}
	// Another client left a line end: it resolves, and is put right.
	p := filepath.Join(rc.dir, "refs", "main")
	if err := os.WriteFile(p, []byte(string(cm)+"\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := rc.readRef("main"); got != cm {
		t.Error(got)
	}
	if err := rc.writeRef("main", cm); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(p); string(b) != string(cm) {
		t.Errorf("%q", b)
	}
	if err := os.WriteFile(p, []byte("garbage"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := rc.readRef("main"); got != "" {
		t.Error(got)
	}
	if got := rc.readRef(string(cm)); got != cm {
		t.Error(got)
	}
}

func FuzzRefs(f *testing.F) {
	f.Add([]byte(strings.Repeat("a", 40) + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c := parseRef(b); c != "" && !IsCommit(string(c)) {
			t.Fatalf("%q", c)
		}
	})
}

func TestJournal(t *testing.T) {
	etag := strings.Repeat("d", 64)
	good := `{"format":1,"etag":"` + etag + `","size":5242881,"part":1048576,"pid":1,"host":"h"}` + "\n" +
		journalLine(0, 0x1234) + journalLine(5, 0xffffffff) + "torn line\n" + strings.Replace(journalLine(3, 7), "3", "4", 1) + journalLine(6, 1) + "2 0000"
	h, sums, ok := parseJournal([]byte(good))
	if !ok || h.Etag != etag || !reflect.DeepEqual(sums, map[int]uint32{0: 0x1234, 5: 0xffffffff}) {
		t.Fatalf("%+v, %v, %v", h, sums, ok)
	}
	for _, bad := range []string{"", "{}", `{"format":2,"etag":"` + etag + `","size":5242881,"part":1048576}` + "\n", `{"format":1,"etag":"x","size":5242881,"part":1048576}` + "\n",
		`{"format":1,"etag":"` + etag + `","size":-5,"part":1048576}` + "\n", `{"format":1,"etag":"` + etag + `","size":9223372036854775807,"part":1048576}` + "\n", `{"format":1,"etag":"` + etag + `","size":5242881,"part":0}` + "\n"} {
		if _, _, ok := parseJournal([]byte(bad)); ok {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"format":1,"etag":"` + strings.Repeat("d", 64) + `","size":5242881,"part":1048576}` + "\n" + journalLine(0, 5)))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, sums, ok := parseJournal(b)
		if !ok {
			return
		}
		p := newPartial("", "", h)
		for i := range sums {
			if i < 0 || i >= p.parts() {
				t.Fatalf("part %d of %d", i, p.parts())
			}
		}
	})
}

func TestNextHop(t *testing.T) {
	from, _ := url.Parse("https://h.example/a/b?x=1")
	for loc, want := range map[string]string{
		"/c?etag=%22a%22": "https://h.example/c?etag=%22a%22", "c": "https://h.example/a/c", "//o.example/z": "https://o.example/z", "https://o.example:8443/#f": "https://o.example:8443/",
	} {
		if to, err := nextHop(from, loc); err != nil || to.String() != want {
			t.Errorf("%s: %v, %v", loc, to, err)
		}
	}
	for _, pair := range [][2]string{{"https://h", "https://H:443"}, {"http://h:80", "http://h"}} {
		a, _ := url.Parse(pair[0])
		b, _ := url.Parse(pair[1])
		if !sameOrigin(a, b) {
			t.Error(pair)
		}
	}
	for _, pair := range [][2]string{{"https://h", "http://h"}, {"https://h", "https://h:8443"}, {"https://h", "https://x.h"}, {"http://h:1", "http://h:2"}} {
		a, _ := url.Parse(pair[0])
		b, _ := url.Parse(pair[1])
		if sameOrigin(a, b) {
			t.Error(pair)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		p, s string
		want bool
	}{
		{"*.json", "a/b.json", true}, {"*.json", "b.JSON", false}, {"*", "", true}, {"", "", true}, {"", "a", false},
		{"a?c", "abc", true}, {"a?c", "a/c", true}, {"a?c", "aéc", true}, {"[ab]x", "bx", true}, {"[!ab]x", "bx", false}, {"[!ab]x", "cx", true},
		{"[a-c]x", "bx", true}, {"[a-]x", "-x", true}, {"[]]x", "]x", true}, {"[!]]x", "]x", false}, {"[x", "[x", true}, {"a[", "a[", true},
		{"sub/", "sub/a/b", true}, {"sub/", "sub", false}, {`sub\*`, "sub/a", true}, {"*a*b*c", "xxaxxbxxc", true}, {"*a*b*c", "xxaxxcxxb", false},
		{"model-*-of-*.safetensors", "model-00001-of-00002.safetensors", true}, {"**", "a/b", true},
	} {
		if got := Match(tc.p, tc.s); got != tc.want {
			t.Errorf("Match(%q, %q) = %v", tc.p, tc.s, got)
		}
	}
	// Bounded time on a hostile pattern.
	if Match(strings.Repeat("*a", 500)+"b", strings.Repeat("a", 5000)) {
		t.Error("matched")
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("*.json", "a/b.json")
	f.Add("[!a-c]?*", "é")
	f.Fuzz(func(t *testing.T, p, s string) {
		if len(p)*len(s) > 1<<16 {
			return
		}
		Match(p, s)
		if !strings.ContainsAny(p, `*?[\`) && !strings.HasSuffix(p, "/") && !strings.Contains(s, `\`) && Match(p, s) != (p == s) {
			t.Fatalf("Match(%q, %q)", p, s)
		}
	})
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"token hf_abcDEF123 end":                     "token hf_*** end",
		"Authorization: Bearer abc.def-123, x":       "Authorization: Bearer ***, x",
		`Get "https://u:p@h/p?X-Sig=1&t=2": refused`: `Get "https://h/p?…": refused`,
		"https://h/p (HTTP 403)":                     "https://h/p (HTTP 403)",
	} {
		if got := redactText(in); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func FuzzNote(f *testing.F) {
	f.Add([]byte(strings.Repeat("a", 40) + "\n" + strings.Repeat("b", 64) + "\n1700000000.25\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, at, ok := parseNote(b); ok && (!IsCommit(string(n.commit)) || !validEtag(n.etag) || at.Unix() < 0) {
			t.Fatalf("%+v at %v", n, at)
		}
	})
}
