#!/usr/bin/env bash
# Builds the tests of the given packages for arm64 and runs them under qemu-user,
# so that results can be compared bit by bit without such a machine. Installs
# qemu-user where it is missing (Debian).
#
# Usage: .ci/arm64.sh [-run PATTERN] [package...]    (default: the numeric ones)
set -euo pipefail
cd "$(dirname "$0")/.."

pattern=.
if [ "${1:-}" = -run ]; then
	pattern=$2
	shift 2
fi
[ $# -gt 0 ] || set -- ./internal/fmath ./internal/gemm ./internal/longconv ./architectures/nn

if [ "$(go env GOHOSTARCH)" = arm64 ]; then
	exec go test -short -run "$pattern" "$@"
fi
if ! command -v qemu-aarch64 >/dev/null; then
	sudo=$([ "$(id -u)" = 0 ] || echo sudo)
	$sudo apt-get update -q
	$sudo apt-get install -y -q --no-install-recommends qemu-user
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for package in $(go list "$@"); do
	GOARCH=arm64 CGO_ENABLED=0 go test -c -o "$work/test" "$package"
	if [ ! -e "$work/test" ]; then # no test files
		continue
	fi
	echo "arm64 $package"
	(cd "$(go list -f '{{.Dir}}' "$package")" && qemu-aarch64 "$work/test" -test.short -test.run "$pattern")
	rm "$work/test"
done
