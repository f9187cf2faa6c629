package floatcodec

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Encoders and decoders of Zstandard hold large buffers, so they are kept.
var (
	zstdFast = sync.Pool{New: func() any { return newZstdEncoder(zstd.SpeedDefault) }}
	zstdBest = sync.Pool{New: func() any { return newZstdEncoder(zstd.SpeedBetterCompression) }}
	zstdDec  = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1),
			zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxWindow(1<<26),
			zstd.WithDecoderMaxMemory(1<<26))
		if err != nil {
			panic(err) // the options are constant
		}
		return d
	}}
)

func newZstdEncoder(level zstd.EncoderLevel) *zstd.Encoder {
	e, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(level),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), // a chunk has a checksum
		zstd.WithWindowSize(1<<19), // what a chunk has at most
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constant
	}
	return e
}

// appendZstd appends one frame that holds src.
func appendZstd(dst, src []byte, level Level) []byte {
	pool := &zstdFast
	if level == Max {
		pool = &zstdBest
	}
	e := pool.Get().(*zstd.Encoder)
	defer pool.Put(e)
	return e.EncodeAll(src, dst)
}

// decodeZstd fills dst with the content of src, which must have exactly
// len(dst) bytes.
func decodeZstd(dst, src []byte) error {
	d := zstdDec.Get().(*zstd.Decoder)
	defer zstdDec.Put(d)
	out, err := d.DecodeAll(src, dst[:0:len(dst)])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(out) != len(dst) || len(dst) > 0 && &out[0] != &dst[0] {
		return fmt.Errorf("%w: zstd stream of %d bytes, need %d", ErrCorrupt, len(out), len(dst))
	}
	return nil
}
