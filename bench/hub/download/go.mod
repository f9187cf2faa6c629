// A module of its own, so that the project itself does not depend on the
// clients that it is compared with.
module github.com/hfcompress/compress/bench/hub/download

go 1.26.0

replace github.com/hfcompress/compress => ../../..

require (
	github.com/gomlx/go-huggingface v0.3.1
	github.com/hfcompress/compress v0.0.0-00010101000000-000000000000
	github.com/wzshiming/xet v0.0.0-20260617081805-02c9cfb4deca
)

require (
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-resty/resty/v2 v2.17.2 // indirect
	github.com/gofrs/flock v0.13.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/cpuid/v2 v2.0.12 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/wzshiming/httpseek v0.6.1 // indirect
	github.com/zeebo/blake3 v0.2.4 // indirect
	golang.org/x/net v0.43.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.28.0 // indirect
)
