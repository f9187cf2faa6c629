//go:build !amd64 || noasm

package fmath

// There are no vector versions here.

func adds(dst, a, b []float32) int { return 0 }

func subs(dst, a, b []float32) int { return 0 }

func muls(dst, a, b []float32) int { return 0 }

func scale(dst, a []float32, c float32) int { return 0 }

func divide(dst, a []float32, c float32) int { return 0 }

func shift(dst, a []float32, c float32) int { return 0 }

func rotate(u, v, a, b, cos, sin []float32) int { return 0 }

func maxs(x []float32, lanes *[8]float32) int { return 0 }

func sums(x []float32, lanes *[8]float32) int { return 0 }

func squares(x []float32, mean float32, lanes *[8]float32) int { return 0 }

func roundBF16s(x []float32) int { return 0 }

func roundF16s(x []float32) int { return 0 }

func sumRows(dst, x []float32, n, ld int) int { return 0 }
