package xet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub/xet"
	"github.com/hfcompress/compress/hub/xet/xettest"
	"pgregory.net/rapid"
)

// buffer is an Out in memory that notes overlapping writes.
type buffer struct {
	mu   sync.Mutex
	data []byte
	hits []byte
}

func newBuffer(n int64) *buffer { return &buffer{data: make([]byte, n), hits: make([]byte, n)} }

func (b *buffer) WriteAt(p []byte, off int64) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if off < 0 || off+int64(len(p)) > int64(len(b.data)) {
		return 0, io.ErrShortWrite
	}
	copy(b.data[off:], p)
	for i := range p {
		b.hits[off+int64(i)]++
	}
	return len(p), nil
}

// noise is content with runs, so that every scheme has something to do.
func noise(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 11))
	b := make([]byte, n)
	for i := 0; i < n; {
		run := 1 + rng.IntN(3000)
		kind, c := rng.IntN(3), byte(rng.Uint32())
		for ; run > 0 && i < n; run-- {
			switch kind {
			case 0:
				b[i] = c
			case 1:
				b[i] = byte(rng.Uint32())
			default:
				b[i] = []byte{c, 0x3f, byte(i % 7), 0x80}[i%4]
			}
			i++
		}
	}
	return b
}

func start(t testing.TB, opts xettest.Options) *xettest.Server {
	t.Helper()
	s, err := xettest.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if v := s.Violations(); len(v) > 0 {
			t.Errorf("the client broke the rules: %q", v)
		}
	})
	return s
}

// fast makes a client whose waits are short.
func fast(t testing.TB, opts xet.Options) *xet.Client {
	tr := xet.NewTransport(8)
	t.Cleanup(tr.CloseIdleConnections)
	opts.Transport = tr
	if opts.RetryBase == 0 {
		opts.RetryBase = time.Millisecond
	}
	return xet.New(opts)
}

func fetch(t testing.TB, c *xet.Client, s *xettest.Server, f xettest.File, missing []xet.Range) ([]byte, xet.Result, error) {
	t.Helper()
	out := newBuffer(f.Size)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := c.Fetch(ctx, xet.Request{Hash: f.Hash, Size: f.Size, Tokens: xet.NewTokens(s.Source), Out: out, Missing: missing})
	return out.data, res, err
}

func TestFetch(t *testing.T) {
	shared := noise(1<<20, 1)
	contents := map[string][]byte{
		"empty":    nil,
		"byte":     {7},
		"small":    noise(5000, 2),
		"several":  noise(3<<20, 3),
		"zeros":    make([]byte, 3<<20),
		"repeated": slices.Concat(shared, noise(300000, 4), shared, shared[:500000], shared),
	}
	for _, tt := range []struct {
		name  string
		store xettest.Options
		opts  xet.Options
	}{
		{"default", xettest.Options{}, xet.Options{}},
		{"small windows", xettest.Options{MaxXorb: 300 << 10}, xet.Options{Window: 200 << 10, Conns: 3}},
		{"tiny windows", xettest.Options{MaxXorb: 1 << 20}, xet.Options{Window: 1, Conns: 2}},
		{"whole terms", xettest.Options{MaxXorb: 500 << 10, WholeTerms: true}, xet.Options{Window: 100 << 10}},
		{"short terms", xettest.Options{TermChunks: 1}, xet.Options{Window: 1 << 20}},
		{"V1 after 404", xettest.Options{NoV2: 404, MaxXorb: 300 << 10}, xet.Options{Window: 500 << 10}},
		{"V1 after 501", xettest.Options{NoV2: 501}, xet.Options{}},
		{"every scheme", xettest.Options{Scheme: func(n int) xet.Scheme { return xet.Scheme(n % 3) }}, xet.Options{}},
		{"one connection", xettest.Options{MaxXorb: 200 << 10}, xet.Options{Memory: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, tt.store)
			c := fast(t, tt.opts)
			for name, data := range contents {
				f := s.AddBytes(data)
				got, res, err := fetch(t, c, s, f, nil)
				if err != nil || !bytes.Equal(got, data) || !res.Verified || len(res.Missing) != 0 || res.Written != f.Size {
					t.Errorf("%s: %+v, %v, equal %t", name, res, err, bytes.Equal(got, data))
				}
			}
			if tt.store.NoV2 == 0 {
				return
			}
			v2 := 0
			for _, r := range s.Requests() {
				if r.Call == xettest.V2 {
					v2++
				}
			}
			if v2 != 1 {
				t.Errorf("V2 was asked %d times, expected once", v2)
			}
		})
	}
}

// What a file repeats is fetched once.
func TestFetchSharesRequests(t *testing.T) {
	s := start(t, xettest.Options{})
	data := slices.Concat(bytes.Repeat(make([]byte, xet.MaxChunk), 200), noise(100000, 1), make([]byte, 50*xet.MaxChunk))
	f := s.AddBytes(data)
	got, res, err := fetch(t, fast(t, xet.Options{}), s, f, nil)
	if err != nil || !bytes.Equal(got, data) || !res.Verified {
		t.Fatalf("%+v, %v", res, err)
	}
	if res.Requests != 1 || res.Received > s.Stored() {
		t.Errorf("%d requests for %d bytes, stored are %d", res.Requests, res.Received, s.Stored())
	}
}

// Property: any set of missing ranges is filled, nothing else is touched, and
// no byte is written twice.
func TestFetchMissing(t *testing.T) {
	s := start(t, xettest.Options{MaxXorb: 150 << 10, TermChunks: 3})
	whole := start(t, xettest.Options{MaxXorb: 150 << 10, WholeTerms: true})
	data := slices.Concat(noise(200000, 1), make([]byte, 300000), noise(100000, 2))
	data = append(data, data[:150000]...)
	f, size := s.AddBytes(data), int64(len(data))
	whole.AddBytes(data)
	rapid.Check(t, func(rt *rapid.T) {
		var missing []xet.Range
		want := make([]bool, size)
		for range rapid.IntRange(1, 6).Draw(rt, "ranges") {
			from := rapid.Int64Range(0, size-1).Draw(rt, "from")
			to := min(size, from+rapid.Int64Range(1, 150000).Draw(rt, "length"))
			missing = append(missing, xet.Range{Start: from, End: to})
			for i := from; i < to; i++ {
				want[i] = true
			}
		}
		server := s
		if rapid.Bool().Draw(rt, "whole terms") {
			server = whole
		}
		c := fast(t, xet.Options{Window: rapid.Int64Range(30000, 1<<20).Draw(rt, "window")})
		out := newBuffer(size)
		var mu sync.Mutex
		var told int64
		res, err := c.Fetch(context.Background(), xet.Request{Hash: f.Hash, Size: size, Tokens: xet.NewTokens(server.Source), Out: out, Missing: missing, Wrote: func(r xet.Range) {
			mu.Lock()
			defer mu.Unlock()
			told += r.End - r.Start
		}})
		if err != nil || len(res.Missing) > 0 || told != res.Written {
			rt.Fatalf("%+v, told %d: %v", res, told, err)
		}
		for i := range data {
			if want[i] && (out.data[i] != data[i] || out.hits[i] != 1) || !want[i] && out.hits[i] != 0 {
				rt.Fatalf("byte %d: wanted %t, written %d times", i, want[i], out.hits[i])
			}
		}
	})
}

func TestFaults(t *testing.T) {
	data := noise(2<<20, 5)
	const anywhere = 70000
	for _, tt := range []struct {
		name  string
		fault xettest.Fault
		opts  xet.Options
		err   error // nil: the fetch must recover
	}{
		{name: "stall", fault: xettest.Fault{Kind: xettest.Stall, Call: xettest.Content, At: anywhere, Count: 2}, opts: xet.Options{StallTimeout: 100 * time.Millisecond}},
		{name: "stall for ever", fault: xettest.Fault{Kind: xettest.Stall, Call: xettest.Content, At: anywhere, Count: -1}, opts: xet.Options{StallTimeout: 50 * time.Millisecond, Retries: 2}, err: xet.ErrStalled},
		{name: "no headers", fault: xettest.Fault{Kind: xettest.StallHeaders, Call: xettest.Content}, opts: xet.Options{StallTimeout: 100 * time.Millisecond}},
		{name: "query stalls", fault: xettest.Fault{Kind: xettest.Stall, Call: xettest.V2, At: 10}, opts: xet.Options{StallTimeout: 100 * time.Millisecond}},
		{name: "reset", fault: xettest.Fault{Kind: xettest.Reset, Call: xettest.Content, At: anywhere, Count: 4}},
		{name: "reset for ever", fault: xettest.Fault{Kind: xettest.Reset, Call: xettest.Content, At: anywhere, Count: -1}, err: xet.ErrNetwork},
		{name: "expired", fault: xettest.Fault{Kind: xettest.Status, Call: xettest.Content, Code: 403, Count: 2}},
		{name: "expired for ever", fault: xettest.Fault{Kind: xettest.Status, Call: xettest.Content, Code: 403, Count: -1}, err: xet.ErrForbidden},
		{name: "401", fault: xettest.Fault{Kind: xettest.Status, Call: xettest.V2, Code: 401}},
		{name: "401 for ever", fault: xettest.Fault{Kind: xettest.Status, Call: xettest.V2, Code: 401, Count: -1}, err: xet.ErrUnauthorized},
		{name: "scope", fault: xettest.Fault{Kind: xettest.Status, Call: xettest.V2, Code: 403}, err: xet.ErrForbidden},
		{name: "bad request", fault: xettest.Fault{Kind: xettest.Status, Call: xettest.V2, Code: 400}, err: xet.ErrProtocol},
		{name: "range", fault: xettest.Fault{Kind: xettest.Status, Call: xettest.V2, Code: 416}, err: xet.ErrProtocol},
		{name: "500", fault: xettest.Fault{Kind: xettest.Status, Code: 500, Count: 3}},
		{name: "503 for ever", fault: xettest.Fault{Kind: xettest.Status, Call: xettest.Content, Code: 503, Count: -1}, err: xet.ErrServer},
		{name: "429 for long", fault: xettest.Fault{Kind: xettest.Status, Call: xettest.V2, Code: 429, RetryAfter: time.Hour}, err: xet.ErrRateLimited},
		{name: "xorb gone", fault: xettest.Fault{Kind: xettest.Status, Call: xettest.Content, Code: 404, Count: -1}, err: xet.ErrNotFound},
		{name: "corrupt header", fault: xettest.Fault{Kind: xettest.Corrupt, Call: xettest.Content, At: 0}},
		{name: "corrupt headers for ever", fault: xettest.Fault{Kind: xettest.Corrupt, Call: xettest.Content, At: 0, Count: -1}, err: xet.ErrCorrupt},
		{name: "wrong range", fault: xettest.Fault{Kind: xettest.WrongRange, Call: xettest.Content}},
		{name: "ignored range", fault: xettest.Fault{Kind: xettest.IgnoreRange, Call: xettest.Content}},
		{name: "ignored range for ever", fault: xettest.Fault{Kind: xettest.IgnoreRange, Call: xettest.Content, Count: -1}, err: xet.ErrProtocol},
		{name: "redirect", fault: xettest.Fault{Kind: xettest.Redirect, Call: xettest.Content}},
		{name: "redirect for ever", fault: xettest.Fault{Kind: xettest.Redirect, Call: xettest.Content, Count: -1}, err: xet.ErrProtocol},
		{name: "wrong length", fault: xettest.Fault{Kind: xettest.WrongLength, Call: xettest.V2}, err: xet.ErrProtocol},
		{name: "garbage", fault: xettest.Fault{Kind: xettest.Garbage, Call: xettest.V2}, err: xet.ErrProtocol},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, xettest.Options{MaxXorb: 600 << 10})
			f := s.AddBytes(data)
			s.Inject(tt.fault)
			got, res, err := fetch(t, fast(t, tt.opts), s, f, nil)
			if tt.err == nil {
				if err != nil || !bytes.Equal(got, data) || !res.Verified {
					t.Fatalf("%+v, %v", res, err)
				}
				return
			}
			if !errors.Is(err, tt.err) || res.Verified || len(res.Missing) == 0 {
				t.Fatalf("got %v (%+v), want %v", err, res, tt.err)
			}
			if strings.Contains(err.Error(), "Signature") || strings.Contains(err.Error(), "xet_") {
				t.Errorf("the error holds a secret: %v", err)
			}
			// What the failed fetch left is enough to finish.
			s.ClearFaults()
			rest := newBuffer(f.Size)
			if _, err := fast(t, xet.Options{}).Fetch(context.Background(), xet.Request{Hash: f.Hash, Size: f.Size, Tokens: xet.NewTokens(s.Source), Out: rest, Missing: res.Missing}); err != nil {
				t.Fatal(err)
			}
			for i := range data {
				if rest.hits[i] > 0 {
					got[i] = rest.data[i]
				}
			}
			if !bytes.Equal(got, data) {
				t.Error("the parts do not make the file")
			}
		})
	}
}

// A bit that changes in plainly stored content is seen by no decoder; the
// hash of the file sees it. Xorbs that came whole prove themselves, so only the
// bad one is missing.
func TestHashMismatch(t *testing.T) {
	s := start(t, xettest.Options{MaxXorb: 300 << 10, Scheme: func(int) xet.Scheme { return xet.SchemeNone }})
	data := noise(2<<20, 6)
	f := s.AddBytes(data)
	s.Inject(xettest.Fault{Kind: xettest.Corrupt, Call: xettest.Content, Skip: 2, At: 5000})
	got, res, err := fetch(t, fast(t, xet.Options{}), s, f, nil)
	var h *xet.HashError
	if !errors.As(err, &h) || h.Expected != f.Hash || h.Actual == f.Hash || !errors.Is(err, xet.ErrHash) {
		t.Fatalf("got %v", err)
	}
	if len(res.Missing) != 1 || res.Missing[0].End-res.Missing[0].Start > 300<<10 || res.Verified {
		t.Fatalf("%+v", res)
	}
	rest, _, err := fetch(t, fast(t, xet.Options{}), s, f, res.Missing)
	copy(got[res.Missing[0].Start:res.Missing[0].End], rest[res.Missing[0].Start:])
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("the bad xorb alone does not repair the file: %v", err)
	}
	// The wrong name for good content.
	g := f
	g.Hash[0] ^= 1
	if _, _, err := fetch(t, fast(t, xet.Options{}), s, g, nil); !errors.Is(err, xet.ErrNotFound) {
		t.Errorf("unknown hash: %v", err)
	}
	if _, err := fast(t, xet.Options{}).Fetch(context.Background(), xet.Request{Hash: f.Hash}); !errors.Is(err, xet.ErrHash) {
		t.Errorf("empty file with a hash: %v", err)
	}
}

// Answers that contradict themselves or the request are refused.
func TestContradictions(t *testing.T) {
	first := func(r *xettest.Reconstruction) *xettest.ChunkedSpan {
		for _, v := range r.Xorbs {
			return &v[0].Ranges[0]
		}
		return nil
	}
	for name, edit := range map[string]func(*xettest.Reconstruction){
		"no terms":       func(r *xettest.Reconstruction) { r.Terms = nil },
		"too few":        func(r *xettest.Reconstruction) { r.Terms = r.Terms[:len(r.Terms)-1] },
		"too many":       func(r *xettest.Reconstruction) { r.Terms = append(r.Terms, r.Terms[0]) },
		"offset":         func(r *xettest.Reconstruction) { r.Offset = 10 },
		"huge offset":    func(r *xettest.Reconstruction) { r.Offset = 1 << 60 },
		"negative":       func(r *xettest.Reconstruction) { r.Offset = -1 },
		"no range":       func(r *xettest.Reconstruction) { clear(r.Xorbs) },
		"inverted":       func(r *xettest.Reconstruction) { r.Terms[0].Range.End = 0 },
		"huge chunk":     func(r *xettest.Reconstruction) { r.Terms[0].Range.End = 1 << 40 },
		"zero length":    func(r *xettest.Reconstruction) { r.Terms[0].UnpackedLength = 0 },
		"huge length":    func(r *xettest.Reconstruction) { r.Terms[0].UnpackedLength = 1 << 50 },
		"cannot unpack":  func(r *xettest.Reconstruction) { r.Terms[0].UnpackedLength = 1 << 31 },
		"huge bytes":     func(r *xettest.Reconstruction) { first(r).Bytes.End = 1 << 39 },
		"inverted bytes": func(r *xettest.Reconstruction) { first(r).Bytes = xettest.Span{Start: 5, End: 4} },
		"file address":   func(r *xettest.Reconstruction) { setURL(r, "file:///etc/passwd") },
		"no address":     func(r *xettest.Reconstruction) { setURL(r, "http://%zz?Signature=x") },
		"other xorb":     func(r *xettest.Reconstruction) { r.Terms[0].Hash[3] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, xettest.Options{MaxXorb: 200 << 10})
			f := s.AddBytes(noise(1<<20, 7))
			s.Inject(xettest.Fault{Kind: xettest.Edit, Call: xettest.V2, Count: -1, Edit: edit})
			if _, res, err := fetch(t, fast(t, xet.Options{}), s, f, nil); !errors.Is(err, xet.ErrProtocol) || res.Verified {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func setURL(r *xettest.Reconstruction, address string) {
	for _, v := range r.Xorbs {
		for i := range v {
			v[i].URL = address
		}
	}
}

// When all addresses of a window end at once, it is asked for again once.
func TestExpiryIsSingleFlight(t *testing.T) {
	s := start(t, xettest.Options{MaxXorb: 100 << 10})
	f := s.AddBytes(noise(4<<20, 8))
	out := newBuffer(f.Size)
	tr := &gate{base: xet.NewTransport(8), first: s.Expire}
	defer tr.base.CloseIdleConnections()
	c := xet.New(xet.Options{Transport: tr, RetryBase: time.Millisecond})
	res, err := c.Fetch(context.Background(), xet.Request{Hash: f.Hash, Size: f.Size, Tokens: xet.NewTokens(s.Source), Out: out})
	if err != nil || !res.Verified {
		t.Fatalf("%+v, %v", res, err)
	}
	if res.Queries != 2 {
		t.Errorf("%d queries, expected 2", res.Queries)
	}
}

// gate does something just before the first content request.
type gate struct {
	base  *http.Transport
	once  sync.Once
	first func()
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/xorbs/") {
		g.once.Do(g.first)
	}
	return g.base.RoundTrip(r)
}

// An answer that describes other content after addresses ended is refused.
func TestRenewalMustAgree(t *testing.T) {
	s := start(t, xettest.Options{MaxXorb: 100 << 10})
	f := s.AddBytes(noise(1<<20, 9))
	s.Inject(xettest.Fault{Kind: xettest.Status, Call: xettest.Content, Code: 403})
	s.Inject(xettest.Fault{Kind: xettest.Edit, Call: xettest.V2, Skip: 1, Edit: func(r *xettest.Reconstruction) {
		r.Terms[0], r.Terms[1] = r.Terms[1], r.Terms[0]
	}})
	if _, _, err := fetch(t, fast(t, xet.Options{Conns: 1}), s, f, nil); !errors.Is(err, xet.ErrProtocol) {
		t.Fatalf("got %v", err)
	}
}

func TestCancel(t *testing.T) {
	s := start(t, xettest.Options{})
	f := s.AddBytes(noise(1<<20, 10))
	s.Inject(xettest.Fault{Kind: xettest.Stall, Call: xettest.Content, At: 200000, Count: -1})
	ctx, cancel := context.WithCancel(context.Background())
	tr := &gate{base: xet.NewTransport(8), first: cancel}
	defer tr.base.CloseIdleConnections()
	res, err := xet.New(xet.Options{Transport: tr}).Fetch(ctx, xet.Request{Hash: f.Hash, Size: f.Size, Tokens: xet.NewTokens(s.Source), Out: newBuffer(f.Size)})
	if !errors.Is(err, context.Canceled) || len(res.Missing) == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestOutputFails(t *testing.T) {
	s := start(t, xettest.Options{})
	f := s.AddBytes(noise(1<<20, 11))
	_, err := fast(t, xet.Options{}).Fetch(context.Background(), xet.Request{Hash: f.Hash, Size: f.Size, Tokens: xet.NewTokens(s.Source), Out: newBuffer(1000)})
	if !errors.Is(err, xet.ErrOutput) || !errors.Is(err, io.ErrShortWrite) {
		t.Fatalf("got %v", err)
	}
}

func ExampleClient_Fetch() {
	store, err := xettest.New(xettest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	file := store.AddBytes(bytes.Repeat([]byte("weights "), 100_000))

	out := newBuffer(file.Size) // an *os.File in real use
	client := xet.New(xet.Options{})
	res, err := client.Fetch(context.Background(), xet.Request{
		Hash: file.Hash, Size: file.Size,
		Tokens: xet.NewTokens(store.Source),
		Out:    out,
	})
	fmt.Println(err, res.Verified, res.Written, string(out.data[:7]))
	// Output: <nil> true 800000 weights
}

// Property: whatever goes wrong, a fetch that says it is verified has exactly
// the file's bytes, and one that fails names everything that it did not bring.
func TestRandomFaults(t *testing.T) {
	// Not start: a corrupt answer may name ranges that are not signed, and the
	// client cannot know.
	s, err := xettest.New(xettest.Options{MaxXorb: 150 << 10, TermChunks: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	data := slices.Concat(noise(400000, 21), make([]byte, 200000), noise(100000, 22))
	f := s.AddBytes(data)
	kinds := []xettest.Kind{xettest.Stall, xettest.StallHeaders, xettest.Reset, xettest.Status, xettest.Corrupt, xettest.WrongLength, xettest.WrongRange, xettest.IgnoreRange, xettest.Garbage, xettest.Redirect}
	rapid.Check(t, func(rt *rapid.T) {
		s.ClearFaults()
		for range rapid.IntRange(1, 4).Draw(rt, "faults") {
			s.Inject(xettest.Fault{
				Kind:  rapid.SampledFrom(kinds).Draw(rt, "kind"),
				Call:  rapid.SampledFrom([]string{"", xettest.V2, xettest.Content}).Draw(rt, "call"),
				Skip:  rapid.IntRange(0, 3).Draw(rt, "skip"),
				Count: rapid.SampledFrom([]int{1, 1, 2, -1}).Draw(rt, "count"),
				At:    rapid.Int64Range(0, 150<<10).Draw(rt, "at"),
				Code:  rapid.SampledFrom([]int{400, 401, 403, 404, 410, 416, 429, 500, 501, 503, 504}).Draw(rt, "code"),
			})
		}
		c := fast(t, xet.Options{StallTimeout: 30 * time.Millisecond, Retries: 2, Window: 300 << 10, RetryCap: 2 * time.Millisecond, Conns: 4})
		got, res, err := fetch(t, c, s, f, nil)
		if err == nil && (!res.Verified || !bytes.Equal(got, data) || len(res.Missing) != 0) || err != nil && (res.Verified || len(res.Missing) == 0 && !errors.Is(err, xet.ErrHash)) {
			rt.Fatalf("%+v, %v, equal %t", res, err, bytes.Equal(got, data))
		}
	})
}

func ExampleHashFile() {
	hash, size, err := xet.HashFile(strings.NewReader("Hello World!"))
	fmt.Println(hash, size, err)
	// Output: a9dae0ad88b060bdd7e7c87abdcf95b132c95a0414b06d4f6beb68d287b87165 12 <nil>
}
