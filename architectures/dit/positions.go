package dit

import (
	"math"

	"github.com/hfcompress/compress/tensor"
)

// positions returns the fixed position of every patch, [patches, width]: sines and
// cosines of its column in the first half of the row, of its row in the second.
// Angles and their functions are in float64 and rounded once, as in the reference.
func positions(c *Config) *tensor.Tensor {
	quarter := c.width() / 4
	t, err := tensor.New(tensor.F32, c.patches(), c.width())
	if err != nil {
		panic(err) // the configuration bounds both
	}
	out := t.Float32s()
	for p := range c.patches() {
		row := out[p*c.width() : (p+1)*c.width()]
		for half, at := range []int{p % c.grid(), p / c.grid()} {
			for k := range quarter {
				omega := 1 / math.Pow(10000, float64(k)/float64(quarter))
				sin, cos := math.Sincos(float64(at) * omega)
				row[2*half*quarter+k] = float32(sin)
				row[(2*half+1)*quarter+k] = float32(cos)
			}
		}
	}
	return t
}

// cut reorders an image [batch, channels, size, size] into patches, a row for
// each: [batch·patches, channels·patch·patch].
func cut(c *Config, image *tensor.Tensor) (*tensor.Tensor, error) {
	n, p, size := image.Shape()[0], c.PatchSize, c.SampleSize
	t, err := tensor.New(tensor.F32, n*c.patches(), c.InChannels*p*p)
	if err != nil {
		return nil, err
	}
	in, out, at := image.Float32s(), t.Float32s(), 0
	for b := range n {
		for patch := range c.patches() {
			top, left := patch/c.grid()*p, patch%c.grid()*p
			for ch := range c.InChannels {
				for y := range p {
					from := ((b*c.InChannels+ch)*size+top+y)*size + left
					at += copy(out[at:at+p], in[from:from+p])
				}
			}
		}
	}
	return t, nil
}

// join is the opposite of [cut] for rows whose columns are ordered by place
// within the patch, then channel.
func join(c *Config, rows *tensor.Tensor, batch int) (*tensor.Tensor, error) {
	p, size := c.PatchSize, c.SampleSize
	t, err := tensor.New(tensor.F32, batch, c.OutChannels, size, size)
	if err != nil {
		return nil, err
	}
	in, out, at := rows.Float32s(), t.Float32s(), 0
	for b := range batch {
		for patch := range c.patches() {
			top, left := patch/c.grid()*p, patch%c.grid()*p
			for y := range p {
				for x := range p {
					for ch := range c.OutChannels {
						out[((b*c.OutChannels+ch)*size+top+y)*size+left+x] = in[at]
						at++
					}
				}
			}
		}
	}
	return t, nil
}
