package hub_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"pgregory.net/rapid"
)

// witness is a server that records whether a token reached it.
type witness struct {
	*httptest.Server
	mu    sync.Mutex
	auths []string
	hits  int
}

func newWitness(t *testing.T, h http.HandlerFunc) *witness {
	w := &witness{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.hits++
		if a := r.Header.Get("Authorization"); a != "" {
			w.auths = append(w.auths, a)
		}
		w.mu.Unlock()
		h(rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *witness) state() (hits int, auths []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hits, append([]string(nil), w.auths...)
}

// TestTokenStaysAtItsOrigin sends redirects of every kind and checks that the
// token arrives at the endpoint and nowhere else, not even after a detour.
func TestTokenStaysAtItsOrigin(t *testing.T) {
	s := newHub(t, hubtest.Options{Repos: errorRepos(), Tokens: []string{token}})
	data := demoFiles()["config.json"]
	private := hub.ModelRepo("org/private")
	for _, code := range []int{301, 302, 303, 307, 308} {
		other := newWitness(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(data) })
		s.ClearFaults()
		s.Inject(hubtest.Fault{Kind: hubtest.Redirect, Code: code, Method: "GET", Path: "config.json", Count: -1, Header: http.Header{"Location": {other.URL + "/elsewhere?x=1"}}})
		s.Forget()
		c := newClient(t, s, withToken)
		p, err := c.Download(t.Context(), private, "main", "config.json")
		if err != nil {
			t.Fatalf("%d: %v", code, err)
		}
		wantFile(t, p, data)
		if hits, auths := other.state(); hits == 0 || len(auths) != 0 {
			t.Errorf("%d: %d requests, tokens %q", code, hits, auths)
		}
		if s.Count(func(r hubtest.Request) bool { return r.Auth == "Bearer "+token }) == 0 {
			t.Error("the endpoint got no token")
		}
		// A HEAD that leaves the Hub is not followed at all.
		s.ClearFaults()
		s.Inject(hubtest.Fault{Kind: hubtest.Redirect, Code: code, Method: "HEAD", Path: "config.json", Count: -1, Header: http.Header{"Location": {other.URL + "/head"}}})
		before, _ := other.state()
		_, err = c.Metadata(t.Context(), private, "main", "config.json")
		wantErr(t, err, hub.ErrMetadata)
		if after, _ := other.state(); after != before {
			t.Errorf("%d: a HEAD was followed off the Hub", code)
		}
	}
}

func TestTokenDoesNotComeBack(t *testing.T) {
	s := newHub(t, hubtest.Options{Repos: errorRepos(), Tokens: []string{token}})
	// Endpoint → other origin → endpoint: the last hop is without a token, so
	// the private file is refused.
	back := s.URL() + "/org/private/resolve/main/README.md"
	other := newWitness(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, back, http.StatusFound) })
	s.Inject(hubtest.Fault{Kind: hubtest.Redirect, Code: 302, Method: "GET", Path: "config.json", Count: -1, Header: http.Header{"Location": {other.URL}}})
	_, err := newClient(t, s, withToken).Download(t.Context(), hub.ModelRepo("org/private"), "main", "config.json")
	wantErr(t, err, hub.ErrRepoNotFound)
	if n := s.Count(func(r hubtest.Request) bool { return strings.HasSuffix(r.Path, "README.md") && r.Auth != "" }); n != 0 {
		t.Error("the token was added again")
	}
}

func TestSameOriginRedirectKeepsToken(t *testing.T) {
	// A renamed private repository answers with a redirect on the same host.
	s := newHub(t, hubtest.Options{Repos: errorRepos(), Tokens: []string{token}})
	loc := http.Header{"Location": {"/org/private/resolve/main/config.json"}}
	s.Inject(hubtest.Fault{Kind: hubtest.Redirect, Code: 307, Path: "/org/demo/resolve/main/config.json", Count: -1, Header: loc})
	s.Inject(hubtest.Fault{Kind: hubtest.Redirect, Code: 307, Path: "/org/demo/resolve/" + s.Commit("", "org/demo", "main") + "/config.json", Count: -1, Header: loc})
	if _, err := newClient(t, s, withToken).Metadata(t.Context(), demo, "main", "config.json"); err != nil {
		t.Fatal(err)
	}
}

func TestRedirectLimits(t *testing.T) {
	for name, loc := range map[string]string{
		"loop":      "/org/demo/resolve/main/config.json",
		"file":      "file:///etc/passwd",
		"user info": "http://user:pass@127.0.0.1:1/x",
		"no url":    "http://[::1",
		"none":      "",
	} {
		t.Run(name, func(t *testing.T) {
			s := newHub(t, hubtest.Options{})
			s.Inject(hubtest.Fault{Kind: hubtest.Redirect, Code: 302, Path: "config.json", Count: -1, Header: http.Header{"Location": {loc}}})
			_, err := newClient(t, s).Metadata(t.Context(), demo, "main", "config.json")
			wantErr(t, err, hub.ErrRedirect)
			if strings.Contains(err.Error(), "pass") {
				t.Errorf("%q", err)
			}
		})
	}
	t.Run("chain", func(t *testing.T) {
		n := 0
		var w *witness
		w = newWitness(t, func(rw http.ResponseWriter, r *http.Request) {
			n++
			http.Redirect(rw, r, w.URL+"/"+strings.Repeat("x", n), http.StatusFound)
		})
		c, err := hub.New(hub.Options{Endpoint: w.URL, CacheDir: t.TempDir(), Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Metadata(t.Context(), demo, "main", "config.json")
		wantErr(t, err, hub.ErrRedirect, "10 redirects")
	})
}

func TestHTTPSIsNotLeft(t *testing.T) {
	plain := newWitness(t, func(w http.ResponseWriter, r *http.Request) {})
	ts := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL, http.StatusFound)
	}))
	defer ts.Close()
	pool := ts.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	c, err := hub.New(hub.Options{Endpoint: ts.URL, CacheDir: t.TempDir(), RootCAs: pool, Token: token, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Metadata(t.Context(), demo, "main", "config.json")
	wantErr(t, err, hub.ErrRedirect, "https to http")
	if hits, _ := plain.state(); hits != 0 {
		t.Error("the redirect was followed")
	}
}

// A mirror passes on answers in which the Hub names itself. Such addresses are
// asked at the mirror; a mirror that sends the client to the Hub itself is
// followed, without the mirror's token.
func TestMirror(t *testing.T) {
	origin := newHub(t, hubtest.Options{PageSize: 2})
	target, err := url.Parse(origin.URL())
	if err != nil {
		t.Fatal(err)
	}
	var heads atomic.Int64
	mirror := newWitness(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			heads.Add(1)
			http.Redirect(w, r, target.String()+r.URL.RequestURI(), http.StatusPermanentRedirect)
			return
		}
		out, err := http.NewRequest(r.Method, target.String()+r.URL.RequestURI(), nil)
		if err != nil {
			t.Error(err)
			return
		}
		out.Header.Set("Accept-Encoding", "identity")
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = copyBody(w, resp.Body)
	})
	c, err := hub.New(hub.Options{Endpoint: mirror.URL, CacheDir: filepath.Join(t.TempDir(), "hub"), Token: token, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	c.SetPublicHubForTest(origin.URL())
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil || len(snap.Files) != len(demoFiles()) {
		t.Fatalf("%+v, %v", snap, err)
	}
	if _, err := c.Metadata(t.Context(), demo, "main", "config.json"); err != nil {
		t.Fatal(err)
	}
	if heads.Load() == 0 {
		t.Error("no HEAD went to the mirror")
	}
	if n := origin.Count(func(r hubtest.Request) bool { return r.Auth != "" }); n != 0 {
		t.Errorf("the mirror's token reached the Hub %d times", n)
	}
}

// TestTokenProperty sends clients through random chains of redirects between
// the endpoint and other origins. The token may be seen by the endpoint only,
// and not any more once the chain has left it.
func TestTokenProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(rt, "hops")
		hosts := rapid.SliceOfN(rapid.IntRange(0, 2), n, n).Draw(rt, "hosts") // 0: endpoint
		codes := rapid.SliceOfN(rapid.SampledFrom([]int{301, 302, 303, 307, 308}), n, n).Draw(rt, "codes")
		var servers [3]*httptest.Server
		var mu sync.Mutex
		left := false
		for i := range servers {
			servers[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if i != 0 {
					left = true
				}
				if auth := r.Header.Get("Authorization"); (auth != "") != !left {
					rt.Errorf("origin %d, left %v: Authorization %q", i, left, auth)
				}
				step, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
				if err != nil {
					step = -1 // the resolve path itself
				}
				if step++; step < n {
					http.Redirect(w, r, servers[hosts[step]].URL+"/"+strconv.Itoa(step), codes[step])
					return
				}
				w.WriteHeader(http.StatusTeapot)
			}))
			defer servers[i].Close()
		}
		c, err := hub.New(hub.Options{Endpoint: servers[0].URL, CacheDir: "unused", Token: token, Retries: -1})
		if err != nil {
			rt.Fatal(err)
		}
		defer c.CloseIdle()
		if err := c.GetForTest(context.Background(), servers[0].URL+"/start"); err == nil {
			rt.Error("no error from the last answer")
		}
	})
}

// Requests go through the proxy; a proxy that cannot be reached is reported
// and not covered by the cache.
func TestProxy(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	proxy := newWitness(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "hub.example" && !strings.HasPrefix(r.URL.String(), s.CDNURL()) {
			t.Errorf("proxied %s", r.URL)
		}
		to := *r.URL
		if r.URL.Host == "hub.example" {
			to.Host = strings.TrimPrefix(s.URL(), "http://")
		}
		out, err := http.NewRequest(r.Method, to.String(), nil)
		if err != nil {
			t.Error(err)
			return
		}
		out.Header = r.Header
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = copyBody(w, resp.Body)
	})
	cache := filepath.Join(t.TempDir(), "hub")
	with := func(proxy string) *hub.Client {
		u, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		c, err := hub.New(hub.Options{Endpoint: "http://hub.example", CacheDir: cache, Retries: -1, Proxy: http.ProxyURL(u)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if _, err := with(proxy.URL).Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	if hits, _ := proxy.state(); hits == 0 {
		t.Error("nothing went through the proxy")
	}
	proxy.Close()
	_, err := with(proxy.URL).Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrNetwork, "proxy")
	_, err = with(proxy.URL).Download(t.Context(), demo, "main", "config.json")
	wantErr(t, err, hub.ErrNetwork, "proxy")
}
