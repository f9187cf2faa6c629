package archive_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/pack/archive"
)

// A stream gets the same bytes as a file, and both count what they leave out.
func TestPackTo(t *testing.T) {
	files := sample(rand.New(rand.NewPCG(111, 1)))
	src := writeTree(t, files)
	for _, dir := range []string{"empty", "nested/empty"} {
		if err := os.MkdirAll(filepath.Join(src, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "x.hfa")
	want, err := archive.Pack(t.Context(), path, []string{src}, archive.PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	got, err := archive.PackTo(t.Context(), &out, []string{src}, archive.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got != want || got.EmptyDirs != 2 || got.Files != len(files) {
		t.Errorf("%+v, as a file %+v", got, want)
	}
	if !bytes.Equal(out.Bytes(), packed) {
		t.Error("differs from the file")
	}
	wantFiles(t, open(t, out.Bytes(), archive.ReadOptions{}), files)
	if _, err := archive.PackTo(t.Context(), &out, []string{filepath.Join(src, "empty")}, archive.Options{}); err == nil {
		t.Error("an archive of nothing")
	}
	if _, err := archive.PackTo(t.Context(), &failing{room: 100}, []string{src}, archive.Options{}); err == nil {
		t.Error("no error where there was no room")
	}
}

// failing is a stream that breaks.
type failing struct{ room int }

func (f *failing) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, os.ErrClosed
	}
	return len(b), nil
}

// A base that nothing is taken from is not needed to read.
func TestUselessBase(t *testing.T) {
	rng := rand.New(rand.NewPCG(112, 1))
	base := open(t, packTree(t, map[string][]byte{"a": random(rng, 5000)}, archive.Options{}), archive.ReadOptions{})
	other := map[string][]byte{"b": random(rng, 5000)}
	r := open(t, packTree(t, other, archive.Options{Base: base}), archive.ReadOptions{})
	if d, ok := r.Base(); ok {
		t.Errorf("the base %v is recorded", d)
	}
	wantFiles(t, r, other)
	same := open(t, packTree(t, map[string][]byte{"a": random(rand.New(rand.NewPCG(112, 1)), 5000)}, archive.Options{Base: base}), archive.ReadOptions{})
	if d, ok := same.Base(); !ok || d != base.Digest() {
		t.Error("the base is not recorded")
	}
}
