package xet

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The kinds of failure. Match them with errors.Is.
var (
	// ErrNotFound: the store has no such file.
	ErrNotFound = errors.New("file not found")
	// ErrUnauthorized: a fresh token was refused too.
	ErrUnauthorized = errors.New("token refused")
	// ErrForbidden: the token's scope does not cover the file, or newly
	// signed addresses are refused as well.
	ErrForbidden = errors.New("access forbidden")
	// ErrRateLimited: the store asked to slow down more often than the
	// retries allow, or for longer than MaxWait.
	ErrRateLimited = errors.New("rate limited")
	// ErrServer: the store failed, and went on failing.
	ErrServer = errors.New("server error")
	// ErrNetwork: a connection could not be made, broke or stalled.
	ErrNetwork = errors.New("network error")
	// ErrStalled: no byte arrived within the stall timeout. It comes with
	// ErrNetwork.
	ErrStalled = errors.New("no byte arrived in time")
	// ErrProtocol: an answer contradicts the protocol, the request or
	// itself.
	ErrProtocol = errors.New("unusable answer")
	// ErrCorrupt: stored bytes cannot be decoded.
	ErrCorrupt = errors.New("corrupt data")
	// ErrHash: everything was decoded, but it is not the file that the hash
	// names. The error is a [*HashError].
	ErrHash = errors.New("hash mismatch")
	// ErrToken: the token source failed; its error is wrapped.
	ErrToken = errors.New("no access token")
	// ErrOutput: Out could not be written; its error is wrapped.
	ErrOutput = errors.New("output failed")
)

// Error is what [Client.Fetch] returns when it fails. Kind is one of the Err
// values; Err, when set, is the cause. Both match with errors.Is.
type Error struct {
	Kind    error
	Hash    Hash   // the file that was fetched
	Xorb    Hash   // the xorb concerned; zero if none
	Status  int    // HTTP status, 0 if there was none
	URL     string // without query and user information
	Message string // what was expected and what was found
	// RetryAfter is how long the store asked to wait.
	RetryAfter time.Duration
	Err        error
}

// Error gives one line. It holds no token and no query of a signed address.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("xet: ")
	if e.Hash != (Hash{}) {
		b.WriteString("file " + e.Hash.String()[:16] + ": ")
	}
	if e.Xorb != (Hash{}) {
		b.WriteString("xorb " + e.Xorb.String()[:16] + ": ")
	}
	b.WriteString(e.Kind.Error())
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, " (status %d %s)", e.Status, http.StatusText(e.Status))
	}
	if e.URL != "" {
		b.WriteString(" at " + e.URL)
	}
	if e.Err != nil && !errors.Is(e.Kind, e.Err) {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// HashError says that a complete file has another Xet hash than asked for. It
// matches [ErrHash].
type HashError struct{ Expected, Actual Hash }

// Error names both hashes.
func (e *HashError) Error() string {
	return fmt.Sprintf("xet: hash mismatch: expected %v, content has %v", e.Expected, e.Actual)
}

// Unwrap gives ErrHash.
func (e *HashError) Unwrap() error { return ErrHash }

func corrupt(format string, v ...any) error {
	return &Error{Kind: ErrCorrupt, Message: fmt.Sprintf(format, v...)}
}

func protocolError(format string, v ...any) error {
	return &Error{Kind: ErrProtocol, Message: fmt.Sprintf(format, v...)}
}

// redact drops what may hold a secret from an address.
func redact(u *url.URL) string {
	c := *u
	c.User, c.RawQuery, c.Fragment = nil, "", ""
	return c.String()
}

// cause hides the address, which may be signed, in the errors of net/http.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
