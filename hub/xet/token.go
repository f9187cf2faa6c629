package xet

import (
	"context"
	"errors"
	"time"
)

// tokenSlack is how long before its end a token is replaced.
const tokenSlack = 30 * time.Second

// Token gives read access to the files of one repository at one revision.
type Token struct {
	// Access is sent to the store, and to nobody else.
	Access string
	// CAS is the address of the store that the token is for.
	CAS string
	// Expires is when the token ends. Zero: never.
	Expires time.Time
}

// TokenSource asks the Hub for a token. With force set a token given before
// was refused, and a cached answer is of no use.
type TokenSource func(ctx context.Context, force bool) (Token, error)

// Tokens keeps the current token of a [TokenSource] and replaces it 30 s
// before it ends, or when the store refuses it. However many transfers share
// it, the source is asked once at a time. Make one for each repository and
// revision. It is safe for concurrent use.
type Tokens struct {
	source TokenSource
	lock   chan struct{} // a mutex that a context can leave
	token  Token
	have   bool
	now    func() time.Time
}

// NewTokens asks source when a token is first needed.
func NewTokens(source TokenSource) *Tokens {
	return &Tokens{source: source, lock: make(chan struct{}, 1), now: time.Now}
}

// Token returns a valid token. refused is the text of a token that the store
// did not take, or empty: if that one is still the current one, it is
// replaced.
func (t *Tokens) Token(ctx context.Context, refused string) (Token, error) {
	select {
	case t.lock <- struct{}{}:
		defer func() { <-t.lock }()
	case <-ctx.Done():
		return Token{}, context.Cause(ctx)
	}
	force := t.have && refused != "" && t.token.Access == refused
	if t.have && !force && (t.token.Expires.IsZero() || t.now().Before(t.token.Expires.Add(-tokenSlack))) {
		return t.token, nil
	}
	tok, err := t.source(ctx, force)
	if err != nil {
		if ctx.Err() != nil {
			return Token{}, context.Cause(ctx)
		}
		return Token{}, &Error{Kind: ErrToken, Err: err}
	}
	if tok.CAS == "" {
		return Token{}, &Error{Kind: ErrToken, Err: errors.New("the token names no store")}
	}
	t.token, t.have = tok, true
	return tok, nil
}
