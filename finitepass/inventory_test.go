package finitepass_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// FR-4: logical bytes count every name, resident bytes every storage once.
func TestInventory(t *testing.T) {
	zero := func(dims ...int) *tensor.Tensor {
		x, err := tensor.New(tensor.F32, dims...)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	big := zero(100)
	part := func(from, to int) *tensor.Tensor {
		x, err := tensor.FromBytes(tensor.F32, tensor.Shape{to - from}, big.Bytes()[4*from:4*to])
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	w := weights{"a": zero(10), "b": zero(3), "whole": big, "low": part(0, 10), "high": part(50, 60), "empty": zero(0)}
	w["a again"] = w["a"]
	var params []loader.Param
	for _, name := range []string{"a", "a again", "b", "whole", "low", "high", "empty"} {
		params = append(params, loader.Param{Name: name, Shape: w[name].Shape(), DTypes: []tensor.DType{tensor.F32}})
	}
	params = append(params, loader.Param{Name: "mask", Ignored: true})
	inv, err := finitepass.NewInventory(params, w)
	if err != nil {
		t.Fatal(err)
	}
	// Overlapping views are counted each: they cannot be removed, so no saving can
	// be claimed from them.
	if got := inv.Total(); got != (finitepass.Amount{Values: 133, LogicalBytes: 4 * 143, ResidentBytes: 4 * 133}) {
		t.Errorf("total %+v", got)
	}
	for _, c := range []struct {
		names   []string
		outside string
	}{
		{[]string{"a"}, "a again"},
		{[]string{"a", "a again"}, ""},
		{[]string{"b"}, ""},
		{[]string{"low"}, "whole"},
		{[]string{"low", "whole"}, "high"},
		{[]string{"low", "high", "whole"}, ""},
		{[]string{"empty"}, ""},
	} {
		if in, out := inv.Consumer(c.names); out != c.outside || (in == "") != (out == "") {
			t.Errorf("%v: %q shares with %q, expected %q", c.names, in, out, c.outside)
		}
	}
	for _, names := range [][]string{{"mask"}, {"absent"}, {"a", "a"}} {
		if _, err := inv.Of(names); !errors.Is(err, finitepass.ErrBlock) {
			t.Errorf("%v: %v", names, err)
		}
	}
}

// A checkpoint is counted by its headers, ties included.
func TestStoredInventory(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, base())
	var entries []loader.Entry
	for _, p := range f.params {
		entries = append(entries, loader.Entry{Name: p.Name, Tensor: f.weights[p.Name]})
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := loader.WriteFile(path, entries, loader.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	params := append(slices.Clone(f.params), loader.Param{
		Name: "head", Shape: tensor.Shape{7, 24}, DTypes: []tensor.DType{tensor.F32}, TiedTo: "embed",
	})
	c, err := loader.Open(path, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := loader.Strict(c, params, loader.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := finitepass.NewInventory(params, w)
	if err != nil {
		t.Fatal(err)
	}
	f.weights["head"] = f.weights["embed"]
	held, err := finitepass.NewInventory(params, f.weights)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := stored.Total(), held.Total(); a != b || a.LogicalBytes != a.ResidentBytes+4*7*24 {
		t.Errorf("stored %+v, held %+v", a, b)
	}
	if in, out := stored.Consumer([]string{"embed"}); in != "embed" || out != "head" {
		t.Errorf("%q shares with %q", in, out)
	}
	if _, err := finitepass.NewInventory(append(params, loader.Param{Name: "absent"}), w); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("%v", err)
	}
	o := f.options(t)
	o.Inventory = stored
	if _, r := mustCompile(t, f, o); r.Account.ValuesSaved != 24+3*24*24-7*72 {
		t.Errorf("%+v", r.Account)
	}
}
