package finitepass_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// checkpoint is a model as a list of tensors.
type checkpoint struct {
	t       testing.TB
	params  []loader.Param
	weights weights
}

func newCheckpoint(t testing.TB) *checkpoint { return &checkpoint{t: t, weights: weights{}} }

func (c *checkpoint) add(name string, x *tensor.Tensor) {
	c.params = append(c.params, loader.Param{Name: name, Shape: x.Shape(), DTypes: []tensor.DType{x.DType()}})
	c.weights[name] = x
}

func (c *checkpoint) share() (*finitepass.Sharing, *finitepass.ShareReport) {
	c.t.Helper()
	s, r, err := finitepass.ShareTensors(context.Background(), c.params, c.weights)
	if err != nil {
		c.t.Fatal(err)
	}
	return s, r
}

// HyenaDNA keeps the untrained buffers z [1, L, 5] and t [1, L, 1] of its position
// embedding in each of 8 layers. The proportions are those of the model for
// 1,000,002 positions, a hundredth of its size: 168 of 218 MB.
func TestSharedHyenaBuffers(t *testing.T) {
	const length = 10_000
	c := newCheckpoint(t)
	r := rand.New(rand.NewPCG(1, 1))
	z := randomTensor(t, r, 1, 1, length, 5)
	x := randomTensor(t, r, 1, 1, length, 1)
	for i := range 8 {
		at := fmt.Sprintf("layers.%d.", i)
		c.add(at+"pos_emb.z", z.Clone())
		c.add(at+"pos_emb.t", x.Clone())
		c.add(at+"weights", randomTensor(t, r, 1, 65_500/8))
	}
	sharing, report := c.share()
	if saved := int64(7 * 6 * length * 4); report.Account.BytesSaved != saved || !report.Saves() {
		t.Errorf("%+v, expected %d bytes", report, saved)
	}
	if share := float64(report.Account.BytesSaved) / float64(report.Account.Before.ResidentBytes); share < 0.769 || share > 0.771 {
		t.Errorf("saves %.3f of the file", share)
	}
	if report.Shared != 14 || report.Account.After.LogicalBytes != report.Account.Before.LogicalBytes {
		t.Errorf("%+v", report)
	}
	view, err := sharing.Apply(c.params, c.weights)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := view.Tensor("layers.0.pos_emb.z")
	for _, p := range c.params {
		have, err := view.Tensor(p.Name)
		if err != nil || !tensor.BitEqual(have, c.weights[p.Name]) {
			t.Errorf("%s: %v", p.Name, err)
		}
		if strings.HasSuffix(p.Name, ".z") && have != first {
			t.Errorf("%s has storage of its own", p.Name)
		}
	}
	inv, err := finitepass.NewInventory(c.params, view)
	if err != nil || inv.Total() != report.Account.After {
		t.Errorf("%+v, %v", inv.Total(), err)
	}
}

// GPT-2 stores one causal mask in each of 12 layers. The mask is kept as a
// tensor, once.
func TestSharedMasks(t *testing.T) {
	c := newCheckpoint(t)
	const n = 64
	for i := range 12 {
		mask, err := tensor.New(tensor.F32, 1, 1, n, n)
		if err != nil {
			t.Fatal(err)
		}
		for row := range n {
			for col := range row + 1 {
				mask.Float32s()[row*n+col] = 1
			}
		}
		c.add(fmt.Sprintf("h.%02d.attn.bias", i), mask)
		c.add(fmt.Sprintf("h.%02d.attn.c_attn.weight", i), randomTensor(t, rand.New(rand.NewPCG(9, uint64(i))), 1, 32, 32))
	}
	sharing, report := c.share()
	if report.Account.BytesSaved != 11*n*n*4 || len(sharing.Groups) != 1 || sharing.Groups[0].Tensor != "h.00.attn.bias" {
		t.Errorf("%+v, %+v", report, sharing)
	}
}

// SH-2, SH-3, SH-6, SH-8: what is not the same is not shared, what is shared
// already saves nothing, and a sharing that does not fit is refused.
func TestSharingLimits(t *testing.T) {
	f32 := func(values ...float32) *tensor.Tensor {
		wide := make([]float32, 256)
		copy(wide, values)
		x, err := tensor.FromFloat32s(wide, 256)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	c := newCheckpoint(t)
	c.add("zero", f32(0))
	c.add("negative zero", f32(float32(math.Copysign(0, -1))))
	c.add("nan", f32(float32(math.NaN())))
	reshaped, err := f32(0).Reshape(16, 16)
	if err != nil {
		t.Fatal(err)
	}
	c.add("other shape", reshaped)
	bits, err := tensor.FromBytes(tensor.I32, tensor.Shape{256}, f32(0).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	c.add("other type", bits)
	tied := f32(5)
	c.add("tied", tied)
	c.add("tied too", tied)
	if s, r := c.share(); s != nil || r.Shared != 0 || r.AlreadyShared != 1 || r.Account.BytesSaved != 0 {
		t.Errorf("%+v, %+v", s, r)
	}
	// NaNs with the same payload are the same bytes, and so is another −0.
	c.add("nan too", f32(float32(math.NaN())))
	c.add("negative zero too", f32(float32(math.Copysign(0, -1))))
	c.add("tied three", f32(5))
	s, r := c.share()
	if r.Shared != 3 || r.Account.BytesSaved != 3*1024 {
		t.Fatalf("%+v", r)
	}
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := finitepass.ParseSharing(text)
	if err != nil || len(back.Groups) != 3 {
		t.Fatalf("%v", err)
	}
	for name, change := range map[string][2]string{
		"kind":       {`"shared_tensors"`, `"shared"`},
		"version":    {`"version":1`, `"version":2`},
		"no names":   {`["nan too"]`, `[]`},
		"itself":     {`["nan too"]`, `["nan"]`},
		"two groups": {`["nan too"]`, `["negative zero"]`},
		"order":      {`"tensor":"nan"`, `"tensor":"zz"`},
		"digest":     {`"sha256":"`, `"sha256":"0`},
		"key":        {`"names"`, `"Names"`},
		"empty name": {`["nan too"]`, `[""]`},
	} {
		damaged := strings.Replace(string(text), change[0], change[1], 1)
		if damaged == string(text) {
			t.Errorf("%s: nothing changed", name)
		}
		if _, err := finitepass.ParseSharing([]byte(damaged)); !errors.Is(err, finitepass.ErrRecipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Reload: other bytes, other shapes and unknown names.
	c.weights["nan"].Float32s()[9] = 1
	if _, err := back.Apply(c.params, c.weights); !errors.Is(err, finitepass.ErrRecipe) {
		t.Errorf("changed bytes: %v", err)
	}
	c.weights["nan"].Float32s()[9] = 0
	if _, err := back.Apply(c.params, c.weights); err != nil {
		t.Error(err)
	}
	if _, err := back.Apply(c.params[:7], c.weights); !errors.Is(err, finitepass.ErrRecipe) {
		t.Errorf("unknown name: %v", err)
	}
	c.params[7].Shape = tensor.Shape{255}
	if _, err := back.Apply(c.params, c.weights); !errors.Is(err, finitepass.ErrRecipe) {
		t.Errorf("another shape: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.params[7].Shape = tensor.Shape{256}
	if _, _, err := finitepass.ShareTensors(ctx, c.params, c.weights); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
