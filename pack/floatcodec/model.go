package floatcodec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
)

const (
	formatVersion = 2

	// ChunkElements is the number of elements in every chunk but the last.
	ChunkElements = 1 << chunkLog
	chunkLog      = 16
	// minChunkLog and maxChunkLog bound what a model may declare.
	minChunkLog = 8
	maxChunkLog = 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Model is what the chunks of one tensor share: its size, layout and tables. It
// does not change once made and is safe for concurrent use. A [Trainer] makes
// one for encoding, [ParseModel] reads one back.
type Model struct {
	layout   layout
	base     int // first symbol of the window of 256 when symbols have more bits
	size     int64
	chunkLog int
	syms     *coder // nil: symbols are not entropy coded by this model
	low      []*coder
	crc      uint32
	level    Level // of the encoder; not stored
	tryZstd  bool  // as an alternative for every chunk; not stored
	stored   []byte

	split *splitter
}

// coder is a set of codes for one stream in its stored form, with the tables
// that encoding and decoding need, each built when first used.
type coder struct {
	stride  int
	huff    []codeLens
	rans    []ransFreqs
	weights []ransWeights // rans as stored

	precision int       // of weights, in bits
	lanes     int       // states
	ctx       *contexts // which rANS table an element uses; nil: one per block
	encOnce   sync.Once
	huffEnc   *huffCoder
	ransEnc   *ransCoder
	few       bool // symbols: multi-symbol tables are not worth their making
	decOnce   sync.Once
	huffDec   []decodeTable
	ransDec   []ransTable
}

func (c *coder) encoder() *huffCoder {
	c.encOnce.Do(func() { c.huffEnc = newHuffCoder(c.huff, c.stride) })
	return c.huffEnc
}

func (c *coder) decoder() []decodeTable {
	c.decOnce.Do(func() {
		p, _ := decodeTables.Get().(*[]decodeTable)
		if p == nil || cap(*p) < len(c.huff) {
			t := make([]decodeTable, len(c.huff))
			p = &t
		}
		c.huffDec = (*p)[:len(c.huff)]
		for i := range c.huff {
			c.huff[i].decodeTable(&c.huffDec[i], c.few)
		}
	})
	return c.huffDec
}

// decodeTables keeps the tables of models that were used only once: they are
// large, and small tensors are many.
var decodeTables sync.Pool

// release gives back what the model's decoders hold. The model must not be used
// any more.
func (m *Model) release() {
	for _, c := range append(m.low, m.syms) {
		if c != nil && c.huffDec != nil {
			t := c.huffDec
			c.huffDec = nil
			decodeTables.Put(&t)
		}
	}
}

// fewSymbols is how many symbols a table decodes at least if entries of several
// symbols are to pay.
const fewSymbols = 6 << 10

// Size returns the bytes of the tensor.
func (m *Model) Size() int64 { return m.size }

// ChunkBytes returns the decoded bytes of every chunk but the last.
func (m *Model) ChunkBytes() int { return m.layout.width << m.chunkLog }

// Chunks returns the number of chunks; an empty tensor has none.
func (m *Model) Chunks() int {
	b := int64(m.ChunkBytes())
	return int((m.size + b - 1) / b)
}

// ChunkSize returns the decoded bytes of chunk i.
func (m *Model) ChunkSize(i int) int {
	b := int64(m.ChunkBytes())
	return int(min(b, m.size-int64(i)*b))
}

// ChunkRange returns where chunk i lies in the tensor's bytes.
func (m *Model) ChunkRange(i int) (offset int64, size int) {
	return int64(i) * int64(m.ChunkBytes()), m.ChunkSize(i)
}

// Kinds of coder in a stored model.
const (
	coderNone = iota
	coderHuffman
	coderRANS
	coderRANSContexts
)

// Append appends the stored form of the model to dst: the "tables" that a
// container keeps beside the chunks.
func (m *Model) Append(dst []byte) []byte { return append(dst, m.stored...) }

// seal computes what derives from the other fields.
func (m *Model) seal() *Model {
	dst := append([]byte{}, formatVersion, byte(m.layout.width), byte(m.layout.exp), byte(m.layout.sym), byte(m.chunkLog))
	dst = binary.AppendUvarint(dst, uint64(m.size))
	dst = binary.AppendUvarint(dst, uint64(m.base))
	dst = m.syms.append(dst)
	for _, c := range m.low {
		dst = c.append(dst)
	}
	m.crc = crc32.Checksum(dst, castagnoli)
	m.stored = binary.LittleEndian.AppendUint32(dst, m.crc)
	m.split = newSplitter(m.layout, m.base)
	return m
}

func (c *coder) append(dst []byte) []byte {
	switch {
	case c == nil:
		return append(dst, coderNone)
	case c.rans != nil:
		return c.appendRANS(dst)
	}
	dst = append(dst, coderHuffman, byte(len(c.huff)))
	w := bitWriter{dst: dst}
	for i := range c.huff {
		c.huff[i].append(&w, c.stride)
	}
	return w.flush()
}

func parseCoder(b []byte, stride int, m *Model) (*coder, []byte, error) {
	if len(b) == 0 {
		return nil, nil, fmt.Errorf("%w: model cut short", ErrCorrupt)
	}
	kind, b := b[0], b[1:]
	switch kind {
	case coderNone:
		return nil, b, nil
	case coderHuffman:
		if len(b) == 0 || b[0] == 0 || b[0] > maxTables {
			return nil, nil, fmt.Errorf("%w: bad number of Huffman tables", ErrCorrupt)
		}
		c := &coder{stride: stride, huff: make([]codeLens, b[0])}
		r := bitReader{src: b[1:]}
		for i := range c.huff {
			var err error
			if c.huff[i], err = readLens(&r, stride); err != nil {
				return nil, nil, err
			}
		}
		rest := r.rest()
		if r.bad {
			return nil, nil, fmt.Errorf("%w: Huffman tables cut short", ErrCorrupt)
		}
		return c, rest, nil
	case coderRANS, coderRANSContexts:
		return parseRANS(b, stride, m, kind == coderRANSContexts)
	}
	return nil, nil, fmt.Errorf("%w: unknown coder %d", ErrCorrupt, kind)
}

// ParseModel reads what [Model.Append] wrote; b must hold nothing else.
func ParseModel(b []byte, limits Limits) (*Model, error) {
	if len(b) < 5+2+1+4 {
		return nil, fmt.Errorf("%w: model of %d bytes", ErrCorrupt, len(b))
	}
	if b[0] != formatVersion {
		return nil, fmt.Errorf("%w %d", ErrVersion, b[0])
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return nil, fmt.Errorf("%w: model checksum %08x, stored %08x", ErrCorrupt, got, sum)
	}
	m := &Model{
		layout:   layout{int(body[1]), int(body[2]), int(body[3])},
		chunkLog: int(body[4]),
		crc:      sum,
		stored:   bytes.Clone(b),
	}
	if err := m.layout.valid(); err != nil {
		return nil, err
	}
	if m.chunkLog < minChunkLog || m.chunkLog > maxChunkLog {
		return nil, fmt.Errorf("%w: chunks of 2^%d elements", ErrCorrupt, m.chunkLog)
	}
	size, rest, ok := uvarint(body[5:], math.MaxInt64)
	if !ok {
		return nil, fmt.Errorf("%w: bad model size", ErrCorrupt)
	}
	if m.size = int64(size); m.size > limits.maxSize() {
		return nil, fmt.Errorf("%w: %d bytes declared, %d allowed", ErrTooLarge, m.size, limits.maxSize())
	}
	base, rest, ok := uvarint(rest, 1<<m.layout.sym-1)
	if !ok || base > 0 && m.layout.sym <= 8 {
		return nil, fmt.Errorf("%w: bad symbol window", ErrCorrupt)
	}
	m.base = int(base)
	var err error
	if m.syms, rest, err = parseCoder(rest, m.layout.stride(), m); err != nil {
		return nil, err
	}
	m.low = make([]*coder, m.layout.lowStreams())
	for i := range m.low {
		if m.low[i], rest, err = parseCoder(rest, 1, m); err != nil {
			return nil, err
		}
		if c := m.low[i]; c != nil && (c.rans != nil || len(c.huff) != 1) {
			return nil, fmt.Errorf("%w: stream %d needs one Huffman table", ErrCorrupt, i)
		}
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%w: %d bytes after the model", ErrCorrupt, len(rest))
	}
	for _, c := range append(m.low, m.syms) {
		if c != nil {
			c.few = m.size/int64(m.layout.width) < fewSymbols*int64(len(c.huff))
		}
	}
	m.split = newSplitter(m.layout, m.base)
	return m, nil
}
