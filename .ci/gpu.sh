#!/usr/bin/env bash
# Runs the GPU device's tests on Mesa's lavapipe, a Vulkan device in software: all
# of them, and then the short ones under the race detector, the Khronos validation
# layer and a collector that never rests.
#
# Usage: .ci/gpu.sh [package...]    (default: the device and its Vulkan driver)
#        eval "$(.ci/gpu.sh setup)" installs what the tests of all GPU packages
#                                  need (Debian) and chooses lavapipe
set -euo pipefail
cd "$(dirname "$0")/.."

icd() { ls /usr/share/vulkan/icd.d/lvp_icd.*json 2>/dev/null | head -n 1; }
layer=/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json

# install NAME... installs Debian packages.
install() {
	local sudo
	sudo=$([ "$(id -u)" = 0 ] || echo sudo)
	$sudo apt-get update -q >&2
	$sudo apt-get install -y -q --no-install-recommends "$@" >&2
}

if [ -z "$(icd)" ] || [ ! -e "$layer" ]; then
	install mesa-vulkan-drivers libvulkan1 vulkan-validationlayers
fi
if [ "${1:-}" = setup ]; then
	if ! command -v glslangValidator >/dev/null || ! command -v spirv-val >/dev/null; then
		install glslang-tools spirv-tools
	fi
	if ! command -v clang++ >/dev/null && ! command -v clang++-16 >/dev/null; then
		install clang-16 libstdc++-12-dev
	fi
	echo "export VK_DRIVER_FILES=$(icd) VK_ICD_FILENAMES=$(icd)"
	exit
fi

[ $# -gt 0 ] || set -- ./metalgpu ./metalgpu/internal/vulkan
VK_DRIVER_FILES=$(icd)
VK_ICD_FILENAMES=$VK_DRIVER_FILES # the name that older loaders know
export VK_DRIVER_FILES VK_ICD_FILENAMES
# Here a missing device is a failure, not a test less.
export CI=true

# The README's test command has run them already where CI calls this.
[ "${HFCOMPRESS_GPU_TESTED:-}" ] || go test -count 1 "$@"
HFCOMPRESS_VULKAN_VALIDATION=1 GOGC=1 go test -count 1 -short -race -timeout 30m "$@"
