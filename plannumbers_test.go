package compress_test

import (
	"context"
	"path/filepath"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/planner"
	"github.com/hfcompress/compress/validation"
)

// TestPlanNumbers: of every registered family, savings and refusals of a run are
// those that the planner counts from headers alone.
func TestPlanNumbers(t *testing.T) {
	type object = map[string]any
	random := func(family, golden string, changes object) func(*testing.T) string {
		return func(t *testing.T) string { return synthetic(t, family, golden, changes) }
	}
	kept := func(dir string) func(*testing.T) string {
		return func(t *testing.T) string { return filepath.Join("architectures", dir) }
	}
	wide := object{"vocab_size": 300}
	many, fine := make([]float32, 500), make([]float32, 500)
	for i := range many {
		many[i], fine[i] = float32(i), float32(i)/500
	}
	cases := []struct {
		family, name string
		dir          func(*testing.T) string
		steps        []float32
		pays         bool
	}{
		{"llama", "pays", random("llama", "mistral", nil), nil, true},
		{"llama", "refused", random("llama", "qwen3", wide), nil, false},
		{"gpt_neox", "pays", random("gpt_neox", "plain", nil), nil, true},
		{"gpt_neox", "refused", random("gpt_neox", "plain", wide), nil, false},
		{"progen", "pays", random("progen", "plain", nil), nil, true},
		{"progen", "refused", random("progen", "plain", wide), nil, false},
		{"esm", "pays", random("esm", "classifier", nil), nil, true},
		{"esm", "refused", random("esm", "plain", object{"vocab_size": 60, "mask_token_id": 59}), nil, false},
		{"t5", "pays", random("t5", "plain", object{"d_model": 48}), nil, true},
		{"t5", "refused", random("t5", "plain", nil), nil, false},
		{"gpt2", "refused", random("gpt2", "plain", nil), nil, false},
		{"bert", "refused", random("bert", "model", nil), nil, false},
		{"hyenadna", "pays", random("hyenadna", "plain", nil), nil, true},
		{"hyenadna", "refused", random("hyenadna", "plain", object{"vocab_size": 60}), nil, false},
		{"gru_seq2seq", "pays", kept("gru/testdata/g2p_en"), nil, true},
		{"gru_seq2seq", "refused", random("gru", "../small", object{"source_vocab_size": 200, "target_vocab_size": 200}), nil, false},
		{"uce", "pays", kept("uce/testdata/adds_one"), nil, true},
		{"uce", "refused", random("uce", "../adds_one", object{"token_dim": 4}), nil, false},
		{"dit", "pays", kept("dit/testdata/plain"), []float32{0, 20, 999}, true},
		{"dit", "refused", kept("dit/testdata/plain"), many, false},
		{"f5_dit", "pays", kept("f5dit/testdata/v1"), []float32{0, 0.25, 0.5}, true},
		{"f5_dit", "refused", kept("f5dit/testdata/v1"), fine, false},
	}
	covered := map[string]map[bool]bool{}
	for _, c := range cases {
		if covered[c.family] == nil {
			covered[c.family] = map[bool]bool{}
		}
		covered[c.family][c.pays] = true
		t.Run(c.family+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			dir := c.dir(t)
			o := quick(compress.Options{Require: compress.RequireBitwise, Timesteps: c.steps})
			if c.steps != nil {
				o.Generate = validation.Options{MaxPositions: 400, MaxRows: 4}
			}
			if c.family == "dit" { // the planner counts two labels, for one class
				o.Labels = []int{0, 5}
			}
			result, err := compress.Local(context.Background(), dir, o)
			if err != nil {
				t.Fatal(err)
			}
			defer result.Close()
			want := finitepass.NoReduction
			if c.pays {
				want = finitepass.Compressed
			}
			if result.Status != want {
				t.Errorf("%s: %s", result.Status, result.Report.Reason)
			}
			matchPlan(t, result.Report, func() (*compress.Planned, error) {
				return compress.PlanLocal(dir, compress.Options{}, planner.Options{Timesteps: len(c.steps)})
			})
		})
	}
	for _, name := range architectures.Names() {
		if len(covered[name]) == 0 && name != (routerFamily{}).Name() {
			t.Errorf("family %s is registered: its numbers are compared nowhere", name)
		}
	}
}

// matchPlan expects the numbers of a run to be those of a plan from headers alone:
// for each block the values saved, or the reason of its refusal.
func matchPlan(t *testing.T, r *compress.Report, plan func() (*compress.Planned, error)) {
	t.Helper()
	found, err := plan()
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Checkpoints) != 1 {
		t.Fatalf("%d checkpoints", len(found.Checkpoints))
	}
	passes := map[string]planner.Pass{}
	for _, p := range found.Checkpoints[0].Passes {
		passes[p.Block] = p
	}
	if len(r.Blocks) == 0 {
		t.Fatal("no block")
	}
	saved := int64(0)
	for _, b := range r.Blocks {
		p, ok := passes[b.Path]
		switch {
		case !ok:
			t.Errorf("%s: not planned", b.Path)
		case p.Arithmetic != b.Plan.Arithmetic || p.Saved.Values != b.Plan.ValuesSaved || p.Saved.Bytes != b.Plan.BytesSaved:
			t.Errorf("%s: planned %d values, %d bytes: %s; the run counts %d values, %d bytes: %s",
				b.Path, p.Saved.Values, p.Saved.Bytes, p.Arithmetic, b.Plan.ValuesSaved, b.Plan.BytesSaved, b.Plan.Arithmetic)
		case b.Status == finitepass.Compiled && p.Verdict == planner.Saves:
			saved += p.Saved.Values
			// A table for each further row count whose bits differ.
			for _, route := range b.Routes[min(1, len(b.Routes)):] {
				saved -= route.NewValues
			}
		case b.Status == finitepass.Refused && p.Verdict == planner.Refused && p.Reason == b.Reason:
		default:
			t.Errorf("%s: %s (%s), planned: %s (%s)", b.Path, b.Status, b.Reason, p.Verdict, p.Reason)
		}
	}
	if r.Values.Saved() != saved {
		t.Errorf("%d values saved, planned %d", r.Values.Saved(), saved)
	}
}
