package hub

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

// AcquireLockForTest takes a lock file once, without waiting.
func AcquireLockForTest(path string) (release func(), err error) {
	k := locker{try: lockFile}
	l, err := k.attempt(path, path)
	if err != nil {
		return nil, err
	}
	return l.release, nil
}

// ErrLockedForTest is what a taken lock gives.
var ErrLockedForTest = errLocked

// StubLocksForTest makes every lock succeed and exclude nobody.
func (c *Client) StubLocksForTest() { c.locks.try = func(*os.File) error { return nil } }

// NoLocksForTest makes the file system look as if it had no locks.
func (c *Client) NoLocksForTest() { c.locks.try = func(*os.File) error { return errNoLocks } }

// HoldPartialForTest begins a partial and keeps it open.
func HoldPartialForTest(c *Client, r Repo, etag string, size int64) (release func(), err error) {
	rc := c.cacheOf(r)
	if err := os.MkdirAll(rc.blobs(), 0o777); err != nil {
		return nil, err
	}
	p, err := c.openPartial(rc.spot(etag), etag, size)
	if err != nil {
		return nil, err
	}
	return p.remove, nil
}

// SetSymlinkForTest replaces the function that makes links.
func (c *Client) SetSymlinkForTest(f func(target, name string) error) { c.symlinks.link = f }

// SetPublicHubForTest makes an address count as the public Hub.
func (c *Client) SetPublicHubForTest(u string) {
	p, err := url.Parse(u)
	if err != nil {
		panic(err)
	}
	c.publicHubs = []*url.URL{p}
}

// SoftStaleForTest is how old a soft lock must be to be displaced.
const SoftStaleForTest = softStale + time.Second

// ParallelFromForTest sets the size from which a file is fetched in ranges.
func (c *Client) ParallelFromForTest(n int64) { c.parallelFrom = n }

// GetForTest follows a GET with the token as a download does.
func (c *Client) GetForTest(ctx context.Context, u string) error {
	p, err := url.Parse(u)
	if err != nil {
		return err
	}
	a, err := c.open(ctx, request{method: "GET", url: p, auth: true})
	if err == nil {
		_ = a.Body.Close()
	}
	return err
}

// CountTransfersForTest counts the requests of the Xet engine that are open at
// once, from their start until their bodies are closed.
func (c *Client) CountTransfersForTest() (peak func() int) {
	n := &countTransport{base: c.transport}
	c.transport = n
	return func() int {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.peak
	}
}

type countTransport struct {
	base       http.RoundTripper
	mu         sync.Mutex
	open, peak int
}

func (n *countTransport) add(d int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open += d
	n.peak = max(n.peak, n.open)
}

// RoundTrip counts a request.
func (n *countTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	n.add(1)
	resp, err := n.base.RoundTrip(req)
	if err != nil {
		n.add(-1)
		return nil, err
	}
	resp.Body = &connBody{ReadCloser: resp.Body, release: sync.OnceFunc(func() { n.add(-1) })}
	return resp, nil
}

// FoldsCaseForTest says whether the file system takes capitals for small
// letters.
func (c *Client) FoldsCaseForTest(folds bool) {
	c.foldsCase = func(string) bool { return folds }
}
