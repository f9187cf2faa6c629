package hub

import (
	"strings"
	"testing"
)

// FuzzEntries: whatever a server lists, an entry that comes through has a name
// and an id that may become paths.
func FuzzEntries(f *testing.F) {
	oid, oid256 := strings.Repeat("a", 40), strings.Repeat("b", 64)
	f.Add([]byte(`[{"type":"file","path":"a","oid":"` + oid + `","size":1,"lfs":{"oid":"` + oid256 + `","size":9000000000,"pointerSize":130},"xetHash":"` + oid256 + `"}]`))
	f.Add([]byte(`[{"type":"directory","path":"d","oid":"` + oid + `","lastCommit":{"id":"` + oid + `","title":"t","date":"2026-01-01T00:00:00Z"}},{"type":""}]`))
	f.Add([]byte(`[{"type":"file","path":"../a","oid":"` + oid + `"}]`))
	f.Add([]byte(`[{"type":"file","path":"a","oid":"` + oid + `","size":-1,"securityFileStatus":{"avScan":null}}]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		entries, err := parseEntries(body)
		for _, e := range entries {
			if CheckPath(e.Path) != nil || !e.Dir && (!validEtag(e.Etag()) || e.Size < 0) || e.Dir && e.TreeID != "" && !validEtag(e.TreeID) ||
				e.LastCommit != nil && !IsCommit(string(e.LastCommit.ID)) {
				t.Errorf("%+v came through", e)
			}
		}
		files, ferr := parseTree(body)
		if err == nil && ferr != nil {
			t.Errorf("the listing of files fails where that of entries does not: %v", ferr)
		}
		n := 0
		for _, e := range entries {
			if !e.Dir {
				n++
			}
		}
		if err == nil && n != len(files) {
			t.Errorf("%d files in one listing, %d in the other", n, len(files))
		}
	})
}

func FuzzCommits(f *testing.F) {
	f.Add([]byte(`[{"id":"` + strings.Repeat("a", 40) + `","title":"t","message":"m","date":"2026-01-01T00:00:00Z","authors":[{"user":"u"}]}]`))
	f.Add([]byte(`[{"id":"HEAD"}]`))
	f.Add([]byte(`[{"id":"` + strings.Repeat("a", 40) + `","date":"yesterday","authors":null}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		commits, err := parseCommits(body)
		if err != nil && len(commits) > 0 {
			t.Error("an error beside commits")
		}
		for _, c := range commits {
			if !IsCommit(string(c.ID)) {
				t.Errorf("%q came through", c.ID)
			}
		}
	})
}

func FuzzInfo(f *testing.F) {
	oid := strings.Repeat("a", 40)
	f.Add([]byte(`{"sha":"`+oid+`","gated":"manual","createdAt":"2026-01-01T00:00:00Z","siblings":[{"rfilename":"a","size":1,"blobId":"`+oid+`"}]}`), true)
	f.Add([]byte(`{"sha":"`+oid+`","gated":true,"createdAt":17,"tags":null,"safetensors":{"parameters":{"F32":1}}}`), false)
	f.Add([]byte(`{"sha":"`+oid+`","gated":{"a":[]},"siblings":[{"rfilename":"/etc/passwd"}]}`), false)
	f.Add([]byte(`{"sha":"`+oid+`","siblings":[{"rfilename":"a","lfs":{"sha256":"x"}}]}`), true)
	f.Fuzz(func(t *testing.T, body []byte, files bool) {
		i, err := parseInfo(body, InfoOptions{Files: files})
		if err != nil {
			return
		}
		if !IsCommit(string(i.Commit)) || files && len(i.Files) != len(i.Names) || !files && i.Files != nil {
			t.Errorf("%+v", i)
		}
		for _, n := range i.Names {
			if CheckPath(n) != nil {
				t.Errorf("%q came through", n)
			}
		}
	})
}

func FuzzAccount(f *testing.F) {
	f.Add([]byte(`{"name":"u","type":"user","orgs":[{"name":"o"}],"auth":{"accessToken":{"displayName":"t","role":"read"}}}`))
	f.Add([]byte(`{"name":""}`))
	f.Add([]byte(`{"name":"u","orgs":null,"auth":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if a, err := parseAccount(body); err == nil && a.Name == "" {
			t.Error("an account without a name")
		}
	})
}

// FuzzRefList: the answer about branches and tags.
func FuzzRefList(f *testing.F) {
	oid := strings.Repeat("a", 40)
	f.Add([]byte(`{"branches":[{"name":"main","ref":"refs/heads/main","targetCommit":"` + oid + `"}],"converts":[],"tags":[],"pullRequests":null}`))
	f.Add([]byte(`{"branches":[{"name":"main","targetCommit":"short"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		refs, err := parseRefList(body)
		if err != nil {
			return
		}
		for _, list := range [][]Ref{refs.Branches, refs.Tags, refs.PullRequests, refs.Converts} {
			for _, r := range list {
				if !IsCommit(string(r.Commit)) {
					t.Errorf("%+v came through", r)
				}
			}
		}
	})
}
