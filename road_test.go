package compress_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/internal/demomodel"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/pack"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// demoFiles returns a copy of a revision of the demo model.
func demoFiles(t testing.TB, revision string) hubtest.Files {
	t.Helper()
	revisions, err := demomodel.Revisions()
	if err != nil {
		t.Fatal(err)
	}
	return revisions[revision]
}

// demoHub serves the demo model over HTTP on loopback.
func demoHub(t testing.TB, change func(*hubtest.Repo)) *hubtest.Server {
	t.Helper()
	repo := hubtest.Repo{ID: demomodel.RepoID, Revisions: map[string]hubtest.Files{
		"main":    demoFiles(t, demomodel.RevisionMain),
		"sharded": demoFiles(t, demomodel.RevisionSharded),
	}}
	if change != nil {
		change(&repo)
	}
	server, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{repo}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		if v := server.Violations(); len(v) > 0 {
			t.Errorf("the client broke the Hub's rules: %s", strings.Join(v, "; "))
		}
	})
	return server
}

// demoDir writes a revision of the demo model to a directory.
func demoDir(t testing.TB, change func(hubtest.Files)) string {
	t.Helper()
	dir := t.TempDir()
	files := demoFiles(t, demomodel.RevisionMain)
	if change != nil {
		change(files)
	}
	for name, data := range files {
		write(t, filepath.Join(dir, name), data)
	}
	return dir
}

func write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// quick keeps the generated examples few; the tests of package validation
// generate them all.
func quick(o compress.Options) compress.Options {
	o.Generate = validation.Options{MaxPositions: 600, MaxSingles: 8}
	o.NearTies = validation.TieOptions{Calls: 4, Keep: 2}
	return o
}

func hubOptions(t testing.TB, server *hubtest.Server, cache string) compress.Options {
	return quick(compress.Options{Hub: hub.Options{Endpoint: server.URL(), CacheDir: cache, Retries: -1}})
}

// The whole road over HTTP, and again from the cache with a dialler that fails.
func TestHuggingFace(t *testing.T) {
	ctx := context.Background()
	server := demoHub(t, nil)
	cache, dir := t.TempDir(), t.TempDir()
	o := hubOptions(t, server, cache)
	o.Out = filepath.Join(dir, "first")
	first, err := compress.HuggingFace(ctx, demomodel.RepoID, o)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	r := first.Report
	if first.Status != finitepass.Compressed || !r.Gate.Bitwise || !r.Reload.Bitwise {
		t.Fatalf("status %s, gate bitwise %v, reload %+v", first.Status, r.Gate.Bitwise, r.Reload)
	}
	// 3 matrices of 128 × 128 and a norm of 128 go; a table of 32 × 384 comes.
	if got, want := r.Values.Saved(), int64(3*128*128+128-32*384); got != want {
		t.Errorf("%d values saved, expected %d", got, want)
	}
	if got, want := r.Bytes.Resident.Saved(), 4*r.Values.Saved(); got != want {
		t.Errorf("%d resident bytes saved, expected %d", got, want)
	}
	if r.Bytes.Disk.Saved() <= r.Bytes.Resident.Saved() {
		t.Errorf("on disk %d bytes saved, in memory %d: the codec gained nothing", r.Bytes.Disk.Saved(), r.Bytes.Resident.Saved())
	}
	if !hub.IsCommit(r.Source.Commit) {
		t.Errorf("commit %q", r.Source.Commit)
	}

	dials := atomic.Int64{}
	o.Hub.Offline = true
	o.Hub.DialContext = func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("no network here")
	}
	o.Out = filepath.Join(dir, "second")
	second, err := compress.HuggingFace(ctx, demomodel.RepoID, o)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if n := dials.Load(); n != 0 {
		t.Errorf("%d dials while offline", n)
	}
	// The same source, inputs and device give the same bytes.
	for _, name := range []string{pack.ManifestName, pack.ReportName, pack.PageName, pack.OutputsName, "weights.bin"} {
		if !bytes.Equal(read(t, filepath.Join(dir, "first", name)), read(t, filepath.Join(dir, "second", name))) {
			t.Errorf("%s differs between two runs", name)
		}
	}

	// The package alone gives the bits of the source.
	loaded, err := compress.Load(ctx, o.Out, compress.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	if !loaded.Validated {
		t.Error("not validated on the device of the validation")
	}
	sameOutputs(t, first.Model, loaded)
	check, err := loaded.Check(ctx, nil)
	if err != nil || len(check.Different) != 0 || check.Outputs == 0 {
		t.Errorf("check: %+v, %v", check, err)
	}
	out, err := loaded.Generate(ctx, [][]int{{1, 7}, {1}}, 5)
	if err != nil || len(out) != 2 || len(out[1]) < 2 {
		t.Errorf("generated %v, %v", out, err)
	}
	verified, err := compress.Verify(ctx, o.Out, compress.VerifyOptions{
		AgainstRepo: demomodel.RepoID, AgainstRevision: r.Source.Commit, Source: compress.Options{Hub: o.Hub}})
	if err != nil || !verified.Verified || !verified.Against.Bitwise {
		t.Errorf("verify against the source: %+v, %v", verified, err)
	}
}

// A cache without a listing of the commit, as other clients may leave it, is
// enough to work offline.
func TestOfflineWithoutListing(t *testing.T) {
	for _, revision := range []string{"main", "sharded"} {
		server := demoHub(t, nil)
		cache := t.TempDir()
		o := hubOptions(t, server, cache)
		o.Revision = revision
		first, err := compress.HuggingFace(context.Background(), demomodel.RepoID, o)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		if err := os.RemoveAll(filepath.Join(cache, "models--"+strings.ReplaceAll(demomodel.RepoID, "/", "--"), "trees")); err != nil {
			t.Fatal(err)
		}
		o.Hub.Offline = true
		second, err := compress.HuggingFace(context.Background(), demomodel.RepoID, o)
		if err != nil {
			t.Fatal(err)
		}
		sameOutputs(t, first.Model, second.Model)
		second.Close()
	}
}

// sameOutputs compares two models by bytes on a few inputs.
func sameOutputs(t testing.TB, a, b architectures.Model) {
	t.Helper()
	for _, ids := range [][][]int{{{0}}, {{5}, {31}}, {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}}} {
		in, err := architectures.TokenInputs(ids...)
		if err != nil {
			t.Fatal(err)
		}
		in.Flags = map[string]bool{"output_hidden_states": true}
		x, err := a.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		if len(x) != len(y) || len(x) < 2 {
			t.Fatalf("%d outputs and %d", len(x), len(y))
		}
		for i := range x {
			if x[i].Name != y[i].Name || !tensor.BitEqual(x[i].Tensor, y[i].Tensor) {
				t.Errorf("ids %v: output %s differs", ids, x[i].Name)
			}
		}
	}
}

// Shards give the model that the single file gives.
func TestShardedRevision(t *testing.T) {
	server := demoHub(t, nil)
	o := hubOptions(t, server, t.TempDir())
	o.Revision = "sharded"
	sharded, err := compress.HuggingFace(context.Background(), demomodel.RepoID, o)
	if err != nil {
		t.Fatal(err)
	}
	defer sharded.Close()
	if n := len(sharded.Report.Source.Files); n != 4 { // config.json and three shards
		t.Errorf("%d source files: %v", n, sharded.Report.Source.Files)
	}
	local, err := compress.Local(context.Background(), demoDir(t, nil), quick(compress.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	sameOutputs(t, sharded.Model, local.Model)
}

// On a device whose row function depends on the row count, one table is rolled
// back, and the regimes are found.
func TestProfiles(t *testing.T) {
	dir := demoDir(t, nil)
	run := func(o compress.Options) *compress.Result {
		t.Helper()
		o.Device = "cpu:split-k"
		r, err := compress.Local(context.Background(), dir, quick(o))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	one := run(compress.Options{ProfileMode: finitepass.ProfilesNone})
	if one.Status != finitepass.RolledBack || one.Report.FirstGate == nil || one.Report.FirstGate.FirstFailure == nil {
		t.Fatalf("one table: status %s", one.Status)
	}
	if reason := one.Report.Blocks[0].Reason; !strings.Contains(reason, one.Report.FirstGate.FirstFailure.Example) {
		t.Errorf("the reason names no example: %s", reason)
	}
	if !one.Report.Gate.Bitwise || one.Report.Values.Saved() != 0 {
		t.Error("what is returned is not the original")
	}
	auto := run(compress.Options{})
	if got := compress.ProfileText(auto.Report.Profiles); auto.Status != finitepass.Compressed || got != "1, 2–15, 16+ (auto)" || !auto.Report.Gate.Bitwise {
		t.Errorf("auto: status %s, profiles %s", auto.Status, got)
	}
	if full := auto.Report.Bytes.ResidentFullTables; full <= auto.Report.Bytes.Resident.After {
		t.Errorf("differences take %d bytes, full tables %d", auto.Report.Bytes.Resident.After, full)
	}
	sameOutputs(t, one.Model, auto.Model)
	explicit := run(compress.Options{Profiles: []finitepass.Profile{{MaxRows: 1, EvaluationRows: 1}, {MaxRows: 15, EvaluationRows: 2}}})
	if explicit.Status != finitepass.Compressed || explicit.Report.Profiles.Mode != finitepass.ProfilesExplicit {
		t.Errorf("explicit: status %s", explicit.Status)
	}
}

// Damage is caught wherever it is done, the original model is what the caller
// gets, and the package that was there before stays.
func TestDamageIsCaught(t *testing.T) {
	dir, out := demoDir(t, nil), filepath.Join(t.TempDir(), "package")
	good, err := compress.Local(context.Background(), dir, quick(compress.Options{Out: out}))
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	before := read(t, filepath.Join(out, pack.ManifestName))

	flip := func(l *finitepass.Lookup) (*finitepass.Lookup, error) {
		return l.WithFlippedBit(l.Tensors()[0].Name, 5000, 6)
	}
	for _, c := range []struct {
		name   string
		hooks  finitepass.Hooks
		status finitepass.Status
		reason string
	}{
		{"before the local comparison", finitepass.Hooks{BeforeLocal: flip}, finitepass.NoReduction, "full-domain comparison"},
		{"after it", finitepass.Hooks{AfterLocal: flip}, finitepass.RolledBack, "whole-model gate: example"},
	} {
		r, err := compress.Local(context.Background(), dir, quick(compress.Options{Hooks: c.hooks}))
		if err != nil {
			t.Fatal(err)
		}
		if r.Status != c.status || !strings.Contains(r.Report.Blocks[0].Reason, c.reason) {
			t.Errorf("%s: status %s, reason %s", c.name, r.Status, r.Report.Blocks[0].Reason)
		}
		sameOutputs(t, good.Model, r.Model)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(before, read(t, filepath.Join(out, pack.ManifestName))) {
		t.Error("the package on disk changed")
	}

	weights := filepath.Join(out, "weights.bin")
	data := read(t, weights)
	data[len(data)/2] ^= 1
	write(t, weights, data)
	if _, err := compress.Load(context.Background(), out, compress.LoadOptions{}); !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), "weights.bin") {
		t.Errorf("a flipped bit of the package: %v", err)
	}
}

// Each bad input is one clear error that names the thing, and leaves nothing
// behind.
func TestBadInput(t *testing.T) {
	config := func(key string, value any) func(hubtest.Files) {
		return func(f hubtest.Files) {
			var m map[string]any
			if err := json.Unmarshal(f["config.json"], &m); err != nil {
				panic(err)
			}
			m[key] = value
			f["config.json"], _ = json.Marshal(m)
		}
	}
	badIDs := filepath.Join(t.TempDir(), "examples.json")
	write(t, badIDs, []byte(`[{"name": "mine", "input_ids": [[1, 32]]}]`))
	for _, c := range []struct {
		name   string
		change func(hubtest.Files)
		o      compress.Options
		is     error
		says   []string
	}{
		{"unknown architecture", func(f hubtest.Files) {
			config("model_type", "mamba9")(f)
			config("architectures", []string{"Mamba9"})(f)
		}, compress.Options{}, architectures.ErrUnknown, []string{"mamba9", "llama"}},
		{"architecture by name", nil, compress.Options{Architecture: "mamba9"}, architectures.ErrUnknown, []string{"mamba9", "llama"}},
		{"a key twice", func(f hubtest.Files) {
			f["config.json"] = bytes.Replace(f["config.json"], []byte("{"), []byte(`{"model_type": "other",`), 1)
		}, compress.Options{}, nil, []string{"config.json", "model_type", "twice"}},
		{"no config", func(f hubtest.Files) { delete(f, "config.json") }, compress.Options{}, os.ErrNotExist, []string{"config.json"}},
		{"truncated file", func(f hubtest.Files) { f["model.safetensors"] = f["model.safetensors"][:100000] }, compress.Options{}, nil, []string{"model.safetensors", "100000"}},
		{"other width", config("intermediate_size", 400), compress.Options{}, nil, []string{"model.layers.0.mlp", "[400,128]", "[384,128]"}},
		{"wrong dtype", func(f hubtest.Files) {
			f["model.safetensors"] = bytes.Replace(f["model.safetensors"], []byte(`"dtype":"F32"`), []byte(`"dtype":"I32"`), 1)
		}, compress.Options{}, nil, []string{"I32", "F32"}},
		{"no weights", func(f hubtest.Files) { delete(f, "model.safetensors") }, compress.Options{}, nil, []string{"no safetensors file"}},
		{"no such file", nil, compress.Options{File: "other.safetensors"}, nil, []string{"other.safetensors", "model.safetensors"}},
		{"ids out of range", nil, compress.Options{ValidationFile: badIDs}, nil, []string{"32", "mine"}},
		{"device", nil, compress.Options{Device: "tpu"}, compress.ErrOption, []string{"tpu", "cpu:split-k"}},
		{"threads", nil, compress.Options{Threads: -1}, compress.ErrOption, []string{"threads -1"}},
		{"gate", nil, compress.Options{Require: "roughly"}, compress.ErrOption, []string{"roughly", "bitwise"}},
		{"contract", nil, compress.Options{Contract: "anything"}, compress.ErrOption, []string{"anything", "token_indices_only"}},
		{"profiles", nil, compress.Options{Profiles: []finitepass.Profile{{MaxRows: 2, EvaluationRows: 1}, {MaxRows: 1, EvaluationRows: 1}}}, finitepass.ErrProfiles, []string{"max_rows"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := t.TempDir()
			c.o.Out = filepath.Join(parent, "out")
			_, err := compress.Local(context.Background(), demoDir(t, c.change), quick(c.o))
			if err == nil {
				t.Fatal("accepted")
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the error does not say %q: %v", s, err)
				}
			}
			if entries, _ := os.ReadDir(parent); len(entries) != 0 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
	t.Run("existing output", func(t *testing.T) {
		out := t.TempDir()
		_, err := compress.Local(context.Background(), demoDir(t, nil), compress.Options{Out: out})
		var exists *compress.ExistsError
		if !errors.As(err, &exists) || exists.Dir != out {
			t.Errorf("%v", err)
		}
	})
}

// What can go wrong between the Hub and the cache.
func TestBadHub(t *testing.T) {
	ctx := context.Background()
	run := func(server *hubtest.Server, o compress.Options) error {
		t.Helper()
		if o.Hub.CacheDir == "" {
			o.Hub.CacheDir = t.TempDir()
		}
		o.Hub.Endpoint, o.Hub.Retries = server.URL(), -1
		parent := t.TempDir()
		o.Out = filepath.Join(parent, "out")
		r, err := compress.HuggingFace(ctx, demomodel.RepoID, quick(o))
		if err == nil {
			r.Close()
		}
		if entries, _ := os.ReadDir(parent); err != nil && len(entries) != 0 {
			t.Errorf("left behind: %v", entries)
		}
		return err
	}
	expect := func(name string, err, is error, says ...string) {
		t.Helper()
		if !errors.Is(err, is) {
			t.Errorf("%s: %v is not %v", name, err, is)
			return
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: the error does not say %q: %v", name, s, err)
			}
		}
	}
	server := demoHub(t, nil)
	expect("revision", run(server, compress.Options{Revision: "v9"}), hub.ErrRevisionNotFound, "v9")
	expect("gated", run(demoHub(t, func(r *hubtest.Repo) { r.Gated = true }), compress.Options{}), hub.ErrGated, demomodel.RepoID)
	missing := demoHub(t, func(r *hubtest.Repo) { delete(r.Revisions["sharded"], "model-00002-of-00003.safetensors") })
	if err := run(missing, compress.Options{Revision: "sharded"}); err == nil || !strings.Contains(err.Error(), "model-00002-of-00003.safetensors") {
		t.Errorf("missing shard: %v", err)
	}
	corrupt := demoHub(t, nil)
	corrupt.Inject(hubtest.Fault{Kind: hubtest.Corrupt, Path: "model.safetensors", Count: -1})
	expect("corrupt", run(corrupt, compress.Options{}), hub.ErrChecksum, "model.safetensors")
	noNetwork := compress.Options{}
	noNetwork.Hub.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("network is unreachable")
	}
	expect("no network", run(server, noNetwork), hub.ErrNetwork, "unreachable")
	offline := compress.Options{}
	offline.Hub.Offline = true
	expect("offline and nothing cached", run(server, offline), hub.ErrLocalEntryNotFound, demomodel.RepoID)
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	parent := t.TempDir()
	o := quick(compress.Options{Out: filepath.Join(parent, "out"), Observe: func(e compress.Event) {
		if e.Stage == compress.StageReload {
			cancel()
		}
	}})
	if _, err := compress.Local(ctx, demoDir(t, nil), o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if entries, _ := os.ReadDir(parent); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// A model may hold NaN when the caller says so.
func TestNonFiniteWeights(t *testing.T) {
	dir := demoDir(t, func(f hubtest.Files) {
		data := f["model.safetensors"]
		copy(data[len(data)-4:], []byte{0, 0, 0xc0, 0x7f})
	})
	if _, err := compress.Local(context.Background(), dir, quick(compress.Options{})); !errors.Is(err, loader.ErrNonFinite) {
		t.Errorf("%v", err)
	}
}

func TestOtherDevice(t *testing.T) {
	out := filepath.Join(t.TempDir(), "package")
	r, err := compress.Local(context.Background(), demoDir(t, nil), quick(compress.Options{Out: out}))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	loaded, err := compress.Load(context.Background(), out, compress.LoadOptions{Device: "cpu:split-k"})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	if loaded.Validated {
		t.Error("the word validated on a device with other bits")
	}
	check, err := loaded.Check(context.Background(), nil)
	if err != nil || len(check.Different) == 0 {
		t.Errorf("no output differs on the other device, so that the test proves nothing: %v", err)
	}
}

// A package is called validated on another device once it was compared with its
// source there, and not before.
func TestValidatedElsewhere(t *testing.T) {
	ctx := context.Background()
	source := demoDir(t, nil)
	out := filepath.Join(t.TempDir(), "package")
	// A package of the original weights passes on every device; one with a table
	// keeps the bits of the device that made it.
	flip := func(l *finitepass.Lookup) (*finitepass.Lookup, error) {
		return l.WithFlippedBit(l.Tensors()[0].Name, 5000, 6)
	}
	r, err := compress.Local(ctx, source, quick(compress.Options{Out: out, Hooks: finitepass.Hooks{BeforeLocal: flip}}))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	elsewhere := compress.LoadOptions{Device: "cpu:split-k"}
	validated := func() bool {
		t.Helper()
		loaded, err := compress.Load(ctx, out, elsewhere)
		if err != nil {
			t.Fatal(err)
		}
		defer loaded.Close()
		return loaded.Validated
	}
	if validated() {
		t.Error("validated before anything was compared on the device")
	}
	report, err := compress.Verify(ctx, out, compress.VerifyOptions{LoadOptions: elsewhere})
	if err != nil || report.Verified || report.Recorded || validated() {
		t.Errorf("other outputs than the recorded ones: %+v, %v", report, err)
	}
	report, err = compress.Verify(ctx, out, compress.VerifyOptions{LoadOptions: elsewhere, AgainstDir: source})
	if err != nil || !report.Verified || !report.Recorded || !report.Against.Bitwise || !validated() {
		t.Errorf("against the source: %+v, %v", report.Against.FirstFailure, err)
	}
	// It does not reach beyond that device.
	again, err := compress.Verify(ctx, out, compress.VerifyOptions{})
	if err != nil || !again.Verified || again.Recorded || !again.Check.Validated {
		t.Errorf("on the device of the validation: %+v, %v", again, err)
	}
}

// A repository is inspected from headers alone.
func TestInspectHub(t *testing.T) {
	for _, revision := range []string{"main", "sharded"} {
		server := demoHub(t, nil)
		o := hubOptions(t, server, t.TempDir())
		o.Revision = revision
		found, err := compress.InspectHub(context.Background(), demomodel.RepoID, o)
		if err != nil {
			t.Fatal(err)
		}
		if found.Problem != "" || found.Architecture != "llama" || found.Values != 861312 || len(found.Plans) != 1 || found.Plans[0].BytesSaved != 147968 {
			t.Errorf("%s: %+v", revision, found)
		}
		served := server.BodyBytes(func(hubtest.Request) bool { return true })
		if limit := int64(600 << 10); served > limit {
			t.Errorf("%s: %d bytes read of a model of 3.4 MB, expected at most %d", revision, served, limit)
		}
		// What is in the cache is read there.
		made, err := compress.HuggingFace(context.Background(), demomodel.RepoID, o)
		if err != nil {
			t.Fatal(err)
		}
		made.Close()
		o.Hub.Offline = true
		again, err := compress.InspectHub(context.Background(), demomodel.RepoID, o)
		if err != nil || again.Values != found.Values || again.Commit != found.Commit {
			t.Errorf("%s, offline: %+v, %v", revision, again, err)
		}
	}
}

// A package is made to be handed on: a link must not bring in files from
// elsewhere, while the links of a Hub snapshot are what they should be.
func TestLinksOutOfTheDirectory(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.txt")
	write(t, secret, []byte("not to be given away"))
	dir := demoDir(t, nil)
	if err := os.Symlink(secret, filepath.Join(dir, "NOTICE.txt")); err != nil {
		t.Skip("this system makes no symbolic links: ", err)
	}
	var said []string
	out := filepath.Join(t.TempDir(), "package")
	r, err := compress.Local(context.Background(), dir, quick(compress.Options{Out: out, Observe: func(e compress.Event) {
		if e.Message != "" {
			said = append(said, e.Message)
		}
	}}))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := os.Stat(filepath.Join(out, "files", "NOTICE.txt")); !os.IsNotExist(err) {
		t.Errorf("the linked file is in the package: %v", err)
	}
	if !strings.Contains(strings.Join(said, "\n"), "NOTICE.txt") {
		t.Errorf("nothing was said of it: %q", said)
	}

	server := demoHub(t, nil)
	cache := t.TempDir()
	first, err := compress.HuggingFace(context.Background(), demomodel.RepoID, hubOptions(t, server, cache))
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	snapshots, err := filepath.Glob(filepath.Join(cache, "models--*", "snapshots", "*"))
	if err != nil || len(snapshots) != 1 {
		t.Fatalf("%v, %v", snapshots, err)
	}
	out = filepath.Join(t.TempDir(), "package")
	second, err := compress.Local(context.Background(), snapshots[0], quick(compress.Options{Out: out}))
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
	if _, err := os.Stat(filepath.Join(out, "files", "tokenizer.json")); err != nil {
		t.Errorf("a snapshot's own file was left out: %v", err)
	}
	write(t, filepath.Join(out, "files", "added.txt"), []byte("x"))
	report, err := compress.Verify(context.Background(), out, compress.VerifyOptions{})
	if err != nil || len(report.Check.Unlisted) != 1 || report.Check.Unlisted[0] != "files/added.txt" {
		t.Errorf("unlisted: %+v, %v", report, err)
	}
}
