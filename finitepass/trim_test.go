package finitepass_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/tensor"
)

// The vocabulary of a file is wider than what callers reach, as with ProGen2's
// 51,200 rows for 32 letters: declared ids alone get rows, others are refused by
// name, and the embedding goes when nothing else reads it.
func TestReachableIDs(t *testing.T) {
	dev := openCPU(t, nn.ModeSplitK)
	build := func(owned bool) *fixture {
		m := newMaker(t, dev, 12, tensor.F32)
		rows := m.embedding("embed", 500, 64)
		f := m.finish(&nn.Fanout{
			Embedding: m.upload(rows), EmbeddingSource: rows, EmbeddingName: "embed", Residual: "residual",
			Prefix: []nn.RowLocal{m.layerNorm("norm", 64)},
			Branches: []nn.Branch{
				{Name: "q", Layers: []nn.RowLocal{m.linear("q", 64, 64, true)}},
				{Name: "k", Layers: []nn.RowLocal{m.linear("k", 64, 48, false)}},
			},
		})
		f.spec.OwnsEmbedding = owned
		return f
	}
	ids := []int{3, 4, 5, 30, 499, 3}
	for _, owned := range []bool{true, false} {
		f := build(owned)
		o := f.optionsFor(t, twoProfiles...)
		// Without the list, a table of 500 rows pays nothing.
		if _, r := compile(t, f, o); r.Status != finitepass.Refused {
			t.Errorf("%s: %s", r.Status, r.Reason)
		}
		o.ReachableIDs = ids
		if _, _, err := finitepass.CompileFanout(context.Background(), dev, f.spec, f.source, o); !errors.Is(err, finitepass.ErrContract) {
			t.Errorf("without the contract: %v", err)
		}
		o.Contracts = []string{architectures.ReachableIDsOnly}
		l, r := mustCompile(t, f, o)
		if !r.Comparison.Bitwise || r.Comparison.Tokens != 5 || r.Contract != architectures.ReachableIDsOnly {
			t.Errorf("%+v", r)
		}
		recipe := l.Recipe()
		if recipe.Version != 3 || recipe.NumTokens != 500 || recipe.Domain.Size != 5 || (recipe.Embedding == nil) != owned {
			t.Errorf("recipe %s", l.RecipeJSON())
		}
		if slices.Contains(r.Removes, "embed") != owned {
			t.Errorf("removes %v", r.Removes)
		}
		if owned && r.Account.AfterFull.Values > 3*5*(64+48+64) {
			t.Errorf("%+v", r.Account)
		}
		for _, call := range [][]int{{}, {499}, {3, 30}, {5, 4, 3, 499, 30, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}} {
			equalOn(t, dev, f.source, l, call...)
		}
		for _, id := range []int{0, 6, 498, 500, -1} {
			_, err := forward(t, dev, l, 3, id)
			if !errors.Is(err, nn.ErrIndex) || !strings.Contains(err.Error(), fmt.Sprint(id)) {
				t.Errorf("id %d: %v", id, err)
			}
		}
		// A place for all tokens takes it: it refuses the rest when called.
		if err := nn.CheckBlock(l, 500, nil, f.source.Outputs()); err != nil {
			t.Error(err)
		}
		embedding := f.source.Embedding
		if owned {
			embedding = nil
		}
		back, err := finitepass.Open(recipe, stateOf(l).get, embedding, dev)
		if err != nil || back.Digest() != l.Digest() {
			t.Errorf("%v", err)
		}
	}
	// Ids that the model does not have.
	f := build(true)
	o := f.optionsFor(t)
	o.Contracts, o.ReachableIDs = []string{architectures.ReachableIDsOnly}, []int{1, 500}
	if _, r := compile(t, f, o); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "500") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	o.ReachableIDs = []int{-1}
	if _, _, err := finitepass.CompileFanout(context.Background(), dev, f.spec, f.source, o); !errors.Is(err, finitepass.ErrOptions) {
		t.Errorf("%v", err)
	}
	// A tied head keeps the embedding, whatever the declaration says.
	f = build(true)
	f.params = append(f.params, f.params[0])
	f.params[len(f.params)-1].Name, f.params[len(f.params)-1].TiedTo = "head", "embed"
	f.weights["head"] = f.weights["embed"]
	o = f.optionsFor(t)
	o.Contracts, o.ReachableIDs = []string{architectures.ReachableIDsOnly}, ids
	if _, r := compile(t, f, o); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "head") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
}

// Rows that are equal are stored once with an index: a vocabulary padded with
// equal rows.
func TestEqualTableRows(t *testing.T) {
	dev := openCPU(t, "")
	for _, distinct := range []int{7, 300} {
		m := newMaker(t, dev, 13, tensor.F32)
		rows := m.embedding("embed", 400, 64)
		embed := m.f.weights["embed"]
		for i := distinct; i < 400; i++ {
			copy(embed.Row(i), embed.Row(3))
		}
		m.f.spec.Removes = append(m.f.spec.Removes, "embed")
		f := m.finish(&nn.Fanout{
			Embedding: m.upload(rows), EmbeddingSource: rows, EmbeddingName: "embed",
			Branches: []nn.Branch{{Name: "y", Layers: []nn.RowLocal{m.linear("y", 64, 32, true)}}},
		})
		l, r := mustCompile(t, f, f.optionsFor(t))
		index := int64(1)
		if distinct > 256 {
			index = 2
		}
		if r.Account.After.ResidentBytes != int64(distinct)*32*4+400*index || r.Tables[0].Coding != "equal rows once" {
			t.Errorf("%+v, %+v", r.Account.After, r.Tables)
		}
		equalOn(t, dev, f.source, l, 0, 3, 399, 6, 250)
		if _, err := forward(t, dev, l, 400); err == nil {
			t.Error("id 400 accepted")
		}
		// An index beyond the rows is refused when it is read.
		s := stateOf(l)
		bad := s.tensors["tables.group_0.index"].Clone()
		for i := range bad.Bytes() {
			bad.Bytes()[i] = 0xff
		}
		s.tensors["tables.group_0.index"] = bad
		if _, err := finitepass.Open(l.Recipe(), s.get, nil, dev); !errors.Is(err, finitepass.ErrRecipe) {
			t.Errorf("%v", err)
		}
	}
}

// Version 3 recipes: malformed and tampered ones are refused.
func TestFurtherRecipesRefused(t *testing.T) {
	dev := openCPU(t, "")
	m := newMaker(t, dev, 14, tensor.F32)
	rows := m.embedding("embed", 60, 16)
	embed := m.f.weights["embed"]
	for i := 20; i < 60; i++ {
		copy(embed.Row(i), embed.Row(0))
	}
	m.f.spec.Removes = append(m.f.spec.Removes, "embed")
	f := m.finish(&nn.Fanout{
		Embedding: m.upload(rows), EmbeddingSource: rows, EmbeddingName: "embed",
		Branches: []nn.Branch{{Name: "y", Layers: []nn.RowLocal{m.linear("y", 16, 8, true)}}},
	})
	o := f.optionsFor(t)
	o.Contracts = []string{architectures.ReachableIDsOnly}
	for i := range 50 {
		o.ReachableIDs = append(o.ReachableIDs, i+i/25)
	}
	l, _ := mustCompile(t, f, o)
	good := string(l.RecipeJSON())
	if !strings.Contains(good, `"keys":"0-18,1a-32"`) || !strings.Contains(good, `"index":{"distinct":20,"dtype":"U8"}`) {
		t.Fatalf("%s", good)
	}
	if _, err := finitepass.ParseRecipe([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"version 1":          {`"version":3`, `"version":1`},
		"version 2":          {`"version":3`, `"version":2`},
		"version 4":          {`"version":3`, `"version":4`},
		"contract":           {`"reachable_ids_only"`, `"token_indices_only"`},
		"no keys":            {`"keys":"0-18,1a-32"`, `"keys":""`},
		"fewer keys":         {`"keys":"0-18,1a-32"`, `"keys":"0-18,1a-31"`},
		"keys beyond tokens": {`"keys":"0-18,1a-32"`, `"keys":"0-18,1a-31,3c"`},
		"unordered keys":     {`"keys":"0-18,1a-32"`, `"keys":"1a-32,0-18"`},
		"keys with a gap":    {`"keys":"0-18,1a-32"`, `"keys":"0-18,19,1a-32"`},
		"keys in capitals":   {`"keys":"0-18,1a-32"`, `"keys":"0-18,1A-32"`},
		"kind":               {`"kind":"token_ids"`, `"kind":"timesteps"`},
		"unknown kind":       {`"kind":"token_ids"`, `"kind":"tokens"`},
		"size":               {`"size":50`, `"size":51`},
		"tokens":             {`"num_tokens":60`, `"num_tokens":50`},
		"rows":               {`"rows":50`, `"rows":60`},
		"index of all":       {`"distinct":20`, `"distinct":50`},
		"index of none":      {`"distinct":20`, `"distinct":0`},
		"wide index":         {`"dtype":"U8"`, `"dtype":"U16"`},
		"two codings":        {`"index":{`, `"projection":{"of":"group_0","normalised":true,"bias":false},"index":{`},
		"unknown key":        {`"index":{`, `"index":{"x":1,`},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if text == good {
			t.Errorf("%s: nothing changed", name)
		}
		if r, err := finitepass.ParseRecipe([]byte(text)); !errors.Is(err, finitepass.ErrRecipe) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}
