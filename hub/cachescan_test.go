package hub_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// twoRevisions serves a model with the branches main and dev, which share
// one of their two weights, and a dataset.
func twoRevisions(t testing.TB) *hubtest.Server {
	dev := demoFiles()
	dev["model.safetensors"] = noise(3, 70_000)
	return newHub(t, hubtest.Options{Repos: []hubtest.Repo{
		{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": demoFiles(), "dev": dev}, PRs: map[string]string{"1": "dev"}},
		{ID: "org/words", Type: "dataset", Revisions: map[string]hubtest.Files{"main": {"a/words.txt": []byte("one\ntwo\n")}}},
	}})
}

var words = hub.Repo{Type: hub.Dataset, ID: "org/words"}

// filledCache has all of twoRevisions.
func filledCache(t testing.TB, change ...func(*hub.Options)) (*hub.Client, *hubtest.Server) {
	t.Helper()
	s := twoRevisions(t)
	c := newClient(t, s, change...)
	for _, w := range []struct {
		r   hub.Repo
		rev string
	}{{demo, "main"}, {demo, "refs/pr/1"}, {words, "main"}} {
		if _, err := c.Snapshot(t.Context(), w.r, w.rev, hub.SnapshotOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return c, s
}

func scan(t testing.TB, dir string) *hub.CacheInfo {
	t.Helper()
	info, err := hub.ScanCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// write makes a file and its directories.
func write(t testing.TB, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o666); err != nil {
		t.Fatal(err)
	}
}

func symlink(t testing.TB, target, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip("this Windows refuses symbolic links: ", err)
		}
		t.Fatal(err)
	}
}

func TestScanCache(t *testing.T) {
	c, s := filledCache(t)
	info := scan(t, c.CacheDir())
	if len(info.Warnings) != 0 || len(info.Incomplete) != 0 || len(info.Unused) != 0 || len(info.Repos) != 2 {
		t.Fatalf("%+v", info)
	}
	if r := info.Repos[0]; r.Repo != words || r.SizeOnDisk != 8 || r.Files != 1 {
		t.Errorf("%+v", r)
	}
	r := info.Repos[1]
	mainSize := int64(0)
	for _, data := range demoFiles() {
		mainSize += int64(len(data))
	}
	if r.Repo != demo || r.SizeOnDisk != mainSize+70_000 || r.Files != len(demoFiles())+1 || len(r.Revisions) != 2 {
		t.Errorf("%+v", r)
	}
	if got := strings.Join(r.Refs(), " "); got != "main refs/pr/1" {
		t.Errorf("refs %q", got)
	}
	for _, rev := range r.Revisions {
		want, refs := mainSize, "main"
		if string(rev.Commit) == s.Commit("", "org/demo", "dev") {
			want, refs = mainSize-300_000+70_000, "refs/pr/1"
		}
		if rev.SizeOnDisk != want || strings.Join(rev.Refs, " ") != refs || len(rev.Files) != len(demoFiles()) {
			t.Errorf("%s: %d bytes, refs %v, %d files", rev.Commit, rev.SizeOnDisk, rev.Refs, len(rev.Files))
		}
		for _, f := range rev.Files {
			if f.Path == "sub/pytorch.bin" && (f.Size != 50_000 || filepath.Base(f.Blob) != sha(demoFiles()[f.Path])) {
				t.Errorf("%+v", f)
			}
		}
	}
	if info.SizeOnDisk != mainSize+70_000+8 {
		t.Errorf("%d bytes in all", info.SizeOnDisk)
	}
	if age := time.Since(r.LastModified); age < 0 || age > time.Hour || r.LastAccessed.IsZero() {
		t.Errorf("modified %v, accessed %v", r.LastModified, r.LastAccessed)
	}
}

func TestScanCacheOfNothing(t *testing.T) {
	_, err := hub.ScanCache(filepath.Join(t.TempDir(), "none"))
	wantErr(t, err, hub.ErrCache)
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "x")
	_, err = hub.ScanCache(file)
	wantErr(t, err, hub.ErrCache)
	if info := scan(t, t.TempDir()); len(info.Repos)+len(info.Warnings) != 0 {
		t.Errorf("%+v", info)
	}
}

// Damage is a warning for its repository, and for no other.
func TestScanCacheDamage(t *testing.T) {
	repo := func(dir string) string { return filepath.Join(dir, "models--org--demo") }
	commit := strings.Repeat("a", 40)
	for name, damage := range map[string]struct {
		make   func(t *testing.T, dir string)
		reason string
	}{
		"foreign folder":  {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "notes", "x"), "x") }, "not a folder"},
		"foreign type":    {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "cats--a--b", "x"), "x") }, "unknown repository type"},
		"file":            {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "models--a--b"), "x") }, "not a directory"},
		"impossible id":   {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "models--a--b--c", "x"), "x") }, "slash"},
		"no snapshots":    {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "models--a--b", "blobs", "x"), "x") }, "no such directory"},
		"ref to nothing":  {func(t *testing.T, dir string) { write(t, filepath.Join(repo(dir), "refs", "v1"), commit) }, "refers to commit"},
		"ref is a link":   {func(t *testing.T, dir string) { symlink(t, "main", filepath.Join(repo(dir), "refs", "v1")) }, "not a regular file"},
		"file of commits": {func(t *testing.T, dir string) { write(t, filepath.Join(repo(dir), "snapshots", "x"), "x") }, "not a directory"},
		"broken link": {func(t *testing.T, dir string) {
			symlink(t, "../../blobs/"+commit, filepath.Join(repo(dir), "snapshots", commit, "x"))
		}, "blob is missing"},
		"link out of the blobs": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "..", "secret"), "x")
			symlink(t, "../../../../secret", filepath.Join(repo(dir), "snapshots", commit, "x"))
		}, "leads out"},
		"link to a directory": {func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(repo(dir), "blobs", "d"), 0o777); err != nil {
				t.Fatal(err)
			}
			symlink(t, "../../blobs/d", filepath.Join(repo(dir), "snapshots", commit, "x"))
		}, "not a regular file"},
		"linked snapshot": {func(t *testing.T, dir string) {
			symlink(t, t.TempDir(), filepath.Join(repo(dir), "snapshots", commit))
		}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := filledCache(t)
			damage.make(t, c.CacheDir())
			info := scan(t, c.CacheDir())
			if len(info.Warnings) != 1 || !strings.Contains(info.Warnings[0].String(), damage.reason) {
				t.Errorf("warnings %v", info.Warnings)
			}
			if len(info.Repos) == 0 || info.Repos[0].Repo != words {
				t.Errorf("repositories %+v", info.Repos)
			}
		})
	}
}

func TestScanCacheTolerates(t *testing.T) {
	c, _ := filledCache(t)
	dir := c.CacheDir()
	repo := filepath.Join(dir, "models--org--demo")
	for _, p := range []string{dir, filepath.Join(repo, "refs"), filepath.Join(repo, "snapshots")} {
		write(t, filepath.Join(p, ".DS_Store"), "x")
	}
	ref, err := os.ReadFile(filepath.Join(repo, "refs", "main"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(repo, "refs", "main"), string(ref)+"\n")
	etag := strings.Repeat("b", 64)
	write(t, filepath.Join(repo, "blobs", etag), "nobody needs this")
	write(t, filepath.Join(repo, "blobs", etag+".00c0ffee.incomplete"), "nor this")
	info := scan(t, dir)
	if len(info.Warnings) != 0 || len(info.Unused) != 1 || len(info.Incomplete) != 1 || len(info.Repos) != 2 {
		t.Errorf("%+v", info)
	}
}

// pyScan is what interop/scan_cache.py prints.
type pyScan struct {
	Size, Freed int64
	Incomplete  []string
	Warnings    int
	Repos       map[string]pyRepo
}

type pyRepo struct {
	Size               int64
	Files              int
	Accessed, Modified float64
	Revisions          map[string]pyRevision
}

type pyRevision struct {
	Size     int64
	Refs     []string
	Modified float64
	Blobs    map[string]string
}

func pythonScan(t *testing.T, py, cache string, revisions ...string) pyScan {
	t.Helper()
	out, err := script(t, py, nil, append([]string{"scan_cache.py", cache}, revisions...)...).Output()
	var got pyScan
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}

// inPythonsForm turns a scan into the form of pyScan.
func inPythonsForm(info *hub.CacheInfo) pyScan {
	sec := func(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
	got := pyScan{Size: info.SizeOnDisk, Warnings: len(info.Warnings), Incomplete: []string{}, Repos: map[string]pyRepo{}}
	for _, f := range info.Incomplete {
		got.Incomplete = append(got.Incomplete, f.Path)
	}
	for _, r := range info.Repos {
		p := pyRepo{r.SizeOnDisk, r.Files, sec(r.LastAccessed), sec(r.LastModified), map[string]pyRevision{}}
		for _, rev := range r.Revisions {
			v := pyRevision{rev.SizeOnDisk, append([]string{}, rev.Refs...), sec(rev.LastModified), map[string]string{}}
			for _, f := range rev.Files {
				v.Blobs[f.Path] = f.Blob
			}
			p.Revisions[string(rev.Commit)] = v
		}
		got.Repos[string(r.Repo.Type)+"/"+r.Repo.ID] = p
	}
	return got
}

// near compares times of both languages: a float64 holds microseconds.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-3 }

func TestInteropScanCache(t *testing.T) {
	py := python(t)
	for name, links := range map[string]bool{"links": true, "copies": false} {
		t.Run(name, func(t *testing.T) {
			c, s := filledCache(t, func(o *hub.Options) { o.DisableSymlinks = !links })
			dir := c.CacheDir()
			write(t, filepath.Join(dir, "models--org--demo", "blobs", sha([]byte("x"))+".00c0ffee.incomplete"), "partial")
			write(t, filepath.Join(dir, "models--bad--one", "x"), "no snapshots")
			write(t, filepath.Join(dir, "models--bad--two", "snapshots", "x"), "a file")
			for _, revs := range [][]string{{s.Commit("", "org/demo", "dev")}, {s.Commit("", "org/demo", "dev"), s.Commit("", "org/demo", "main")}} {
				want := pythonScan(t, py, dir, revs...)
				info := scan(t, dir)
				got := inPythonsForm(info)
				var targets []hub.CacheTarget
				for _, r := range revs {
					targets = append(targets, hub.CacheTarget{Commit: hub.Commit(r)})
				}
				plan := info.PlanDelete(targets...)
				got.Freed = plan.Size
				if len(revs) == 2 {
					// Python does not count the partial that goes with the folder.
					got.Freed -= info.Incomplete[0].Size
				}
				for id, r := range want.Repos {
					g := got.Repos[id]
					if !near(r.Accessed, g.Accessed) || !near(r.Modified, g.Modified) {
						t.Errorf("%s: accessed %f and %f, modified %f and %f", id, r.Accessed, g.Accessed, r.Modified, g.Modified)
					}
					r.Accessed, r.Modified = g.Accessed, g.Modified
					for cm, v := range r.Revisions {
						if !near(v.Modified, g.Revisions[cm].Modified) {
							t.Errorf("%s: modified %f and %f", cm, v.Modified, g.Revisions[cm].Modified)
						}
						v.Modified = g.Revisions[cm].Modified
						r.Revisions[cm] = v
					}
					want.Repos[id] = r
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("\n%+v\nPython:\n%+v", got, want)
				}
			}
			// What is left after a deletion is a sound cache to Python.
			info := scan(t, dir)
			if _, err := info.PlanDelete(hub.CacheTarget{Commit: hub.Commit(s.Commit("", "org/demo", "dev"))}).Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := pythonScan(t, py, dir); got.Warnings != 2 || len(got.Repos) != 2 || len(got.Repos["model/org/demo"].Revisions) != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A store that Python marked and filled counts once, and what nothing refers
// to any more is seen.
func TestScanSharedStore(t *testing.T) {
	c, _ := filledCache(t)
	dir := c.CacheDir()
	live, dead, unproven := shareBlob(t, dir, "sub/pytorch.bin"), strings.Repeat("d", 64), strings.Repeat("e", 64)
	store := filepath.Join(dir, "blobs")
	write(t, filepath.Join(store, "dd", dead), "dead")
	write(t, filepath.Join(store, "dd", dead+".refs"), "models--org--demo/blobs/"+strings.Repeat("f", 64)+"\n../../x\nmodels--org--demo/blobs/"+sha(demoFiles()["sub/pytorch.bin"])+"\n")
	write(t, filepath.Join(store, "ee", unproven), "who knows")
	before := scan(t, dir)
	if len(before.Warnings) != 0 || len(before.UnusedShared) != 1 || filepath.Base(before.UnusedShared[0].Path) != dead {
		t.Fatalf("%+v, %v", before.UnusedShared, before.Warnings)
	}
	if py := os.Getenv("HFCOMPRESS_PYTHON"); py != "" {
		if got := pythonScan(t, py, dir); got.Size != before.SizeOnDisk {
			t.Errorf("%d bytes, Python says %d", before.SizeOnDisk, got.Size)
		}
	}
	done, err := before.PlanPrune().Delete(t.Context())
	if err != nil || len(done.Kept) != 0 || done.Freed != 4 {
		t.Errorf("%+v %v", done, err)
	}
	for path, want := range map[string]bool{live: true, filepath.Join(store, "dd", dead): false, filepath.Join(store, "ee", unproven): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// shareBlob moves a blob of the demo into the shared store.
func shareBlob(t testing.TB, dir, file string) (payload string) {
	t.Helper()
	etag := sha(demoFiles()[file])
	blob := filepath.Join(dir, "models--org--demo", "blobs", etag)
	xet := sha([]byte("xet of " + file))
	payload = filepath.Join(dir, "blobs", xet[:2], xet)
	write(t, filepath.Join(dir, "blobs", ".huggingface-shared-blobs"), "1\n")
	write(t, payload+".refs", "models--org--demo/blobs/"+etag+"\n")
	if err := os.Rename(blob, payload); err != nil {
		t.Fatal(err)
	}
	symlink(t, filepath.Join("..", "..", "blobs", xet[:2], xet), blob)
	return payload
}

func FuzzScanCache(f *testing.F) {
	f.Add("models--org--demo", "main", strings.Repeat("a", 40)+"\n", "sub/x")
	f.Add("datasets--x", "refs/pr/1", "", "x")
	f.Add("kernels--a--b", "v1", "no hash", "../x")
	f.Fuzz(func(t *testing.T, folder, ref, hash, file string) {
		if hub.CheckPath(folder) != nil || strings.ContainsAny(folder, `/\`) || hub.CheckPath(ref) != nil || hub.CheckPath(file) != nil {
			return
		}
		dir := filepath.Join(t.TempDir(), "hub")
		repo := filepath.Join(dir, folder)
		for path, data := range map[string]string{filepath.Join(repo, "refs", ref): hash, filepath.Join(repo, "snapshots", strings.Repeat("a", 40), file): "content"} {
			if os.MkdirAll(filepath.Dir(path), 0o777) != nil || os.WriteFile(path, []byte(data), 0o666) != nil {
				return // the system cannot hold such a name
			}
		}
		outside := filepath.Join(filepath.Dir(dir), "outside")
		write(t, outside, "x")
		info, err := hub.ScanCache(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Repos)+len(info.Warnings) == 0 {
			t.Error("the folder is neither described nor warned about")
		}
		if _, err := info.PlanPrune().Delete(t.Context()); err != nil && !errors.Is(err, hub.ErrCache) {
			t.Fatal(err)
		}
		wantFile(t, outside, []byte("x"))
	})
}
