package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxTreeFiles = 5_000_000
	maxTreeFile  = 1 << 30
	treeFormat   = 1
)

// parseTree reads one page of a tree answer and keeps the files. Entries
// whose type is neither file nor directory are skipped: some servers send
// stray ones. A file with an unsafe name fails the whole listing.
func parseTree(body []byte) ([]File, error) {
	var entries []wireEntry
	if err := json.Unmarshal(body, &entries); err != nil {
		return nil, &Error{Kind: ErrMetadata, Message: "the file listing is not valid JSON"}
	}
	files := make([]File, 0, len(entries))
	for _, e := range entries {
		if e.Type != "file" {
			continue
		}
		f := e.file()
		if err := f.check(); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// check holds a listed file to the rules that everything after relies on.
func (f File) check() error {
	if err := CheckPath(f.Path); err != nil {
		return err
	}
	switch {
	case f.Size < 0:
		return &Error{Kind: ErrMetadata, File: f.Path, Message: fmt.Sprintf("listed with the size %d", f.Size)}
	case f.SHA256 != "" && !isSHA256(f.SHA256):
		return &Error{Kind: ErrMetadata, File: f.Path, Message: "listed with a malformed sha256"}
	case f.BlobID != "" && !validEtag(f.BlobID), f.Etag() == "":
		return &Error{Kind: ErrMetadata, File: f.Path, Message: "listed without a usable blob id"}
	}
	return nil
}

// sortFiles orders by path and refuses a name that occurs twice.
func sortFiles(files []File) error {
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for i := 1; i < len(files); i++ {
		if files[i].Path == files[i-1].Path {
			return &Error{Kind: ErrMetadata, File: files[i].Path, Message: "listed twice"}
		}
	}
	return nil
}

// List returns every file of a commit, sorted by path. A listing is fetched
// once and then kept in the cache, since a commit never changes. Offline, a
// listing that is not cached is an [ErrOffline].
func (c *Client) List(ctx context.Context, r Repo, commit Commit) ([]File, error) {
	files, err := c.list(ctx, r, commit)
	if err != nil {
		return nil, withPlace(err, "list", r, string(commit), "")
	}
	return files, nil
}

func (c *Client) list(ctx context.Context, r Repo, commit Commit) ([]File, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if !IsCommit(string(commit)) {
		return nil, &Error{Kind: ErrInvalidRevision, Message: "a listing needs a full commit hash"}
	}
	rc := c.cacheOf(r)
	if files, ok := c.knownTree(rc, commit); ok {
		return files, nil
	}
	files, err := c.fetchTree(ctx, r, commit)
	if err != nil {
		return nil, err
	}
	// Without a snapshot directory there is no repository in the cache yet,
	// and a lone trees/ would look like a damaged one.
	if exists, _ := isDir(rc.snapshot(commit)); exists {
		c.keepTree(rc, commit, files)
	}
	return files, nil
}

func (c *Client) keepTree(rc repoCache, commit Commit, files []File) {
	if err := rc.writeTree(commit, files); err != nil {
		c.log.Debug("listing not cached", "err", err)
	}
}

func isDir(p string) (bool, error) {
	st, err := os.Stat(extended(p))
	return err == nil && st.IsDir(), err
}

// fetchTree asks for all pages of a recursive listing.
func (c *Client) fetchTree(ctx context.Context, r Repo, commit Commit) ([]File, error) {
	first, err := url.Parse(c.apiURL(r, "tree", string(commit)) + "?recursive=true&expand=false")
	if err != nil {
		return nil, err
	}
	var files []File
	err = c.pages(ctx, first, func(body []byte) error {
		more, err := parseTree(body)
		if err != nil {
			return err
		}
		if files = append(files, more...); len(files) > maxTreeFiles {
			return &Error{Kind: ErrMetadata, URL: redactURL(first), Message: fmt.Sprintf("more than %d files", maxTreeFiles)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return files, sortFiles(files)
}

// The listing cache is Python's: trees/{commit}.json.
type treeFile struct {
	FormatVersion int                       `json:"format_version"`
	Files         map[string]treeFileRecord `json:"files"`
}

type treeFileRecord struct {
	Size      int64  `json:"size"`
	BlobID    string `json:"blob_id"`
	LFSSHA256 string `json:"lfs_sha256,omitempty"`
	LFSSize   *int64 `json:"lfs_size,omitempty"`
	XetHash   string `json:"xet_hash,omitempty"`
}

func (rc repoCache) treePath(commit Commit) string {
	return filepath.Join(rc.dir, "trees", string(commit)+".json")
}

// readTree returns a cached listing, or false if there is none that can be
// used.
func (rc repoCache) readTree(commit Commit) ([]File, bool) {
	b, err := readSmall(rc.treePath(commit), maxTreeFile)
	if err != nil {
		return nil, false
	}
	return decodeTree(b)
}

func decodeTree(b []byte) ([]File, bool) {
	var t treeFile
	if json.Unmarshal(b, &t) != nil || t.FormatVersion != treeFormat || t.Files == nil {
		return nil, false
	}
	files := make([]File, 0, len(t.Files))
	for path, rec := range t.Files {
		f := File{Path: path, Size: rec.Size, BlobID: rec.BlobID, SHA256: rec.LFSSHA256, XetHash: rec.XetHash}
		if rec.LFSSHA256 != "" && rec.LFSSize != nil {
			f.Size = *rec.LFSSize
		}
		if f.check() != nil || rec.XetHash != "" && !isHex(rec.XetHash, 64) {
			return nil, false
		}
		files = append(files, f)
	}
	return files, sortFiles(files) == nil
}

func encodeTree(files []File) ([]byte, error) {
	t := treeFile{FormatVersion: treeFormat, Files: make(map[string]treeFileRecord, len(files))}
	for _, f := range files {
		rec := treeFileRecord{Size: f.Size, BlobID: f.BlobID, LFSSHA256: f.SHA256, XetHash: f.XetHash}
		if f.SHA256 != "" {
			rec.LFSSize = &f.Size
		}
		t.Files[f.Path] = rec
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(t); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func (rc repoCache) writeTree(commit Commit, files []File) error {
	b, err := encodeTree(files)
	if err != nil {
		return err
	}
	p := rc.treePath(commit)
	if err := os.MkdirAll(extended(filepath.Dir(p)), 0o777); err != nil {
		return err
	}
	return writeFileAtomic(p, b)
}
