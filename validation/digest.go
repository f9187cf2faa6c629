package validation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/hfcompress/compress/architectures"
)

// OutputDigests maps the name of each output to the SHA-256 of its element type,
// shape and bytes, in hexadecimal.
func OutputDigests(out architectures.Outputs) map[string]string {
	d := make(map[string]string, len(out))
	for _, o := range out {
		h := sha256.New()
		writeField(h, []byte(o.Tensor.DType().String()))
		writeField(h, []byte(o.Tensor.Shape().String()))
		writeField(h, o.Tensor.Bytes())
		d[o.Name] = hex.EncodeToString(h.Sum(nil))
	}
	return d
}

// writeField hashes a length before its bytes, so that no two lists of fields
// look alike.
func writeField(h hash.Hash, data []byte) {
	fmt.Fprintf(h, "%d:", len(data))
	h.Write(data)
}
