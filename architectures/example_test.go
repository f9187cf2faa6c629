package architectures_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// bigram is a family of one's own: it predicts the next token from the last one,
// logits = head·embedding[id].
type bigram struct{}

func (bigram) Name() string { return "bigram" }

func (bigram) Matches(cfg architectures.Config) bool { return cfg.ModelType == "bigram" }

func (bigram) New(cfg architectures.Config) (architectures.Blueprint, error) {
	var b bigramBlueprint
	if err := json.Unmarshal(cfg.Raw, &b); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	// Sizes decide allocations, so they are bounded first.
	for name, n := range map[string]int{"vocab_size": b.Vocabulary, "width": b.Width} {
		if n < 1 || n > 1<<20 {
			return nil, fmt.Errorf("config.json: %s: expected an integer from 1 to %d, found %d", name, 1<<20, n)
		}
	}
	return &b, nil
}

// bigramBlueprint is a bigram model without weights.
type bigramBlueprint struct {
	Vocabulary int `json:"vocab_size"`
	Width      int `json:"width"`
}

func (b *bigramBlueprint) Params() []loader.Param {
	f32 := []tensor.DType{tensor.F32}
	return []loader.Param{
		{Name: "embedding.weight", Shape: tensor.Shape{b.Vocabulary, b.Width}, DTypes: f32},
		{Name: "head.weight", Shape: tensor.Shape{b.Vocabulary, b.Width}, DTypes: f32},
	}
}

func (b *bigramBlueprint) Blocks() []architectures.BlockSpec {
	return []architectures.BlockSpec{{
		Path:           "logits",
		Contract:       architectures.TokenIndicesOnly,
		NumTokens:      b.Vocabulary,
		EmbeddingWidth: b.Width,
		Embedding:      "embedding.weight",
		Removes:        []string{"head.weight"},
		Outputs:        b.outputs(),
	}}
}

func (b *bigramBlueprint) outputs() []nn.Output {
	return []nn.Output{{Name: "logits", Width: b.Vocabulary, DType: tensor.F32}}
}

func (b *bigramBlueprint) Inputs() architectures.InputSpec {
	return architectures.InputSpec{Vocabulary: b.Vocabulary}
}

func (b *bigramBlueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	m := &bigramModel{blueprint: b, dev: dev}
	if block, given := blocks["logits"]; given {
		return m.WithBlock("logits", block) // and the head is never read
	}
	embedding, err := weights.Tensor("embedding.weight")
	if err != nil {
		return nil, err
	}
	rows, err := nn.TensorRows(embedding)
	if err != nil {
		return nil, err
	}
	table, err := dev.UploadRows(rows)
	if err != nil {
		return nil, err
	}
	weight, err := weights.Tensor("head.weight")
	if err != nil {
		return nil, err
	}
	head, err := dev.Upload(weight, nn.AsMatrix)
	if err != nil {
		return nil, err
	}
	return m.WithBlock("logits", &nn.Fanout{
		Embedding:       table,
		EmbeddingSource: rows,
		EmbeddingName:   "embedding.weight",
		Branches: []nn.Branch{{
			Name:   "logits",
			Layers: []nn.RowLocal{&nn.Linear{Weight: head, WeightName: "head.weight"}},
		}},
	})
}

// bigramModel is a bigram model on a device. It is never changed after it was
// made.
type bigramModel struct {
	blueprint *bigramBlueprint
	dev       nn.Device
	logits    nn.TokenBlock
}

func (m *bigramModel) Device() nn.Device { return m.dev }

func (m *bigramModel) Block(path string) (nn.TokenBlock, error) {
	if path != "logits" {
		return nil, fmt.Errorf("no block %q", path)
	}
	return m.logits, nil
}

func (m *bigramModel) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	if path != "logits" {
		return nil, fmt.Errorf("no block %q", path)
	}
	if block.NumTokens() != m.blueprint.Vocabulary || !slices.Equal(block.Outputs(), m.blueprint.outputs()) {
		return nil, fmt.Errorf("the block at %q has other outputs than declared", path)
	}
	view := *m
	view.logits = block
	return &view, nil
}

func (m *bigramModel) Forward(ctx context.Context, in architectures.Inputs) (architectures.Outputs, error) {
	for name := range in.Tensors {
		if name != "input_ids" {
			return nil, fmt.Errorf("unknown input %q", name)
		}
	}
	for name := range in.Flags {
		// Asked of every model; this one has neither hidden states nor attentions.
		if name != "output_hidden_states" && name != "output_attentions" {
			return nil, fmt.Errorf("unknown flag %q", name)
		}
	}
	t := in.Tensors["input_ids"]
	if t == nil || t.DType() != tensor.I64 || len(t.Shape()) != 2 {
		return nil, fmt.Errorf("input_ids: expected I64[batch,length], found %v", t)
	}
	ids := make([]int, t.Len())
	for i, id := range t.Int64s() {
		ids[i] = int(id) // the device refuses ids outside the table
	}

	s := m.dev.Begin(ctx)
	out := m.logits.Forward(s, ids)
	if s.Err() != nil {
		return nil, s.Close()
	}
	logits := s.ToHost(out[0])
	if err := s.Close(); err != nil {
		return nil, err
	}
	logits, err := logits.Reshape(t.Shape()[0], t.Shape()[1], m.blueprint.Vocabulary)
	if err != nil {
		return nil, err
	}
	return architectures.Outputs{{Name: "logits", Tensor: logits}}, nil
}

// hostWeights is a checkpoint in memory.
type hostWeights map[string]*tensor.Tensor

func (w hostWeights) Tensor(name string) (*tensor.Tensor, error) {
	if t := w[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("no tensor %q", name)
}

// A program registers a family of its own and then finds it by configuration,
// like any other.
func Example_register() {
	architectures.Register(bigram{})

	cfg, err := architectures.ParseConfig([]byte(`{"model_type": "bigram", "vocab_size": 3, "width": 2}`))
	check(err)
	family, err := architectures.ForConfig(cfg)
	check(err)
	blueprint, err := family.New(cfg)
	check(err)

	embedding, err := tensor.FromFloat32s([]float32{1, 0, 0, 1, 1, 1}, 3, 2)
	check(err)
	head, err := tensor.FromFloat32s([]float32{2, 3, 5, 7, 11, 13}, 3, 2)
	check(err)
	dev, err := nn.OpenCPU(nn.CPUOptions{})
	check(err)
	defer dev.Close()
	model, err := blueprint.Build(dev, hostWeights{"embedding.weight": embedding, "head.weight": head}, nil)
	check(err)

	in, err := architectures.TokenInputs([]int{0, 1, 2})
	check(err)
	out, err := model.Forward(context.Background(), in)
	check(err)
	fmt.Println(family.Name(), out.Get("logits"), out.Get("logits").Float32s())
	// Output: bigram F32[1,3,3] [2 5 11 3 7 13 5 12 24]
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
