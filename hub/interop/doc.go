// Package interop holds the scripts with which the tests of package hub check
// that Python's huggingface_hub and npm's @huggingface/hub read the cache made
// here and the other way round, that they download from package hubtest over
// HTTP and Xet, and that Python's locks and ours exclude each other.
//
// .ci/interop.sh installs both clients and runs the tests. By hand,
// HFCOMPRESS_PYTHON names a Python with the packages of requirements.txt, and
// HFCOMPRESS_NODE a folder in which the npm package was installed:
//
//	python3 -m venv /tmp/hub-venv
//	/tmp/hub-venv/bin/pip install -r hub/interop/requirements.txt
//	npm install --prefix /tmp/hub-node @huggingface/hub@$(cat hub/interop/npm-version)
//	HFCOMPRESS_PYTHON=/tmp/hub-venv/bin/python HFCOMPRESS_NODE=/tmp/hub-node go test ./hub/ -run Interop
//
// Without a variable its tests are skipped, except where CI=true: there it is
// an error, unless the variable is "none".
package interop
