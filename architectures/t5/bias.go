package t5

import (
	"math"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// buckets maps the distance of a key from its query to a row of the position
// bias: exactly for near ones, logarithmically up to MaxDistance, one row for all
// beyond. A stack that looks both ways has half of the rows for either side.
type buckets struct {
	rows, most int
	bothWays   bool
}

// of returns the row of a key that lies distance columns behind the query, which
// is negative for keys in front.
func (b buckets) of(distance int) int {
	rows, first := b.rows, 0
	if b.bothWays {
		rows /= 2
		if distance > 0 {
			first = rows
		}
		distance = max(distance, -distance)
	} else {
		distance = max(-distance, 0)
	}
	exact := rows / 2
	if distance < exact {
		return first + distance
	}
	// Each operation is rounded to float32, where the reference rounds.
	ratio := float32(distance) / float32(exact)
	log := float32(fmath.Log(float64(ratio)))
	scaled := log / float32(fmath.Log(float64(b.most)/float64(exact)))
	far := exact + int(math.Trunc(float64(float32(scaled*float32(rows-exact)))))
	return first + min(far, rows-1)
}

// bias returns what is added to the scores of queries at positions past … past +
// queries − 1 and keys at 0 … keys−1: F32 [heads, queries·keys]. table is
// [rows, heads].
func (b buckets) bias(table []float32, heads, past, queries, keys int) (*tensor.Tensor, error) {
	out, err := tensor.New(tensor.F32, heads, queries*keys)
	if err != nil {
		return nil, err
	}
	// One row per distance, from the last query's first key on.
	first := -(past + queries - 1)
	rows := make([]int, keys+past+queries-1)
	for i := range rows {
		rows[i] = b.of(first + i)
	}
	values := out.Float32s()
	for h := range heads {
		for q := range queries {
			row := values[(h*queries+q)*keys:][:keys]
			near := rows[-(past+q)-first:][:keys]
			for k := range row {
				row[k] = table[near[k]*heads+h]
			}
		}
	}
	return out, nil
}
