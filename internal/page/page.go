// Package page renders reports as one HTML file that needs no network: text,
// tables, and drawings as inline SVG. It knows nothing of models.
package page

import (
	_ "embed"
	"html/template"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// Page is a report for people.
type Page struct {
	Title, Subtitle string
	// Verdict is the one sentence to read if nothing else is read.
	Verdict string
	// Good colours the verdict.
	Good     bool
	Facts    []Fact
	Sections []Section
}

// Fact is a short name with a short value.
type Fact struct{ Name, Value string }

// Section is a headed part of a page with at most one of each drawing.
type Section struct {
	Title string
	// Text is a paragraph under the title.
	Text      string
	Bars      *Bars
	Histogram *Histogram
	Table     *Table
	// Folded hides the table behind its title until it is asked for.
	Folded bool
}

// Bars compares quantities as stacked horizontal bars on one scale.
type Bars struct {
	// Format writes a value with its unit.
	Format func(float64) string
	Items  []Bar
}

// Bar is one line of [Bars].
type Bar struct {
	Label string
	Parts []Part
}

// Part is a piece of a stacked bar. Parts of the same name have the same colour;
// a part without a name is not in the legend.
type Part struct {
	Name  string
	Value float64
}

// Histogram counts positive values in decades.
type Histogram struct {
	// Label names the quantity.
	Label  string
	Values []float64
}

// Table is a table; its first column is a heading of the row.
type Table struct {
	Head []string
	Rows [][]Cell
}

// Cell is a table cell.
type Cell struct {
	Text string
	Mark Mark
}

// Mark says how a cell is to be taken; it shows as a sign as well as a colour.
type Mark uint8

const (
	// Plain is ordinary text.
	Plain Mark = iota
	// Yes and No mark what held and what did not.
	Yes
	No
)

//go:embed page.html
var source string

var tmpl = template.Must(template.New("page").Funcs(template.FuncMap{
	"bars":      layoutBars,
	"histogram": layoutHistogram,
	"sign":      func(m Mark) string { return [...]string{"", "✓ ", "✗ "}[m] },
	"class":     func(m Mark) string { return [...]string{"", "yes", "no"}[m] },
}).Parse(source))

// Write renders p.
func Write(w io.Writer, p *Page) error {
	return tmpl.Execute(w, struct {
		*Page
		Colours [colours]struct{}
	}{Page: p})
}

// Geometry of the drawings, in SVG units.
const (
	barWidth   = 560.0
	barHeight  = 26.0
	barGap     = 22.0
	labelWidth = 190.0
)

type drawnPart struct {
	X, Y, W float64
	Colour  int
	Name    string
	Value   string
}

type drawnBar struct {
	Y            float64
	Label, Total string
	TotalX       float64
	Parts        []drawnPart
}

type drawing struct {
	Width, Height float64
	Bars          []drawnBar
	Legend        []drawnPart
	Label         string
}

// colours is how many colours the style sheet has for parts.
const colours = 6

func layoutBars(b *Bars) drawing {
	longest := 0.0
	colourOf := map[string]int{}
	var legend []drawnPart
	for _, bar := range b.Items {
		total := 0.0
		for _, p := range bar.Parts {
			total += p.Value
			if _, known := colourOf[p.Name]; !known {
				colourOf[p.Name] = len(colourOf) % colours
				if p.Name != "" {
					legend = append(legend, drawnPart{Colour: colourOf[p.Name], Name: p.Name})
				}
			}
		}
		longest = max(longest, total)
	}
	if longest == 0 {
		longest = 1
	}
	left := labelWidth
	for _, bar := range b.Items { // 13 px letters are about 7 wide
		left = max(left, min(7.2*float64(utf8.RuneCountInString(bar.Label))+12, 2*labelWidth))
	}
	d := drawing{Width: left + barWidth + 130, Legend: legend}
	for i, bar := range b.Items {
		y := float64(i) * (barHeight + barGap)
		drawn := drawnBar{Y: y, Label: bar.Label}
		x, total := left, 0.0
		for _, p := range bar.Parts {
			w := p.Value / longest * barWidth
			drawn.Parts = append(drawn.Parts, drawnPart{
				X: round(x), Y: y, W: round(max(w, 0.5)), Colour: colourOf[p.Name], Name: p.Name, Value: b.Format(p.Value),
			})
			x += w
			total += p.Value
		}
		drawn.Total, drawn.TotalX = b.Format(total), round(x+8)
		d.Bars = append(d.Bars, drawn)
	}
	d.Height = float64(len(b.Items))*(barHeight+barGap) - barGap
	return d
}

func layoutHistogram(h *Histogram) drawing {
	zero, counts := 0, map[int]int{}
	low, high := math.MaxInt, math.MinInt
	for _, v := range h.Values {
		if v <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			zero++
			continue
		}
		e := int(math.Floor(math.Log10(v)))
		counts[e]++
		low, high = min(low, e), max(high, e)
	}
	b := &Bars{Format: func(v float64) string { return strconv.Itoa(int(v)) }}
	if zero > 0 {
		b.Items = append(b.Items, Bar{"exactly 0", []Part{{"", float64(zero)}}})
	}
	for e := low; e <= high; e++ {
		b.Items = append(b.Items, Bar{power(e) + " … " + power(e+1), []Part{{"", float64(counts[e])}}})
	}
	d := layoutBars(b)
	d.Label = h.Label
	return d
}

// power writes a power of ten.
func power(e int) string {
	digits := []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")
	out := "10"
	for _, c := range strconv.Itoa(e) {
		if c == '-' {
			out += "⁻"
		} else {
			out += string(digits[c-'0'])
		}
	}
	return out
}

func round(v float64) float64 { return math.Round(v*10) / 10 }
