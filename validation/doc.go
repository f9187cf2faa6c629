// Package validation decides whether a candidate model gives what its source
// gives. It has no opinion on how a candidate was made.
//
// [Generate] makes examples for a model, [NearTies] searches for those where a
// decision hangs by a thread, and [ReadFile] reads a caller's own. [Run] calls
// the source twice and the candidate once on each example and compares complete
// outputs under a [Gate].
//
// Two words are kept apart throughout: exact means equal values, where −0 equals
// +0; bitwise means equal bytes.
package validation
