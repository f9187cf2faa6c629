package gemm

import (
	"fmt"
	"runtime"
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
// waking another goroutine costs about as much as a hundred thousand.
const taskWork = 1 << 19

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
	defer runtime.KeepAlive(m) // panels live as long
	g := newGrid(rows, m)
	c := &call{m: m, grid: g, order: order, y: y, x: x}
	if m.pairs != nil && active.pairs != nil && order == Sequential {
		steps := (m.k + 1) / 2
		buf := pairBuffers.get(rows * steps)
		defer pairBuffers.put(buf)
		c.pairs, c.spans = (*buf)[:rows*steps], make([]exponents, g.blocks)
		c.eachBlock(run, c.pairBlock)
	} else {
		c.interleave(run)
	}
	defer c.release()
	if g.tasks() == 1 {
		c.task(0)
		return
	}
	run(g.tasks(), c.task)
}

// call is one [Matrix.Mul].
type call struct {
	grid
	m     *Matrix
	order Order
	y, x  []float32

	// a holds x with the rows of each block interleaved; buf is where it lies.
	a    []float32
	buf  *[]float32
	once sync.Once
	// pairs holds x in pairs and interleaved, and spans the exponents of each
	// block. Both are nil if pairs are not to be multiplied.
	pairs []uint32
	spans []exponents
}

// eachBlock calls f for each block of rows, several to a task.
func (c *call) eachBlock(run Runner, f func(block int)) {
	tasks := min(c.blocks, c.rows*c.m.k*8/taskWork)
	if tasks <= 1 {
		inline(c.blocks, f)
		return
	}
	run(tasks, func(i int) {
		for b := c.blocks * i / tasks; b < c.blocks*(i+1)/tasks; b++ {
			f(b)
		}
	})
}

// interleave fills a.
func (c *call) interleave(run Runner) {
	if c.rows == 1 {
		c.a = c.x
		return
	}
	k := c.m.k
	c.buf = getBuffer(c.rows * k)
	c.a = (*c.buf)[:c.rows*k]
	c.eachBlock(run, func(b int) {
		lo, hi := block(c.rows, c.blocks, b)
		interleave(c.a[lo*k:hi*k], c.x[lo*k:hi*k], hi-lo, k, k)
	})
}

func (c *call) release() {
	if c.buf != nil {
		putBuffer(c.buf)
	}
}

// pairBlock fills a block of pairs.
func (c *call) pairBlock(b int) {
	lo, hi := block(c.rows, c.blocks, b)
	k, steps := c.m.k, (c.m.k+1)/2
	seen := newSpread()
	dst := c.pairs[lo*steps : hi*steps]
	if hi-lo == 1 {
		pairUp(dst, c.x[lo*k:hi*k], seen)
	} else {
		buf := pairBuffers.get(len(dst))
		defer pairBuffers.put(buf)
		rows := (*buf)[:len(dst)]
		for r := range hi - lo {
			pairUp(rows[r*steps:][:steps], c.x[(lo+r)*k:][:k], seen)
		}
		interleave(dst, rows, hi-lo, steps, steps)
	}
	c.spans[b] = seen.exponents()
}

// task computes one rectangle of the grid, a stripe of panels after the other, so
// that a stripe stays in cache while all blocks of rows pass over it.
func (c *call) task(i int) {
	w := worker{call: c}
	defer w.release()
	blocks, panels := c.grid.task(i)
	for p := panels.lo; p < panels.hi; p += maxTilePanels {
		w.weights = nil
		for b := blocks.lo; b < blocks.hi; b++ {
			wide := min(maxTilePanels, panels.hi-p)
			if c.pairs != nil && c.spans[b].exact(c.m.spans[p/maxTilePanels]) {
				w.paired(p, wide, b)
			} else {
				w.plain(p, wide, b)
			}
		}
	}
}

// worker is what a task computes with.
type worker struct {
	*call
	tile  tile[float32]
	pairs tile[uint32]
	// weights are the values of the current stripe, once they are needed; room is
	// for those of narrow matrices.
	weights []float32
	room    *[]float32
	run     func(*tile[float32])
	part    *partials
}

func (w *worker) release() {
	if w.room != nil {
		putBuffer(w.room)
	}
	if w.part != nil {
		partialsPool.Put(w.part)
	}
}

// paired multiplies block b with the pairs of a stripe.
func (w *worker) paired(p, panels, b int) {
	steps := (w.m.k + 1) / 2
	lo, hi := block(w.rows, w.blocks, b)
	t := &w.pairs
	*t = tile[uint32]{
		rows: hi - lo, k: steps,
		a: w.call.pairs[lo*steps : hi*steps], aStep: hi - lo,
		bStep: PanelWidth, bPanel: PanelWidth * steps,
	}
	j := p * PanelWidth
	t.strip(panels, min(panels*PanelWidth, w.m.n-j), active.panels[t.rows],
		w.m.pairs[p*t.bPanel:(p+panels)*t.bPanel], w.y[lo*w.m.n+j:], w.m.n, active.pairs)
}

// plain multiplies block b with a stripe in float32.
func (w *worker) plain(p, panels, b int) {
	k := w.m.k
	if w.call.pairs != nil {
		w.once.Do(func() { w.interleave(inline) })
	}
	if w.run == nil {
		if w.order != Sequential {
			w.part = partialsPool.Get().(*partials)
		}
		w.run = summation(w.order, w.part)
	}
	if w.weights == nil {
		if w.room == nil && !w.m.wide() {
			w.room = getBuffer(maxTilePanels * w.m.panelSize())
		}
		var room []float32
		if w.room != nil {
			room = *w.room
		}
		w.weights = w.m.stripe(p, p+panels, room)
	}
	lo, hi := block(w.rows, w.blocks, b)
	t := &w.tile
	*t = tile[float32]{
		rows: hi - lo, k: k,
		a: w.a[lo*k : hi*k], aStep: hi - lo,
		bStep: PanelWidth, bPanel: w.m.panelSize(),
	}
	j := p * PanelWidth
	t.strip(panels, min(panels*PanelWidth, w.m.n-j), panelsOf(t.rows, w.order),
		w.weights, w.y[lo*w.m.n+j:], w.m.n, w.run)
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

// block returns the rows of block b of so many. Blocks are multiples of four rows,
// as transposing likes them, and differ by no more, so that no tile is nearly
// empty.
func block(rows, blocks, b int) (lo, hi int) {
	fours := (rows + 3) / 4
	if fours < 2*blocks { // small tiles
		return rows * b / blocks, rows * (b + 1) / blocks
	}
	return 4 * (fours * b / blocks), min(rows, 4*(fours*(b+1)/blocks))
}

// bufferPool keeps slices for later calls.
type bufferPool[T element] struct{ pool sync.Pool }

// get returns room for n values or more, with undefined contents.
func (p *bufferPool[T]) get(n int) *[]T {
	if b, ok := p.pool.Get().(*[]T); ok && len(*b) >= n {
		return b
	}
	b := make([]T, n)
	return &b
}

func (p *bufferPool[T]) put(b *[]T) { p.pool.Put(b) }

var (
	buffers     bufferPool[float32]
	pairBuffers bufferPool[uint32]
)

func getBuffer(n int) *[]float32 { return buffers.get(n) }

func putBuffer(b *[]float32) { buffers.put(b) }
