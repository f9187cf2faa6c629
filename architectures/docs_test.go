package architectures_test

import (
	"os"
	"strings"
	"testing"
)

// TestDocListings holds the listings of the guide against the example that runs.
func TestDocListings(t *testing.T) {
	read := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	source := read("example_test.go")
	parts := strings.Split(read("../docs/adding-an-architecture.md"), "```")
	listings := 0
	for i := 1; i < len(parts); i += 2 {
		code, isGo := strings.CutPrefix(parts[i], "go\n")
		if !isGo {
			continue
		}
		listings++
		if !strings.Contains(source, code) {
			t.Errorf("not in example_test.go:\n%s", code)
		}
	}
	if listings < 5 {
		t.Errorf("%d listings found", listings)
	}
}
