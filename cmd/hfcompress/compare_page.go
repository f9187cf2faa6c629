package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/hfcompress/compress/internal/page"
)

// comparePage draws a comparison.
func comparePage(w io.Writer, c *comparison) error {
	bits := func(v float64) string { return fmt.Sprintf("%.3f", v) }
	best, other := -1, -1
	for i, m := range c.Methods {
		if m.Ours && (best < 0 || m.BitsPerWeight < c.Methods[best].BitsPerWeight) {
			best = i
		}
		if !m.Ours && (other < 0 || m.BitsPerWeight < c.Methods[other].BitsPerWeight) {
			other = i
		}
	}
	b, o := c.Methods[best], c.Methods[other]
	p := &page.Page{
		Title:    "How small " + filepath.Base(c.File) + " can be",
		Subtitle: c.File,
		Verdict: fmt.Sprintf("Level %s takes %.3f bits per weight, %.2f %% less than %s, the best of the reference methods, and encodes %.0f times as fast.",
			b.Name, b.BitsPerWeight, 100*(1-b.BitsPerWeight/o.BitsPerWeight), o.Name, b.EncodeMBs/o.EncodeMBs),
		Good: b.BitsPerWeight < o.BitsPerWeight,
		Facts: []page.Fact{
			{Name: "Looked at", Value: c.sampleText()},
			{Name: "Weights", Value: count(c.Weights)},
			{Name: "Order-0 entropy", Value: bits(c.Bound) + " bits per weight"},
			{Name: "Exponent and top bit together", Value: bits(c.Joint) + " bits per weight"},
		},
	}
	if !p.Good {
		p.Verdict = fmt.Sprintf("%s takes %.3f bits per weight, less than level %s with %.3f.", o.Name, o.BitsPerWeight, b.Name, b.BitsPerWeight)
	}
	size := &page.Bars{Format: bits}
	table := &page.Table{Head: []string{"method", "bits per weight", "ratio", "over order 0", "over joint", "encode, MB/s", "decode, MB/s"}}
	encode := &page.Bars{Format: func(v float64) string { return fmt.Sprintf("%.1f MB/s", v) }}
	for _, m := range c.Methods {
		bar := page.Bar{Label: m.Name}
		if m.Sign+m.Exponent+m.Mantissa > 0 {
			bar.Parts = []page.Part{{Name: "sign", Value: m.Sign}, {Name: "exponent", Value: m.Exponent}, {Name: "mantissa", Value: m.Mantissa}}
		} else {
			name := "whole, general compressor"
			if m.Ours {
				name = "whole, this program"
			}
			bar.Parts = []page.Part{{Name: name, Value: m.BitsPerWeight}}
		}
		size.Items = append(size.Items, bar)
		encode.Items = append(encode.Items, page.Bar{Label: m.Name, Parts: []page.Part{{Value: m.EncodeMBs}}})
		decode := "–"
		if m.DecodeMBs > 0 {
			decode = fmt.Sprintf("%.0f", m.DecodeMBs)
		}
		over := func(v float64) page.Cell {
			cell := page.Cell{Text: fmt.Sprintf("%+.2f %%", v)}
			if v < 0 {
				cell.Mark = page.Yes
			}
			return cell
		}
		table.Rows = append(table.Rows, []page.Cell{{Text: m.Name}, {Text: bits(m.BitsPerWeight)}, {Text: bits(m.Ratio)},
			over(m.OverBound), over(m.OverJoint), {Text: fmt.Sprintf("%.1f", m.EncodeMBs)}, {Text: decode}})
	}
	size.Items = append(size.Items,
		page.Bar{Label: "order-0 entropy", Parts: []page.Part{{Name: "sign", Value: c.fields.Sign}, {Name: "exponent", Value: c.fields.Exponent},
			{Name: "mantissa", Value: c.Bound - c.fields.Sign - c.fields.Exponent}}})
	p.Sections = append(p.Sections,
		page.Section{Title: "Bits per weight", Bars: size,
			Text: "Shorter is better. plain, bitplane and group_by_exp give sign, exponent and mantissa to LZMA one by one: the mantissas as words, as planes of bits, or sorted by exponent. The last bar is a bound for coders that see one field of one weight at a time."},
		page.Section{Title: "Speed of encoding", Bars: encode, Text: "Raw megabytes per second, one thread, on this machine, measured once."},
		page.Section{Title: "All figures", Table: table,
			Text: "Order 0 is the entropy of sign, exponent and each bit of the mantissa as if nothing depended on anything else, tensor by tensor; joint takes the exponent and the highest bit of the mantissa as one symbol, as levels of this program do. Neither is a floor: methods that see structure between weights go below them (✓)."},
		entropySection(c), tensorSection(c))
	return page.Write(w, p)
}

// entropySection draws the entropy of each bit of the weights, by type.
func entropySection(c *comparison) page.Section {
	type sum struct {
		weights float64
		fields  entropies
	}
	byType := map[string]*sum{}
	var order []string
	for _, t := range c.Each {
		name := t.DType.String()
		s := byType[name]
		if s == nil {
			s = &sum{fields: entropies{Planes: make([]float64, len(t.Fields.Planes))}}
			byType[name] = s
			order = append(order, name)
		}
		n := float64(t.weights)
		s.weights += n
		s.fields.Sign += n * t.Fields.Sign
		s.fields.Exponent += n * t.Fields.Exponent
		for i, p := range t.Fields.Planes {
			s.fields.Planes[i] += n * p
		}
	}
	bars := &page.Bars{Format: func(v float64) string { return fmt.Sprintf("%.4f", v) }}
	for _, name := range order {
		s := byType[name]
		add := func(label, part string, v float64) {
			bars.Items = append(bars.Items, page.Bar{Label: name + " " + label, Parts: []page.Part{{Name: part, Value: v / s.weights}}})
		}
		add("sign", "sign", s.fields.Sign)
		add("exponent", "exponent", s.fields.Exponent)
		for i, p := range s.fields.Planes {
			add(fmt.Sprintf("mantissa bit %d", len(s.fields.Planes)-1-i), "mantissa", p)
		}
	}
	return page.Section{Title: "Entropy of fields and planes", Bars: bars,
		Text: "Bits per weight, the mean over tensors of one type. A mantissa bit near 1 is noise that nothing can shorten."}
}

func tensorSection(c *comparison) page.Section {
	table := &page.Table{Head: []string{"tensor", "type and shape", "H(sign)", "H(exponent)", "H(mantissa)", "order 0", "joint"}}
	for _, m := range c.Methods {
		table.Head = append(table.Head, m.Name)
	}
	for _, t := range c.Each {
		row := []page.Cell{{Text: t.Name}, {Text: fmt.Sprintf("%v%v", t.DType, t.Shape)}}
		for _, v := range append([]float64{t.Fields.Sign, t.Fields.Exponent, t.Fields.mantissa(), t.Bound, t.Joint}, t.Bits...) {
			row = append(row, page.Cell{Text: fmt.Sprintf("%.3f", v)})
		}
		table.Rows = append(table.Rows, row)
	}
	return page.Section{Title: "Tensor by tensor, bits per weight", Table: table, Folded: true}
}
