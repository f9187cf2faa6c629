package hub_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// TestPacing downloads more files than a window allows. The client waits for
// the next window by itself and never meets a 429 (newHub fails on one).
func TestPacing(t *testing.T) {
	files := hubtest.Files{}
	for i := range 25 {
		files[fmt.Sprintf("f%02d.txt", i)] = fmt.Appendf(nil, "file %d\n", i)
	}
	s := newHub(t, hubtest.Options{
		Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": files}}},
		Rate:  &hubtest.RateLimit{API: 100, Resolvers: 10, Window: time.Second},
	})
	rec := &recorder{}
	c := newClient(t, s, func(o *hub.Options) { o.Progress = rec })
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil || len(snap.Files) != 25 {
		t.Fatal(err)
	}
	if n := s.Count(func(r hubtest.Request) bool { return r.Status == 429 }); n != 0 {
		t.Errorf("%d requests were refused", n)
	}
	if len(rec.kinds(hub.Waiting)) == 0 {
		t.Error("nothing was paced")
	}
}

// A limit that others have used up is waited for.
func TestRateLimitIsWaitedFor(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	s.Inject(hubtest.Fault{Kind: hubtest.Status, Code: 429, Header: map[string][]string{"RateLimit": {`"api";r=0;t=0`}}})
	rec := &recorder{}
	c := newClient(t, s, func(o *hub.Options) { o.Progress = rec })
	if _, err := c.Resolve(t.Context(), demo, "main"); err != nil {
		t.Fatal(err)
	}
	if e := rec.kinds(hub.Retrying); len(e) != 1 || e[0].Wait < time.Second {
		t.Errorf("%+v", e)
	}
}

// farConn is a connection to a host some milliseconds away: what is known of
// the limit is older than what is under way.
type farConn struct{ net.Conn }

// Write delays a request.
func (c farConn) Write(b []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return c.Conn.Write(b)
}

func dialFar(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return farConn{c}, nil
}

// Several clients draw on one limit, as processes behind one address do. None
// of them meets a 429 (newHub fails on one), and all finish.
func TestPacingBesideOthers(t *testing.T) {
	files := hubtest.Files{}
	for i := range 90 {
		files[fmt.Sprintf("f%02d.txt", i)] = fmt.Appendf(nil, "file %d\n", i)
	}
	s := newHub(t, hubtest.Options{
		Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": files}}},
		Rate:  &hubtest.RateLimit{API: 100, Resolvers: 300, Window: time.Second},
	})
	var wg sync.WaitGroup
	for range 4 {
		c := newClient(t, s, func(o *hub.Options) { o.DialContext, o.Workers = dialFar, 16 })
		wg.Go(func() {
			snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
			if err != nil || len(snap.Files) != len(files) {
				t.Errorf("%d files, %v", len(snap.Files), err)
			}
		})
	}
	wg.Wait()
	if n := s.Count(func(r hubtest.Request) bool { return r.Status == 429 }); n != 0 {
		t.Errorf("%d requests were refused", n)
	}
	if n := len(s.Requests()); n < 4*len(files) {
		t.Errorf("%d requests", n)
	}
}
