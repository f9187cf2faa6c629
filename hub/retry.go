package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"
)

func randomUnit() float64 { return rand.Float64() }

func format(f string, v []any) string { return redactText(fmt.Sprintf(f, v...)) }

// temporary reports whether a failure may pass by itself.
func temporary(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		switch e.Status {
		case 408, 429, 500, 502, 503, 504:
			return true
		}
		return e.Kind == ErrNetwork
	}
	return errors.Is(err, errStalled) || errors.Is(err, io.ErrUnexpectedEOF)
}

// backoff is the pause before attempt n (from 0): full jitter below a
// doubling bound, so that many clients do not come back in step.
func (c *Client) backoff(n int) time.Duration {
	bound := c.opts.RetryBase
	for ; n > 0 && bound < c.opts.RetryCap; n-- {
		bound *= 2
	}
	return time.Duration(c.random() * float64(min(bound, c.opts.RetryCap)))
}

// pause waits before attempt n after err. A wait that the server asked for
// comes first; one above the limit is given back as the error itself.
func (c *Client) pause(ctx context.Context, file string, n int, err error) error {
	d := c.backoff(n)
	var e *Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		if e.RetryAfter > c.opts.MaxRateWait {
			return err
		}
		// A little jitter above the server's word: never before it.
		d = e.RetryAfter + time.Duration(c.random()*float64(250*time.Millisecond))
	}
	c.log.Debug("trying again", "file", file, "wait", d, "after", redactText(err.Error()))
	c.progress.send(Event{Kind: Retrying, File: file, Wait: d, Err: err})
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retry runs f until it succeeds, fails for good, or the attempts are used.
func (c *Client) retry(ctx context.Context, file string, f func(context.Context) error) error {
	return c.retryTimes(ctx, file, c.opts.Retries, f)
}

func (c *Client) retryTimes(ctx context.Context, file string, retries int, f func(context.Context) error) error {
	for n := 0; ; n++ {
		err := f(ctx)
		if err == nil || ctx.Err() != nil || !temporary(err) || n >= retries {
			return err
		}
		if perr := c.pause(ctx, file, n, err); perr != nil {
			return perr
		}
	}
}

// mayFallBack reports whether a failure to reach the Hub lets the cache stand
// in. An answer about the revision or the file itself never does, nor does a
// broken proxy, which the user has to repair.
func mayFallBack(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "proxyconnect" {
		return false
	}
	var e *Error
	if !errors.As(err, &e) {
		return errors.Is(err, errStalled)
	}
	switch e.Kind {
	case ErrNetwork, ErrServer, ErrMetadata, ErrRateLimited, ErrRepoNotFound, ErrGated, ErrUnauthorized, ErrForbidden, ErrDisabled:
		return e.Status != 404 && e.Status != 407
	}
	return false
}

func isRateLimit(err error) bool { return errors.Is(err, ErrRateLimited) }

func isCancel(err error) bool { return errors.Is(err, context.Canceled) }
