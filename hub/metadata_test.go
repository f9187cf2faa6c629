package hub

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestNormalizeEtag(t *testing.T) {
	oid := strings.Repeat("a", 40)
	for in, want := range map[string]string{
		oid: oid, `"` + oid + `"`: oid, `W/"` + oid + `"`: oid, "W/" + oid: oid, ` "` + oid + `" `: oid,
		"": "", `"`: `"`, `""`: "", `W/`: "", `"` + oid: `"` + oid, `W/W/"` + oid + `"`: `W/"` + oid + `"`,
	} {
		if got := normalizeEtag(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// FuzzMetadata: whatever the headers say, what comes through can name a blob,
// a folder and a length.
func FuzzMetadata(f *testing.F) {
	oid, sum := strings.Repeat("a", 40), strings.Repeat("b", 64)
	f.Add(200, oid, `W/"`+oid+`"`, "", "", "12", "", "")
	f.Add(302, oid, `"`+sum+`"`, sum, "9000000000", "300", "https://cdn.example/x?sig=1", sum)
	f.Add(307, oid, "", "", "", "", "/api/resolve-cache/x", "")
	f.Add(200, "HEAD", `"../../x"`, "", "-1", "1e9", "", "")
	f.Fuzz(func(t *testing.T, status int, commit, etag, linked, linkedSize, length, location, xet string) {
		h := http.Header{"X-Repo-Commit": {commit}, "Etag": {etag}, "Content-Length": {length}, "Location": {location}, "X-Xet-Hash": {xet}}
		if linked != "" {
			h.Set("X-Linked-Etag", linked)
		}
		if linkedSize != "" {
			h.Set("X-Linked-Size", linkedSize)
		}
		m, err := readMetadata(&answer{Response: &http.Response{StatusCode: status, Header: h}, url: &url.URL{Scheme: "https", Host: "hub.example", Path: "/x"}})
		if err != nil {
			return
		}
		if !IsCommit(string(m.Commit)) || !validEtag(m.Etag) || m.Size < 0 || m.XetHash != "" && !isHex(m.XetHash, 64) {
			t.Errorf("%+v came through", m)
		}
		if isRedirect(status) && linked == "" {
			t.Error("the etag of another origin was taken")
		}
	})
}
