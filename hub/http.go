package hub

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-resty/resty/v2"
)

const (
	// maxAPIBody bounds one API answer in memory.
	maxAPIBody = 64 << 20
	// maxErrorBody bounds what is read of an error answer.
	maxErrorBody = 64 << 10
	// libVersion is this client's own version in the User-Agent.
	libVersion = "1.0"
)

var (
	errStalled    = errors.New("no byte arrived in time")
	errOfflineNet = errors.New("the network is not used in offline mode")
)

// buildHTTP makes the resty client, which opens every request and does
// nothing else: no retry, no redirect, no reading of bodies. Each guard here
// answers something that resty or net/http does by default and that a
// downloader must not do; docs/hub.md lists them.
func (c *Client) buildHTTP() {
	dial := c.opts.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: c.opts.ConnectTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	if c.opts.Offline {
		// The methods check offline mode themselves; this makes sure.
		dial = func(context.Context, string, string) (net.Conn, error) { return nil, errOfflineNet }
	}
	t := &http.Transport{
		DialContext:         dial,
		Proxy:               c.opts.Proxy,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.opts.RootCAs},
		TLSHandshakeTimeout: c.opts.ConnectTimeout,
		MaxIdleConns:        2 * c.opts.MaxConns,
		MaxIdleConnsPerHost: c.opts.MaxConns,
		IdleConnTimeout:     90 * time.Second,
		// HTTP/2 would put all ranges of a file behind one window.
		ForceAttemptHTTP2:      false,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		MaxResponseHeaderBytes: 256 << 10,
		// Lengths and digests are of the stored bytes; gzip hides both.
		DisableCompression: true,
		ReadBufferSize:     64 << 10,
	}
	c.transport = &watchdog{base: t, stall: c.opts.StallTimeout}
	hc := &http.Client{
		Transport: c.transport,
		// Redirects are followed by our own hops, which drop the token on
		// any change of origin.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.rest = resty.NewWithClient(hc).
		SetLogger(restyLog{c}).
		SetRetryCount(0).
		SetDoNotParseResponse(true).
		SetHeader("User-Agent", c.userAgent())
}

// userAgent names the caller, then this client, then the language.
func (c *Client) userAgent() string {
	parts := []string{}
	if ua := headerText(c.opts.UserAgent); ua != "" {
		parts = append(parts, ua)
	}
	return strings.Join(append(parts, "hfcompress-hub/"+libVersion, "go/"+strings.TrimPrefix(runtime.Version(), "go")), "; ")
}

// restyLog sends resty's own messages to the debug level of our logger.
type restyLog struct{ c *Client }

func (l restyLog) Errorf(f string, v ...any) { l.c.log.Debug("http client", "message", format(f, v)) }
func (l restyLog) Warnf(f string, v ...any)  { l.c.log.Debug("http client", "message", format(f, v)) }
func (l restyLog) Debugf(f string, v ...any) { l.c.log.Debug("http client", "message", format(f, v)) }

type stallKey struct{}

// withStall sets another stall timeout for the requests of a context.
func withStall(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, stallKey{}, d)
}

// watchdog ends a request when nothing moves: no headers, or no byte of the
// body while the caller waits in Read. It sets no limit on the whole.
type watchdog struct {
	base  http.RoundTripper
	stall time.Duration
}

func (w *watchdog) RoundTrip(req *http.Request) (*http.Response, error) {
	stall := w.stall
	if d, ok := req.Context().Value(stallKey{}).(time.Duration); ok {
		stall = d
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(stall, func() { cancel(errStalled) })
	resp, err := w.base.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		if context.Cause(ctx) == errStalled {
			err = errStalled
		}
		cancel(nil)
		return nil, err
	}
	resp.Body = &watchedBody{rc: resp.Body, ctx: ctx, cancel: cancel, timer: timer, stall: stall}
	return resp, nil
}

// CloseIdleConnections passes the call on to the transport.
func (w *watchdog) CloseIdleConnections() {
	if t, ok := w.base.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

type watchedBody struct {
	rc     io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
	once   sync.Once
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.stall)
	n, err := b.rc.Read(p)
	b.timer.Stop()
	if err != nil && err != io.EOF && context.Cause(b.ctx) == errStalled {
		err = errStalled
	}
	return n, err
}

func (b *watchedBody) Close() error {
	var err error
	b.once.Do(func() {
		b.timer.Stop()
		err = b.rc.Close()
		b.cancel(nil)
	})
	return err
}

// discard closes a body after reading a little of it, so that a short answer
// leaves its connection usable.
func discard(resp *http.Response) {
	if resp == nil || resp.Body == nil {
		return
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 16<<10)
	_ = resp.Body.Close()
}

// request describes one call to the Hub, redirects included.
type request struct {
	method string
	url    *url.URL
	header http.Header
	// body is JSON, for POST. Redirects that would drop it are refused.
	body []byte
	// auth allows the token, which is sent to the endpoint's origin only.
	auth bool
	// hubOnly stops at a redirect that leaves the Hub and returns it.
	hubOnly bool
}

// answer is a final response with an open body (for HEAD an empty one).
type answer struct {
	*http.Response
	url *url.URL
	// hops are the responses that redirected here, bodies closed.
	hops []*http.Response
	// authed says whether the last request carried the token.
	authed bool
	// trace is what the last request was called, if it went to the Hub.
	trace string
}

// linked returns a header from the hops or the answer: the first that has it.
func (a *answer) linked(name string) string {
	for _, h := range a.hops {
		if v := h.Header.Get(name); v != "" {
			return v
		}
	}
	return a.Header.Get(name)
}

// open sends a request and follows redirects by our rules. It does not
// retry. A status of 400 and above becomes a typed error.
func (c *Client) open(ctx context.Context, r request) (*answer, error) {
	if c.opts.Offline {
		return nil, &Error{Kind: ErrOffline, URL: redactURL(r.url)}
	}
	a := &answer{url: r.url, authed: r.auth && c.opts.Token != "" && sameOrigin(r.url, c.endpoint)}
	seen := map[string]bool{}
	for hop := 0; ; hop++ {
		seen[a.url.String()] = true
		resp, err := c.send(ctx, r, a)
		if err != nil {
			return nil, err
		}
		a.Response = resp
		if resp.StatusCode >= 400 {
			err := c.statusError(r.method, a)
			_ = resp.Body.Close()
			return nil, err
		}
		if !isRedirect(resp.StatusCode) {
			return a, nil
		}
		to, err := c.redirectTarget(a.url, resp.Header.Get("Location"), seen)
		// A Hub answer that redirects with the file's facts in its headers
		// is complete, wherever it leads; so is one that leaves the Hub.
		if r.hubOnly && (resp.Header.Get("X-Linked-Etag") != "" || err == nil && !c.isHub(to)) {
			return a, nil
		}
		if err == nil && hop+1 >= maxHops {
			err = &Error{Kind: ErrRedirect, URL: redactURL(a.url), Message: "more than 10 redirects"}
		}
		discard(resp)
		if err != nil {
			return nil, err
		}
		if r.body != nil && resp.StatusCode != http.StatusTemporaryRedirect && resp.StatusCode != http.StatusPermanentRedirect {
			return nil, &Error{Kind: ErrRedirect, Status: resp.StatusCode, URL: redactURL(a.url), Message: "the redirect would turn a question into another"}
		}
		a.hops = append(a.hops, resp)
		// Once dropped, the token does not come back on a later hop.
		a.authed = a.authed && sameOrigin(a.url, to)
		a.url = to
	}
}

func isRedirect(status int) bool {
	switch status {
	case 301, 302, 303, 307, 308:
		return true
	}
	return false
}

// send performs one hop, paced by the origin's published limits.
func (c *Client) send(ctx context.Context, r request, a *answer) (*http.Response, error) {
	req := c.rest.R().SetContext(ctx)
	for k, v := range r.header {
		req.Header[k] = v
	}
	req.Header.Set("Accept-Encoding", "identity")
	if a.authed {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	if r.body != nil {
		req.SetBody(r.body)
		req.Header.Set("Content-Type", "application/json")
	}
	if a.trace = ""; c.isHub(a.url) {
		a.trace = traceID(r.header)
		req.Header.Set("X-Amzn-Trace-Id", a.trace)
	}
	p := c.pacerFor(a.url)
	if p != nil {
		err := p.acquire(ctx, c.now, func(d time.Duration) {
			c.log.Info("waiting for the rate limit window", "host", a.url.Host, "wait", d)
			c.progress.send(Event{Kind: Waiting, Wait: d, Err: ErrRateLimited})
		})
		if err != nil {
			return nil, err
		}
	}
	resp, err := req.Execute(r.method, a.url.String())
	if p != nil {
		var h http.Header
		if err == nil {
			h = resp.RawResponse.Header
		}
		p.done(h, c.now())
	}
	if err != nil {
		err = networkError(ctx, a.url, err)
		var e *Error
		if errors.As(err, &e) {
			e.RequestID = a.trace
		}
		return nil, err
	}
	c.noteWarning(resp.RawResponse.Header)
	return resp.RawResponse, nil
}

// traceID names a request for the Hub's support: as the caller's
// X-Request-Id says, or by a random UUID.
func traceID(h http.Header) string {
	if id := headerText(h.Get("X-Request-Id")); id != "" {
		return id
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails on supported systems
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// pacerFor returns the pacer of a Hub address; other origins have none.
func (c *Client) pacerFor(u *url.URL) *pacer {
	if !c.isHub(u) {
		return nil
	}
	key := u.Scheme + "://" + strings.ToLower(u.Host) + " " + bucketOf(u.Path)
	p, _ := c.pacers.LoadOrStore(key, &pacer{})
	return p.(*pacer)
}

// noteWarning logs a warning of the Hub once per topic.
func (c *Client) noteWarning(h http.Header) {
	for _, w := range h.Values("X-HF-Warning") {
		topic, text, _ := strings.Cut(w, ";")
		if _, old := c.warned.LoadOrStore(clip(topic, 64), true); !old {
			c.log.Warn("the Hub says", "topic", oneLine(clip(topic, 64)), "text", oneLine(clip(strings.TrimSpace(text), 512)))
		}
	}
}

// networkError turns a transport failure into a typed one whose text holds
// no URL query.
func networkError(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil && !errors.Is(err, errStalled) {
		return ctx.Err()
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	kind := ErrNetwork
	switch {
	case errors.Is(err, errOfflineNet):
		kind = ErrOffline
	case strings.HasPrefix(err.Error(), "failed to parse Location header"):
		// net/http looks at the header before we do and has no type for it.
		kind = ErrRedirect
	}
	return &Error{Kind: kind, URL: redactURL(u), Err: err}
}

// getAPI fetches a JSON answer from the Hub, with retries. The address must
// be on the endpoint's origin.
func (c *Client) getAPI(ctx context.Context, u *url.URL) (body []byte, h http.Header, err error) {
	return c.callAPI(ctx, request{method: http.MethodGet, url: u})
}

func (c *Client) getAPIOnce(ctx context.Context, u *url.URL) ([]byte, http.Header, error) {
	return c.callAPIOnce(ctx, request{method: http.MethodGet, url: u})
}

// callAPI asks for a JSON answer, with retries: every call only reads.
func (c *Client) callAPI(ctx context.Context, r request) (body []byte, h http.Header, err error) {
	err = c.retry(ctx, "", func(ctx context.Context) error {
		body, h, err = c.callAPIOnce(ctx, r)
		return err
	})
	return body, h, err
}

func (c *Client) callAPIOnce(ctx context.Context, r request) ([]byte, http.Header, error) {
	r.auth, r.hubOnly = true, true
	a, err := c.open(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, nil, &Error{Kind: ErrMetadata, Status: a.StatusCode, URL: redactURL(a.url), Message: "an answer of the API was expected"}
	}
	if e := a.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, nil, &Error{Kind: ErrMetadata, URL: redactURL(a.url), Message: "the answer is encoded as " + clip(e, 32) + " though identity was asked for"}
	}
	b, err := io.ReadAll(io.LimitReader(a.Body, maxAPIBody+1))
	switch {
	case err != nil:
		return nil, nil, networkError(ctx, a.url, err)
	case len(b) > maxAPIBody:
		return nil, nil, &Error{Kind: ErrMetadata, URL: redactURL(a.url), Message: "the answer is longer than 64 MiB"}
	}
	return b, a.Header, nil
}
