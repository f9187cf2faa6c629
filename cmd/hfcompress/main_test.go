package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/internal/demomodel"
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
			"flip":      flip,
			"status":    status,
		},
	})
}

// startHub serves the demo model and sets HUB to its address:
//
//	hub [gated]
func startHub(ts *testscript.TestScript, _ bool, args []string) {
	revisions, err := demomodel.Revisions()
	ts.Check(err)
	repo := hubtest.Repo{ID: "org/model", Revisions: map[string]hubtest.Files{}, Gated: len(args) > 0 && args[0] == "gated"}
	for name, files := range revisions {
		repo.Revisions[name] = files
	}
	server, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{repo}})
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Setenv("HUB", server.URL())
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

// The command page lists every flag and every command.
func TestDocumentedFlags(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	a := &app{getenv: os.Getenv}
	root := a.rootCommand()
	usages := root.Flags().FlagUsages()
	for _, cmd := range root.Commands() {
		if !cmd.Hidden && cmd.Name() != "help" && !strings.Contains(string(page), "hfcompress "+cmd.Name()) {
			t.Errorf("command %s is not in docs/command.md", cmd.Name())
		}
	}
	for _, line := range strings.Split(usages, "\n") {
		_, rest, ok := strings.Cut(line, "--")
		if !ok {
			continue
		}
		name := "--" + strings.Fields(rest)[0]
		if !strings.Contains(string(page), fmt.Sprintf("`%s`", name)) {
			t.Errorf("flag %s is not in docs/command.md", name)
		}
	}
}
