// Command novomolgen32m writes a checkpoint of the size and form of
// NovoMolGen-32M with random values, for measuring at full size:
//
//	go run ./testdata/gen/novomolgen32m --out DIR [--seed N] [--shard-bytes N] [--overwrite]
//
// DIR gets config.json and model.safetensors, or shards and their index. The
// same seed gives the same bytes everywhere.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/hfcompress/compress/internal/shapes"
)

func main() {
	out := flag.String("out", "", "directory to write")
	seed := flag.Uint64("seed", 1, "seed of the random values")
	shard := flag.Int64("shard-bytes", 0, "most tensor bytes in one file, 0 for a single file")
	overwrite := flag.Bool("overwrite", false, "replace files that exist")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 || *shard < 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := shapes.NovoMolGen32M.Write(*out, *seed, *shard, *overwrite); err != nil {
		fmt.Fprintln(os.Stderr, "novomolgen32m:", err)
		os.Exit(1)
	}
}
