package hub

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOptionsFromEnv(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	write(".cache/huggingface/token", " hf_fromfile\r\n")
	write("other/token", "hf_other")
	for _, tc := range []struct {
		name  string
		env   map[string]string
		check func(e Env) bool
	}{
		{"defaults", nil, func(e Env) bool {
			return e.Options.CacheDir == filepath.Join(home, ".cache/huggingface/hub") && e.Options.Token == "hf_fromfile" && !e.Options.Offline && e.Options.Endpoint == "" && e.Options.Proxy == nil
		}},
		{"XDG", map[string]string{"XDG_CACHE_HOME": "~/xdg"}, func(e Env) bool {
			return e.Options.CacheDir == filepath.Join(home, "xdg/huggingface/hub") && e.Options.Token == ""
		}},
		{"HF_HOME before XDG", map[string]string{"HF_HOME": "$BASE/other", "BASE": home, "XDG_CACHE_HOME": "/x"}, func(e Env) bool {
			return e.Options.CacheDir == filepath.Join(home, "other/hub") && e.Options.Token == "hf_other"
		}},
		{"HF_HUB_CACHE first", map[string]string{"HF_HUB_CACHE": "/a", "HUGGINGFACE_HUB_CACHE": "/b", "HF_HOME": "/c"}, func(e Env) bool { return e.Options.CacheDir == "/a" && e.Home == "/c" }},
		{"HUGGINGFACE_HUB_CACHE", map[string]string{"HUGGINGFACE_HUB_CACHE": "/b"}, func(e Env) bool { return e.Options.CacheDir == "/b" }},
		{"HF_TOKEN first", map[string]string{"HF_TOKEN": " hf_a\n", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, func(e Env) bool { return e.Options.Token == "hf_a" && e.TokenSource == "HF_TOKEN" }},
		{"old token name", map[string]string{"HF_TOKEN": "  ", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, func(e Env) bool { return e.Options.Token == "hf_b" }},
		{"token path", map[string]string{"HF_TOKEN_PATH": "~/other/token"}, func(e Env) bool {
			return e.Options.Token == "hf_other" && e.TokenSource == filepath.Join(home, "other/token")
		}},
		{"no implicit token", map[string]string{"HF_TOKEN": "hf_a", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "Yes"}, func(e Env) bool { return e.Options.Token == "" }},
		{"endpoint", map[string]string{"HF_ENDPOINT": "https://mirror/"}, func(e Env) bool { return e.Options.Endpoint == "https://mirror" }},
		{"offline", map[string]string{"HF_HUB_OFFLINE": "on"}, func(e Env) bool { return e.Options.Offline }},
		{"offline by the other name", map[string]string{"TRANSFORMERS_OFFLINE": "1"}, func(e Env) bool { return e.Options.Offline }},
		{"not offline", map[string]string{"HF_HUB_OFFLINE": "y", "TRANSFORMERS_OFFLINE": "0"}, func(e Env) bool { return !e.Options.Offline }},
		{"timeouts", map[string]string{"HF_HUB_ETAG_TIMEOUT": "2.5", "HF_HUB_DOWNLOAD_TIMEOUT": "7"}, func(e Env) bool {
			return e.Options.MetadataTimeout == 2500*time.Millisecond && e.Options.StallTimeout == 7*time.Second && len(e.Warnings) == 0
		}},
		{"bad timeouts warn", map[string]string{"HF_HUB_ETAG_TIMEOUT": "soon", "HF_HUB_DOWNLOAD_TIMEOUT": "-1"}, func(e Env) bool {
			return e.Options.MetadataTimeout == 0 && len(e.Warnings) == 2
		}},
		{"switches", map[string]string{"HF_HUB_DISABLE_SYMLINKS": "true", "HF_HUB_DISABLE_XET": "1", "DO_NOT_TRACK": "1", "HF_HUB_USER_AGENT_ORIGIN": "ci"}, func(e Env) bool {
			return e.Options.DisableSymlinks && e.DisableXet && e.Options.DisableSharedBlobs && e.DisableTelemetry && e.Options.UserAgent == ""
		}},
		{"origin", map[string]string{"HF_HUB_USER_AGENT_ORIGIN": "ci\r\nX: y"}, func(e Env) bool { return e.Options.UserAgent == "origin/ciX: y" }},
		{"proxy", map[string]string{"HTTPS_PROXY": "http://p:1", "no_proxy": "skip.example"}, func(e Env) bool {
			ask := func(u string) string {
				r, _ := http.NewRequest("GET", u, nil)
				p, err := e.Options.Proxy(r)
				if err != nil || p == nil {
					return ""
				}
				return p.String()
			}
			return ask("https://h.example/") == "http://p:1" && ask("http://h.example/") == "" && ask("https://skip.example/") == ""
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := OptionsFromEnv(func(k string) string { return tc.env[k] }, home)
			if err != nil || !tc.check(e) {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
	if _, err := OptionsFromEnv(func(string) string { return "" }, ""); err == nil {
		t.Error("no home directory was accepted")
	}
	if _, err := OptionsFromEnv(func(k string) string {
		if k == "CURL_CA_BUNDLE" {
			return filepath.Join(home, "other/token")
		}
		return ""
	}, home); err == nil || !strings.Contains(err.Error(), "CURL_CA_BUNDLE") {
		t.Error(err)
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no cache":      {},
		"ftp":           {CacheDir: "x", Endpoint: "ftp://h"},
		"no host":       {CacheDir: "x", Endpoint: "https://"},
		"user info":     {CacheDir: "x", Endpoint: "https://user:secret@h"},
		"spaced token":  {CacheDir: "x", Token: "hf_a b"},
		"foreign token": {CacheDir: "x", Token: "hf_ü"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hf_a") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
