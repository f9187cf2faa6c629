package finitepass_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
)

// steps is a kernel whose bits change at each of the given row counts.
func steps(starts ...int) kernel {
	return func(y []float32, rows, _ int, _ bool) {
		n := uint32(0)
		for _, s := range starts {
			if rows >= s {
				n++
			}
		}
		for i := range y {
			y[i] = math.Float32frombits(math.Float32bits(y[i]) + n)
		}
	}
}

func TestFindProfiles(t *testing.T) {
	for name, c := range map[string]struct {
		starts []int
		want   []finitepass.Profile
	}{
		"one regime":      {nil, []finitepass.Profile{}},
		"split-k":         {[]int{2, 16}, []finitepass.Profile{{1, 1}, {15, 2}}},
		"odd boundaries":  {[]int{2, 5, 10, 13, 25, 50}, []finitepass.Profile{{1, 1}, {4, 2}, {9, 5}, {12, 10}, {24, 13}, {49, 25}}},
		"in a gap":        {[]int{41, 77, 201}, []finitepass.Profile{{40, 1}, {76, 41}, {200, 77}}},
		"two in one gap":  {[]int{140, 170}, []finitepass.Profile{{139, 1}, {169, 140}}},
		"at the very end": {[]int{256}, []finitepass.Profile{{255, 1}}},
		"beyond the end":  {[]int{257}, []finitepass.Profile{}},
	} {
		t.Run(name, func(t *testing.T) {
			dev := &fakeDevice{kernel: steps(c.starts...)}
			f := newFixture(t, dev, shape{tokens: 20, width: 8, branches: []int{4}})
			r, got, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{MaxRows: 256, Tokens: 5})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("proposed %v, expected %v", got, c.want)
			}
			if r.VerifiedRows != 256 || len(r.Intervals) != len(c.want)+1 || r.Intervals[len(c.want)].MaxRows != 0 || len(r.Tokens) != 5 || r.Calls == 0 {
				t.Errorf("report %+v", r)
			}
		})
	}
}

func TestFindProfilesAgainstPublished(t *testing.T) {
	splitK := []nn.Regime{{Name: "one", MinRows: 1, MaxRows: 1}, {Name: "few", MinRows: 2, MaxRows: 15}, {Name: "many", MinRows: 16}}
	far := []nn.Regime{{Name: "few", MinRows: 1, MaxRows: 2999}, {Name: "many", MinRows: 3000}}
	for name, c := range map[string]struct {
		regimes []nn.Regime
		starts  []int
		agree   bool
		found   int
	}{
		"as published":         {splitK, []int{2, 16}, true, 2},
		"bits happen to agree": {splitK, []int{16}, true, 1},
		"beyond MaxRows":       {far, []int{3000}, true, 1},
		"not published":        {nil, []int{2, 16}, true, 2},
		"another boundary":     {splitK, []int{2, 15}, false, 2},
		"one too many":         {splitK, []int{2, 16, 64}, false, 3},
		"a gap in the list":    {[]nn.Regime{{Name: "one", MinRows: 1, MaxRows: 1}, {Name: "many", MinRows: 3}}, nil, false, 0},
		"a list with an end":   {[]nn.Regime{{Name: "one", MinRows: 1, MaxRows: 8}}, nil, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dev := &fakeDevice{kernel: steps(c.starts...), regimes: c.regimes}
			f := newFixture(t, dev, shape{tokens: 20, width: 8, branches: []int{4}})
			o := finitepass.ProbeOptions{MaxRows: 128, Tokens: 4}
			r, got, err := finitepass.FindProfiles(context.Background(), dev, f.source, o)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != c.found || (len(r.Disagreements) == 0) != c.agree {
				t.Errorf("found %v, disagreements %v", got, r.Disagreements)
			}
			o.Strict = true
			_, _, err = finitepass.FindProfiles(context.Background(), dev, f.source, o)
			if errors.Is(err, finitepass.ErrRegimes) == c.agree {
				t.Errorf("strict: %v", err)
			}
		})
	}
}

// A device whose bits depend on something else than the row count.
func TestFindProfilesUnstable(t *testing.T) {
	n := 0
	dev := &fakeDevice{}
	f := newFixture(t, dev, shape{tokens: 3, width: 8, branches: []int{4}})
	// The kernel drifts between calls, not between rows of one call.
	dev.kernel = func(y []float32, rows, at int, _ bool) {
		if at == 0 {
			n++
		}
		if rows == 1 && n > 60 {
			y[0] += 1
		}
	}
	_, _, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{MaxRows: 64})
	if !errors.Is(err, finitepass.ErrUnstable) {
		t.Errorf("%v", err)
	}
}

func TestFindProfilesLimits(t *testing.T) {
	var starts []int
	for n := 2; n < 2+finitepass.MaxProfiles+1; n++ {
		starts = append(starts, n)
	}
	dev := &fakeDevice{kernel: steps(starts...)}
	f := newFixture(t, dev, shape{tokens: 3, width: 8, branches: []int{4}})
	if _, _, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{MaxRows: 128}); !errors.Is(err, finitepass.ErrProfiles) {
		t.Errorf("%v", err)
	}
	for _, o := range []finitepass.ProbeOptions{{MaxRows: -1}, {SmallRows: 1 << 20}, {Tokens: -2}} {
		if _, _, err := finitepass.FindProfiles(context.Background(), dev, f.source, o); !errors.Is(err, finitepass.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Found profiles make a bitwise block whatever the boundaries are.
func TestAutoIsBitwise(t *testing.T) {
	dev := &fakeDevice{kernel: steps(2, 7, 40)}
	f := newFixture(t, dev, shape{tokens: 13, width: 96, branches: []int{64, 40}, seed: 2})
	_, profiles, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{MaxRows: 64})
	if err != nil {
		t.Fatal(err)
	}
	o := f.options(t, profiles...)
	o.RequireBitwise = true
	l, r := mustCompile(t, f, o)
	if len(r.Routes) != 4 || r.Routes[2].Rows != "2–6" || r.Routes[0].Rows != "40 and more" {
		t.Errorf("routes %+v", r.Routes)
	}
	if !strings.HasPrefix(r.Tables[1].Coding, "xor") {
		t.Errorf("tables %+v", r.Tables)
	}
	for n := range 50 {
		ids := make([]int, n)
		for i := range ids {
			ids[i] = (i*5 + n) % 13
		}
		equalOn(t, dev, f.source, l, ids...)
	}
}
