#!/bin/sh
# Writes the kernels of kernels.s as LLVM IR, for processors of other families than gfx11: llc knows their instructions. They have the same
# arguments and work-groups, and do the same. rebuild.sh compiles them.
set -eu

# The address of a unit of type $2 at %index of $1, as %$3.
address() {
  echo "  %$3 = getelementptr $2, ptr addrspace(1) %$1, i64 %index"
}

# A kernel: its name, the type of its units, their alignment, the name of its second argument, the number of its attributes, and its first unit
# (IR that sets %first), with the body (IR that ends with the store) on standard input.
kernel() {
  cat <<END
define amdgpu_kernel void @vireo_$1(i64 %target, i64 %$4, i64 %units, i64 %items) #$5 !reqd_work_group_size !$5 {
entry:
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %to = inttoptr i64 %target to ptr addrspace(1)
  %from = inttoptr i64 %$4 to ptr addrspace(1)
$6
  br label %head
head:
  %index = phi i64 [ %first, %entry ], [ %next, %body ]
  %more = icmp ult i64 %index, %units
  br i1 %more, label %body, label %exit
body:
$(address to "$2" store)
$(cat)
  %next = add i64 %index, %items
  br label %head
exit:
  ret void
}

END
}

# Work-item i of all begins at the unit i.
all='  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %start = shl i32 %group, 8
  %sum = add i32 %start, %item
  %first = zext i32 %sum to i64'

kernel fill_x16 "<2 x i64>" 16 pattern 0 "$all" <<'END'
  %one = insertelement <2 x i64> poison, i64 %pattern, i32 0
  %both = insertelement <2 x i64> %one, i64 %pattern, i32 1
  store <2 x i64> %both, ptr addrspace(1) %store, align 16
END
kernel fill_x4 i32 4 pattern 0 "$all" <<'END'
  %odd = and i64 %index, 1
  %shift = shl i64 %odd, 5
  %shifted = lshr i64 %pattern, %shift
  %value = trunc i64 %shifted to i32
  store i32 %value, ptr addrspace(1) %store, align 4
END
kernel fill_x1 i8 1 pattern 0 "$all" <<'END'
  %byte = and i64 %index, 7
  %shift = shl i64 %byte, 3
  %shifted = lshr i64 %pattern, %shift
  %value = trunc i64 %shifted to i8
  store i8 %value, ptr addrspace(1) %store, align 1
END

# Copies: the number of units in the name, their type and alignment.
copy() {
  kernel "copy_x$1" "$2" "$3" source 0 "$all" <<END
$(address from "$2" load)
  %value = load $2, ptr addrspace(1) %load, align $3
  store $2 %value, ptr addrspace(1) %store, align $3
END
}
copy 16 "<4 x i32>" 16
copy 4 i32 4
copy 1 i8 1

# Moves: one wave, whose work-items all load before they store. The number of work-items is negative if the units are moved from the last one on.
move() {
  kernel "move_x$1" "$2" "$3" source 1 '  %own = zext i32 %item to i64
  %last = sub i64 %units, 1
  %mirrored = sub i64 %last, %own
  %backwards = icmp slt i64 %items, 0
  %first = select i1 %backwards, i64 %mirrored, i64 %own' <<END
$(address from "$2" load)
  %value = load $2, ptr addrspace(1) %load, align $3
  fence syncscope("wavefront") acq_rel
  store $2 %value, ptr addrspace(1) %store, align $3
END
}
move 16 "<4 x i32>" 16
move 4 i32 4
move 1 i8 1

cat <<'END'
define amdgpu_kernel void @vireo_patch_grid(i64 %counts, i64 %packet, i64 %implicit, i32 %sx, i32 %sy, i32 %sz, i32 %dword) #2 !reqd_work_group_size !2 {
entry:
  %from = inttoptr i64 %counts to ptr addrspace(1)
  %to = inttoptr i64 %packet to ptr addrspace(1)
  %from.y = getelementptr i32, ptr addrspace(1) %from, i64 1
  %from.z = getelementptr i32, ptr addrspace(1) %from, i64 2
  %x = load i32, ptr addrspace(1) %from, align 4
  %y = load i32, ptr addrspace(1) %from.y, align 4
  %z = load i32, ptr addrspace(1) %from.z, align 4
  %none = icmp eq i64 %implicit, 0
  br i1 %none, label %explicit, label %arguments
arguments:
  %blocks = inttoptr i64 %implicit to ptr addrspace(1)
  %blocks.y = getelementptr i32, ptr addrspace(1) %blocks, i64 1
  %blocks.z = getelementptr i32, ptr addrspace(1) %blocks, i64 2
  store i32 %x, ptr addrspace(1) %blocks, align 4
  store i32 %y, ptr addrspace(1) %blocks.y, align 4
  store i32 %z, ptr addrspace(1) %blocks.z, align 4
  br label %explicit
explicit:
  %gx = mul i32 %x, %sx
  %gy = mul i32 %y, %sy
  %gz = mul i32 %z, %sz
  %ex = icmp eq i32 %gx, 0
  %ey = icmp eq i32 %gy, 0
  %ez = icmp eq i32 %gz, 0
  %exy = or i1 %ex, %ey
  %empty = or i1 %exy, %ez
  %grid = getelementptr i8, ptr addrspace(1) %to, i64 12
  %grid.y = getelementptr i8, ptr addrspace(1) %to, i64 16
  %grid.z = getelementptr i8, ptr addrspace(1) %to, i64 20
  br i1 %empty, label %barrier, label %dispatch
dispatch:
  store i32 %gx, ptr addrspace(1) %grid, align 4
  store i32 %gy, ptr addrspace(1) %grid.y, align 4
  store i32 %gz, ptr addrspace(1) %grid.z, align 4
  br label %publish
; A grid without work-items is no dispatch: a barrier that waits for no signals takes its place, type 3 instead of 2.
barrier:
  %type = add i32 %dword, 1
  %header = and i32 %type, 65535
  %body = getelementptr i8, ptr addrspace(1) %to, i64 4
END
for dword in 0 1 2 3 4 5 6 7 8 9 10; do
  echo "  %p$dword = getelementptr i32, ptr addrspace(1) %body, i64 $dword"
  echo "  store i32 0, ptr addrspace(1) %p$dword, align 4"
done
cat <<'END'
  br label %publish
publish:
  %value = phi i32 [ %dword, %dispatch ], [ %header, %barrier ]
  store atomic i32 %value, ptr addrspace(1) %to release, align 4
  ret void
}

declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
END
for group in 0:256 1:32 2:1; do
  size=${group#*:}
  printf 'attributes #%s = { nounwind "uniform-work-group-size"="true" "amdgpu-flat-work-group-size"="%s,%s"' "${group%%:*}" "$size" "$size"
  printf ' "amdgpu-implicitarg-num-bytes"="0"'
  for absent in dispatch-ptr queue-ptr implicitarg-ptr dispatch-id workgroup-id-y workgroup-id-z workitem-id-y workitem-id-z; do
    printf ' "amdgpu-no-%s"' "$absent"
  done
  echo ' }'
  echo "!${group%%:*} = !{i32 $size, i32 1, i32 1}"
done
