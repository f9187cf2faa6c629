package uce_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/architectures/uce"
	"github.com/hfcompress/compress/tensor"
)

// The golden files come from testdata/gen/make_uce_goldens.py.
const root = "testdata"

func dir(name string) string { return root + "/" + name }

func TestGolden(t *testing.T) { goldens.Forward(t, root, dir, 2, "embedding") }

// parse reads the configuration of a case with changes put in.
func parse(t *testing.T, changes map[string]any) error {
	t.Helper()
	data, err := os.ReadFile(dir("hidden") + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	maps.Copy(fields, changes)
	if data, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	cfg, err := architectures.ParseConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	_, err = uce.ParseConfig(cfg)
	return err
}

func TestConfigRefused(t *testing.T) {
	cases := map[string]struct {
		key   string
		value any
		want  string
	}{
		"heads":      {"num_attention_heads", 5, "5 does not divide hidden_size 12"},
		"padding":    {"padding", "left", `padding: expected "adds_one" or "hidden", found "left"`},
		"activation": {"hidden_act", "gelu", "another activation"},
		"norms":      {"norm_first", true, "norms before the layers"},
		"width":      {"token_dim", nil, "token_dim: is missing"},
		"half":       {"dtype", "bfloat16", `expected "float32", found "bfloat16"`},
		"pad":        {"pad_token_id", 19, "outside the vocabulary of 19"},
	}
	for name, c := range cases {
		if err := parse(t, map[string]any{c.key: c.value}); !errors.Is(err, uce.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// TestBlock puts a table in the encoder's place and expects the same bits, and
// that building with it asks for none of the tensors that it replaces.
func TestBlock(t *testing.T) {
	dev := goldens.OpenCPU(t)
	m := goldens.Build(t, dev, dir("adds_one"), nil)
	b := goldens.Blueprint(t, dir("adds_one"), nil)
	spec := b.Blocks()[0]
	source, err := m.Block(spec.Path)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tensor.New(tensor.F32, spec.NumTokens, spec.Outputs[0].Width)
	if err != nil {
		t.Fatal(err)
	}
	s := dev.Begin(context.Background())
	defer s.Close()
	for id := range spec.NumTokens {
		copy(rows.Row(id), s.ToHost(source.Forward(s, []int{id})[0]).Bytes())
	}
	up, err := nn.TensorRows(rows)
	if err != nil {
		t.Fatal(err)
	}
	table, err := dev.UploadRows(up)
	if err != nil {
		t.Fatal(err)
	}
	lookup := &nn.Fanout{Embedding: table, EmbeddingSource: up, EmbeddingName: "table", Branches: []nn.Branch{{Name: "tokens"}}}

	view, err := m.WithBlock(spec.Path, lookup)
	if err != nil {
		t.Fatal(err)
	}
	rest := goldens.Read(t, dir("adds_one")+"/model.safetensors")
	for _, name := range spec.Removes {
		delete(rest, name)
	}
	rebuilt, err := b.Build(dev, rest, map[string]nn.TokenBlock{spec.Path: lookup})
	if err != nil {
		t.Fatal(err)
	}
	in, err := architectures.TokenInputs([]int{3, 1, 4}, []int{18, 0, 3})
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.Forward(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]architectures.Model{"view": view, "rebuilt": rebuilt} {
		got, err := other.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range got {
			if o.Name != want[i].Name || !slices.Equal(o.Tensor.Bytes(), want[i].Tensor.Bytes()) {
				t.Errorf("%s: %s differs", name, o.Name)
			}
		}
	}
	if _, err := m.WithBlock("decoder", lookup); err == nil || !strings.Contains(err.Error(), "declared: encoder") {
		t.Errorf("unknown place: %v", err)
	}
}

// TestPublishedSizes counts the published model's parameters, from its
// configuration alone.
func TestPublishedSizes(t *testing.T) {
	b := goldens.Blueprint(t, dir("adds_one"), map[string]any{
		"vocab_size": 145469, "token_dim": 5120, "hidden_size": 1280, "num_attention_heads": 20, "intermediate_size": 5120,
		"decoder_size": 1024, "output_dim": 1280, "num_hidden_layers": 4, "max_position_embeddings": 1536,
	})
	values := map[string]int64{}
	for _, p := range b.Params() {
		if !p.Ignored {
			n, err := p.Shape.Elements()
			if err != nil {
				t.Fatal(err)
			}
			values[p.Name] = int64(n)
		}
	}
	removed := int64(0)
	for _, name := range b.Blocks()[0].Removes {
		removed += values[name]
		delete(values, name)
	}
	// The table of 1,280 columns comes in place of vectors and projection.
	saved, whole := removed-145469*1280, removed
	for v := range maps.Values(values) {
		whole += v
	}
	if saved != 565158400 {
		t.Errorf("%d of %d values saved; the published sizes give 565,158,400", saved, whole)
	}
	t.Logf("%d of %d values saved, %.2f %%", saved, whole, 100*float64(saved)/float64(whole))
}
