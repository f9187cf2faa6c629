package finitepass

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// PackedRowsKind is the kind of a [PackedRowsRecipe].
const PackedRowsKind = "packed_rows"

// RowCodec compresses blocks of rows without loss. It must be safe for
// concurrent use.
type RowCodec interface {
	// Name identifies the codec and its format in recipes.
	Name() string
	// Encode appends the compressed form of raw, which holds whole rows of the given
	// width, to dst.
	Encode(dst []byte, d tensor.DType, width int, raw []byte) ([]byte, error)
	// Decode appends what was given to Encode to dst. enc comes from a file: it may
	// be anything, and more than size bytes need not be decoded.
	Decode(dst, enc []byte, size int) ([]byte, error)
}

// PackedRows is an embedding whose rows are kept compressed, in blocks that are
// decoded when one of their rows is read. It is a row source and safe for
// concurrent use. It costs time: see [PackedRows.Measure].
type PackedRows struct {
	recipe  PackedRowsRecipe
	codec   RowCodec
	payload []byte
	offsets *tensor.Tensor
	checks  *tensor.Tensor
	stored  []StoredTensor

	mu     sync.Mutex
	blocks map[int][]byte // decoded
	order  []int          // of blocks, least recently used first
	cache  int
}

// PackedRowsRecipe describes the stored tensors: "payload" U8 [PayloadBytes],
// "offsets" U64 [blocks + 1], and "checks" U32 [blocks], the CRC-32C of every
// block as compressed.
type PackedRowsRecipe struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	// Tensor is the embedding that it stands for, and Codec how blocks are coded.
	Tensor string       `json:"tensor"`
	Codec  string       `json:"codec"`
	DType  tensor.DType `json:"dtype"`
	Rows   int          `json:"rows"`
	Width  int          `json:"width"`
	// BlockRows is the number of rows of every block but the last.
	BlockRows    int `json:"block_rows"`
	PayloadBytes int `json:"payload_bytes"`
}

// PackOptions adjust [PackRows].
type PackOptions struct {
	// BlockRows is the number of rows that are coded together, 16 if 0, at most
	// 1,024.
	BlockRows int
	// CacheBlocks is the number of decoded blocks kept for further reads, 8 if 0,
	// none if negative.
	CacheBlocks int
}

// PackedRowsReport counts a [PackedRows].
type PackedRowsReport struct {
	Codec     string
	BlockRows int
	// FullBytes is the whole tensor; StoredBytes are payload, offsets and checks,
	// and RecipeBytes the recipe.
	FullBytes, StoredBytes, RecipeBytes int64
}

// Saves reports whether fewer bytes are stored, the recipe included.
func (r PackedRowsReport) Saves() bool { return r.StoredBytes+r.RecipeBytes < r.FullBytes }

const (
	defaultBlockRows = 16
	maxBlockRows     = 1024
	defaultCache     = 8

	packedPayload = "payload"
	packedOffsets = "offsets"
	packedChecks  = "checks"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r PackedRowsRecipe) blocks() int { return (r.Rows + r.BlockRows - 1) / r.BlockRows }

// PackRows compresses the rows of src, block by block, so that memory holds the
// result and one block. Every block has been decoded and compared. The result is
// nil when it would not be smaller.
func PackRows(ctx context.Context, name string, src nn.RowSource, codec RowCodec, o PackOptions) (*PackedRows, PackedRowsReport, error) {
	if o.BlockRows == 0 {
		o.BlockRows = defaultBlockRows
	}
	r := PackedRowsRecipe{
		Kind: PackedRowsKind, Version: 1, Tensor: name, Codec: codec.Name(),
		DType: src.DType(), Rows: src.NumRows(), Width: src.Width(), BlockRows: o.BlockRows,
	}
	report := PackedRowsReport{Codec: r.Codec, BlockRows: r.BlockRows}
	if err := r.Validate(); err != nil {
		return nil, report, err
	}
	rowBytes := r.Width * r.DType.Size()
	report.FullBytes = int64(r.Rows) * int64(rowBytes)
	var payload, raw []byte
	offsets, err := tensor.New(tensor.U64, r.blocks()+1)
	if err != nil {
		return nil, report, err
	}
	checks, err := tensor.New(tensor.U32, r.blocks())
	if err != nil {
		return nil, report, err
	}
	for b := range r.blocks() {
		if err := ctx.Err(); err != nil {
			return nil, report, err
		}
		n := min(r.BlockRows, r.Rows-b*r.BlockRows)
		if len(raw) < n*rowBytes {
			raw = make([]byte, n*rowBytes)
		}
		raw = raw[:n*rowBytes]
		for i := range n {
			if err := src.DecodeRow(raw[i*rowBytes:(i+1)*rowBytes], b*r.BlockRows+i); err != nil {
				return nil, report, fmt.Errorf("packing %q: %w", name, err)
			}
		}
		from := len(payload)
		if payload, err = codec.Encode(payload, r.DType, r.Width, raw); err != nil {
			return nil, report, fmt.Errorf("packing %q, block %d: %w", name, b, err)
		}
		back, err := codec.Decode(nil, payload[from:], len(raw))
		if err != nil {
			return nil, report, fmt.Errorf("packing %q, block %d, read back: %w", name, b, err)
		}
		if string(back) != string(raw) {
			return nil, report, fmt.Errorf("packing %q, block %d: the codec %s gives other rows back", name, b, r.Codec)
		}
		binary.LittleEndian.PutUint64(offsets.Bytes()[8*(b+1):], uint64(len(payload)))
		binary.LittleEndian.PutUint32(checks.Bytes()[4*b:], crc32.Checksum(payload[from:], castagnoli))
	}
	r.PayloadBytes = len(payload)
	text, err := encodeRecipe(r)
	if err != nil {
		return nil, report, err
	}
	report.RecipeBytes = int64(len(text))
	report.StoredBytes = int64(len(payload) + len(offsets.Bytes()) + len(checks.Bytes()))
	if !report.Saves() {
		return nil, report, nil
	}
	whole, err := tensor.FromBytes(tensor.U8, tensor.Shape{len(payload)}, payload)
	if err != nil {
		return nil, report, err
	}
	p, err := OpenPackedRows(r, codec, func(name string) (*tensor.Tensor, error) {
		return map[string]*tensor.Tensor{packedPayload: whole, packedOffsets: offsets, packedChecks: checks}[name], nil
	}, o)
	return p, report, err
}

// OpenPackedRows builds the rows from a recipe and the stored tensors. codec must
// be the one that the recipe names. Sizes, offsets and the checksum of every
// block are checked; a block is decoded when it is read. Errors wrap [ErrRecipe],
// or are those of get. Of the options, CacheBlocks is used.
func OpenPackedRows(recipe PackedRowsRecipe, codec RowCodec, get func(name string) (*tensor.Tensor, error), o PackOptions) (*PackedRows, error) {
	if err := recipe.Validate(); err != nil {
		return nil, err
	}
	if codec.Name() != recipe.Codec {
		return nil, fmt.Errorf("%w: %q is packed with %s, the codec given is %s", ErrRecipe, recipe.Tensor, quoteShort(recipe.Codec), quoteShort(codec.Name()))
	}
	p := &PackedRows{recipe: recipe, codec: codec, cache: o.CacheBlocks, blocks: map[int][]byte{}}
	if p.cache == 0 {
		p.cache = defaultCache
	}
	n := recipe.blocks()
	for _, w := range []struct {
		name  string
		dtype tensor.DType
		size  int
	}{{packedPayload, tensor.U8, recipe.PayloadBytes}, {packedOffsets, tensor.U64, n + 1}, {packedChecks, tensor.U32, n}} {
		t, err := get(w.name)
		switch {
		case err != nil:
			return nil, err
		case t == nil:
			return nil, fmt.Errorf("%w: %q: tensor %q is missing", ErrRecipe, recipe.Tensor, w.name)
		case t.DType() != w.dtype || !t.Shape().Equal(tensor.Shape{w.size}):
			return nil, fmt.Errorf("%w: %q: tensor %q is %v, expected %v[%d]", ErrRecipe, recipe.Tensor, w.name, t, w.dtype, w.size)
		}
		p.stored = append(p.stored, StoredTensor{w.name, t})
	}
	p.payload, p.offsets, p.checks = p.stored[0].Tensor.Bytes(), p.stored[1].Tensor, p.stored[2].Tensor
	if p.offset(0) != 0 || p.offset(n) != uint64(len(p.payload)) {
		return nil, fmt.Errorf("%w: %q: blocks from %d to %d, expected 0 to %d", ErrRecipe, recipe.Tensor, p.offset(0), p.offset(n), len(p.payload))
	}
	for b := range n {
		if p.offset(b) > p.offset(b+1) || p.offset(b+1) > uint64(len(p.payload)) {
			return nil, fmt.Errorf("%w: %q: block %d lies at %d to %d", ErrRecipe, recipe.Tensor, b, p.offset(b), p.offset(b+1))
		}
		if err := p.check(b); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *PackedRows) offset(b int) uint64 { return word(p.offsets.Bytes(), b, 8) }

// check compares the checksum of a block as stored.
func (p *PackedRows) check(b int) error {
	if crc32.Checksum(p.payload[p.offset(b):p.offset(b+1)], castagnoli) != uint32(word(p.checks.Bytes(), b, 4)) {
		return fmt.Errorf("%w: %q: block %d is damaged", ErrRecipe, p.recipe.Tensor, b)
	}
	return nil
}

// Recipe returns what [OpenPackedRows] needs besides codec and tensors.
func (p *PackedRows) Recipe() PackedRowsRecipe { return p.recipe }

// Tensors lists what has to be stored. Callers must not write to the tensors.
func (p *PackedRows) Tensors() []StoredTensor { return p.stored }

// NumRows returns the number of rows.
func (p *PackedRows) NumRows() int { return p.recipe.Rows }

// Width returns the number of elements in a row.
func (p *PackedRows) Width() int { return p.recipe.Width }

// DType returns the element type.
func (p *PackedRows) DType() tensor.DType { return p.recipe.DType }

// Verify compares every row with t.
func (p *PackedRows) Verify(t *tensor.Tensor) error { return sameAsTensor(p, t) }

// DecodeRow writes row i to dst. It decodes the row's block, unless that is among
// the ones kept; a damaged block is an error that wraps [ErrRecipe].
func (p *PackedRows) DecodeRow(dst []byte, i int) error {
	if i < 0 || i >= p.recipe.Rows {
		return fmt.Errorf("row %d of a table with %d rows", i, p.recipe.Rows)
	}
	raw, err := p.block(i / p.recipe.BlockRows)
	if err != nil {
		return err
	}
	n := p.recipe.Width * p.recipe.DType.Size()
	copy(dst, raw[i%p.recipe.BlockRows*n:][:n])
	return nil
}

func (p *PackedRows) block(b int) ([]byte, error) {
	p.mu.Lock()
	raw, ok := p.blocks[b]
	if ok {
		p.touch(b)
	}
	p.mu.Unlock()
	if ok {
		return raw, nil
	}
	if err := p.check(b); err != nil {
		return nil, err
	}
	size := min(p.recipe.BlockRows, p.recipe.Rows-b*p.recipe.BlockRows) * p.recipe.Width * p.recipe.DType.Size()
	raw, err := p.codec.Decode(make([]byte, 0, size), p.payload[p.offset(b):p.offset(b+1)], size)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: block %d: %w", ErrRecipe, p.recipe.Tensor, b, err)
	}
	if len(raw) != size {
		return nil, fmt.Errorf("%w: %q: block %d has %d bytes, expected %d", ErrRecipe, p.recipe.Tensor, b, len(raw), size)
	}
	if p.cache > 0 {
		p.mu.Lock()
		if p.blocks[b] == nil {
			p.order = append(p.order, b)
		}
		p.blocks[b] = raw
		for len(p.order) > p.cache {
			delete(p.blocks, p.order[0])
			p.order = p.order[1:]
		}
		p.mu.Unlock()
	}
	return raw, nil
}

// touch makes a kept block the most recently used one.
func (p *PackedRows) touch(b int) {
	for i, k := range p.order {
		if k == b {
			copy(p.order[i:], p.order[i+1:])
			p.order[len(p.order)-1] = b
			return
		}
	}
}

// Measure reads the given rows one after the other and returns the time that one
// took, so that the cost of decoding on demand can be reported. It depends on
// the machine and on what else runs, and belongs in no reproducible report.
func (p *PackedRows) Measure(ctx context.Context, rows []int) (time.Duration, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	dst := make([]byte, p.recipe.Width*p.recipe.DType.Size())
	start := time.Now()
	for _, i := range rows {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := p.DecodeRow(dst, i); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(len(rows)), nil
}

// Validate checks what the recipe alone can show. Errors wrap [ErrRecipe].
func (r PackedRowsRecipe) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrRecipe, quoteShort(r.Tensor), fmt.Sprintf(format, args...))
	}
	if r.Kind != PackedRowsKind || r.Version != 1 {
		return bad("kind %s, version %d, expected %q and 1", quoteShort(r.Kind), r.Version, PackedRowsKind)
	}
	for what, text := range map[string]string{"tensor name": r.Tensor, "codec": r.Codec} {
		if err := checkText(what, text); err != nil {
			return fmt.Errorf("%w: %w", ErrRecipe, err)
		}
	}
	if _, err := (tensor.Shape{r.Rows, r.Width}).Bytes(r.DType); err != nil || r.DType.Size() == 0 || r.Rows < 1 || r.Width < 1 {
		return bad("%v[%d,%d]", r.DType, r.Rows, r.Width)
	}
	if r.BlockRows < 1 || r.BlockRows > maxBlockRows {
		return bad("blocks of %d rows, expected 1 to %d", r.BlockRows, maxBlockRows)
	}
	if r.PayloadBytes < 0 {
		return bad("%d bytes of payload", r.PayloadBytes)
	}
	return nil
}

// Encode writes the JSON form.
func (r PackedRowsRecipe) Encode() ([]byte, error) { return encodeRecipe(r) }

// ParsePackedRows reads the JSON form of a recipe, which must be exactly what
// [PackedRowsRecipe.Encode] writes, up to white space and the order of keys.
// Errors wrap [ErrRecipe].
func ParsePackedRows(data []byte) (PackedRowsRecipe, error) {
	r := &PackedRowsRecipe{}
	err := parseRecipe(data, r)
	return *r, err
}
