package planner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/internal/headers"
	"github.com/hfcompress/compress/loader"
)

// checkpoint reads a model of testdata/models as a source of headers: the file
// is opened by the loader, and any read of a value would fail.
func checkpoint(t testing.TB, name string) Checkpoint {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "models", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := headers.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return opened(t, m)
}

func opened(t testing.TB, m *headers.Model) Checkpoint {
	t.Helper()
	fsys, err := m.FS()
	if err != nil {
		t.Fatal(err)
	}
	c, err := loader.OpenFS(fsys, m.File, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	out, err := FromLoader(c, m.Config)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// plan makes a plan from the declarations of this package alone.
func plan(t testing.TB, name string, o Options) Plan {
	t.Helper()
	o.declared = true
	r, err := Make([]Checkpoint{checkpoint(t, name)}, o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r.Checkpoints[0]
}
