package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
)

func sample() *Page {
	format := func(v float64) string { return strconv.Itoa(int(v)) + " B" }
	return &Page{
		Title:    `<script>alert("x")</script>`,
		Subtitle: "a model",
		Verdict:  "Equal in every byte.",
		Good:     true,
		Facts:    []Fact{{"Commit", "abc"}},
		Sections: []Section{
			{Title: "Sizes", Bars: &Bars{format, []Bar{{"before", []Part{{"rest", 75}, {"block", 25}}}, {"after", []Part{{"rest", 75}, {"tables", 5}}}}}},
			{Title: "Margins", Histogram: &Histogram{"margin", []float64{0, 1e-3, 2e-3, 5}}},
			{Title: "Examples", Folded: true, Table: &Table{[]string{"name", "bitwise"}, [][]Cell{{{"a & b", Plain}, {"yes", Yes}}, {{"c", Plain}, {"no", No}}}}},
		},
	}
}

func TestWellFormedAndEscaped(t *testing.T) {
	var buf bytes.Buffer
	if err := Write(&buf, sample()); err != nil {
		t.Fatal(err)
	}
	text := buf.String()
	if strings.Contains(text, "<script>") {
		t.Error("a title was not escaped")
	}
	for _, outside := range []string{"http://", "https://", "src=", "@import", "url("} {
		if strings.Contains(text, outside) {
			t.Errorf("the page reaches outside: %s", outside)
		}
	}
	dec := xml.NewDecoder(strings.NewReader(text))
	dec.Strict = false
	dec.AutoClose = []string{"meta"}
	dec.Entity = xml.HTMLEntity
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("tags do not match: %v", err)
		}
	}
}

func TestBarsShareOneScale(t *testing.T) {
	d := layoutBars(sample().Sections[0].Bars)
	before, after := d.Bars[0], d.Bars[1]
	if before.Parts[0].W != after.Parts[0].W {
		t.Errorf("equal values drawn %v and %v wide", before.Parts[0].W, after.Parts[0].W)
	}
	if before.Parts[1].Colour == after.Parts[1].Colour || before.Parts[0].Colour != after.Parts[0].Colour {
		t.Error("colours do not follow names")
	}
	if got := before.Parts[0].W + before.Parts[1].W; got != barWidth {
		t.Errorf("the longest bar is %v wide", got)
	}
	if before.Total != "100 B" {
		t.Errorf("total %q", before.Total)
	}
}

func TestBarsBeginAfterLabels(t *testing.T) {
	items := []Bar{{Label: "a", Parts: []Part{{Value: 1}}}, {Label: "F8_E4M3FNUZ mantissa bit 2", Parts: []Part{{Value: 2}}}}
	d := layoutBars(&Bars{Items: items, Format: func(float64) string { return "" }})
	if x := d.Bars[0].Parts[0].X; x < 7.2*26 || x != d.Bars[1].Parts[0].X || d.Width != x+barWidth+130 {
		t.Errorf("bars begin at %v, and the drawing is %v wide", x, d.Width)
	}
}

func TestHistogramCountsDecades(t *testing.T) {
	d := layoutHistogram(sample().Sections[1].Histogram)
	var got []string
	for _, b := range d.Bars {
		got = append(got, b.Label+"="+b.Total)
	}
	want := "exactly 0=1 10⁻³ … 10⁻²=2 10⁻² … 10⁻¹=0 10⁻¹ … 10⁰=0 10⁰ … 10¹=1"
	if strings.Join(got, " ") != want {
		t.Errorf("got %s", strings.Join(got, " "))
	}
	if d := layoutHistogram(&Histogram{}); len(d.Bars) != 0 {
		t.Error("bars from nothing")
	}
}
