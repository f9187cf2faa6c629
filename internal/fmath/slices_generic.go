//go:build !amd64 || noasm

package fmath

// There are no vector versions here.

func exps([]float32) int { return 0 }

func silus(dst, src []float32) int { return 0 }

func widenBF16([]float32, []uint16) int { return 0 }

func widenF16([]float32, []uint16) int { return 0 }

func gelus([]float32, []float32) int { return 0 }

func geluTanhs([]float32, []float32) int { return 0 }
