#!/bin/sh
# Compiles the GPU kernel table again and compares the result with the committed
# SPIR-V modules and Metal sources. Exit status 3 where there is another compiler;
# the bytes are those of Debian 12's:
#   apt-get install -y --no-install-recommends glslang-tools=12.0.0-2 spirv-tools=2023.1-2
set -eu
cd "$(dirname "$0")/.."

want='Glslang Version: 11:12.0.0'
have=$(glslangValidator --version | head -n 1)
if [ "$have" != "$want" ]; then
	echo "gpu-kernels: NOT COMPARED: the modules were made with '$want', this is '$have'" >&2
	exit 3
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
go run ./metalgpu/internal/kernel/gen -out "$tmp"
diff -r "$tmp/spirv" metalgpu/internal/kernel/spirv
diff -r "$tmp/testdata/msl" metalgpu/internal/kernel/testdata/msl
for f in metalgpu/internal/kernel/spirv/*.spv; do
	spirv-val --target-env vulkan1.1 "$f"
done
echo "gpu-kernels: $(ls metalgpu/internal/kernel/spirv/*.spv | wc -l) modules are those of the table"
