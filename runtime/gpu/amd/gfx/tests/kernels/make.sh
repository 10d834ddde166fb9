#!/bin/sh
# Compiles src/*.mlir to the code objects beside this script. Usage: make.sh IREE-COMPILE
set -e
cd "$(dirname "$0")"
for source in src/*.mlir; do
  name=$(basename "$source" .mlir)
  folder=$(mktemp -d)
  "$1" --iree-hal-target-device=amdgpu --iree-rocm-target=gfx1100 --iree-hal-executable-debug-level=0 \
    --iree-hal-dump-executable-files-to="$folder" "$source" -o "$folder/module.vmfb"
  cp "$folder"/*.hsaco "$name.hsaco"
  rm -r "$folder"
done
