package hub

import (
	"context"
	"encoding/json"
	"net/url"
)

// Resolve turns a revision (branch, tag, ref or commit; "" is main) into a
// commit. A full commit hash is returned as it is, without any request.
// Offline, the commit is the one that the cache remembers. When the Hub
// cannot be reached the cache's memory stands in as well.
func (c *Client) Resolve(ctx context.Context, r Repo, revision string) (Commit, error) {
	cm, err := c.resolve(ctx, r, revision)
	if err != nil {
		return "", withPlace(err, "resolve", r, revision, "")
	}
	return cm, nil
}

func (c *Client) resolve(ctx context.Context, r Repo, revision string) (Commit, error) {
	if err := r.Validate(); err != nil {
		return "", err
	}
	revision, err := checkRevision(revision)
	if err != nil {
		return "", err
	}
	if IsCommit(revision) {
		return Commit(revision), nil
	}
	var cached Commit
	if !c.opts.Force {
		cached = c.cacheOf(r).readRef(revision)
	}
	if c.opts.Offline {
		if cached == "" {
			return "", &Error{Kind: ErrLocalEntryNotFound, Err: ErrOffline, Message: "the cache does not know this revision",
				Hint: "run once with network access, or name a commit that is cached"}
		}
		return cached, nil
	}
	cm, err := c.remoteCommit(ctx, r, revision, cached != "")
	if err != nil {
		if cached != "" && mayFallBack(ctx, err) {
			c.log.Warn("the Hub cannot be reached, using the cached revision", "repo", r.String(), "revision", revision, "commit", string(cached), "err", err)
			return cached, nil
		}
		return "", err
	}
	return cm, nil
}

// remoteCommit asks the Hub. With a cached answer at hand it asks once and
// briefly, so that work goes on soon when the network is gone.
func (c *Client) remoteCommit(ctx context.Context, r Repo, revision string, haveCached bool) (Commit, error) {
	u, err := url.Parse(c.apiURL(r, "revision", revision))
	if err != nil {
		return "", err
	}
	var body []byte
	if haveCached {
		body, _, err = c.getAPIOnce(withStall(ctx, c.opts.MetadataTimeout), u)
		if isRateLimit(err) {
			body, _, err = c.getAPI(ctx, u)
		}
	} else {
		body, _, err = c.getAPI(ctx, u)
	}
	if err != nil {
		return "", err
	}
	var info struct {
		SHA string `json:"sha"`
	}
	if json.Unmarshal(body, &info) != nil || !IsCommit(info.SHA) {
		return "", &Error{Kind: ErrMetadata, URL: redactURL(u), Message: "the answer names no commit"}
	}
	return Commit(info.SHA), nil
}
