#!/usr/bin/env bash
# Compares the matrix product with OpenBLAS on one core and prints the ratios.
# Needs Go and Python 3; numpy is installed into a virtual environment.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/gemm" .
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install numpy==2.2.6 threadpoolctl==3.6.0
# A core type set for old OpenBLAS builds would slow this one.
env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS=1 \
	"$work/venv/bin/python" compare.py "$work/gemm"
