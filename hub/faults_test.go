package hub_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

const bigSize = 18 << 20

var bigRepo = hub.ModelRepo("org/big")

// big is one LFS file that is fetched in several ranges.
func big(t testing.TB) (*hubtest.Server, []byte) {
	data := bigData()
	s := newHub(t, hubtest.Options{Repos: []hubtest.Repo{{ID: "org/big", Revisions: map[string]hubtest.Files{"main": {"model.safetensors": data}}}}})
	return s, data
}

var bigData = sync.OnceValue(func() []byte { return noise(7, bigSize) })

func quickStall(o *hub.Options) { o.StallTimeout = 300 * time.Millisecond }

// TestFaultsHeal injects faults that a client must survive: the file arrives,
// verified, whatever happened.
func TestFaultsHeal(t *testing.T) {
	mid := int64(bigSize / 3)
	for _, tc := range []struct {
		name   string
		faults []hubtest.Fault
		// extra bounds the bytes fetched beyond the file's size.
		extra int64
	}{
		{"truncate", []hubtest.Fault{{Kind: hubtest.Truncate, At: 700_000, Count: 3}}, 1 << 20},
		{"truncate at 0", []hubtest.Fault{{Kind: hubtest.Truncate, Count: 2}}, 1 << 20},
		{"clean truncation", []hubtest.Fault{{Kind: hubtest.TruncateClean, At: 1_500_000, Count: 2}}, 1 << 20},
		{"reset", []hubtest.Fault{{Kind: hubtest.Reset, At: 2_000_000, Count: 3}}, 64 << 20},
		{"reset before headers", []hubtest.Fault{{Kind: hubtest.Reset, Origin: "cdn", Count: 2}}, 1 << 20},
		{"stall", []hubtest.Fault{{Kind: hubtest.Stall, At: 900_000, Count: 2}}, 1 << 20},
		{"stall at start of body", []hubtest.Fault{{Kind: hubtest.Stall, Count: 2}}, 1 << 20},
		{"stalled headers", []hubtest.Fault{{Kind: hubtest.StallHeaders, Origin: "cdn", Count: 2}}, 1 << 20},
		{"stall while resuming", []hubtest.Fault{
			{Kind: hubtest.Truncate, At: 700_000},
			{Kind: hubtest.StallHeaders, Origin: "cdn", Count: 3}}, 1 << 20},
		{"expired address", []hubtest.Fault{{Kind: hubtest.Expired, Count: 2, Skip: 1}}, 1 << 20},
		{"wrong range", []hubtest.Fault{{Kind: hubtest.WrongRange, Count: 2}}, 64 << 20},
		{"ignored range", []hubtest.Fault{{Kind: hubtest.IgnoreRange, Origin: "cdn", Count: -1}}, 3 * bigSize},
		{"range refused", []hubtest.Fault{{Kind: hubtest.Status, Code: 416, Origin: "cdn", Count: 2}}, 1 << 20},
		{"corrupt once", []hubtest.Fault{{Kind: hubtest.Corrupt, At: mid, Count: 1}}, 2 * bigSize},
		{"gzip once", []hubtest.Fault{{Kind: hubtest.Gzip, Origin: "cdn"}}, 64 << 20},
		{"page once", []hubtest.Fault{{Kind: hubtest.HTML, Origin: "cdn"}}, 1 << 20},
		{"pointer once", []hubtest.Fault{{Kind: hubtest.Pointer, Origin: "cdn"}}, 1 << 20},
		{"server errors", []hubtest.Fault{{Kind: hubtest.Status, Code: 503, Origin: "cdn", Count: 4}}, 1 << 20},
		{"no length", []hubtest.Fault{{Kind: hubtest.NoLength, Count: -1}}, 1 << 20},
	} {
		for _, conns := range []int{1, 4} {
			name := tc.name + "/parallel"
			if conns == 1 {
				name = tc.name + "/single"
			}
			t.Run(name, func(t *testing.T) {
				s, data := big(t)
				for _, f := range tc.faults {
					s.Inject(f)
				}
				// A corrupted byte that only one of several requests covers
				// must strike the one that does.
				c := newClient(t, s, quickStall, func(o *hub.Options) { o.ConnsPerFile = conns })
				p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
				if err != nil {
					t.Fatal(err)
				}
				wantFile(t, p, data)
				wantClean(t, c.CacheDir())
				if left := partials(t, c.CacheDir()); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
				if n := s.BodyBytes(onCDN); n > bigSize+tc.extra+8<<20 {
					t.Errorf("%d bytes sent for a file of %d", n, bigSize)
				}
			})
		}
	}
}

// TestFaultsThatStay are answers that never become the file. Each gives its
// typed error and leaves nothing under a final name.
func TestFaultsThatStay(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault hubtest.Fault
		kind  error
		words []string
	}{
		{"corrupt", hubtest.Fault{Kind: hubtest.Corrupt, At: 1234}, hub.ErrChecksum, []string{"sha256", "expected"}},
		{"lying range", hubtest.Fault{Kind: hubtest.LyingRange, Origin: "cdn"}, hub.ErrChecksum, nil},
		{"pointer", hubtest.Fault{Kind: hubtest.Pointer}, hub.ErrContent, []string{"LFS pointer"}},
		{"page", hubtest.Fault{Kind: hubtest.HTML, Method: "GET"}, hub.ErrContent, []string{"HTML page"}},
		{"gzip", hubtest.Fault{Kind: hubtest.Gzip, Origin: "cdn"}, hub.ErrContent, []string{"encoded"}},
		{"longer", hubtest.Fault{Kind: hubtest.Longer, Origin: "cdn"}, hub.ErrSize, []string{"expected"}},
		{"signed error body", hubtest.Fault{Kind: hubtest.Status, Code: 200, Origin: "cdn", Body: `<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`}, hub.ErrSize, []string{"expected 300000"}},
		{"forbidden", hubtest.Fault{Kind: hubtest.Expired, Origin: "cdn"}, hub.ErrForbidden, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newHub(t, hubtest.Options{})
			tc.fault.Path, tc.fault.Count = "model.safetensors", -1
			s.Inject(tc.fault)
			c := newClient(t, s)
			_, err := c.Download(t.Context(), demo, "main", "model.safetensors")
			wantErr(t, err, tc.kind, append(tc.words, "model.safetensors")...)
			blob := filepath.Join(c.CacheDir(), "models--org--demo", "blobs", sha(demoFiles()["model.safetensors"]))
			if _, err := os.Stat(blob); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("blob exists: %v", err)
			}
			wantClean(t, c.CacheDir())
			// The same cache completes as soon as the server is well.
			s.ClearFaults()
			p, err := c.Download(t.Context(), demo, "main", "model.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, p, demoFiles()["model.safetensors"])
		})
	}
}

// A server that sends a little and stalls each time is given up, and what it
// sent is kept for the next run.
func TestDribblingServerIsGivenUp(t *testing.T) {
	s, data := big(t)
	s.Inject(hubtest.Fault{Kind: hubtest.Stall, At: 3 << 20, Origin: "cdn"})
	s.Inject(hubtest.Fault{Kind: hubtest.Stall, At: 100, Origin: "cdn", Count: -1})
	c := newClient(t, s, singleStream, func(o *hub.Options) { o.StallTimeout = 100 * time.Millisecond })
	_, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
	wantErr(t, err, hub.ErrNetwork, "no byte arrived")
	if n := s.Count(onCDN); n > 10 {
		t.Errorf("%d requests", n)
	}
	s.ClearFaults()
	s.Forget()
	p, err := newClient(t, s, withCache(c.CacheDir())).Download(t.Context(), bigRepo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, data)
	if n := s.BodyBytes(onCDN); n > bigSize-2<<20 {
		t.Errorf("%d bytes fetched, the first parts were not kept", n)
	}
}

// A plain file has a git blob id in place of a SHA-256.
func TestPlainFileIsVerified(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	s.Inject(hubtest.Fault{Kind: hubtest.Corrupt, Path: "config.json", At: 3, Method: "GET", Count: -1})
	c := newClient(t, s)
	_, err := c.Download(t.Context(), demo, "main", "config.json")
	wantErr(t, err, hub.ErrChecksum, "git-sha1")
	var ce *hub.ChecksumError
	if !errors.As(err, &ce) || ce.Expected != gitOID(demoFiles()["config.json"]) || ce.Expected == ce.Actual {
		t.Errorf("%+v", ce)
	}
	if n := s.Count(func(r hubtest.Request) bool { return r.Method == "GET" && r.File == "config.json" }); n != 2 {
		t.Errorf("%d downloads, want a second try and no third", n)
	}
}

func TestDiskSpace(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	s.Inject(hubtest.Fault{Kind: hubtest.SetHeader, Path: "model.safetensors", Method: "HEAD", Header: map[string][]string{"X-Linked-Size": {"4611686018427387904"}}})
	c := newClient(t, s)
	_, err := c.Download(t.Context(), demo, "main", "model.safetensors")
	wantErr(t, err, hub.ErrDiskSpace, "needed")
	var de *hub.DiskSpaceError
	if !errors.As(err, &de) || de.Need != 1<<62 || de.Free <= 0 {
		t.Errorf("%+v", de)
	}
}

func TestMetadataFaults(t *testing.T) {
	drop := func(names ...string) map[string][]string {
		h := map[string][]string{}
		for _, n := range names {
			h[n] = nil
		}
		return h
	}
	for _, tc := range []struct {
		name, word string
		f          hubtest.Fault
	}{
		{"no commit", "X-Repo-Commit", hubtest.Fault{Kind: hubtest.DropHeader, Header: drop("X-Repo-Commit")}},
		{"no linked etag", "X-Linked-Etag", hubtest.Fault{Kind: hubtest.DropHeader, Header: drop("X-Linked-Etag")}},
		{"no linked size", "X-Linked-Size", hubtest.Fault{Kind: hubtest.DropHeader, Header: drop("X-Linked-Size")}},
		{"etag is a path", "X-Linked-Etag", hubtest.Fault{Kind: hubtest.SetHeader, Header: map[string][]string{"X-Linked-Etag": {`"../../x"`}}}},
		{"negative size", "X-Linked-Size", hubtest.Fault{Kind: hubtest.SetHeader, Header: map[string][]string{"X-Linked-Size": {"-1"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newHub(t, hubtest.Options{})
			tc.f.Count, tc.f.Path = -1, "model.safetensors"
			s.Inject(tc.f)
			_, err := newClient(t, s).Metadata(t.Context(), demo, "main", "model.safetensors")
			wantErr(t, err, hub.ErrMetadata, tc.word, "model.safetensors")
		})
	}
}
