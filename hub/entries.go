package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
)

// maxPathsAsked is how many names go into one question of [Client.PathsInfo].
const maxPathsAsked = 1000

// Entry is a file or a directory of a repository, as the Hub lists it.
type Entry struct {
	// File has name, size and digests. Of a directory it has the name alone.
	File
	// Dir marks a directory.
	Dir bool
	// TreeID is the git id of a directory's tree.
	TreeID string
	// LastCommit is the last one that touched the entry, and Security what
	// the Hub's scanners say about a file. Both need Expand.
	LastCommit *CommitInfo
	Security   *FileSecurity
}

// FileSecurity is what the Hub's scanners found in a file: "safe", "unsafe",
// "suspicious", "queued", "unscanned" and others that the Hub may add.
type FileSecurity struct {
	Status string
	// Virus and Pickle are the verdicts of the two kinds of scan.
	Virus, Pickle string
}

// wireEntry is one element of a tree or paths-info answer. Unknown fields are
// tolerated.
type wireEntry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	OID  string `json:"oid"`
	Size int64  `json:"size"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
	XetHash    string `json:"xetHash"`
	LastCommit *struct {
		ID    string   `json:"id"`
		Title string   `json:"title"`
		Date  wireTime `json:"date"`
	} `json:"lastCommit"`
	Security *struct {
		Status string `json:"status"`
		Virus  *struct {
			Status string `json:"status"`
		} `json:"avScan"`
		Pickle *struct {
			Status string `json:"status"`
		} `json:"pickleImportScan"`
	} `json:"securityFileStatus"`
}

func (e wireEntry) file() File {
	f := File{Path: e.Path, Size: e.Size, BlobID: e.OID}
	if e.LFS != nil {
		f.SHA256, f.Size = strings.TrimPrefix(e.LFS.OID, "sha256:"), e.LFS.Size
	}
	if isHex(e.XetHash, 64) {
		f.XetHash = e.XetHash
	}
	return f
}

// entry is e with its facts checked. Entries that are neither file nor
// directory are none (ok is false): some servers send stray ones.
func (e wireEntry) entry() (out Entry, ok bool, err error) {
	switch e.Type {
	case "file":
		out.File = e.file()
		err = out.File.check()
	case "directory":
		out.Dir, out.Path, out.TreeID = true, e.Path, e.OID
		if err = CheckPath(e.Path); err == nil && e.OID != "" && !validEtag(e.OID) {
			err = &Error{Kind: ErrMetadata, File: e.Path, Message: "listed with a malformed id"}
		}
	default:
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, err
	}
	if l := e.LastCommit; l != nil {
		if !IsCommit(l.ID) {
			return Entry{}, false, &Error{Kind: ErrMetadata, File: e.Path, Message: "listed with a malformed last commit"}
		}
		out.LastCommit = &CommitInfo{ID: Commit(l.ID), Title: l.Title, Date: l.Date.Time}
	}
	if s := e.Security; s != nil {
		out.Security = &FileSecurity{Status: s.Status}
		if s.Virus != nil {
			out.Security.Virus = s.Virus.Status
		}
		if s.Pickle != nil {
			out.Security.Pickle = s.Pickle.Status
		}
	}
	return out, true, nil
}

// parseEntries reads one page of a tree or paths-info answer.
func parseEntries(body []byte) ([]Entry, error) {
	var wire []wireEntry
	if json.Unmarshal(body, &wire) != nil {
		return nil, &Error{Kind: ErrMetadata, Message: "the listing is not valid JSON"}
	}
	out := make([]Entry, 0, len(wire))
	for _, w := range wire {
		e, ok, err := w.entry()
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, e)
		}
	}
	return out, nil
}

// TreeOptions says what [Client.Tree] lists.
type TreeOptions struct {
	// Dir is the directory to list; "" is the root.
	Dir string
	// Recursive lists what lies below its directories as well.
	Recursive bool
	// Expand asks for last commits and scan results, in smaller pages.
	Expand bool
}

// Tree lists a directory of a revision ("" is main) in the Hub's order, page
// by page as it is read. An error ends the listing and is its last element.
// Unlike [Client.List] it always asks the Hub and keeps nothing.
func (c *Client) Tree(ctx context.Context, r Repo, revision string, o TreeOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		err := c.tree(ctx, r, revision, o, func(e Entry) bool { return yield(e, nil) })
		if err != nil && err != errEnough {
			yield(Entry{}, withPlace(err, "list", r, revision, o.Dir))
		}
	}
}

func (c *Client) tree(ctx context.Context, r Repo, revision string, o TreeOptions, each func(Entry) bool) error {
	if err := r.Validate(); err != nil {
		return err
	}
	revision, err := checkRevision(revision)
	if err != nil {
		return err
	}
	segments := []string{"tree", revision}
	if dir := strings.TrimSuffix(o.Dir, "/"); dir != "" {
		if err := CheckPath(dir); err != nil {
			return err
		}
		segments = append(segments, dir)
	}
	first, err := url.Parse(fmt.Sprintf("%s?recursive=%t&expand=%t", c.apiURL(r, segments...), o.Recursive, o.Expand))
	if err != nil {
		return err
	}
	return c.pages(ctx, first, func(body []byte) error {
		entries, err := parseEntries(body)
		if err != nil {
			return err
		}
		return eachOf(entries, each)
	})
}

// PathsInfo asks about files and directories by name at a revision ("" is
// main). What the repository lacks is absent from the answer; the order is
// the Hub's. expand asks for last commits and scan results as well.
func (c *Client) PathsInfo(ctx context.Context, r Repo, revision string, paths []string, expand bool) ([]Entry, error) {
	out, err := c.pathsInfo(ctx, r, revision, paths, expand)
	if err != nil {
		return nil, withPlace(err, "paths", r, revision, "")
	}
	return out, nil
}

func (c *Client) pathsInfo(ctx context.Context, r Repo, revision string, paths []string, expand bool) ([]Entry, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	revision, err := checkRevision(revision)
	if err != nil {
		return nil, err
	}
	asked := make(map[string]bool, len(paths))
	for _, p := range paths {
		if err := CheckPath(p); err != nil {
			return nil, err
		}
		asked[p] = true
	}
	u, err := url.Parse(c.apiURL(r, "paths-info", revision))
	if err != nil {
		return nil, err
	}
	var out []Entry
	for len(paths) > 0 {
		some := paths[:min(len(paths), maxPathsAsked)]
		paths = paths[len(some):]
		question, err := json.Marshal(map[string]any{"paths": some, "expand": expand})
		if err != nil {
			return nil, err
		}
		body, _, err := c.callAPI(ctx, request{method: http.MethodPost, url: u, body: question})
		if err != nil {
			return nil, err
		}
		entries, err := parseEntries(body)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !asked[e.Path] {
				return nil, &Error{Kind: ErrMetadata, URL: redactURL(u), File: e.Path, Message: "the answer has a name that was not asked for"}
			}
		}
		out = append(out, entries...)
	}
	return out, nil
}
