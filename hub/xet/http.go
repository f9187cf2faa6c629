package xet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxRedirects = 5
	maxErrorBody = 4 << 10
)

// exchange is one open request. Close must be called.
type exchange struct {
	*http.Response
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
	at     *url.URL
}

// open makes a GET request and waits for its headers. Any status is a result.
func (c *Client) open(ctx context.Context, u *url.URL, header http.Header) (*exchange, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	x := &exchange{ctx: ctx, cancel: cancel, stall: c.opts.StallTimeout, at: u}
	req := (&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	header.Set("Accept-Encoding", "identity")
	if c.opts.UserAgent != "" {
		header.Set("User-Agent", c.opts.UserAgent)
	}
	x.timer = time.AfterFunc(x.stall, func() { cancel(ErrStalled) })
	resp, err := c.opts.Transport.RoundTrip(req)
	x.timer.Stop()
	if err != nil {
		err = x.networkError(err)
		cancel(nil)
		return nil, err
	}
	x.Response = resp
	return x, nil
}

// Read reads the body. The stall timer runs only while a read waits, so a
// slow disk is not taken for a stalled server.
func (x *exchange) Read(p []byte) (int, error) {
	x.timer.Reset(x.stall)
	n, err := x.Body.Read(p)
	x.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = x.networkError(err)
	}
	return n, err
}

// Close ends the request. What was not read of the body ends its connection.
func (x *exchange) Close() {
	x.timer.Stop()
	_ = x.Body.Close()
	x.cancel(nil)
}

func (x *exchange) networkError(err error) error {
	if errors.Is(context.Cause(x.ctx), ErrStalled) {
		err = ErrStalled
	} else if x.ctx.Err() != nil {
		return context.Cause(x.ctx)
	}
	return &Error{Kind: ErrNetwork, URL: redact(x.at), Err: cause(err)}
}

// statusError makes an error of an answer and closes it. Kinds follow the
// tables of the store; content addresses are judged by their caller.
func (x *exchange) statusError() *Error {
	defer x.Close()
	e := &Error{Kind: ErrProtocol, Status: x.StatusCode, URL: redact(x.at), RetryAfter: retryAfter(x.Header.Get("Retry-After"))}
	switch s := x.StatusCode; {
	case s == http.StatusUnauthorized:
		e.Kind = ErrUnauthorized
	case s == http.StatusForbidden:
		e.Kind = ErrForbidden
	case s == http.StatusNotFound:
		e.Kind = ErrNotFound
	case s == http.StatusTooManyRequests:
		e.Kind = ErrRateLimited
	case s == http.StatusRequestTimeout || s >= 500:
		e.Kind = ErrServer
	}
	// Short plain words of the server help its users; pages do not.
	if text := x.Header.Get("Content-Type"); strings.HasPrefix(text, "text/plain") {
		b, _ := io.ReadAll(io.LimitReader(x, maxErrorBody))
		if line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n"); len(line) < 200 {
			e.Message = strconv.QuoteToGraphic(line)
		}
	}
	return e
}

// retryAfter reads seconds or a date.
func retryAfter(s string) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}

// openContent requests a byte range of a xorb. The address is signed, so
// nothing but the range goes with it. Redirects are followed as long as they
// do not leave TLS.
func (c *Client) openContent(ctx context.Context, k partKey, u *url.URL) (*exchange, error) {
	for range maxRedirects {
		x, err := c.open(ctx, u, http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", k.first, k.last)}})
		if err != nil {
			return nil, err
		}
		if s := x.StatusCode; s != 301 && s != 302 && s != 303 && s != 307 && s != 308 {
			return x, nil
		}
		next, err := x.Location()
		x.Close()
		if err == nil {
			next, err = checkURL(next.String(), u)
		}
		if err != nil {
			return nil, &Error{Kind: ErrProtocol, Xorb: k.xorb, Status: x.StatusCode, URL: redact(u), Message: "unusable redirect"}
		}
		u = next
	}
	return nil, &Error{Kind: ErrProtocol, Xorb: k.xorb, URL: redact(u), Message: fmt.Sprintf("more than %d redirects", maxRedirects)}
}

// temporary reports whether a failure may pass by itself.
func temporary(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Kind {
	case ErrServer:
		return e.Status != http.StatusNotImplemented
	case ErrNetwork, ErrRateLimited:
		return true
	}
	return false
}

// pause waits before attempt n (from 0) after err: as long as the server
// asked, or a random part of a bound that doubles, so that many clients do
// not come back in step.
func (c *Client) pause(ctx context.Context, n int, err error, notify func(error, time.Duration)) error {
	bound := c.opts.RetryBase
	for ; n > 0 && bound < c.opts.RetryCap; n-- {
		bound *= 2
	}
	d := time.Duration(rand.Float64() * float64(min(bound, c.opts.RetryCap)))
	var e *Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		if e.RetryAfter > c.opts.MaxWait {
			return err
		}
		d += e.RetryAfter
	}
	if notify != nil {
		notify(err, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
