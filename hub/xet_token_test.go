package hub

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestParseXetToken(t *testing.T) {
	from := &url.URL{Scheme: "https", Host: "hub.example", Path: "/api/models/a/b/xet-read-token/main"}
	got, err := parseXetToken([]byte(`{"accessToken":"secret","exp":1700000000,"casUrl":"https://cas.example/x","more":[1]}`), from)
	if err != nil || got.Access != "secret" || got.CAS != "https://cas.example/x" || !got.Expires.Equal(time.Unix(1700000000, 0)) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = parseXetToken([]byte(`{"accessToken":"secret","casUrl":"https://cas.example"}`), from); err != nil || !got.Expires.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	for _, body := range []string{
		``, `[]`, `{}`, `{"accessToken":"secret"}`, `{"casUrl":"https://cas.example"}`,
		`{"accessToken":"secret","casUrl":"http://cas.example"}`,
		`{"accessToken":"secret","casUrl":"https://user:secret@cas.example"}`,
		`{"accessToken":"secret","casUrl":"https://cas.example?secret"}`,
		`{"accessToken":"secret","casUrl":"/cas"}`,
		`{"accessToken":"se cret","casUrl":"https://cas.example"}`,
		`{"accessToken":"secret\r\nX: y","casUrl":"https://cas.example"}`,
	} {
		_, err := parseXetToken([]byte(body), from)
		if !errors.Is(err, ErrMetadata) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func FuzzXetToken(f *testing.F) {
	f.Add(`{"accessToken":"secret","exp":1700000000,"casUrl":"https://cas.example/x"}`)
	f.Add(`{"accessToken":"a\n","exp":-1,"casUrl":"//h"}`)
	f.Add(`{"exp":1e400}`)
	from := &url.URL{Scheme: "https", Host: "hub.example"}
	f.Fuzz(func(t *testing.T, body string) {
		tok, err := parseXetToken([]byte(body), from)
		if err != nil {
			return
		}
		if !strings.HasPrefix(strings.ToLower(tok.CAS), "https:") || strings.ContainsAny(tok.Access, "\r\n \x00") || tok.Access == "" {
			t.Errorf("%+v of %q", tok, body)
		}
	})
}
