// The kernels of the driver for gfx11: fills, copies, and the patch of an indirect dispatch. rebuild.sh assembles and links them.
//
// Each gets the address of its arguments in s[0:1] and the number of its work-group in s2. Arguments of transfers: target, source or pattern,
// number of units, number of work-items. A work-group has 256 work-items; work-item i moves the units i, i + items, ...

.text

.macro begin name
.globl \name
.p2align 8
.type \name,@function
\name:
.endm

// s[4:5] target, s[6:7] source or pattern, s[8:9] units, s[10:11] work-items; v[0:1] the unit.
.macro each_unit
  s_load_b256 s[4:11], s[0:1], 0x0
  v_and_b32_e32 v0, 0x3ff, v0
  s_lshl_b32 s3, s2, 8
  v_add_nc_u32_e32 v0, s3, v0
  v_mov_b32_e32 v1, 0
  s_waitcnt lgkmcnt(0)
  v_cmp_gt_u64_e32 vcc_lo, s[8:9], v[0:1]
  s_and_saveexec_b32 s12, vcc_lo
  s_cbranch_execz .Lend\@
.Lloop\@:
  body
  v_add_co_u32 v0, vcc_lo, v0, s10
  v_add_co_ci_u32_e32 v1, vcc_lo, s11, v1, vcc_lo
  v_cmp_gt_u64_e32 vcc_lo, s[8:9], v[0:1]
  s_and_b32 exec_lo, exec_lo, vcc_lo
  s_cbranch_execnz .Lloop\@
.Lend\@:
  s_endpgm
.endm

// The address of the unit in v[2:3] after a shift by the size of units.
.macro target shift
  v_lshlrev_b64 v[2:3], \shift, v[0:1]
  v_add_co_u32 v2, vcc_lo, v2, s4
  v_add_co_ci_u32_e32 v3, vcc_lo, s5, v3, vcc_lo
.endm

// The same of the source in v[4:5].
.macro source shift
  v_lshlrev_b64 v[4:5], \shift, v[0:1]
  v_add_co_u32 v4, vcc_lo, v4, s6
  v_add_co_ci_u32_e32 v5, vcc_lo, s7, v5, vcc_lo
.endm

.macro body
  target 4
  v_mov_b32_e32 v4, s6
  v_mov_b32_e32 v5, s7
  v_mov_b32_e32 v6, s6
  v_mov_b32_e32 v7, s7
  global_store_b128 v[2:3], v[4:7], off
.endm
begin vireo_fill_x16
  each_unit
.purgem body

// The pattern has eight bytes, of which even and odd units get one half each.
.macro body
  target 2
  v_and_b32_e32 v4, 1, v0
  v_mov_b32_e32 v5, s6
  v_mov_b32_e32 v6, s7
  v_cmp_eq_u32_e32 vcc_lo, 0, v4
  v_cndmask_b32_e32 v5, v6, v5, vcc_lo
  global_store_b32 v[2:3], v5, off
.endm
begin vireo_fill_x4
  each_unit
.purgem body

.macro body
  target 0
  v_and_b32_e32 v4, 7, v0
  v_lshlrev_b32_e32 v4, 3, v4
  v_lshrrev_b64 v[5:6], v4, s[6:7]
  global_store_b8 v[2:3], v5, off
.endm
begin vireo_fill_x1
  each_unit
.purgem body

.macro body
  target 4
  source 4
  global_load_b128 v[6:9], v[4:5], off
  s_waitcnt vmcnt(0)
  global_store_b128 v[2:3], v[6:9], off
.endm
begin vireo_copy_x16
  each_unit
.purgem body

.macro body
  target 2
  source 2
  global_load_b32 v6, v[4:5], off
  s_waitcnt vmcnt(0)
  global_store_b32 v[2:3], v6, off
.endm
begin vireo_copy_x4
  each_unit
.purgem body

.macro body
  target 0
  source 0
  global_load_u8 v6, v[4:5], off
  s_waitcnt vmcnt(0)
  global_store_b8 v[2:3], v6, off
.endm
begin vireo_copy_x1
  each_unit
.purgem body

// Copies between ranges that overlap: one wave of 32 work-items, whose work-items all load before they store. The number of work-items is negative
// if the units are moved from the last one on.
.macro move_units unit
  s_load_b256 s[4:11], s[0:1], 0x0
  v_and_b32_e32 v0, 0x3ff, v0
  v_mov_b32_e32 v1, 0
  s_waitcnt lgkmcnt(0)
  s_cmp_ge_i32 s11, 0
  s_cbranch_scc1 .Lforward\@
  s_add_u32 s12, s8, -1
  s_addc_u32 s13, s9, -1
  v_sub_co_u32 v0, vcc_lo, s12, v0
  v_sub_co_ci_u32_e32 v1, vcc_lo, s13, v1, vcc_lo
.Lforward\@:
  v_cmp_gt_u64_e32 vcc_lo, s[8:9], v[0:1]
  s_and_saveexec_b32 s12, vcc_lo
  s_cbranch_execz .Lend\@
.Lloop\@:
  target \unit
  source \unit
  .if \unit == 4
    global_load_b128 v[6:9], v[4:5], off
    s_waitcnt vmcnt(0)
    global_store_b128 v[2:3], v[6:9], off
  .elseif \unit == 2
    global_load_b32 v6, v[4:5], off
    s_waitcnt vmcnt(0)
    global_store_b32 v[2:3], v6, off
  .else
    global_load_u8 v6, v[4:5], off
    s_waitcnt vmcnt(0)
    global_store_b8 v[2:3], v6, off
  .endif
  v_add_co_u32 v0, vcc_lo, v0, s10
  v_add_co_ci_u32_e32 v1, vcc_lo, s11, v1, vcc_lo
  v_cmp_gt_u64_e32 vcc_lo, s[8:9], v[0:1]
  s_and_b32 exec_lo, exec_lo, vcc_lo
  s_cbranch_execnz .Lloop\@
.Lend\@:
  s_endpgm
.endm
begin vireo_move_x16
  move_units 4
begin vireo_move_x4
  move_units 2
begin vireo_move_x1
  move_units 0

// One work-item. s[4:5] the counts of work-groups, s[6:7] the packet, s[8:9] the implicit arguments or zero, s10, s11, s12 the size of a
// work-group, s13 the first dword of the packet.
begin vireo_patch_grid
  s_load_b256 s[4:11], s[0:1], 0x0
  s_load_b64 s[12:13], s[0:1], 0x20
  s_waitcnt lgkmcnt(0)
  s_load_b64 s[14:15], s[4:5], 0x0
  s_load_b32 s16, s[4:5], 0x8
  v_mov_b32_e32 v0, 0
  s_waitcnt lgkmcnt(0)
  v_mov_b32_e32 v1, s14
  v_mov_b32_e32 v2, s15
  v_mov_b32_e32 v3, s16
  s_cmp_eq_u64 s[8:9], 0
  s_cbranch_scc1 .Lexplicit
  global_store_b32 v0, v1, s[8:9]
  global_store_b32 v0, v2, s[8:9] offset:4
  global_store_b32 v0, v3, s[8:9] offset:8
.Lexplicit:
  s_mul_hi_u32 s17, s14, s10
  s_mul_hi_u32 s18, s15, s11
  s_mul_hi_u32 s19, s16, s12
  s_or_b32 s17, s17, s18
  s_or_b32 s17, s17, s19
  s_cmp_lg_u32 s17, 0
  s_cbranch_scc1 .Ltoomany
  s_mul_i32 s14, s14, s10
  s_mul_i32 s15, s15, s11
  s_mul_i32 s16, s16, s12
  s_cmp_eq_u32 s14, 0
  s_cbranch_scc1 .Lempty
  s_cmp_eq_u32 s15, 0
  s_cbranch_scc1 .Lempty
  s_cmp_eq_u32 s16, 0
  s_cbranch_scc1 .Lempty
  v_mov_b32_e32 v1, s14
  v_mov_b32_e32 v2, s15
  v_mov_b32_e32 v3, s16
  global_store_b32 v0, v1, s[6:7] offset:12
  global_store_b32 v0, v2, s[6:7] offset:16
  global_store_b32 v0, v3, s[6:7] offset:20
  s_branch .Lpublish
// A grid of more work-items than packets can name stops the queue: there is no packet of type 255.
.Ltoomany:
  s_or_b32 s13, s13, 0xff
  s_branch .Lpublish
// A grid without work-items is no dispatch: a barrier that waits for no signals takes its place, type 3 instead of 2.
.Lempty:
  s_add_u32 s13, s13, 1
  s_and_b32 s13, s13, 0xffff
  v_mov_b32_e32 v1, 0
  global_store_b32 v0, v1, s[6:7] offset:4
  global_store_b32 v0, v1, s[6:7] offset:8
  global_store_b32 v0, v1, s[6:7] offset:12
  global_store_b32 v0, v1, s[6:7] offset:16
  global_store_b32 v0, v1, s[6:7] offset:20
  global_store_b32 v0, v1, s[6:7] offset:24
  global_store_b32 v0, v1, s[6:7] offset:28
  global_store_b32 v0, v1, s[6:7] offset:32
  global_store_b32 v0, v1, s[6:7] offset:36
  global_store_b32 v0, v1, s[6:7] offset:40
  global_store_b32 v0, v1, s[6:7] offset:44
.Lpublish:
  v_mov_b32_e32 v4, s13
  s_waitcnt_vscnt null, 0x0
  global_store_b32 v0, v4, s[6:7]
  s_endpgm

.rodata
.macro descriptor name arguments
.p2align 6
.amdhsa_kernel \name
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_kernarg_size \arguments
  .amdhsa_next_free_vgpr 16
  .amdhsa_next_free_sgpr 20
  .amdhsa_wavefront_size32 1
.end_amdhsa_kernel
.endm
descriptor vireo_fill_x16 32
descriptor vireo_fill_x4 32
descriptor vireo_fill_x1 32
descriptor vireo_copy_x16 32
descriptor vireo_copy_x4 32
descriptor vireo_copy_x1 32
descriptor vireo_move_x16 32
descriptor vireo_move_x4 32
descriptor vireo_move_x1 32
descriptor vireo_patch_grid 40
