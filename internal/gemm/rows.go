package gemm

// Transpose sets dst[i·rows + r] to src[r·ld + i] for each of rows rows of k
// values: a panel of a [Product]'s B when there are 16.
func Transpose(dst, src []float32, rows, k, ld int) { interleave(dst, src, rows, k, ld) }

// interleave transposes rows of length k that lie ld apart, so that a tile finds
// the values of all its rows for one step side by side.
func interleave[T element](dst, src []T, rows, k, ld int) {
	done := interleaveFast(dst, src, rows, k, ld)
	if done == k {
		return
	}
	for r := range rows {
		row := src[r*ld:][:k]
		for i := done; i < k; i++ {
			dst[i*rows+r] = row[i]
		}
	}
}
