// Package conformance compares this project's Xet client with an independent
// implementation, github.com/wzshiming/xet: each downloads what the other
// serves, and their hashes agree. Run it with
//
//	go -C hub/xet/conformance test ./...
package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	ours "github.com/hfcompress/compress/hub/xet"
	"github.com/hfcompress/compress/hub/xet/xettest"
	"github.com/wzshiming/xet/client"
	"github.com/wzshiming/xet/server"
	"github.com/wzshiming/xet/storage"
)

func random(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 5))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// floats are bfloat16-like: half of each pair of bytes hardly varies, which is
// what byte grouping is for.
func floats(n int, seed uint64) []byte {
	b := random(n, seed)
	for i := 3; i < n; i += 4 {
		b[i], b[i-2] = 0x3f, b[i-2]&3
	}
	return b
}

func contents() map[string][]byte {
	r := random(2<<20, 1)
	return map[string][]byte{
		"hello":    []byte("Hello World!"),
		"zeros":    make([]byte, 1_000_000),
		"random":   random(20<<20, 2),
		"floats":   floats(10<<20, 3),
		"text":     bytes.Repeat([]byte("the same words again; "), 200_000),
		"repeated": slices.Concat(r, random(700_000, 4), r, r[:1_500_000], make([]byte, 600_000), r),
	}
}

// Their server and uploader, our downloader; both versions of the call.
func TestDownloadFromThem(t *testing.T) {
	srv := httptest.NewServer(nil)
	defer srv.Close()
	// The base address goes into the addresses of content.
	store, err := storage.NewFileStorage(storage.WithBasePath(t.TempDir()), storage.WithBaseURL(srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	srv.Config.Handler = server.NewHandler(server.WithStorage(store))
	up, err := client.NewClient(client.WithBaseURL(srv.URL), client.WithNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range contents() {
		theirs, err := up.UploadFile(context.Background(), bytes.NewReader(data))
		if err != nil {
			t.Fatal(name, err)
		}
		hash, _, err := ours.HashFile(bytes.NewReader(data))
		if err != nil || hash.String() != theirs.String() {
			t.Errorf("%s: our hash is %v, theirs %v (%v)", name, hash, theirs, err)
			continue
		}
		tokens := ours.NewTokens(func(context.Context, bool) (ours.Token, error) { return ours.Token{CAS: srv.URL}, nil })
		for _, window := range []int64{0, 1 << 20} {
			out := &memory{data: make([]byte, len(data))}
			c := ours.New(ours.Options{Window: window})
			res, err := c.Fetch(context.Background(), ours.Request{Hash: hash, Size: int64(len(data)), Tokens: tokens, Out: out})
			if err != nil || !res.Verified || !bytes.Equal(out.data, data) {
				t.Errorf("%s, window %d: %+v, %v", name, window, res, err)
			}
			// A part of the file, as a resumed download asks for it.
			part := ours.Range{Start: int64(len(data)) / 3, End: int64(len(data)) * 2 / 3}
			out = &memory{data: make([]byte, len(data))}
			_, err = c.Fetch(context.Background(), ours.Request{Hash: hash, Size: int64(len(data)), Tokens: tokens, Out: out, Missing: []ours.Range{part}})
			if err != nil || !bytes.Equal(out.data[part.Start:part.End], data[part.Start:part.End]) || bytes.ContainsFunc(out.data[:part.Start], func(r rune) bool { return r != 0 }) {
				t.Errorf("%s, window %d, part: %v", name, window, err)
			}
		}
	}
}

// Our test store, their downloader. Chunks are stored as a producer would:
// their decoder has no room for a frame that is longer than its content.
func TestTheyDownloadFromUs(t *testing.T) {
	for _, opts := range []xettest.Options{{}, {MaxXorb: 1 << 20, WholeTerms: true}} {
		s, err := xettest.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		token := s.Issue()
		down, err := client.NewClient(client.WithBaseURL(token.CAS), client.WithToken(token.Access), client.WithNamespace("default"), client.WithCacheDir(t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range contents() {
			f := s.AddBytes(data)
			var theirs [32]byte = f.Hash
			for call, get := range map[string]func(io.WriteSeeker) error{
				"v1": func(w io.WriteSeeker) error { return down.DownloadFileV1(context.Background(), theirs, w) },
				"v2": func(w io.WriteSeeker) error { return down.DownloadFileV2(context.Background(), theirs, w) },
			} {
				path := filepath.Join(t.TempDir(), "out")
				out, err := os.Create(path)
				if err != nil {
					t.Fatal(err)
				}
				err = get(out)
				_ = out.Close()
				got, rerr := os.ReadFile(path)
				if err := errors.Join(err, rerr); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s by %s: %d of %d bytes, %v", name, call, len(got), len(data), err)
				}
			}
		}
		for _, v := range s.Violations() {
			t.Log("their client:", v)
		}
	}
}

type memory struct{ data []byte }

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > int64(len(m.data)) {
		return 0, fmt.Errorf("write of %d at %d in %d", len(p), off, len(m.data))
	}
	return copy(m.data[off:], p), nil
}
