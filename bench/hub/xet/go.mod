// A module of its own, so that the project itself does not depend on the
// downloader that it is compared with.
module github.com/hfcompress/compress/bench/hub/xet

go 1.26.0

replace github.com/hfcompress/compress => ../../..

require (
	github.com/hfcompress/compress v0.0.0-00010101000000-000000000000
	github.com/wzshiming/xet v0.0.0-20260617081805-02c9cfb4deca
)

require (
	github.com/gorilla/mux v1.8.1 // indirect
	github.com/klauspost/cpuid/v2 v2.0.12 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/wzshiming/httpseek v0.6.1 // indirect
	github.com/zeebo/blake3 v0.2.4 // indirect
)
