package hub

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Metadata asks the Hub about one file: its commit, etag, size and where the
// content lies. It needs the network.
func (c *Client) Metadata(ctx context.Context, r Repo, revision, file string) (FileMetadata, error) {
	revision, err := checkTarget(r, revision, file)
	var m FileMetadata
	if err == nil {
		m, err = c.metadata(ctx, r, revision, file)
	}
	if err != nil {
		return FileMetadata{}, withPlace(err, "metadata", r, revision, file)
	}
	return m, nil
}

// checkTarget validates what names one file.
func checkTarget(r Repo, revision, file string) (string, error) {
	if err := r.Validate(); err != nil {
		return revision, err
	}
	rev, err := checkRevision(revision)
	if err != nil {
		return revision, err
	}
	return rev, CheckPath(file)
}

// metadata asks with retries.
func (c *Client) metadata(ctx context.Context, r Repo, revision, file string) (m FileMetadata, err error) {
	err = c.retry(ctx, file, func(ctx context.Context) error {
		m, err = c.metadataOnce(ctx, r, revision, file)
		return err
	})
	return m, err
}

func (c *Client) metadataOnce(ctx context.Context, r Repo, revision, file string) (FileMetadata, error) {
	u, err := url.Parse(c.resolveURL(r, revision, file))
	if err != nil {
		return FileMetadata{}, err
	}
	a, err := c.open(ctx, request{method: http.MethodHead, url: u, auth: true, hubOnly: true})
	if err != nil {
		return FileMetadata{}, err
	}
	discard(a.Response)
	m, err := readMetadata(a)
	if err == nil && m.XetHash != "" {
		m.XetAuth = c.xetAuth(a)
	}
	return m, err
}

// readMetadata takes a file's facts from the answers of the Hub. The length
// of a redirect's body and the etag of another origin are not facts about
// the file.
func readMetadata(a *answer) (FileMetadata, error) {
	lacks := func(what string) error {
		return &Error{Kind: ErrMetadata, Status: a.StatusCode, URL: redactURL(a.url), Message: "the answer has no usable " + what}
	}
	if e := a.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return FileMetadata{}, &Error{Kind: ErrMetadata, Status: a.StatusCode, URL: redactURL(a.url), Err: &ContentError{Got: "encoded body"}}
	}
	m := FileMetadata{Size: -1}
	cm := a.linked("X-Repo-Commit")
	if !IsCommit(cm) {
		return FileMetadata{}, lacks("X-Repo-Commit")
	}
	m.Commit = Commit(cm)
	redirected := isRedirect(a.StatusCode)
	etag := normalizeEtag(a.linked("X-Linked-Etag"))
	if etag == "" && !redirected {
		etag = normalizeEtag(a.Header.Get("ETag"))
	}
	if !validEtag(etag) {
		return FileMetadata{}, lacks("X-Linked-Etag or ETag")
	}
	m.Etag = etag
	size := a.linked("X-Linked-Size")
	if size == "" && !redirected {
		size = a.Header.Get("Content-Length")
	}
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 0 {
		return FileMetadata{}, lacks("X-Linked-Size or Content-Length")
	}
	m.Size = n
	if h := a.linked("X-Xet-Hash"); isHex(h, 64) {
		m.XetHash = h
	}
	m.Location = a.url.String()
	if redirected {
		if to, err := nextHop(a.url, a.Header.Get("Location")); err == nil {
			m.Location = to.String()
		}
	}
	return m, nil
}

// normalizeEtag strips the weak mark and the quotes.
func normalizeEtag(s string) string {
	s = strings.TrimPrefix(strings.TrimSpace(s), "W/")
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	return s
}

// contentRange is a parsed Content-Range: bytes start-end/total, with -1 for
// an unknown total. For "bytes */total" start and end are -1.
type contentRange struct{ start, end, total int64 }

func parseContentRange(h string) (contentRange, error) {
	bad := fmt.Errorf("malformed Content-Range %q", clip(h, 64))
	rest, ok := strings.CutPrefix(strings.TrimSpace(h), "bytes ")
	if !ok {
		return contentRange{}, bad
	}
	span, total, ok := strings.Cut(strings.TrimSpace(rest), "/")
	if !ok {
		return contentRange{}, bad
	}
	cr := contentRange{-1, -1, -1}
	var err error
	if total != "*" {
		if cr.total, err = parseDigits(total); err != nil {
			return contentRange{}, bad
		}
	}
	if span == "*" {
		return cr, nil
	}
	a, b, ok := strings.Cut(span, "-")
	if !ok {
		return contentRange{}, bad
	}
	if cr.start, err = parseDigits(a); err != nil {
		return contentRange{}, bad
	}
	if cr.end, err = parseDigits(b); err != nil || cr.end < cr.start || cr.total >= 0 && cr.end >= cr.total {
		return contentRange{}, bad
	}
	return cr, nil
}

// parseDigits is ParseInt without signs.
func parseDigits(s string) (int64, error) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(s, 10, 64)
}
