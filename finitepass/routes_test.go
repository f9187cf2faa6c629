package finitepass_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/finitepass"
)

// SF-2: two profiles on a device with one row function: all routes are equal and
// stored once; version 2; the row counts that are compared.
func TestProfilesOnOneRegime(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, shape{tokens: 7, width: 128, branches: []int{128, 128}, seed: 5})
	l, r := mustCompile(t, f, f.options(t, twoProfiles...))
	if r.UniqueTables != 2 || len(r.Tables) != 1 || l.Recipe().Version != 2 || len(l.Recipe().Sets) != 0 {
		t.Errorf("tables %+v", r.Tables)
	}
	for _, n := range []int{1, 2, 14, 15, 16} {
		if !slices.Contains(r.Comparison.RowCounts, n) {
			t.Errorf("%d rows were not compared: %v", n, r.Comparison.RowCounts)
		}
	}
	if r.Account.After.ResidentBytes != 4*(7*128+7*256) || r.Account.After != r.Account.AfterFull {
		t.Errorf("after %+v", r.Account)
	}
	if r.Routes[1].StoredBytes != 0 || r.Routes[2].DiffersFromBulk != 0 {
		t.Errorf("routes %+v", r.Routes)
	}
	for n, want := range map[int]int{0: 1, 1: 1, 2: 2, 15: 2, 16: 0, 400: 0} {
		if got := l.Route(n); got != want {
			t.Errorf("%d rows take route %d, expected %d", n, got, want)
		}
	}
}

// SF-4: a one-row kernel that differs by 1e-3 is refused without its profile and
// bitwise with it.
func TestSingletonKernel(t *testing.T) {
	dev := &fakeDevice{kernel: func(y []float32, rows, _ int, _ bool) {
		if rows == 1 {
			for i := range y {
				y[i] += 1e-3
			}
		}
	}}
	f := newFixture(t, dev, shape{tokens: 7, width: 128, branches: []int{128, 128}, seed: 5})
	if _, r := compile(t, f, f.options(t)); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "with 1 row") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	l, r := mustCompile(t, f, f.options(t, singleton...))
	if !r.Comparison.Bitwise || r.Routes[1].DiffersFromBulk == 0 || r.Routes[1].NewValues != 7*256 {
		t.Errorf("%+v", r.Routes)
	}
	equalOn(t, dev, f.source, l, 3)
	equalOn(t, dev, f.source, l, 3, 4)
}

// SF-5: identical positions that disagree refuse the profile.
func TestUnequalPositions(t *testing.T) {
	dev := &fakeDevice{kernel: func(y []float32, rows, at int, _ bool) {
		if rows == 2 && at == 1 {
			y[0] += 0.01
		}
	}}
	f := newFixture(t, dev, shape{tokens: 7, width: 128, branches: []int{128, 128}, seed: 5})
	_, r := compile(t, f, f.options(t, twoProfiles...))
	if r.Status != finitepass.Refused || !strings.Contains(r.Reason, finitepass.ErrPositions.Error()) {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	_, _, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{})
	if !errors.Is(err, finitepass.ErrPositions) {
		t.Errorf("probe: %v", err)
	}
}

// SF-6: a kernel that reacts to differing neighbours is caught by mixed calls.
func TestNeighbours(t *testing.T) {
	dev := &fakeDevice{kernel: func(y []float32, rows, _ int, identical bool) {
		if rows == 2 && !identical {
			y[0] += 0.01
		}
	}}
	f := newFixture(t, dev, shape{tokens: 7, width: 128, branches: []int{128, 128}, seed: 5})
	_, r := compile(t, f, f.options(t, twoProfiles...))
	if r.Status != finitepass.Refused || !strings.Contains(r.Reason, "full-domain") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	_, _, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{})
	if !errors.Is(err, finitepass.ErrNeighbours) {
		t.Errorf("probe: %v", err)
	}
}

// rounding is a kernel with three row functions that differ in the last bits.
func rounding(y []float32, rows, _ int, _ bool) {
	ulps := 0
	switch {
	case rows == 1:
		ulps = 1
	case rows < 16:
		ulps = 2
	}
	for i := range y {
		y[i] = math.Float32frombits(math.Float32bits(y[i]) + uint32(ulps))
	}
}

// SF-10: counted bytes refuse profiles whose full tables would not save; XOR
// makes them fit.
func TestProfilesNeedSpace(t *testing.T) {
	f := newFixture(t, &fakeDevice{kernel: rounding}, shape{tokens: 30, width: 64, branches: []int{64, 64, 64}, seed: 6})
	o := f.options(t, twoProfiles...)
	o.NoXOR = true
	if _, r := compile(t, f, o); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "no storage saving") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	o.NoXOR = false
	l, r := mustCompile(t, f, o)
	a := r.Account
	if a.BytesSavedFull >= 0 || a.BytesSaved <= 0 || a.ValuesSaved*4 != a.BytesSavedFull {
		t.Errorf("%+v", a)
	}
	if len(l.Recipe().Sets) != 1 || r.Tables[0].Coding != "base" || !strings.HasPrefix(r.Tables[1].Coding, "xor ") {
		t.Errorf("%+v", r.Tables)
	}
	var stored int64
	for _, s := range l.Tensors() {
		stored += int64(len(s.Tensor.Bytes()))
	}
	if stored+4*30*64 != a.After.ResidentBytes {
		t.Errorf("%d bytes stored beside the embedding, the account says %d in all", stored, a.After.ResidentBytes)
	}
	if !r.Comparison.Bitwise {
		t.Errorf("%+v", r.Comparison)
	}
	// Another base gives the same rows.
	for _, b := range []int{-1, 1, 2} {
		o.XORBase = b
		l, _ := mustCompile(t, f, o)
		equalOn(t, f.dev, f.source, l, 5)
		equalOn(t, f.dev, f.source, l, 5, 6)
	}
}

// SF-11: every call gathers each table that its route needs once, and no column
// of another route.
func TestGathers(t *testing.T) {
	var gathers []int
	dev := &fakeDevice{gathers: &gathers, kernel: rounding}
	f := newFixture(t, dev, shape{tokens: 7, width: 128, branches: []int{128, 128}, seed: 5})
	l, _ := mustCompile(t, f, f.options(t, twoProfiles...))
	for _, n := range []int{1, 2, 15, 16, 23} {
		gathers = nil
		ids := make([]int, n)
		if _, err := forward(t, dev, l, ids...); err != nil {
			t.Fatal(err)
		}
		slices.Sort(gathers)
		if !slices.Equal(gathers, []int{128, 256}) {
			t.Errorf("%d rows: gathers of widths %v", n, gathers)
		}
	}
}

// Outputs that change with the route in different ways still line up for XOR.
func TestMixedPatterns(t *testing.T) {
	dev := &fakeDevice{kernel: func(y []float32, rows, at int, same bool) {
		if len(y) == 65 || rows == 1 { // k changes only for one row
			rounding(y, rows, at, same)
		}
	}}
	f := newFixture(t, dev, shape{tokens: 20, width: 128, branches: []int{65, 64, 63}, seed: 8})
	l, r := mustCompile(t, f, f.options(t, twoProfiles...))
	if !r.Comparison.Bitwise || len(l.Recipe().Sets) != 2 {
		t.Errorf("%d sets, tables %+v", len(l.Recipe().Sets), r.Tables)
	}
	for _, table := range r.Tables {
		if table.Coding == "full" {
			t.Errorf("%+v is stored whole", table)
		}
	}
}

// Routes that have nothing in common are stored whole, without a set around them.
func TestUnrelatedRoutesStayWhole(t *testing.T) {
	dev := &fakeDevice{kernel: func(y []float32, rows, _ int, _ bool) {
		if rows == 1 {
			for i, v := range y {
				// Any function of the row alone will do, as long as its bits look random.
				x := math.Float32bits(v) * 0x9e3779b1
				y[i] = math.Float32frombits(x&0x807fffff | (x>>25&15+120)<<23)
			}
		}
	}}
	f := newFixture(t, dev, shape{tokens: 5, width: 64, branches: []int{64}, seed: 5})
	l, r := mustCompile(t, f, f.options(t, singleton...))
	if len(l.Recipe().Sets) != 0 || r.Tables[0].Coding != "full" || r.Tables[1].Coding != "full" || r.Account.After != r.Account.AfterFull {
		t.Errorf("tables %+v", r.Tables)
	}
	equalOn(t, dev, f.source, l, 3)
}
