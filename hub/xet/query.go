package xet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// query asks the store how to rebuild a byte range of the file. It retries,
// renews the token once for each attempt that is refused, and falls back to V1
// of the call where a store has no V2.
func (t *transfer) query(ctx context.Context, ask Range) (*recon, error) {
	fails, refused := 0, ""
	for {
		tok, err := t.req.Tokens.Token(ctx, refused)
		if err != nil {
			return nil, err
		}
		r, err := t.queryOnce(ctx, ask, tok)
		if err == nil || ctx.Err() != nil {
			return r, err
		}
		switch {
		case errors.Is(err, ErrUnauthorized) && refused == "":
			// Once: a second refusal is final.
			refused = tok.Access
			continue
		case !temporary(err) || fails >= t.c.opts.Retries:
			return nil, err
		}
		if err := t.pause(ctx, fails, err); err != nil {
			return nil, err
		}
		fails++
	}
}

func (t *transfer) queryOnce(ctx context.Context, ask Range, tok Token) (*recon, error) {
	base, err := url.Parse(strings.TrimRight(tok.CAS, "/") + "/")
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, &Error{Kind: ErrToken, Message: "the store's address is not a URL"}
	}
	if !t.c.usesV1(base) {
		r, err := t.ask(ctx, base, "v2", ask, tok)
		var e *Error
		if err == nil || !errors.As(err, &e) || e.Status != http.StatusNotFound && e.Status != http.StatusNotImplemented {
			return r, err
		}
	}
	r, err := t.ask(ctx, base, "v1", ask, tok)
	if err == nil {
		// Only now: a file that neither version knows says nothing of V2.
		t.c.rememberV1(base)
	}
	return r, err
}

func (t *transfer) ask(ctx context.Context, base *url.URL, version string, ask Range, tok Token) (*recon, error) {
	h := http.Header{"Authorization": {"Bearer " + tok.Access}}
	if ask.Start > 0 || ask.End < t.req.Size {
		h.Set("Range", fmt.Sprintf("bytes=%d-%d", ask.Start, ask.End-1))
	}
	u := base.JoinPath(version, "reconstructions", t.req.Hash.String())
	t.queries.Add(1)
	x, err := t.c.open(ctx, u, h)
	if err != nil {
		return nil, err
	}
	if x.StatusCode != http.StatusOK && x.StatusCode != http.StatusPartialContent {
		err := x.statusError()
		if err.Status == http.StatusRequestedRangeNotSatisfiable {
			err.Message = fmt.Sprintf("the file has no byte %d, its size should be %d", ask.Start, t.req.Size)
		}
		return nil, err
	}
	defer x.Close()
	body, err := io.ReadAll(io.LimitReader(x, maxReply+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxReply {
		return nil, &Error{Kind: ErrProtocol, URL: redact(u), Message: fmt.Sprintf("reconstruction is longer than %d bytes", maxReply)}
	}
	r, err := parseRecon(body, base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redact(u), err)
	}
	return r, nil
}
