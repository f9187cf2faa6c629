package floatcodec

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/tensor"
)

// geometric returns n BF16 values with geometrically distributed exponents that
// change from row to row, made with integers alone: floating point may round
// differently elsewhere.
func geometric(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 4))
	out := make([]byte, 2*n)
	scale := 0
	for i := range n {
		if i%300 == 0 {
			scale = r.IntN(6)
		}
		exp := 120 - scale - min(bits.TrailingZeros32(r.Uint32()), 20)
		binary.LittleEndian.PutUint16(out[2*i:], uint16(exp<<7)|uint16(r.Uint32())&0x807f)
	}
	return out
}

// encoderDigests are those of what the encoder writes at each level. They must be
// the same on every machine, with any number of workers, with and without
// assembly. A change of the encoder that is meant to change its choices changes
// them too.
var encoderDigests = map[Level]string{
	Fast:  "1fd475558a8c6a8dd43023b5f7e2b2523205f080557730e0a192fde47286ece9",
	Dense: "513a86138917257a5c8818a027d2eb5f42c4e0867c11db99df2b2d2b1c68bb54",
}

func TestEncoderIsDeterministic(t *testing.T) {
	raw := geometric(3*ChunkElements+777, 1)
	for level, want := range encoderDigests {
		for _, workers := range []int{0, 2, 5} {
			enc, err := Encode(nil, tensor.BF16, nil, raw, Options{Level: level, Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%x", sha256.Sum256(enc)); got != want {
				t.Errorf("%v, %d workers: digest %s, want %s", level, workers, got, want)
			}
			dec, err := Decode(nil, enc, Limits{Workers: workers})
			if err != nil || string(dec) != string(raw) {
				t.Errorf("%v, %d workers: other bytes came back: %v", level, workers, err)
			}
		}
	}
}
