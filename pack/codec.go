package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/klauspost/compress/zstd"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// Codec stores the bytes of one tensor. Codecs are pure: the same tensor gives
// the same bytes. They are safe for concurrent use.
type Codec interface {
	// Name is recorded in the manifest and finds the codec again.
	Name() string
	// Encode writes the stored form of t to w.
	Encode(w io.Writer, t *tensor.Tensor) error
	// Decode fills dst, which has exactly the tensor's bytes, from the stored
	// form. Input that does not fill dst to the last byte, or has bytes left over,
	// is an error.
	Decode(dst []byte, d tensor.DType, stored []byte) error
}

// CodecByName returns the codec that a manifest names.
func CodecByName(name string) (Codec, error) {
	for _, c := range []Codec{Float{}, Raw{}, Zstd{}} {
		if c.Name() == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("unknown weight codec %q", name)
}

// Float stores each tensor as one blob of package floatcodec. It is the codec of
// packages unless another is asked for. The encoded form of one tensor at a time
// lies in memory.
type Float struct {
	// Level trades time for size; all levels are read alike.
	Level floatcodec.Level
}

// Name returns "floatcodec".
func (Float) Name() string { return "floatcodec" }

// Encode writes the blob.
func (f Float) Encode(w io.Writer, t *tensor.Tensor) error {
	blob, err := floatcodec.Encode(nil, t.DType(), t.Shape(), t.Bytes(), floatcodec.Options{Level: f.Level, Workers: runtime.GOMAXPROCS(0)})
	if err != nil {
		return err
	}
	_, err = w.Write(blob)
	return err
}

// Decode fills dst from a blob.
func (Float) Decode(dst []byte, _ tensor.DType, stored []byte) error {
	// The limit is at least 1, as 0 would mean the default one.
	limits := floatcodec.Limits{MaxSize: max(int64(len(dst)), 1), Workers: runtime.GOMAXPROCS(0)}
	out, err := floatcodec.Decode(dst[:0:len(dst)], stored, limits)
	if err != nil {
		return err
	}
	if len(out) != len(dst) {
		return fmt.Errorf("stored form has %d bytes of values, expected %d", len(out), len(dst))
	}
	if len(out) > 0 && &out[0] != &dst[0] {
		copy(dst, out)
	}
	return nil
}

// Raw stores tensors as they are.
type Raw struct{}

// Name returns "raw".
func (Raw) Name() string { return "raw" }

// Encode writes the tensor's bytes.
func (Raw) Encode(w io.Writer, t *tensor.Tensor) error {
	_, err := w.Write(t.Bytes())
	return err
}

// Decode copies stored to dst.
func (Raw) Decode(dst []byte, _ tensor.DType, stored []byte) error {
	if len(stored) != len(dst) {
		return fmt.Errorf("stored form has %d bytes, expected %d", len(stored), len(dst))
	}
	copy(dst, stored)
	return nil
}

// Zstd stores each tensor as one Zstandard frame of its bytes grouped by
// significance: all lowest bytes of the elements first, then the next ones. The
// sign and exponent bytes of neighbouring weights resemble each other, their
// mantissas do not.
type Zstd struct{}

// Name returns "zstd-planes".
func (Zstd) Name() string { return "zstd-planes" }

// zstdBlockElements is how many elements are grouped at a time, so that memory
// is bounded by a block.
const zstdBlockElements = 1 << 18

// Encode writes the frame.
func (Zstd) Encode(w io.Writer, t *tensor.Tensor) error {
	enc, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return err
	}
	size := max(t.DType().Size(), 1)
	data := t.Bytes()
	planes := make([]byte, 0, min(len(data), zstdBlockElements*size))
	for len(data) > 0 {
		n := min(len(data), zstdBlockElements*size)
		planes = planes[:n]
		for p := range size {
			plane := planes[p*(n/size):]
			for i := 0; i < n/size; i++ {
				plane[i] = data[i*size+p]
			}
		}
		if _, err := enc.Write(planes); err != nil {
			return errors.Join(err, enc.Close())
		}
		data = data[n:]
	}
	return enc.Close()
}

// Decode reverses Encode.
func (Zstd) Decode(dst []byte, d tensor.DType, stored []byte) error {
	dec, err := zstd.NewReader(bytes.NewReader(stored), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20), zstd.WithDecoderMaxWindow(32<<20))
	if err != nil {
		return err
	}
	defer dec.Close()
	size := max(d.Size(), 1)
	planes := make([]byte, min(len(dst), zstdBlockElements*size))
	for done := 0; done < len(dst); {
		n := min(len(dst)-done, zstdBlockElements*size)
		if _, err := io.ReadFull(dec, planes[:n]); err != nil {
			return fmt.Errorf("stored form ends after %d of %d bytes: %w", done, len(dst), err)
		}
		for p := range size {
			plane := planes[p*(n/size):]
			for i := 0; i < n/size; i++ {
				dst[done+i*size+p] = plane[i]
			}
		}
		done += n
	}
	var extra [1]byte
	if n, err := dec.Read(extra[:]); n != 0 || err != io.EOF {
		return fmt.Errorf("stored form goes on after %d bytes", len(dst))
	}
	return nil
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
