package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// VerifyOptions says what [Client.Verify] holds the files against.
type VerifyOptions struct {
	// LocalDir is a directory of plain files to check in place of the cache.
	LocalDir string
	// LocalOnly uses no network for this call: the listing is the cached one.
	LocalOnly bool
	// Workers is how many files are read at once (default 2).
	Workers int
}

// Verification is the outcome of [Client.Verify]. All names are
// sorted.
type Verification struct {
	Repo   Repo
	Commit Commit
	Dir    string
	// Checked files of Bytes bytes were read and compared.
	Checked int
	Bytes   int64
	// Mismatches are files whose content is not what it should be.
	Mismatches []FileMismatch
	// Missing files are in the listing and not on disk, Extra ones the
	// reverse. Both are empty when Unlisted.
	Missing, Extra []string
	// Unlisted is set when no listing could be had: files were compared with
	// the names of their blobs alone.
	Unlisted bool
	// Unknown files could not be compared with anything: no listing, and no
	// blob whose name states a digest.
	Unknown []string
}

// OK reports whether every file that was compared has the right content.
// Missing and Extra files do not count: a snapshot may hold a part of a
// commit on purpose.
func (v *Verification) OK() bool { return len(v.Mismatches) == 0 }

// FileMismatch is a file with the wrong content. Algorithm is "sha256" or
// "git-sha1", and Actual a digest; or Problem says why there is none.
type FileMismatch struct {
	Path, Algorithm, Expected, Actual string
	Problem                           string
}

// Verify reads every file of a revision in the cache and compares its
// digest with the Hub's listing of the commit; offline with the listing in
// the cache, or else with the name of its blob. Revision "" is the cached
// main, or the only commit that is cached. With LocalDir it checks the plain
// files of a directory, as [Client.SnapshotTo] makes them. It writes nothing.
func (c *Client) Verify(ctx context.Context, r Repo, revision string, o VerifyOptions) (*Verification, error) {
	v, err := c.verify(ctx, r, revision, o)
	if err != nil {
		return nil, withPlace(err, "verify", r, revision, "")
	}
	return v, nil
}

func (c *Client) verify(ctx context.Context, r Repo, revision string, o VerifyOptions) (*Verification, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	local := c.opts.Offline || o.LocalOnly
	rc := c.cacheOf(r)
	v := &Verification{Repo: r}
	var err error
	trees := rc
	if o.LocalDir != "" {
		l, err := newLocalDir(o.LocalDir)
		if err != nil {
			return nil, err
		}
		v.Dir, trees = l.dir, repoCache{root: l.dir, dir: l.meta()}
		if v.Commit, err = c.localCommit(ctx, r, rc, revision, local); err != nil {
			return nil, err
		}
	} else {
		if v.Commit, err = rc.cachedCommit(revision); err != nil {
			return nil, err
		}
		v.Dir = rc.snapshot(v.Commit)
	}
	if !realDir(v.Dir) {
		return nil, &Error{Kind: ErrLocalEntryNotFound, Message: v.Dir + " is no directory", Hint: "download it first"}
	}
	files, err := c.listingFor(ctx, r, trees, v.Commit, local)
	if err != nil {
		return nil, err
	}
	there, err := filesBelow(v.Dir, o.LocalDir != "")
	if err != nil {
		return nil, &Error{Kind: ErrCache, Err: err}
	}
	v.Unlisted = files == nil
	checks := v.compare(files, there)
	return v, c.checkAll(ctx, v, checks, o.Workers)
}

// cachedCommit is the commit that a revision stands for in the cache.
func (rc repoCache) cachedCommit(revision string) (Commit, error) {
	rev, err := checkRevision(revision)
	if err != nil {
		return "", err
	}
	if cm := rc.readRef(rev); cm != "" {
		return cm, nil
	}
	if revision == "" {
		var commits []string
		entries, _ := os.ReadDir(extended(filepath.Join(rc.dir, "snapshots")))
		for _, e := range entries {
			if e.IsDir() && IsCommit(e.Name()) {
				commits = append(commits, e.Name())
			}
		}
		switch len(commits) {
		case 1:
			return Commit(commits[0]), nil
		case 0:
		default:
			return "", &Error{Kind: ErrInvalidRevision, Message: fmt.Sprintf("%d commits are cached and none is main", len(commits)), Hint: "name a revision"}
		}
	}
	return "", &Error{Kind: ErrLocalEntryNotFound, Message: "the cache does not know this revision", Hint: "download it first"}
}

// localCommit is the commit with which a directory is compared.
func (c *Client) localCommit(ctx context.Context, r Repo, rc repoCache, revision string, local bool) (Commit, error) {
	if local {
		return rc.cachedCommit(revision)
	}
	return c.resolve(ctx, r, revision)
}

// listingFor prefers the Hub's own words to a cached file, since that file
// may be what is damaged. It returns nil where no listing can be had.
func (c *Client) listingFor(ctx context.Context, r Repo, trees repoCache, cm Commit, local bool) ([]File, error) {
	if !local {
		files, err := c.fetchTree(ctx, r, cm)
		if err == nil {
			return append([]File{}, files...), nil
		}
		if !mayFallBack(ctx, err) {
			return nil, err
		}
		c.log.Warn("the Hub cannot be reached, verifying by what the cache knows", "repo", r.String(), "err", err)
	}
	files, ok := trees.readTree(cm)
	if !ok {
		return nil, nil
	}
	return append([]File{}, files...), nil
}

// filesBelow lists entries that are no directories, with their paths. In a
// local directory the notes of clients and of git are none of its files.
func filesBelow(dir string, local bool) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(extended(dir), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(extended(dir), p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case d.IsDir() && local && (name == ".git" || name == ".cache/huggingface"):
			return fs.SkipDir
		case !d.IsDir() && !helperFile(d.Name()):
			out[name] = filepath.Join(dir, rel)
		}
		return nil
	})
	return out, err
}

// fileCheck is one file to read.
type fileCheck struct {
	name, path, etag string
	size             int64 // expected, or negative
}

// compare pairs listing and directory and notes what lacks its other half.
func (v *Verification) compare(files []File, there map[string]string) []fileCheck {
	var checks []fileCheck
	listed := map[string]bool{}
	for _, f := range files {
		listed[f.Path] = true
		if path, ok := there[f.Path]; ok && !dangling(path) {
			checks = append(checks, fileCheck{f.Path, path, f.Etag(), f.Size})
		} else {
			v.Missing = append(v.Missing, f.Path)
		}
	}
	for name, path := range there {
		switch {
		case listed[name]:
		case !v.Unlisted:
			v.Extra = append(v.Extra, name)
		default:
			if to, err := os.Readlink(extended(path)); err == nil && validEtag(filepath.Base(to)) {
				checks = append(checks, fileCheck{name, path, filepath.Base(to), -1})
			} else {
				v.Unknown = append(v.Unknown, name)
			}
		}
	}
	for _, names := range [][]string{v.Missing, v.Extra, v.Unknown} {
		slices.Sort(names)
	}
	slices.SortFunc(checks, func(a, b fileCheck) int { return strings.Compare(a.name, b.name) })
	return checks
}

// dangling reports whether a link leads nowhere.
func dangling(path string) bool {
	_, err := os.Stat(extended(path))
	return errors.Is(err, fs.ErrNotExist)
}

func (c *Client) checkAll(ctx context.Context, v *Verification, checks []fileCheck, workers int) error {
	if workers <= 0 {
		workers = 2
	}
	byName := make(map[string]fileCheck, len(checks))
	files := make([]File, len(checks))
	plan := Event{Kind: PlanReady, Repo: v.Repo, Files: len(checks)}
	for i, k := range checks {
		byName[k.name], files[i] = k, File{Path: k.name}
		plan.Total += max(k.size, 0)
	}
	c.progress.send(plan)
	var mu sync.Mutex
	err := forEach(ctx, files, workers, func(ctx context.Context, f File) error {
		m, n, err := c.checkFile(ctx, v.Repo, byName[f.Path])
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		v.Checked++
		v.Bytes += n
		if m != nil {
			v.Mismatches = append(v.Mismatches, *m)
		}
		return nil
	})
	slices.SortFunc(v.Mismatches, func(a, b FileMismatch) int { return strings.Compare(a.Path, b.Path) })
	return err
}

// checkFile reads one file. What is wrong with the file is a mismatch; an
// error is only that the context has ended.
func (c *Client) checkFile(ctx context.Context, r Repo, k fileCheck) (*FileMismatch, int64, error) {
	m := &FileMismatch{Path: k.name, Expected: k.etag}
	problem := func(text string) (*FileMismatch, int64, error) {
		m.Problem = text
		c.progress.send(Event{Kind: FileFailed, Repo: r, File: k.name, Err: errors.New(text)})
		return m, 0, nil
	}
	// Before opening: a pipe would block.
	st, err := os.Stat(extended(k.path))
	switch {
	case err != nil:
		return problem(err.Error())
	case !st.Mode().IsRegular():
		return problem("not a regular file")
	case k.size >= 0 && st.Size() != k.size:
		return problem(fmt.Sprintf("%d bytes, expected %d", st.Size(), k.size))
	}
	f, err := os.Open(extended(k.path))
	if err != nil {
		return problem(err.Error())
	}
	defer f.Close()
	h, algorithm := newDigest(k.etag, st.Size())
	m.Algorithm = algorithm
	at := Event{Kind: FileStarted, Repo: r, File: k.name, Total: st.Size()}
	c.progress.send(at)
	at.Kind = FileProgress
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return nil, at.Done, err
		}
		n, err := f.Read(buf)
		_, _ = h.Write(buf[:n])
		if at.Done += int64(n); n > 0 {
			c.progress.send(at)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return problem(err.Error())
		}
	}
	if m.Actual = fmt.Sprintf("%x", h.Sum(nil)); m.Actual != k.etag {
		c.progress.send(Event{Kind: FileFailed, Repo: r, File: k.name, Total: st.Size(), Err: ErrChecksum})
		return m, at.Done, nil
	}
	at.Kind = FileDone
	c.progress.send(at)
	return nil, at.Done, nil
}
