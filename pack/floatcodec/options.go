package floatcodec

import (
	"errors"
	"fmt"
)

// Level trades time for size. Every level is lossless and decodes with the same
// functions.
type Level uint8

const (
	// Fast codes symbols with Huffman codes trained on a sample.
	Fast Level = iota
	// Dense codes symbols with range asymmetric numeral systems (rANS), tables
	// trained on a larger sample, and tries a general-purpose compressor on
	// every chunk.
	Dense
	// Max adds rANS tables chosen by row and column, when the shape is known,
	// and tries the general-purpose compressor on every stream.
	Max
)

// String returns the level's name in lower case.
func (l Level) String() string {
	switch l {
	case Fast:
		return "fast"
	case Dense:
		return "dense"
	case Max:
		return "max"
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// ParseLevel is the inverse of [Level.String].
func ParseLevel(s string) (Level, error) {
	for l := Fast; l <= Max; l++ {
		if l.String() == s {
			return l, nil
		}
	}
	return 0, fmt.Errorf("unknown level %q: want fast, dense or max", s)
}

// Options says how to encode. The zero value is the fast level on one thread.
type Options struct {
	// Level is the trade of time for size.
	Level Level
	// Workers is how many goroutines [Encode] and [Trainer.Model] use; 0 means
	// 1. The bytes do not depend on it.
	Workers int
}

// Limits bounds what a decoder accepts and how it works. The zero value is safe.
type Limits struct {
	// MaxSize is the largest decoded size in bytes; 0 means [DefaultMaxSize].
	MaxSize int64
	// Workers is how many goroutines [Decode] uses; 0 means 1.
	Workers int
}

// DefaultMaxSize is the decoded size that [Limits] allow by default: 16 GiB.
const DefaultMaxSize = 16 << 30

func (l Limits) maxSize() int64 {
	if l.MaxSize == 0 {
		return DefaultMaxSize
	}
	return l.MaxSize
}

var (
	// ErrCorrupt is wrapped by every error about encoded bytes that are cut
	// short, altered, or that no encoder writes.
	ErrCorrupt = errors.New("floatcodec: corrupt data")
	// ErrTooLarge is wrapped by errors about a declared size above the limit.
	ErrTooLarge = errors.New("floatcodec: size above the limit")
	// ErrVersion is wrapped by errors about a format version that this package
	// does not know.
	ErrVersion = errors.New("floatcodec: unknown format version")
)
