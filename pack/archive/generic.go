package archive

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/hfcompress/compress/pack/floatcodec"
)

// Methods of a chunk of kind kindBytes.
const (
	methodRaw  = 0
	methodZstd = 1
)

// zstdEncoders keeps encoders, which hold large buffers. The best one of this
// library is left out: its tables take 35 MiB for each worker.
var zstdEncoders = [...]sync.Pool{
	{New: func() any { return newZstd(zstd.SpeedDefault) }},
	{New: func() any { return newZstd(zstd.SpeedBetterCompression) }},
}

// zstdTries is how many of them each level tries.
var zstdTries = [...]int{floatcodec.Fast: 1, floatcodec.Dense: 2, floatcodec.Max: 2}

func newZstd(level zstd.EncoderLevel) *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), // a chunk has a checksum
		zstd.WithWindowSize(bytesChunk), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constant
	}
	return e
}

var zstdDecoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(bytesChunk), zstd.WithDecoderMaxMemory(bytesChunk), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(err) // the options are constant
	}
	return d
}}

// appendBytesChunk encodes chunk i of a stream of kind kindBytes: checksum,
// method, content.
func appendBytesChunk(dst []byte, i int, raw []byte, level floatcodec.Level) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, methodZstd)
	// What is meant to be better is sometimes worse, so the higher levels try both.
	for try := range zstdTries[level] {
		e := zstdEncoders[try].Get().(*zstd.Encoder)
		end := len(dst)
		dst = e.EncodeAll(raw, dst)
		zstdEncoders[try].Put(e)
		if end > start+5 {
			if len(dst)-end < end-start-5 {
				dst = append(dst[:start+5], dst[end:]...)
			} else {
				dst = dst[:end]
			}
		}
	}
	if len(dst)-start-5 >= len(raw) {
		dst = append(append(dst[:start], 0, 0, 0, 0, methodRaw), raw...)
	}
	binary.LittleEndian.PutUint32(dst[start:], chunkSum(kindBytes, i, len(raw), dst[start+4:]))
	return dst
}

func decodeBytesChunk(dst []byte, i int, enc []byte) error {
	if len(enc) < 5 {
		return corruptf("chunk of %d bytes", len(enc))
	}
	sum, body := binary.LittleEndian.Uint32(enc), enc[4:]
	if got := chunkSum(kindBytes, i, len(dst), body); got != sum {
		return corruptf("checksum is %08x, stored is %08x", got, sum)
	}
	switch body[0] {
	case methodRaw:
		if len(body)-1 != len(dst) {
			return corruptf("%d bytes, expected %d", len(body)-1, len(dst))
		}
		copy(dst, body[1:])
		return nil
	case methodZstd:
		d := zstdDecoders.Get().(*zstd.Decoder)
		defer zstdDecoders.Put(d)
		out, err := d.DecodeAll(body[1:], dst[:0:len(dst)])
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if len(out) != len(dst) || len(out) > 0 && &out[0] != &dst[0] {
			return corruptf("Zstandard frame of %d bytes, expected %d", len(out), len(dst))
		}
		return nil
	}
	return corruptf("unknown method %d", body[0])
}
