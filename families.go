package compress

// The registered families. Importing this package makes all of them known.
import (
	_ "github.com/hfcompress/compress/architectures/gru"
	_ "github.com/hfcompress/compress/architectures/llama"
	_ "github.com/hfcompress/compress/architectures/uce"
)
