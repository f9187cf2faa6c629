package loader

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

var (
	// ErrLimit is wrapped by every refusal that a limit of [Limits] caused.
	ErrLimit = errors.New("limit exceeded")
	// ErrNoTensor is wrapped when a checkpoint or a set of weights is asked for a
	// tensor that it does not have.
	ErrNoTensor = errors.New("no such tensor")
	// ErrClosed is wrapped by every use of a checkpoint after Close.
	ErrClosed = errors.New("checkpoint is closed")
	// ErrExists is wrapped when a writer would replace a file and was not told to.
	ErrExists = fs.ErrExist
)

// HeaderError says why a safetensors header was refused.
type HeaderError struct {
	// File is the file's name, empty when only bytes were given.
	File string
	// Tensor is the tensor concerned, empty when it is the file as a whole.
	Tensor string
	// Offset is where in the file the scanner stood, or -1 when the fault is not
	// at one place.
	Offset int64
	// Reason is one line with what was expected and what was found.
	Reason string
	// Err is the kind of fault, such as ErrLimit, tensor.ErrShape or
	// tensor.ErrDType, or nil.
	Err error
}

// Error names the file, the tensor and the place, as far as they are known.
func (e *HeaderError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ": ")
	}
	b.WriteString("safetensors header: ")
	if e.Tensor != "" {
		b.WriteString("tensor " + quote(e.Tensor) + ": ")
	}
	b.WriteString(e.Reason)
	if e.Offset >= 0 {
		b.WriteString(" (at byte " + strconv.FormatInt(e.Offset, 10) + ")")
	}
	return b.String()
}

// Unwrap returns the kind of fault.
func (e *HeaderError) Unwrap() error { return e.Err }

// TruncatedError says that a file is shorter than its header requires, or has
// become so since it was opened. It wraps [io.ErrUnexpectedEOF].
type TruncatedError struct {
	// File is the file's name, empty when only bytes were given.
	File string
	// Tensor is the first tensor whose bytes are not all there, empty when the
	// header itself is cut.
	Tensor string
	// Expected and Found are lengths of the whole file in bytes. Found is -1 when
	// a read ended early although the file's length had been right.
	Expected, Found int64
}

// Error names the file, the tensor and both lengths.
func (e *TruncatedError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ": ")
	}
	b.WriteString("truncated")
	if e.Tensor != "" {
		b.WriteString(" in tensor " + quote(e.Tensor))
	} else {
		b.WriteString(" in the header")
	}
	if e.Found >= 0 {
		fmt.Fprintf(&b, ": expected at least %d bytes, found %d", e.Expected, e.Found)
	} else {
		fmt.Fprintf(&b, ": expected at least %d bytes, a read ended early", e.Expected)
	}
	return b.String()
}

// Unwrap returns io.ErrUnexpectedEOF.
func (e *TruncatedError) Unwrap() error { return io.ErrUnexpectedEOF }

// IndexError lists everything on which an index and its shards, or an index and
// the rules for indexes, disagree.
type IndexError struct {
	// File is the index's name.
	File string
	// Problems has one line for each disagreement.
	Problems []string
	// Err is the kind of fault, or nil.
	Err error
}

// Error lists the problems, up to the first 20, one a line when there are
// several.
func (e *IndexError) Error() string {
	if len(e.Problems) == 1 {
		return e.File + ": " + e.Problems[0]
	}
	shown := e.Problems[:min(len(e.Problems), 20)]
	s := fmt.Sprintf("%s: %d problems\n  %s", e.File, len(e.Problems), strings.Join(shown, "\n  "))
	if more := len(e.Problems) - len(shown); more > 0 {
		s += fmt.Sprintf("\n  … and %d more", more)
	}
	return s
}

// Unwrap returns the kind of fault.
func (e *IndexError) Unwrap() error { return e.Err }

// MissingShardError says that a shard which an index names is not there. It
// wraps [fs.ErrNotExist].
type MissingShardError struct {
	// Index is the index file, Shard the name that it gives.
	Index, Shard string
	// Tensors is the number of tensors that the index places in the shard.
	Tensors int
}

// Error names the index and the shard.
func (e *MissingShardError) Error() string {
	return fmt.Sprintf("%s: missing shard %s, which should hold %d tensors", e.Index, quote(e.Shard), e.Tensors)
}

// Unwrap returns fs.ErrNotExist.
func (e *MissingShardError) Unwrap() error { return fs.ErrNotExist }

// ChoiceError says that a directory holds several checkpoints and none was
// chosen with [Options.File].
type ChoiceError struct {
	// Dir is the directory.
	Dir string
	// Candidates are the names to choose from, sorted.
	Candidates []string
}

// Error lists the candidates.
func (e *ChoiceError) Error() string {
	shown := e.Candidates[:min(len(e.Candidates), 20)]
	s := fmt.Sprintf("%s: %d checkpoints, choose one by file name: %s", e.Dir, len(e.Candidates), strings.Join(shown, ", "))
	if len(shown) < len(e.Candidates) {
		s += ", …"
	}
	return s
}

// quote prints text from a file so that it cannot flood a log or a terminal.
func quote(s string) string {
	const most = 100
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:most]) + "…"
}
