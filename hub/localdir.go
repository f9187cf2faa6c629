package hub

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// localDir is a directory that holds the plain files of a repository. What
// is known about each of them stands under .cache/huggingface, in the form
// that Python's client reads.
type localDir struct{ dir string }

func (l localDir) meta() string { return filepath.Join(l.dir, ".cache", "huggingface") }

// localPaths are the places that belong to one file.
type localPaths struct{ file, metadata, lock string }

func (l localDir) paths(file string) (localPaths, error) {
	p, err := safeJoin(l.dir, file)
	if err != nil {
		return localPaths{}, err
	}
	// A repository must not write the notes about itself.
	if f := strings.ToLower(file) + "/"; strings.HasPrefix(f, ".cache/huggingface/") {
		return localPaths{}, &Error{Kind: ErrUnsafePath, Message: fmt.Sprintf("file name %q lies where the client keeps its notes", clip(file, 128))}
	}
	m, err := safeJoin(filepath.Join(l.meta(), "download"), file)
	if err != nil {
		return localPaths{}, err
	}
	return localPaths{file: p, metadata: m + ".metadata", lock: m + ".lock"}, nil
}

// spot is where Python's client puts temporary files of a local directory.
func (p localPaths) spot(etag string) spot {
	h := sha1.Sum([]byte(filepath.Base(p.metadata)))
	return spot{dir: filepath.Dir(p.metadata), stem: base64.URLEncoding.EncodeToString(h[:]) + "." + etag, final: p.file}
}

// prepare makes the directory and marks its notes as a cache for backups and
// for git.
func (l localDir) prepare() error {
	if err := os.MkdirAll(extended(l.meta()), 0o777); err != nil {
		return &Error{Kind: ErrCache, Err: err}
	}
	tagCache(l.meta())
	if ignore := filepath.Join(l.meta(), ".gitignore"); !exists(ignore) {
		_ = writeFileAtomic(ignore, []byte("*"))
	}
	return nil
}

// localNote is what is known about a file in a local directory.
type localNote struct {
	commit Commit
	etag   string
}

// note reads what is known about a file. It counts only if the file has not
// been changed since.
func (p localPaths) note() (localNote, bool) {
	b, err := readSmall(p.metadata, maxSmallFile)
	if err != nil {
		return localNote{}, false
	}
	n, at, ok := parseNote(b)
	if !ok {
		return localNote{}, false
	}
	st, err := os.Stat(extended(p.file))
	// One second of slack for coarse clocks of file systems.
	return n, err == nil && st.Mode().IsRegular() && !st.ModTime().Add(-time.Second).After(at)
}

// parseNote reads the three lines commit, etag, Unix time.
func parseNote(b []byte) (localNote, time.Time, bool) {
	lines := strings.Split(strings.TrimRight(string(b), "\r\n"), "\n")
	if len(lines) != 3 {
		return localNote{}, time.Time{}, false
	}
	n := localNote{Commit(strings.TrimSpace(lines[0])), strings.TrimSpace(lines[1])}
	sec, err := strconv.ParseFloat(strings.TrimSpace(lines[2]), 64)
	if err != nil || !(sec >= 0 && sec < 1e11) || !IsCommit(string(n.commit)) || !validEtag(n.etag) {
		return localNote{}, time.Time{}, false
	}
	return n, time.UnixMicro(int64(sec * 1e6)), true
}

func (p localPaths) writeNote(n localNote, now time.Time) error {
	text := fmt.Sprintf("%s\n%s\n%.6f\n", n.commit, n.etag, float64(now.UnixMicro())/1e6)
	return writeFileAtomic(p.metadata, []byte(text))
}

// DownloadTo brings one file into a directory, under its repository path, and
// returns where it lies. The cache is not filled, but used if it holds the
// file. A file that is there and right, by the notes in .cache/huggingface or
// by its digest, is left alone; one that differs is replaced after the new
// content was verified.
func (c *Client) DownloadTo(ctx context.Context, r Repo, revision, file, dir string) (string, error) {
	rev, err := checkTarget(r, revision, file)
	var path string
	if err == nil {
		path, err = c.downloadTo(ctx, r, rev, file, dir)
	}
	if err != nil {
		return "", withPlace(err, "download", r, revision, file)
	}
	return path, nil
}

func newLocalDir(dir string) (localDir, error) {
	if dir == "" {
		return localDir{}, &Error{Kind: ErrCache, Message: "no directory given"}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return localDir{}, &Error{Kind: ErrCache, Err: err}
	}
	return localDir{abs}, nil
}

func (c *Client) downloadTo(ctx context.Context, r Repo, revision, file, dir string) (string, error) {
	l, err := newLocalDir(dir)
	if err != nil {
		return "", err
	}
	p, err := l.paths(file)
	if err != nil {
		return "", err
	}
	n, known := p.note()
	if known && !c.opts.Force && string(n.commit) == revision {
		return p.file, nil
	}
	if c.opts.Offline {
		if exists(p.file) {
			return p.file, nil
		}
		cached := c.cacheOf(r).cached(revision, file)
		if cached == "" {
			return "", c.cacheOf(r).notCached(revision, file)
		}
		if err := l.prepare(); err != nil {
			return "", err
		}
		if err := p.copyFrom(cached); err != nil {
			return "", err
		}
		return p.file, nil
	}
	there := !c.opts.Force && exists(p.file)
	m, err := c.metadataQuick(ctx, r, revision, file, there)
	if err != nil {
		if there && mayFallBack(ctx, err) {
			c.log.Warn("the Hub cannot be reached, keeping the file that is there", "file", p.file, "err", err)
			return p.file, nil
		}
		return "", err
	}
	if err := l.prepare(); err != nil {
		return "", err
	}
	return p.file, c.fetchTo(ctx, r, m.Commit, m.file(file), l)
}

// fetchTo makes a file of a known commit appear in a directory.
func (c *Client) fetchTo(ctx context.Context, r Repo, cm Commit, f File, l localDir) error {
	p, err := l.paths(f.Path)
	if err != nil {
		return err
	}
	for _, d := range []string{filepath.Dir(p.file), filepath.Dir(p.metadata)} {
		if err := os.MkdirAll(extended(d), 0o777); err != nil {
			return &Error{Kind: ErrCache, Err: err}
		}
	}
	etag := f.Etag()
	lock, err := c.acquire(ctx, p.lock, f.Path)
	if err != nil {
		return err
	}
	defer lock.release()
	kind := FileDone
	same, err := p.same(etag, f.Size)
	switch {
	case err != nil:
		return err
	case same && !c.opts.Force:
		kind = FileCached
		if _, noted := p.note(); !noted {
			c.tidy(p.spot(etag), etag, f.Size)
		}
	default:
		if err := c.bringTo(ctx, r, cm, f, p); err != nil {
			c.progress.send(Event{Kind: FileFailed, Repo: r, File: f.Path, Total: f.Size, Err: err})
			return err
		}
	}
	note := localNote{cm, etag}
	if old, ok := p.note(); ok && old == note {
		c.progress.send(Event{Kind: kind, Repo: r, File: f.Path, Done: f.Size, Total: f.Size})
		return nil
	}
	if err := p.writeNote(note, c.now()); err != nil {
		return &Error{Kind: ErrCache, Err: err}
	}
	c.progress.send(Event{Kind: kind, Repo: r, File: f.Path, Done: f.Size, Total: f.Size})
	return nil
}

// same reports whether the file that is there has the wanted content: by its
// note if that still holds, else by its digest.
func (p localPaths) same(etag string, size int64) (bool, error) {
	st, err := os.Stat(extended(p.file))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, &Error{Kind: ErrCache, Err: err}
	case st.IsDir():
		return false, &Error{Kind: ErrCache, Message: p.file + " is a directory"}
	case st.Size() != size:
		return false, nil
	}
	if n, ok := p.note(); ok {
		return n.etag == etag, nil
	}
	got, err := fileDigest(p.file, etag, size)
	if err != nil {
		return false, &Error{Kind: ErrCache, Err: err}
	}
	return got == etag, nil
}

// fileDigest computes the kind of digest that an etag of this shape states.
func fileDigest(path, etag string, size int64) (string, error) {
	f, err := os.Open(extended(path))
	if err != nil {
		return "", err
	}
	defer f.Close()
	h, _ := newDigest(etag, size)
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// bringTo copies a file from the cache or downloads it.
func (c *Client) bringTo(ctx context.Context, r Repo, cm Commit, f File, p localPaths) error {
	if cached := c.cacheOf(r).cached(string(cm), f.Path); cached != "" && !c.opts.Force {
		// The cache may be years old; the digest says whether it is right.
		if got, err := fileDigest(cached, f.Etag(), f.Size); err == nil && got == f.Etag() {
			return p.copyFrom(cached)
		}
	}
	return c.transferTo(ctx, r, cm, f, p.spot(f.Etag()))
}

func (p localPaths) copyFrom(cached string) error {
	for _, d := range []string{filepath.Dir(p.file), filepath.Dir(p.metadata)} {
		if err := os.MkdirAll(extended(d), 0o777); err != nil {
			return &Error{Kind: ErrCache, Err: err}
		}
	}
	if err := copyFile(filepath.Dir(p.metadata), cached, p.file); err != nil {
		return &Error{Kind: ErrCache, Err: err}
	}
	return nil
}

// SnapshotTo brings the selected files of a revision into a directory, under
// their repository paths; see [Client.DownloadTo]. Files that the directory
// holds beside them are left alone. Offline, the directory must hold every
// selected file, or the cache.
func (c *Client) SnapshotTo(ctx context.Context, r Repo, revision, dir string, o SnapshotOptions) (Snapshot, error) {
	s, err := c.snapshotTo(ctx, r, revision, dir, o)
	if err != nil {
		return Snapshot{}, withPlace(err, "snapshot", r, revision, "")
	}
	return s, nil
}

func (c *Client) snapshotTo(ctx context.Context, r Repo, revision, dir string, o SnapshotOptions) (Snapshot, error) {
	l, err := newLocalDir(dir)
	if err != nil {
		return Snapshot{}, err
	}
	if err := r.Validate(); err != nil {
		return Snapshot{}, err
	}
	revision, err = checkRevision(revision)
	if err != nil {
		return Snapshot{}, err
	}
	if err := c.checkLocal(o); err != nil {
		return Snapshot{}, err
	}
	rc := c.cacheOf(r)
	// The listing of a local directory lies beside its notes.
	trees := repoCache{root: l.dir, dir: l.meta()}
	if c.opts.Offline || o.LocalOnly {
		return c.localSnapshotTo(r, rc, trees, l, rc.readRef(revision), o)
	}
	cm := Commit(revision)
	if !IsCommit(revision) {
		if cm, err = c.remoteCommit(ctx, r, revision, rc.readRef(revision) != ""); err != nil {
			return c.fallBackTo(ctx, r, rc, trees, l, rc.readRef(revision), o, err)
		}
	}
	files, listed := c.knownTree(trees, cm)
	if !listed {
		if files, listed = c.knownTree(rc, cm); !listed {
			files, err = c.fetchTree(ctx, r, cm)
		}
		if err != nil {
			return c.fallBackTo(ctx, r, rc, trees, l, cm, o, err)
		}
		listed = false // not beside the directory's notes
	}
	selected, err := o.filter(files)
	if err != nil {
		return Snapshot{}, err
	}
	for _, f := range selected {
		if _, err := l.paths(f.Path); err != nil {
			return Snapshot{}, err
		}
	}
	if err := c.checkCollisions(l.dir, selected); err != nil {
		return Snapshot{}, err
	}
	if err := l.prepare(); err != nil {
		return Snapshot{}, err
	}
	if !listed {
		c.keepTree(trees, cm, files)
	}
	if err := c.checkSpace(l.dir, l.need(selected, c.opts.Force)); err != nil {
		return Snapshot{}, err
	}
	c.plan(r, selected, selected)
	workers := c.opts.Workers
	if o.Workers > 0 {
		workers = o.Workers
	}
	err = forEach(ctx, selected, workers, func(ctx context.Context, f File) error {
		if err := c.fetchTo(ctx, r, cm, f, l); err != nil {
			return withPlace(err, "download", r, string(cm), f.Path)
		}
		return nil
	})
	return Snapshot{Dir: l.dir, Commit: cm, Files: selected}, err
}

// need is how many bytes the missing files take.
func (l localDir) need(files []File, all bool) int64 {
	var need int64
	for _, f := range files {
		if p, err := l.paths(f.Path); err == nil && (all || !exists(p.file)) {
			need += f.Size
		}
	}
	return need
}

// unverified selects from what lies in the directory, since there is no listing.
func (l localDir) unverified(cm Commit, o SnapshotOptions) (Snapshot, error) {
	there, err := filesBelow(l.dir, true)
	if err != nil {
		return Snapshot{}, &Error{Kind: ErrCache, Err: err}
	}
	for _, name := range o.Files {
		if there[name] == "" || !exists(there[name]) {
			return Snapshot{}, &Error{Kind: ErrLocalEntryNotFound, File: name, Err: ErrOffline}
		}
	}
	files := make([]File, 0, len(there))
	for name, path := range there {
		if st, err := os.Stat(extended(path)); err == nil {
			files = append(files, File{Path: name, Size: st.Size()})
		}
	}
	if err := sortFiles(files); err != nil {
		return Snapshot{}, err
	}
	selected, err := o.filter(files)
	return Snapshot{Dir: l.dir, Commit: cm, Files: selected, Unverified: true}, err
}

// fallBackTo answers from what is there when the Hub cannot be reached and a
// listing says that it is complete.
func (c *Client) fallBackTo(ctx context.Context, r Repo, rc, trees repoCache, l localDir, cm Commit, o SnapshotOptions, cause error) (Snapshot, error) {
	if cm == "" || c.opts.Force || !mayFallBack(ctx, cause) {
		return Snapshot{}, cause
	}
	s, err := c.localSnapshotTo(r, rc, trees, l, cm, o)
	switch {
	case errors.Is(err, ErrIncomplete):
		return Snapshot{}, &Error{Kind: ErrIncomplete, Err: errors.Join(err, cause)}
	case err != nil || s.Unverified:
		return Snapshot{}, cause
	}
	c.log.Warn("the Hub cannot be reached, using the files that are there", "dir", s.Dir, "err", cause)
	return s, nil
}

// localSnapshotTo works without network: files come from the directory or
// from the cache.
func (c *Client) localSnapshotTo(r Repo, rc, trees repoCache, l localDir, cm Commit, o SnapshotOptions) (Snapshot, error) {
	files, listed := trees.readTree(cm)
	if !listed {
		files, listed = rc.readTree(cm)
	}
	if cm == "" || !listed {
		if ok, _ := isDir(l.dir); !ok {
			return Snapshot{}, &Error{Kind: ErrLocalEntryNotFound, Err: ErrOffline, Message: l.dir + " does not exist"}
		}
		return l.unverified(cm, o)
	}
	selected, err := o.filter(files)
	if err != nil {
		return Snapshot{}, err
	}
	e := &IncompleteError{Dir: l.dir}
	for _, f := range selected {
		p, err := l.paths(f.Path)
		if err != nil {
			return Snapshot{}, err
		}
		if exists(p.file) {
			continue
		}
		cached := rc.cached(string(cm), f.Path)
		if cached != "" {
			if got, err := fileDigest(cached, f.Etag(), f.Size); err != nil || got != f.Etag() {
				c.log.Warn("a cached file is not what it should be", "path", cached)
				cached = ""
			}
		}
		if cached == "" {
			if e.Count++; len(e.Missing) < 16 {
				e.Missing = append(e.Missing, f.Path)
			}
			continue
		}
		if err := l.prepare(); err != nil {
			return Snapshot{}, err
		}
		if err := p.copyFrom(cached); err != nil {
			return Snapshot{}, err
		}
		c.progress.send(Event{Kind: FileDone, Repo: r, File: f.Path, Done: f.Size, Total: f.Size})
	}
	if e.Count > 0 {
		return Snapshot{}, &Error{Kind: ErrIncomplete, Err: e, Hint: "run again with network access"}
	}
	return Snapshot{Dir: l.dir, Commit: cm, Files: selected}, nil
}

// forEach runs f for every file, several at once. The first failure stops
// the rest; what is already there stays.
func forEach(ctx context.Context, files []File, workers int, f func(context.Context, File) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan File)
	var wg sync.WaitGroup
	for range min(workers, len(files)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for file := range queue {
				if ctx.Err() != nil {
					continue
				}
				if err := f(ctx, file); err != nil {
					cancel(err)
				}
			}
		}()
	}
	for _, file := range files {
		queue <- file
	}
	close(queue)
	wg.Wait()
	return context.Cause(ctx)
}
