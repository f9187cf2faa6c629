package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/internal/headers"
)

func TestPlanScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/plan",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HF_HOME", filepath.Join(env.WorkDir, "hf"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"headers":   headerFiles,
			"planhub":   planHub,
			"planjson":  planJSON,
			"demofiles": demoFiles,
			"tower":     tower,
			"status":    status,
		},
	})
}

// headerFiles writes a checkpoint that has headers alone, from a text of the
// script or, by the name of a model, from the planner's:
//
//	headers TEXT|MODEL DIR
func headerFiles(ts *testscript.TestScript, _ bool, args []string) {
	name := filepath.Join("..", "..", "planner", "testdata", "models", args[0]+".txt")
	if strings.HasSuffix(args[0], ".txt") {
		name = ts.MkAbs(args[0])
	}
	text, err := os.ReadFile(name)
	ts.Check(err)
	m, err := headers.Parse(text)
	ts.Check(err)
	ts.Check(m.Write(ts.MkAbs(args[1])))
}

// planHub serves a directory as org/plan at HUB:
//
//	planhub DIR
func planHub(ts *testscript.TestScript, _ bool, args []string) {
	files := hubtest.Files{}
	dir := ts.MkAbs(args[0])
	ts.Check(filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = os.ReadFile(name)
		return err
	}))
	server, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{{ID: "org/plan", Revisions: map[string]hubtest.Files{"main": files}, Tags: map[string]string{"v1": "main"}}}})
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Setenv("HUB", server.URL())
}

// planJSON holds the standard output of the last command against the schema, and
// the bytes that it received against two limits:
//
//	planjson LEAST MOST
func planJSON(ts *testscript.TestScript, _ bool, args []string) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "plan.schema.json"))
	ts.Check(err)
	text := ts.ReadFile("stdout")
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	ts.Check(err)
	ts.Check(schema.Validate(v))
	var plan struct {
		Network struct {
			Received int64 `json:"bytes_received"`
		} `json:"network"`
	}
	ts.Check(json.Unmarshal([]byte(text), &plan))
	least, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	most, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	if n := plan.Network.Received; n < least || n > most {
		ts.Fatalf("%d bytes were received, expected %d to %d", n, least, most)
	}
}
