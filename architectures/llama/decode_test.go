package llama_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/llama"
	"github.com/hfcompress/compress/tensor"
	"pgregory.net/rapid"
)

// TestCacheIsExact: logits from a cache, however the sequence is cut into
// steps, have the bits of one pass over the whole.
func TestCacheIsExact(t *testing.T) {
	dev := openCPU(t)
	for _, name := range []string{"gqa", "llama3_rope"} {
		m := build(t, dev, name, nil)
		vocabulary := m.Config().VocabSize
		rapid.Check(t, func(t *rapid.T) {
			batch, length := rapid.IntRange(1, 3).Draw(t, "batch"), rapid.IntRange(1, 10).Draw(t, "length")
			token := rapid.IntRange(0, vocabulary-1)
			var flat, mask, at []int64
			for range batch {
				pad := rapid.IntRange(0, length-1).Draw(t, "pad")
				for i := range length {
					flat = append(flat, int64(token.Draw(t, "id")))
					if i < pad {
						mask, at = append(mask, 0), append(at, 0)
					} else {
						mask, at = append(mask, 1), append(at, int64(i-pad))
					}
				}
			}
			cut := func(from, to int) architectures.Inputs {
				in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}, Flags: map[string]bool{"output_hidden_states": true}}
				for name, all := range map[string][]int64{"input_ids": flat, "attention_mask": mask, "position_ids": at} {
					var part []int64
					for b := range batch {
						part = append(part, all[b*length+from:b*length+to]...)
					}
					x, err := tensor.FromInt64s(part, batch, to-from)
					if err != nil {
						t.Fatal(err)
					}
					in.Tensors[name] = x
				}
				return in
			}
			whole, err := m.Forward(context.Background(), cut(0, length))
			if err != nil {
				t.Fatal(err)
			}
			d, err := m.NewDecoder(batch, length)
			if err != nil {
				t.Fatal(err)
			}
			for from := 0; from < length; {
				to := rapid.IntRange(from+1, length).Draw(t, "to")
				if rapid.Bool().Draw(t, "retry") { // a step that is taken back leaves no trace
					if _, err := d.Step(context.Background(), cut(from, to)); err != nil {
						t.Fatal(err)
					}
					d.Truncate(from)
				}
				got, err := d.Step(context.Background(), cut(from, to))
				if err != nil {
					t.Fatal(err)
				}
				if d.Len() != to {
					t.Fatalf("%d positions held, want %d", d.Len(), to)
				}
				for i := range got {
					width := got[i].Tensor.Shape()[2]
					for b := range batch {
						for p := from; p < to; p++ {
							if mask[b*length+p] == 0 {
								continue // it attends to all keys, of which there are fewer
							}
							g := got[i].Tensor.Uint32s()[(b*(to-from)+p-from)*width:][:width]
							w := whole[i].Tensor.Uint32s()[(b*length+p)*width:][:width]
							if !slices.Equal(g, w) {
								t.Fatalf("%s of sequence %d at %d differs", got[i].Name, b, p)
							}
						}
					}
				}
				from = to
			}
		})
	}
}

func TestDecoderRefusals(t *testing.T) {
	m := build(t, openCPU(t), "mha", nil)
	for _, c := range [][2]int{{0, 4}, {-1, 4}, {1, 0}, {1, -3}, {1 << 30, 1}, {1, 1 << 30}, {1 << 20, 1 << 24}} {
		if _, err := m.NewDecoder(c[0], c[1]); !errors.Is(err, llama.ErrInput) {
			t.Errorf("NewDecoder(%d, %d): %v", c[0], c[1], err)
		}
	}
	d, err := m.NewDecoder(2, 4)
	if err != nil {
		t.Fatal(err)
	}
	step := func(rows ...[]int) error {
		_, err := d.Step(context.Background(), architectures.Inputs{Tensors: map[string]*tensor.Tensor{"input_ids": ids(t, rows...)}})
		return err
	}
	if err := step([]int{1, 2, 3}, []int{4, 5, 6}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"other batch": {step([]int{1}), "expected 2 sequences, found 1"},
		"too long":    {step([]int{1, 2}, []int{1, 2}), "2 positions, but the cache has room for 1 of 4"},
		"bad id":      {step([]int{1}, []int{99}), "id 99"},
	} {
		if !errors.Is(c.err, llama.ErrInput) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
		if d.Len() != 3 {
			t.Fatalf("%s: %d positions held after a refused step", name, d.Len())
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := d.Step(cancelled, architectures.Inputs{Tensors: map[string]*tensor.Tensor{"input_ids": ids(t, []int{1}, []int{2})}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := step([]int{1}, []int{2}); err != nil || d.Len() != 4 {
		t.Errorf("after a cancelled step: %d positions, %v", d.Len(), err)
	}
}

func TestGenerate(t *testing.T) {
	m := build(t, openCPU(t), "gqa", nil)
	prompts := [][]int{{1, 2, 3, 4, 5}, {6}, {7, 8, 9}}
	together, err := m.Generate(context.Background(), prompts, 8)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range prompts {
		alone, err := m.Generate(context.Background(), [][]int{p}, 8)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(alone[0], together[i]) {
			t.Errorf("prompt %d: %v alone, %v in the batch", i, alone[0], together[i])
		}
		// And without a cache.
		want := slices.Clone(p)
		for len(want) < len(p)+8 {
			in, err := architectures.TokenInputs(want)
			if err != nil {
				t.Fatal(err)
			}
			logits := forward(t, m, in).Get("logits").Float32s()
			next := first(logits[len(logits)-m.Config().VocabSize:])
			if want = append(want, next); slices.Contains(m.Config().EndTokens, next) {
				break
			}
		}
		if !slices.Equal(want, together[i]) {
			t.Errorf("prompt %d: %v without a cache, %v with one", i, want, together[i])
		}
	}
	if out, err := m.Generate(context.Background(), prompts, 0); err != nil || !slices.EqualFunc(out, prompts, slices.Equal) {
		t.Errorf("nothing new: %v, %v", out, err)
	}
	for name, c := range map[string]struct {
		prompts [][]int
		n       int
		want    string
	}{
		"no prompts":   {nil, 4, "no prompts"},
		"empty prompt": {[][]int{{1}, {}}, 4, "prompt 1 is empty"},
		"bad id":       {[][]int{{1}, {2, 23}}, 4, "id 23"},
		"bad id, 0":    {[][]int{{-2}}, 0, "id -2"},
		"negative":     {[][]int{{1}}, -1, "-1 new tokens"},
		"absurd":       {[][]int{{1}}, math.MaxInt, "new tokens"},
	} {
		if _, err := m.Generate(context.Background(), c.prompts, c.n); !errors.Is(err, llama.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNaNIsAnError: weights with NaN must not decode to some id in silence.
func TestNaNIsAnError(t *testing.T) {
	dev := openCPU(t)
	w := readTensors(t, filepath.Join(goldenDir, "mha", "model.safetensors"))
	head := w["lm_head.weight"].Clone()
	head.Float32s()[5*32] = float32(math.NaN())
	w["lm_head.weight"] = head
	m, err := blueprint(t, "mha").Build(dev, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.(architectures.Generator).Generate(context.Background(), [][]int{{1, 2}}, 3)
	if err == nil || !strings.Contains(err.Error(), "logit 5 is NaN") {
		t.Errorf("error %v", err)
	}
}
