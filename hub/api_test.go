package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

func TestInfo(t *testing.T) {
	files := demoFiles()
	s := newHub(t, hubtest.Options{
		Repos: []hubtest.Repo{
			{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": files, "feature/x": {"a": []byte("1")}}},
			{ID: "org/gated", Gated: true, Revisions: map[string]hubtest.Files{"main": files}},
			{ID: "org/words", Type: "dataset", Revisions: map[string]hubtest.Files{"main": {"a.csv": []byte("1")}}},
			{ID: "org/app", Type: "space", Revisions: map[string]hubtest.Files{"main": {"app.py": []byte("1")}}},
			{ID: "org/kern", Type: "kernel", Revisions: map[string]hubtest.Files{"main": {"k.py": []byte("1")}}},
		},
		Tokens: []string{token},
	})
	c := newClient(t, s)
	i, err := c.Info(t.Context(), demo, "", hub.InfoOptions{Files: true})
	if err != nil {
		t.Fatal(err)
	}
	if string(i.Commit) != s.Commit("", "org/demo", "main") || i.Author != "org" || i.Gated != "" || i.Private ||
		i.Parameters["F32"] != 1 || i.Created.Year() != 2026 || i.Library != "transformers" || !strings.HasPrefix(string(i.Raw), "{") {
		t.Errorf("%+v", i)
	}
	if len(i.Names) != len(files) || len(i.Files) != len(files) {
		t.Fatalf("names %v, files %v", i.Names, i.Files)
	}
	total := int64(0)
	for _, f := range i.Files {
		if total += f.Size; f.Size != int64(len(files[f.Path])) || f.SHA256 != "" && f.SHA256 != sha(files[f.Path]) {
			t.Errorf("%+v", f)
		}
	}
	if i.UsedStorage != total {
		t.Errorf("storage %d, want %d", i.UsedStorage, total)
	}
	if i, err := c.Info(t.Context(), demo, "feature/x", hub.InfoOptions{}); err != nil || !slices.Equal(i.Names, []string{"a"}) || i.Files != nil {
		t.Errorf("%+v, %v", i, err)
	}
	if i, err := c.Info(t.Context(), demo, "", hub.InfoOptions{Expand: []string{"tags", "gated"}}); err != nil || i.Commit != "" || len(i.Names) != 0 {
		t.Errorf("%+v, %v", i, err)
	}
	if i, err := c.Info(t.Context(), hub.ModelRepo("org/gated"), "", hub.InfoOptions{}); err != nil || i.Gated != "auto" {
		t.Errorf("%+v, %v", i, err)
	}
	for _, r := range []hub.Repo{{Type: hub.Dataset, ID: "org/words"}, {Type: hub.Space, ID: "org/app"}, {Type: hub.Kernel, ID: "org/kern"}} {
		if i, err := c.Info(t.Context(), r, "", hub.InfoOptions{}); err != nil || i.Repo != r || len(i.Names) != 1 {
			t.Errorf("%s: %+v, %v", r, i, err)
		}
	}
	_, err = c.Info(t.Context(), demo, "", hub.InfoOptions{Files: true, Expand: []string{"tags"}})
	wantErr(t, err, hub.ErrBadRequest)
	_, err = c.Info(t.Context(), hub.Repo{Type: hub.Kernel, ID: "org/kern"}, "", hub.InfoOptions{Files: true})
	wantErr(t, err, hub.ErrBadRequest)
	_, err = c.Info(t.Context(), demo, "nope", hub.InfoOptions{})
	wantErr(t, err, hub.ErrRevisionNotFound, "org/demo@nope", "request hubtest-")
}

func collect[T any](t *testing.T, seq func(func(T, error) bool)) (out []T, err error) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, nil
}

func TestTreeOfDirectories(t *testing.T) {
	s := newHub(t, hubtest.Options{PageSize: 2, Xet: &xettest.Options{}, Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": demoFiles(), "a/b": {"x": []byte("1")}}}}})
	c := newClient(t, s)
	names := func(o hub.TreeOptions) []string {
		t.Helper()
		entries, err := collect(t, c.Tree(t.Context(), demo, "main", o))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range entries {
			name := e.Path
			if e.Dir {
				name += "/"
			}
			out = append(out, name)
			if o.Expand != (e.LastCommit != nil) || o.Expand && !e.Dir && e.Security.Status != "safe" {
				t.Errorf("%+v", e)
			}
			if strings.HasSuffix(name, ".safetensors") && (e.SHA256 == "" || e.XetHash == "" || e.Size != 300_000) {
				t.Errorf("%+v", e)
			}
		}
		slices.Sort(out)
		return out
	}
	root := []string{"README.md", "config.json", "empty.txt", "model.safetensors", "sub/"}
	if got := names(hub.TreeOptions{}); !slices.Equal(got, root) {
		t.Errorf("root %v", got)
	}
	if got := names(hub.TreeOptions{Expand: true}); !slices.Equal(got, root) {
		t.Errorf("root %v", got)
	}
	if got := names(hub.TreeOptions{Recursive: true}); len(got) != len(demoFiles())+2 {
		t.Errorf("all %v", got)
	}
	if got := names(hub.TreeOptions{Dir: "sub/dir"}); !slices.Equal(got, []string{"sub/dir/b é+#1 ?.txt"}) {
		t.Errorf("sub/dir %v", got)
	}
	// A caller that has enough causes no further page.
	s.Forget()
	for range c.Tree(t.Context(), demo, "main", hub.TreeOptions{Recursive: true}) {
		break
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("%d requests for one entry", n)
	}
	if got, err := collect(t, c.Tree(t.Context(), demo, "a/b", hub.TreeOptions{})); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	_, err := collect(t, c.Tree(t.Context(), demo, "main", hub.TreeOptions{Dir: "../x"}))
	wantErr(t, err, hub.ErrUnsafePath)
	_, err = collect(t, c.Tree(t.Context(), demo, "nope", hub.TreeOptions{}))
	wantErr(t, err, hub.ErrRevisionNotFound)
}

func TestPathsInfo(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	odd := "sub/dir/b é+#1 ?.txt"
	got, err := c.PathsInfo(t.Context(), demo, "main", []string{"config.json", "nope", odd, "sub", "model.safetensors"}, true)
	if err != nil || len(got) != 4 || got[0].Path != "config.json" || got[0].LastCommit == nil || got[1].Path != odd || !got[2].Dir || got[3].SHA256 != sha(demoFiles()["model.safetensors"]) {
		t.Fatalf("%+v, %v", got, err)
	}
	// Many names go in several questions.
	many := make([]string, 2500)
	for i := range many {
		many[i] = fmt.Sprintf("none/%d", i)
	}
	many[2400] = "README.md"
	s.Forget()
	if got, err := c.PathsInfo(t.Context(), demo, "main", many, false); err != nil || len(got) != 1 || len(s.Requests()) != 3 {
		t.Errorf("%v, %v, %d requests", got, err, len(s.Requests()))
	}
	// A question is repeated with its body.
	s.Inject(hubtest.Fault{Kind: hubtest.Status, Code: 503, Method: http.MethodPost})
	if got, err := c.PathsInfo(t.Context(), demo, "main", []string{"config.json"}, false); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	for _, code := range []int{302, 307} {
		s.Inject(hubtest.Fault{Kind: hubtest.Redirect, Code: code, Method: http.MethodPost, Header: http.Header{"Location": {"/api/models/org/demo/paths-info/main?again=1"}}})
		got, err := c.PathsInfo(t.Context(), demo, "main", []string{"config.json"}, false)
		if code == 302 {
			wantErr(t, err, hub.ErrRedirect)
		} else if err != nil || len(got) != 1 {
			t.Errorf("%v, %v", got, err)
		}
	}
	_, err = c.PathsInfo(t.Context(), demo, "main", []string{`C:\x`}, false)
	wantErr(t, err, hub.ErrUnsafePath)
	// Names that nobody asked for are not passed on.
	s.Inject(hubtest.Fault{Kind: hubtest.Status, Code: 200, Method: http.MethodPost, Body: `[{"type":"file","path":"other","oid":"` + strings.Repeat("0", 40) + `","size":1}]`})
	_, err = c.PathsInfo(t.Context(), demo, "main", []string{"config.json"}, false)
	wantErr(t, err, hub.ErrMetadata)
}

func TestCommits(t *testing.T) {
	s := newHub(t, hubtest.Options{PageSize: 3, Repos: []hubtest.Repo{{ID: "org/demo", History: 10, Revisions: map[string]hubtest.Files{"main": demoFiles()}}}})
	c := newClient(t, s)
	got, err := collect(t, c.Commits(t.Context(), demo, ""))
	if err != nil || len(got) != 11 || string(got[0].ID) != s.Commit("", "org/demo", "main") || got[0].Title != "commit 10" || got[10].Title != "commit 0" || got[5].Authors[0] != "tester" || got[5].Date.Year() != 2026 {
		t.Fatalf("%+v, %v", got, err)
	}
	s.Forget()
	for range c.Commits(t.Context(), demo, "") {
		break
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("%d requests for one commit", n)
	}
	_, err = collect(t, c.Commits(t.Context(), demo, "nope"))
	wantErr(t, err, hub.ErrRevisionNotFound)
}

func TestAccount(t *testing.T) {
	s := newHub(t, hubtest.Options{Tokens: []string{token}, Xet: &xettest.Options{}, Repos: []hubtest.Repo{
		{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": demoFiles()}},
		{ID: "org/gated", Gated: true, Revisions: map[string]hubtest.Files{"main": demoFiles()}},
		{ID: "org/off", Disabled: true, Revisions: map[string]hubtest.Files{"main": demoFiles()}},
	}})
	anonymous, known := newClient(t, s), newClient(t, s, withToken)
	a, err := known.WhoAmI(t.Context())
	if err != nil || !reflect.DeepEqual(*a, hub.Account{Name: "tester", FullName: "A Tester", Type: "user", Orgs: []string{"org"}, TokenName: "test", TokenRole: "read"}) {
		t.Errorf("%+v, %v", a, err)
	}
	_, err = anonymous.WhoAmI(t.Context())
	wantErr(t, err, hub.ErrUnauthorized)
	_, err = newClient(t, s, func(o *hub.Options) { o.Token = "hf_wrongtoken00000000" }).WhoAmI(t.Context())
	wantErr(t, err, hub.ErrUnauthorized)
	gated := hub.ModelRepo("org/gated")
	if err := known.CheckAccess(t.Context(), gated); err != nil {
		t.Error(err)
	}
	wantErr(t, anonymous.CheckAccess(t.Context(), gated), hub.ErrGated)
	wantErr(t, anonymous.CheckAccess(t.Context(), hub.ModelRepo("org/off")), hub.ErrDisabled)
	wantErr(t, anonymous.CheckAccess(t.Context(), hub.ModelRepo("org/nope")), hub.ErrRepoNotFound)
	tok, err := anonymous.XetToken(t.Context(), demo, "")
	if err != nil || tok.Access == "" || tok.CAS == "" || tok.Expires.Before(time.Now()) {
		t.Errorf("%+v, %v", tok, err)
	}
	_, err = anonymous.XetToken(t.Context(), demo, "nope")
	wantErr(t, err, hub.ErrRevisionNotFound)
}

// Every request to the Hub has a name of its own, which an error repeats
// where the server gives none; other origins get none.
func TestTraceIDs(t *testing.T) {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	var ids []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ids = append(ids, r.Header.Get("X-Amzn-Trace-Id"))
		if len(ids) == 3 {
			w.Header().Set("X-Request-Id", "server-7")
		}
		w.WriteHeader(500)
	}))
	defer srv.Close()
	c, err := hub.New(hub.Options{Endpoint: srv.URL, CacheDir: t.TempDir(), Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, err = c.Info(t.Context(), demo, "", hub.InfoOptions{})
		var e *hub.Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		want := ids[len(ids)-1]
		if !uuid.MatchString(want) {
			t.Errorf("%q is no UUID", want)
		}
		if len(ids) == 3 {
			want = "server-7"
		}
		if e.RequestID != want || !strings.Contains(err.Error(), "request "+want) {
			t.Errorf("%v does not name the request %s", err, want)
		}
	}
	if ids[0] == ids[1] {
		t.Error("two requests have one name")
	}
	srv.CloseClientConnections()
	srv.Close()
	_, err = c.Info(t.Context(), demo, "", hub.InfoOptions{})
	var e *hub.Error
	if !errors.As(err, &e) || e.Kind != hub.ErrNetwork || !uuid.MatchString(e.RequestID) {
		t.Errorf("%+v", err)
	}

	s := newHub(t, hubtest.Options{})
	if _, err := newClient(t, s).Snapshot(t.Context(), demo, "", hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Requests() {
		if (r.Trace != "") != (r.Origin == "hub") {
			t.Errorf("%s %s: trace %q", r.Origin, r.Path, r.Trace)
		}
	}
}

func TestListingsEndWithTheirContext(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := collect(t, newClient(t, s).Commits(ctx, demo, "")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c := newClient(t, s, offline)
	for _, err := range []error{
		second(c.Info(t.Context(), demo, "", hub.InfoOptions{})),
		second(collect(t, c.Commits(t.Context(), demo, ""))),
		second(collect(t, c.Tree(t.Context(), demo, "", hub.TreeOptions{}))),
		second(c.PathsInfo(t.Context(), demo, "", []string{"a"}, false)),
		second(c.XetToken(t.Context(), demo, "")),
		c.CheckAccess(t.Context(), demo),
	} {
		wantErr(t, err, hub.ErrOffline)
	}
}

func second[T any](_ T, err error) error { return err }
