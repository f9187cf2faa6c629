package longconv

// Levels is the number of block sizes. A device that computes the steps of this
// package by itself needs them, and [Size] and [Roots].
const Levels = levels

// Size is the number of positions in a block of a level, from 0 to [Levels] − 1.
func Size(level int) int { return size(level) }

// Roots returns the factors of the transform of a level's blocks: for half b of step
// s the one at 2^s + b. Callers must not change them.
func Roots(level int) []complex128 { return roots[level]() }
