package gru_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/gru"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// The golden files come from testdata/gen/make_gru_goldens.py.
const (
	trained = "testdata/g2p_en"
	small   = "testdata/small"
)

// tolerance is the largest accepted difference from the reference, relative to
// the largest absolute value of its tensor.
const tolerance = 1e-5

func open(tb testing.TB, path string) *loader.Checkpoint {
	tb.Helper()
	c, err := loader.Open(path, loader.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// blueprint reads dir's configuration with some fields changed.
func blueprint(tb testing.TB, dir string, replace ...string) (architectures.Blueprint, error) {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		tb.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			tb.Fatalf("%s has no %s", dir, replace[i])
		}
		text = strings.Replace(text, replace[i], replace[i+1], 1)
	}
	cfg, err := architectures.ParseConfig([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	family, err := architectures.ForConfig(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return family.New(cfg)
}

func build(tb testing.TB, dir string) *gru.Model {
	tb.Helper()
	dev, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { dev.Close() })
	b, err := blueprint(tb, dir)
	if err != nil {
		tb.Fatal(err)
	}
	weights, err := loader.Strict(open(tb, filepath.Join(dir, "model.safetensors")), b.Params(), loader.Policy{})
	if err != nil {
		tb.Fatal(err)
	}
	m, err := b.Build(dev, weights, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return m.(*gru.Model)
}

// golden returns the tensors of one run whose names start with "<run>.".
func golden(tb testing.TB, c *loader.Checkpoint, run string) map[string]*tensor.Tensor {
	tb.Helper()
	out := map[string]*tensor.Tensor{}
	for _, name := range c.Names() {
		short, ok := strings.CutPrefix(name, run+".")
		if !ok {
			continue
		}
		t, err := c.Tensor(name)
		if err != nil {
			tb.Fatal(err)
		}
		out[short] = t
	}
	return out
}

func TestGolden(t *testing.T) {
	worst, compared := 0.0, 0
	for _, dir := range []string{trained, small} {
		m := build(t, dir)
		c := open(t, filepath.Join(dir, "golden.safetensors"))
		for run := 0; ; run++ {
			want := golden(t, c, strconv.Itoa(run))
			if len(want) == 0 {
				break
			}
			in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}, Flags: map[string]bool{"output_hidden_states": true}}
			for _, name := range []string{"input_ids", "decoder_input_ids"} {
				if want[name] != nil {
					in.Tensors[name] = want[name]
					delete(want, name)
				}
			}
			out, err := m.Forward(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			if len(out) != len(want) {
				t.Fatalf("%s, run %d: %d outputs, the reference has %d", dir, run, len(out), len(want))
			}
			for _, o := range out {
				reference := want[o.Name]
				if reference == nil || !reference.Shape().Equal(o.Tensor.Shape()) || reference.DType() != o.Tensor.DType() {
					t.Fatalf("%s, run %d, %s: found %v, expected %v", dir, run, o.Name, o.Tensor, reference)
				}
				if o.Name == "sequences" {
					if !slices.Equal(o.Tensor.Int64s(), reference.Int64s()) {
						t.Errorf("%s, run %d: chose %v, the reference %v", dir, run, o.Tensor.Int64s(), reference.Int64s())
					}
					continue
				}
				d := difference(o.Tensor.Float32s(), reference.Float32s())
				if !(d <= tolerance) {
					t.Errorf("%s, run %d, %s: difference %.3g", dir, run, o.Name, d)
				}
				worst = max(worst, d)
				compared++
			}
		}
	}
	if compared != 4*3+3 {
		t.Errorf("%d tensors compared", compared)
	}
	t.Logf("%d tensors; worst difference %.3g of the output's scale", compared, worst)
}

// difference is the largest absolute difference relative to the largest value of
// want; a NaN anywhere makes it NaN.
func difference(got, want []float32) float64 {
	worst, scale := 0.0, 0.0
	for i, w := range want {
		d := math.Abs(float64(got[i]) - float64(w))
		if !(d <= worst) {
			worst = d
		}
		scale = max(scale, math.Abs(float64(w)))
	}
	return worst / scale
}

// TestPhonemes compares the choices for 10,000 words with those of the package
// that published the model. Words of one length run as a batch.
func TestPhonemes(t *testing.T) {
	m := build(t, trained)
	f, err := os.Open(filepath.Join(trained, "words.tsv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	type word struct {
		text string
		ids  []int
		want []int64
	}
	byLength := map[int][]word{}
	total := 0
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		text, phonemes, _ := strings.Cut(lines.Text(), "\t")
		w := word{text: text}
		for _, c := range text {
			w.ids = append(w.ids, int(c-'a')+3) // after <pad>, <unk> and </s>
		}
		w.ids = append(w.ids, 2)
		for _, p := range strings.Fields(phonemes) {
			id, err := strconv.ParseInt(p, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			w.want = append(w.want, id)
		}
		if total++; testing.Short() && total%10 != 0 {
			continue // all of them take 8 seconds of processor time
		}
		byLength[len(w.ids)] = append(byLength[len(w.ids)], w)
	}
	if err := lines.Err(); err != nil || total != 10000 {
		t.Fatalf("%d words, %v", total, err)
	}
	chosen := 0
	for _, words := range byLength {
		var rows [][]int
		for _, w := range words {
			rows = append(rows, w.ids)
		}
		in, err := architectures.TokenInputs(rows...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		got := out.Get("sequences")
		steps := got.Shape()[1]
		for i, w := range words {
			row := got.Int64s()[i*steps : (i+1)*steps]
			n := min(len(w.want), steps)
			if !slices.Equal(row[:n], w.want) || slices.ContainsFunc(row[n:], func(id int64) bool { return id != 0 }) {
				t.Errorf("%s: chose %v, the reference %v", w.text, row, w.want)
			}
			chosen += n
		}
	}
	t.Logf("%d words, %d phonemes and ends", total, chosen)
}
