package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hfcompress/compress/hub/xet"
)

const (
	// xetRest is how long a repository's Xet store is left alone after it
	// failed: its further files come over HTTP at once.
	xetRest = 5 * time.Minute
	// xetRetries bounds the attempts at a store. Plain HTTP is there to fall
	// back to, so there is no reason to insist.
	xetRetries = 2
	// relXetAuth is the relation of the link to a repository's read token.
	relXetAuth = "xet-auth"
)

// xetRoad is what the client knows about Xet: the engine, and for each
// repository and commit the tokens of its store.
type xetRoad struct {
	engine *xet.Client
	blocks *blockPool // of plain transfers too
	stores sync.Map   // address of the token → *xetStore
}

// xetStore is one repository's way into its store.
type xetStore struct {
	tokens *xet.Tokens

	mu     sync.Mutex
	until  time.Time // left alone until then
	reason error
}

// buildXet makes the engine, which opens its requests through the client's
// transport and within the client's connections. The watchdog below it knows
// stalls; the engine's own clock would also count the wait for a connection.
func (c *Client) buildXet() {
	c.road.blocks = newBlockPool(c.opts.MaxConns)
	c.road.engine = xet.New(xet.Options{
		Transport:    &sharedConns{c},
		UserAgent:    c.userAgent(),
		Conns:        c.opts.MaxConns,
		StallTimeout: 1 << 62,
		Retries:      xetEngineRetries(c.opts.Retries),
		RetryBase:    c.opts.RetryBase,
		RetryCap:     c.opts.RetryCap,
	})
}

// xetEngineRetries translates to the engine's option, in which 0 is the
// default and negative is never.
func xetEngineRetries(n int) int {
	if n == 0 {
		return -1
	}
	return min(n, xetRetries)
}

// sharedConns lets the engine's requests count as transfers of the client.
type sharedConns struct{ c *Client }

// RoundTrip waits for a free transfer and gives it back with the body.
func (s *sharedConns) RoundTrip(req *http.Request) (*http.Response, error) {
	release, err := s.c.takeConn(req.Context())
	if err != nil {
		return nil, err
	}
	resp, err := s.c.transport.RoundTrip(req)
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = &connBody{ReadCloser: resp.Body, release: sync.OnceFunc(release)}
	return resp, nil
}

type connBody struct {
	io.ReadCloser
	release func()
}

func (b *connBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// xetAuth finds the address of the read token in a Hub's answer. A mirror
// passes on the Hub's own address, which is moved to the endpoint; any other
// origin is ignored, since the request carries the token.
func (c *Client) xetAuth(a *answer) string {
	for _, h := range append(a.hops, a.Response) {
		route := parseLinks(h.Header.Values("Link"))[relXetAuth]
		if route == "" {
			route = h.Header.Get("X-Xet-Refresh-Route")
		}
		if route == "" {
			continue
		}
		from := a.url
		if h.Request != nil && h.Request.URL != nil {
			from = h.Request.URL
		}
		u, err := nextHop(from, route)
		if err != nil {
			continue
		}
		if u = c.toEndpoint(u); sameOrigin(u, c.endpoint) {
			return u.String()
		}
	}
	return ""
}

// xetStoreOf returns the way to a file's content over Xet, or nil where plain
// HTTP is to be taken.
func (c *Client) xetStoreOf(r Repo, cm Commit, f File) *xetStore {
	if c.opts.DisableXet || !isHex(f.XetHash, 64) || !isSHA256(f.Etag()) || f.Size == 0 {
		return nil
	}
	route := f.xetAuth
	if route == "" {
		route = c.apiURL(r, "xet-read-token", string(cm))
	}
	u, err := url.Parse(route)
	if err != nil {
		return nil
	}
	v, ok := c.road.stores.Load(route)
	if !ok {
		v, _ = c.road.stores.LoadOrStore(route, c.newXetStore(u))
	}
	s := v.(*xetStore)
	if s.resting(c.now()) != nil {
		return nil
	}
	return s
}

func (c *Client) newXetStore(token *url.URL) *xetStore {
	s := &xetStore{}
	s.tokens = xet.NewTokens(func(ctx context.Context, _ bool) (xet.Token, error) {
		// Files that waited for the same token need not ask in vain again.
		if err := s.resting(c.now()); err != nil {
			return xet.Token{}, err
		}
		t, err := c.xetToken(ctx, token)
		if err != nil && ctx.Err() == nil {
			s.rest(c.now(), err)
		}
		return t, err
	})
	return s
}

// rest leaves the store alone for a while.
func (s *xetStore) rest(now time.Time, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until, s.reason = now.Add(xetRest), reason
}

// resting is why the store is left alone, or nil.
func (s *xetStore) resting(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.until) {
		return s.reason
	}
	return nil
}

// xetToken asks the Hub for a read token, with the Hub's own token. What it
// gives is for the store alone.
func (c *Client) xetToken(ctx context.Context, u *url.URL) (xet.Token, error) {
	var body []byte
	err := c.retryTimes(ctx, "", min(c.opts.Retries, xetRetries), func(ctx context.Context) (err error) {
		body, _, err = c.getAPIOnce(ctx, u)
		return err
	})
	if err != nil {
		return xet.Token{}, err
	}
	return parseXetToken(body, u)
}

func parseXetToken(body []byte, from *url.URL) (xet.Token, error) {
	bad := func(why string) error {
		return &Error{Kind: ErrMetadata, URL: redactURL(from), Message: "the Xet token's answer " + why}
	}
	var t struct {
		AccessToken string `json:"accessToken"`
		Exp         int64  `json:"exp"`
		CASURL      string `json:"casUrl"`
	}
	if json.Unmarshal(body, &t) != nil {
		return xet.Token{}, bad("is not valid JSON")
	}
	// The access token becomes a header.
	if t.AccessToken == "" || len(t.AccessToken) > 16<<10 || headerLine(t.AccessToken) != t.AccessToken {
		return xet.Token{}, bad("has no usable accessToken")
	}
	cas, err := url.Parse(t.CASURL)
	if err != nil || cas.Scheme != "http" && cas.Scheme != "https" || cas.Host == "" || cas.User != nil || cas.RawQuery != "" {
		return xet.Token{}, bad("has no usable casUrl")
	}
	if from.Scheme == "https" && cas.Scheme == "http" {
		return xet.Token{}, bad("leaves https")
	}
	tok := xet.Token{Access: t.AccessToken, CAS: t.CASURL}
	if t.Exp != 0 {
		tok.Expires = time.Unix(t.Exp, 0)
	}
	return tok, nil
}

// headerLine keeps what a header may carry.
func headerLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, s)
}

// overXet fetches what the partial lacks from the store. The error says why
// plain HTTP has to bring the rest; final is set where it cannot either: the
// call was cancelled, or the disk refuses.
func (t *transfer) overXet(ctx context.Context, s *xetStore, hash string) (final bool, err error) {
	h, err := xet.ParseHash(hash)
	if err != nil {
		return false, err
	}
	missing := t.p.missing()
	if len(missing) == 1 && missing[0] == (xet.Range{Start: 0, End: t.size}) {
		missing = nil // only a whole file can be verified by its Xet hash
	}
	fctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Without the digest the Xet hash alone vouches for the content, so it must
	// be checked: that is, the whole file comes this way.
	byHash := t.c.opts.XetHashSuffices && missing == nil
	flow := t.newFlow(fctx, cancel, !byHash)
	res, err := t.c.road.engine.Fetch(fctx, xet.Request{
		Hash: h, Size: t.size, Tokens: s.tokens, Out: newXetSink(fctx, t, flow), Missing: missing,
		Retrying: func(err error, wait time.Duration) {
			t.c.progress.send(Event{Kind: Retrying, Repo: t.repo, File: t.file, Wait: wait, Err: err})
		},
	})
	flow.close()
	if derr := flow.failure(); derr != nil {
		err = derr
	} else if err == nil {
		if _, complete := t.p.state(); complete && (res.Verified || !byHash) {
			return true, flow.verify(fctx)
		}
		err = fmt.Errorf("the Xet store left %d ranges out", len(t.p.missing()))
	}
	cancel(err)
	_ = flow.verify(fctx)
	switch {
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	case flow.failure() != nil:
		return true, t.diskError(err)
	}
	wrong := res.Missing
	if errors.Is(err, xet.ErrHash) && len(wrong) == 0 {
		wrong = []xet.Range{{Start: 0, End: t.size}}
	}
	if perr := t.p.disown(wrong); perr != nil {
		return true, t.diskError(perr)
	}
	have, _ := t.p.state()
	t.setSent(have)
	if !errors.Is(err, xet.ErrHash) && !errors.Is(err, xet.ErrCorrupt) && !errors.Is(err, xet.ErrNotFound) {
		// The fault is not this file's alone.
		s.rest(t.c.now(), err)
	}
	return false, err
}
