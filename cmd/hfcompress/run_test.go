package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestRunHalves runs packages of models in 16-bit types: with logits, and with
// outputs that are shown as they are.
func TestRunHalves(t *testing.T) {
	for _, model := range []string{"llama/testdata/golden/bf16", "llama/testdata/golden/f16", "bert/testdata/golden/bf16", "t5/testdata/golden/f16"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			dir, out := t.TempDir(), filepath.Join(t.TempDir(), "package")
			for _, name := range []string{"config.json", "model.safetensors"} {
				data, err := os.ReadFile(filepath.Join("..", "..", "architectures", model, name))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			hfcompress := func(args ...string) []byte {
				t.Helper()
				var stdout, stderr bytes.Buffer
				a := &app{stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
				if status := a.execute(context.Background(), args); status != exitOK {
					t.Fatalf("%v: status %d: %s", args, status, stderr.Bytes())
				}
				return stdout.Bytes()
			}
			hfcompress("--local", dir, "--out", out, "--quiet")
			if text := hfcompress("run", out, "--ids", "1,2,3"); len(text) == 0 {
				t.Error("nothing is shown")
			}
			var shown struct {
				Next    []choice
				Outputs []shownOutput
			}
			if err := json.Unmarshal(hfcompress("run", out, "--ids", "1,2,3", "--top", "3", "--json"), &shown); err != nil {
				t.Fatal(err)
			}
			for _, o := range shown.Outputs {
				if n, err := o.Shape.Elements(); err != nil || len(o.Values) != n {
					t.Errorf("%s: %d values of %v", o.Name, len(o.Values), o.Shape)
				}
			}
			if len(shown.Outputs) == 0 {
				if len(shown.Next) != 3 || shown.Next[0].Logit < shown.Next[1].Logit || shown.Next[0].Logit == 0 {
					t.Errorf("next tokens %v", shown.Next)
				}
			}
		})
	}
}
