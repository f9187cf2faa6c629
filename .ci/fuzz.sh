#!/usr/bin/env bash
# Runs every fuzz target for the given time each: .ci/fuzz.sh 30m for a long run.
set -euo pipefail
cd "$(dirname "$0")/.."
each=${1:-10s}
for dir in $(git ls-files '*_test.go' | xargs grep -l '^func Fuzz' | xargs -n1 dirname | sort -u); do
  for target in $(grep -h '^func Fuzz' "$dir"/*_test.go | sed -E 's/func (Fuzz[A-Za-z0-9_]*).*/\1/' | sort -u); do
    echo "$dir $target"
    go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$each" -fuzzminimizetime 1x | tail -n 1
  done
done
