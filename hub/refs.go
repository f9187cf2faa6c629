package hub

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// errInTheWay: a ref's name is taken by the folder of others, or the reverse.
var errInTheWay = errors.New("another revision's name is in the way")

// readRef returns the commit that a revision stood for when it was last
// seen, or "". Spaces and line ends around the hash are tolerated; anything
// that is not a hash counts as absent.
func (rc repoCache) readRef(revision string) Commit {
	if IsCommit(revision) {
		return Commit(revision)
	}
	p, err := safeJoin(filepath.Join(rc.dir, "refs"), revision)
	if err != nil {
		return ""
	}
	b, err := readSmall(p, maxSmallFile)
	if err != nil {
		return ""
	}
	return parseRef(b)
}

func parseRef(b []byte) Commit {
	s := strings.TrimSpace(string(b))
	if !IsCommit(s) {
		return ""
	}
	return Commit(s)
}

// writeRef remembers a revision's commit: exactly 40 bytes, replaced in one
// step, and only if they change.
func (rc repoCache) writeRef(revision string, cm Commit) error {
	if revision == string(cm) {
		return nil
	}
	p, err := safeJoin(filepath.Join(rc.dir, "refs"), revision)
	if err != nil {
		return err
	}
	if b, err := readSmall(p, maxSmallFile); err == nil && string(b) == string(cm) {
		return nil
	}
	if ok, _ := isDir(p); ok {
		return errInTheWay
	}
	for dir := filepath.Dir(p); len(dir) > len(rc.dir); dir = filepath.Dir(dir) {
		if regular(dir) {
			return errInTheWay
		}
	}
	for try := 0; ; try++ {
		if err := os.MkdirAll(extended(filepath.Dir(p)), 0o777); err != nil {
			return err
		}
		err := writeFileAtomic(p, []byte(cm))
		if !errors.Is(err, fs.ErrNotExist) || try == 5 {
			return err
		}
		// A deletion took the empty folder just now.
	}
}

// prepare makes the directories of a download in the order that scanners of
// the cache rely on: a ref must never name a commit without a snapshot
// directory.
func (c *Client) prepare(rc repoCache, revision string, cm Commit) error {
	for _, d := range []string{rc.blobs(), rc.snapshot(cm)} {
		if err := os.MkdirAll(extended(d), 0o777); err != nil {
			return &Error{Kind: ErrCache, Err: err}
		}
	}
	tagCache(rc.root)
	if err := rc.writeRef(revision, cm); err != nil && !readOnly(err) {
		// A branch x may have been replaced by x/y, or the other way round.
		// Then the old one's file is in the way, and only the memory of the
		// name is lost.
		if !errors.Is(err, errInTheWay) {
			return &Error{Kind: ErrCache, Err: err}
		}
		c.log.Debug("ref not remembered", "err", err)
	}
	return nil
}
