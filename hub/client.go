package hub

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-resty/resty/v2"
)

// Client talks to one endpoint and one cache. It is safe for concurrent use.
type Client struct {
	opts     Options
	endpoint *url.URL
	// publicHubs are the addresses under which the public Hub names itself.
	publicHubs []*url.URL
	log        *slog.Logger
	progress   reporter

	transport http.RoundTripper // every request goes through it
	rest      *resty.Client     // opens the Hub's; bodies are ours to read
	road      xetRoad

	conns  chan struct{} // one token per open transfer
	pacers sync.Map      // "origin bucket" → *pacer
	warned sync.Map      // X-HF-Warning topics already logged

	symlinks symlinkProbe
	locks    locker

	// parallelFrom is the size from which one file is fetched in ranges.
	parallelFrom int64

	// foldsCase, now and random are replaced in tests.
	foldsCase func(dir string) bool
	now       func() time.Time
	random    func() float64
}

// New checks the options and makes a client. It opens no connection and
// writes nothing.
func New(opts Options) (*Client, error) {
	o := opts.withDefaults()
	ep, err := url.Parse(strings.TrimRight(o.Endpoint, "/"))
	if err != nil || ep.Scheme != "http" && ep.Scheme != "https" || ep.Host == "" || ep.RawQuery != "" || ep.User != nil {
		return nil, &Error{Kind: ErrBadRequest, Op: "configure", Message: fmt.Sprintf("endpoint %q is not an http or https address", clip(redactText(o.Endpoint), 200))}
	}
	if o.Force && o.Offline {
		return nil, &Error{Kind: ErrBadRequest, Op: "configure", Message: "Force and Offline exclude each other"}
	}
	if o.CacheDir == "" {
		return nil, &Error{Kind: ErrCache, Op: "configure", Message: "no cache directory given"}
	}
	if o.CacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return nil, &Error{Kind: ErrCache, Op: "configure", Err: err}
	}
	o.Token = cleanToken(o.Token)
	if err := checkToken(o.Token); err != nil {
		return nil, err
	}
	c := &Client{
		opts:     o,
		endpoint: ep,
		publicHubs: []*url.URL{
			{Scheme: "https", Host: "huggingface.co"},
			{Scheme: "https", Host: "hf.co"},
		},
		log:          o.Logger,
		progress:     reporter{o: o.Progress},
		conns:        make(chan struct{}, o.MaxConns),
		parallelFrom: parallelFrom,

		foldsCase: foldsCase,
		now:       time.Now,
		random:    randomUnit,
	}
	c.locks.try = lockFile
	c.symlinks.disabled = o.DisableSymlinks
	c.buildHTTP()
	c.buildXet()
	return c, nil
}

// CacheDir is the absolute path of the cache.
func (c *Client) CacheDir() string { return c.opts.CacheDir }

// Endpoint is the address in use, without a trailing slash.
func (c *Client) Endpoint() string { return c.endpoint.String() }

// Offline reports whether the client may use the network at all.
func (c *Client) Offline() bool { return c.opts.Offline }

// CloseIdle closes connections that no transfer uses.
func (c *Client) CloseIdle() { c.rest.GetClient().CloseIdleConnections() }
