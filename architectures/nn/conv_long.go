package nn

import (
	"context"
	"errors"
	"fmt"

	"github.com/hfcompress/compress/internal/longconv"
)

// ErrNoLongConvolution says that a device's sessions are no [LongConvolver].
var ErrNoLongConvolution = errors.New("this device has no convolutions as long as the sequence: its sessions do not implement nn.LongConvolver")

// LongConvolver is implemented by sessions that convolve sequences with filters as
// long as themselves, and compute such filters as Hyena does (Poli et al., 2023): by
// a small network from positions, times a window. A device whose sessions do not can
// run all models but those with such layers; see [CanConvolveLong]. All operands are
// F32.
type LongConvolver interface {
	// ConvolveLong returns, for each row t of each sequence of u [Batch·T, width] and
	// each column c,
	//
	//	Skip[c] · u[t, c] + Σ_{i ≤ t} u[i, c] · Filter[t − i, c]
	//
	// [Batch·T, width]. Rows that the filter does not have are zeros. The result of a
	// row depends on the rows of its sequence up to itself and on the filter's rows
	// alone, not on the number or the values of those after it; the filter's rows
	// from [LongFilterRows] of T on have no influence.
	ConvolveLong(u Array, in LongConvolution) Array
	// Sine returns sin(w[c] · x[r, c]) for x [rows, width] and w [width].
	Sine(x, w Array) Array
	// Decay returns x[r, c] · (exp(−t[r]·|rate[c]|) + shift) for x [rows, width],
	// t [rows, 1] and rate [width].
	Decay(x, t, rate Array, shift float32) Array
}

// LongConvolution gathers the operands of [LongConvolver.ConvolveLong] besides the
// sequences.
type LongConvolution struct {
	// Batch is the number of sequences, which have one length.
	Batch int
	// Filter has shape [rows, width], Skip [width].
	Filter, Skip Array
}

// MaxLongConvolution is the longest sequence that [LongConvolver.ConvolveLong]
// takes.
const MaxLongConvolution = longconv.MaxLength

// LongFilterRows is how many rows of a filter decide the bits of
// [LongConvolver.ConvolveLong] for sequences of so many rows. Some more than the
// sequence has are read, so that the bits do not depend on the sequence's length;
// whoever has no more rows gives what there is.
func LongFilterRows(length int) int { return longconv.FilterLength(length) }

// CanConvolveLong returns an error that wraps [ErrNoLongConvolution] when dev's
// sessions have no long convolutions.
func CanConvolveLong(dev Device) error {
	s := dev.Begin(context.Background())
	_, ok := s.(LongConvolver)
	if err := s.Close(); err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s: %w", dev.Info().Name, ErrNoLongConvolution)
	}
	return nil
}
