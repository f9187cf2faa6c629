package hub_test

import (
	"errors"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

// A server without ranges breaks off and then sends other bytes where the
// first answer was right. What was hashed of the first answer must not vouch
// for what replaced it.
func TestRestartedStreamIsHashedAnew(t *testing.T) {
	s, data := big(t)
	s.Inject(hubtest.Fault{Kind: hubtest.IgnoreRange, Origin: "cdn", Count: 1})
	s.Inject(hubtest.Fault{Kind: hubtest.Truncate, Origin: "cdn", At: bigSize * 3 / 4, Count: 1})
	s.Inject(hubtest.Fault{Kind: hubtest.Corrupt, Origin: "cdn", At: 100, Count: 1})
	rec := &recorder{}
	c := newClient(t, s, func(o *hub.Options) { o.Progress = rec })
	p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, data)
	wantClean(t, c.CacheDir())
	wrong := 0
	for _, e := range rec.kinds(hub.Retrying) {
		if errors.Is(e.Err, hub.ErrChecksum) {
			wrong++
		}
	}
	if wrong != 1 {
		t.Errorf("%d wrong digests, expected the one of the mixed content: %+v", wrong, rec.kinds(hub.Retrying))
	}
}

// Where the Xet hash suffices, it must still be the right one.
func TestXetHashSuffices(t *testing.T) {
	suffices := func(o *hub.Options) { o.XetHashSuffices = true }
	t.Run("right", func(t *testing.T) {
		s, data := bigXet(t)
		c := newClient(t, s, suffices)
		p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, p, data)
		if n := s.Count(onCDN); n != 0 {
			t.Errorf("%d requests to the storage for HTTP", n)
		}
	})
	t.Run("terms in another order", func(t *testing.T) {
		s, data := bigXet(t)
		s.Xet().Inject(xettest.Fault{Kind: xettest.Edit, Count: -1, Call: xettest.V2,
			Edit: func(r *xettest.Reconstruction) { r.Terms[0], r.Terms[1] = r.Terms[1], r.Terms[0] }})
		rec := &recorder{}
		c := newClient(t, s, suffices, func(o *hub.Options) { o.Progress = rec })
		p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, p, data)
		if n := len(rec.kinds(hub.FellBack)); n != 1 {
			t.Errorf("fell back %d times", n)
		}
	})
	t.Run("resumed", func(t *testing.T) {
		// The rest alone has no Xet hash: SHA-256 decides.
		s, data := bigXet(t)
		s.Xet().Inject(xettest.Fault{Kind: xettest.Status, Code: 404, Skip: 5, Count: -1, Call: xettest.Content})
		s.Inject(hubtest.Fault{Kind: hubtest.Status, Code: 404, Origin: "cdn", Count: -1})
		c := newClient(t, s, suffices, func(o *hub.Options) { o.Retries = -1 })
		if _, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors"); err == nil {
			t.Fatal("downloaded without a source")
		}
		s.Xet().ClearFaults()
		s.ClearFaults()
		p, err := newClient(t, s, suffices, withCache(c.CacheDir())).Download(t.Context(), bigRepo, "main", "model.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, p, data)
	})
}
