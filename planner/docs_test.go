package planner

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hfcompress/compress/internal/thousands"
)

var update = flag.Bool("update", false, "write the table of docs/planner.md anew")

const (
	tableBegin = "<!-- counted by the planner's tests -->\n"
	tableEnd   = "<!-- end -->\n"
)

// The table of docs/planner.md is what the planner counts.
func TestDocsTable(t *testing.T) {
	name := filepath.Join("..", "docs", "planner.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("%s has no table", name)
	}
	want := before + tableBegin + docsTable(t) + tableEnd + after
	if string(text) == want {
		return
	}
	if !*update {
		t.Fatalf("the table of %s is not what is counted: go test ./planner -run TestDocsTable -update", name)
	}
	if err := os.WriteFile(name, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}

func docsTable(t *testing.T) string {
	files, err := filepath.Glob(filepath.Join("testdata", "models", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| headers of | family | pass | domain × columns | bytes before | after | saved | share | pays up to | verdict |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range files {
		model := strings.TrimSuffix(filepath.Base(f), ".txt")
		p := plan(t, model, Options{})
		for _, q := range p.Passes {
			domain, pays := "–", "–"
			if q.Rows > 0 {
				domain = thousands.Group(q.Rows) + " × " + thousands.Group(q.Columns)
			}
			if q.BreakEven != nil {
				pays = thousands.Group(q.BreakEven.Largest) + " " + q.BreakEven.Unit
			}
			saved, share := thousands.Group(q.Saved.Bytes), fmt.Sprintf("%.2f %%", 100*q.Share)
			if q.Verdict == Refused {
				share = "–"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", model, p.Family, q.Title, domain,
				thousands.Group(q.Before.Bytes), thousands.Group(q.After.Bytes), saved, share, pays, q.Verdict)
		}
	}
	return b.String()
}

// Every difference from the survey is told in the document too.
func TestDocsTellDifferences(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "planner.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.why != "" && !strings.Contains(string(text), "`"+c.model+"`") {
			t.Errorf("docs/planner.md does not mention `%s`, which differs from the survey: %s", c.model, c.why)
		}
	}
}
