#!/usr/bin/env bash
# The Hub client against the real ones: Python's huggingface_hub with hf_xet and
# npm's @huggingface/hub, installed from the default registries under .cache/.
# They read our caches and we read theirs, they download from hubtest, and locks
# exclude each other (16 processes of both languages, one download).
#
#   .ci/interop.sh          install and run the tests
#   eval "$(.ci/interop.sh setup)"
#                           install and set the variables with which
#                           "go test ./..." runs these tests as well
#
# A client that cannot be installed is a failure and says so in capitals. Where
# that is known and accepted, HFCOMPRESS_INTEROP_OPTIONAL makes it a warning: "all",
# or "node" for JavaScript's client alone.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

# missing LANGUAGE WHAT LOG: the clients of one language are not there.
missing() {
  say
  say "=============================================================="
  say "INTEROPERATION WITH $2 WAS NOT TESTED"
  [ -s "$3" ] && tail -n 15 "$3" >&2
  say "=============================================================="
  case "${HFCOMPRESS_INTEROP_OPTIONAL:-}" in all | "$1") ;; *) exit 1 ;; esac
}

# debian PACKAGE…: install a system package where that is possible.
debian() {
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
  (apt-get update -q && apt-get install -y -q --no-install-recommends "$@")
}

# again COMMAND…: registries have bad moments.
again() {
  for pause in 2 5 0; do
    "$@" && return
    sleep "$pause"
  done
  return 1
}

setup_python() {
  command -v python3 || debian python3 python3-venv || return 1
  [ -x .cache/venv/bin/python ] || python3 -m venv .cache/venv ||
    { rm -rf .cache/venv && debian python3-venv && python3 -m venv .cache/venv; } || return 1
  again .cache/venv/bin/python -m pip install -q --disable-pip-version-check -r hub/interop/requirements.txt || return 1
  .cache/venv/bin/python -c 'import huggingface_hub, hf_xet, filelock; print("huggingface_hub", huggingface_hub.__version__)'
}

setup_node() {
  command -v npm || debian nodejs npm || return 1
  again npm install --prefix .cache/node --no-audit --no-fund --loglevel=error "@huggingface/hub@$(cat hub/interop/npm-version)" || return 1
  node -e 'console.log("@huggingface/hub", require(process.argv[1] + "/node_modules/@huggingface/hub/package.json").version)' "$PWD/.cache/node"
}

mkdir -p .cache
python=none node=none
if setup_python >.cache/python.log 2>&1; then
  python="$PWD/.cache/venv/bin/python"
  say "$(tail -n 1 .cache/python.log)"
else
  missing python "PYTHON'S HUGGINGFACE_HUB" .cache/python.log
fi
if setup_node >.cache/node.log 2>&1; then
  node="$PWD/.cache/node"
  say "$(tail -n 1 .cache/node.log)"
else
  missing node "NPM'S @HUGGINGFACE/HUB" .cache/node.log
fi

if [ "${1:-}" = setup ]; then
  printf 'export HFCOMPRESS_PYTHON=%q\nexport HFCOMPRESS_NODE=%q\n' "$python" "$node"
  exit
fi
HFCOMPRESS_PYTHON=$python HFCOMPRESS_NODE=$node CI=true go test ./hub -run Interop -count=1 -v 2>&1 |
  grep -E '^(---|FAIL|ok|PASS|panic)|_test.go|not named'
