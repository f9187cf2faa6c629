package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/hub"
)

func TestParseURI(t *testing.T) {
	commit := strings.Repeat("a", 40)
	for text, want := range map[string]hubURI{
		"hf://gpt2":                                {hub.ModelRepo("gpt2"), "", ""},
		"hf://org/model":                           {hub.ModelRepo("org/model"), "", ""},
		"hf://models/org/model/a/b.txt":            {hub.ModelRepo("org/model"), "", "a/b.txt"},
		"hf://datasets/org/words@v1":               {hub.Repo{Type: hub.Dataset, ID: "org/words"}, "v1", ""},
		"hf://spaces/org/app@main/x/":              {hub.Repo{Type: hub.Space, ID: "org/app"}, "main", "x/"},
		"hf://org/model@refs/pr/1/c.json":          {hub.ModelRepo("org/model"), "refs/pr/1", "c.json"},
		"hf://org/model@refs/convert/parquet":      {hub.ModelRepo("org/model"), "refs/convert/parquet", ""},
		"hf://org/model@feature%2Fx/c.json":        {hub.ModelRepo("org/model"), "feature/x", "c.json"},
		"hf://org/model@" + commit + "/c.json":     {hub.ModelRepo("org/model"), commit, "c.json"},
		"hf://org/model/logo@2x.png":               {hub.ModelRepo("org/model"), "", "logo@2x.png"},
		"hf://org/model@v1/logo@2x.png":            {hub.ModelRepo("org/model"), "v1", "logo@2x.png"},
		"hf://kernels/org/k/build/a@b/c":           {hub.Repo{Type: hub.Kernel, ID: "org/k"}, "", "build/a@b/c"},
		"hf://gpt2@main/vocab.json":                {hub.ModelRepo("gpt2"), "main", "vocab.json"},
		"hf://datasets/org/words@refs/pr/2/d/e.md": {hub.Repo{Type: hub.Dataset, ID: "org/words"}, "refs/pr/2", "d/e.md"},
	} {
		got, err := parseURI(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "org/model", "hf://", "hf:///", "hf://a--b/c", "hf://org/model@", "hf://org/model@%zz", "hf://buckets/org/b", "hf://org/model/../x", "hf://org/model//x", "hf://org/model@main//", "hf://org/model/C:/x", "hf://.."} {
		got, err := parseURI(text)
		var usage usageError
		if !errors.As(err, &usage) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func FuzzParseURI(f *testing.F) {
	f.Add("hf://datasets/org/words@refs/pr/1/a/b.txt")
	f.Add("hf://org/model/logo@2x.png")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseURI(text)
		if err != nil {
			return
		}
		if u.repo.Validate() != nil || u.path != "" && hub.CheckPath(strings.TrimSuffix(u.path, "/")) != nil {
			t.Errorf("%q gives %+v", text, u)
		}
	})
}

func TestParseFilter(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	row := cacheRow{Repo: "org/model", RepoType: hub.Model, Refs: []string{"main", "v1"}, Size: 2_000_000_000,
		LastAccessed: now.Add(-8 * 24 * time.Hour), LastModified: now.Add(-40 * 24 * time.Hour)}
	for text, want := range map[string]bool{
		"size>1GB": true, "size > 2gb": false, "size>=2G": true, "size=2000MB": true, "size!=2GB": false, "size<3TB": true, "size<=1": false,
		"accessed>7d": true, "accessed<1w": false, "accessed>9d": false, "modified>1mo": true, "modified<=0.5y": true, "modified>=960h": true, "modified<57600m": false,
		"type=model": true, "type==Model": true, "type=dataset": false, "refs=V1": true, "refs=v2": false,
	} {
		filter, err := parseFilter(text, now)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := filter(row); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for _, text := range []string{"", "size", "size>", ">1", "size>1XB", "size>-1", "size>1.2.3", "accessed>7", "accessed>d", "type!=model", "refs>x", "colour=red"} {
		var usage usageError
		if _, err := parseFilter(text, now); !errors.As(err, &usage) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLiteral(t *testing.T) {
	for _, name := range []string{"a.txt", "we[ir]d*?.txt", "[", "]x", "!x", "ü*"} {
		if !hub.Match(literal(name), name) {
			t.Errorf("%q does not match itself", name)
		}
		if hub.Match(literal(name), name+"x") || hub.Match(literal(name), "x"+name) || strings.ContainsAny(name, "*?") && hub.Match(literal(name), strings.NewReplacer("*", "yy", "?", "z").Replace(name)) {
			t.Errorf("%q matches another name", name)
		}
	}
}

// shown collects what a display is told.
type shown struct{ events []compress.Event }

func (s *shown) observe(e compress.Event) { s.events = append(s.events, e) }
func (s *shown) stop()                    {}

// The total counts every file once, cached ones too, and falls back with a
// restarted file.
func TestShowHub(t *testing.T) {
	var s shown
	o := showHub(&s, compress.StageDownload)
	for _, e := range []hub.Event{
		{Kind: hub.PlanReady, Files: 3, Total: ownBar + 300},
		{Kind: hub.FileCached, File: "a", Done: 100, Total: 100},
		{Kind: hub.FileStarted, File: "b", Done: 0, Total: ownBar},
		{Kind: hub.FileProgress, File: "b", Done: 5000, Total: ownBar},
		{Kind: hub.FileProgress, File: "b", Done: 4000, Total: ownBar},
		{Kind: hub.Retrying, File: "b", Wait: 2 * time.Second, Err: errors.New("reset")},
		{Kind: hub.FileDone, File: "b", Total: ownBar},
		{Kind: hub.FileDone, File: "c", Done: 200, Total: 200},
	} {
		o.Observe(e)
	}
	var totals []int64
	own := 0
	for _, e := range s.events {
		switch {
		case e.Message != "":
			if e.Message != "b: trying again in 2s: reset" {
				t.Error(e.Message)
			}
		case e.Item == "in all":
			totals = append(totals, e.Done)
		case e.Item == "b":
			own++
		default:
			t.Errorf("%+v", e)
		}
	}
	want := []int64{100, 100, 5100, 4100, ownBar + 100, ownBar + 300}
	if len(totals) != len(want) || own != 4 {
		t.Fatalf("%v, %d of its own", totals, own)
	}
	for i := range want {
		if totals[i] != want[i] {
			t.Errorf("%v, want %v", totals, want)
		}
	}
}

// A limit of the Hub that holds several requests is shown once, another lock
// with its file.
func TestShowHubWaiting(t *testing.T) {
	var s shown
	o := showHub(&s, compress.StageDownload)
	for range 3 {
		o.Observe(hub.Event{Kind: hub.Waiting, Wait: time.Hour, Err: hub.ErrRateLimited})
	}
	o.Observe(hub.Event{Kind: hub.Waiting, File: "a", Err: errors.New("taken")})
	var got []string
	for _, e := range s.events {
		got = append(got, e.Message)
	}
	if want := "waiting 1h0m0s for the Hub: rate limited|a: waiting: taken"; strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
