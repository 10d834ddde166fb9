#!/usr/bin/env bash
# Assembles the kernels of the tests: kernels.s to kernels.co, with LLVM 19 and its linker (or the one that LLD names).
set -euo pipefail
cd "$(dirname "$0")"
object="$(mktemp)"
trap 'rm -f "$object"' EXIT
llvm-mc-19 -triple=amdgcn-amd-amdhsa -mcpu=gfx1100 -filetype=obj kernels.s -o "$object"
# Tests look at every byte of the file, so it is linked without what nobody reads.
"${LLD:-lld-19}" -flavor gnu -shared --strip-all --hash-style=both "$object" -o kernels.co
