package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

// InfoOptions says what [Client.Info] asks for beyond the usual. Expand
// excludes the other two; the Hub has none of them for kernels.
type InfoOptions struct {
	// Files asks for size and digests of every file. The Hub gives them in
	// one answer, so for large repositories [Client.Tree] is better.
	Files bool
	// Security asks for the state of the Hub's scanners.
	Security bool
	// Expand names the properties to give in place of all usual ones, as in
	// the Hub's API: "downloadsAllTime", "safetensors", …
	Expand []string
}

// RepoInfo is what the Hub says about a model, dataset, space or kernel at a
// revision. Fields that it did not give are zero.
type RepoInfo struct {
	Repo              Repo
	Commit            Commit
	Author            string
	Private, Disabled bool
	// Gated is "", "auto" or "manual".
	Gated             string
	Created, Modified time.Time
	Downloads, Likes  int64
	Tags              []string
	Pipeline, Library string
	SDK               string // spaces
	UsedStorage       int64  // bytes over all revisions
	// Parameters counts the elements of a model's safetensors by dtype.
	Parameters map[string]int64
	// Names are the repository's files. Files has them with sizes and
	// digests if they were asked for.
	Names []string
	Files []File
	// Raw is the whole answer, for properties that have no field here.
	Raw json.RawMessage
}

// Info asks the Hub about a repository at a revision ("" is main).
func (c *Client) Info(ctx context.Context, r Repo, revision string, o InfoOptions) (*RepoInfo, error) {
	i, err := c.info(ctx, r, revision, o)
	if err != nil {
		return nil, withPlace(err, "info", r, revision, "")
	}
	return i, nil
}

func (c *Client) info(ctx context.Context, r Repo, revision string, o InfoOptions) (*RepoInfo, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	revision, err := checkRevision(revision)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	if o.Files {
		q.Set("blobs", "true")
	}
	if o.Security {
		q.Set("securityStatus", "true")
	}
	if len(o.Expand) > 0 && len(q) > 0 {
		return nil, &Error{Kind: ErrBadRequest, Message: "Expand excludes Files and Security"}
	}
	if r.Type == Kernel && len(o.Expand)+len(q) > 0 {
		return nil, &Error{Kind: ErrBadRequest, Message: "the Hub gives no files, security or properties of kernels"}
	}
	for _, e := range o.Expand {
		q.Add("expand", e)
	}
	address := c.apiURL(r, "revision", revision)
	if len(q) > 0 {
		address += "?" + q.Encode()
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	body, _, err := c.getAPI(ctx, u)
	if err != nil {
		return nil, err
	}
	i, err := parseInfo(body, o)
	if err != nil {
		return nil, err
	}
	i.Repo = r
	return i, nil
}

// wireInfo is the Hub's answer. Unknown fields are tolerated.
type wireInfo struct {
	SHA         string          `json:"sha"`
	Author      string          `json:"author"`
	Private     bool            `json:"private"`
	Disabled    bool            `json:"disabled"`
	Gated       json.RawMessage `json:"gated"` // false, "auto" or "manual"
	CreatedAt   wireTime        `json:"createdAt"`
	Modified    wireTime        `json:"lastModified"`
	Downloads   int64           `json:"downloads"`
	Likes       int64           `json:"likes"`
	Tags        []string        `json:"tags"`
	Pipeline    string          `json:"pipeline_tag"`
	Library     string          `json:"library_name"`
	SDK         string          `json:"sdk"`
	UsedStorage int64           `json:"usedStorage"`
	Safetensors *struct {
		Parameters map[string]int64 `json:"parameters"`
	} `json:"safetensors"`
	Siblings []struct {
		Name   string `json:"rfilename"`
		Size   int64  `json:"size"`
		BlobID string `json:"blobId"`
		LFS    *struct {
			SHA256 string `json:"sha256"`
			Size   int64  `json:"size"`
		} `json:"lfs"`
	} `json:"siblings"`
}

func parseInfo(body []byte, o InfoOptions) (*RepoInfo, error) {
	bad := func(why string) error { return &Error{Kind: ErrMetadata, Message: "the answer " + why} }
	var w wireInfo
	if json.Unmarshal(body, &w) != nil {
		return nil, bad("is not what the Hub says about a repository")
	}
	// With Expand the hash comes only if it was asked for.
	if !IsCommit(w.SHA) && (w.SHA != "" || len(o.Expand) == 0) {
		return nil, bad("names no commit")
	}
	i := &RepoInfo{
		Commit: Commit(w.SHA), Author: w.Author, Private: w.Private, Disabled: w.Disabled,
		Created: w.CreatedAt.Time, Modified: w.Modified.Time, Downloads: w.Downloads, Likes: w.Likes, Tags: w.Tags,
		Pipeline: w.Pipeline, Library: w.Library, SDK: w.SDK, UsedStorage: w.UsedStorage, Raw: bytes.Clone(body),
	}
	switch g := strings.Trim(string(w.Gated), `"`); g {
	case "", "false", "null":
	case "true":
		i.Gated = "auto"
	default:
		i.Gated = clip(g, 32)
	}
	if w.Safetensors != nil {
		i.Parameters = w.Safetensors.Parameters
	}
	for _, s := range w.Siblings {
		if err := CheckPath(s.Name); err != nil {
			return nil, err
		}
		i.Names = append(i.Names, s.Name)
		if !o.Files {
			continue
		}
		f := File{Path: s.Name, Size: s.Size, BlobID: s.BlobID}
		if s.LFS != nil {
			f.SHA256, f.Size = s.LFS.SHA256, s.LFS.Size
		}
		if err := f.check(); err != nil {
			return nil, err
		}
		i.Files = append(i.Files, f)
	}
	return i, nil
}
