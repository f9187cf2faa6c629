package hub_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// tree lists everything below a directory, locks aside.
func tree(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == ".locks" {
			return filepath.SkipDir
		}
		if rel, _ := filepath.Rel(dir, p); err == nil && rel != "." {
			out = append(out, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func kinds(items []hub.DeleteItem) string {
	var out []string
	for _, it := range items {
		out = append(out, string(it.Kind))
	}
	return strings.Join(out, " ")
}

// deleteAll carries a plan out that must succeed as a whole.
func deleteAll(t testing.TB, p *hub.DeletePlan) *hub.Deleted {
	t.Helper()
	done, err := p.Delete(t.Context())
	if err != nil || len(done.Kept) != 0 || done.Freed != p.Size || len(done.Items) != len(p.Items) {
		t.Fatalf("%+v of %+v: %v", done, p, err)
	}
	return done
}

func TestDelete(t *testing.T) {
	file := func(commit func(*hubtest.Server) hub.Commit, name string) func(*hubtest.Server) []hub.CacheTarget {
		return func(s *hubtest.Server) []hub.CacheTarget {
			return []hub.CacheTarget{{Repo: demo, Commit: commit(s), File: name}}
		}
	}
	none := func(*hubtest.Server) hub.Commit { return "" }
	dev := func(s *hubtest.Server) hub.Commit { return hub.Commit(s.Commit("", "org/demo", "dev")) }
	main := func(s *hubtest.Server) hub.Commit { return hub.Commit(s.Commit("", "org/demo", "main")) }
	all := int64(300_000 + 70_000 + 50_000)
	for name, tt := range map[string]struct {
		targets func(*hubtest.Server) []hub.CacheTarget
		kinds   string
		freed   int64 // at least; small files come on top
		left    []string
		gone    []string
	}{
		"repository": {func(*hubtest.Server) []hub.CacheTarget { return []hub.CacheTarget{{Repo: demo}} }, "repo", all,
			[]string{"datasets--org--words"}, []string{"models--org--demo"}},
		"repository without a type": {func(*hubtest.Server) []hub.CacheTarget { return []hub.CacheTarget{{Repo: hub.Repo{ID: "org/demo"}}} }, "repo", all, nil, []string{"models--org--demo"}},
		"revision": {func(s *hubtest.Server) []hub.CacheTarget { return []hub.CacheTarget{{Commit: dev(s)}} }, "revision blob", 70_000,
			[]string{"models--org--demo/refs/main", "models--org--demo/blobs/" + sha(demoFiles()["sub/pytorch.bin"])}, []string{"models--org--demo/refs/refs", "models--org--demo/blobs/" + sha(noise(3, 70_000))}},
		"all revisions": {func(s *hubtest.Server) []hub.CacheTarget {
			return []hub.CacheTarget{{Commit: dev(s)}, {Repo: demo, Commit: main(s)}}
		}, "repo", all, nil, []string{"models--org--demo"}},
		"file of one revision":      {file(main, "sub/pytorch.bin"), "file", 0, []string{"models--org--demo/blobs/" + sha(demoFiles()["sub/pytorch.bin"])}, nil},
		"file of its last revision": {file(main, "model.safetensors"), "file blob", 300_000, []string{"models--org--demo/refs/main"}, []string{"models--org--demo/blobs/" + sha(demoFiles()["model.safetensors"])}},
		"file of all revisions":     {file(none, "sub/pytorch.bin"), "file file blob", 50_000, []string{"models--org--demo/refs/main"}, []string{"models--org--demo/blobs/" + sha(demoFiles()["sub/pytorch.bin"])}},
		"revision and a file within it": {func(s *hubtest.Server) []hub.CacheTarget {
			return append(file(dev, "README.md")(s), hub.CacheTarget{Commit: dev(s)})
		}, "revision blob", 70_000, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := filledCache(t)
			dir := c.CacheDir()
			info := scan(t, dir)
			before := tree(t, dir)
			p := info.PlanDelete(tt.targets(s)...)
			if got := kinds(p.Items); got != tt.kinds || p.Size < tt.freed || p.Size > tt.freed+200 || len(p.NotFound) != 0 {
				t.Fatalf("plan %q of %d bytes: %+v", got, p.Size, p)
			}
			if !slices.Equal(before, tree(t, dir)) {
				t.Fatal("a plan changed the cache")
			}
			deleteAll(t, p)
			after := scan(t, dir)
			if len(after.Warnings) != 0 || len(after.Unused) != 0 || info.SizeOnDisk-after.SizeOnDisk != p.Size {
				t.Errorf("%d bytes of %d are left: %v", after.SizeOnDisk, info.SizeOnDisk, after.Warnings)
			}
			for _, f := range tt.left {
				if _, err := os.Lstat(filepath.Join(dir, f)); err != nil {
					t.Error(err)
				}
			}
			for _, f := range tt.gone {
				if _, err := os.Lstat(filepath.Join(dir, f)); err == nil {
					t.Errorf("%s is still there", f)
				}
			}
			wantClean(t, dir)
			// What was deleted comes back.
			for _, rev := range []string{"main", "refs/pr/1"} {
				snap, err := c.Snapshot(t.Context(), demo, rev, hub.SnapshotOptions{})
				if err != nil {
					t.Fatal(err)
				}
				wantFile(t, filepath.Join(snap.Dir, "sub", "pytorch.bin"), demoFiles()["sub/pytorch.bin"])
			}
			if again := scan(t, dir); again.SizeOnDisk != info.SizeOnDisk || len(again.Warnings) != 0 {
				t.Errorf("%d bytes after another download, %d before", again.SizeOnDisk, info.SizeOnDisk)
			}
		})
	}
}

func TestDeleteWithoutSymlinks(t *testing.T) {
	c, s := filledCache(t, func(o *hub.Options) { o.DisableSymlinks = true })
	info := scan(t, c.CacheDir())
	p := info.PlanDelete(hub.CacheTarget{Commit: hub.Commit(s.Commit("", "org/demo", "dev"))})
	if p.Size < 70_000+50_000 || kinds(p.Items) != "revision" {
		t.Errorf("%+v", p)
	}
	deleteAll(t, p)
	if after := scan(t, c.CacheDir()); info.SizeOnDisk-after.SizeOnDisk != p.Size {
		t.Errorf("%d bytes went, planned were %d", info.SizeOnDisk-after.SizeOnDisk, p.Size)
	}
}

func TestDeleteNotFound(t *testing.T) {
	c, _ := filledCache(t)
	before := tree(t, c.CacheDir())
	p := scan(t, c.CacheDir()).PlanDelete(hub.CacheTarget{Repo: hub.ModelRepo("org/none")}, hub.CacheTarget{Commit: "x"}, hub.CacheTarget{}, hub.CacheTarget{File: "README.md"}, hub.CacheTarget{Repo: demo, File: "none"})
	if len(p.Items) != 0 || len(p.NotFound) != 5 {
		t.Errorf("%+v", p)
	}
	deleteAll(t, p)
	if !slices.Equal(before, tree(t, c.CacheDir())) {
		t.Error("something is gone")
	}
}

// A damaged repository can be deleted as a whole.
func TestDeleteDamaged(t *testing.T) {
	c, _ := filledCache(t)
	write(t, filepath.Join(c.CacheDir(), "models--org--demo", "snapshots", "stray"), "x")
	info := scan(t, c.CacheDir())
	if len(info.Warnings) != 1 {
		t.Fatal(info.Warnings)
	}
	deleteAll(t, info.PlanDelete(hub.CacheTarget{Repo: demo}))
	if after := scan(t, c.CacheDir()); len(after.Warnings) != 0 || len(after.Repos) != 1 {
		t.Errorf("%+v", after)
	}
}

// relink makes a relative link.
func relink(t testing.TB, target, name string) {
	t.Helper()
	rel, err := filepath.Rel(filepath.Dir(name), target)
	if err != nil {
		t.Fatal(err)
	}
	symlink(t, rel, name)
}

// Deletion ends at links, wherever they stand.
func TestDeleteFollowsNoLink(t *testing.T) {
	for name, trick := range map[string]func(t *testing.T, dir, outside string){
		"repository": func(t *testing.T, dir, outside string) {
			repo := filepath.Join(dir, "models--org--demo")
			if err := os.Rename(repo, filepath.Join(outside, "moved")); err != nil {
				t.Fatal(err)
			}
			relink(t, filepath.Join(outside, "moved"), repo)
		},
		"blobs": func(t *testing.T, dir, outside string) {
			blobs := filepath.Join(dir, "models--org--demo", "blobs")
			if err := os.Rename(blobs, filepath.Join(outside, "moved")); err != nil {
				t.Fatal(err)
			}
			relink(t, filepath.Join(outside, "moved"), blobs)
		},
		"refs": func(t *testing.T, dir, outside string) {
			refs := filepath.Join(dir, "models--org--demo", "refs")
			if err := os.Rename(refs, filepath.Join(outside, "moved")); err != nil {
				t.Fatal(err)
			}
			relink(t, filepath.Join(outside, "moved"), refs)
		},
		"snapshots": func(t *testing.T, dir, outside string) {
			snaps := filepath.Join(dir, "models--org--demo", "snapshots")
			if err := os.Rename(snaps, filepath.Join(outside, "moved")); err != nil {
				t.Fatal(err)
			}
			relink(t, filepath.Join(outside, "moved"), snaps)
		},
		"directory in a snapshot": func(t *testing.T, dir, outside string) {
			snaps, err := filepath.Glob(filepath.Join(dir, "models--org--demo", "snapshots", "*"))
			if err != nil || len(snaps) != 2 {
				t.Fatal(snaps, err)
			}
			for i, s := range snaps {
				to := filepath.Join(outside, string(rune('a'+i)))
				if err := os.Rename(filepath.Join(s, "sub"), to); err != nil {
					t.Fatal(err)
				}
				relink(t, to, filepath.Join(s, "sub"))
			}
		},
	} {
		run := func(t *testing.T, outside string) {
			c, s := filledCache(t)
			dir := c.CacheDir()
			if outside == "" {
				outside = filepath.Join(dir, "datasets--org--words", "trees")
			}
			// The links come after the scan, as they would from an attacker.
			info := scan(t, dir)
			trick(t, dir, outside)
			before := tree(t, outside)
			for _, targets := range [][]hub.CacheTarget{
				{{Repo: demo, File: "sub/pytorch.bin"}},
				{{Commit: hub.Commit(s.Commit("", "org/demo", "dev"))}},
				{{Repo: demo}},
			} {
				if _, err := info.PlanDelete(targets...).Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(before, tree(t, outside)) {
					t.Fatalf("deleting %v went through the link", targets)
				}
			}
			if _, err := scan(t, dir).PlanPrune().Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(before, tree(t, outside)) {
				t.Fatal("pruning went through the link")
			}
		}
		t.Run(name+" out of the cache", func(t *testing.T) { run(t, t.TempDir()) })
		t.Run(name+" into another repository", func(t *testing.T) { run(t, "") })
	}
}

// A blob that a snapshot has come to use since the scan stays.
func TestDeleteLooksAgain(t *testing.T) {
	c, s := filledCache(t)
	main := hub.Commit(s.Commit("", "org/demo", "main"))
	p := scan(t, c.CacheDir()).PlanDelete(hub.CacheTarget{Repo: demo, Commit: main, File: "model.safetensors"})
	etag := sha(demoFiles()["model.safetensors"])
	symlink(t, "../../blobs/"+etag, filepath.Join(c.CacheDir(), "models--org--demo", "snapshots", s.Commit("", "org/demo", "dev"), "copy.safetensors"))
	done, err := p.Delete(t.Context())
	if err != nil || len(done.Kept) != 1 || !errors.Is(done.Kept[0].Reason, hub.ErrInUse) || done.Kept[0].Kind != hub.DeleteBlob {
		t.Fatalf("%+v %v", done, err)
	}
	wantFile(t, filepath.Join(c.CacheDir(), "models--org--demo", "blobs", etag), demoFiles()["model.safetensors"])
}

// A ref that moved to the revision since the scan goes with it.
func TestDeleteTakesNewRefs(t *testing.T) {
	c, s := filledCache(t)
	dev := s.Commit("", "org/demo", "dev")
	p := scan(t, c.CacheDir()).PlanDelete(hub.CacheTarget{Commit: hub.Commit(dev)})
	write(t, filepath.Join(c.CacheDir(), "models--org--demo", "refs", "v1"), dev)
	deleteAll(t, p)
	if info := scan(t, c.CacheDir()); len(info.Warnings) != 0 {
		t.Error(info.Warnings)
	}
}

// What another process has locked stays.
func TestDeleteRespectsLocks(t *testing.T) {
	c, s := filledCache(t)
	dir := c.CacheDir()
	etag := sha(noise(3, 70_000))
	lock := startHelper(t, helperJob{Lock: filepath.Join(dir, ".locks", "models--org--demo", etag+".lock")})
	in, err := lock.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := lock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatal(line, err)
	}
	before := tree(t, dir)
	info := scan(t, dir)
	dev := hub.CacheTarget{Commit: hub.Commit(s.Commit("", "org/demo", "dev"))}
	for _, target := range []hub.CacheTarget{{Repo: demo}, dev} {
		done, err := info.PlanDelete(target).Delete(t.Context())
		if err != nil || len(done.Items) != 0 || len(done.Kept) == 0 {
			t.Fatalf("%+v %v", done, err)
		}
		for _, k := range done.Kept {
			if !errors.Is(k.Reason, hub.ErrInUse) {
				t.Error(k)
			}
		}
	}
	if !slices.Equal(before, tree(t, dir)) {
		t.Error("something was deleted under a lock")
	}
	_ = in.Close()
	if err := lock.Wait(); err != nil {
		t.Fatal(err)
	}
	deleteAll(t, info.PlanDelete(dev))
}

// settle makes every directory of a cache look an hour old.
func settle(t testing.TB, dir string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	for _, p := range tree(t, dir) {
		p = filepath.Join(dir, filepath.FromSlash(p))
		if st, err := os.Lstat(p); err == nil && st.IsDir() {
			if err := os.Chtimes(p, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestPrune(t *testing.T) {
	c, s := filledCache(t)
	dir := c.CacheDir()
	blobs := filepath.Join(dir, "models--org--demo", "blobs")
	// Detached: the branch moved on, so to say.
	if err := os.RemoveAll(filepath.Join(dir, "models--org--demo", "refs", "refs")); err != nil {
		t.Fatal(err)
	}
	lost := sha([]byte("lost"))
	files := map[string]string{
		lost:                                     "lost",
		lost + ".00c0ffee.incomplete":            "a partial of Python's",
		lost + ".00c0ffee.journal.incomplete":    "{}\n",
		lost + ".00c0ffed.small.incomplete":      "x",
		lost + ".incomplete":                     "an older client's",
		lost + ".00c0ffee.copy.incomplete":       "half a copy",
		"README of this folder":                  "not ours",
		"." + lost + ".00c0ffee.shared.tmp":      "not ours either",
		"../../.locks/.deleted-00c0ffee/blobs/x": "half deleted",
	}
	for name, data := range files {
		write(t, filepath.Join(blobs, filepath.FromSlash(name)), data)
	}
	// It may be a download's, as long as it is young.
	if done, err := scan(t, dir).PlanPrune().Delete(t.Context()); err != nil || len(done.Kept) != 2 || !errors.Is(done.Kept[0].Reason, hub.ErrInUse) || done.Kept[1].Kind != hub.DeleteBlob {
		t.Fatalf("%+v %v", done, err)
	}
	settle(t, dir)
	for name, data := range files {
		write(t, filepath.Join(blobs, filepath.FromSlash(name)), data)
	}
	p := scan(t, dir).PlanPrune()
	if got := kinds(p.Items); got != "revision blob blob incomplete incomplete incomplete incomplete incomplete trash" {
		t.Errorf("plan %q", got)
	}
	deleteAll(t, p)
	info := scan(t, dir)
	if len(info.Warnings)+len(info.Incomplete)+len(info.Unused) != 0 || len(info.Repos) != 2 || len(info.Repos[1].Revisions) != 1 {
		t.Errorf("%+v", info)
	}
	if string(info.Repos[1].Revisions[0].Commit) != s.Commit("", "org/demo", "main") {
		t.Error("the wrong revision went")
	}
	for _, name := range []string{"README of this folder", "." + lost + ".00c0ffee.shared.tmp"} {
		if _, err := os.Stat(filepath.Join(blobs, name)); err != nil {
			t.Error(err)
		}
	}
	if again := info.PlanPrune(); len(again.Items) != 0 {
		t.Errorf("a second prune has work: %+v", again)
	}
}

// A partial that somebody writes is left, with its journal.
func TestPruneKeepsLivePartials(t *testing.T) {
	c, _ := filledCache(t)
	release, err := hub.HoldPartialForTest(c, demo, sha([]byte("live")), 5<<20)
	if err != nil {
		t.Fatal(err)
	}
	info := scan(t, c.CacheDir())
	if len(info.Incomplete) != 2 {
		t.Fatalf("%+v", info.Incomplete)
	}
	done, err := info.PlanPrune().Delete(t.Context())
	if err != nil || len(done.Items) != 0 || len(done.Kept) != 2 {
		t.Fatalf("%+v %v", done, err)
	}
	for _, k := range done.Kept {
		if !errors.Is(k.Reason, hub.ErrInUse) {
			t.Error(k)
		}
	}
	if done, err = info.PlanDelete(hub.CacheTarget{Repo: demo}).Delete(t.Context()); err != nil || len(done.Kept) != 1 {
		t.Fatalf("%+v %v", done, err)
	}
	if got := partials(t, c.CacheDir()); len(got) != 2 {
		t.Errorf("left are %v", got)
	}
	release()
	deleteAll(t, scan(t, c.CacheDir()).PlanPrune())
}

// A journal of another host stays as long as it may be in use.
func TestPruneKeepsForeignPartials(t *testing.T) {
	c, _ := filledCache(t)
	etag := sha([]byte("far"))
	stem := filepath.Join(c.CacheDir(), "models--org--demo", "blobs", etag+".00c0ffee")
	write(t, stem+".incomplete", "data")
	write(t, stem+".journal.incomplete", `{"format":1,"etag":"`+etag+`","size":5242880,"part":1048576,"pid":1,"host":"elsewhere.invalid"}`+"\n")
	p := scan(t, c.CacheDir()).PlanPrune()
	done, err := p.Delete(t.Context())
	if err != nil || len(done.Kept) != 2 {
		t.Fatalf("%+v %v", done, err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(stem+".journal.incomplete", old, old); err != nil {
		t.Fatal(err)
	}
	deleteAll(t, p)
}

// The payload of the shared store goes with its last reference, not before.
func TestDeleteShared(t *testing.T) {
	c, s := filledCache(t)
	dir := c.CacheDir()
	payload := shareBlob(t, dir, "model.safetensors")
	main := hub.CacheTarget{Commit: hub.Commit(s.Commit("", "org/demo", "main"))}
	// A second repository refers to it.
	etag := sha(demoFiles()["model.safetensors"])
	other := filepath.Join(dir, "models--org--other")
	cm := strings.Repeat("c", 40)
	rel, err := filepath.Rel(filepath.Join(other, "blobs"), payload)
	if err != nil {
		t.Fatal(err)
	}
	symlink(t, rel, filepath.Join(other, "blobs", etag))
	symlink(t, "../../blobs/"+etag, filepath.Join(other, "snapshots", cm, "model.safetensors"))
	write(t, payload+".refs", "models--org--demo/blobs/"+etag+"\nmodels--org--other/blobs/"+etag+"\n")

	p := scan(t, dir).PlanDelete(main)
	if kinds(p.Items) != "revision blob" || p.Size >= 300_000 {
		t.Fatalf("%+v", p)
	}
	deleteAll(t, p)
	wantFile(t, payload, demoFiles()["model.safetensors"])

	info := scan(t, dir)
	p = info.PlanDelete(hub.CacheTarget{Commit: hub.Commit(cm)})
	if kinds(p.Items) != "repo shared" || p.Size != 300_000 {
		t.Fatalf("%+v", p)
	}
	deleteAll(t, p)
	if _, err := os.Stat(payload); err == nil {
		t.Error("the payload is still there")
	}
	if after := scan(t, dir); info.SizeOnDisk-after.SizeOnDisk != 300_000 {
		t.Errorf("%d bytes went", info.SizeOnDisk-after.SizeOnDisk)
	}
}

func TestDeleteStopsWithContext(t *testing.T) {
	c, _ := filledCache(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := tree(t, c.CacheDir())
	if _, err := scan(t, c.CacheDir()).PlanDelete(hub.CacheTarget{Repo: demo}).Delete(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if !slices.Equal(before, tree(t, c.CacheDir())) {
		t.Error("something is gone")
	}
}

// What cannot be deleted stays and says why; the rest goes on.
func TestDeleteKeepsWhatFails(t *testing.T) {
	c, s := filledCache(t)
	cm := hub.Commit(s.Commit("", "org/demo", "main"))
	readme := filepath.Join(c.CacheDir(), "models--org--demo", "snapshots", string(cm), "README.md")
	p := scan(t, c.CacheDir()).PlanDelete(hub.CacheTarget{Repo: demo, Commit: cm, File: "README.md"}, hub.CacheTarget{Repo: demo, Commit: cm, File: "config.json"})
	if err := os.Remove(readme); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(readme, "x"), "a directory with something in it")
	done, err := p.Delete(t.Context())
	if err != nil || kinds(done.Items) != "file" || len(done.Kept) != 1 || done.Kept[0].Path != readme || done.Kept[0].Reason == nil {
		t.Errorf("%+v %v", done, err)
	}
}

// Downloads and prunes of one cache at the same time: a download that ends
// well has the right bytes, and in the end the cache is whole.
func TestPruneBesideDownloads(t *testing.T) {
	s := twoRevisions(t)
	c := newClient(t, s)
	stop := make(chan struct{})
	var pruning sync.WaitGroup
	pruning.Add(1)
	go func() {
		defer pruning.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if info, err := hub.ScanCache(c.CacheDir()); err == nil {
				if _, err := info.PlanPrune().Delete(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for range 15 {
		for _, rev := range []string{"main", "refs/pr/1"} {
			snap, err := c.Snapshot(t.Context(), demo, rev, hub.SnapshotOptions{})
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, filepath.Join(snap.Dir, "sub", "pytorch.bin"), demoFiles()["sub/pytorch.bin"])
		}
		if _, err := scan(t, c.CacheDir()).PlanDelete(hub.CacheTarget{Repo: demo}).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	pruning.Wait()
	wantClean(t, c.CacheDir())
	if info := scan(t, c.CacheDir()); len(info.Warnings) != 0 {
		t.Error(info.Warnings)
	}
}

// Any order of partial deletions keeps the sizes true and the rest readable.
func TestDeleteAnyOrder(t *testing.T) {
	c, _ := filledCache(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(c.CacheDir())); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 4).Draw(rt, "steps") {
			info := scan(t, dir)
			var all []hub.CacheTarget
			for _, r := range info.Repos {
				for _, rev := range r.Revisions {
					all = append(all, hub.CacheTarget{Repo: r.Repo, Commit: rev.Commit})
					for _, f := range rev.Files {
						all = append(all, hub.CacheTarget{Repo: r.Repo, Commit: rev.Commit, File: f.Path}, hub.CacheTarget{Repo: r.Repo, File: f.Path})
					}
				}
			}
			if len(all) == 0 {
				return
			}
			chosen := rapid.SliceOfN(rapid.SampledFrom(all), 1, 3).Draw(rt, "targets")
			p := info.PlanDelete(chosen...)
			done, err := p.Delete(t.Context())
			after := scan(t, dir)
			if err != nil || len(done.Kept) != 0 || info.SizeOnDisk-after.SizeOnDisk != p.Size || len(after.Warnings)+len(after.Unused) != 0 {
				rt.Fatalf("%v: %+v, %d bytes before and %d after, %v", err, p, info.SizeOnDisk, after.SizeOnDisk, after.Warnings)
			}
			for _, target := range chosen {
				if again := after.PlanDelete(target); len(again.NotFound) != 1 {
					rt.Fatalf("%v is still there", target)
				}
			}
		}
		wantClean(t, dir)
	})
}
