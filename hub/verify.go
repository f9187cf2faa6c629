package hub

import (
	"context"
	"path/filepath"
	"strings"
)

// Verification is what comparing files on disk with a listing gave. The
// lists are sorted by path.
type Verification struct {
	Commit Commit
	Dir    string
	// Good counts the files whose size and digest are right.
	Good int
	// Wrong are files whose content differs, Missing ones that are not
	// there, Extra ones that the listing does not have.
	Wrong   []ChecksumError
	Missing []string
	Extra   []string
}

// Verify reads every file of a revision that is in the cache and compares it
// with the listing: SHA-256 for LFS files, git blob ids for plain ones. With
// dir set it looks at the plain files of that directory instead, as
// [Client.SnapshotTo] makes them. It changes nothing. Missing and extra files
// are reported and not judged: a cache may hold a part on purpose.
func (c *Client) Verify(ctx context.Context, r Repo, revision, dir string) (*Verification, error) {
	v, err := c.verify(ctx, r, revision, dir)
	if err != nil {
		return nil, withPlace(err, "verify", r, revision, "")
	}
	return v, nil
}

func (c *Client) verify(ctx context.Context, r Repo, revision, dir string) (*Verification, error) {
	cm, err := c.resolve(ctx, r, revision)
	if err != nil {
		return nil, err
	}
	files, err := c.list(ctx, r, cm)
	if err != nil {
		return nil, err
	}
	v := &Verification{Commit: cm, Dir: c.cacheOf(r).snapshot(cm)}
	if dir != "" {
		l, err := newLocalDir(dir)
		if err != nil {
			return nil, err
		}
		v.Dir = l.dir
	}
	listed := make(map[string]bool, len(files))
	for _, f := range files {
		listed[f.Path] = true
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p, err := safeJoin(v.Dir, f.Path)
		if err != nil {
			return nil, err
		}
		if !exists(p) {
			v.Missing = append(v.Missing, f.Path)
			continue
		}
		// The digest of a plain file covers its length; that of an LFS file
		// cannot be met by another length either.
		got, err := fileDigest(p, f.Etag(), f.Size)
		if err != nil {
			return nil, &Error{Kind: ErrCache, File: f.Path, Err: err}
		}
		if got == f.Etag() {
			v.Good++
			continue
		}
		_, algorithm := newDigest(f.Etag(), f.Size)
		v.Wrong = append(v.Wrong, ChecksumError{File: f.Path, Algorithm: algorithm, Expected: f.Etag(), Actual: got})
	}
	if ok, _ := isDir(v.Dir); !ok {
		return v, nil
	}
	present, err := scanSnapshot(v.Dir)
	if err != nil {
		return nil, &Error{Kind: ErrCache, Err: err}
	}
	notes := filepath.ToSlash(filepath.Join(".cache", "huggingface")) + "/"
	for _, f := range present {
		if !listed[f.Path] && (dir == "" || !strings.HasPrefix(f.Path, notes)) {
			v.Extra = append(v.Extra, f.Path)
		}
	}
	return v, nil
}
