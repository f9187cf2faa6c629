package hub

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStoredTokens(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "stored_tokens")
	if got, err := StoredTokens(p); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
	text := "# comment\n[work]\nhf_token = hf_%(a)s\n\n[oauth: me]\nHF_TOKEN: hf_b\nrefresh_token = hf_refresh\nexpires_at = 1700000000\n[empty]\nhf_token =\n[bad]\nhf_token = a b\n"
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := StoredTokens(p)
	if err != nil || len(got) != 2 || got[0].Name != "work" || got[0].Token != "hf_%(a)s" || got[1].Name != "oauth: me" || got[1].Token != "hf_b" || !got[1].Expires.Equal(time.Unix(1700000000, 0)) {
		t.Fatalf("%+v, %v", got, err)
	}
	if s := fmt.Sprint(got); strings.Contains(s, "hf_b") {
		t.Errorf("printing shows a token: %s", s)
	}
	if b, _ := os.ReadFile(p); string(b) != text {
		t.Error("the file was changed")
	}
	// The active token is the one that has expired.
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("hf_b"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := OptionsFromEnv(func(k string) string { return map[string]string{"HF_HOME": dir}[k] }, "")
	if err != nil || len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], "oauth: me") || strings.Contains(e.Warnings[0], "hf_b") {
		t.Errorf("%+v, %v", e.Warnings, err)
	}
}

func FuzzStoredTokens(f *testing.F) {
	f.Add("[a]\nhf_token = hf_x\nexpires_at = 5\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, x := range parseStoredTokens(s) {
			if x.Token == "" || checkToken(x.Token) != nil {
				t.Fatalf("%q", x.Token)
			}
		}
	})
}
