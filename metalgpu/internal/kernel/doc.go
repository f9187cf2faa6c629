// Package kernel holds the table of GPU kernels, written once in a small common
// language, and turns it into GLSL and Metal's language.
//
// # Conventions
//
// Activations are float buffers, in 16-bit models with values that the type has.
// Vectors (norm weights, biases) are widened to float when they are uploaded.
// Weights and tables stay in their stored type in uint buffers, row-major
// [out][in]; elements of 16 bits lie two in a uint, the first in the low half.
// A buffer that is declared optional must still be bound: to any buffer.
//
// The push constant round is [RoundF32], [RoundBF16] or [RoundF16]: the model's
// type, to which results are rounded where docs/numerics.md says. Sizes of 0 are
// allowed where the grid is then empty; see [Kernel.Groups]. Element indices are
// 32-bit, so no buffer may have more than 2^32 elements.
//
// # The table
//
// Buffers marked with * are written; ? are optional. The grid is that of
// [Kernel.Groups].
//
//	linear_{vector,few,tiled}_{f32,bf16,f16}
//	    x:float w:uint b:float? y*:float
//	    rows k n wofs wstride yofs ystride bias round
//	    y[r·ystride + yofs + o] = Σ x[r·k + i] · w[wofs + o·wstride + i] + b[yofs + o], o < n.
//	    wofs and wstride count elements; any parity. bias is 0 or 1. vector is
//	    for rows = 1, few for any number of rows with the vector's bits in each,
//	    tiled for any number with the order of the CPU device.
//	gather_{f32,bf16,f16}
//	    table:uint ids:uint y*:uint
//	    n width tofs first count
//	    Rows ids[i] of a table to row i of y, widened. The buffer holds rows first …
//	    first+count−1, from element tofs on; other ids leave their row of y alone.
//	xor_low
//	    base:uint low:uint ids:uint y*:uint
//	    n width bits lowbits shift
//	    The low part of rectangular XOR tables (modes low8, low16): elements of bits
//	    (16, 32 or 64) of the base, with lowbits (8 or 16) flipped. An element of 16
//	    or 32 bits fills one word of y, shifted left by shift (16 turns BF16 into
//	    float, else 0); one of 64 bits fills two.
//	xor_high
//	    columns:uint high:uint ids:uint y*:uint
//	    n width bits lowbits slots colbits highbits shift
//	    The exceptions of rectangular tables; run it behind xor_low.
//	xor_codes
//	    base:uint codes:uint offsets:uint ids:uint y*:uint
//	    n width bits offwords shift
//	    The codes of packed tables. offwords is the number of 32-bit words of an
//	    offset, 1 or 2.
//	xor_entries
//	    codes:uint offsets:uint ids:uint y*:uint
//	    n width bits offwords shift
//	    The exceptions of packed tables; run it behind xor_codes.
//	widen_f16
//	    y*:uint
//	    n
//	    Turns F16 patterns, one per word, into floats in place: behind the xor
//	    kernels with bits 16 and shift 0.
//	map
//	    x:float y*:float
//	    n f round
//	    f is the number of an nn.Unary.
//	add, mul
//	    x:float y:float z*:float
//	    n round
//	scale
//	    x:float y*:float
//	    n c:float round
//	cast
//	    x:uint y*:uint
//	    n round
//	    The bits of floats; NaN payloads as the CPU device keeps them.
//	columns
//	    x:uint y*:uint
//	    rows width groups start take
//	    Columns start … start+take−1 of each of groups equal parts of rows of width.
//	kv_append
//	    x:uint y*:uint
//	    batch steps width capacity at
//	    x [batch·steps, width] to positions at … of y [batch, capacity, width].
//	rotary
//	    x:float cosines:float sines:float y*:float
//	    rows width size pairs style stepwise round
//	    size is a head's width, pairs the width of cosines and sines, style an nn.RotaryStyle,
//	    stepwise 1 for tables of x's own 16-bit type.
//	rmsnorm
//	    x:float w:float y*:float
//	    rows width eps:float round
//	    width is that of w; rows counts the groups of all rows.
//	layernorm
//	    x:float w:float? b:float? y*:float
//	    rows width eps:float hasw hasb round
//	rownormalize
//	    x:float y*:float
//	    rows width eps:float round
//	attention_scores
//	    q:float k:float mask:uint? bias:float? keybias:float? p*:float
//	    batch heads kvheads size queries keys kcap first block scale:float causal window flags wide round
//	    q [batch·queries, heads·size]; k [batch, kcap, kvheads·size], of which the
//	    first keys positions count; mask and keybias [batch, keys], a mask with 1
//	    for keys that are seen; bias [heads, queries·keys]. flags is a sum of
//	    [FlagMask], [FlagBias] and [FlagKeyBias]. Of queries first … first+block−1 of
//	    each sequence p receives the scores [batch·heads·block, keys].
//	attention_softmax
//	    mask:uint? p*:float
//	    batch heads queries keys first block causal window flags round
//	    In place.
//	attention_context
//	    p:float v:float mask:uint? y*:float
//	    batch heads kvheads size queries keys vcap first block causal window flags round
//	    v as k above. y [batch·queries, heads·size]; only the rows of the block are
//	    written. round is the type of the values.
//	argmax
//	    x:float index*:uint
//	    rows width
//	    The first of the largest elements of each row; a NaN counts as the smallest.
//	topk
//	    x:float values*:float index*:uint
//	    rows width count
//	    The count largest elements of each row, largest first, the first of equals
//	    first. count must not exceed width.
//	conv_taps
//	    x:uint y*:uint
//	    rows first steps width from channels taps dilation left
//	    Row r of y is what the taps of row first+r of sequences x [batch·steps, width]
//	    see: y[r, j·channels + c] is x at column from + c of row
//	    first + r − left + j·dilation, or 0 where that is outside of the sequence. The
//	    product with a matrix is left to linear_tiled.
//	conv_depthwise
//	    x:float w:float b:float? y*:float
//	    rows steps width taps dilation left bias round
//	    y[r, c] = Σ_j w[j·width + c] · x[r − left + j·dilation, c] + b[c], with zeros
//	    for rows outside of r's sequence.
//	mish
//	    x:float y*:float
//	    n round
//	    nn.Mish, by itself since it is long.
//	long_direct
//	    x:float k:float sums*:uint
//	    series columns steps width first taps
//	    This kernel and those after it convolve columns first … first+columns−1 of
//	    sequences x [batch·steps, width] with those of k [taps, width] as
//	    internal/longconv does, in float64. Series b·columns + c is column first + c of
//	    sequence b; sums is [series, steps], two words for each number, the lower one
//	    first. Here it receives what the rows of a block of 64 give to each other.
//	long_load
//	    x:float y*:uint
//	    series columns steps width first size count pairs
//	    y [series, count, size], four words for each complex number: the first blocks
//	    of series. With pairs = 1 the imaginary part is the value size further on. Rows
//	    beyond steps are zeros.
//	long_forward, long_backward
//	    y*:uint roots:uint
//	    n part parts
//	    A step of all transforms in y, or its inverse times 2: n pairs of numbers part
//	    apart, parts·part of them in one transform.
//	long_multiply
//	    x:uint parts:uint y*:uint
//	    series columns size count parts
//	    y [series, count, size]: what block i+1 receives from those of x before it in
//	    the same 16; parts [columns, parts, size] are the filter's.
//	long_add
//	    x:uint sums*:uint
//	    series steps size count scale
//	    Adds the imaginary parts of long_multiply's result, transformed back, times
//	    the number whose upper word is scale.
//	long_finish
//	    sums:uint x:float skip:float y*:float
//	    series columns steps width first
//	    y = sums + skip·x, rounded once.
//	sine
//	    x:float w:float y*:float
//	    rows width
//	    sin(w[c]·x[r, c]).
//	decay
//	    x:float t:float rate:float y*:float
//	    rows width shift:float
//	    x[r, c]·(exp(−t[r]·|rate[c]|) + shift).
//	probe
//	    a:uint b:uint c:uint results*:uint
//	    n
//	    results[j·n + i] is probe j of the floats with bits a[i], b[i], c[i]; see
//	    [Probes].
//
// # The language
//
// A kernel's source is valid in GLSL, in Metal's language and in the interpreter
// of metalgpu/internal/soft, which defines it: types float, uint, int and bool;
// scalar variables, if, for, while, break, continue, return; the operators of C
// but for those with side effects inside expressions; functions marked FN; the
// conversions float(x), int(x), uint(x), F2U and U2F of bits; BARRIER(); the
// invocation's gid, lid and wid with .x, .y and .z; push constants p.name. There
// are no implicit conversions, vectors, pointers or arrays other than buffers and
// shared memory.
//
// Kernels do arithmetic with + − × alone: no division, square root or elementary
// function of the graphics APIs, none of which is rounded correctly everywhere,
// no fma, and no operation across invocations but shared memory behind a barrier.
// Where the CPU device computes in float64, kernels that must have its bits do so in
// whole numbers.
// NaNs are told by their bits, since drivers may assume that there are none.
package kernel
