package hubtest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// xetFileInfo is the media type with which the JavaScript client asks for a
// Xet file's facts in place of a redirect.
const xetFileInfo = "application/vnd.xet-fileinfo+json"

// store puts an LFS file's content into the Xet store.
func (s *Server) store(f *file, open func() (io.ReadCloser, error)) error {
	if s.xet == nil || f.size == 0 {
		return nil
	}
	rc, err := open()
	if err != nil {
		return err
	}
	defer rc.Close()
	x, err := s.xet.Add(rc)
	if err != nil || x.Size != f.size {
		return errors.Join(err, fmt.Errorf("%s: stored %d of %d bytes", f.path, x.Size, f.size))
	}
	f.xet = x.Hash.String()
	return nil
}

// offerXet states where a file lies in the store, as the Hub does on the
// answer that redirects to the second origin.
func (s *Server) offerXet(x *exchange, r *repo, plural string, c *commit, f *file) {
	if f.xet == "" {
		return
	}
	x.Header().Set("X-Xet-Hash", f.xet)
	x.Header().Set("Link", fmt.Sprintf(`<%s/api/%s/%s/xet-read-token/%s>; rel="xet-auth", <%s/v1/reconstructions/%s>; rel="xet-reconstruction-info"`,
		s.hubURL, plural, r.ID, url.PathEscape(c.hash), s.xet.CASURL(), f.xet))
}

// fileInfo answers the JavaScript client.
func (s *Server) fileInfo(x *exchange, f *file) {
	body := fmt.Sprintf(`{"hash":%q,"size":%d}`, f.xet, f.size)
	x.Header().Set("Content-Type", xetFileInfo)
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(x, body)
}

// xetToken gives a token for the store to whoever may read the files.
func (s *Server) xetToken(x *exchange, r *repo, authed bool) {
	switch {
	case s.xet == nil:
		x.fail(http.StatusNotFound, "", "Not Found")
		return
	case r.Gated && !authed:
		x.fail(http.StatusUnauthorized, "GatedRepo", "Access to model "+r.ID+" is restricted.")
		return
	case r.Gated && r.Deny:
		x.fail(http.StatusForbidden, "GatedRepo", "Access to model "+r.ID+" is restricted and you are not in the authorized list.")
		return
	}
	t := s.xet.Issue()
	x.Header().Set("X-Xet-Access-Token", t.Access)
	x.Header().Set("X-Xet-Token-Expiration", strconv.FormatInt(t.Expires.Unix(), 10))
	x.Header().Set("X-Xet-Cas-Url", t.CAS)
	x.json(map[string]any{"accessToken": t.Access, "exp": t.Expires.Unix(), "casUrl": t.CAS})
}
