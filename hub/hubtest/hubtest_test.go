package hubtest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hfcompress/compress/hub/hubtest"
)

func Example() {
	s, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{{
		ID:        "org/tiny",
		Revisions: map[string]hubtest.Files{"main": {"config.json": []byte("{}")}},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	resp, err := http.Get(s.URL() + "/org/tiny/resolve/main/config.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, resp.Header.Get("X-Repo-Commit") == s.Commit("", "org/tiny", "main"))
	// Output: 200 OK true
}

// do sends a request without following redirects.
func do(t *testing.T, method, url string, kv ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(kv); i += 2 {
		req.Header.Set(kv[i], kv[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func TestProtocol(t *testing.T) {
	weights := strings.Repeat("w", 1000)
	s, err := hubtest.New(hubtest.Options{
		FS: fstest.MapFS{
			"org/m/main/config.json":       {Data: []byte("{}")},
			"org/m/main/model.safetensors": {Data: []byte(weights)},
			"datasets/org/d/v1/x.csv":      {Data: []byte("1")},
		},
		Tokens: []string{"good"}, PlainRedirect: true, PageSize: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sum := sha256.Sum256([]byte(weights))
	oid := hex.EncodeToString(sum[:])
	commit := s.Commit("", "org/m", "main")

	resp, _ := do(t, "HEAD", s.URL()+"/org/m/resolve/main/model.safetensors", "Accept-Encoding", "identity")
	loc := resp.Header.Get("Location")
	if resp.StatusCode != 302 || resp.Header.Get("X-Linked-Etag") != `"`+oid+`"` || resp.Header.Get("X-Linked-Size") != "1000" || resp.Header.Get("X-Repo-Commit") != commit || !strings.HasPrefix(loc, s.CDNURL()+"/") {
		t.Errorf("%v", resp.Header)
	}
	if resp, body := do(t, "GET", loc, "Range", "bytes=990-"); resp.StatusCode != 206 || body != "wwwwwwwwww" || resp.Header.Get("Content-Range") != "bytes 990-999/1000" || resp.Header.Get("ETag") == `"`+oid+`"` {
		t.Errorf("%d %q %v", resp.StatusCode, body, resp.Header)
	}
	if resp, _ := do(t, "GET", loc, "Range", "bytes=0-1", "If-Range", `"other"`); resp.StatusCode != 200 {
		t.Errorf("If-Range: %d", resp.StatusCode)
	}
	if resp, _ := do(t, "GET", loc, "Range", "bytes=1000-"); resp.StatusCode != 416 {
		t.Errorf("beyond the end: %d", resp.StatusCode)
	}
	if resp, _ := do(t, "GET", strings.Replace(loc, "Signature=", "Signature=0", 1)); resp.StatusCode != 403 {
		t.Errorf("bad signature: %d", resp.StatusCode)
	}
	if resp, _ := do(t, "GET", s.URL()+"/org/m/resolve/main/config.json"); resp.StatusCode != 307 || !strings.HasPrefix(resp.Header.Get("Location"), "/api/resolve-cache/models/org/m/"+commit+"/config.json?") {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	if resp, _ := do(t, "GET", s.URL()+"/api/models/org/m/tree/main?recursive=true"); !strings.HasSuffix(resp.Header.Get("Link"), `>; rel="next"`) {
		t.Errorf("%v", resp.Header)
	}
	_, body := do(t, "GET", s.URL()+"/api/datasets/org/d/revision/v1")
	var info struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
		}
	}
	if err := json.Unmarshal([]byte(body), &info); err != nil || info.SHA != s.Commit("dataset", "org/d", "v1") || len(info.Siblings) != 1 {
		t.Errorf("%s, %v", body, err)
	}
	if v := s.Violations(); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}

	// What no client may do.
	for i, bad := range []func(){
		func() { do(t, "GET", loc, "Authorization", "Bearer good") },
		func() { do(t, "HEAD", s.URL()+"/org/m/resolve/main/config.json") },
		func() { do(t, "GET", s.URL()+"/org/m/resolve/main/a+b.json") },
		func() { do(t, "GET", s.URL()+"/api/resolve-cache/models/org/m/"+commit+"/config.json") },
	} {
		bad()
		if n := len(s.Violations()); n != i+1 {
			t.Errorf("violation %d was not seen: %v", i, s.Violations())
		}
	}
	if resp, _ := do(t, "GET", s.URL()+"/api/models/org/m", "Authorization", "Bearer bad"); resp.StatusCode != 401 {
		t.Errorf("bad token: %d", resp.StatusCode)
	}
}

// The commit follows from the content alone.
func TestCommitsAreDeterministic(t *testing.T) {
	var got []string
	for range 2 {
		s, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{{ID: "a/b", Revisions: map[string]hubtest.Files{"main": {"x": []byte("1"), "y": []byte("2")}}}}})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s.Commit("", "a/b", "main"))
		next, err := s.SetBranch("", "a/b", "main", hubtest.Files{"x": []byte("3")})
		if err != nil || next == got[0] || s.Commit("", "a/b", "main") != next {
			t.Errorf("%s, %v", next, err)
		}
		if s.Commit("", "a/b", got[0]) != got[0] {
			t.Error("the old commit is gone")
		}
		s.Close()
	}
	if got[0] != got[1] || len(got[0]) != 40 {
		t.Error(got)
	}
}
