// Package interop holds the scripts with which the tests of package hub check
// that Python's huggingface_hub reads the cache made here and the other way
// round, and that both exclude each other by locks.
//
// The tests need a Python with huggingface_hub and filelock installed. The
// environment variable HFCOMPRESS_PYTHON names its interpreter:
//
//	python3 -m venv /tmp/hub-venv
//	/tmp/hub-venv/bin/pip install huggingface_hub
//	HFCOMPRESS_PYTHON=/tmp/hub-venv/bin/python go test ./hub/ -run Interop
//
// Without it the tests are skipped, except where CI=true: there it is an
// error.
package interop
