package hubtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hfcompress/compress/hub/xet/xettest"
)

// Options configures a [Server]. The zero value serves nothing to anybody.
type Options struct {
	// FS holds folders ORG/NAME/REVISION/files… Models lie at the top or
	// under models/; datasets/, spaces/ and kernels/ hold the other types. A
	// revision with a slash is written with %2F. A folder with 40 hex digits
	// as revision is served under that commit.
	FS fs.FS
	// Repos are served beside FS.
	Repos []Repo
	// LFSSuffixes and LFSThreshold say which files are LFS files. Nil:
	// [DefaultLFSSuffixes]; 0: 10 MiB.
	LFSSuffixes  []string
	LFSThreshold int64
	// Tokens are accepted; any other token is refused. Tokens[i] may read
	// private and gated repositories.
	Tokens []string
	// PageSize is the number of entries of one tree page (default 1000).
	PageSize int
	// PlainRedirect answers plain files with a relative 307 to
	// /api/resolve-cache/…, as the real Hub does, in place of a 200.
	PlainRedirect bool
	// Rate publishes and enforces request limits. Nil: none.
	Rate *RateLimit
	// Xet offers LFS files over Xet too, from a store with these options.
	// Nil: over plain HTTP alone. The store holds all content in memory.
	Xet *xettest.Options
	// Addr is where the Hub listens (default 127.0.0.1:0). The second origin
	// takes a free port of the same host.
	Addr string
}

// RateLimit is a fixed window for each of the Hub's buckets. A quota of 0
// leaves its bucket unlimited.
type RateLimit struct {
	API, Resolvers int
	Window         time.Duration
}

// Server is a running Hub. It is safe for concurrent use.
type Server struct {
	opts  Options
	repos map[string]*repo // "models/ns/name"

	xet            *xettest.Server // nil: no Xet
	hub, cdn       *http.Server
	hubURL, cdnURL string
	secret         string // signs addresses of the second origin
	closed         context.Context
	close          context.CancelFunc
	serving        sync.WaitGroup
	now            func() time.Time

	mu                 sync.Mutex
	epoch              int // counts calls of Forget
	active, peakActive int // requests being answered
	idle               *sync.Cond
	log                []Request
	violations         []string
	faults             []*Fault
	windows            map[string]*window
	byOID              map[string]*file // content of LFS files by SHA-256
	connections, peaks int
}

// New hashes the content, listens on loopback and serves until Close.
func New(opts Options) (*Server, error) {
	if opts.LFSSuffixes == nil {
		opts.LFSSuffixes = DefaultLFSSuffixes
	}
	if opts.LFSThreshold == 0 {
		opts.LFSThreshold = 10 << 20
	}
	if opts.PageSize <= 0 {
		opts.PageSize = 1000
	}
	if opts.Addr == "" {
		opts.Addr = "127.0.0.1:0"
	}
	s := &Server{opts: opts, repos: map[string]*repo{}, windows: map[string]*window{}, byOID: map[string]*file{}, now: time.Now}
	s.idle = sync.NewCond(&s.mu)
	s.closed, s.close = context.WithCancel(context.Background())
	key := make([]byte, 16)
	_, _ = rand.Read(key)
	s.secret = hex.EncodeToString(key)
	if opts.Xet != nil {
		x, err := xettest.New(*opts.Xet)
		if err != nil {
			return nil, err
		}
		s.xet = x
	}
	if err := s.listen(); err != nil {
		if s.xet != nil {
			s.xet.Close()
		}
		return nil, err
	}
	return s, nil
}

// listen adds the repositories and starts both origins.
func (s *Server) listen() error {
	opts := s.opts
	if opts.FS != nil {
		if err := s.addFS(opts.FS); err != nil {
			return err
		}
	}
	for _, r := range opts.Repos {
		if err := s.addRepo(r); err != nil {
			return err
		}
	}
	hubL, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(hubL.Addr().String())
	if err != nil {
		_ = hubL.Close()
		return err
	}
	cdnL, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		_ = hubL.Close()
		return err
	}
	s.hubURL, s.cdnURL = "http://"+hubL.Addr().String(), "http://"+cdnL.Addr().String()
	s.hub = s.serve(hubL, "hub", s.serveHub)
	s.cdn = s.serve(cdnL, "cdn", s.serveCDN)
	return nil
}

func (s *Server) serve(l net.Listener, origin string, h func(*exchange)) *http.Server {
	srv := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handle(origin, h, w, r) }),
		ReadHeaderTimeout: 10 * time.Second,
		ConnState:         s.countConn,
	}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.violate(fmt.Sprintf("%s stopped serving: %v", origin, err))
		}
	}()
	return srv
}

func (s *Server) countConn(_ net.Conn, st http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch st {
	case http.StateNew:
		s.connections++
		s.peaks = max(s.peaks, s.connections)
	case http.StateClosed, http.StateHijacked:
		s.connections--
	}
}

// URL is the address of the Hub, without a trailing slash.
func (s *Server) URL() string { return s.hubURL }

// CDNURL is the address of the second origin.
func (s *Server) CDNURL() string { return s.cdnURL }

// Xet is the store behind the Hub, for faults and counts; nil without
// Options.Xet.
func (s *Server) Xet() *xettest.Server { return s.xet }

// Close stops all origins, stalled answers included.
func (s *Server) Close() {
	s.close()
	_ = s.hub.Close()
	_ = s.cdn.Close()
	if s.xet != nil {
		s.xet.Close()
	}
	s.serving.Wait()
}

// PeakActive is how many requests were answered at the same time at most,
// since New or Forget.
func (s *Server) PeakActive() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peakActive
}

// Connections is how many connections are open at both origins together, and
// how many were at most.
func (s *Server) Connections() (now, peak int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections, s.peaks
}
