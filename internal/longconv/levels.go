package longconv

// Levels is the number of sizes of blocks, from the smallest on, and Arity how many
// blocks of one size make one of the next. Together with [Size] and [Roots] they are
// what another device needs to take the same steps.
const (
	Levels = levels
	Arity  = arity
)

// Size is the number of positions in a block of a level, 0 ≤ level < [Levels].
func Size(level int) int { return size(level) }

// Roots returns the factors of the transform of a level's blocks, [Size] of them:
// step s of the transform, which makes 2^(s+1) polynomials of 2^s, takes factor
// 2^s + b for polynomial b. They must not be changed.
func Roots(level int) []complex128 { return roots[level]() }
