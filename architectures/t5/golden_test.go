package t5_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/t5"
)

// goldenDir holds outputs of transformers: see testdata/gen/README.md.
const goldenDir = "testdata/golden"

func modelDir(name string) string { return filepath.Join(goldenDir, name) }

func TestGoldenForward(t *testing.T) {
	goldens.Forward(t, goldenDir, modelDir, 7, "logits")
	goldens.Forward(t, goldenDir, modelDir, 7, "last_hidden_state")
}

func TestGoldenGenerate(t *testing.T) {
	dev := goldens.OpenCPU(t)
	for _, name := range goldens.Cases(t, goldenDir, 7) {
		golden := goldens.Read(t, filepath.Join(modelDir(name), "golden.safetensors"))
		for _, run := range goldens.Runs(golden, ".output_ids") {
			changes := map[string]any{"eos_token_id": nil}
			var ends []int64
			if eos := golden[run+".eos_token_id"]; eos != nil {
				ends = eos.Int64s()
				changes["eos_token_id"] = ends
			}
			m := goldens.Build(t, dev, modelDir(name), changes).(*t5.Model)
			ids, mask, out := golden[run+".input_ids"], golden[run+".attention_mask"], golden[run+".output_ids"]
			width, total := ids.Shape()[1], out.Shape()[1]
			var inputs, want [][]int
			for b := range ids.Shape()[0] {
				var in, expect []int
				for i := b * width; i < (b+1)*width; i++ {
					if mask.Int64s()[i] == 1 {
						in = append(in, int(ids.Int64s()[i]))
					}
				}
				for _, id := range out.Int64s()[b*total+1 : (b+1)*total] { // behind the start token
					if expect = append(expect, int(id)); slices.Contains(ends, id) {
						break // what follows is padding
					}
				}
				inputs, want = append(inputs, in), append(want, expect)
			}
			got, err := m.GenerateFrom(context.Background(), inputs, total-1)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%s/%s: got %v, want %v", name, run, got, want)
			}
		}
	}
}
