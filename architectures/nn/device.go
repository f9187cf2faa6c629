package nn

import (
	"context"

	"github.com/hfcompress/compress/tensor"
)

// A Device evaluates models. It owns uploaded weights; computation happens in
// sessions. A Device is safe for concurrent use.
type Device interface {
	// Info describes the device; the value does not change while it is open.
	Info() Info

	// Upload places a weight on the device in the layout that use needs. The
	// device may keep a reference to t instead of copying it, so t's storage must
	// stay valid and unchanged until the device is closed.
	Upload(t *tensor.Tensor, use Use) (Array, error)

	// UploadRows places a table whose rows are gathered by index, in the form in
	// which src holds it: a packed table stays packed.
	UploadRows(src RowSource) (Table, error)

	// NewKVCache returns an empty cache for keys and values of the given width
	// (key/value heads × head size) for batch sequences of at most capacity
	// positions.
	NewKVCache(batch, width, capacity int) (KVCache, error)

	// Begin starts a session. Results made in it live until it is closed.
	Begin(ctx context.Context) Session

	// Close frees all that was uploaded.
	Close() error
}

// Use says how a weight is read, which decides its layout on the device.
type Use uint8

const (
	// AsVector is for norm weights and biases.
	AsVector Use = iota
	// AsMatrix is for the weight of a linear map, shape [out, in].
	AsMatrix
	// AsTransposed is for the weight of a linear map that is stored as [in, out],
	// as GPT-2 stores it. The array's shape is [out, in].
	AsTransposed
)

// Array is a dense value on a device: a weight, or a result of a session with
// shape [rows, width].
type Array interface {
	Shape() tensor.Shape
	DType() tensor.DType
}

// Table is an uploaded [RowSource].
type Table interface {
	NumRows() int
	Width() int
	DType() tensor.DType
}

// RowSource is a table of equally wide rows in host memory, plain or packed,
// from which any single row can be had alone. It is safe for concurrent use.
type RowSource interface {
	NumRows() int
	// Width is the number of elements in a row.
	Width() int
	DType() tensor.DType
	// DecodeRow writes row i to dst, which has exactly Width elements' bytes.
	DecodeRow(dst []byte, i int) error
}

// KVCache holds the keys and values of earlier positions of a batch.
type KVCache interface {
	// Len is the number of positions held, the same for every sequence.
	Len() int
	Capacity() int
	// Truncate drops the positions from n on.
	Truncate(n int)
}

// Info describes a device.
type Info struct {
	// Name is how the command line selects it, such as "cpu" or "cpu:split-k".
	Name string `json:"name"`
	// Fingerprint identifies what decides the bits of a result: two devices with
	// the same fingerprint give the same bytes.
	Fingerprint string `json:"fingerprint"`
	// Detail holds facts for people: processor, instruction set, driver.
	Detail map[string]string `json:"detail,omitempty"`
	// Regimes lists the published row-count intervals in increasing order,
	// covering 1 and up. A device that does not know them leaves this empty.
	Regimes []Regime `json:"regimes"`
	// Strict says that the device keeps the package's numeric contract to the
	// bit.
	Strict bool `json:"strict"`
}

// Regime is an interval of row counts in which one row function applies.
type Regime struct {
	Name string `json:"name"`
	// MinRows and MaxRows bound the interval, both included. MaxRows is 0 for the
	// last one, which has no upper bound.
	MinRows int `json:"min_rows"`
	MaxRows int `json:"max_rows,omitempty"`
}

// Unary is an elementwise function of one argument.
type Unary uint8

// The elementwise functions. GELU is x·½·(1+erf(x/√2)); GELUTanh its tanh
// approximation (Hendrycks and Gimpel, 2016); SiLU is x/(1+exp(−x)). The stepwise
// forms are the same in F32. In 16-bit types they round after every operation,
// as references do that write the formula out. Mish is x·tanh(ln(1+exp(x)))
// (Misra, 2019).
const (
	SiLU Unary = iota
	GELU
	GELUTanh
	ReLU
	Tanh
	Sigmoid
	GELUStepwise
	GELUTanhStepwise
	Mish
)

// RotaryStyle says which pairs of a head's elements rotate together.
type RotaryStyle uint8

const (
	// RotateHalves pairs element i with i + n/2, as Llama does.
	RotateHalves RotaryStyle = iota
	// RotatePairs pairs element 2i with 2i + 1, as GPT-J does.
	RotatePairs
)

// Session computes. Every operation returns a new array; operands are never
// changed. The first failure (shapes that do not fit, a cancelled context, a
// device that gave up) sticks: it is returned by Err, and operations after it
// do nothing and return arrays that must not be used. A Session belongs to one
// goroutine.
//
// Activations are arrays of shape [rows, width] of type F32, BF16 or F16. All
// operands of an operation have one type, weights included, and so has its
// result. In the 16-bit types an operation computes in float32 and rounds its
// result once, to nearest even, except where it says otherwise.
type Session interface {
	// FromHost copies t to the device.
	FromHost(t *tensor.Tensor) Array
	// ToHost copies a result to host memory. It returns nil after a failure.
	ToHost(a Array) *tensor.Tensor
	// Cast rounds x to another of the three types.
	Cast(x Array, d tensor.DType) Array

	// Gather returns the rows of table that ids name: [len(ids), width]. An id
	// outside the table is a failure that names it.
	Gather(table Table, ids []int) Array

	// Linear returns x·wᵀ + b for x [rows, in], w [out, in] uploaded [AsMatrix]
	// and b [out] or nil. The bias is added after the whole sum.
	Linear(x, w, b Array) Array

	// RMSNorm returns w · (x · 1/√(mean(x²)+eps)), statistics over each row in
	// float32, in that association (Zhang and Sennrich, 2019). The product in
	// parentheses is rounded to x's type. Where w is narrower, its width divides
	// x's, and each group of so many columns is normalised by itself, as heads are.
	RMSNorm(x, w Array, eps float32) Array
	// LayerNorm returns (x−mean)/√(var+eps)·w + b over each row; w and b may be
	// nil (Ba, Kiros and Hinton, 2016).
	LayerNorm(x, w, b Array, eps float32) Array
	// RowNormalize divides each row by max(‖row‖₂, eps), rounded to x's type.
	RowNormalize(x Array, eps float32) Array

	// Map applies f to every element.
	Map(f Unary, x Array) Array
	// Add and Mul combine equal shapes element by element.
	Add(x, y Array) Array
	Mul(x, y Array) Array
	// Scale multiplies every element by c.
	Scale(x Array, c float32) Array

	// Columns returns columns start ≤ c < start+width of every row.
	Columns(x Array, start, width int) Array
	// GroupColumns cuts every row into groups of equal width and returns columns
	// start ≤ c < start+width of each group, side by side: [rows, groups·width].
	GroupColumns(x Array, groups, start, width int) Array

	// Rotary applies rotary position embedding (Su et al., 2021) to x
	// [rows, heads·size]: cos and sin have one row of size/2 angles per row of x,
	// and only the first 2·width(cos) elements of each head rotate. When cos and
	// sin have x's 16-bit type, each product is rounded and then their sum; when
	// they are F32, the result is rounded once.
	Rotary(x, cos, sin Array, heads int, style RotaryStyle) Array

	// Append adds k and v [batch·steps, width] to the cache, row b·steps+t for
	// sequence b.
	Append(c KVCache, k, v Array)

	// Attention is softmax(scale·q·kᵀ + mask)·v per head.
	Attention(in AttentionInput) AttentionOutput

	// Err returns the first failure.
	Err() error
	// Close ends the session and frees its arrays. It returns Err.
	Close() error
}

// AttentionInput gathers the operands of [Session.Attention]. Rows are ordered
// by sequence, then position: row b·T+t.
type AttentionInput struct {
	// Q has shape [Batch·T, Heads·HeadDim].
	Q Array
	// K and V have shape [Batch·S, KVHeads·HeadDim]; leave them nil to read
	// Cache, whose Len is then S.
	K, V  Array
	Cache KVCache

	Batch, Heads, KVHeads, HeadDim int
	// Scale multiplies each score.
	Scale float32
	// Causal lets query t see keys up to Offset + t only, where Offset = S − T.
	Causal bool
	// Window, when not 0, lets query t see keys from Offset + t − Window + 1 on
	// only. It needs Causal.
	Window int
	// Wide keeps the scores in float32 up to the softmax; Q and K may then be F32
	// where V is of a 16-bit type, which is that of the result. Without it, 16-bit
	// types round the product q·kᵀ, its multiple, and the sum with Bias, each. The
	// weights are rounded in any case.
	Wide bool
	// Mask has one entry per sequence and key, row-major [Batch, S]; false hides
	// the key. Nil shows all. A query that may see no key attends to all S keys
	// evenly, which is what the reference's finite additive masks amount to.
	Mask []bool
	// Bias, when not nil, has shape [Heads, T·S] and is added to the scaled
	// scores.
	Bias Array
	// KeyBias, when not nil, has one entry per sequence and key, row-major
	// [Batch, S], and is added to every score of that key, after Bias.
	KeyBias []float32
	// Weights asks for the attention weights too.
	Weights bool
}

// AttentionOutput is the result of [Session.Attention].
type AttentionOutput struct {
	// Context has shape [Batch·T, Heads·HeadDim].
	Context Array
	// Weights, when asked for, has shape [Batch·Heads·T, S].
	Weights Array
}

// Bounded is implemented by devices with a memory of their own.
type Bounded interface {
	// Fits returns nil where weights of so many bytes can be placed beside what is
	// there, and otherwise an error with the numbers. It is asked before a model is
	// uploaded, which would fail late.
	Fits(bytes int64) error
}
