package hub

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Snapshot brings the selected files of a revision into the cache, several at
// once, and returns where they lie. All files are of one commit.
//
// A branch costs one request to learn the commit, and nothing more if its
// files are cached. A full commit hash with its listing and files in the
// cache costs none. Offline or with LocalOnly the cache must hold every
// selected file, else the error matches [ErrIncomplete]; without a cached
// listing nobody can tell, and the result is marked Unverified.
func (c *Client) Snapshot(ctx context.Context, r Repo, revision string, o SnapshotOptions) (Snapshot, error) {
	s, err := c.snapshot(ctx, r, revision, o)
	if err != nil {
		return Snapshot{}, withPlace(err, "snapshot", r, revision, "")
	}
	return s, nil
}

func (c *Client) snapshot(ctx context.Context, r Repo, revision string, o SnapshotOptions) (Snapshot, error) {
	if err := r.Validate(); err != nil {
		return Snapshot{}, err
	}
	revision, err := checkRevision(revision)
	if err != nil {
		return Snapshot{}, err
	}
	for _, f := range o.Files {
		if err := CheckPath(f); err != nil {
			return Snapshot{}, err
		}
	}
	if err := c.checkLocal(o); err != nil {
		return Snapshot{}, err
	}
	rc := c.cacheOf(r)
	if c.opts.Offline || o.LocalOnly {
		return rc.local(rc.readRef(revision), o)
	}
	cm := Commit(revision)
	if !IsCommit(revision) {
		if cm, err = c.remoteCommit(ctx, r, revision, rc.readRef(revision) != ""); err != nil {
			return c.fallBack(ctx, rc, rc.readRef(revision), o, err)
		}
	}
	files, listed := c.knownTree(rc, cm)
	if !listed {
		if files, err = c.fetchTree(ctx, r, cm); err != nil {
			return c.fallBack(ctx, rc, cm, o, err)
		}
	}
	selected, err := o.filter(files)
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Dir: rc.snapshot(cm), Commit: cm, Files: selected}
	if err := c.checkCollisions(rc.root, selected); err != nil {
		return Snapshot{}, err
	}
	missing, err := rc.missing(cm, selected)
	if err != nil {
		return Snapshot{}, err
	}
	if c.opts.Force {
		missing = selected
	}
	c.plan(r, selected, missing)
	if len(missing) == 0 && listed {
		_ = rc.writeRef(revision, cm)
		return s, nil
	}
	if err := c.prepare(rc, revision, cm); err != nil {
		return Snapshot{}, err
	}
	if !listed {
		c.keepTree(rc, cm, files)
	}
	if err := c.snapshotSpace(rc, missing); err != nil {
		return Snapshot{}, err
	}
	workers := c.opts.Workers
	if o.Workers > 0 {
		workers = o.Workers
	}
	return s, forEach(ctx, missing, workers, func(ctx context.Context, f File) error {
		if _, err := c.fetch(ctx, r, cm, f); err != nil {
			return withPlace(err, "download", r, string(cm), f.Path)
		}
		return nil
	})
}

// checkLocal refuses a call that contradicts the client.
func (c *Client) checkLocal(o SnapshotOptions) error {
	if c.opts.Force && o.LocalOnly {
		return &Error{Kind: ErrBadRequest, Message: "Force and LocalOnly exclude each other"}
	}
	return nil
}

// knownTree is a cached listing that may be used.
func (c *Client) knownTree(rc repoCache, cm Commit) ([]File, bool) {
	if c.opts.Force {
		return nil, false
	}
	return rc.readTree(cm)
}

// fallBack answers from the cache when the Hub cannot be reached.
func (c *Client) fallBack(ctx context.Context, rc repoCache, cm Commit, o SnapshotOptions, cause error) (Snapshot, error) {
	if cm == "" || c.opts.Force || !mayFallBack(ctx, cause) {
		return Snapshot{}, cause
	}
	s, err := rc.local(cm, o)
	if err != nil {
		// The reason for looking at the cache says more than what it lacks,
		// unless it holds a part.
		if errors.Is(err, ErrIncomplete) {
			return Snapshot{}, &Error{Kind: ErrIncomplete, Err: errors.Join(err, cause)}
		}
		return Snapshot{}, cause
	}
	if s.Unverified && len(o.Files) == 0 {
		// Without a listing the cache may hold any part of the snapshot, and
		// nobody asked to be content with that.
		return Snapshot{}, cause
	}
	c.log.Warn("the Hub cannot be reached, using the cached snapshot", "dir", s.Dir, "err", cause)
	return s, nil
}

// local builds a snapshot from the cache alone.
func (rc repoCache) local(cm Commit, o SnapshotOptions) (Snapshot, error) {
	dir := rc.snapshot(cm)
	if cm == "" {
		return Snapshot{}, &Error{Kind: ErrLocalEntryNotFound, Err: ErrOffline, Message: "the cache does not know this revision",
			Hint: "run once with network access"}
	}
	if ok, _ := isDir(dir); !ok {
		return Snapshot{}, &Error{Kind: ErrLocalEntryNotFound, Err: ErrOffline, Message: "the cache holds no file of commit " + string(cm),
			Hint: "run once with network access"}
	}
	files, listed := rc.readTree(cm)
	if !listed {
		var err error
		if files, err = scanSnapshot(dir); err != nil {
			return Snapshot{}, &Error{Kind: ErrCache, Err: err}
		}
		for _, name := range o.Files {
			if p, err := rc.pointer(cm, name); err != nil || !exists(p) {
				return Snapshot{}, &Error{Kind: ErrLocalEntryNotFound, File: name, Err: ErrOffline}
			}
		}
	}
	selected, err := o.filter(files)
	if err != nil {
		return Snapshot{}, err
	}
	missing, err := rc.missing(cm, selected)
	if err != nil {
		return Snapshot{}, err
	}
	if len(missing) > 0 {
		e := &IncompleteError{Dir: dir, Count: len(missing)}
		for _, f := range missing[:min(len(missing), 16)] {
			e.Missing = append(e.Missing, f.Path)
		}
		return Snapshot{}, &Error{Kind: ErrIncomplete, Err: e, Hint: "run again with network access"}
	}
	return Snapshot{Dir: dir, Commit: cm, Files: selected, Unverified: !listed}, nil
}

// scanSnapshot lists what lies in a snapshot directory.
func scanSnapshot(dir string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || !exists(p) {
			return err
		}
		f := File{Path: filepath.ToSlash(rel)}
		if st, err := os.Stat(extended(p)); err == nil {
			f.Size = st.Size()
		}
		files = append(files, f)
		return nil
	})
	if err == nil {
		err = sortFiles(files)
	}
	return files, err
}

// missing are the files whose pointers lead nowhere.
func (rc repoCache) missing(cm Commit, files []File) ([]File, error) {
	var out []File
	for _, f := range files {
		p, err := rc.pointer(cm, f.Path)
		if err != nil {
			return nil, err
		}
		if !exists(p) {
			out = append(out, f)
		}
	}
	return out, nil
}

// plan reports what there is to do.
func (c *Client) plan(r Repo, selected, missing []File) {
	e := Event{Kind: PlanReady, Repo: r, Files: len(selected)}
	absent := make(map[string]bool, len(missing))
	for _, f := range missing {
		absent[f.Path] = true
	}
	for _, f := range selected {
		e.Total += f.Size
	}
	c.progress.send(e)
	for _, f := range selected {
		if !absent[f.Path] {
			c.progress.send(Event{Kind: FileCached, Repo: r, File: f.Path, Done: f.Size, Total: f.Size})
		}
	}
}

// snapshotSpace checks the volume once for all files.
func (c *Client) snapshotSpace(rc repoCache, files []File) error {
	var need int64
	seen := map[string]bool{}
	for _, f := range files {
		if etag := f.Etag(); !seen[etag] {
			seen[etag] = true
			if c.opts.Force || !exists(rc.blob(etag)) {
				need += max(f.Size-rc.spot(etag).partialBytes(), 0)
			}
		}
	}
	return c.checkSpace(rc.root, need)
}
