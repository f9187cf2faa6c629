package pairsum

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Digest is a running SHA-256. It is for one goroutine.
type Digest struct {
	std hash.Hash // where the processor cannot do better

	state   [8]uint32
	pending [blockSize]byte
	have    int
	length  uint64
}

const blockSize = sha256.BlockSize

// New returns the digest of nothing.
func New() *Digest {
	if !available {
		return &Digest{std: sha256.New()}
	}
	return &Digest{state: [8]uint32{
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}}
}

// Write adds p. It never fails.
func (d *Digest) Write(p []byte) (int, error) {
	if d.std != nil {
		return d.std.Write(p)
	}
	d.end(d.top(p))
	return len(p), nil
}

// Write adds p to two digests, which must not be the same.
func Write(a, b *Digest, p []byte) {
	if a.std != nil || b.std != nil {
		a.Write(p)
		b.Write(p)
		return
	}
	x, y := a.top(p), b.top(p)
	n := min(len(x), len(y)) / blockSize
	if n > 0 {
		blocks(&a.state, &b.state, &x[0], &y[0], n)
	}
	a.end(x[n*blockSize:])
	b.end(y[n*blockSize:])
}

// top completes a pending block, as far as p reaches, and returns the rest of p.
func (d *Digest) top(p []byte) []byte {
	d.length += uint64(len(p))
	if d.have == 0 {
		return p
	}
	n := copy(d.pending[d.have:], p)
	if d.have += n; d.have == blockSize {
		d.have = 0
		d.end(d.pending[:])
	}
	return p[n:]
}

// end takes the blocks of p, and puts aside what does not make one.
func (d *Digest) end(p []byte) {
	if n := len(p) / blockSize; n > 0 {
		var other [8]uint32
		blocks(&d.state, &other, &p[0], &p[0], n)
		p = p[n*blockSize:]
	}
	d.have += copy(d.pending[d.have:], p)
}

// Sum returns the SHA-256 of what was written. Nothing may be written after.
func (d *Digest) Sum() (sum [sha256.Size]byte) {
	if d.std != nil {
		d.std.Sum(sum[:0])
		return sum
	}
	length := d.length
	end := append(make([]byte, 0, 2*blockSize), 0x80)
	for (uint64(len(end))+length+8)%blockSize != 0 {
		end = append(end, 0)
	}
	d.Write(binary.BigEndian.AppendUint64(end, length<<3))
	for i, v := range d.state {
		binary.BigEndian.PutUint32(sum[4*i:], v)
	}
	return sum
}
