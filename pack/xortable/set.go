package xortable

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/hfcompress/compress/tensor"
)

// BaseAuto as [Options.Base] picks the base that makes the whole set smallest;
// of equal ones, the first.
const BaseAuto = -1

// ErrTables is wrapped by errors about tables that cannot be encoded together.
var ErrTables = errors.New("tables cannot share a base")

// Options adjust [Encode].
type Options struct {
	// Base is the route stored as it is, so that it decodes by a copy, or
	// [BaseAuto]. The zero value is the first table.
	Base int
	// Modes restricts the codings tried; nil tries all. Same and Full are always
	// allowed, since they are what any table can fall back to.
	Modes []Mode
}

// Set is an immutable family of tables. It is safe for concurrent use.
type Set struct {
	recipe  Recipe
	base    *tensor.Tensor
	routes  []Route
	storage []Named
	report  Report
}

// Named is one stored tensor.
type Named struct {
	Name   string
	Tensor *tensor.Tensor
}

// Route is one table of a [Set]. It satisfies the row source interface of
// architectures/nn and is safe for concurrent use.
type Route struct {
	mode    Mode
	dtype   tensor.DType
	rows    int
	width   int
	bytes   int // of one row
	geo     geometry
	base    []byte // of the base table, or of the table itself in mode full
	rect    rect
	codes   []byte
	offsets []byte
	offBits uint
	facts   RouteReport
}

// NumRows returns the number of rows.
func (r *Route) NumRows() int { return r.rows }

// Width returns the number of elements in a row.
func (r *Route) Width() int { return r.width }

// DType returns the element type.
func (r *Route) DType() tensor.DType { return r.dtype }

// Mode returns how the route is stored.
func (r *Route) Mode() Mode { return r.mode }

// DecodeRow writes row i to dst, which must have exactly the bytes of a row. It
// allocates nothing.
func (r *Route) DecodeRow(dst []byte, i int) error {
	if i < 0 || i >= r.rows {
		return fmt.Errorf("row %d of a table with %d rows", i, r.rows)
	}
	if len(dst) != r.bytes {
		return fmt.Errorf("%w: %d bytes for a row of %d", tensor.ErrShape, len(dst), r.bytes)
	}
	r.decode(dst, i)
	return nil
}

func (r *Route) decode(dst []byte, i int) {
	base := r.base[i*r.bytes : (i+1)*r.bytes]
	switch r.mode {
	case Packed:
		r.geo.decodeRow(dst, base, r.row(i), r.width)
	case Low8, Low16:
		r.rect.decodeRow(dst, base, i, r.width, r.geo.bits)
	default:
		copy(dst, base)
	}
}

// row returns the packed bytes of row i.
func (r *Route) row(i int) []byte {
	from, to := loadWord(r.offsets, i, r.offBits), loadWord(r.offsets, i+1, r.offBits)
	return r.codes[from:to]
}

// Encode stores tables, which must all have the same F16, BF16, F32 or F64 type
// and the same shape [rows, width] without a zero extent. Each table gets the
// coding that occupies the fewest bytes, indices, offsets and padding counted.
// The result shares no storage with the tables, and every byte of every table
// has been decoded and compared before Encode returns.
func Encode(tables []*tensor.Tensor, o Options) (*Set, error) {
	if err := checkTables(tables); err != nil {
		return nil, err
	}
	for _, m := range o.Modes {
		if !slices.Contains([]Mode{Same, Low8, Low16, Packed, Full}, m) {
			return nil, fmt.Errorf("unknown mode %q", m)
		}
	}
	if o.Base != BaseAuto && (o.Base < 0 || o.Base >= len(tables)) {
		return nil, fmt.Errorf("%w: base is route %d of %d", ErrTables, o.Base, len(tables))
	}
	var best *encoded
	for base := range tables {
		if o.Base != BaseAuto && base != o.Base {
			continue
		}
		e, err := encode(tables, base, o.Modes)
		if err != nil {
			return nil, err
		}
		if best == nil || e.bytes < best.bytes {
			best = e
		}
	}
	// Read back what was packed, by the road that a stored set takes.
	set, err := Open(best.recipe, func(name string) (*tensor.Tensor, error) { return best.tensors[name], nil })
	if err != nil {
		return nil, fmt.Errorf("own encoding: %w", err)
	}
	for i := range set.routes {
		set.routes[i].facts.Considered = best.considered[i]
		set.report.Routes[i].Considered = best.considered[i]
	}
	if err := set.Verify(tables); err != nil {
		return nil, fmt.Errorf("own encoding: %w", err)
	}
	set.report.verified(tables, set.digest())
	return set, nil
}

func checkTables(tables []*tensor.Tensor) error {
	if len(tables) == 0 || len(tables) > maxRoutes {
		return fmt.Errorf("%w: %d tables, want 1 to %d", ErrTables, len(tables), maxRoutes)
	}
	for i, t := range tables {
		if t == nil {
			return fmt.Errorf("%w: table %d is nil", ErrTables, i)
		}
		if _, err := wordBits(t.DType()); err != nil {
			return fmt.Errorf("%w: table %d: %w", ErrTables, i, err)
		}
		if s := t.Shape(); len(s) != 2 || s[0] == 0 || s[1] == 0 {
			return fmt.Errorf("%w: table %d: %w: %v, want [rows, width], both positive", ErrTables, i, tensor.ErrShape, s)
		}
		if t.DType() != tables[0].DType() || !t.Shape().Equal(tables[0].Shape()) {
			return fmt.Errorf("%w: table %d is %v, table 0 is %v", ErrTables, i, t, tables[0])
		}
	}
	return nil
}

// encoded is a set before it is opened.
type encoded struct {
	recipe     Recipe
	tensors    map[string]*tensor.Tensor
	considered []map[Mode]int64
	bytes      int64
}

func encode(tables []*tensor.Tensor, base int, modes []Mode) (*encoded, error) {
	b := tables[base]
	e := &encoded{
		recipe: Recipe{
			Kind: RecipeKind, Version: RecipeVersion,
			DType: b.DType(), Shape: b.Shape().Clone(), Base: base,
			Routes: make([]RouteRecipe, len(tables)),
		},
		tensors:    map[string]*tensor.Tensor{tensorBase: b.Clone()},
		considered: make([]map[Mode]int64, len(tables)),
		bytes:      int64(len(b.Bytes())),
	}
	for i, t := range tables {
		mode, own, considered, err := encodeRoute(b, t, modes)
		if err != nil {
			return nil, err
		}
		e.considered[i] = considered
		e.recipe.Routes[i].Mode = mode
		for name, t := range own {
			if e.recipe.Routes[i].Tensors == nil {
				e.recipe.Routes[i].Tensors = map[string]TensorRecipe{}
			}
			e.recipe.Routes[i].Tensors[name] = TensorRecipe{t.DType(), t.Shape()}
			e.tensors[storedName(i, name)] = t
			e.bytes += int64(len(t.Bytes()))
		}
	}
	return e, nil
}

// encodeRoute returns the cheapest coding of t against base and what each coding
// would have cost.
func encodeRoute(base, t *tensor.Tensor, modes []Mode) (Mode, map[string]*tensor.Tensor, map[Mode]int64, error) {
	considered := map[Mode]int64{Full: int64(len(t.Bytes()))}
	if tensor.BitEqual(base, t) {
		considered[Same] = 0
		return Same, nil, considered, nil
	}
	element, err := wordBits(t.DType())
	if err != nil {
		return "", nil, nil, err
	}
	rows, width := t.Shape()[0], t.Shape()[1]
	allowed := func(m Mode) bool { return modes == nil || slices.Contains(modes, m) }
	slots := map[Mode]int{}
	for _, m := range []Mode{Low8, Low16} {
		if low := lowBitsOf(m); allowed(m) && low < element {
			slots[m] = rectSlots(base.Bytes(), t.Bytes(), rows, width, element, low)
			considered[m] = rectCost(rows, width, slots[m], element, low)
		}
	}
	var packed map[string]*tensor.Tensor
	if allowed(Packed) {
		var bytes int64
		if packed, bytes, err = encodePacked(base, t, newGeometry(element)); err != nil {
			return "", nil, nil, err
		}
		considered[Packed] = bytes
	}
	best := Full
	for _, m := range []Mode{Low8, Low16, Packed} {
		if cost, ok := considered[m]; ok && cost < considered[best] {
			best = m
		}
	}
	switch best {
	case Packed:
		return best, packed, considered, nil
	case Full:
		return best, map[string]*tensor.Tensor{tensorFull: t.Clone()}, considered, nil
	}
	own, err := newRect(base.Bytes(), t.Bytes(), rows, width, slots[best], element, lowBitsOf(best)).tensors(rows, width)
	return best, own, considered, err
}

func encodePacked(base, t *tensor.Tensor, g geometry) (map[string]*tensor.Tensor, int64, error) {
	rows := t.Shape()[0]
	// Rows are coded apart from each other, so the bytes do not depend on the
	// number of workers.
	workers := min(runtime.GOMAXPROCS(0), rows)
	parts := make([][]byte, workers)
	ends := make([]uint64, rows+1) // within the worker's part at first
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			parts[w] = encodeRows(base, t, g, rows*w/workers, rows*(w+1)/workers, ends)
		})
	}
	wait.Wait()
	var codes []byte
	for w, part := range parts {
		for r := rows * w / workers; r < rows*(w+1)/workers; r++ {
			ends[r+1] += uint64(len(codes))
		}
		codes = append(codes, part...)
	}
	bits := offsetBits(len(codes))
	offsets := make([]byte, len(ends)*int(bits)/8)
	for i, end := range ends {
		storeWord(offsets, i, bits, end)
	}
	ct, err := tensor.FromBytes(tensor.U8, tensor.Shape{len(codes)}, slices.Clip(codes))
	if err != nil {
		return nil, 0, err
	}
	ot, err := tensor.FromBytes(unsigned(bits), tensor.Shape{rows + 1}, offsets)
	if err != nil {
		return nil, 0, err
	}
	return map[string]*tensor.Tensor{tensorCodes: ct, tensorOffsets: ot}, int64(len(codes) + len(offsets)), nil
}

// encodeRows codes the rows from ≤ r < to and enters where each ends.
func encodeRows(base, t *tensor.Tensor, g geometry, from, to int, ends []uint64) []byte {
	width := t.Shape()[1]
	b, w := make([]uint64, width), make([]uint64, width)
	var codes []byte
	for r := from; r < to; r++ {
		for c := range width {
			b[c] = loadWord(base.Row(r), c, g.bits)
			w[c] = loadWord(t.Row(r), c, g.bits)
		}
		codes = g.appendRow(codes, b, w)
		ends[r+1] = uint64(len(codes))
	}
	return codes
}

// storedName is the name under which a route's tensor is kept.
func storedName(route int, name string) string {
	return "routes." + strconv.Itoa(route) + "." + name
}

// NumRoutes returns the number of tables.
func (s *Set) NumRoutes() int { return len(s.routes) }

// Route returns table i. It panics for an index that is not a route, as slices
// do.
func (s *Set) Route(i int) *Route { return &s.routes[i] }

// Recipe returns what [Open] needs besides the tensors.
func (s *Set) Recipe() Recipe { return s.recipe.clone() }

// Tensors lists the storage: "base" first, then "routes.<i>.<name>" by route
// and name. Callers must not write to the tensors.
func (s *Set) Tensors() []Named { return slices.Clone(s.storage) }

// Report returns sizes and what has been verified.
func (s *Set) Report() Report { return s.report.clone() }

// Verify decodes every row of every route and compares all bytes with tables,
// given in the order of the routes. The error names the first difference.
func (s *Set) Verify(tables []*tensor.Tensor) error {
	if len(tables) != len(s.routes) {
		return fmt.Errorf("%w: %d tables for %d routes", ErrTables, len(tables), len(s.routes))
	}
	row := make([]byte, s.routes[0].bytes)
	for i, t := range tables {
		r := &s.routes[i]
		if t == nil || t.DType() != r.dtype || !t.Shape().Equal(s.recipe.Shape) {
			return fmt.Errorf("%w: table %d is %v, the route is %v%v", ErrTables, i, t, r.dtype, s.recipe.Shape)
		}
		for j := range r.rows {
			r.decode(row, j)
			if want := t.Row(j); string(row) != string(want) {
				c := 0
				for loadWord(row, c, r.geo.bits) == loadWord(want, c, r.geo.bits) {
					c++
				}
				return fmt.Errorf("route %d, row %d, column %d: decoded %#x, the table has %#x",
					i, j, c, loadWord(row, c, r.geo.bits), loadWord(want, c, r.geo.bits))
			}
		}
	}
	return nil
}

// Current reports whether the byte comparison that [Encode] made still speaks of
// this storage: it hashes all of it again. A set from [Open] was not compared
// with any table and is never current.
func (s *Set) Current() bool {
	return s.report.Status == StatusVerified && s.report.Digest == s.digest()
}

// digest identifies recipe and storage.
func (s *Set) digest() string {
	h := sha256.New()
	text, err := json.Marshal(s.recipe)
	if err != nil { // it was validated
		panic(err)
	}
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(text)))
	h.Write(size[:])
	h.Write(text)
	for _, n := range s.storage {
		h.Write(n.Tensor.Bytes()) // names and lengths follow from the recipe
	}
	return hex.EncodeToString(h.Sum(nil))
}
