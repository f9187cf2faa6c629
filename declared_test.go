package compress_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures/declared"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/pack"
)

const uceFile = "architectures/declared/testdata/uce.json"

// uceFiles makes a repository of the weights of the example of architecture
// files. It has no config.json.
func uceFiles(t testing.TB) hubtest.Files {
	t.Helper()
	c, err := loader.Open("architectures/declared/testdata/uce.safetensors", loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var entries []loader.Entry
	for _, name := range c.Names() {
		if strings.Contains(name, "/") { // the calls of the golden test
			continue
		}
		x, err := c.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, loader.Entry{Name: name, Tensor: x})
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := loader.WriteFile(path, entries, loader.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return hubtest.Files{"model.safetensors": read(t, path), "README.md": []byte("# tower\n")}
}

func uceDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range uceFiles(t) {
		write(t, filepath.Join(dir, name), data)
	}
	return dir
}

// A repository without a configuration goes the whole road with an architecture
// file, and its package needs nothing else.
func TestArchFileRoad(t *testing.T) {
	ctx := context.Background()
	server, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{{ID: "org/tower", Revisions: map[string]hubtest.Files{"main": uceFiles(t)}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	o := hubOptions(t, server, t.TempDir())
	o.ArchFile, o.Out = uceFile, filepath.Join(t.TempDir(), "p")
	o.Storage.KeepEqual = true // norms at their initial values are equal
	r, err := compress.HuggingFace(ctx, "org/tower", o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if v := server.Violations(); len(v) > 0 {
		t.Errorf("the client broke the Hub's rules: %s", strings.Join(v, "; "))
	}
	rep := r.Report
	if r.Status != finitepass.Compressed || !rep.Gate.Bitwise || !rep.Reload.Bitwise || rep.Architecture != declared.Architecture {
		t.Fatalf("status %s (%s), gate %+v", r.Status, rep.Blocks[0].Reason, rep.Gate)
	}
	// An embedding of 40 × 64, a matrix of 16 × 64 and three vectors of 16 go; a
	// table of 40 × 16 comes.
	if got, want := rep.Values.Saved(), int64(40*64+16*64+3*16-40*16); got != want {
		t.Errorf("%d values saved, expected %d", got, want)
	}
	if want := []string{"binary_decoder.0.weight", "pos_encoder.pe"}; !slices.Equal(rep.Load.Ignored, want) || rep.Load.IgnoredBytes != 4*(9+8*16) {
		t.Errorf("ignored %v of %d bytes", rep.Load.Ignored, rep.Load.IgnoredBytes)
	}

	loaded, err := compress.Load(ctx, o.Out, compress.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	sameOutputs(t, r.Model, loaded)
	text, err := loaded.File(pack.ArchName)
	if err != nil || string(text) != string(read(t, uceFile)) {
		t.Errorf("the package's architecture file: %v", err)
	}
	m := loaded.Manifest()
	pinned := slices.ContainsFunc(m.Files, func(f pack.File) bool { return f == *rep.ArchFile })
	if !pinned || slices.ContainsFunc(m.Files, func(f pack.File) bool { return f.Name == pack.ConfigName }) {
		t.Errorf("files of the manifest: %+v, the report has %+v", m.Files, rep.ArchFile)
	}
	for _, x := range m.Tensors {
		if slices.Contains(rep.Load.Ignored, x.Name) || x.Name == "pe_embedding.weight" {
			t.Errorf("the package stores %s", x.Name)
		}
	}
	// The source is built from the package's own file.
	v, err := compress.Verify(ctx, o.Out, compress.VerifyOptions{AgainstDir: uceDir(t)})
	if err != nil || !v.Verified || !v.Against.Bitwise {
		t.Errorf("verify: %+v, %v", v, err)
	}
	i, err := compress.InspectHub(ctx, "org/tower", o)
	if err != nil || i.Problem != "" || len(i.Plans) != 1 || i.Plans[0].ValuesSaved != rep.Values.Saved() {
		t.Errorf("inspect: %+v, %v", i, err)
	}

	// Another file under the package's name is noticed.
	write(t, filepath.Join(o.Out, pack.ArchName), []byte(strings.Replace(string(text), `"by": 4`, `"by": 5`, 1)))
	if _, err := compress.Load(ctx, o.Out, compress.LoadOptions{}); !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), pack.ArchName) {
		t.Errorf("a changed architecture file: %v", err)
	}
}

// Tensors that the file does not bind are refused, left out or kept, as it says.
func TestArchFileUnbound(t *testing.T) {
	ctx, dir := context.Background(), uceDir(t)
	var doc map[string]any
	if err := json.Unmarshal(read(t, uceFile), &doc); err != nil {
		t.Fatal(err)
	}
	file := func(change func()) string {
		t.Helper()
		change()
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "arch.json")
		write(t, name, text)
		return name
	}
	none := file(func() { delete(doc, "ignore") })
	_, err := compress.Local(ctx, dir, quick(compress.Options{ArchFile: none}))
	var strict *loader.StrictError
	if !errors.As(err, &strict) || len(strict.Problems) != 2 || strict.Problems[0].Kind != loader.Unexpected {
		t.Errorf("without patterns: %v", err)
	}
	typo := file(func() { doc["ignore"] = []string{"binary_decoder.*", "pos_encoder.pe", "poss_encoder"} })
	if _, err = compress.Local(ctx, dir, quick(compress.Options{ArchFile: typo})); !errors.Is(err, declared.ErrPattern) || !strings.Contains(err.Error(), "ignore[2]") {
		t.Errorf("a pattern that matches nothing: %v", err)
	}
	kept := file(func() { doc["ignore"], doc["keep"] = []string{"pos_encoder.*"}, []string{"binary_*"} })
	out := filepath.Join(t.TempDir(), "p")
	r, err := compress.Local(ctx, dir, quick(compress.Options{ArchFile: kept, Out: out}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := pack.Open(out, pack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	x, err := p.Tensor("binary_decoder.0.weight")
	if err != nil || x.Len() != 9 {
		t.Errorf("the kept tensor: %v, %v", x, err)
	}
	if _, err := p.Tensor("pos_encoder.pe"); err == nil {
		t.Error("the package has what was ignored")
	}
	if r.Report.Values.Before != loadedValues(t, dir)-8*16 {
		t.Errorf("%d values counted before", r.Report.Values.Before)
	}
	// A file for other shapes is held against the checkpoint.
	wide := file(func() { doc["vocabulary"] = 41 })
	if _, err = compress.Local(ctx, dir, quick(compress.Options{ArchFile: wide})); !errors.As(err, &strict) || strict.Problems[0].Kind != loader.ShapeMismatch {
		t.Errorf("another vocabulary: %v", err)
	}
	if _, err = compress.Local(ctx, dir, compress.Options{ArchFile: kept, Architecture: "llama"}); !errors.Is(err, compress.ErrOption) {
		t.Errorf("a file and a family: %v", err)
	}
	if _, err = compress.Local(ctx, dir, compress.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("neither a configuration nor a file: %v", err)
	}
}

func loadedValues(t testing.TB, dir string) int64 {
	t.Helper()
	i, err := compress.InspectLocal(dir, compress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return i.Values
}
