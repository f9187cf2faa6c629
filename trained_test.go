package compress_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/planner"
	"github.com/hfcompress/compress/validation"
)

const phonemes = "architectures/gru/testdata/g2p_en"

// TestTrainedPhonemes takes the trained model of g2p_en from a Hub through the
// road, and once more from the cache with a dialler that fails: both embeddings and
// both input projections become tables, and the package writes the phonemes that
// the published program writes.
func TestTrainedPhonemes(t *testing.T) {
	const repo = "kyubyong/g2p_en"
	ctx := context.Background()
	server, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{{ID: repo, Revisions: map[string]hubtest.Files{"main": {
		"config.json":       read(t, filepath.Join(phonemes, "config.json")),
		"model.safetensors": read(t, filepath.Join(phonemes, "model.safetensors")),
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := t.TempDir()
	o := hubOptions(t, server, t.TempDir())
	o.Require, o.Out = compress.RequireBitwise, filepath.Join(dir, "first")
	first, err := compress.HuggingFace(ctx, repo, o)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if v := server.Violations(); len(v) > 0 {
		t.Errorf("the client broke the Hub's rules: %s", strings.Join(v, "; "))
	}
	// 834,890 values before: each embedding, projection and bias goes, and a table
	// of 768 columns comes for 29 and for 74 tokens.
	values := first.Report.Values
	if first.Status != finitepass.Compressed || values.Before != 834890 || values.Saved() != 182528+159488 {
		t.Fatalf("%s: %d values before, %d saved", first.Status, values.Before, values.Saved())
	}
	t.Logf("%.2f %% of the values saved", 100*float64(values.Saved())/float64(values.Before))
	matchPlan(t, first.Report, func() (*compress.Planned, error) {
		return compress.PlanHub(ctx, repo, o, planner.Options{})
	})

	dials := atomic.Int64{}
	o.Hub.Offline, o.Out = true, filepath.Join(dir, "second")
	o.Hub.DialContext = func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("no network here")
	}
	second, err := compress.HuggingFace(ctx, repo, o)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if n := dials.Load(); n != 0 {
		t.Errorf("%d dials while offline", n)
	}
	sameFiles(t, filepath.Join(dir, "first"), o.Out)

	verified, err := compress.Verify(ctx, o.Out, compress.VerifyOptions{
		AgainstRepo: repo, AgainstRevision: first.Report.Source.Commit, Source: compress.Options{Hub: o.Hub}})
	if err != nil || !verified.Verified || !verified.Against.Bitwise {
		t.Errorf("verify against the source: %+v, %v", verified, err)
	}
	loaded, err := compress.Load(ctx, o.Out, compress.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	for _, e := range validation.Generate(loaded.Inputs(), validation.Options{MaxPositions: 200, MaxSingles: 4}) {
		same(t, e.Name, first.Model, loaded, e.Inputs)
	}
	samePhonemes(t, loaded.Model)
}

// samePhonemes compares the model's choices with those of the published program.
// Words of one length run as a batch.
func samePhonemes(t *testing.T, m architectures.Model) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(read(t, filepath.Join(phonemes, "words.tsv.gz"))))
	if err != nil {
		t.Fatal(err)
	}
	type word struct {
		text string
		ids  []int
		want []int64
	}
	byLength := map[int][]word{}
	total := 0
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		if total++; testing.Short() && total%10 != 0 {
			continue // all of them take 8 seconds of processor time
		}
		w := word{}
		var phonemes string
		w.text, phonemes, _ = strings.Cut(lines.Text(), "\t")
		for _, c := range w.text {
			w.ids = append(w.ids, int(c-'a')+3) // after <pad>, <unk> and </s>
		}
		w.ids = append(w.ids, 2)
		for _, p := range strings.Fields(phonemes) {
			id, err := strconv.ParseInt(p, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			w.want = append(w.want, id)
		}
		byLength[len(w.ids)] = append(byLength[len(w.ids)], w)
	}
	if err := lines.Err(); err != nil || total != 10000 {
		t.Fatalf("%d words, %v", total, err)
	}
	for _, words := range byLength {
		var rows [][]int
		for _, w := range words {
			rows = append(rows, w.ids)
		}
		in, err := architectures.TokenInputs(rows...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		got := out.Get("sequences")
		steps := got.Shape()[1]
		for i, w := range words {
			row := got.Int64s()[i*steps : (i+1)*steps]
			n := min(len(w.want), steps)
			if !slices.Equal(row[:n], w.want) || slices.ContainsFunc(row[n:], func(id int64) bool { return id != 0 }) {
				t.Errorf("%s: chose %v, the reference %v", w.text, row, w.want)
			}
		}
	}
}

// sameFiles expects two folders to hold the same files.
func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	files := func(root string) map[string]string {
		out := map[string]string{}
		err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				out[path] = string(read(t, filepath.Join(root, path)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first, second := files(a), files(b)
	if len(first) == 0 || len(first) != len(second) {
		t.Errorf("%d files and %d", len(first), len(second))
	}
	for name, data := range first {
		if second[name] != data {
			t.Errorf("%s differs between two runs", name)
		}
	}
}
