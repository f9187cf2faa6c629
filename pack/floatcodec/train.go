package floatcodec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/tensor"
)

// Trainer makes the model of one tensor from a sample of its chunks, so that a
// tensor need not be in memory as a whole. Feed it the chunks that
// [Trainer.Sample] lists, in that order, then call [Trainer.Model]. The model
// depends on nothing else: not on speed, threads or architecture. A Trainer is
// for one goroutine, but Model starts [Options].Workers of its own.
type Trainer struct {
	dtype  tensor.DType
	shape  tensor.Shape
	opts   Options
	model  *Model // size and chunking only
	sample []int
	added  int
	blocks []sampleBlock
	trial  []byte       // a stretch from the middle of the sample
	scales []*scaleSums // of rows and columns, for candidates of what a row is
	ahead  []byte       // what is needed soon after
}

// sampleBlock is a stretch of at most blockLen sampled elements.
type sampleBlock struct {
	first int64 // index of the first element in the tensor
	n     int   // elements
	raw   []byte
}

// NewTrainer prepares the training for a tensor of size bytes. The shape guides
// the level [Max]; it may be nil, and is ignored if it does not describe size
// bytes of type d. Any size is fine: bytes after the last whole element are kept
// too. An error wraps [tensor.ErrDType] if d is not a type, or reports a negative
// size.
func NewTrainer(d tensor.DType, shape tensor.Shape, size int64, opts Options) (*Trainer, error) {
	if d.Bits() == 0 {
		return nil, fmt.Errorf("%w %v", tensor.ErrDType, d)
	}
	if size < 0 {
		return nil, fmt.Errorf("floatcodec: negative size %d", size)
	}
	if opts.Level > Max {
		return nil, fmt.Errorf("floatcodec: unknown level %v", opts.Level)
	}
	t := &Trainer{dtype: d, shape: shape, opts: opts}
	if n, err := shape.Bytes(d); err != nil || int64(n) != size || len(shape) == 0 {
		t.shape = nil
	}
	t.model = &Model{layout: layoutsFor(d)[0], size: size, chunkLog: chunkLog, level: opts.Level}
	chunks := t.model.Chunks()
	take := chunks
	if opts.Level == Max && t.shape != nil {
		matrix := slices.Clone(t.shape)
		if d == tensor.C64 { // the codec's elements are its two floats
			matrix[len(matrix)-1] *= 2
		}
		t.scales = newScales(matrix)
	}
	if t.scales == nil {
		take = min(chunks, sampleChunks[opts.Level])
	}
	for i := range take {
		t.sample = append(t.sample, int(int64(i)*int64(chunks)/int64(take)))
	}
	return t, nil
}

// How much of a tensor each level looks at before it fixes the tables.
var (
	sampleChunks = [...]int{Fast: 16, Dense: 64, Max: 256}
	sampleBlocks = [...]int{Fast: 384, Dense: 2048, Max: 8192}
)

// Sample returns the indices of the chunks to feed, in ascending order: all of
// them for [Max] with a shape of two or more axes, at most 256 otherwise. Their sizes are those of the model: [ChunkElements] elements each, the last chunk
// with what is left.
func (t *Trainer) Sample() []int { return t.sample }

// ChunkRange returns where chunk i lies in the tensor's bytes.
func (t *Trainer) ChunkRange(i int) (offset int64, size int) {
	return t.model.ChunkRange(i)
}

// Add feeds the bytes of the next chunk of the sample. It keeps copies of what it
// needs. A chunk that is not next, or has the wrong size, is an error.
func (t *Trainer) Add(chunk int, raw []byte) error {
	had := len(t.blocks)
	if err := t.add(chunk, raw); err != nil {
		return err
	}
	t.trial = bytes.Clone(t.trial)
	for i := range t.blocks[had:] {
		b := &t.blocks[had+i]
		b.raw = bytes.Clone(b.raw)
	}
	return nil
}

// add is Add for bytes that stay as they are until the model is made.
func (t *Trainer) add(chunk int, raw []byte) error {
	if t.added >= len(t.sample) || t.sample[t.added] != chunk || len(raw) != t.model.ChunkSize(chunk) {
		return fmt.Errorf("floatcodec: chunk %d with %d bytes is not the next of the sample", chunk, len(raw))
	}
	t.added++
	w := t.model.layout.width
	n := len(raw) / w
	if t.added-1 == (len(t.sample)-1)/2 { // never the last of several, which may be short
		at := (n - min(n, trialElements)) / 2
		t.trial = raw[at*w : min(n, at+trialElements)*w]
	}
	for _, s := range t.scales {
		s.add(int64(chunk)<<chunkLog, raw, t.model.layout)
	}
	blocks := blocksOf(n)
	if t.blocks == nil {
		t.blocks = make([]sampleBlock, 0, min(sampleBlocks[t.opts.Level], blocks*len(t.sample)))
	}
	budget := sampleBlocks[t.opts.Level] // shared out evenly among the chunks
	if t.opts.Level == Fast && t.model.size < 1<<20 {
		budget /= 2 // there is less to save
	}
	before, after := (t.added-1)*budget/len(t.sample), t.added*budget/len(t.sample)
	take := min(blocks, after-before)
	for j := range take {
		b := j * blocks / take
		lo, hi := b*blockLen, min(n, (b+1)*blockLen)
		t.blocks = append(t.blocks, sampleBlock{int64(chunk)<<chunkLog + int64(lo), hi - lo, raw[lo*w : hi*w]})
	}
	return nil
}

// Model fixes the tables. It is an error to call it before the whole sample is
// there.
func (t *Trainer) Model() (*Model, error) {
	if t.added != len(t.sample) {
		return nil, fmt.Errorf("floatcodec: trained on %d of %d sampled chunks", t.added, len(t.sample))
	}
	m := *t.model
	if m.size <= tinySize && t.opts.Level == Fast {
		m.low = make([]*coder, m.layout.lowStreams())
		return m.seal(), nil
	}
	n := 0
	for _, b := range t.blocks {
		n += b.n
	}
	s := scratchPool.Get().(*scratch)
	defer scratchPool.Put(s)
	sym, low := s.streams(m.layout, n)
	stats, over := t.splitSample(newSplitter(m.layout, 0), sym, low)
	if over { // with no symbol outside, the first window and layout are best
		if m.layout, m.base = t.chooseLayout(); m.layout != t.model.layout || m.base != 0 {
			sym, low = s.streams(m.layout, n)
			stats, _ = t.splitSample(newSplitter(m.layout, m.base), sym, low)
		}
	}
	if t.opts.Level == Fast {
		t.cutLow(newSplitter(m.layout, m.base), sym, low)
	}
	total := m.size / int64(m.layout.width)
	m.low = make([]*coder, len(low))
	each(1+len(low), t.opts.Workers, func(i int) error {
		if i == 0 {
			m.syms = t.trainSymbols(&m, sym, stats, total)
			return nil
		}
		width := 8
		if i == 1 && m.layout.field() > 0 {
			width = m.layout.field()
		}
		m.low[i-1] = m.trainLow(low[i-1], width, total)
		return nil
	})
	m.seal()
	m.tryZstd = t.zstdWins(&m, s)
	return &m, nil
}

// At the fast level, a glance at lowGlance elements of a low stream mostly shows that
// packing is as good as coding; if not, tables are made from lowSample.
const (
	lowGlance = 1 << 12
	lowSample = 1 << 14
)

// cutLow reduces low streams, of which splitSample has filled what a glance needs,
// to what trainLow should see.
func (t *Trainer) cutLow(split *splitter, sym []byte, low [][]byte) {
	n := min(len(sym), lowGlance)
	more := false
	for i, b := range low {
		width := 8
		if i == 0 && split.field() > 0 {
			width = split.field()
		}
		counts := histogram(b[:n])
		coded, packed := lowCosts(&counts, width)
		more = more || coded*1000 < packed*985 // half of what it takes in the end
	}
	if more && len(sym) > n {
		n = min(len(sym), lowSample)
		at := 0
		part := make([][]byte, len(low))
		for _, b := range t.blocks {
			if at >= n {
				break
			}
			if at >= lowGlance {
				for j := range low {
					part[j] = low[j][at : at+b.n]
				}
				split.split(b.raw, b.n, sym[at:at+b.n], part)
			}
			at += b.n
		}
	}
	for i := range low {
		low[i] = low[i][:n]
	}
}

// histogram counts the values of b.
func histogram(b []byte) (counts [256]uint32) {
	var other [256]uint32 // so that equal neighbours need not wait
	for len(b) >= 8 {
		q := binary.LittleEndian.Uint64(b)
		counts[byte(q)]++
		other[byte(q>>8)]++
		counts[byte(q>>16)]++
		other[byte(q>>24)]++
		counts[byte(q>>32)]++
		other[byte(q>>40)]++
		counts[byte(q>>48)]++
		other[byte(q>>56)]++
		b = b[8:]
	}
	for _, v := range b {
		counts[v]++
	}
	for v, c := range other {
		counts[v] += c
	}
	return counts
}

// lowCosts returns what values of so many bits cost coded and packed.
func lowCosts(counts *[256]uint32, width int) (coded, packed uint64) {
	costs := shannonCosts(counts)
	for s, c := range counts {
		coded += uint64(c) * uint64(costs[s])
		packed += uint64(c) * uint64(width) * costUnit
	}
	return coded, packed
}

// splitSample fills the streams of all sampled elements, low ones up to
// lowGlance at the fast level, and returns what clustering needs to know of
// each block, and whether some symbol falls outside the window.
func (t *Trainer) splitSample(split *splitter, sym []byte, low [][]byte) ([]blockStats, bool) {
	stats := make([]blockStats, len(t.blocks))
	starts := make([]int, len(t.blocks))
	for i, b := range t.blocks[:max(len(t.blocks)-1, 0)] {
		starts[i+1] = starts[i] + b.n
	}
	parts := min(max(t.opts.Workers, 1), len(t.blocks)/64+1)
	overs := make([]bool, parts)
	each(parts, parts, func(p int) error {
		lo, hi := p*len(t.blocks)/parts, (p+1)*len(t.blocks)/parts
		arena := make([]symbolCount, 0, 32*(hi-lo))
		part := make([][]byte, len(low))
		for i := lo; i < hi; i++ {
			if i+2 < hi { // blocks lie far apart
				fetch(t.blocks[i+2].raw)
			}
			b, at := t.blocks[i], starts[i]
			over := false
			if at >= lowGlance && t.opts.Level == Fast {
				over = split.symbols(b.raw, b.n, sym[at:at+b.n])
			} else {
				for j := range low {
					part[j] = low[j][at : at+b.n]
				}
				over = split.split(b.raw, b.n, sym[at:at+b.n], part)
			}
			overs[p] = overs[p] || over
			stats[i] = newBlockStats(sym[at:at+b.n], &arena)
		}
		return nil
	})
	return stats, slices.Contains(overs, true)
}

// tinySize is how large a tensor may be whose tables cost about what they save:
// the fast level does not try.
const tinySize = 256

// trialElements is the length of the stretch on which a general-purpose
// compressor is tried.
const trialElements = 4096

// zstdWins reports whether Zstandard packs a stretch of the tensor better than
// the model does, which happens where values repeat in patterns.
func (t *Trainer) zstdWins(m *Model, s *scratch) bool {
	n := len(t.trial) / m.layout.width
	if n < trialElements || m.level != Fast { // the others try it on every chunk
		return false
	}
	if !pairsRepeat(t.trial, m.layout.width) {
		return false
	}
	s.alt = m.appendStreams(s.alt[:0], t.trial, n, s)
	ours := len(s.alt)
	s.alt = appendZstd(s.alt[:0], shuffle(s, t.trial, m.layout.width), Fast)
	return len(s.alt) < ours
}

// pairsRepeat reports whether some pairs of neighbouring elements come again,
// as they do wherever a general-purpose compressor has something to find.
func pairsRepeat(b []byte, w int) bool {
	var table [1024]uint32
	tried, hits := 0, 0
	for ; len(b) >= 16; b = b[w:] {
		q := binary.LittleEndian.Uint64(b)
		if w < 4 {
			q <<= 64 - 16*w
		} else {
			q ^= binary.LittleEndian.Uint64(b[w:]) * 0xc2b2ae3d27d4eb4f
		}
		h := q * 0x9e3779b97f4a7c15
		slot, tag := h>>54, uint32(h>>16)|1
		if table[slot] == tag {
			hits++
		}
		table[slot] = tag
		tried++
	}
	return hits*64 > tried
}

// chooseLayout picks the layout, and for symbols of more than eight bits the
// window of 256 that holds the most elements. If more than one in 64 falls
// outside, another layout is better.
func (t *Trainer) chooseLayout() (layout, int) {
	choices := layoutsFor(t.dtype)
	l := choices[0]
	if l.sym <= 8 {
		return l, 0
	}
	hist := make([]int, 1<<l.sym)
	split := newSplitter(l, 0)
	total := 0
	for _, b := range t.blocks {
		for i := 0; i < b.n; i += 32 {
			hist[loadElement(b.raw[i*l.width:], l.width)>>split.symShift&(1<<l.sym-1)]++
			total++
		}
	}
	in := 0
	for _, c := range hist[:256] {
		in += c
	}
	best, base := in, 0
	for b := 1; b < len(hist); b++ {
		in += hist[(b+255)%len(hist)] - hist[b-1]
		if in > best {
			best, base = in, b
		}
	}
	if (total-best)*64 > total && len(choices) > 1 {
		return choices[1], 0
	}
	return l, base
}

// trainLow returns a Huffman table for a stream of width-bit values, or nil if
// packing them is about as good.
func (m *Model) trainLow(b []byte, width int, total int64) *coder {
	counts := histogram(b)
	if len(b) == 0 || counts[b[0]] == uint32(len(b)) {
		return nil
	}
	// 3 % and the size of the table, or it is not worth the time.
	sum, packed := lowCosts(&counts, width)
	if sum*100 > packed*97 || scale(packed-sum, uint64(total), uint64(len(b))) < 1024*costUnit {
		return nil
	}
	smooth(&counts)
	return &coder{stride: 1, huff: []codeLens{huffmanLens(&counts)}}
}

// smooth gives every value that the sample lacks a code too: low bits are spread
// wide, so what a sample misses is not rare enough for exceptions.
func smooth(counts *[256]uint32) {
	for s := range counts {
		counts[s] = counts[s]*4 + 1
	}
}

func (t *Trainer) trainSymbols(m *Model, sym []byte, stats []blockStats, total int64) *coder {
	if len(sym) == 0 {
		return nil
	}
	var best *coder
	// Symbols stored as bytes are what there is to beat.
	bestCost := uint64(total) * 8 * costUnit
	for _, tables := range tableChoices(t.opts.Level, total) {
		if tables > 1 && tables*4 > len(stats) {
			continue
		}
		counts := cluster(stats, tables, t.opts.Level == Fast && tables == maxTables, t.ahead)
		if tables == 1 && best != nil && entropyCost(&counts[0], total) > bestCost {
			break // no code can be better
		}
		coders := []*coder{newHuffman(counts, m.layout.stride())}
		if t.opts.Level != Fast {
			coders = append(coders, newRANS(counts, m.layout.stride(), precision(total), lanes(t.opts.Level)))
		}
		for _, c := range coders {
			var cost uint64
			if t.opts.Level == Fast {
				cost = c.expectCounts(counts, len(sym), total)
			} else {
				cost = c.expect(stats, len(sym), total)
			}
			if cost < bestCost {
				best, bestCost = c, cost
			}
		}
	}
	if c := t.trainContexts(m, sym, total, bestCost); c != nil {
		best = c
	}
	return best
}

// lanes returns the number of rANS states.
func lanes(level Level) int {
	if level == Max {
		return 8
	}
	return maxLanes
}

// entropyCost returns what total symbols take at least with one table.
func entropyCost(counts *[256]uint32, total int64) uint64 {
	sum, n := uint64(0), uint64(0)
	for s, c := range shannonCosts(counts) {
		sum += uint64(c) * uint64(counts[s])
		n += uint64(counts[s])
	}
	return scale(sum, uint64(total), n)
}

// precision of stored rANS weights for a tensor of so many elements.
func precision(total int64) int {
	if total < 1<<20 {
		return coarseBits
	}
	return fineBits
}

// tableChoices lists how many tables to try; 1 comes last.
func tableChoices(level Level, total int64) []int {
	if level != Fast {
		return []int{8, 4, 2, 1}
	}
	switch {
	case total < 8<<10:
		return []int{1}
	case total < 24<<10:
		return []int{2, 1}
	case total < 128<<10:
		return []int{4, 1}
	}
	return []int{8, 1}
}
