package compress_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/internal/demomodel"
)

// serveDemo stands in for the Hub: it serves the demo model on loopback.
func serveDemo() (*hubtest.Server, error) {
	revisions, err := demomodel.Revisions()
	if err != nil {
		return nil, err
	}
	return hubtest.New(hubtest.Options{Repos: []hubtest.Repo{{
		ID:        "org/name",
		Revisions: map[string]hubtest.Files{"main": revisions[demomodel.RevisionMain]},
	}}})
}

func ExampleHuggingFace() {
	server, err := serveDemo()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	result, err := compress.HuggingFace(context.Background(), "org/name", compress.Options{
		Revision: "main",
		Out:      filepath.Join(dir, "model.hfc"),
		Hub:      hub.Options{Endpoint: server.URL(), CacheDir: filepath.Join(dir, "hub")},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer result.Close()
	fmt.Println(result.Status)
	fmt.Println(result.Report.Values.Saved(), "of", result.Report.Values.Before, "values saved")
	fmt.Println("bitwise equal on all examples:", result.Report.Gate.Bitwise)
	// Output:
	// compressed
	// 36992 of 861312 values saved
	// bitwise equal on all examples: true
}

func ExampleLoad() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	source, out := filepath.Join(dir, "source"), filepath.Join(dir, "model.hfc")
	if err := os.CopyFS(source, demomodel.FS()); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	made, err := compress.Local(ctx, filepath.Join(source, "main"), compress.Options{Out: out})
	if err != nil {
		log.Fatal(err)
	}
	defer made.Close()

	model, err := compress.Load(ctx, out, compress.LoadOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	inputs, err := architectures.TokenInputs([]int{1, 16, 16, 5})
	if err != nil {
		log.Fatal(err)
	}
	outputs, err := model.Forward(ctx, inputs)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outputs.Get("logits"), "validated:", model.Validated)
	// Output: F32[1,4,32] validated: true
}
