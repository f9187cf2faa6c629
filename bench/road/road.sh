#!/usr/bin/env bash
# Takes a generated checkpoint of NovoMolGen-32M's size and shape through the
# whole road, with one table, two tables and three, and prints what was saved,
# the time and the peak memory of each run. Needs GNU time.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/hfcompress" ./cmd/hfcompress
go run ./testdata/gen/novomolgen32m --out "$work/source" >/dev/null
echo '[{"max_rows": 1, "evaluation_rows": 1}]' >"$work/one-row.json"

run() {
  local name=$1
  shift
  echo "== $name: hfcompress --local source $*"
  command time -f 'wall %e s, user %U s, peak memory %M KiB' -o "$work/time" \
    "$work/hfcompress" --local "$work/source" --out "$work/package" --overwrite --quiet "$@" |
    grep -E '^(status|profiles|saved|verified|reloaded| )'
  cat "$work/time"
}

run "one table" --device cpu
run "two tables" --device cpu:split-k --profiles "$work/one-row.json" --require tolerance
run "three tables" --device cpu:split-k
