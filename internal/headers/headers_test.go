package headers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/loader"
)

const text = `# two layers
config config.json {"model_type":"x"}
file model.safetensors
BF16 [3,5] e.weight
F32 [7] layer.{0-1,4}.norm
F32 [] step
`

func TestWrite(t *testing.T) {
	m, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	fsys, err := m.FS()
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (*loader.Checkpoint, error){
		"disk":   func() (*loader.Checkpoint, error) { return loader.Open(dir, loader.Options{}) },
		"memory": func() (*loader.Checkpoint, error) { return loader.OpenFS(fsys, "model.safetensors", loader.Options{}) },
	} {
		c, err := open()
		if err != nil {
			t.Fatal(name, err)
		}
		if got := len(c.Names()); got != 5 {
			t.Errorf("%s: %d tensors, want 5", name, got)
		}
		if got := c.TotalBytes(); got != 2*15+3*4*7+4 {
			t.Errorf("%s: %d bytes", name, got)
		}
		if _, err := c.Info("layer.4.norm"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, err = c.Tensor("e.weight")
		if (err == nil) != (name == "disk") {
			t.Errorf("%s: reading values gives %v", name, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "config.json")); err != nil || string(b) != `{"model_type":"x"}` {
		t.Errorf("config %q, %v", b, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(text))
	f.Add([]byte("file a\nF32 [-1] x"))
	f.Add([]byte("file a\nF32 [1] x.{3-1}"))
	f.Add([]byte("file a\nF32 [1] x.{0-99999999999}"))
	f.Add([]byte("file ../a\nconfig none"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		if len(m.Tensors) > maxTensors+1 {
			t.Fatalf("%d tensors", len(m.Tensors))
		}
		if _, _, err := m.Header(); err != nil {
			return // sums that overflow
		}
	})
}
