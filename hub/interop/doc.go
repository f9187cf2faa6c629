// Package interop holds the scripts with which the tests of package hub check
// that Python's huggingface_hub and npm's @huggingface/hub read the cache made
// here and the other way round, that they download from package hubtest over
// HTTP and Xet, and that Python's locks and ours exclude each other.
//
// The tests need a Python with huggingface_hub and filelock installed. The
// environment variable HFCOMPRESS_PYTHON names its interpreter:
//
//	python3 -m venv /tmp/hub-venv
//	/tmp/hub-venv/bin/pip install -r hub/interop/requirements.txt
//	HFCOMPRESS_PYTHON=/tmp/hub-venv/bin/python go test ./hub/ -run Interop
//
// Without it the tests are skipped, except where CI=true: there it is an
// error.
//
// Other tests use npm's @huggingface/hub where HFCOMPRESS_NODE names the folder
// in which it was installed and node is on the path:
//
//	npm install --prefix /tmp/hub-node @huggingface/hub
//	HFCOMPRESS_NODE=/tmp/hub-node go test ./hub/ -run JavaScript
package interop
