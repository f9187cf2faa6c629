package hub

import (
	"context"
	"encoding/json"
	"net/url"
)

// PlannedFile is one file of a [Plan].
type PlannedFile struct {
	File
	// Target is where the file will lie.
	Target string
	// Cached says that its content is in the cache already.
	Cached bool
}

// Plan is what a snapshot would bring.
type Plan struct {
	Commit Commit
	Files  []PlannedFile
	// Total and Missing are bytes: of all files, and of those to download.
	Total, Missing int64
}

// Plan says what [Client.Snapshot] would do, without downloading a file or
// writing to the cache. It needs the network unless the cache knows the
// revision and its listing.
func (c *Client) Plan(ctx context.Context, r Repo, revision string, o SnapshotOptions) (*Plan, error) {
	p, err := c.makePlan(ctx, r, revision, o)
	if err != nil {
		return nil, withPlace(err, "plan", r, revision, "")
	}
	return p, nil
}

func (c *Client) makePlan(ctx context.Context, r Repo, revision string, o SnapshotOptions) (*Plan, error) {
	cm, err := c.resolve(ctx, r, revision)
	if err != nil {
		return nil, err
	}
	rc := c.cacheOf(r)
	files, ok := rc.readTree(cm)
	if !ok {
		if files, err = c.fetchTree(ctx, r, cm); err != nil {
			return nil, err
		}
	}
	selected, err := o.filter(files)
	if err != nil {
		return nil, err
	}
	p := &Plan{Commit: cm}
	for _, f := range selected {
		target, err := rc.pointer(cm, f.Path)
		if err != nil {
			return nil, err
		}
		pf := PlannedFile{File: f, Target: target, Cached: exists(target) || exists(rc.blob(f.Etag()))}
		p.Total += f.Size
		if !pf.Cached {
			p.Missing += f.Size
		}
		p.Files = append(p.Files, pf)
	}
	return p, nil
}

// Ref is a branch, a tag or a pull request.
type Ref struct {
	Name string `json:"name"`
	// Ref is the full name, e.g. refs/heads/main; it can be used as a
	// revision.
	Ref    string `json:"ref"`
	Commit Commit `json:"targetCommit"`
}

// Refs are the names under which commits of a repository are known.
type Refs struct {
	Branches     []Ref `json:"branches"`
	Tags         []Ref `json:"tags"`
	PullRequests []Ref `json:"pullRequests"`
}

// Refs asks for a repository's branches and tags, and its pull requests if
// withPRs is set.
func (c *Client) Refs(ctx context.Context, r Repo, withPRs bool) (*Refs, error) {
	refs, err := c.refs(ctx, r, withPRs)
	if err != nil {
		return nil, withPlace(err, "refs", r, "", "")
	}
	return refs, nil
}

func (c *Client) refs(ctx context.Context, r Repo, withPRs bool) (*Refs, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	address := c.apiURL(r, "refs")
	if withPRs {
		address += "?include_prs=1"
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	body, _, err := c.getAPI(ctx, u)
	if err != nil {
		return nil, err
	}
	var refs Refs
	if json.Unmarshal(body, &refs) != nil {
		return nil, &Error{Kind: ErrMetadata, URL: redactURL(u), Message: "the answer is not a list of refs"}
	}
	for _, list := range [][]Ref{refs.Branches, refs.Tags, refs.PullRequests} {
		for _, ref := range list {
			if !IsCommit(string(ref.Commit)) {
				return nil, &Error{Kind: ErrMetadata, URL: redactURL(u), Message: "a ref names no commit"}
			}
		}
	}
	return &refs, nil
}
