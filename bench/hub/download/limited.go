package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"sync"
	"time"
)

// patience is how long a link remembers that it was not used.
const patience = 50 * time.Millisecond

// link is a network on which the server limits each connection.
type link struct {
	conn, all float64 // MB/s
	rtt       time.Duration
}

// limited downloads over such a link, once on each road. The server lies
// behind a proxy that shapes the connections of the client.
func (b bench) limited(l link) error {
	j, stop, err := b.serve()
	if err != nil {
		return err
	}
	defer stop()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	proxy := &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite:       func(*httputil.ProxyRequest) {}, // the address asked for is the address meant
		FlushInterval: -1,
		ErrorLog:      log.New(nothing{}, "", 0),
	}}
	go func() { _ = proxy.Serve(&shapedListener{Listener: inner, link: l, all: &pace{rate: l.all * 1e6}}) }()
	defer proxy.Close()
	j.Proxy = "http://" + inner.Addr().String()
	fmt.Printf("link of %.0f MB/s, %.0f MB/s for each connection, round trip %v, %d MiB\n", l.all, l.conn, l.rtt, b.size>>20)
	for _, role := range []string{"ours http", "ours xet"} {
		j.Role, j.Dir = role, filepath.Join(b.tmp, "cache")
		r, err := j.measure("", "")
		if err != nil {
			return fmt.Errorf("%s: %w", role, err)
		}
		rate := float64(b.size) / 1e6 / r.wall
		share := 100 * rate / l.all
		state := "missed"
		if share >= 80 {
			state = "met"
		}
		fmt.Printf("%-16s %7.3f s, %.0f MB/s, %.0f %% of the link; goal of 80 %%: %s; rss %d MiB\n", role, r.wall, rate, share, state, r.rss>>10)
	}
	return nil
}

type nothing struct{}

func (nothing) Write(b []byte) (int, error) { return len(b), nil }

// pace says when bytes may pass so that a rate holds.
type pace struct {
	mu   sync.Mutex
	rate float64 // bytes per second
	next time.Time
}

// take waits for n bytes at a rate of at most most.
func (p *pace) take(n int, most float64) {
	p.mu.Lock()
	// What was not used a moment ago may be made up for, as by a queue:
	// sleeps are not exact.
	if floor := time.Now().Add(-patience); p.next.Before(floor) {
		p.next = floor
	}
	p.next = p.next.Add(time.Duration(float64(n) / min(p.rate, most) * float64(time.Second)))
	wait := time.Until(p.next)
	p.mu.Unlock()
	time.Sleep(wait)
}

type shapedListener struct {
	net.Listener
	link link
	all  *pace
}

func (l *shapedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &shapedConn{Conn: c, link: l.link, all: l.all, own: &pace{rate: l.link.conn * 1e6}, window: 10 * 1460, wait: 2 * l.link.rtt}, nil
}

// shapedConn answers a round trip after it was asked, two for the first time,
// and sends at its rate and that of the link. It begins slowly, as TCP does:
// ten segments, and twice as much with every round trip.
type shapedConn struct {
	net.Conn
	link   link
	all    *pace
	own    *pace
	window float64 // bytes per round trip

	mu   sync.Mutex
	wait time.Duration // before the next request is seen
}

func (c *shapedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.mu.Lock()
		wait := c.wait
		c.wait = 0
		c.mu.Unlock()
		time.Sleep(wait)
	}
	return n, err
}

func (c *shapedConn) Write(b []byte) (done int, err error) {
	c.mu.Lock()
	c.wait = c.link.rtt
	c.mu.Unlock()
	for done < len(b) && err == nil {
		n := min(len(b)-done, 16<<10)
		c.own.take(n, c.window/c.link.rtt.Seconds())
		c.all.take(n, c.all.rate)
		c.window += float64(n)
		n, err = c.Conn.Write(b[done : done+n])
		done += n
	}
	return done, err
}
