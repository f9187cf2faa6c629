package xettest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hfcompress/compress/hub/xet"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

func get(t *testing.T, url string, header map[string]string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b
}

// The rules that the real store has, seen from outside.
func TestRules(t *testing.T) {
	s, err := xettest.New(xettest.Options{MaxXorb: 100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	data := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	for i := range data {
		data[i] ^= byte(i >> 9 * 37)
	}
	f := s.AddBytes(data)
	if again := s.AddBytes(data); again.Hash != f.Hash {
		t.Fatal("the same content has another hash")
	}
	stored := s.Stored()
	s.AddBytes(append([]byte(nil), data...))
	if s.Stored() != stored {
		t.Error("the same chunks were stored twice")
	}
	url := s.CASURL() + "/v2/reconstructions/" + f.Hash.String()
	if code, _ := get(t, url, nil); code != 401 {
		t.Errorf("without a token: %d", code)
	}
	auth := "Bearer " + s.Issue().Access
	if code, _ := get(t, s.CASURL()+"/v2/reconstructions/"+strings.Repeat("0", 64), map[string]string{"Authorization": auth}); code != 404 {
		t.Errorf("unknown file: %d", code)
	}
	if code, _ := get(t, url, map[string]string{"Authorization": auth, "Range": fmt.Sprintf("bytes=%d-%d", f.Size, f.Size+1)}); code != 416 {
		t.Errorf("range after the end: %d", code)
	}
	code, body := get(t, url, map[string]string{"Authorization": auth})
	var r xettest.Reconstruction
	if err := json.Unmarshal(body, &r); err != nil || code != 200 || len(r.Terms) != f.Terms {
		t.Fatalf("%d: %v, %d terms of %d", code, err, len(r.Terms), f.Terms)
	}
	for _, v := range r.Xorbs {
		one := v[0].Ranges[0].Bytes
		for name, tt := range map[string]struct {
			ranges string
			want   int
		}{
			"signed":   {fmt.Sprintf("bytes=%d-%d", one.Start, one.End), 206},
			"shorter":  {fmt.Sprintf("bytes=%d-%d", one.Start, one.End-1), 403},
			"no range": {"", 403},
		} {
			h := map[string]string{"Range": tt.ranges}
			if tt.ranges == "" {
				h = nil
			}
			code, body := get(t, v[0].URL, h)
			if code != tt.want {
				t.Errorf("%s: %d, want %d", name, code, tt.want)
			}
			if code == 206 {
				if int64(len(body)) != one.End-one.Start+1 {
					t.Errorf("%s: %d bytes", name, len(body))
				}
				if _, err := xet.ParseChunkHeader(body); err != nil {
					t.Error(err)
				}
			}
		}
		s.Expire()
		if code, _ := get(t, v[0].URL, map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", one.Start, one.End)}); code != 403 {
			t.Errorf("expired: %d", code)
		}
		break
	}
	if n := len(s.Violations()); n != 2 {
		t.Errorf("%d violations noted, expected the two bad ranges: %q", n, s.Violations())
	}
	http.DefaultClient.CloseIdleConnections()
}
