package gemm

import (
	"fmt"
	"sync"
)

// Order says how the products of one output are added up.
type Order uint8

const (
	// Sequential adds them one after the other in k order.
	Sequential Order = iota
	// Chunks4 cuts k into four runs of ⌈K/4⌉ (the last ones may be shorter or
	// empty), sums each in k order and adds the sums: ((c0+c1)+c2)+c3.
	Chunks4
	// Lanes8 gives product k to lane k mod 8, sums each lane in k order and adds
	// the lanes: ((l0+l1)+(l2+l3)) + ((l4+l5)+(l6+l7)).
	Lanes8
)

// Runner calls task once for each of 0 … n−1, possibly at the same time, and
// returns when all are done. It may leave tasks out only if the results will not
// be used.
type Runner func(n int, task func(i int))

func inline(n int, task func(i int)) {
	for i := range n {
		task(i)
	}
}

// taskWork is the number of multiplications that are worth a task of their own:
// starting a goroutine costs about as much as some thousand.
const taskWork = 1 << 17

// Mul sets y, row-major [rows, Outputs], to x·wᵀ for x row-major [rows, Inputs].
// A nil run does everything in the calling goroutine. Results do not depend on
// run.
func (m *Matrix) Mul(y, x []float32, rows int, order Order, run Runner) {
	if rows < 0 || len(x) != rows*m.k || len(y) != rows*m.n {
		panic(fmt.Sprintf("gemm: x has %d values and y %d for %d rows of [%d,%d]", len(x), len(y), rows, m.n, m.k))
	}
	if rows == 0 || m.n == 0 {
		return
	}
	if m.k == 0 { // no products: every sum is +0
		clear(y)
		return
	}
	if run == nil {
		run = inline
	}
	g := newGrid(rows, m)
	a := x
	if rows > 1 {
		buf := getBuffer(rows * m.k)
		defer putBuffer(buf)
		a = (*buf)[:rows*m.k]
		for b := range g.blocks {
			lo, hi := g.block(b)
			interleave(a[lo*m.k:hi*m.k], x[lo*m.k:hi*m.k], hi-lo, m.k, m.k)
		}
	}
	if g.tasks() == 1 {
		m.mulTask(y, a, g, 0, order)
		return
	}
	run(g.tasks(), func(i int) { m.mulTask(y, a, g, i, order) })
}

// mulTask computes one rectangle of the grid, a stripe of panels after the other,
// so that a stripe stays in cache while all blocks of rows pass over it.
func (m *Matrix) mulTask(y, a []float32, g grid, task int, order Order) {
	var part *partials
	if order != Sequential {
		part = partialsPool.Get().(*partials)
		defer partialsPool.Put(part)
	}
	blocks, panels := g.task(task)
	var room []float32
	if m.narrow != nil {
		buf := getBuffer(maxTilePanels * PanelWidth * m.k)
		defer putBuffer(buf)
		room = *buf
	}
	for p := panels.lo; p < panels.hi; p += maxTilePanels {
		wide := min(maxTilePanels, panels.hi-p)
		j := p * PanelWidth
		weights := m.stripe(p, p+wide, room)
		for b := blocks.lo; b < blocks.hi; b++ {
			lo, hi := g.block(b)
			t := tile{
				rows: hi - lo, k: m.k,
				a: a[lo*m.k : hi*m.k], aStep: hi - lo,
				bStep: PanelWidth, bPanel: PanelWidth * m.k,
			}
			t.strip(wide, min(wide*PanelWidth, m.n-j), weights, y[lo*m.n+j:], m.n, order, part)
		}
	}
}

// grid cuts the rows into blocks that one tile takes at a time, and the output
// into tasks.
type grid struct {
	rows, blocks, panels int
	rowTasks, panelTasks int
}

func newGrid(rows int, m *Matrix) grid {
	g := grid{rows: rows}
	g.blocks = (rows + active.rows - 1) / active.rows
	g.panels = (m.n + PanelWidth - 1) / PanelWidth
	// A task's rows should stay in the second-level cache while it passes over
	// its panels; more row tasks than blocks make no sense.
	const cacheFloats = 1 << 16
	g.rowTasks = min(g.blocks, max(1, rows*m.k/cacheFloats))
	perPanel := max(1, rows/g.rowTasks*m.k*PanelWidth)
	panelsPerTask := max(maxTilePanels, taskWork/perPanel/maxTilePanels*maxTilePanels)
	g.panelTasks = max(1, (g.panels+panelsPerTask-1)/panelsPerTask)
	return g
}

func (g grid) tasks() int { return g.rowTasks * g.panelTasks }

type span struct{ lo, hi int }

func (g grid) task(i int) (blocks, panels span) {
	r, p := i/g.panelTasks, i%g.panelTasks
	stripes := (g.panels + maxTilePanels - 1) / maxTilePanels
	cut := func(n, parts, part int) int { return n * part / parts }
	blocks = span{cut(g.blocks, g.rowTasks, r), cut(g.blocks, g.rowTasks, r+1)}
	panels = span{
		min(g.panels, cut(stripes, g.panelTasks, p)*maxTilePanels),
		min(g.panels, cut(stripes, g.panelTasks, p+1)*maxTilePanels),
	}
	return blocks, panels
}

// block returns the rows of block b: all blocks have the same size give or take
// one, so that no tile is nearly empty.
func (g grid) block(b int) (lo, hi int) {
	return g.rows * b / g.blocks, g.rows * (b + 1) / g.blocks
}

// interleave transposes rows of length k that lie ld apart, so that a tile finds the values of
// all its rows for one k side by side.
func interleave(dst, src []float32, rows, k, ld int) {
	for r := range rows {
		row := src[r*ld:][:k]
		d := dst[r:]
		for i, v := range row {
			d[i*rows] = v
		}
	}
}

var buffers sync.Pool

func getBuffer(n int) *[]float32 {
	if b, ok := buffers.Get().(*[]float32); ok && cap(*b) >= n {
		return b
	}
	b := make([]float32, n)
	return &b
}

func putBuffer(b *[]float32) {
	*b = (*b)[:cap(*b)]
	buffers.Put(b)
}
