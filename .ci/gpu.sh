#!/usr/bin/env bash
# Runs the GPU device's tests on Mesa's lavapipe, a Vulkan device in software: all
# of them, and then the short ones under the race detector, the Khronos validation
# layer and a collector that never rests. Installs what is missing (Debian).
#
# Usage: .ci/gpu.sh [package...]    (default: the device and its Vulkan driver)
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- ./metalgpu ./metalgpu/internal/vulkan

icd() { ls /usr/share/vulkan/icd.d/lvp_icd.*json 2>/dev/null | head -n 1; }
layer=/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json
if [ -z "$(icd)" ] || [ ! -e "$layer" ]; then
	sudo=$([ "$(id -u)" = 0 ] || echo sudo)
	$sudo apt-get update -q
	$sudo apt-get install -y -q --no-install-recommends mesa-vulkan-drivers libvulkan1 vulkan-validationlayers
fi
VK_DRIVER_FILES=$(icd)
VK_ICD_FILENAMES=$VK_DRIVER_FILES # the name that older loaders know
export VK_DRIVER_FILES VK_ICD_FILENAMES
# Here a missing device is a failure, not a test less.
export CI=true

go test -count 1 "$@"
HFCOMPRESS_VULKAN_VALIDATION=1 GOGC=1 go test -count 1 -short -race "$@"
