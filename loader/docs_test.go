package loader_test

import (
	"os"
	"strings"
	"testing"
)

// The page lists what the library accepts and we refuse; it must not fall behind
// the table that is tested.
func TestDependenciesPageListsTheDifferences(t *testing.T) {
	page, err := os.ReadFile("../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, c := range hostile {
		inPage := strings.Contains(string(page), "\n| "+c.name+" |")
		if inPage != c.library {
			t.Errorf("%q: listed %v, accepted by the library %v", c.name, inPage, c.library)
		}
		if inPage {
			listed++
		}
	}
	if listed == 0 {
		t.Error("the page lists nothing")
	}
}
