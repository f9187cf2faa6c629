package hub_test

import (
	"errors"
	"os"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

func TestPlan(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	p, err := c.Plan(t.Context(), demo, "main", hub.SnapshotOptions{Ignore: []string{"*.md"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Files) != len(demoFiles())-1 || p.Missing != p.Total || p.Total < 350_000 || string(p.Commit) != s.Commit("", "org/demo", "main") {
		t.Errorf("%+v", p)
	}
	if _, err := os.Stat(c.CacheDir()); !errors.Is(err, os.ErrNotExist) {
		t.Error("a plan wrote to the cache:", err)
	}
	path, err := c.Download(t.Context(), demo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if p, err = c.Plan(t.Context(), demo, "main", hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Files {
		if f.Cached != (f.Path == "model.safetensors") || f.Cached && f.Target != path {
			t.Errorf("%+v", f)
		}
	}
	if p.Total-p.Missing != 300_000 {
		t.Errorf("%+v", p)
	}
}

func TestRefsOfRepository(t *testing.T) {
	s := newHub(t, hubtest.Options{Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": demoFiles(), "dev": {"a": []byte("1")}},
		Tags: map[string]string{"v1": "main"}, PRs: map[string]string{"7": "dev"}}}})
	c := newClient(t, s)
	r, err := c.Refs(t.Context(), demo, true)
	if err != nil || len(r.Branches) != 2 || len(r.Tags) != 1 || len(r.PullRequests) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, list := range [][]hub.Ref{r.Branches, r.Tags, r.PullRequests} {
		for _, ref := range list {
			if cm, err := c.Resolve(t.Context(), demo, ref.Ref); err != nil || cm != ref.Commit {
				t.Errorf("%+v: %s, %v", ref, cm, err)
			}
		}
	}
	if r, err = c.Refs(t.Context(), demo, false); err != nil || len(r.PullRequests) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err = c.Refs(t.Context(), hub.ModelRepo("org/none"), false); !errors.Is(err, hub.ErrRepoNotFound) {
		t.Error(err)
	}
}
