package archive

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/hfcompress/compress/pack/floatcodec"
)

// A tensor that was trained on from a base differs from it by small steps. How
// many neighbouring numbers a step crosses depends on the size of the number, and
// how large steps are on the row: of an embedding, most rows hardly move. So the
// differences of a chunk are sorted by the activity of their row, which is
// stored, and by the exponent of the base's element, which the reader has too.
// Each then becomes a symbol of one byte, its class, and some bits that say which
// of its class it is. The classes are a stream for package floatcodec, whose
// tables change every 256 symbols and so adapt. The highest four of the bits may
// be another one, sorted by class: early steps of an optimiser, and weight decay,
// give differences of a few sizes only. The rest is close to random and stays as
// it is.

// deltaModel is what the chunks of a stream of differences share.
type deltaModel struct {
	kind    byte
	form    form
	classes *floatcodec.Model
	fine    *floatcodec.Model // nil: all bits below the classes stay as they are
	run     int               // elements that share an activity; 0: none do
	product *product          // of kindRank: it is added to the base
}

// prepare turns a chunk of the base, which begins with element first, into what the
// differences are from.
func (m *deltaModel) prepare(base []byte, first int64) {
	if m.product != nil {
		m.product.addTo(base, first, m.form.width)
	}
}

const (
	// fineBits are in the stream of fine.
	fineBits = 4
	// activities is how many there are.
	activities = 16
	// maxRun is the greatest run: a chunk.
	maxRun = floatcodec.ChunkElements
)

// delta is the working memory of one chunk.
type delta struct {
	z      []uint64 // differences, sorted
	raw    []uint64 // and in the order of the elements
	sym    []byte   // classes
	fine   []byte   // bits below, by class
	active []byte   // activities of the runs
	low    []byte
	enc    []byte
	next   [activities << 11]int32 // where the next element of an activity and exponent goes
}

var deltas = sync.Pool{New: func() any { return new(delta) }}

// runs returns how many runs a chunk of n elements from first touches, and how
// many elements of the first one come before it.
func runs(first int64, n, run int) (count, before int) {
	if run == 0 || n == 0 {
		return 0, 0
	}
	before = int(first % int64(run))
	return (before + n + run - 1) / run, before
}

// places prepares next, and returns a function that tells where each element
// goes when they are asked in order.
func (d *delta) places(m *deltaModel, first int64, base []byte) func(b uint64, i int) *int32 {
	f := &m.form
	mask := uint64(1)<<f.exp - 1
	_, before := runs(first, len(base)/f.width, m.run)
	slot := func(b uint64, i int) *int32 {
		at := b >> f.mant & mask
		if m.run > 0 {
			at |= uint64(d.active[(before+i)/m.run]) << f.exp
		}
		return &d.next[at]
	}
	used := d.next[:1<<f.exp]
	if m.run > 0 {
		used = d.next[:activities<<f.exp]
	}
	clear(used)
	for i := range len(base) / f.width {
		*slot(load(base[i*f.width:], f.width), i)++
	}
	sum := int32(0)
	for i, n := range used {
		used[i] = sum
		sum += n
	}
	return slot
}

func (d *delta) resize(n int) {
	if cap(d.z) < n {
		d.z, d.raw = make([]uint64, n), make([]uint64, n)
		d.sym, d.fine = make([]byte, n), make([]byte, n)
	}
	d.z, d.raw, d.sym, d.fine = d.z[:n], d.raw[:n], d.sym[:n], d.fine[:n]
}

// measure sets the activities: how many bits the differences of each run have on
// average, in halves above that of the least active one.
func (d *delta) measure(m *deltaModel, first int64) {
	count, before := runs(first, len(d.raw), m.run)
	d.active = resize(d.active, count)
	least := 1 << 30
	means := make([]int, count)
	for r := range means {
		part := d.raw[max(r*m.run-before, 0):min((r+1)*m.run-before, len(d.raw))]
		sum := 0
		for _, z := range part {
			sum += bits.Len64(z)
		}
		means[r] = 4 * sum / len(part)
		least = min(least, means[r])
	}
	for r, mean := range means {
		d.active[r] = byte(min((mean-least+1)/2, activities-1))
	}
}

// split fills d with what the differences of a chunk consist of.
func (d *delta) split(m *deltaModel, first int64, raw, base []byte) {
	f := &m.form
	d.resize(len(raw) / f.width)
	for i := range d.raw {
		d.raw[i] = f.difference(m.kind, load(raw[i*f.width:], f.width), load(base[i*f.width:], f.width))
	}
	d.measure(m, first)
	slot := d.places(m, first, base)
	for i, z := range d.raw {
		at := slot(load(base[i*f.width:], f.width), i)
		d.z[*at] = z
		*at++
	}
	fine := m.fineAt(d)
	w := bitAppender{dst: d.low[:0]}
	for i, z := range d.z {
		sym, low, n := f.class(z)
		d.sym[i] = sym
		if m.fine != nil && n >= fineBits {
			n -= fineBits
			fine[i] = byte(low >> n)
			low &= 1<<n - 1
		}
		w.put(low, n)
	}
	d.low = w.end()
	if m.fine != nil {
		d.byClass(func(at int32, i int) { d.fine[at] = fine[i] })
	}
}

// fineAt returns room for the fine bits in the order of the classes.
func (m *deltaModel) fineAt(d *delta) []byte {
	if m.fine == nil {
		return nil
	}
	d.enc = resize(d.enc, len(d.z))
	clear(d.enc)
	return d.enc
}

// byClass tells where each element lies when they are sorted by class.
func (d *delta) byClass(each func(at int32, i int)) {
	var next [256]int32
	for _, s := range d.sym {
		next[s]++
	}
	sum := int32(0)
	for i, n := range next {
		next[i] = sum
		sum += n
	}
	for i, s := range d.sym {
		each(next[s], i)
		next[s]++
	}
}

// bitAppender writes numbers of some bits, from the lowest bit on.
type bitAppender struct {
	dst  []byte
	acc  uint64
	have uint
}

func (w *bitAppender) put(v uint64, n uint) {
	for n > 0 { // at most twice: 63 bits may not fit
		w.acc |= v << w.have
		used := min(n, 64-w.have)
		w.have += used
		v >>= used
		n -= used
		for ; w.have >= 8; w.have -= 8 {
			w.dst = append(w.dst, byte(w.acc))
			w.acc >>= 8
		}
	}
}

func (w *bitAppender) end() []byte {
	if w.have > 0 {
		return append(w.dst, byte(w.acc))
	}
	return w.dst
}

// bitTaker reads what a bitAppender wrote.
type bitTaker struct {
	src  []byte
	acc  uint64
	have uint
	cut  bool
}

func (r *bitTaker) take(n uint) (v uint64) {
	for got := uint(0); got < n; {
		if r.have == 0 {
			if len(r.src) == 0 {
				r.cut = true
				return v
			}
			r.acc, r.have, r.src = uint64(r.src[0]), 8, r.src[1:]
		}
		use := min(r.have, n-got)
		v |= r.acc & (1<<use - 1) << got
		r.acc >>= use
		r.have -= use
		got += use
	}
	return v
}

// appendChunk encodes chunk i, raw, against the same stretch of the base:
// checksum, classes with their length, fine bits with theirs, activities, bits.
func (m *deltaModel) appendChunk(dst []byte, i int, raw, base []byte) []byte {
	d := deltas.Get().(*delta)
	defer deltas.Put(d)
	start := len(dst)
	d.split(m, int64(i)*int64(m.classes.ChunkBytes()), raw, base)
	dst = append(dst, 0, 0, 0, 0)
	d.enc = m.classes.AppendChunk(d.enc[:0], i, d.sym)
	dst = binary.AppendUvarint(dst, uint64(len(d.enc)))
	dst = append(dst, d.enc...)
	if m.fine != nil {
		d.enc = m.fine.AppendChunk(d.enc[:0], i, d.fine)
		dst = binary.AppendUvarint(dst, uint64(len(d.enc)))
		dst = append(dst, d.enc...)
	}
	if m.run > 0 {
		dst = appendActivities(dst, d.active)
	}
	dst = append(dst, d.low...)
	binary.LittleEndian.PutUint32(dst[start:], chunkSum(m.kind, i, len(raw), dst[start+4:]))
	return dst
}

// appendActivities writes 0 if all are 0, else 1 and each in four bits.
func appendActivities(dst, active []byte) []byte {
	all := byte(0)
	for _, a := range active {
		all |= a
	}
	if all == 0 {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	for i := 0; i < len(active); i += 2 {
		b := active[i]
		if i+1 < len(active) {
			b |= active[i+1] << 4
		}
		dst = append(dst, b)
	}
	return dst
}

func (d *delta) parseActivities(b []byte, count int) ([]byte, error) {
	d.active = resize(d.active, count)
	clear(d.active)
	if len(b) == 0 || b[0] > 1 || b[0] == 1 && len(b) < 1+(count+1)/2 {
		return nil, corruptf("activities cut short")
	}
	if b[0] == 0 {
		return b[1:], nil
	}
	stored, rest := b[1:1+(count+1)/2], b[1+(count+1)/2:]
	for i := range d.active {
		d.active[i] = stored[i/2] >> (4 * (i % 2)) & 15
	}
	if count%2 == 1 && stored[count/2] > 15 {
		return nil, corruptf("bits left over after the activities")
	}
	return rest, nil
}

// part takes a stream with its length from b and decodes it.
func part(dst []byte, model *floatcodec.Model, i int, b []byte) (rest []byte, err error) {
	n, b, err := uvarint(b, uint64(len(b)))
	if err != nil {
		return nil, err
	}
	if n > uint64(len(b)) {
		return nil, corruptf("a stream of the differences is cut short")
	}
	return b[n:], codecError(model.DecodeChunk(dst, i, b[:n]))
}

// decodeChunk fills dst, which must not overlap base.
func (m *deltaModel) decodeChunk(dst []byte, i int, enc, base []byte) error {
	if len(enc) < 6 {
		return corruptf("chunk of %d bytes", len(enc))
	}
	sum, body := binary.LittleEndian.Uint32(enc), enc[4:]
	if got := chunkSum(m.kind, i, len(dst), body); got != sum {
		return corruptf("checksum is %08x, stored is %08x", got, sum)
	}
	d := deltas.Get().(*delta)
	defer deltas.Put(d)
	f := &m.form
	first := int64(i) * int64(m.classes.ChunkBytes())
	d.resize(len(dst) / f.width)
	body, err := part(d.sym, m.classes, i, body)
	if err != nil {
		return err
	}
	if m.fine != nil {
		if body, err = part(d.fine, m.fine, i, body); err != nil {
			return err
		}
	}
	if m.run > 0 {
		count, _ := runs(first, len(d.z), m.run)
		if body, err = d.parseActivities(body, count); err != nil {
			return err
		}
	}
	if err := d.differences(m, body); err != nil {
		return err
	}
	slot := d.places(m, first, base)
	for i := range d.z {
		b := load(base[i*f.width:], f.width)
		at := slot(b, i)
		store(dst[i*f.width:], f.width, f.apply(m.kind, d.z[*at], b))
		*at++
	}
	return nil
}

// differences fills d.z from the classes, the fine bits and those below.
func (d *delta) differences(m *deltaModel, low []byte) error {
	fine := m.fineAt(d)
	if fine != nil {
		d.byClass(func(at int32, i int) { fine[i] = d.fine[at] })
	}
	r := bitTaker{src: low}
	for i, sym := range d.sym {
		high, n, ok := m.form.split(sym)
		if !ok {
			return corruptf("class %d is of no difference of %d bytes", sym, m.form.width)
		}
		if fine != nil {
			v := uint64(fine[i])
			switch {
			case n >= fineBits && v < 1<<fineBits:
				n -= fineBits
				high |= v << n
			case v != 0:
				return corruptf("fine bits %d where there are %d", v, n)
			}
		}
		d.z[i] = high | r.take(n)
	}
	if r.cut {
		return corruptf("the bits of the differences are cut short")
	}
	if len(r.src) > 0 || r.acc != 0 {
		return corruptf("bits left over after the differences")
	}
	return nil
}
