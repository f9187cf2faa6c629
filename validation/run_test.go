package validation_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

func someExamples(t testing.TB) []validation.Example {
	return []validation.Example{
		{Name: "one", Inputs: inputs(t, []int{3})},
		{Name: "two", Inputs: inputs(t, []int{1, 2, 3, 4}, []int{5, 6, 7, 8})},
		{Name: "three", Inputs: inputs(t, []int{10, 0})},
	}
}

// at changes outputs only in the given call.
func at(n int, change func(architectures.Outputs) architectures.Outputs) func(int, architectures.Outputs) (architectures.Outputs, error) {
	return func(call int, out architectures.Outputs) (architectures.Outputs, error) {
		if call == n {
			out = change(out)
		}
		return out, nil
	}
}

// TestRunFindsFaults plants one fault in the candidate's second call, which is
// example "two".
func TestRunFindsFaults(t *testing.T) {
	for _, c := range []struct {
		name            string
		change          func(architectures.Outputs) architectures.Outputs
		gate            validation.Gate
		accepted, exact bool
		output, reason  string
	}{
		{name: "none", accepted: true, exact: true, change: func(o architectures.Outputs) architectures.Outputs { return o }},
		{name: "drift", output: "hidden_states.0", reason: "max abs", change: func(o architectures.Outputs) architectures.Outputs {
			o.Get("hidden_states.0").Float32s()[13] += 1e-3
			return o
		}},
		{name: "small drift", accepted: true, change: func(o architectures.Outputs) architectures.Outputs {
			o.Get("hidden_states.0").Float32s()[13] += 1e-6
			return o
		}},
		{name: "small drift, bitwise", gate: validation.Gate{Bitwise: true}, output: "hidden_states.0", reason: "not bitwise equal; first at [0 2 1]",
			change: func(o architectures.Outputs) architectures.Outputs {
				o.Get("hidden_states.0").Float32s()[13] += 1e-6
				return o
			}},
		{name: "NaN", output: "logits", reason: "NaN", change: func(o architectures.Outputs) architectures.Outputs {
			o.Get("logits").Float32s()[40] = nan
			return o
		}},
		{name: "router flip", output: "experts", reason: "discrete output changed; first at [1 1]", change: func(o architectures.Outputs) architectures.Outputs {
			o.Get("experts").Int64s()[5] ^= 1
			return o
		}},
		{name: "decision flip", gate: validation.Gate{MaxAbs: 100, RelL2: 100}, output: "logits", reason: "decision changed",
			change: func(o architectures.Outputs) architectures.Outputs {
				l := o.Get("logits").Float32s()[:11]
				for i := range l {
					l[i] = -l[i]
				}
				return o
			}},
		{name: "shape", reason: "structure changed", change: func(o architectures.Outputs) architectures.Outputs {
			flat, err := o[0].Tensor.Reshape(8, 11)
			if err != nil {
				t.Fatal(err)
			}
			o[0].Tensor = flat
			return o
		}},
		{name: "missing output", reason: `output "experts" is missing`, change: func(o architectures.Outputs) architectures.Outputs { return o[:2] }},
	} {
		source := newFake()
		report, err := validation.Run(t.Context(), source, source.with(at(2, c.change)), someExamples(t), c.gate, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if report.Accepted != c.accepted || report.Exact != c.exact || report.Bitwise != c.exact || report.Compared != 3 {
			t.Errorf("%s: %+v", c.name, report)
		}
		if *source.calls != 6 {
			t.Errorf("%s: the source ran %d times, want twice an example", c.name, *source.calls)
		}
		text, err := json.Marshal(report)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if strings.Contains(string(text), "-0001-01-01") {
			t.Errorf("%s: %s", c.name, text)
		}
		f := report.FirstFailure
		if c.accepted {
			if f != nil {
				t.Errorf("%s: failure %+v", c.name, f)
			}
			continue
		}
		if f == nil || f.Example != "two" || f.Output != c.output || !strings.Contains(f.Reason, c.reason) {
			t.Errorf("%s: %+v", c.name, f)
			continue
		}
		if r := report.Results; !r[0].Accepted || r[1].Accepted || !r[2].Accepted || len(r[0].Failed) != 0 {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

func TestRunRefusesASourceThatDrifts(t *testing.T) {
	source := newFake()
	unstable := source.with(func(call int, out architectures.Outputs) (architectures.Outputs, error) {
		if call == 4 { // second call of the second example
			out.Get("logits").Float32s()[12] += 1e-7
		}
		return out, nil
	})
	_, err := validation.Run(t.Context(), unstable, source, someExamples(t), validation.Gate{}, nil)
	if !errors.Is(err, validation.ErrNotRepeatable) || !strings.Contains(err.Error(), `example "two"`) || !strings.Contains(err.Error(), `"logits" at [0 1 1]`) {
		t.Error(err)
	}
	changing := source.with(func(call int, out architectures.Outputs) (architectures.Outputs, error) { return out[:1+call%2], nil })
	if _, err := validation.Run(t.Context(), changing, source, someExamples(t), validation.Gate{}, nil); !errors.Is(err, validation.ErrNotRepeatable) {
		t.Error(err)
	}
}

// TestRunKeepsASnapshot uses models that overwrite and return one buffer, so
// that without a copy every comparison would be of a tensor with itself.
func TestRunKeepsASnapshot(t *testing.T) {
	source := newFake()
	buffers := map[string]*tensor.Tensor{}
	reuse := func(add float32) func(int, architectures.Outputs) (architectures.Outputs, error) {
		return func(_ int, out architectures.Outputs) (architectures.Outputs, error) {
			out[0].Tensor.Float32s()[0] += add
			for i, o := range out {
				key := o.Name + o.Tensor.String()
				if buffers[key] == nil {
					buffers[key] = o.Tensor
				}
				copy(buffers[key].Bytes(), o.Tensor.Bytes())
				out[i].Tensor = buffers[key]
			}
			return out, nil
		}
	}
	report, err := validation.Run(t.Context(), source.with(reuse(0)), source.with(reuse(1)), someExamples(t), validation.Gate{}, nil)
	if err != nil || report.Accepted {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestRunErrors(t *testing.T) {
	source := newFake()
	broken := errors.New("out of memory")
	fail := source.with(func(int, architectures.Outputs) (architectures.Outputs, error) { return nil, broken })
	if _, err := validation.Run(t.Context(), fail, source, someExamples(t), validation.Gate{}, nil); !errors.Is(err, broken) || !strings.Contains(err.Error(), `example "one"`) {
		t.Errorf("source fails: %v", err)
	}
	report, err := validation.Run(t.Context(), source, fail, someExamples(t), validation.Gate{}, nil)
	if err != nil || report.Accepted || report.FirstFailure.Reason != "candidate: out of memory" {
		t.Errorf("candidate fails: %+v, %v", report, err)
	}
	if _, err := validation.Run(t.Context(), source, source, nil, validation.Gate{}, nil); !errors.Is(err, validation.ErrNothing) {
		t.Errorf("no examples: %v", err)
	}
	if _, err := validation.Run(t.Context(), source, source, someExamples(t), validation.Gate{MaxAbs: -1}, nil); !errors.Is(err, validation.ErrGate) {
		t.Errorf("bad gate: %v", err)
	}
	silent := source.with(func(int, architectures.Outputs) (architectures.Outputs, error) { return nil, nil })
	if _, err := validation.Run(t.Context(), silent, silent, someExamples(t), validation.Gate{}, nil); !errors.Is(err, validation.ErrNothing) {
		t.Errorf("no outputs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	late := source.with(func(call int, out architectures.Outputs) (architectures.Outputs, error) {
		cancel() // while the candidate runs: not a verdict on it
		return nil, ctx.Err()
	})
	if _, err := validation.Run(ctx, source, late, someExamples(t)[:1], validation.Gate{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestRunStopsEarlyAndObserves(t *testing.T) {
	source := newFake()
	wrong := source.with(at(2, func(o architectures.Outputs) architectures.Outputs {
		o[0].Tensor.Float32s()[0] += 1
		return o
	}))
	var seen []string
	observe := func(r validation.ExampleResult, done, total int) {
		if total != 3 || done != len(seen)+1 {
			t.Errorf("%s: %d of %d", r.Example, done, total)
		}
		seen = append(seen, r.Example)
	}
	report, err := validation.Run(t.Context(), source, wrong, someExamples(t), validation.Gate{StopEarly: true}, observe)
	if err != nil || report.Examples != 3 || report.Compared != 2 || report.Accepted || len(seen) != 2 {
		t.Errorf("%+v, %v, saw %v", report, err, seen)
	}
}

func TestReportFigures(t *testing.T) {
	source := newFake()
	drift := source.with(at(3, func(o architectures.Outputs) architectures.Outputs {
		o.Get("hidden_states.0").Float32s()[0] = o.Get("hidden_states.0").Float32s()[0] + 0.5
		return o
	}))
	report, err := validation.Run(t.Context(), source, drift, someExamples(t), validation.Gate{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if w := report.WorstMaxAbs; w == nil || w.Example != "three" || w.Output != "hidden_states.0" || w.Value < 0.49 || w.Value > 0.51 {
		t.Errorf("worst %+v", w)
	}
	if m := report.SmallestMargin; m == nil || m.Output != "logits" || m.Value <= 0 || len(m.Index) != 2 {
		t.Errorf("margin %+v", m)
	}
	if report.Outputs != 9 || report.Elements != 11*(11+6+1) {
		t.Errorf("%d outputs, %d elements", report.Outputs, report.Elements)
	}
}

func TestReportIsTiedToItsSubject(t *testing.T) {
	source := newFake()
	run := func(examples []validation.Example) *validation.Report {
		r, err := validation.Run(t.Context(), source, source, examples, validation.Gate{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := run(someExamples(t))
	if r.Subject.SourceDevice != "fake-1" || r.Subject.CandidateDevice != "fake-1" {
		t.Errorf("%+v", r.Subject)
	}
	if r.Current(r.Digest) {
		t.Error("a report that is bound to no model is current")
	}
	r.Bind("commit", "digest")
	bound := r.Digest
	if !r.Current(bound) || bound != r.Subject.Digest() {
		t.Error("a bound report is not current")
	}
	for name, change := range map[string]func(*validation.Subject){
		"source":    func(s *validation.Subject) { s.Source += "x" },
		"candidate": func(s *validation.Subject) { s.Candidate += "x" },
		"examples":  func(s *validation.Subject) { s.Examples += "x" },
		"device":    func(s *validation.Subject) { s.CandidateDevice += "x" },
	} {
		other := r.Subject
		change(&other)
		if r.Current(other.Digest()) {
			t.Errorf("current for another %s", name)
		}
	}
	tampered := *r
	tampered.Subject.Candidate = "another"
	if tampered.Current(bound) {
		t.Error("current although the subject was exchanged")
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back validation.Report
	if err := json.Unmarshal(text, &back); err != nil || !back.Current(bound) {
		t.Errorf("after JSON: %v", err)
	}
	r.MarkHistorical("weights changed")
	r.MarkHistorical("again")
	if r.Current(bound) || r.HistoricalReason != "weights changed" {
		t.Errorf("%+v", r)
	}

	// The digest of examples sees everything in them.
	base := validation.Digest(someExamples(t))
	for name, change := range map[string]func([]validation.Example){
		"name":    func(e []validation.Example) { e[0].Name = "uno" },
		"id":      func(e []validation.Example) { e[1].Inputs.Tensors["input_ids"].Int64s()[0]++ },
		"shape":   func(e []validation.Example) { e[1].Inputs = inputs(t, []int{1, 2, 3, 4, 5, 6, 7, 8}) },
		"input":   func(e []validation.Example) { e[0].Inputs.Tensors["attention_mask"] = e[0].Inputs.Tensors["input_ids"] },
		"flag":    func(e []validation.Example) { e[0].Inputs.Flags = map[string]bool{"output_attentions": false} },
		"order":   func(e []validation.Example) { e[0], e[1] = e[1], e[0] },
		"nothing": func(e []validation.Example) {},
	} {
		e := someExamples(t)
		change(e)
		if same := validation.Digest(e) == base; same != (name == "nothing") {
			t.Errorf("change of %s: digest equal %v", name, same)
		}
	}
}

// The digests of a run are those of the candidate's outputs, and are kept only
// when they are asked for and mean something.
func TestRunKeepsDigests(t *testing.T) {
	model := newFake()
	examples := []validation.Example{{Name: "a", Inputs: inputs(t, []int{1, 2})}, {Name: "b", Inputs: inputs(t, []int{3})}}
	drift := model.with(func(_ int, o architectures.Outputs) (architectures.Outputs, error) {
		o[1].Tensor.Float32s()[0] += 1
		return o, nil
	})
	report, err := validation.Run(t.Context(), model, drift, examples, validation.Gate{Digests: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range report.Results {
		out, err := drift.Forward(t.Context(), examples[i].Inputs)
		if err != nil {
			t.Fatal(err)
		}
		if want := validation.OutputDigests(out); !maps.Equal(e.Digests, want) || len(want) != 3 {
			t.Errorf("%s: %v, expected %v", e.Example, e.Digests, want)
		}
	}
	short := model.with(func(_ int, o architectures.Outputs) (architectures.Outputs, error) { return o[:1], nil })
	for name, c := range map[string]struct {
		model architectures.Model
		gate  validation.Gate
	}{"not asked for": {model, validation.Gate{}}, "another structure": {short, validation.Gate{Digests: true}}} {
		report, err := validation.Run(t.Context(), model, c.model, examples, c.gate, nil)
		if err != nil || report.Results[0].Digests != nil {
			t.Errorf("%s: %v, %v", name, report.Results[0].Digests, err)
		}
	}
}
