package hub

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestRepoValidate(t *testing.T) {
	for id, ok := range map[string]bool{
		"gpt2": true, "org/name": true, "a/b.c_d-e": true, "_a/b_": true, strings.Repeat("x", 96): true,
		"": false, "a/b/c": false, "a--b": false, "a..b": false, "org/x.git": false, "-a": false, "a-": false, ".a": false, "a/": false, "/a": false,
		"a b": false, "ü": false, "a\\b": false, "a\x00": false, strings.Repeat("x", 97): false,
	} {
		err := Repo{ID: id}.Validate()
		if (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
		if err != nil && !errors.Is(err, ErrInvalidRepo) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := (Repo{Type: "bucket", ID: "a"}).Validate(); !errors.Is(err, ErrInvalidRepo) {
		t.Error(err)
	}
}

func TestParseRepo(t *testing.T) {
	for in, want := range map[string]Repo{
		"gpt2": {Model, "gpt2"}, "a/b": {Model, "a/b"}, "models/a/b": {Model, "a/b"},
		"datasets/a/b": {Dataset, "a/b"}, "datasets/squad": {Dataset, "squad"}, "spaces/a/b": {Space, "a/b"}, "kernels/a/b": {Kernel, "a/b"},
	} {
		got, err := ParseRepo(in)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
		if again, err := ParseRepo(got.String()); err != nil || again != got {
			t.Errorf("%q does not round-trip: %+v, %v", in, again, err)
		}
	}
	if got := (Repo{Dataset, "a/b"}).folder(); got != "datasets--a--b" {
		t.Error(got)
	}
}

func TestURLs(t *testing.T) {
	c, err := New(Options{Endpoint: "https://huggingface.co/", CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		r              Repo
		rev, file, url string
	}{
		{ModelRepo("gpt2"), "main", "config.json", "https://huggingface.co/gpt2/resolve/main/config.json"},
		{ModelRepo("a/b"), "refs/pr/1", "x/y.txt", "https://huggingface.co/a/b/resolve/refs%2Fpr%2F1/x/y.txt"},
		{Repo{Dataset, "a/b"}, "v1+2", "a b/#1 ü?.txt", "https://huggingface.co/datasets/a/b/resolve/v1%2B2/a%20b/%231%20%C3%BC%3F.txt"},
	} {
		if got := c.resolveURL(tc.r, tc.rev, tc.file); got != tc.url {
			t.Errorf("%s, want %s", got, tc.url)
		}
	}
	if got := c.apiURL(Repo{Space, "a/b"}, "tree", "refs/pr/1", "x/y"); got != "https://huggingface.co/api/spaces/a/b/tree/refs%2Fpr%2F1/x%2Fy" {
		t.Error(got)
	}
}

func TestCheckPath(t *testing.T) {
	for name, ok := range map[string]bool{
		"config.json": true, "a/b/c": true, ".gitattributes": true, "a b/ü": true, "..x": true, "x..": true, "ab:c": true,
		"": false, ".": false, "..": false, "../x": false, "a/../b": false, "a/..": false, `..\x`: false, `a\..\b`: false, "a//b": false, "a/": false, "/a": false,
		`\a`: false, `\\host\share`: false, `C:\x`: false, "C:/x": false, "D:foo": false, "a/C:x": false, `a/\x`: false, "a\x00b": false, "a\nb": false,
	} {
		err := CheckPath(name)
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil && !errors.Is(err, ErrUnsafePath) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, ok := range map[string]bool{
		"config.json": true, "console": true, "com": true, "lpt10": true,
		"CON": false, "nul.txt": false, "a/COM1": false, "lpt9.x.y": false, "a.": false, "a ": false, `a\b`: false, "a:b": false, "a?": false, "x|y": false,
	} {
		if err := checkPathOS(name, true); (err == nil) != ok {
			t.Errorf("on Windows %q: %v", name, err)
		}
	}
}

func TestIsCommit(t *testing.T) {
	if h := strings.Repeat("0a", 20); !IsCommit(h) || IsCommit(strings.ToUpper(h)) || IsCommit(h[1:]) || IsCommit(h+"0") {
		t.Error("commit hashes are 40 lower-case hexadecimal digits")
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"a/b", "../x", `C:\x`, `\\h\s`, "D:f", "a b/#1 ü?.txt", "refs/pr/1", "a\x00", "%2e%2e/x"} {
		f.Add(s)
	}
	dir := f.TempDir()
	c, err := New(Options{CacheDir: dir})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := safeJoin(dir, s)
		if err == nil {
			rel, err := filepath.Rel(dir, p)
			if err != nil || rel == ".." || strings.HasPrefix(rel, "../") || filepath.IsAbs(rel) || !strings.HasPrefix(p, dir+string(filepath.Separator)) {
				t.Fatalf("%q leads to %q", s, p)
			}
		}
		if r, err := ParseRepo(s); err == nil {
			if strings.ContainsAny(r.folder(), `/\:`) || strings.Contains(r.folder(), "..") {
				t.Fatalf("%q has the folder %q", s, r.folder())
			}
		}
		u := c.resolveURL(ModelRepo("a/b"), s, s)
		if strings.ContainsAny(u[len("https:"):], "?#\\ \x00%") && !strings.Contains(u, "%") {
			t.Fatalf("%q is not encoded: %q", s, u)
		}
		if rev, err := checkRevision(s); err == nil && rev != s && s != "" {
			t.Fatalf("%q became %q", s, rev)
		}
	})
}
