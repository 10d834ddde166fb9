// Kernels of the tests of this crate, for gfx1100; `kernels.sh` assembles them.
//
// store: data[id] = value + id, for 32-bit words; id is the work-item in a grid of one dimension.
  .amdgcn_target "amdgcn-amd-amdhsa--gfx1100"
  .amdhsa_code_object_version 5

  .text
  .globl store
  .p2align 8
  .type store,@function
store:
  s_load_b64 s[2:3], s[0:1], 0x0        // data
  s_load_b32 s4, s[0:1], 0x8            // value
  v_and_b32 v0, 0x3ff, v0
  s_lshl_b32 s5, s15, 5                 // 32 work-items in a work-group
  v_add_nc_u32 v0, s5, v0
  s_waitcnt lgkmcnt(0)
  v_add_nc_u32 v1, s4, v0
  v_lshlrev_b32 v0, 2, v0
  global_store_b32 v0, v1, s[2:3]
  s_endpgm
.Lstore_end:
  .size store, .Lstore_end-store

  .rodata
  .p2align 6
  .amdhsa_kernel store
    .amdhsa_kernarg_size 16
    .amdhsa_user_sgpr_count 15
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_system_sgpr_workgroup_id_x 1
    .amdhsa_system_sgpr_workgroup_id_y 0
    .amdhsa_system_sgpr_workgroup_id_z 0
    .amdhsa_next_free_vgpr 2
    .amdhsa_next_free_sgpr 16
    .amdhsa_wavefront_size32 1
  .end_amdhsa_kernel

  .data
  .globl counter
  .p2align 3
  .type counter,@object
  .size counter, 8
counter:
  .quad 42

  .amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx1100
amdhsa.kernels:
  - .name: store
    .symbol: store.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 16
    .vgpr_count: 2
    .max_flat_workgroup_size: 1024
    .args:
      - {.name: data, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
      - {.name: value, .size: 4, .offset: 8, .value_kind: by_value}
...
  .end_amdgpu_metadata
