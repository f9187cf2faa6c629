package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// comparison is what pack --compare found.
type comparison struct {
	File    string `json:"file"`
	Tensors int    `json:"tensors"`
	Weights int64  `json:"weights"`
	Bytes   int64  `json:"bytes"`
	// Looked is how many of the bytes were looked at; a stretch from the middle of
	// each tensor if it is less than Bytes. Other is how many are no floats.
	Looked int64 `json:"looked_at"`
	Other  int64 `json:"other_bytes"`
	// Bound is the entropy of order 0 of all fields, in bits for each weight: the
	// mean over all tensors.
	Bound float64 `json:"order0_bits"`
	// Joint is the same with the highest bit of the mantissa taken together with
	// the exponent.
	Joint   float64          `json:"joint_bits"`
	Methods []methodResult   `json:"methods"`
	Each    []tensorCompared `json:"each"`
	fields  entropies        // the means; only the sums of planes
}

type methodResult struct {
	Name string `json:"name"`
	Ours bool   `json:"ours"`
	// BitsPerWeight counts stored bits, Ratio is raw over stored, OverBound and
	// OverJoint the distances to the bounds in percent.
	BitsPerWeight float64 `json:"bits_per_weight"`
	Ratio         float64 `json:"ratio"`
	OverBound     float64 `json:"percent_over_order0"`
	OverJoint     float64 `json:"percent_over_joint"`
	// EncodeMBs and DecodeMBs are megabytes of raw bytes a second on one thread;
	// DecodeMBs is 0 where decoding was not measured.
	EncodeMBs float64 `json:"encode_mb_per_s"`
	DecodeMBs float64 `json:"decode_mb_per_s,omitempty"`
	// Sign, Exponent and Mantissa are stored bits for each weight by field, for
	// methods that keep them apart.
	Sign     float64 `json:"sign_bits,omitempty"`
	Exponent float64 `json:"exponent_bits,omitempty"`
	Mantissa float64 `json:"mantissa_bits,omitempty"`
	all      measured
}

type tensorCompared struct {
	Name    string       `json:"name"`
	DType   tensor.DType `json:"dtype"`
	Shape   tensor.Shape `json:"shape"`
	Looked  int64        `json:"looked_at"`
	Fields  entropies    `json:"entropies"`
	Bound   float64      `json:"order0_bits"`
	Joint   float64      `json:"joint_bits"`
	Bits    []float64    `json:"bits_per_weight"` // by method
	weights int64
}

// compare holds methods against each other on the tensors of one file.
func (a *app) compare(ctx context.Context, f *packFlags) error {
	if f.sampleMB < 1 {
		return usagef("--sample must be at least 1")
	}
	c, err := loader.Open(f.compare, loader.Options{Limits: loader.Limits{OpaqueDTypes: true}})
	if err != nil {
		return err
	}
	defer c.Close()
	show := a.progress(f.quiet)
	found, err := compareAll(ctx, c, int64(f.sampleMB)*1_000_000, show)
	show.stop()
	if err != nil {
		return err
	}
	found.File = f.compare
	if f.html != "" {
		if err := writePage(f.html, f.overwrite, found); err != nil {
			return err
		}
	}
	if f.json {
		return a.printJSON(found)
	}
	return a.printComparison(found, f.html)
}

// compareAll looks at no more than budget bytes, shared out among the tensors by
// their sizes.
func compareAll(ctx context.Context, c *loader.Checkpoint, budget int64, show progress) (*comparison, error) {
	var names []string
	out := &comparison{}
	floats := int64(0)
	for _, name := range c.Names() {
		info, err := c.Info(name)
		if err != nil {
			return nil, err
		}
		out.Bytes += info.Bytes()
		if _, ok := anatomyOf(info.DType); !ok {
			out.Other += info.Bytes()
		} else if info.Bytes() > 0 {
			names = append(names, name)
			floats += info.Bytes()
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no tensors of floats to compare on", c.Path())
	}
	methods := methodsToCompare()
	for _, m := range methods {
		out.Methods = append(out.Methods, methodResult{Name: m.name, Ours: m.ours})
	}
	for _, name := range names {
		info, err := c.Info(name)
		if err != nil {
			return nil, err
		}
		raw, shape, err := stretch(c, &info, min(1, float64(budget)/float64(floats)))
		if err != nil {
			return nil, err
		}
		a, _ := anatomyOf(info.DType)
		t := tensorCompared{Name: name, DType: info.DType, Shape: info.Shape, Looked: int64(len(raw)), weights: int64(len(raw) / a.width)}
		t.Fields = takeApart(a, raw).entropies()
		t.Bound, t.Joint = t.Fields.bound(), t.Fields.joint()
		for i := range methods {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			m, err := methods[i].measure(info.DType, shape, raw)
			if err != nil {
				return nil, fmt.Errorf("%s on tensor %s: %w", methods[i].name, printable(name), err)
			}
			out.Methods[i].add(m)
			t.Bits = append(t.Bits, 8*float64(m.parts.total())/float64(t.weights))
		}
		out.Each = append(out.Each, t)
		out.Looked += t.Looked
		out.Weights += t.weights
		n := float64(t.weights)
		out.Bound += t.Bound * n
		out.Joint += t.Joint * n
		out.fields.Sign += t.Fields.Sign * n
		out.fields.Exponent += t.Fields.Exponent * n
		show.observe(compress.Event{Stage: compress.StageCompare, Item: name, Done: out.Looked, Total: min(max(budget, out.Looked), floats), Unit: "bytes"})
	}
	out.Tensors = len(out.Each)
	for _, sum := range []*float64{&out.Bound, &out.Joint, &out.fields.Sign, &out.fields.Exponent} {
		*sum /= float64(out.Weights)
	}
	for i := range out.Methods {
		out.Methods[i].finish(out)
	}
	return out, nil
}

// stretch reads a share of a tensor: all of it, or whole rows, or elements, from
// the middle. The shape is that of a whole tensor only.
func stretch(c *loader.Checkpoint, info *loader.TensorInfo, share float64) ([]byte, tensor.Shape, error) {
	r, err := c.Reader(info.Name)
	if err != nil {
		return nil, nil, err
	}
	size, shape := info.Bytes(), info.Shape
	unit := int64(info.DType.Size())
	take := size
	if share < 1 {
		if len(shape) > 1 && shape[0] > 0 && size/int64(shape[0]) <= 1<<20 {
			unit = size / int64(shape[0]) // whole rows, so that they can be coded as such
		}
		take = min(size, max(int64(share*float64(size))/unit, 1)*unit)
		if take < size {
			shape = nil
			if unit > int64(info.DType.Size()) {
				shape = append(tensor.Shape{int(take / unit)}, info.Shape[1:]...)
			}
		}
	}
	raw := make([]byte, take)
	at := (size - take) / 2 / unit * unit
	if n, err := r.ReadAt(raw, at); n < len(raw) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, nil, fmt.Errorf("tensor %s: %w", printable(info.Name), err)
	}
	return raw, shape, nil
}

func (r *methodResult) add(m measured) {
	r.all.parts.Sign += m.parts.Sign
	r.all.parts.Exponent += m.parts.Exponent
	r.all.parts.Mantissa += m.parts.Mantissa
	r.all.parts.Whole += m.parts.Whole
	r.all.encode += m.encode
	r.all.decode += m.decode
}

func (r *methodResult) finish(c *comparison) {
	bits := func(n int64) float64 { return 8 * float64(n) / float64(c.Weights) }
	p := r.all.parts
	r.BitsPerWeight = bits(p.total())
	r.Sign, r.Exponent, r.Mantissa = bits(p.Sign), bits(p.Exponent), bits(p.Mantissa)
	r.Ratio = float64(c.Looked) / float64(max(p.total(), 1))
	if c.Bound > 0 {
		r.OverBound = 100 * (r.BitsPerWeight/c.Bound - 1)
	}
	if c.Joint > 0 {
		r.OverJoint = 100 * (r.BitsPerWeight/c.Joint - 1)
	}
	// A clock may stand still for a small file.
	r.EncodeMBs = float64(c.Looked) / 1e6 / max(r.all.encode.Seconds(), 1e-9)
	if r.all.decode > 0 {
		r.DecodeMBs = float64(c.Looked) / 1e6 / r.all.decode.Seconds()
	}
}

// sampleText states what was looked at.
func (c *comparison) sampleText() string {
	floats := c.Bytes - c.Other
	text := fmt.Sprintf("%s of %s bytes of floats in %s", count(c.Looked), count(floats), things(c.Tensors, "tensor"))
	if c.Looked < floats {
		text += ", the same share from the middle of each"
	}
	if c.Other > 0 {
		text += fmt.Sprintf("; %s bytes of other types left out", count(c.Other))
	}
	return text
}

func (a *app) printComparison(c *comparison, html string) error {
	fmt.Fprintf(a.stdout, "%s\nlooked at %s\norder-0 entropy of sign, exponent and mantissa bits: %.3f bits per weight; with the exponent and the top mantissa bit together: %.3f\n\n", c.File, c.sampleText(), c.Bound, c.Joint)
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "method\tbits/weight\tratio\tover order 0\tover joint\tencode MB/s\tdecode MB/s\t")
	for _, m := range c.Methods {
		decode := "–"
		if m.DecodeMBs > 0 {
			decode = fmt.Sprintf("%.0f", m.DecodeMBs)
		}
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%+.2f %%\t%+.2f %%\t%.1f\t%s\t\n", m.Name, m.BitsPerWeight, m.Ratio, m.OverBound, m.OverJoint, m.EncodeMBs, decode)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	const most = 20
	shown := slices.SortedStableFunc(slices.Values(c.Each), func(x, y tensorCompared) int { return cmp.Compare(y.Looked, x.Looked) })
	fmt.Fprintf(a.stdout, "\nlargest tensors, bits per weight\n")
	w = tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "H(sign)\tH(exponent)\tH(mantissa)\torder 0\t")
	for _, m := range c.Methods {
		if m.Ours {
			fmt.Fprintf(w, "%s\t", m.Name)
		}
	}
	fmt.Fprintln(w, "  tensor")
	for _, t := range shown[:min(most, len(shown))] {
		fmt.Fprintf(w, "%.3f\t%.3f\t%.3f\t%.3f\t", t.Fields.Sign, t.Fields.Exponent, t.Fields.mantissa(), t.Bound)
		for i, m := range c.Methods {
			if m.Ours {
				fmt.Fprintf(w, "%.3f\t", t.Bits[i])
			}
		}
		fmt.Fprintf(w, "  %s %v%v\n", printable(t.Name), t.DType, t.Shape)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if rest := len(shown) - most; rest > 0 {
		fmt.Fprintf(a.stdout, "and %d more: --json and --html have all\n", rest)
	}
	if html != "" {
		fmt.Fprintf(a.stdout, "\npage  %s\n", html)
	}
	return nil
}

// writePage writes the page under a temporary name first.
func writePage(path string, overwrite bool, c *comparison) (err error) {
	switch info, err := os.Lstat(path); {
	case err != nil:
	case !overwrite:
		return fmt.Errorf("%s is there already: --overwrite replaces it", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file: not replaced", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close() // a second Close does no harm
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	if err := comparePage(w, c); err != nil {
		return err
	}
	if err := errors.Join(w.Flush(), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
