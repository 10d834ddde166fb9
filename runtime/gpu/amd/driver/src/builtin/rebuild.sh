#!/bin/sh
# Rebuilds the code objects of this folder: rebuild.sh LLVM-MC LLC LD.LLD. The names of the kernels are those that mod.rs looks up. Those for gfx11
# are assembled from kernels.s, and others compiled from the LLVM IR that kernels_ll.sh writes. A build of that for gfx1100 is for tests, which
# run it on the interpreter.
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
compile() {
  "$llc" -mtriple=amdgcn-amd-amdhsa -mcpu="$1" -O2 --amdhsa-code-object-version="$2" -filetype=obj "$tmp/kernels.ll" -o "$tmp/$1.o"
  "$lld" -shared --hash-style=sysv "$tmp/$1.o" -o "$3"
}
mc=$1
llc=$2
lld=$3
build gfx1100 5
build gfx11-generic 6
./kernels_ll.sh > "$tmp/kernels.ll"
for target in gfx908 gfx90a gfx942; do
  compile "$target" 5 "kernels_$target.hsaco"
done
for target in gfx9-generic gfx10-1-generic gfx10-3-generic gfx12-generic; do
  compile "$target" 6 "kernels_$target.hsaco"
done
compile gfx1100 5 ../../tests/kernels_ll_gfx1100.hsaco
