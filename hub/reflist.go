package hub

import (
	"context"
	"encoding/json"
	"net/url"
)

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
	// Converts are revisions that the Hub made in other formats, such as
	// refs/convert/parquet.
	Converts []Ref `json:"converts"`
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
	return parseRefList(body)
}

func parseRefList(body []byte) (*Refs, error) {
	var refs Refs
	if json.Unmarshal(body, &refs) != nil {
		return nil, &Error{Kind: ErrMetadata, Message: "the answer is not a list of refs"}
	}
	for _, list := range [][]Ref{refs.Branches, refs.Tags, refs.PullRequests, refs.Converts} {
		for _, ref := range list {
			if !IsCommit(string(ref.Commit)) {
				return nil, &Error{Kind: ErrMetadata, Message: "a ref names no commit"}
			}
		}
	}
	return &refs, nil
}
