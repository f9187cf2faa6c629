package hub_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

// bigXet is one file that a Hub offers over Xet, in xorbs of 2 MiB.
func bigXet(t testing.TB, change ...func(*hubtest.Options)) (*hubtest.Server, []byte) {
	data := bigData()
	o := hubtest.Options{
		Repos: []hubtest.Repo{{ID: "org/big", Revisions: map[string]hubtest.Files{"main": {"model.safetensors": data, "config.json": []byte("{}")}}}},
		Xet:   &xettest.Options{MaxXorb: 2 << 20},
	}
	for _, f := range change {
		f(&o)
	}
	return newHub(t, o), data
}

// xetBytes is what the store sent of xorbs.
func xetBytes(s *hubtest.Server) (n int64) {
	for _, r := range s.Xet().Requests() {
		if r.Call == xettest.Content {
			n += r.Bytes
		}
	}
	return n
}

func TestXetDownload(t *testing.T) {
	for name, noV2 := range map[string]int{"v2": 0, "v1": 404} {
		t.Run(name, func(t *testing.T) {
			s, data := bigXet(t, func(o *hubtest.Options) { o.Xet.NoV2 = noV2 })
			rec := &recorder{}
			c := newClient(t, s, func(o *hub.Options) { o.Progress = rec })
			p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, p, data)
			wantClean(t, c.CacheDir())
			if left := partials(t, c.CacheDir()); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if n := s.Count(onCDN); n != 0 {
				t.Errorf("%d requests to the storage for HTTP", n)
			}
			if n := xetBytes(s); n < bigSize || n > bigSize+bigSize/50 {
				t.Errorf("the store sent %d bytes for a file of %d", n, bigSize)
			}
			if n := s.Xet().Issued(); n != 1 {
				t.Errorf("%d tokens", n)
			}
			if e := rec.kinds(hub.FellBack); len(e) > 0 {
				t.Errorf("fell back: %v", e[0].Err)
			}
			var last hub.Event
			for _, e := range rec.kinds(hub.FileProgress) {
				last = e
			}
			if last.Done != bigSize {
				t.Errorf("the last report is %d of %d bytes", last.Done, last.Total)
			}
		})
	}
}

// A snapshot asks for one token, however many files it has, and for no
// file's metadata.
func TestXetSnapshot(t *testing.T) {
	s := newHub(t, hubtest.Options{Xet: &xettest.Options{},
		Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": demoFiles()}}}})
	c := newClient(t, s)
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for n, data := range demoFiles() {
		wantFile(t, filepath.Join(snap.Dir, filepath.FromSlash(n)), data)
	}
	if n := s.Xet().Issued(); n != 1 {
		t.Errorf("%d tokens for one commit", n)
	}
	// The commit, the listing, the token, and three plain files: the empty one
	// needs no request.
	if n := s.Count(nil); n != 6 {
		t.Errorf("%d requests to the Hub", n)
	}
	// A directory is filled in the same way.
	dir := t.TempDir()
	if _, err := newClient(t, s).SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(dir, "model.safetensors"), demoFiles()["model.safetensors"])
	if n := s.Count(onCDN); n != 0 {
		t.Errorf("%d requests to the storage for HTTP", n)
	}
}

func TestXetDisabled(t *testing.T) {
	s, data := bigXet(t)
	c := newClient(t, s, func(o *hub.Options) { o.DisableXet = true })
	p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, data)
	if n := len(s.Xet().Requests()) + s.Xet().Issued(); n != 0 {
		t.Errorf("%d requests over Xet", n)
	}
	env, err := hub.OptionsFromEnv(func(k string) string {
		return map[string]string{"HF_HUB_DISABLE_XET": "1", "HF_HOME": t.TempDir()}[k]
	}, "")
	if err != nil || !env.Options.DisableXet {
		t.Errorf("%+v, %v", env.Options, err)
	}
}

// Whatever the store does, the file arrives: over Xet if the fault passes,
// else over HTTP, which brings no more than what is missing.
func TestXetFaults(t *testing.T) {
	s, data := bigXet(t)
	wrong := func(r *xettest.Reconstruction) { r.Terms[0], r.Terms[1] = r.Terms[1], r.Terms[0] }
	for _, tc := range []struct {
		name  string
		fault xettest.Fault
		// falls says that plain HTTP has to help, and most is the largest
		// number of bytes that it may bring.
		falls bool
		most  int64
	}{
		{"stall once", xettest.Fault{Kind: xettest.Stall, Call: xettest.Content, At: 700_000}, false, 0},
		{"stall before headers once", xettest.Fault{Kind: xettest.StallHeaders, Call: xettest.Content}, false, 0},
		{"corrupt header once", xettest.Fault{Kind: xettest.Corrupt, Call: xettest.Content}, false, 0},
		{"server error once", xettest.Fault{Kind: xettest.Status, Code: 503, Call: xettest.Content}, false, 0},
		{"refused address once", xettest.Fault{Kind: xettest.Status, Code: 403, Call: xettest.Content}, false, 0},
		{"stall for ever", xettest.Fault{Kind: xettest.Stall, Skip: 5, Count: -1, Call: xettest.Content}, true, bigSize},
		{"server errors", xettest.Fault{Kind: xettest.Status, Code: 500, Skip: 5, Count: -1, Call: xettest.Content}, true, bigSize},
		{"addresses refused", xettest.Fault{Kind: xettest.Status, Code: 403, Skip: 5, Count: -1, Call: xettest.Content}, true, bigSize},
		{"bad chunks", xettest.Fault{Kind: xettest.Corrupt, Skip: 5, Count: -1, Call: xettest.Content}, true, bigSize},
		{"connections reset", xettest.Fault{Kind: xettest.Reset, Skip: 5, Count: -1, Call: xettest.Content}, true, bigSize},
		{"ranges ignored", xettest.Fault{Kind: xettest.IgnoreRange, Skip: 5, Count: -1, Call: xettest.Content}, true, bigSize},
		{"wrong ranges", xettest.Fault{Kind: xettest.WrongRange, Skip: 5, Count: -1, Call: xettest.Content}, true, bigSize},
		{"no answer to the query", xettest.Fault{Kind: xettest.StallHeaders, Count: -1}, true, bigSize},
		{"query fails", xettest.Fault{Kind: xettest.Status, Code: 503, Count: -1}, true, bigSize},
		{"query rate limited", xettest.Fault{Kind: xettest.Status, Code: 429, RetryAfter: time.Hour, Count: -1}, true, bigSize},
		{"query refused", xettest.Fault{Kind: xettest.Status, Code: 403, Count: -1}, true, bigSize},
		{"query unauthorized", xettest.Fault{Kind: xettest.Status, Code: 401, Count: -1}, true, bigSize},
		{"no such file", xettest.Fault{Kind: xettest.Status, Code: 404, Count: -1}, true, bigSize},
		{"garbage", xettest.Fault{Kind: xettest.Garbage, Count: -1, Call: xettest.V2}, true, bigSize},
		{"wrong length", xettest.Fault{Kind: xettest.WrongLength, Count: -1, Call: xettest.V2}, true, bigSize},
		{"terms in another order", xettest.Fault{Kind: xettest.Edit, Edit: wrong, Count: -1, Call: xettest.V2}, true, bigSize},
		{"flipped bit of content", xettest.Fault{Kind: xettest.Corrupt, At: 1000, Call: xettest.Content}, true, 5 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.Xet().ClearFaults()
			s.Xet().Inject(tc.fault)
			s.Forget()
			rec := &recorder{}
			c := newClient(t, s, func(o *hub.Options) {
				o.Progress = rec
				if tc.fault.Kind == xettest.Stall || tc.fault.Kind == xettest.StallHeaders {
					quickStall(o)
					// A busy machine may seem to stall over HTTP as well.
					tc.most *= 2
				}
			})
			p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, p, data)
			wantClean(t, c.CacheDir())
			if left := partials(t, c.CacheDir()); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if fell := rec.kinds(hub.FellBack); (len(fell) == 1) != tc.falls {
				t.Errorf("fell back %d times: %+v", len(fell), fell)
			}
			if n := s.BodyBytes(onCDN); n > tc.most || tc.falls && n == 0 {
				t.Errorf("%d bytes over HTTP, want at most %d", n, tc.most)
			}
		})
	}
}

// What came over Xet before it failed is not fetched again, and the next file
// does not try a store that has just failed.
func TestXetFailureKeepsWhatCame(t *testing.T) {
	s, data := bigXet(t, func(o *hubtest.Options) {
		o.Repos[0].Revisions["main"]["second.bin"] = noise(8, 3<<20)
	})
	s.Xet().Inject(xettest.Fault{Kind: xettest.Status, Code: 500, Skip: 5, Count: -1, Call: xettest.Content})
	// One transfer at a time: five xorbs of 2 MiB come, the sixth never.
	c := newClient(t, s, func(o *hub.Options) { o.MaxConns = 1 })
	p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, data)
	if n, limit := s.BodyBytes(onCDN), int64(bigSize-10<<20+2<<20); n > limit {
		t.Errorf("%d bytes over HTTP, want at most %d", n, limit)
	}
	before := len(s.Xet().Requests())
	if _, err := c.Download(t.Context(), bigRepo, "main", "second.bin"); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Xet().Requests()) - before; n != 0 {
		t.Errorf("%d requests to a store that has just failed", n)
	}
}

// The Hub's own faults: no token, no route to one, a token that is nonsense.
func TestXetWithoutToken(t *testing.T) {
	route := "/api/models/org/big/xet-read-token/*"
	s, data := bigXet(t)
	for name, f := range map[string]hubtest.Fault{
		"missing":   {Kind: hubtest.Status, Code: 404},
		"forbidden": {Kind: hubtest.Status, Code: 403},
		"failing":   {Kind: hubtest.Status, Code: 503},
		"no json":   {Kind: hubtest.Status, Code: 200, Body: "<html>"},
		"no store":  {Kind: hubtest.Status, Code: 200, Body: `{"accessToken":"x","exp":0,"casUrl":"ftp://host"}`},
		"no access": {Kind: hubtest.Status, Code: 200, Body: `{"accessToken":"a\nb","exp":0,"casUrl":"http://127.0.0.1:9"}`},
		"dead":      {Kind: hubtest.Status, Code: 200, Body: `{"accessToken":"x","exp":0,"casUrl":"http://127.0.0.1:9"}`},
		"redirect":  {Kind: hubtest.Redirect, Code: 302, Header: http.Header{"Location": {"http://127.0.0.1:9/token"}}},
		"stalled":   {Kind: hubtest.StallHeaders},
	} {
		t.Run(name, func(t *testing.T) {
			s.ClearFaults()
			f.Path, f.Count = route, -1
			s.Inject(f)
			rec := &recorder{}
			c := newClient(t, s, quickStall, func(o *hub.Options) { o.Progress = rec })
			p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, p, data)
			fell := rec.kinds(hub.FellBack)
			if len(fell) != 1 {
				t.Fatalf("fell back %d times", len(fell))
			}
			if strings.Contains(fell[0].Err.Error(), "a\nb") {
				t.Errorf("%q", fell[0].Err)
			}
		})
	}
}

// A download over Xet that is killed goes on where it was, over Xet or not.
func TestXetKilledDownloadResumes(t *testing.T) {
	for _, then := range []string{"xet", "http"} {
		t.Run(then, func(t *testing.T) {
			s, data := bigXet(t)
			s.Xet().Inject(xettest.Fault{Kind: xettest.Slow, Rate: 8 << 20, Count: -1, Call: xettest.Content})
			cache := filepath.Join(t.TempDir(), "hub")
			job := helperJob{Endpoint: s.URL(), Cache: cache, Repo: "org/big", File: "model.safetensors", MaxConns: 2}
			done := killAt(t, job, bigSize*6/10)
			if _, err := os.Lstat(filepath.Join(cache, "models--org--big", "blobs", sha(data))); err == nil {
				t.Fatal("a killed download left its final name")
			}
			s.Xet().ClearFaults()
			before := xetBytes(s)
			s.Forget()
			c := newClient(t, s, withCache(cache), func(o *hub.Options) { o.DisableXet = then == "http" })
			p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, p, data)
			wantClean(t, cache)
			got := xetBytes(s) - before
			if then == "http" {
				got = s.BodyBytes(onCDN)
			}
			// The two xorbs that were on their way are lost, and the parts at
			// their edges.
			if limit := bigSize - done + 2*(2+1)<<20; got > limit || got == 0 {
				t.Errorf("fetched %d bytes after a kill at %d of %d", got, done, bigSize)
			}
			t.Logf("killed at %d %%, then fetched %.1f %%", done*100/bigSize, float64(got)*100/bigSize)
		})
	}
}

// Each token stays at its origin: the Hub's at the Hub, the store's at the
// store, none with the content.
func TestXetTokensStay(t *testing.T) {
	s, data := bigXet(t, func(o *hubtest.Options) {
		o.Tokens, o.Repos[0].Private = []string{token}, true
	})
	c := newClient(t, s, withToken)
	p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, data)
	for _, r := range s.Requests() {
		if r.Auth != "Bearer "+token {
			t.Errorf("%s %s came with %q", r.Origin, r.Path, r.Auth)
		}
	}
	for _, r := range s.Xet().Requests() {
		if r.Token != (r.Call != xettest.Content) || r.Status >= 400 {
			t.Errorf("%+v", r) // a store refuses any token but its own
		}
	}
}

// A mirror passes on the Hub's own address for tokens: it is asked in the
// Hub's place, and the link to any other host is not followed.
func TestXetMirror(t *testing.T) {
	s, data := bigXet(t, func(o *hubtest.Options) { o.Tokens = []string{token} })
	for name, tc := range map[string]struct{ link, refresh string }{
		"link":          {link: `<https://hub.example/api/models/org/big/xet-read-token/COMMIT>; rel="xet-auth"`},
		"relative link": {link: `</api/models/org/big/xet-read-token/COMMIT>; rel="xet-auth"`},
		"header":        {refresh: "https://hub.example/api/models/org/big/xet-read-token/COMMIT"},
		"other host":    {link: `<http://127.0.0.1:9/steal>; rel="xet-auth"`},
		"none":          {},
	} {
		t.Run(name, func(t *testing.T) {
			s.ClearFaults()
			cm := s.Commit("", "org/big", "main")
			h := http.Header{"Link": {strings.ReplaceAll(tc.link, "COMMIT", cm)}}
			if tc.refresh != "" {
				h.Set("X-Xet-Refresh-Route", strings.ReplaceAll(tc.refresh, "COMMIT", cm))
			}
			s.Inject(hubtest.Fault{Kind: hubtest.SetHeader, Method: http.MethodHead, Header: h, Count: -1})
			c := newClient(t, s, withToken)
			c.SetPublicHubForTest("https://hub.example")
			m, err := c.Metadata(t.Context(), bigRepo, "main", "model.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			want := s.URL() + "/api/models/org/big/xet-read-token/" + cm
			if name == "other host" || name == "none" {
				want = ""
			}
			if m.XetAuth != want || len(m.XetHash) != 64 {
				t.Errorf("%+v, want %s", m, want)
			}
			p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, p, data)
			if n := s.Count(onCDN); n != 0 {
				t.Errorf("%d requests over HTTP", n)
			}
		})
	}
}

// Content that has the Xet hash but not the SHA-256 that the Hub states is
// not the file, and HTTP has the last word.
func TestXetOfAnotherFile(t *testing.T) {
	s, data := bigXet(t)
	other := s.Xet().AddBytes(noise(9, bigSize))
	s.Inject(hubtest.Fault{Kind: hubtest.SetHeader, Method: http.MethodHead, Header: http.Header{"X-Xet-Hash": {other.Hash.String()}}})
	c := newClient(t, s)
	p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, data)
	wantClean(t, c.CacheDir())
	if n := s.BodyBytes(onCDN); n != bigSize {
		t.Errorf("%d bytes over HTTP", n)
	}
}

func TestXetCancel(t *testing.T) {
	s, data := bigXet(t)
	s.Xet().Inject(xettest.Fault{Kind: xettest.Slow, Rate: 2 << 20, Count: -1, Call: xettest.Content})
	ctx, cancel := context.WithCancel(t.Context())
	c := newClient(t, s, func(o *hub.Options) {
		o.Progress = hub.ObserverFunc(func(e hub.Event) {
			if e.Done > bigSize/4 {
				cancel()
			}
		})
	})
	if _, err := c.Download(ctx, bigRepo, "main", "model.safetensors"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if n := s.BodyBytes(onCDN); n != 0 {
		t.Errorf("a cancelled download fetched %d bytes over HTTP", n)
	}
	s.Xet().ClearFaults()
	p, err := newClient(t, s, withCache(c.CacheDir())).Download(t.Context(), bigRepo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, data)
}

// Transfers of both roads share the client's connections.
func TestXetConnectionBudget(t *testing.T) {
	s, _ := bigXet(t)
	c := newClient(t, s, func(o *hub.Options) { o.MaxConns = 3 })
	count := c.CountTransfersForTest()
	if _, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors"); err != nil {
		t.Fatal(err)
	}
	if n := count(); n > 3 || n == 0 {
		t.Errorf("%d transfers at once, at most 3 are allowed", n)
	}
}
