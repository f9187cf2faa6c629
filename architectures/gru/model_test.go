package gru_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/gru"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func TestConfigRefused(t *testing.T) {
	cases := map[string]struct{ old, new, want string }{
		"no width":     {`"hidden_size": 10`, `"hidden_size": 0`, "hidden_size: expected an integer from 1"},
		"missing":      {`"embedding_size": 24,`, ``, "embedding_size: is missing"},
		"half":         {`"dtype": "float32"`, `"dtype": "float16"`, `dtype: expected "float32", found "float16"`},
		"layers":       {`"dtype"`, `"num_layers": 2, "dtype"`, "num_layers: 2: stacked layers"},
		"both ways":    {`"dtype"`, `"bidirectional": true, "dtype"`, "bidirectional"},
		"attention":    {`"dtype"`, `"attention": true, "dtype"`, "attention"},
		"code":         {`"dtype"`, `"auto_map": {"AutoModel": "x.Y"}, "dtype"`, "never run"},
		"other class":  {`GRUForSeq2Seq`, `GRUForTagging`, "GRUForTagging"},
		"start token":  {`"decoder_start_token_id": 2`, `"decoder_start_token_id": 13`, "decoder_start_token_id: expected a token id from 0 to 12"},
		"no end token": {`"eos_token_id": 3`, `"eos_token_id": null`, "eos_token_id"},
		"endless":      {`"max_new_tokens": 20`, `"max_new_tokens": 100000`, "max_new_tokens"},
	}
	for name, c := range cases {
		_, err := blueprint(t, small, c.old, c.new)
		if !errors.Is(err, gru.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

func TestInputsRefused(t *testing.T) {
	m := build(t, small)
	ids := func(rows ...[]int) *tensor.Tensor {
		x, err := architectures.IDTensor(rows)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	cases := map[string]struct {
		inputs map[string]*tensor.Tensor
		want   string
	}{
		"nothing":         {nil, "input_ids is missing"},
		"source id":       {map[string]*tensor.Tensor{"input_ids": ids([]int{1, 11})}, "id 11 of sequence 0 at position 1; valid ids are 0 to 10"},
		"target id":       {map[string]*tensor.Tensor{"input_ids": ids([]int{1}), "decoder_input_ids": ids([]int{13})}, "id 13"},
		"other batch":     {map[string]*tensor.Tensor{"input_ids": ids([]int{1}), "decoder_input_ids": ids([]int{1}, []int{2})}, "decoder_input_ids has 2 sequences, input_ids has 1"},
		"mask":            {map[string]*tensor.Tensor{"input_ids": ids([]int{1}), "attention_mask": ids([]int{1})}, `"attention_mask" is not an input of this model`},
		"too many values": {map[string]*tensor.Tensor{"input_ids": ids(slices.Repeat([][]int{{1}}, 1<<20+1)...)}, "expected 1 to"},
	}
	for name, c := range cases {
		_, err := m.Forward(context.Background(), architectures.Inputs{Tensors: c.inputs})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.Forward(ctx, architectures.Inputs{Tensors: map[string]*tensor.Tensor{"input_ids": ids([]int{1})}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// table is a lookup of the block's rows, computed one by one.
type table struct {
	nn.TokenBlock
	rows nn.Table
}

func (b table) Forward(s nn.Session, ids []int) []nn.Array { return []nn.Array{s.Gather(b.rows, ids)} }

func tabulate(t *testing.T, dev nn.Device, block nn.TokenBlock) nn.TokenBlock {
	t.Helper()
	out := block.Outputs()[0]
	rows, err := tensor.New(out.DType, block.NumTokens(), out.Width)
	if err != nil {
		t.Fatal(err)
	}
	s := dev.Begin(context.Background())
	defer s.Close()
	for id := range block.NumTokens() {
		copy(rows.Row(id), s.ToHost(block.Forward(s, []int{id})[0]).Bytes())
	}
	source, err := nn.TensorRows(rows)
	if err != nil {
		t.Fatal(err)
	}
	up, err := dev.UploadRows(source)
	if err != nil {
		t.Fatal(err)
	}
	return table{block, up}
}

// TestBlocks puts tables in both places, one by one and when building without
// the tensors that they replace, and expects the same bits.
func TestBlocks(t *testing.T) {
	m := build(t, small)
	in, err := architectures.TokenInputs([]int{1, 2, 3, 4}, []int{5, 6, 7, 10})
	if err != nil {
		t.Fatal(err)
	}
	in.Flags = map[string]bool{"output_hidden_states": true}
	want, err := m.Forward(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := blueprint(t, small)
	if err != nil {
		t.Fatal(err)
	}
	var view architectures.Model = m
	blocks := map[string]nn.TokenBlock{}
	removed := map[string]bool{}
	for _, spec := range b.Blocks() {
		block, err := view.Block(spec.Path)
		if err != nil {
			t.Fatal(err)
		}
		blocks[spec.Path] = tabulate(t, m.Device(), block)
		if view, err = view.WithBlock(spec.Path, blocks[spec.Path]); err != nil {
			t.Fatal(err)
		}
		for _, name := range spec.Removes {
			removed[name] = true
		}
	}
	c := open(t, filepath.Join(small, "model.safetensors"))
	weights := reading{c, map[string]bool{}}
	rebuilt, err := b.Build(m.Device(), weights, blocks)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range b.Params() {
		if weights.read[p.Name] == removed[p.Name] {
			t.Errorf("%s: read %t, removed %t", p.Name, weights.read[p.Name], removed[p.Name])
		}
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
	if _, err := m.WithBlock(gru.EncoderPath, blocks[gru.DecoderPath]); err == nil || !strings.Contains(err.Error(), "expected 11 elements, found 13") {
		t.Errorf("the decoder's block in the encoder's place: %v", err)
	}
	if _, err := m.WithBlock("head", blocks[gru.DecoderPath]); err == nil || !strings.Contains(err.Error(), "declared: encoder.input, decoder.input") {
		t.Errorf("unknown place: %v", err)
	}
}

// reading notes which tensors a build asks for.
type reading struct {
	*loader.Checkpoint
	read map[string]bool
}

func (r reading) Tensor(name string) (*tensor.Tensor, error) {
	r.read[name] = true
	return r.Checkpoint.Tensor(name)
}

// TestBatch expects the bits of a call of one sequence in calls of many.
func TestBatch(t *testing.T) {
	m := build(t, small)
	rows := [][]int{{1, 2, 3}, {3, 2, 1}, {0, 10, 5}, {1, 2, 3}}
	all, err := architectures.TokenInputs(rows...)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := m.Forward(context.Background(), all)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		in, err := architectures.TokenInputs(row)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := m.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		steps, n := whole.Get("logits").Shape()[1], alone.Get("logits").Shape()[1]
		got := whole.Get("logits").Float32s()[i*steps*13:][:n*13]
		if !slices.Equal(got, alone.Get("logits").Float32s()) {
			t.Errorf("sequence %d: other logits in a batch", i)
		}
	}
}
