package finitepass_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// exampleWeights is a small checkpoint: every value is a simple function of its
// place and of the tensor's last letter.
type exampleWeights map[string]*tensor.Tensor

func (w exampleWeights) Tensor(name string) (*tensor.Tensor, error) {
	if t, ok := w[name]; ok {
		return t, nil
	}
	return nil, fmt.Errorf("no tensor %q", name)
}

func (w exampleWeights) add(name string, shape ...int) exampleWeights {
	t, err := tensor.New(tensor.F32, shape...)
	if err != nil {
		log.Fatal(err)
	}
	seed := int(name[len(name)-1])
	for i := range t.Float32s() {
		t.Float32s()[i] = float32((i+seed)%17)/16 - 0.5
	}
	w[name] = t
	return w
}

func (w exampleWeights) inventory() *finitepass.Inventory {
	inv, err := finitepass.NewInventory(w.params(), w)
	if err != nil {
		log.Fatal(err)
	}
	return inv
}

func (w exampleWeights) params() (out []loader.Param) {
	for name, t := range w {
		out = append(out, loader.Param{Name: name, Shape: t.Shape(), DTypes: []tensor.DType{t.DType()}})
	}
	return out
}

// must keeps the examples short.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// The first layer of a small model: norm, then two projections that read nothing
// but the embedding of one token. Two tables of 8 rows take their place.
func ExampleCompileFanout() {
	dev := must(nn.OpenCPU(nn.CPUOptions{}))
	defer dev.Close()
	w := exampleWeights{}.add("embed", 8, 64).add("norm", 64).add("q", 64, 64).add("k", 64, 64)
	rows := must(nn.TensorRows(w["embed"]))
	source := &nn.Fanout{
		Embedding: must(dev.UploadRows(rows)), EmbeddingSource: rows, EmbeddingName: "embed", Residual: "residual",
		Prefix: []nn.RowLocal{must(nn.NewRMSNorm(dev, w.Tensor, "norm", 1e-6))},
		Branches: []nn.Branch{
			{Name: "q", Layers: []nn.RowLocal{must(nn.NewLinear(dev, w.Tensor, "q", ""))}},
			{Name: "k", Layers: []nn.RowLocal{must(nn.NewLinear(dev, w.Tensor, "k", ""))}},
		},
	}
	spec := architectures.BlockSpec{
		Path: "layers.0", Contract: architectures.TokenIndicesOnly, NumTokens: 8, EmbeddingWidth: 64,
		Embedding: "embed", Removes: []string{"norm", "q", "k"},
		Outputs: []nn.Output{{Name: "q", Width: 64, DType: tensor.F32}, {Name: "k", Width: 64, DType: tensor.F32}},
	}
	lookup, report, err := finitepass.CompileFanout(context.Background(), dev, spec, source, finitepass.Options{
		Contract: architectures.TokenIndicesOnly, Inventory: w.inventory(), RequireBitwise: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Status, "bitwise:", report.Comparison.Bitwise)
	fmt.Println("bytes:", report.Account.Before.ResidentBytes, "→", report.Account.After.ResidentBytes)
	for _, o := range lookup.Outputs() {
		fmt.Println(o.Name, o.Width)
	}
	// Output:
	// compiled bitwise: true
	// bytes: 35072 → 6144
	// q 64
	// k 64
	// residual 64
}

// The time embedding and modulations of a diffusion transformer are functions of
// the timestep. Four are declared; the model rounds them to BF16.
func ExampleCompileFanout_timesteps() {
	dev := must(nn.OpenCPU(nn.CPUOptions{}))
	defer dev.Close()
	domain := must(nn.NewTimesteps(nn.Cast{DType: tensor.BF16}, []float32{0, 0.25, 0.5, 0.75}))
	rows := must(nn.Sinusoid{Freqs: must(nn.DiffusionFrequencies(16, 10000, 0)), Scale: 1000}.Rows(domain.Values()))
	w := exampleWeights{}.add("mlp", 32, 16).add("blocks.0", 192, 32).add("blocks.1", 192, 32)
	source := &nn.Fanout{
		Embedding: must(dev.UploadRows(rows)), EmbeddingSource: rows, Over: domain,
		Prefix: []nn.RowLocal{must(nn.NewLinear(dev, w.Tensor, "mlp", "")), nn.Activation{Function: nn.SiLU}},
		Branches: []nn.Branch{
			{Name: "blocks.0", Layers: []nn.RowLocal{must(nn.NewLinear(dev, w.Tensor, "blocks.0", ""))}},
			{Name: "blocks.1", Layers: []nn.RowLocal{must(nn.NewLinear(dev, w.Tensor, "blocks.1", ""))}},
		},
	}
	spec := architectures.BlockSpec{
		Path: "modulation", Contract: architectures.DeclaredTimestepsOnly, Domain: domain, NumTokens: domain.Size,
		EmbeddingWidth: 16, Removes: []string{"mlp", "blocks.0", "blocks.1"}, Outputs: source.Outputs(),
	}
	lookup, report, err := finitepass.CompileFanout(context.Background(), dev, spec, source, finitepass.Options{
		Contract: architectures.DeclaredTimestepsOnly, Inventory: w.inventory(), RequireBitwise: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Status, report.Account.Before.ResidentBytes, "→", report.Account.After.ResidentBytes)
	fmt.Println(lookup.Domain().TimestepIndex(0.5))
	_, err = lookup.Domain().TimestepIndex(0.3)
	fmt.Println(err)
	// Output:
	// compiled 51200 → 6144
	// 2 <nil>
	// index out of range: timestep 0.30078125 (key 0x3e9a as BF16) is not declared; 4 are, from 0 to 0.75
}

// Buffers that every layer keeps a copy of are stored once.
func ExampleShareTensors() {
	w := exampleWeights{}.add("layers.0.mask", 64, 64).add("layers.1.mask", 64, 64).add("layers.2.mask", 64, 64).add("head", 8, 64)
	sharing, report, err := finitepass.ShareTensors(context.Background(), w.params(), w)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("saved:", report.Account.BytesSaved)
	view := must(sharing.Apply(w.params(), w))
	fmt.Println("one tensor:", must(view.Tensor("layers.0.mask")) == must(view.Tensor("layers.2.mask")))
	// Output:
	// saved: 32768
	// one tensor: true
}

// A table whose last rows are padding keeps them once.
func ExampleStoreEqualRows() {
	embedding := exampleWeights{}.add("embed", 1000, 16)["embed"]
	clear(embedding.Bytes()[10*64:]) // rows 10 and up are zero
	rows, report, err := finitepass.StoreEqualRows("embed", embedding)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Distinct, "rows,", report.FullBytes, "→", report.StoredBytes, "bytes")
	fmt.Println("equal:", rows.Verify(embedding) == nil)
	// Output:
	// 11 rows, 64000 → 1704 bytes
	// equal: true
}

// An embedding that is kept compressed: blocks of rows are decoded when a row of
// theirs is read. [floatCodec] of these tests wraps pack/floatcodec.
func ExamplePackRows() {
	embedding := exampleWeights{}.add("embed", 256, 512)["embed"]
	packed, report, err := finitepass.PackRows(context.Background(), "embed", must(nn.TensorRows(embedding)), floatCodec{}, finitepass.PackOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("smaller:", report.Saves(), "equal:", packed.Verify(embedding) == nil)
	// A model built from these weights gathers from the packed rows.
	weights := finitepass.WithRows(exampleWeights{}, map[string]nn.RowSource{"embed": packed})
	rows := must(architectures.Rows(weights, "embed"))
	fmt.Println(rows.NumRows(), rows.Width())
	// Output:
	// smaller: true equal: true
	// 256 512
}

// A learned class token is evaluated as it is inside a batch of 2 × 11 rows, and
// kept for the next call of that shape.
func ExampleConstantRows() {
	dev := must(nn.OpenCPU(nn.CPUOptions{Mode: nn.ModeSplitK}))
	defer dev.Close()
	w := exampleWeights{}.add("encoder", 32, 16).add("class", 16)
	c := must(finitepass.NewConstantRows(dev, []nn.RowLocal{must(nn.NewLinear(dev, w.Tensor, "encoder", ""))}, finitepass.ConstantRowsOptions{}))
	for range 2 {
		rows := must(c.Rows(context.Background(), tensor.Shape{2, 11, 16}, []finitepass.Assignment{
			{Row: 0, Value: w["class"]}, {Row: 11, Value: w["class"]},
		}))
		fmt.Println(rows.Shape())
	}
	fmt.Println(c.Stats().Hits, "hit,", c.Stats().Misses, "miss")
	// Output:
	// [2,32]
	// [2,32]
	// 1 hit, 1 miss
}

// An embedding that is projected as it is and L2-normalised: one table and one
// norm per token serve both.
func ExampleOptions_projected() {
	dev := must(nn.OpenCPU(nn.CPUOptions{}))
	defer dev.Close()
	w := exampleWeights{}.add("embed", 40, 256).add("w", 16, 256).add("b", 16)
	rows := must(nn.TensorRows(w["embed"]))
	linear := must(nn.NewLinear(dev, w.Tensor, "w", "b"))
	source := &nn.Fanout{
		Embedding: must(dev.UploadRows(rows)), EmbeddingSource: rows, EmbeddingName: "embed",
		Branches: []nn.Branch{
			{Name: "raw", Layers: []nn.RowLocal{linear}},
			{Name: "normalised", Layers: []nn.RowLocal{nn.RowNormalize{Eps: 1e-12}, linear}},
		},
	}
	spec := architectures.BlockSpec{
		Path: "encoder", Contract: architectures.TokenIndicesOnly, NumTokens: 40, EmbeddingWidth: 256,
		Embedding: "embed", Removes: []string{"embed", "w", "b"}, Outputs: source.Outputs(),
	}
	_, report, err := finitepass.CompileFanout(context.Background(), dev, spec, source, finitepass.Options{
		Contract: architectures.TokenIndicesOnly, Inventory: w.inventory(), Projected: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Status, "values:", report.Account.After.Values, "= 40·(16 + 1) + 16")
	// Output:
	// compiled values: 696 = 40·(16 + 1) + 16
}

// A file has rows for 100 ids and callers use 4 of them. Nothing but the block
// reads the embedding, so the rows of these ids take its place, too.
func ExampleOptions_reachableIDs() {
	dev := must(nn.OpenCPU(nn.CPUOptions{}))
	defer dev.Close()
	w := exampleWeights{}.add("embed", 100, 64).add("q", 64, 64)
	rows := must(nn.TensorRows(w["embed"]))
	source := &nn.Fanout{
		Embedding: must(dev.UploadRows(rows)), EmbeddingSource: rows, EmbeddingName: "embed", Residual: "residual",
		Branches: []nn.Branch{{Name: "q", Layers: []nn.RowLocal{must(nn.NewLinear(dev, w.Tensor, "q", ""))}}},
	}
	spec := architectures.BlockSpec{
		Path: "layers.0", Contract: architectures.TokenIndicesOnly, NumTokens: 100, EmbeddingWidth: 64,
		Embedding: "embed", OwnsEmbedding: true, Removes: []string{"q"},
		Outputs: []nn.Output{{Name: "q", Width: 64, DType: tensor.F32}},
	}
	lookup, report, err := finitepass.CompileFanout(context.Background(), dev, spec, source, finitepass.Options{
		Contract: architectures.TokenIndicesOnly, Contracts: []string{architectures.ReachableIDsOnly},
		ReachableIDs: []int{3, 4, 5, 30}, Inventory: w.inventory(), RequireBitwise: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Status, report.Account.Before.ResidentBytes, "→", report.Account.After.ResidentBytes)
	s := dev.Begin(context.Background())
	lookup.Forward(s, []int{30, 6})
	fmt.Println(s.Close())
	// Output:
	// compiled 41984 → 2048
	// block: index out of range: token id 6 is not declared; 4 are, from 3 to 30
}
