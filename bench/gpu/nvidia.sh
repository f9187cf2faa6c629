#!/usr/bin/env bash
# Everything that wants a real card, in one go: the self-test, the tests of the
# device, the whole road on the card, products against what memory and arithmetic
# can do at most, and, where PyTorch with CUDA is installed, its forward pass of
# the same model. Prints a report; share it, with the card's name on it.
#
# Usage: bench/gpu/nvidia.sh [-d gpu:N] [-p TFLOPS] [-o FOLDER]
#   -d  the device (default gpu)
#   -p  float32 TFLOP/s of the card's data sheet, outside tensor cores
#   -o  folder for the report and the package (default a temporary one)
set -euo pipefail
cd "$(dirname "$0")/../.."

device=gpu peak=0 out=
while getopts d:p:o: option; do
	case $option in
	d) device=$OPTARG ;;
	p) peak=$OPTARG ;;
	o) out=$OPTARG ;;
	*) exit 2 ;;
	esac
done
[ -n "$out" ] || out=$(mktemp -d)
mkdir -p "$out"
index=0
case $device in gpu:[0-9]*) index=${device#gpu:} ;; esac

step() { printf '\n== %s\n' "$*"; }
{
	step "machine"
	go version
	uname -srm
	command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv

	step "devices and self-test"
	go build -o "$out/hfcompress" ./cmd/hfcompress
	"$out/hfcompress" devices
	"$out/hfcompress" devices --selftest --device "$device"

	step "tests of the device"
	HFCOMPRESS_TEST_GPU=$index go test -count 1 ./metalgpu ./metalgpu/internal/vulkan

	step "the whole road"
	rm -rf "$out/package"
	HF_HOME="$out/hf" "$out/hfcompress" demo --device "$device" --out "$out/package"
	HF_HOME="$out/hf" "$out/hfcompress" verify "$out/package" --device "$device"

	step "products against the floors"
	go run ./bench/gpu -index "$index" -peak "$peak"

	step "forward passes of the trained model"
	go run ./bench/gpu -package "$out/package" -device "$device"

	step "PyTorch on the same card"
	python=${PYTHON:-python3}
	if "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
		"$python" bench/gpu/torch_forward.py "$index"
	else
		echo "$python has no PyTorch with CUDA: left out"
	fi
} 2>&1 | tee "$out/report.txt"
echo "report: $out/report.txt"
