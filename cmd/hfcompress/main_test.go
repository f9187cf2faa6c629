package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/internal/demomodel"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hfcompress": func() { os.Exit(run()) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HF_HOME", filepath.Join(env.WorkDir, "hf"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"hub":       startHub,
			"demofiles": demoFiles,
			"tower":     tower,
			"floats":    floats,
			"flip":      flip,
			"cut":       cut,
			"status":    status,
			"settle":    settle,
		},
	})
}

// startHub serves the demo model and the dataset org/words. It sets HUB to the
// address, COMMIT and DEV to the commits of the dataset's branches:
//
//	hub [gated|corrupt]
//
// corrupt spoils a byte of big.bin in every answer.
func startHub(ts *testscript.TestScript, _ bool, args []string) {
	revisions, err := demomodel.Revisions()
	ts.Check(err)
	repo := hubtest.Repo{ID: "org/model", Revisions: map[string]hubtest.Files{}, Gated: len(args) > 0 && args[0] == "gated"}
	for name, files := range revisions {
		repo.Revisions[name] = files
	}
	words := hubtest.Repo{Type: "dataset", ID: "org/words", Revisions: map[string]hubtest.Files{
		"main": {"README.md": []byte("# words\n"), "en/a.txt": []byte("one\n"), "en/b.txt": []byte("two\n"), "de/a.txt": []byte("eins\n"), "big.bin": make([]byte, 9<<20)},
		"dev":  {"README.md": []byte("# words\n"), "en/a.txt": []byte("ONE\n")},
	}, PRs: map[string]string{"1": "dev"}}
	server, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{repo, words}})
	ts.Check(err)
	ts.Defer(server.Close)
	if len(args) > 0 && args[0] == "corrupt" {
		server.Inject(hubtest.Fault{Kind: hubtest.Corrupt, Origin: "cdn", Path: "big.bin", At: 12345, Count: -1})
	}
	ts.Setenv("HUB", server.URL())
	ts.Setenv("COMMIT", server.Commit("dataset", "org/words", "main"))
	ts.Setenv("DEV", server.Commit("dataset", "org/words", "dev"))
}

// demoFiles writes the files of the demo model:
//
//	demofiles DIR
func demoFiles(ts *testscript.TestScript, _ bool, args []string) {
	revisions, err := demomodel.Revisions()
	ts.Check(err)
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o777))
	for name, data := range revisions[demomodel.RevisionMain] {
		ts.Check(os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
}

// tower writes the weights of the example of architecture files to a directory
// without a configuration, its file to uce.json, that file with a decision to
// decides.json and without patterns to strict.json, and serves the directory as
// org/tower at HUB:
//
//	tower DIR
func tower(ts *testscript.TestScript, _ bool, args []string) {
	from := filepath.Join("..", "..", "architectures", "declared", "testdata")
	c, err := loader.Open(filepath.Join(from, "uce.safetensors"), loader.Options{})
	ts.Check(err)
	defer c.Close()
	var entries []loader.Entry
	for _, name := range c.Names() {
		if !strings.Contains(name, "/") {
			x, err := c.Tensor(name)
			ts.Check(err)
			entries = append(entries, loader.Entry{Name: name, Tensor: x})
		}
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o777))
	weights := filepath.Join(dir, "model.safetensors")
	ts.Check(loader.WriteFile(weights, entries, loader.WriteOptions{}))
	data, err := os.ReadFile(weights)
	ts.Check(err)
	server, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{{ID: "org/tower", Revisions: map[string]hubtest.Files{"main": {"model.safetensors": data}}}}})
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Setenv("HUB", server.URL())

	text, err := os.ReadFile(filepath.Join(from, "uce.json"))
	ts.Check(err)
	file := string(text)
	decides := strings.Replace(file, `{"name": "gene_embeddings", "from": "genes"}`, `{"name": "gene_embeddings", "from": "genes", "decides": 3}`, 1)
	strict := strings.Replace(file, `"ignore": ["binary_decoder.*", "pos_encoder.pe"]`, `"ignore": ["pos_encoder.pe"]`, 1)
	if decides == file || strict == file {
		ts.Fatalf("uce.json is not what this test expects")
	}
	for name, text := range map[string]string{"uce.json": file, "decides.json": decides, "strict.json": strict} {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o666))
	}
}

// flip changes one bit in the middle of a file:
//
//	flip FILE
func flip(ts *testscript.TestScript, _ bool, args []string) {
	name := ts.MkAbs(args[0])
	data, err := os.ReadFile(name)
	ts.Check(err)
	data[len(data)/2] ^= 4
	ts.Check(os.WriteFile(name, data, 0o666))
}

// cut leaves the first half of a file:
//
//	cut FILE
func cut(ts *testscript.TestScript, _ bool, args []string) {
	name := ts.MkAbs(args[0])
	info, err := os.Stat(name)
	ts.Check(err)
	ts.Check(os.Truncate(name, info.Size()/2))
}

// floats writes a small safetensors file with the tensor w:
//
//	floats FILE
func floats(ts *testscript.TestScript, _ bool, args []string) {
	w, err := tensor.New(tensor.F32, 64, 16)
	ts.Check(err)
	for i := range w.Float32s() {
		w.Float32s()[i] = float32(i*i%1009) / 1009
	}
	ts.Check(loader.WriteFile(ts.MkAbs(args[0]), []loader.Entry{{Name: "w", Tensor: w}}, loader.WriteOptions{}))
}

// status runs a command that must end with a status:
//
//	status N COMMAND…
func status(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("status %d, expected %s", got, args[0])
	}
}

// settle makes all directories look an hour old:
//
//	settle DIR
func settle(ts *testscript.TestScript, _ bool, args []string) {
	old := time.Now().Add(-time.Hour)
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chtimes(p, old, old)
		}
		return err
	}))
}

// sections splits a page at its headings of the second level.
func sections(page string) map[string]string {
	out := map[string]string{}
	for _, part := range strings.Split("\n"+page, "\n## ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		out[title] = text
	}
	return out
}

// The command page has every command, and each flag in the section of its
// command or among those that several commands have.
func TestDocumentedFlags(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	a := &app{getenv: os.Getenv}
	root := a.rootCommand()
	text := sections(string(page))
	shared := text["Flags of several commands"]
	if shared == "" {
		t.Fatal("no section of shared flags")
	}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if !sub.Hidden && sub.Name() != "help" {
				check(sub)
			}
		}
		title := strings.TrimPrefix(cmd.CommandPath(), "hfcompress ")
		if cmd == root || title == "demo" {
			title = "Flags of the main command and demo"
		}
		if cmd != root && !strings.Contains(string(page), cmd.CommandPath()) {
			t.Errorf("%q is not in docs/command.md", cmd.CommandPath())
		}
		own, ok := text[title]
		if !ok && cmd.Runnable() && !cmd.HasSubCommands() {
			t.Errorf("docs/command.md has no section %q", title)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if name := "`--" + f.Name + "`"; f.Name != "help" && !strings.Contains(own, name) && !strings.Contains(shared, name) {
				t.Errorf("%s of %q is not in docs/command.md", name, cmd.CommandPath())
			}
		})
	}
	check(root)
}
