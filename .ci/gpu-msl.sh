#!/bin/sh
# Runs the Metal sources of all GPU kernels on the processor, through a C++ header
# and clang, without contraction (all bits must be right) and with it (some must
# not be):
#   apt-get install -y --no-install-recommends clang-16 libstdc++-12-dev
set -eu
cd "$(dirname "$0")/.."
CI=true go test -count=1 -v ./metalgpu/internal/mslcpu
