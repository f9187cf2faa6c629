package finitepass_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func openCPU(t testing.TB, mode string) nn.Device {
	t.Helper()
	dev, err := nn.OpenCPU(nn.CPUOptions{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// For random fanouts on both sides of the break-even, the compiled block is the
// source to the bit at all row counts, or the block is refused with a reason;
// an accepted block never has more bytes.
func TestProperty(t *testing.T) {
	for _, mode := range []string{"", nn.ModeSplitK} {
		t.Run("mode "+mode, func(t *testing.T) {
			dev := openCPU(t, mode)
			bothSides(t, func(rt *rapid.T) bool {
				s := shape{
					tokens:     rapid.IntRange(1, 40).Draw(rt, "tokens"),
					width:      rapid.IntRange(1, 64).Draw(rt, "width"),
					branches:   rapid.SliceOfN(rapid.IntRange(1, 40), 1, 4).Draw(rt, "branches"),
					noResidual: rapid.Bool().Draw(rt, "no residual"),
					seed:       rapid.Uint64().Draw(rt, "seed"),
				}
				f := newFixture(t, dev, s)
				r, profiles, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{MaxRows: 40, SmallRows: 18, Tokens: 6, Strict: true})
				if err != nil {
					rt.Fatalf("%v; %+v", err, r)
				}
				o := f.options(t, profiles...)
				o.RequireBitwise = true
				o.ChunkRows = rapid.IntRange(1, 50).Draw(rt, "chunk")
				o.ValidationChunk = rapid.IntRange(1, 50).Draw(rt, "validation chunk")
				o.XORBase = rapid.IntRange(-1, len(profiles)).Draw(rt, "base")
				o.IgnorePlan = rapid.Bool().Draw(rt, "ignore plan")
				l, report := compile(t, f, o)
				if l == nil {
					if !strings.Contains(report.Reason, "no storage saving") {
						rt.Fatalf("refused: %s", report.Reason)
					}
					return false
				}
				a := report.Account
				if !report.Comparison.Bitwise || a.After.LogicalBytes >= a.Before.LogicalBytes || a.After.ResidentBytes >= a.Before.ResidentBytes {
					rt.Fatalf("%+v, %+v", report.Comparison, a)
				}
				for _, n := range []int{0, 1, 2, 3, 14, 15, 16, 17, 41, 100} {
					ids := make([]int, n)
					for i := range ids {
						ids[i] = (i*7 + n) % s.tokens
					}
					equalOn(t, dev, f.source, l, ids...)
				}
				return true
			})
		})
	}
}

// The block of NovoMolGen-32M: 84 tokens of width 512, RMS norm, q, k and v of
// 512 columns. The published figures are counted by the tool.
func TestNovoMolGenBlock(t *testing.T) {
	novo := shape{tokens: 84, width: 512, branches: []int{512, 512, 512}, seed: 32, scale: 0.02}
	dev := openCPU(t, nn.ModeSplitK)
	f := newFixture(t, dev, novo)
	o := f.options(t)
	o.ChunkRows, o.ValidationChunk = 0, 0

	plan := finitepass.PlanBlock(f.spec, o.Inventory, 1)
	if plan.ValuesSaved != 528_896 || plan.BreakEvenTables != 6 || plan.Refusal != "" {
		t.Errorf("plan %+v", plan)
	}
	if plan = finitepass.PlanBlock(f.spec, o.Inventory, 6); plan.BytesSaved >= 0 || plan.BestBytesSaved != 4*657_920 || plan.Refusal != "" {
		t.Errorf("plan %+v", plan)
	}

	// One table: 657,920 values, and rounding that a bitwise comparison sees.
	_, one := mustCompile(t, f, o)
	if one.Account.ValuesSaved != 657_920 || one.Account.BytesSaved != 4*657_920 || one.Comparison.Bitwise {
		t.Errorf("%+v", one.Account)
	}
	if b := one.Account.Before.Values; b != 829_952 {
		t.Errorf("%d values before, embedding included", b)
	}

	// Two tables: 528,896 values; the second as XOR is a fraction of its bytes.
	o.Profiles = singleton
	_, two := mustCompile(t, f, o)
	a := two.Account
	if a.ValuesSaved != 528_896 || a.BytesSavedFull != 4*528_896 || a.BytesSaved <= a.BytesSavedFull {
		t.Errorf("%+v", a)
	}
	if two.Tables[0].Coding != "base" || two.Tables[1].StoredBytes >= two.Tables[1].FullBytes {
		t.Errorf("%+v", two.Tables)
	}
	t.Logf("two tables save %d bytes whole and %d as XOR (%d of %d for the second table)",
		a.BytesSavedFull, a.BytesSaved, two.Tables[1].StoredBytes, two.Tables[1].FullBytes)

	// Found profiles are bitwise everywhere.
	probe, profiles, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(profiles, twoProfiles) {
		t.Fatalf("found %v: %+v", profiles, probe.Intervals)
	}
	o.Profiles, o.RequireBitwise = profiles, true
	l, three := mustCompile(t, f, o)
	if !three.Comparison.Bitwise || three.Account.ValuesSaved != 657_920-2*129_024 {
		t.Errorf("%+v", three.Account)
	}
	t.Logf("three tables: %+v", three.Tables)
	equalOn(t, dev, f.source, l, 83)

	// The device with one row function needs one table and is bitwise with it.
	dev = openCPU(t, "")
	f = newFixture(t, dev, novo)
	o = f.options(t)
	o.ChunkRows, o.ValidationChunk, o.RequireBitwise = 0, 0, true
	if _, r := mustCompile(t, f, o); r.Account.ValuesSaved != 657_920 {
		t.Errorf("%+v", r.Account)
	}
	// Declared profiles cost nothing there: their tables are the bulk table.
	o.Profiles = twoProfiles
	if _, r := mustCompile(t, f, o); r.Account.ValuesSaved != 657_920 || r.UniqueTables != 3 {
		t.Errorf("%+v", r.Account)
	}
}

// A planned inventory counts what a measured one does.
func TestPlannedInventory(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, base())
	measured, err := finitepass.NewInventory(f.params, f.weights)
	if err != nil {
		t.Fatal(err)
	}
	planned, err := finitepass.PlannedInventory(f.params, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := measured.Total(), planned.Total(); a != b {
		t.Errorf("measured %+v, planned %+v", a, b)
	}
	half := func(loader.Param) tensor.DType { return tensor.BF16 }
	planned, err = finitepass.PlannedInventory(f.params, half)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := measured.Total(), planned.Total(); a.ResidentBytes != 2*b.ResidentBytes || a.Values != b.Values {
		t.Errorf("as F32 %+v, as BF16 %+v", a, b)
	}
	for name, change := range map[string]func(){
		"twice":     func() { f.params[1].Name = f.params[0].Name },
		"no type":   func() { f.params[1].Name, f.params[1].DTypes = "norm", nil },
		"bad shape": func() { f.params[1].DTypes, f.params[1].Shape = f.params[0].DTypes, tensor.Shape{-1} },
	} {
		change()
		if _, err := finitepass.PlannedInventory(f.params, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
