// Package xortable keeps several lookup tables of one shape and element type as
// one explicit base and, for every table, the cheapest exact coding of how it
// differs from the base. Any single row of any table decodes alone.
//
// Tables compiled for different row counts of a model differ by rounding: most
// elements are equal or a few units in the last place apart, so the XOR or the
// difference of their bit patterns is a small integer. No arithmetic is done on
// floating-point values, hence signed zeros, NaN payloads, infinities and
// subnormals survive.
//
// The identities used are (B xor T) xor B = T, the one that Gorilla's value
// codec rests on (Pelkonen et al., 2015), and (T − B) + B = T modulo 2^bits.
// docs/xortable.md gives the layout byte by byte.
package xortable
