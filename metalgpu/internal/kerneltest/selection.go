package kerneltest

import (
	"fmt"
	"sort"

	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/tensor"
)

func selection(g *gen) []Case {
	rows, width := g.between(1, 4), g.between(1, 700)
	count := g.between(1, min(width, 20))
	x := g.floats(rows*width, spice(g.IntN(3)), tensor.BF16) // has equal values
	var first, values, places []uint32
	for r := range rows {
		row := x[r*width : (r+1)*width]
		order := make([]int, width)
		for i := range order {
			order[i] = i
		}
		sort.SliceStable(order, func(i, j int) bool {
			a, b := row[order[i]], row[order[j]]
			return a > b || a == a && b != b
		})
		first = append(first, uint32(order[0]))
		for _, i := range order[:count] {
			values, places = append(values, words(row[i:i+1])...), append(places, uint32(i))
		}
	}
	return []Case{
		{
			Name: fmt.Sprintf("argmax of %d×%d", rows, width), Buffers: [][]uint32{words(x), blank(rows)},
			Steps: []Step{step("argmax", []int{0, 1}, rows, width)}, Want: map[int][]uint32{1: first},
		},
		{
			Name: fmt.Sprintf("topk %d of %d×%d", count, rows, width), Buffers: [][]uint32{words(x), blank(rows * count), blank(rows * count)},
			Steps: []Step{step("topk", []int{0, 1, 2}, rows, width, count)}, Want: map[int][]uint32{1: values, 2: places},
		},
	}
}

// probes asks the self-test's questions, the exact ones and the others apart.
func probes(*gen) []Case {
	a, b, c := kernel.ProbeInputs()
	all := kernel.Probes()
	want := make([]uint32, len(all)*len(a))
	slack := uint32(0)
	for j, p := range all {
		slack = max(slack, p.Slack)
		for i := range a {
			want[j*len(a)+i] = p.Want(a[i], b[i], c[i])
		}
	}
	return []Case{{
		Name: "probe", Buffers: [][]uint32{a, b, c, blank(len(want))},
		Steps: []Step{step("probe", []int{0, 1, 2, 3}, len(a))},
		Want:  map[int][]uint32{3: want}, Slack: slack,
	}}
}
