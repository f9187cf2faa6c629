package xet

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// connMemory is what one open transfer holds: its buffer of unpacked chunks,
// its buffer of stored ones, and what decoding and the transport need.
const connMemory = 2 << 20

// Options configures a [Client]. The zero value of every field is useful.
type Options struct {
	// Transport opens every request. Nil: [NewTransport] with Conns. It must
	// not add credentials, follow redirects or decompress bodies; HTTP/2
	// would put all transfers behind one connection.
	Transport http.RoundTripper
	// UserAgent is sent with every request. Empty: the transport's default.
	UserAgent string
	// Conns bounds the open content transfers of the whole client (default
	// 16).
	Conns int
	// Memory bounds the buffers of the whole client in bytes (default
	// 256 MiB). A transfer takes 2 MiB, so less than 2*Conns MiB means fewer
	// transfers.
	Memory int64
	// Window is how many bytes of a file one query covers (default 256 MiB).
	// Windows are planned at most two ahead of the transfers.
	Window int64
	// StallTimeout ends a request that gives no headers, or no byte of its
	// body, for so long; it is then made anew (default 30 s). There is no
	// timeout for a whole body.
	StallTimeout time.Duration
	// Retries is how often a request is made anew after failures without
	// progress between them (default 5; negative: never).
	Retries int
	// RetryBase and RetryCap bound the pause before a new attempt: a random
	// part of RetryBase*2^n, at most RetryCap (default 500 ms and 10 s).
	RetryBase, RetryCap time.Duration
	// MaxWait is the longest wait that a server may ask for (default 60 s).
	MaxWait time.Duration
}

// Client downloads files from content-addressed stores. Its limits hold for
// all transfers together. It is safe for concurrent use.
type Client struct {
	opts  Options
	conns chan struct{}

	mu sync.Mutex
	v1 map[string]bool // stores that have no V2
}

// New makes a client. It opens no connection.
func New(opts Options) *Client {
	if opts.Conns <= 0 {
		opts.Conns = 16
	}
	if opts.Memory <= 0 {
		opts.Memory = 256 << 20
	}
	opts.Conns = max(1, min(opts.Conns, int(min(opts.Memory/connMemory, 1<<16))))
	if opts.Transport == nil {
		opts.Transport = NewTransport(opts.Conns)
	}
	if opts.Window <= 0 {
		opts.Window = 256 << 20
	}
	setDuration(&opts.StallTimeout, 30*time.Second)
	if opts.Retries == 0 {
		opts.Retries = 5
	}
	opts.Retries = max(opts.Retries, 0)
	setDuration(&opts.RetryBase, 500*time.Millisecond)
	setDuration(&opts.RetryCap, 10*time.Second)
	setDuration(&opts.MaxWait, time.Minute)
	return &Client{opts: opts, conns: make(chan struct{}, opts.Conns), v1: make(map[string]bool)}
}

func setDuration(d *time.Duration, def time.Duration) {
	if *d <= 0 {
		*d = def
	}
}

// NewTransport makes the transport that suits this protocol: HTTP/1.1, so
// that each transfer has a connection of its own; conns idle connections for
// each host; no compression, which would hide lengths; no proxy (set Proxy
// for one) and large read buffers.
func NewTransport(conns int) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true,
		ReadBufferSize:         64 << 10,
	}
}

// usesV1 reports whether a store was found to have no V2.
func (c *Client) usesV1(cas *url.URL) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.v1[cas.String()]
}

func (c *Client) rememberV1(cas *url.URL) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.v1[cas.String()] = true
}
