package compress

// The registered families. Importing this package makes all of them known.
import (
	_ "github.com/hfcompress/compress/architectures/bert"
	_ "github.com/hfcompress/compress/architectures/dit"
	_ "github.com/hfcompress/compress/architectures/esm"
	_ "github.com/hfcompress/compress/architectures/f5dit"
	_ "github.com/hfcompress/compress/architectures/gpt2"
	_ "github.com/hfcompress/compress/architectures/gpt_neox"
	_ "github.com/hfcompress/compress/architectures/gru"
	_ "github.com/hfcompress/compress/architectures/hyenadna"
	_ "github.com/hfcompress/compress/architectures/llama"
	_ "github.com/hfcompress/compress/architectures/progen"
	_ "github.com/hfcompress/compress/architectures/t5"
	_ "github.com/hfcompress/compress/architectures/uce"
)
