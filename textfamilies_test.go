package compress_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/esm"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// synthetic writes a checkpoint of random values for the configuration of a golden
// case with changes put in.
func synthetic(t *testing.T, family, golden string, changes map[string]any) string {
	t.Helper()
	text := read(t, filepath.Join("architectures", family, "testdata", "golden", golden, "config.json"))
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	maps.Copy(fields, changes)
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := architectures.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := architectures.ForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := f.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(text))))
	var entries []loader.Entry
	for _, p := range plan.Params() {
		if p.Ignored || p.TiedTo != "" {
			continue
		}
		n, err := p.Shape.Elements()
		if err != nil {
			t.Fatal(err)
		}
		var data bytes.Buffer
		for range n {
			bits := math.Float32bits(float32(0.3 * rng.NormFloat64()))
			if p.DTypes[0] == tensor.BF16 {
				binary.Write(&data, binary.LittleEndian, uint16(bits>>16))
				continue
			}
			binary.Write(&data, binary.LittleEndian, bits)
		}
		entries = append(entries, loader.Entry{Name: p.Name, DType: p.DTypes[0], Shape: p.Shape, Data: &data})
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), text)
	var file bytes.Buffer
	if _, err := loader.Write(&file, entries, loader.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "model.safetensors"), file.Bytes())
	return dir
}

// TestTextFamilies takes a model of every text family through the road, once with
// fewer tokens than columns, where the values saved are those of the plan, and
// once with more, where the plan's arithmetic refuses; and families whose block is
// always refused.
func TestTextFamilies(t *testing.T) {
	type object = map[string]any
	wide := object{"vocab_size": 300}
	for _, c := range []struct {
		family, golden string
		changes        object
		saved          int64  // 0: refused
		reason         string // what the refusal must say
	}{
		// norm 32, q 32·32, k and v 16·32 each, biases where there are some, less 19 rows of 64.
		{"llama", "mistral", nil, 32 + 64*32 - 19*64, ""},
		{"llama", "qwen2", nil, 32 + 64*32 + 64 - 19*64, ""},
		{"llama", "qwen2_bf16", nil, 32 + 64*32 + 64 - 19*64, ""},
		{"llama", "qwen3", nil, 32 + 2*12 + 96*32 - 19*96, ""},
		{"llama", "qwen3", wide, 0, "even one table of 115,200 bytes is not smaller than the 12,512 bytes that it replaces"},
		// Two norms, the fused projection, the whole MLP.
		{"gpt_neox", "plain", nil, 4*24 + 73*24 - 24 + 24*3 + 2*40*24 + 40 + 24 - 19*96, ""},
		{"gpt_neox", "serial", nil, 2*24 + 72*24 + 72 - 19*72, ""},
		{"gpt_neox", "plain", wide, 0, "is not smaller than"},
		{"progen", "plain", nil, 2*32 + 96*32 + 2*128*32 + 128 + 32 - 19*128, ""},
		{"progen", "bf16", nil, 2*32 + 96*32 + 2*128*32 + 128 + 32 - 19*128, ""},
		{"progen", "plain", wide, 0, "is not smaller than"},
		{"esm", "plain", nil, 2*24 + 72*24 + 72 - 19*72, ""},
		{"esm", "plain", object{"vocab_size": 60, "mask_token_id": 59}, 0, "even one table of 17,280 bytes is not smaller than the 7,392 bytes that it replaces"},
		{"esm", "classifier", nil, 2*24 + 72*24 + 72 - 19*72, ""},
		{"hyenadna", "plain", nil, 2*24 + 72*24 + 72 - 16*72, ""},
		{"hyenadna", "third_order", object{"d_model": 24}, 2*24 + 96*24 + 96 - 16*96, ""},
		{"hyenadna", "base", object{"d_model": 32}, 2*32 + 96*32 + 96 - 16*96, ""},
		{"hyenadna", "plain", object{"vocab_size": 60}, 0, "even one table of 18,432 bytes is not smaller than the 7,392 bytes that it replaces"},
		{"t5", "plain", object{"d_model": 48}, 2 * (48 + 54*48 - 21*54), ""},
		{"t5", "bf16", object{"d_model": 48}, 2 * (48 + 54*48 - 21*54), ""},
		{"t5", "encoder", object{"d_model": 48}, 48 + 54*48 - 21*54, ""},
		{"t5", "plain", nil, 0, "is not smaller than"},
		{"gpt2", "plain", nil, 0, "positions are added to the token's row before the first projection, so the block is a function of " +
			"19 tokens × 24 positions = 456 combinations; a table of 72 columns for each takes 131,328 bytes, the tensors that it would replace take 7,392"},
		{"bert", "model", nil, 0, "token types and positions are added to the token's row before the first projection, so the block is a function of " +
			"19 tokens × 2 token types × 16 positions = 608 combinations; a table of 96 columns for each takes 233,472 bytes, the tensors that it would replace take 7,392"},
	} {
		name := c.family + "/" + c.golden
		if c.reason != "" {
			name += "/refused"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := synthetic(t, c.family, c.golden, c.changes)
			out := filepath.Join(t.TempDir(), "package")
			o := quick(compress.Options{Out: out, Require: compress.RequireBitwise})
			result, err := compress.Local(context.Background(), dir, o)
			if err != nil {
				t.Fatal(err)
			}
			defer result.Close()
			if c.saved == 0 {
				if result.Status != finitepass.NoReduction || !strings.Contains(result.Report.Blocks[0].Reason, c.reason) {
					t.Errorf("%s: %s; want a refusal with %q", result.Status, result.Report.Blocks[0].Reason, c.reason)
				}
				return
			}
			if result.Status != finitepass.Compressed || result.Report.Values.Saved() != c.saved {
				t.Fatalf("%s (%s): %d values saved, want %d", result.Status, result.Report.Reason, result.Report.Values.Saved(), c.saved)
			}
			planned := int64(0)
			for _, b := range result.Report.Blocks {
				planned += b.Plan.ValuesSaved
			}
			if planned != c.saved {
				t.Errorf("the plan saves %d values, want %d", planned, c.saved)
			}
			loaded, err := compress.Load(context.Background(), out, compress.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer loaded.Close()
			for _, e := range validation.Generate(loaded.Inputs(), validation.Options{MaxPositions: 100, MaxSingles: 4}) {
				same(t, e.Name, result.Model, loaded, e.Inputs)
			}
			if c.family == "esm" {
				refusesMask(t, loaded)
			}
		})
	}
}

// refusesMask: the table of an ESM model holds for batches without <mask> alone.
func refusesMask(t *testing.T, m architectures.Model) {
	t.Helper()
	in, err := architectures.TokenInputs([]int{3, 18, 4})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Forward(context.Background(), in)
	if !errors.Is(err, esm.ErrInput) || !strings.Contains(err.Error(), "the <mask> token 18 of sequence 0 at position 1") {
		t.Errorf("a batch with <mask>: %v", err)
	}
}

// TestReachableRows: a ProGen2 checkpoint stores far more rows than its tokenizer
// has ids. Listing those makes the block pay, and the other rows of the embedding
// go too.
func TestReachableRows(t *testing.T) {
	dir := synthetic(t, "progen", "plain", map[string]any{"vocab_size_emb": 300, "vocab_size_lm_head": 19})
	ids := make([]int, 19)
	for i := range ids {
		ids[i] = i
	}
	result, err := compress.Local(context.Background(), dir, quick(compress.Options{Require: compress.RequireBitwise, ReachableIDs: ids}))
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	want := int64(2*32 + 96*32 + 2*128*32 + 128 + 32 - 19*128 + (300-19)*32)
	if result.Status != finitepass.Compressed || result.Report.Values.Saved() != want {
		t.Fatalf("%s (%s): %d values saved, want %d", result.Status, result.Report.Reason, result.Report.Values.Saved(), want)
	}
	in, err := architectures.TokenInputs([]int{3, 200})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := result.Model.Forward(context.Background(), in); err == nil {
		t.Errorf("an id that was not listed: %v", out)
	}
}
