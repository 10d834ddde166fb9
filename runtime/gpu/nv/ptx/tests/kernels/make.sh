#!/bin/sh
# Compiles the sources in src/, and those of the tests of gfx11, to the texts beside this script. Usage: make.sh IREE-COMPILE
set -e
cd "$(dirname "$0")"
for text in *.ptx; do
  name=$(basename "$text" .ptx)
  source="src/$name.mlir"
  [ -f "$source" ] || source="../../../../amd/gfx/tests/kernels/src/$name.mlir"
  folder=$(mktemp -d)
  "$1" --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --iree-hal-executable-debug-level=0 \
    --iree-hal-dump-executable-files-to="$folder" "$source" -o "$folder/module.vmfb"
  cp "$folder"/*.ptx "$text"
  rm -r "$folder"
done
