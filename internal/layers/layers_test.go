// Package layers holds the test that keeps the project's imports pointing one
// way. The order is that of docs/design.md.
package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hfcompress/compress"

// allowed lists, for each room, the rooms of the module that it may import.
// Sub-packages belong to the room with the longest matching name; a room may
// always import its own sub-packages. What is internal to a room is not listed:
// the compiler guards that.
var allowed = map[string][]string{
	"tensor":            {},
	"hub":               {"hub/xet", "internal/ramp"},
	"hub/hubtest":       {"hub", "hub/xet", "hub/xet/xettest"},
	"hub/xet":           {"internal/ramp"},
	"hub/xet/xettest":   {"hub/xet"},
	"loader":            {"tensor"},
	"internal/fmath":    {},
	"internal/gemm":     {},
	"internal/longconv": {},
	"internal/shapes":   {"tensor", "loader"},
	"internal/headers":  {"tensor"},
	"architectures/nn":  {"tensor", "loader", "internal/fmath", "internal/gemm", "internal/longconv"},
	"architectures":     {"internal/strictjson", "tensor", "loader", "architectures/nn", "internal/fmath"},
	"pack/xortable":     {"internal/strictjson", "tensor"},
	"pack/floatcodec":   {"tensor"},
	"pack/archive":      {"tensor", "loader", "pack/floatcodec"},
	"pack":              {"tensor", "internal/strictjson", "pack/xortable", "pack/floatcodec", "pack/archive"},
	"validation":        {"internal/strictjson", "tensor", "architectures", "architectures/nn"},
	"finitepass":        {"internal/thousands", "internal/strictjson", "tensor", "loader", "architectures", "architectures/nn", "pack/xortable", "validation"},
	"planner":           {"internal/thousands", "tensor", "loader", "architectures", "architectures/nn", "finitepass"},
	"metalgpu":          {"tensor", "architectures/nn", "internal/fmath", "internal/longconv", "internal/longconv", "pack/xortable", "internal/strictjson"},

	"internal/demomodel": {},
	"internal/page":      {},
	"internal/ramp":      {},
	"internal/layers":    {},

	"internal/strictjson": {},
	"internal/thousands":  {},
	// The root is the road: it may import every room but the command's.
	"": {"internal/thousands", "tensor", "hub", "loader", "architectures", "architectures/nn", "pack", "pack/xortable",
		"pack/floatcodec", "pack/archive", "validation", "finitepass", "planner", "metalgpu", "internal/page"},
	"cmd": {"", "tensor", "hub", "hub/hubtest", "loader", "architectures", "architectures/nn", "pack",
		"pack/xortable", "pack/floatcodec", "pack/archive", "validation", "finitepass", "planner", "metalgpu", "internal/demomodel", "internal/page"},
	"testdata": {"tensor", "loader", "internal/shapes"},
	"bench":    {"", "tensor", "hub", "hub/hubtest", "loader", "architectures", "architectures/nn", "pack", "pack/floatcodec", "pack/archive", "metalgpu", "metalgpu/speed", "internal/gemm", "internal/fmath"},
}

func TestImportsPointDown(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen++
		from, ok := room(pkg.ImportPath)
		if !ok {
			t.Errorf("%s belongs to no room: add it to the list and to docs/design.md", pkg.ImportPath)
			continue
		}
		for _, path := range pkg.Imports {
			to, ours := room(path)
			if !ours || to == from || slices.Contains(allowed[from], to) {
				continue
			}
			t.Errorf("%s (room %q) imports %s (room %q)", pkg.ImportPath, from, path, to)
		}
	}
	if seen < len(allowed)/2 {
		t.Fatalf("only %d packages were listed", seen)
	}
}

// room returns the longest listed name that path lies under; the root only for
// itself.
func room(path string) (string, bool) {
	if path == module {
		return "", true
	}
	name, ok := strings.CutPrefix(path, module+"/")
	for ok {
		if _, listed := allowed[name]; listed {
			return name, true
		}
		cut := strings.LastIndexByte(name, '/')
		if cut < 0 {
			return "", false
		}
		name = name[:cut]
	}
	return "", false
}
