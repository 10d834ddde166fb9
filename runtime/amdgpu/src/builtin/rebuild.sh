#!/bin/sh
# Rebuilds the code objects of this folder: rebuild.sh LLVM-MC LD.LLD. The names of the kernels are those that mod.rs looks up.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
metadata() {
  echo ".amdgpu_metadata"
  echo "---"
  echo "amdhsa.version: [1, 2]"
  echo "amdhsa.target: amdgcn-amd-amdhsa--$1"
  echo "amdhsa.kernels:"
  for name in fill_x16:32:256 fill_x4:32:256 fill_x1:32:256 copy_x16:32:256 copy_x4:32:256 copy_x1:32:256 \
    move_x16:32:32 move_x4:32:32 move_x1:32:32 patch_grid:40:1; do
    kernel=vireo_${name%%:*}
    rest=${name#*:}
    cat <<END
  - .name: $kernel
    .symbol: $kernel.kd
    .kernarg_segment_size: ${rest%%:*}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 20
    .vgpr_count: 16
    .max_flat_workgroup_size: ${rest##*:}
    .reqd_workgroup_size: [${rest##*:}, 1, 1]
    .args:
      - {.offset: 0, .size: ${rest%%:*}, .value_kind: by_value}
END
  done
  echo "..."
  echo ".end_amdgpu_metadata"
}
build() {
  { echo ".amdhsa_code_object_version $2"; cat kernels.s; metadata "$1"; } > "$tmp/$1.s"
  "$mc" -triple=amdgcn-amd-amdhsa -mcpu="$1" -filetype=obj "$tmp/$1.s" -o "$tmp/$1.o"
  "$lld" -shared --hash-style=sysv "$tmp/$1.o" -o "kernels_$1.hsaco"
}
mc=$1
lld=$2
build gfx1100 5
build gfx11-generic 6
