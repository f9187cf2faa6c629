package loader_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// The golden files were written by the format's reference implementation; see
// testdata/golden/make.py.
func TestGoldenFiles(t *testing.T) {
	const dir = "testdata/golden"
	text, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]struct {
		Metadata map[string]string
		Tensors  map[string]struct {
			DType  string
			Shape  tensor.Shape
			SHA256 string
		}
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 7 {
		t.Fatalf("%d cases", len(cases))
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name+".safetensors")
			c, err := loader.Open(path, loader.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			header := c.Files()[0].Header
			if got := header.Metadata(); !maps.Equal(got, want.Metadata) {
				t.Errorf("metadata %q, want %q", got, want.Metadata)
			}
			if len(c.Names()) != len(want.Tensors) {
				t.Errorf("tensors %q", c.Names())
			}
			var entries []loader.Entry
			for _, name := range c.Names() {
				w := want.Tensors[name]
				x, err := c.Tensor(name)
				if err != nil {
					t.Fatal(err)
				}
				if x.DType().String() != w.DType || !x.Shape().Equal(w.Shape) || fmt.Sprintf("%x", sha256.Sum256(x.Bytes())) != w.SHA256 {
					t.Errorf("%q is %v, want %s%v, or its bytes differ", name, x, w.DType, w.Shape)
				}
				entries = append(entries, loader.Entry{Name: name, Tensor: x})
			}
			// The same tensors in the same order give the reference's bytes.
			var b bytes.Buffer
			if _, err := loader.Write(&b, entries, loader.WriteOptions{Metadata: header.Metadata()}); err != nil {
				t.Fatal(err)
			}
			original, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes(), original) {
				t.Errorf("written again:\n%q\nreference:\n%q", b.Bytes(), original)
			}
		})
	}
}
