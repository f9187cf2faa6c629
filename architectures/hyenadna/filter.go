package hyenadna

import (
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// filter makes a layer's long filters.
type filter struct {
	vectors, times nn.Table // a row for each position
	// maps has one linear map more than there are sines, which are in between.
	maps        []*nn.Linear
	frequencies nn.Array
	rates       nn.Array
	skips       []nn.Array // one for each convolution
}

// tables keeps one table for all names that stand for one tensor in memory, as
// they do when equal tensors were stored once.
type tables map[*byte]nn.Table

// upload uploads a tensor [1, rows, width] for reading rows.
func (t tables) upload(u *run.Uploader, dev nn.Device, name string) nn.Table {
	if u.Err != nil {
		return nil
	}
	x, err := u.Tensor(name)
	if err != nil {
		u.Err = err
		return nil
	}
	key := &x.Bytes()[0]
	if have := t[key]; have != nil && have.NumRows() == x.Shape()[1] && have.Width() == x.Shape()[2] {
		return have
	}
	if x, err = x.Reshape(x.Shape()[1:]...); err != nil {
		u.Err = err
		return nil
	}
	rows, err := nn.TensorRows(x)
	if err != nil {
		u.Err = err
		return nil
	}
	t[key], u.Err = dev.UploadRows(rows)
	return t[key]
}

// vector uploads values that a checkpoint holds as one row of some shape, from
// lo to hi.
func vector(u *run.Uploader, dev nn.Device, name string, lo, hi int) nn.Array {
	if u.Err != nil {
		return nil
	}
	x, err := u.Tensor(name)
	if err == nil {
		x, err = tensor.FromFloat32s(x.Float32s()[lo:hi], hi-lo)
	}
	if err != nil {
		u.Err = err
		return nil
	}
	var a nn.Array
	a, u.Err = dev.Upload(x, nn.AsVector)
	return a
}

// newFilter uploads the filters of the layer whose names begin with at.
func newFilter(u *run.Uploader, dev nn.Device, t tables, c *Config, at string) filter {
	f := filter{vectors: t.upload(u, dev, at+vectors), times: t.upload(u, dev, at+times)}
	for j := range c.FilterLayers + 2 {
		f.maps = append(f.maps, u.Linear(at+filterPart(2*j), j <= c.FilterLayers))
	}
	if c.TrainedFrequencies {
		f.frequencies = vector(u, dev, at+filterPart(1)+".freq", 0, c.FilterSize)
	} else if u.Err == nil {
		values := make([]float32, c.FilterSize)
		for i := range values {
			values[i] = c.Frequency
		}
		x, err := tensor.FromFloat32s(values, c.FilterSize)
		if err == nil {
			f.frequencies, err = dev.Upload(x, nn.AsVector)
		}
		u.Err = err
	}
	f.rates = vector(u, dev, at+rates, 0, c.filters())
	for i := range c.Order - 1 {
		f.skips = append(f.skips, vector(u, dev, at+skip, i*c.HiddenSize, (i+1)*c.HiddenSize))
	}
	return f
}

// rows returns the first rows of the layer's filters, [n, filters], with s's long
// convolutions in l.
func (f *filter) rows(s nn.Session, l nn.LongConvolver, n int) nn.Array {
	positions := make([]int, n)
	for i := range positions {
		positions[i] = i
	}
	h := f.maps[0].Forward(s, s.Gather(f.vectors, positions))
	for _, m := range f.maps[1:] {
		h = m.Forward(s, l.Sine(h, f.frequencies))
	}
	return l.Decay(h, s.Gather(f.times, positions), f.rates, shift)
}
