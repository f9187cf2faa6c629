package compress_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/hub/hubtest"
)

// The page of acceptance cases names tests that exist, and leaves no case without
// a test or a reason.
func TestAcceptancePage(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| ([A-Z]+)-(\d+) \| (.+?) \| (.+?) \| (.*?) ?\|$`)
	reference := regexp.MustCompile("`([a-z/0-9]+)\\.((?:Test|Fuzz|Example)\\w*)`")
	last := map[string]int{}
	sources := map[string]string{}
	exists := func(folder, test string) bool {
		if folder == "compress" {
			folder = "."
		}
		if _, known := sources[folder]; !known {
			names, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				sources[folder] += string(read(t, name))
			}
		}
		return strings.Contains(sources[folder], "\nfunc "+test+"(")
	}
	cases := 0
	page := string(read(t, "docs/acceptance.md"))
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		group, id, tests, note := m[1], m[1]+"-"+m[2], m[4], m[5]
		cases++
		last[group]++
		if !strings.Contains(page, fmt.Sprintf("| %s-%d |", group, last[group])) {
			t.Errorf("%s: the cases of its group have a gap", id)
		}
		refs := reference.FindAllStringSubmatch(tests, -1)
		if len(refs) == 0 && strings.TrimSpace(note) == "" {
			t.Errorf("%s has neither a test nor a reason", id)
		}
		if want := strings.Count(tests, "`") / 2; want != len(refs) {
			t.Errorf("%s: %d tests are named, %d understood: %s", id, want, len(refs), tests)
		}
		for _, r := range refs {
			if !exists(r[1], r[2]) {
				t.Errorf("%s: %s has no %s", id, r[1], r[2])
			}
		}
	}
	if cases != 373 {
		t.Errorf("%d cases, expected 373", cases)
	}
}

// Only safetensors files are read. Other formats are never chosen, never opened
// when they are named, and code in a repository is not looked at.
func TestOnlySafetensors(t *testing.T) {
	pickle := []byte("\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.")
	for _, c := range []struct {
		name   string
		change func(hubtest.Files)
		file   string
		says   string // empty when it loads
	}{
		{"pickles alone", func(f hubtest.Files) {
			delete(f, "model.safetensors")
			f["model.ckpt"], f["pytorch_model.bin"] = pickle, pickle
		}, "", "only safetensors is read, never model.ckpt, pytorch_model.bin"},
		{"a pickle by name", func(f hubtest.Files) { f["pytorch_model.bin"] = pickle }, "pytorch_model.bin", "pytorch_model.bin"},
		{"a pickle called safetensors", func(f hubtest.Files) { f["model.safetensors"] = pickle }, "", "model.safetensors"},
		{"two candidates", func(f hubtest.Files) {
			f["a.safetensors"], f["b.safetensors"] = f["model.safetensors"], f["model.safetensors"]
			delete(f, "model.safetensors")
		}, "", "several weight files, name one: a.safetensors, b.safetensors"},
		{"one of two by name", func(f hubtest.Files) {
			f["a.safetensors"], f["b.safetensors"] = f["model.safetensors"], f["model.safetensors"]
			delete(f, "model.safetensors")
		}, "b.safetensors", ""},
		{"beside pickles and code", func(f hubtest.Files) {
			f["pytorch_model.bin"], f["modeling.py"] = pickle, []byte("raise SystemExit")
		}, "", ""},
	} {
		o := quick(compress.Options{File: c.file})
		r, err := compress.Local(context.Background(), demoDir(t, c.change), o)
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			r.Close()
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
