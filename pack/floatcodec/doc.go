// Package floatcodec compresses the bytes of tensors without loss.
//
// Weights are floating-point numbers whose exponents follow a narrow
// distribution while signs and low mantissa bits are close to random. The codec
// splits each element into a symbol (the exponent and the top mantissa bit),
// and the bits that are left. Symbols are entropy coded with tables that the
// whole tensor shares, one table chosen for every 256 elements; the rest is
// packed as it is, or coded where that pays. Every bit pattern comes back,
// signed zeros, subnormals and NaN payloads included; element types that are not
// floats, and bytes after the last whole element, pass through the same door.
//
// A tensor becomes a model (its layout and tables) and independent chunks of
// 65,536 elements. A chunk decodes with the model alone, in any order and in
// parallel, and carries a CRC-32C that also covers the model's checksum, the
// chunk's index and its size: flipped bits, cut input and chunks put in the
// wrong place are all refused. [Encode] and [Decode] handle a tensor held in
// memory as one blob; [Trainer], [Model.AppendChunk] and [Model.DecodeChunk]
// serve containers that stream or need random access.
//
// Input is never written to. Decoders trust nothing: sizes are compared with
// [Limits] before they size an allocation, codes must be complete, and every
// stream must end on its last bit. The format is in docs/format-floatcodec.md.
package floatcodec
