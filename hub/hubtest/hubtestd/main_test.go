package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hfcompress/compress/hub"
)

func TestServe(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"org/name/main/config.json": "{}", "datasets/org/set/refs%2Fpr%2F1/x.bin": "binary"} {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	var stderr strings.Builder
	done := make(chan error, 1)
	go func() {
		done <- run([]string{"--dir", dir, "--until-eof", "--plain-redirect", "--xet", "--fault", "truncate,path=x.bin,at=2"}, inR, outW, &stderr)
	}()
	url, err := bufio.NewReader(outR).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.TrimSpace(url)
	c, err := hub.New(hub.Options{Endpoint: url, CacheDir: t.TempDir(), RetryBase: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	if _, err := c.Download(t.Context(), hub.ModelRepo("org/name"), "main", "config.json"); err != nil {
		t.Error(err)
	}
	p, err := c.Download(t.Context(), hub.Repo{Type: hub.Dataset, ID: "org/set"}, "refs/pr/1", "x.bin")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(p); err != nil || string(b) != "binary" {
		t.Errorf("%q, %v", b, err)
	}
	m, err := c.Metadata(t.Context(), hub.Repo{Type: hub.Dataset, ID: "org/set"}, "refs/pr/1", "x.bin")
	if err != nil || len(m.XetHash) != 64 || m.XetAuth == "" {
		t.Errorf("%+v, %v", m, err)
	}
	resp, err := http.Get(url + "/api/models/org/name")
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	_ = inW.Close()
	if err := <-done; err != nil || stderr.String() != "" {
		t.Errorf("%v, %s", err, stderr.String())
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"--dir", "/nonexistent/folder"}, {"--fault", "truncate,at=x"}, {"--fault", "truncate,nope=1"}, {"--bogus"}} {
		if err := run(args, strings.NewReader(""), io.Discard, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}
