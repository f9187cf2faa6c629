package hub

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/url"
	"time"
)

// errEnough ends a listing of which the caller has seen enough.
var errEnough = errors.New("enough")

// eachOf hands elements on until the caller has enough.
func eachOf[T any](list []T, each func(T) bool) error {
	for _, e := range list {
		if !each(e) {
			return errEnough
		}
	}
	return nil
}

// wireTime is a time in an answer. What cannot be read is no time: it is only
// for people to see.
type wireTime struct{ time.Time }

// UnmarshalJSON never fails.
func (t *wireTime) UnmarshalJSON(b []byte) error {
	if t.Time.UnmarshalJSON(b) != nil {
		t.Time = time.Time{}
	}
	return nil
}

// CommitInfo is one commit of a repository.
type CommitInfo struct {
	ID    Commit
	Title string
	// Message is the rest of the commit's text.
	Message string
	Date    time.Time
	// Authors are the names of accounts.
	Authors []string
}

// Commits lists the commits that lead to a revision ("" is main), the latest
// first, page by page as they are read. An error ends the listing and is its
// last element.
func (c *Client) Commits(ctx context.Context, r Repo, revision string) iter.Seq2[CommitInfo, error] {
	return func(yield func(CommitInfo, error) bool) {
		err := c.commits(ctx, r, revision, func(i CommitInfo) bool { return yield(i, nil) })
		if err != nil && err != errEnough {
			yield(CommitInfo{}, withPlace(err, "commits", r, revision, ""))
		}
	}
}

func (c *Client) commits(ctx context.Context, r Repo, revision string, each func(CommitInfo) bool) error {
	if err := r.Validate(); err != nil {
		return err
	}
	revision, err := checkRevision(revision)
	if err != nil {
		return err
	}
	first, err := url.Parse(c.apiURL(r, "commits", revision))
	if err != nil {
		return err
	}
	return c.pages(ctx, first, func(body []byte) error {
		commits, err := parseCommits(body)
		if err != nil {
			return err
		}
		return eachOf(commits, each)
	})
}

// parseCommits reads one page of a commits answer.
func parseCommits(body []byte) ([]CommitInfo, error) {
	var wire []struct {
		ID      string   `json:"id"`
		Title   string   `json:"title"`
		Message string   `json:"message"`
		Date    wireTime `json:"date"`
		Authors []struct {
			User string `json:"user"`
		} `json:"authors"`
	}
	if json.Unmarshal(body, &wire) != nil {
		return nil, &Error{Kind: ErrMetadata, Message: "the list of commits is not valid JSON"}
	}
	out := make([]CommitInfo, 0, len(wire))
	for _, w := range wire {
		if !IsCommit(w.ID) {
			return nil, &Error{Kind: ErrMetadata, Message: "the list of commits has a malformed hash"}
		}
		i := CommitInfo{ID: Commit(w.ID), Title: w.Title, Message: w.Message, Date: w.Date.Time}
		for _, a := range w.Authors {
			i.Authors = append(i.Authors, a.User)
		}
		out = append(out, i)
	}
	return out, nil
}
