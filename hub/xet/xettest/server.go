package xettest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hfcompress/compress/hub/xet"
)

// Options configures a [Server]. The zero value of every field is useful.
type Options struct {
	// Addr is where the store listens (default 127.0.0.1:0). The origin of
	// content takes a free port of the same host.
	Addr string
	// MaxXorb and MaxChunks bound a xorb: stored bytes (default 64 MiB) and
	// chunks (default 8192).
	MaxXorb   int64
	MaxChunks int
	// TermChunks bounds the chunks of a term. 0: no bound.
	TermChunks int
	// Scheme chooses how the nth chunk is stored. Nil: what is smallest.
	Scheme func(n int) xet.Scheme
	// WholeTerms answers a range with whole terms, so that the offset into
	// the first may be large. Otherwise terms are trimmed to chunks.
	WholeTerms bool
	// NoV2 is the status with which V2 is refused (404 or 501). 0: V2 works.
	NoV2 int
	// TokenTTL and URLTTL are how long tokens and signed addresses last
	// (default 1 hour).
	TokenTTL, URLTTL time.Duration
}

// Request is one request that the server got.
type Request struct {
	Call   string // V1, V2 or Content, or the path of anything else
	Range  string
	Status int
	// Token says that the request carried an Authorization header.
	Token bool
	// Bytes is the length of the body that was sent.
	Bytes int64
}

// Server is a running store. It is safe for concurrent use.
type Server struct {
	opts     Options
	cas, cdn *http.Server
	casURL   string
	cdnURL   string
	secret   []byte
	closed   context.Context
	close    context.CancelFunc
	serving  sync.WaitGroup

	mu         sync.Mutex
	store      *store
	tokens     map[string]time.Time
	issued     int
	revision   int // of signatures; older ones are refused
	faults     []*Fault
	log        []Request
	violations []string
}

// New listens on loopback and serves until Close.
func New(opts Options) (*Server, error) {
	if opts.Addr == "" {
		opts.Addr = "127.0.0.1:0"
	}
	if opts.MaxXorb <= 0 {
		opts.MaxXorb = 64 << 20
	}
	if opts.MaxChunks <= 0 {
		opts.MaxChunks = 8192
	}
	if opts.TokenTTL <= 0 {
		opts.TokenTTL = time.Hour
	}
	if opts.URLTTL <= 0 {
		opts.URLTTL = time.Hour
	}
	s := &Server{opts: opts, store: newStore(opts), tokens: map[string]time.Time{}, secret: make([]byte, 32)}
	_, _ = rand.Read(s.secret) // never fails
	s.closed, s.close = context.WithCancel(context.Background())
	casL, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(casL.Addr().String())
	if err != nil {
		_ = casL.Close()
		return nil, err
	}
	cdnL, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		_ = casL.Close()
		return nil, err
	}
	s.casURL, s.cdnURL = "http://"+casL.Addr().String(), "http://"+cdnL.Addr().String()
	s.cas, s.cdn = s.serve(casL, s.serveCAS), s.serve(cdnL, s.serveContent)
	return s, nil
}

func (s *Server) serve(l net.Listener, h func(*exchange)) *http.Server {
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w, s: s, r: r, call: r.URL.Path}
		defer x.finish()
		h(x)
	})}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.violate("stopped serving: %v", err)
		}
	}()
	return srv
}

// CASURL is the address of the store, without a trailing slash.
func (s *Server) CASURL() string { return s.casURL }

// Close stops both origins, stalled answers included.
func (s *Server) Close() {
	s.close()
	_ = s.cas.Close()
	_ = s.cdn.Close()
	s.serving.Wait()
}

// Add stores everything r gives as one file. Chunks that the store has are
// not stored again.
func (s *Server) Add(r io.Reader) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.store.add(r)
	if err != nil {
		return File{}, err
	}
	return *f, nil
}

// AddBytes stores data as one file.
func (s *Server) AddBytes(data []byte) File {
	f, err := s.Add(bytes.NewReader(data))
	if err != nil {
		panic("xettest: " + err.Error()) // reading memory does not fail
	}
	return f
}

// Stored is how many bytes all xorbs have.
func (s *Server) Stored() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.store.xorbs {
		n += int64(len(x.data))
	}
	return n
}

// Issue makes a token for every file.
func (s *Server) Issue() xet.Token {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	t := xet.Token{Access: "xet_" + hex.EncodeToString(b), CAS: s.casURL, Expires: time.Now().Add(s.opts.TokenTTL)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[t.Access] = t.Expires
	s.issued++
	return t
}

// Source is a token source that never fails.
func (s *Server) Source(context.Context, bool) (xet.Token, error) { return s.Issue(), nil }

// Issued is how many tokens were made.
func (s *Server) Issued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued
}

// Revoke makes all tokens invalid.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Expire makes all signed addresses invalid.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
}

// Requests is the log of everything asked so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Violations is what clients did that they must not do.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

func (s *Server) violate(format string, v ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = append(s.violations, fmt.Sprintf(format, v...))
}

// signature binds an address to its ranges and its end.
func (s *Server) signature(xorb, ranges, expires string, revision int) string {
	m := hmac.New(sha256.New, s.secret)
	fmt.Fprintf(m, "%s\n%s\n%s\n%d", xorb, ranges, expires, revision)
	return hex.EncodeToString(m.Sum(nil))
}

func (s *Server) sign(x *xorb, spans ...ChunkedSpan) string {
	parts := make([]string, len(spans))
	for i, c := range spans {
		parts[i] = fmt.Sprintf("%d-%d", c.Bytes.Start, c.Bytes.End)
	}
	q := url.Values{}
	q.Set("X-Xet-Signed-Range", "bytes="+strings.Join(parts, ","))
	q.Set("Expires", strconv.FormatInt(time.Now().Add(s.opts.URLTTL).UnixNano(), 10))
	s.mu.Lock()
	revision := s.revision
	s.mu.Unlock()
	q.Set("Signature", s.signature(x.hash.String(), q.Get("X-Xet-Signed-Range"), q.Get("Expires"), revision))
	return s.cdnURL + "/xorbs/default/" + x.hash.String() + "?" + q.Encode()
}

func (s *Server) serveCAS(x *exchange) {
	version, hash, ok := strings.Cut(strings.TrimPrefix(x.r.URL.Path, "/"), "/reconstructions/")
	if !ok || x.r.Method != http.MethodGet || version != V1 && version != V2 {
		s.violate("%s %s", x.r.Method, x.r.URL.Path)
		http.NotFound(x, x.r)
		return
	}
	x.call = version
	fault := s.fault(version)
	if x.early(fault) {
		return
	}
	token, _ := strings.CutPrefix(x.r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	expires, known := s.tokens[token]
	s.mu.Unlock()
	if !known || time.Now().After(expires) {
		http.Error(x, "the token is not valid", http.StatusUnauthorized)
		return
	}
	if version == V2 && s.opts.NoV2 != 0 {
		http.Error(x, "no such call", s.opts.NoV2)
		return
	}
	h, err := xet.ParseHash(hash)
	if err != nil {
		http.Error(x, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	f := s.store.files[h]
	s.mu.Unlock()
	if f == nil {
		http.Error(x, "no such file", http.StatusNotFound)
		return
	}
	from, to := int64(0), f.Size
	if text := x.r.Header.Get("Range"); text != "" {
		spans, err := parseRanges(text)
		if err != nil || len(spans) != 1 {
			http.Error(x, "unusable range", http.StatusBadRequest)
			return
		}
		if from, to = spans[0].Start, min(spans[0].End+1, f.Size); from >= f.Size {
			http.Error(x, "the range starts after the end", http.StatusRequestedRangeNotSatisfiable)
			return
		}
	}
	r := s.rebuild(f, from, to)
	if version == V1 {
		r.v1(s)
	} else {
		r.v2(s)
	}
	switch fault.Kind {
	case WrongLength:
		r.Terms[0].UnpackedLength++
	case Edit:
		fault.Edit(r)
	}
	body, err := json.Marshal(r)
	if err != nil {
		panic("xettest: " + err.Error()) // numbers and strings
	}
	if fault.Kind == Garbage {
		body = []byte("<html>sign in</html>")
	}
	x.Header().Set("Content-Type", "application/json")
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.send(fault, body)
}

// parseRanges reads "bytes=a-b,c-d".
func parseRanges(text string) (out []Span, err error) {
	list, ok := strings.CutPrefix(text, "bytes=")
	if !ok {
		return nil, errors.New("not bytes")
	}
	for part := range strings.SplitSeq(list, ",") {
		a, b, _ := strings.Cut(strings.TrimSpace(part), "-")
		start, err1 := strconv.ParseInt(a, 10, 62)
		end, err2 := strconv.ParseInt(b, 10, 62)
		if err := errors.Join(err1, err2); err != nil || start > end || start < 0 {
			return nil, fmt.Errorf("range %q", part)
		}
		out = append(out, Span{start, end})
	}
	return out, nil
}
