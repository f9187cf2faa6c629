package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

var (
	// errNoRanges means that the server answered a range with the whole.
	errNoRanges  = errors.New("the server does not continue a transfer")
	errTruncated = errors.New("the transfer ended early")
	errBadRange  = errors.New("the server sent another range than asked for")
)

// source is where the content comes from. The first answer on another origin
// is remembered, so that further ranges of the file need no new redirect; when
// its signature has expired the Hub is asked again.
type source struct {
	c       *Client
	resolve *url.URL
	file    string
	etag    string
	size    int64

	mu        sync.Mutex
	direct    *url.URL
	validator string // strong ETag of the direct answer, for If-Range
}

// get opens the bytes [from, to) of the file.
func (s *source) get(ctx context.Context, from, to int64) (*answer, error) {
	h := http.Header{}
	if from > 0 || to < s.size {
		h.Set("Range", fmt.Sprintf("bytes=%d-%d", from, to-1))
	}
	s.mu.Lock()
	direct, validator := s.direct, s.validator
	s.mu.Unlock()
	if validator != "" && h.Get("Range") != "" {
		h.Set("If-Range", validator)
	}
	if direct != nil {
		a, err := s.c.open(ctx, request{method: http.MethodGet, url: direct, header: h})
		var e *Error
		if err == nil || !errors.As(err, &e) || e.Status < 400 || e.Status >= 500 || e.Status == 408 || e.Status == 416 || e.Status == 429 {
			return a, err
		}
		// Signed addresses expire; the Hub gives a new one.
		s.forget(direct)
	}
	a, err := s.c.open(ctx, request{method: http.MethodGet, url: s.resolve, header: h, auth: true})
	if err != nil {
		return nil, err
	}
	if got := normalizeEtag(a.linked("X-Linked-Etag")); got != "" && got != s.etag {
		_ = a.Body.Close()
		return nil, &Error{Kind: ErrMetadata, URL: redactURL(a.url), Message: fmt.Sprintf("the Hub now states the etag %s, expected %s", clip(got, 80), s.etag)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.c.isHub(a.url) {
		s.direct = a.url
	}
	if v := a.Header.Get("ETag"); v != "" && !strings.HasPrefix(v, "W/") && len(v) < 512 {
		s.validator = v
	} else {
		s.validator = ""
	}
	return a, nil
}

// forget drops a remembered address, unless it was renewed meanwhile. With
// nil it drops whatever is remembered, the validator as well.
func (s *source) forget(old *url.URL) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old == nil || s.direct == old {
		s.direct = nil
	}
	if old == nil {
		s.validator = ""
	}
}

// unusable says that an answer came but cannot be this file's bytes. A signed
// address that is refused belongs here: a new one may be good.
func unusable(err error) bool {
	var e *Error
	return errors.Is(err, errBadRange) || errors.Is(err, ErrSize) || errors.Is(err, ErrContent) ||
		errors.As(err, &e) && (e.Status == http.StatusRequestedRangeNotSatisfiable || e.offHub && e.Status == http.StatusForbidden)
}

// check holds an answer against the range asked for and returns where it
// ends.
func (s *source) check(a *answer, from, to int64) (end int64, err error) {
	if e := a.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return 0, &ContentError{File: s.file, Got: "encoded body"}
	}
	switch a.StatusCode {
	case http.StatusOK:
		if a.Request.Header.Get("Range") != "" {
			if a.ContentLength >= 0 && a.ContentLength != s.size {
				return 0, s.wrongBody(a, a.ContentLength)
			}
			return 0, errNoRanges
		}
		if a.ContentLength != s.size {
			if err := s.wrongBody(a, a.ContentLength); err != nil {
				return 0, err
			}
		}
		return s.size, nil
	case http.StatusPartialContent:
		cr, err := parseContentRange(a.Header.Get("Content-Range"))
		if err != nil || a.Request.Header.Get("Range") == "" || cr.start != from || cr.end >= to {
			return 0, fmt.Errorf("%w: wanted bytes %d-%d, got %q", errBadRange, from, to-1, clip(a.Header.Get("Content-Range"), 64))
		}
		if cr.total != s.size {
			return 0, s.wrongBody(a, cr.total)
		}
		return cr.end + 1, nil
	}
	return 0, &Error{Kind: ErrMetadata, Status: a.StatusCode, URL: redactURL(a.url), Message: "the file's content was expected"}
}

// wrongBody looks at an answer whose length is not the file's and says what
// it is. A length that the server leaves open (-1) is an error only if the
// body is plainly something else; the bytes read are put back otherwise.
func (s *source) wrongBody(a *answer, length int64) error {
	head := make([]byte, 512)
	n, _ := io.ReadFull(a.Body, head)
	head = head[:n]
	switch {
	case isPointer(head) && s.size != int64(n):
		return &ContentError{File: s.file, Got: "LFS pointer"}
	case looksHTML(head) && !strings.HasSuffix(strings.ToLower(s.file), ".html") && !strings.HasSuffix(strings.ToLower(s.file), ".htm"):
		return &ContentError{File: s.file, Got: "HTML page"}
	case length >= 0:
		return &SizeError{File: s.file, Expected: s.size, Actual: length}
	}
	a.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(string(head)), a.Body), a.Body}
	return nil
}

// isPointer reports whether data is the text that git stores for an LFS file.
func isPointer(b []byte) bool {
	return strings.HasPrefix(string(b), "version https://git-lfs.github.com/spec/v1")
}
