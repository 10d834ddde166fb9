// A line for each form of each instruction, and for modifiers and operands that compilers seldom write.
buffer_atomic_add_f32 v8, off, s[4:7], 0 glc
buffer_atomic_add_f32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_add_u32 v8, off, s[4:7], 0 glc
buffer_atomic_add_u32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_add_u64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_add_u64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_and_b32 v8, off, s[4:7], 0 glc
buffer_atomic_and_b32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_and_b64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_and_b64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_cmpswap_b32 v[8:9], off, s[4:7], 0 glc
buffer_atomic_cmpswap_b32 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_cmpswap_b64 v[8:11], off, s[4:7], 0 glc
buffer_atomic_cmpswap_b64 v[8:11], v2, s[4:7], s3 offen offset:16
buffer_atomic_cmpswap_f32 v[8:9], off, s[4:7], 0 glc
buffer_atomic_cmpswap_f32 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_csub_u32 v4, off, s[8:11], 0
buffer_atomic_dec_u32 v8, off, s[4:7], 0 glc
buffer_atomic_dec_u32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_dec_u64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_dec_u64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_inc_u32 v8, off, s[4:7], 0 glc
buffer_atomic_inc_u32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_inc_u64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_inc_u64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_max_f32 v8, off, s[4:7], 0 glc
buffer_atomic_max_f32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_max_i32 v8, off, s[4:7], 0 glc
buffer_atomic_max_i32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_max_i64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_max_i64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_max_u32 v8, off, s[4:7], 0 glc
buffer_atomic_max_u32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_max_u64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_max_u64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_min_f32 v8, off, s[4:7], 0 glc
buffer_atomic_min_f32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_min_i32 v8, off, s[4:7], 0 glc
buffer_atomic_min_i32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_min_i64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_min_i64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_min_u32 v8, off, s[4:7], 0 glc
buffer_atomic_min_u32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_min_u64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_min_u64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_or_b32 v8, off, s[4:7], 0 glc
buffer_atomic_or_b32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_or_b64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_or_b64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_sub_u32 v8, off, s[4:7], 0 glc
buffer_atomic_sub_u32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_sub_u64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_sub_u64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_swap_b32 v8, off, s[4:7], 0 glc
buffer_atomic_swap_b32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_swap_b64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_swap_b64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_atomic_xor_b32 v8, off, s[4:7], 0 glc
buffer_atomic_xor_b32 v8, v2, s[4:7], s3 offen offset:16
buffer_atomic_xor_b64 v[8:9], off, s[4:7], 0 glc
buffer_atomic_xor_b64 v[8:9], v2, s[4:7], s3 offen offset:16
buffer_gl0_inv
buffer_gl1_inv
buffer_load_b128 v[4:7], v1, s[4:7], 0 offen
buffer_load_b32 v0, off, s[4:7], s3 offset:16 glc slc dlc
buffer_load_b32 v0, v1, s[4:7], 0 idxen
buffer_load_b32 v0, v1, s[4:7], m0 idxen
buffer_load_b32 v0, v[1:2], s[4:7], null idxen offen
buffer_load_b32 v4, v1, s[4:7], 0 offen
buffer_load_b64 v[4:5], v1, s[4:7], 0 offen
buffer_load_b96 v[4:6], v1, s[4:7], 0 offen
buffer_load_d16_b16 v4, v1, s[4:7], 0 offen
buffer_load_d16_hi_b16 v4, v1, s[4:7], 0 offen
buffer_load_d16_hi_i8 v4, v1, s[4:7], 0 offen
buffer_load_d16_hi_u8 v4, v1, s[4:7], 0 offen
buffer_load_d16_i8 v4, v1, s[4:7], 0 offen
buffer_load_d16_u8 v4, v1, s[4:7], 0 offen
buffer_load_i16 v4, v1, s[4:7], 0 offen
buffer_load_i8 v4, v1, s[4:7], 0 offen
buffer_load_u16 v4, v1, s[4:7], 0 offen
buffer_load_u8 v4, v1, s[4:7], 0 offen
buffer_store_b128 v[4:7], v1, s[4:7], 0 offen
buffer_store_b16 v4, v1, s[4:7], 0 offen
buffer_store_b32 v4, v1, s[4:7], 0 offen
buffer_store_b64 v[4:5], v1, s[4:7], 0 offen
buffer_store_b8 v4, v1, s[4:7], 0 offen
buffer_store_b96 v[4:6], v1, s[4:7], 0 offen
buffer_store_d16_hi_b16 v4, v1, s[4:7], 0 offen
buffer_store_d16_hi_b8 v4, v1, s[4:7], 0 offen
ds_add_f32 v2, v8 offset:8
ds_add_rtn_f32 v4, v2, v8 offset:8
ds_add_rtn_u32 v4, v2, v8 offset:8
ds_add_rtn_u64 v[4:5], v2, v[8:9] offset:8
ds_add_u32 v2, v8 offset:8
ds_add_u64 v2, v[8:9] offset:8
ds_and_b32 v2, v8 offset:8
ds_and_b64 v2, v[8:9] offset:8
ds_and_rtn_b32 v4, v2, v8 offset:8
ds_and_rtn_b64 v[4:5], v2, v[8:9] offset:8
ds_append v12
ds_append v12 offset:8
ds_bpermute_b32 v0, v1, v2 offset:4
ds_bpermute_b32 v12, v1, v4
ds_cmpstore_b32 v2, v8, v12 offset:8
ds_cmpstore_b64 v2, v[8:9], v[12:13] offset:8
ds_cmpstore_f32 v2, v8, v12 offset:8
ds_cmpstore_f64 v2, v[4:5], v[8:9]
ds_cmpstore_rtn_b32 v4, v2, v8, v12 offset:8
ds_cmpstore_rtn_b64 v[4:5], v2, v[8:9], v[12:13] offset:8
ds_cmpstore_rtn_f32 v4, v2, v8, v12 offset:8
ds_cmpstore_rtn_f64 v[12:13], v2, v[4:5], v[8:9]
ds_condxchg32_rtn_b64 v[12:13], v2, v[4:5]
ds_consume v12
ds_dec_rtn_u32 v4, v2, v8 offset:8
ds_dec_rtn_u64 v[4:5], v2, v[8:9] offset:8
ds_dec_u32 v2, v8 offset:8
ds_dec_u64 v2, v[8:9] offset:8
ds_inc_rtn_u32 v4, v2, v8 offset:8
ds_inc_rtn_u64 v[4:5], v2, v[8:9] offset:8
ds_inc_u32 v2, v8 offset:8
ds_inc_u64 v2, v[8:9] offset:8
ds_load_2addr_b32 v[0:1], v2 offset0:1 offset1:2
ds_load_2addr_b32 v[12:13], v1
ds_load_2addr_b64 v[12:15], v1
ds_load_2addr_stride64_b32 v[0:1], v2 offset0:1
ds_load_2addr_stride64_b32 v[12:13], v1
ds_load_2addr_stride64_b64 v[12:15], v1
ds_load_addtid_b32 v12
ds_load_b128 v[12:15], v1
ds_load_b32 v12, v1
ds_load_b64 v[12:13], v1
ds_load_b96 v[12:14], v1
ds_load_i16 v12, v1
ds_load_i8 v12, v1
ds_load_i8_d16 v12, v1
ds_load_i8_d16_hi v12, v1
ds_load_u16 v12, v1
ds_load_u16_d16 v12, v1
ds_load_u16_d16_hi v12, v1
ds_load_u8 v12, v1
ds_load_u8_d16 v12, v1
ds_load_u8_d16_hi v12, v1
ds_max_f32 v2, v8 offset:8
ds_max_f64 v2, v[4:5]
ds_max_i32 v2, v8 offset:8
ds_max_i64 v2, v[8:9] offset:8
ds_max_rtn_f32 v4, v2, v8 offset:8
ds_max_rtn_f64 v[12:13], v2, v[4:5]
ds_max_rtn_i32 v4, v2, v8 offset:8
ds_max_rtn_i64 v[4:5], v2, v[8:9] offset:8
ds_max_rtn_u32 v4, v2, v8 offset:8
ds_max_rtn_u64 v[4:5], v2, v[8:9] offset:8
ds_max_u32 v2, v8 offset:8
ds_max_u64 v2, v[8:9] offset:8
ds_min_f32 v2, v8 offset:8
ds_min_f64 v2, v[4:5]
ds_min_i32 v2, v8 offset:8
ds_min_i64 v2, v[8:9] offset:8
ds_min_rtn_f32 v4, v2, v8 offset:8
ds_min_rtn_f64 v[12:13], v2, v[4:5]
ds_min_rtn_i32 v4, v2, v8 offset:8
ds_min_rtn_i64 v[4:5], v2, v[8:9] offset:8
ds_min_rtn_u32 v4, v2, v8 offset:8
ds_min_rtn_u64 v[4:5], v2, v[8:9] offset:8
ds_min_u32 v2, v8 offset:8
ds_min_u64 v2, v[8:9] offset:8
ds_mskor_b32 v2, v4, v8
ds_mskor_b64 v2, v[4:5], v[8:9]
ds_mskor_rtn_b32 v12, v2, v4, v8
ds_mskor_rtn_b64 v[12:13], v2, v[4:5], v[8:9]
ds_nop
ds_or_b32 v2, v8 offset:8
ds_or_b64 v2, v[8:9] offset:8
ds_or_rtn_b32 v4, v2, v8 offset:8
ds_or_rtn_b64 v[4:5], v2, v[8:9] offset:8
ds_permute_b32 v12, v1, v4
ds_rsub_rtn_u32 v4, v2, v8 offset:8
ds_rsub_rtn_u64 v[4:5], v2, v[8:9] offset:8
ds_rsub_u32 v2, v8 offset:8
ds_rsub_u64 v2, v[8:9] offset:8
ds_store_2addr_b32 v1, v4, v8
ds_store_2addr_b64 v1, v[4:5], v[8:9]
ds_store_2addr_stride64_b32 v1, v4, v8
ds_store_2addr_stride64_b64 v1, v[4:5], v[8:9]
ds_store_addtid_b32 v4
ds_store_b128 v1, v[4:7]
ds_store_b16 v1, v4
ds_store_b16_d16_hi v1, v4
ds_store_b32 v1, v4
ds_store_b64 v1, v[4:5]
ds_store_b8 v1, v4
ds_store_b8_d16_hi v1, v4
ds_store_b96 v1, v[4:6]
ds_storexchg_2addr_rtn_b32 v[12:13], v2, v4, v8
ds_storexchg_2addr_rtn_b64 v[12:15], v2, v[4:5], v[8:9]
ds_storexchg_2addr_stride64_rtn_b32 v[12:13], v2, v4, v8
ds_storexchg_2addr_stride64_rtn_b64 v[12:15], v2, v[4:5], v[8:9]
ds_storexchg_rtn_b32 v4, v2, v8 offset:8
ds_storexchg_rtn_b64 v[4:5], v2, v[8:9] offset:8
ds_sub_rtn_u32 v4, v2, v8 offset:8
ds_sub_rtn_u64 v[4:5], v2, v[8:9] offset:8
ds_sub_u32 v2, v8 offset:8
ds_sub_u64 v2, v[8:9] offset:8
ds_swizzle_b32 v0, v1 offset:0x8055
ds_swizzle_b32 v0, v1 offset:swizzle(BITMASK_PERM,"00p11")
ds_swizzle_b32 v12, v1
ds_wrap_rtn_b32 v12, v2, v4, v8
ds_xor_b32 v2, v8 offset:8
ds_xor_b64 v2, v[8:9] offset:8
ds_xor_rtn_b32 v4, v2, v8 offset:8
ds_xor_rtn_b64 v[4:5], v2, v[8:9] offset:8
flat_atomic_add_f32 v[2:3], v4
flat_atomic_add_u32 v1, v[2:3], v4 offset:16 glc
flat_atomic_add_u32 v[2:3], v4
flat_atomic_add_u64 v[2:3], v[4:5]
flat_atomic_and_b32 v[2:3], v4
flat_atomic_and_b64 v[2:3], v[4:5]
flat_atomic_cmpswap_b32 v[2:3], v[4:5]
flat_atomic_cmpswap_b64 v[2:3], v[4:7]
flat_atomic_cmpswap_b64 v[8:9], v[2:3], v[4:7] glc
flat_atomic_cmpswap_f32 v[2:3], v[4:5]
flat_atomic_dec_u32 v[2:3], v4
flat_atomic_dec_u64 v[2:3], v[4:5]
flat_atomic_inc_u32 v[2:3], v4
flat_atomic_inc_u64 v[2:3], v[4:5]
flat_atomic_max_f32 v[2:3], v4
flat_atomic_max_i32 v[2:3], v4
flat_atomic_max_i64 v[2:3], v[4:5]
flat_atomic_max_u32 v[2:3], v4
flat_atomic_max_u64 v[2:3], v[4:5]
flat_atomic_min_f32 v[2:3], v4
flat_atomic_min_i32 v[2:3], v4
flat_atomic_min_i64 v[2:3], v[4:5]
flat_atomic_min_u32 v[2:3], v4
flat_atomic_min_u64 v[2:3], v[4:5]
flat_atomic_or_b32 v[2:3], v4
flat_atomic_or_b64 v[2:3], v[4:5]
flat_atomic_sub_u32 v[2:3], v4
flat_atomic_sub_u64 v[2:3], v[4:5]
flat_atomic_swap_b32 v[2:3], v4
flat_atomic_swap_b64 v[2:3], v[4:5]
flat_atomic_xor_b32 v[2:3], v4
flat_atomic_xor_b64 v[2:3], v[4:5]
flat_load_b128 v[12:15], v[2:3]
flat_load_b32 v1, v[2:3] offset:4095 glc slc dlc
flat_load_b32 v12, v[2:3]
flat_load_b64 v[12:13], v[2:3]
flat_load_b96 v[12:14], v[2:3]
flat_load_d16_b16 v12, v[2:3]
flat_load_d16_hi_b16 v12, v[2:3]
flat_load_d16_hi_i8 v12, v[2:3]
flat_load_d16_hi_u8 v12, v[2:3]
flat_load_d16_i8 v12, v[2:3]
flat_load_d16_u8 v12, v[2:3]
flat_load_i16 v12, v[2:3]
flat_load_i8 v12, v[2:3]
flat_load_u16 v12, v[2:3]
flat_load_u8 v12, v[2:3]
flat_store_b128 v[2:3], v[4:7]
flat_store_b16 v[2:3], v4
flat_store_b32 v[2:3], v4
flat_store_b64 v[2:3], v[4:5]
flat_store_b8 v[2:3], v4
flat_store_b96 v[2:3], v[4:6]
flat_store_d16_hi_b16 v[2:3], v4
flat_store_d16_hi_b8 v[2:3], v4
global_atomic_add_f32 v2, v8, s[4:5]
global_atomic_add_f32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_add_f32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_add_u32 v2, v8, s[4:5]
global_atomic_add_u32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_add_u32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_add_u64 v2, v[8:9], s[4:5]
global_atomic_add_u64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_add_u64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_atomic_and_b32 v2, v8, s[4:5]
global_atomic_and_b32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_and_b32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_and_b64 v2, v[8:9], s[4:5]
global_atomic_and_b64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_and_b64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_atomic_cmpswap_b32 v2, v[8:9], s[4:5]
global_atomic_cmpswap_b32 v4, v2, v[8:9], s[4:5] offset:16 glc
global_atomic_cmpswap_b32 v4, v[2:3], v[8:9], off offset:-8 glc
global_atomic_cmpswap_b64 v2, v[8:11], s[4:5]
global_atomic_cmpswap_b64 v[4:5], v2, v[8:11], s[4:5] offset:16 glc
global_atomic_cmpswap_b64 v[4:5], v[2:3], v[8:11], off offset:-8 glc
global_atomic_cmpswap_f32 v2, v[8:9], s[4:5]
global_atomic_cmpswap_f32 v4, v2, v[8:9], s[4:5] offset:16 glc
global_atomic_cmpswap_f32 v4, v[2:3], v[8:9], off offset:-8 glc
global_atomic_csub_u32 v[2:3], v4, off
global_atomic_dec_u32 v2, v8, s[4:5]
global_atomic_dec_u32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_dec_u32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_dec_u64 v2, v[8:9], s[4:5]
global_atomic_dec_u64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_dec_u64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_atomic_inc_u32 v2, v8, s[4:5]
global_atomic_inc_u32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_inc_u32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_inc_u64 v2, v[8:9], s[4:5]
global_atomic_inc_u64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_inc_u64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_atomic_max_f32 v2, v8, s[4:5]
global_atomic_max_f32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_max_f32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_max_i32 v2, v8, s[4:5]
global_atomic_max_i32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_max_i32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_max_i64 v2, v[8:9], s[4:5]
global_atomic_max_i64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_max_i64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_atomic_max_u32 v2, v8, s[4:5]
global_atomic_max_u32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_max_u32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_max_u64 v2, v[8:9], s[4:5]
global_atomic_max_u64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_max_u64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_atomic_min_f32 v2, v8, s[4:5]
global_atomic_min_f32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_min_f32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_min_i32 v2, v8, s[4:5]
global_atomic_min_i32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_min_i32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_min_i64 v2, v[8:9], s[4:5]
global_atomic_min_i64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_min_i64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_atomic_min_u32 v2, v8, s[4:5]
global_atomic_min_u32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_min_u32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_min_u64 v2, v[8:9], s[4:5]
global_atomic_min_u64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_min_u64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_atomic_or_b32 v2, v8, s[4:5]
global_atomic_or_b32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_or_b32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_or_b64 v2, v[8:9], s[4:5]
global_atomic_or_b64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_or_b64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_atomic_sub_u32 v2, v8, s[4:5]
global_atomic_sub_u32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_sub_u32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_sub_u64 v2, v[8:9], s[4:5]
global_atomic_sub_u64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_sub_u64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_atomic_swap_b32 v2, v8, s[4:5]
global_atomic_swap_b32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_swap_b32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_swap_b64 v2, v[8:9], s[4:5]
global_atomic_swap_b64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_swap_b64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_atomic_xor_b32 v2, v8, s[4:5]
global_atomic_xor_b32 v4, v2, v8, s[4:5] offset:16 glc
global_atomic_xor_b32 v4, v[2:3], v8, off offset:-8 glc
global_atomic_xor_b64 v2, v[8:9], s[4:5]
global_atomic_xor_b64 v[4:5], v2, v[8:9], s[4:5] offset:16 glc
global_atomic_xor_b64 v[4:5], v[2:3], v[8:9], off offset:-8 glc
global_load_addtid_b32 v12, off
global_load_b128 v[4:7], v1, s[2:3]
global_load_b32 v0, v1, s[2:3] offset:16
global_load_b32 v0, v[1:2], off offset:-16 glc slc dlc
global_load_b32 v4, v1, s[2:3]
global_load_b64 v[4:5], v1, s[2:3]
global_load_b96 v[4:6], v1, s[2:3]
global_load_d16_b16 v4, v1, s[2:3]
global_load_d16_hi_b16 v4, v1, s[2:3]
global_load_d16_hi_i8 v4, v1, s[2:3]
global_load_d16_hi_u8 v4, v1, s[2:3]
global_load_d16_i8 v4, v1, s[2:3]
global_load_d16_u8 v4, v1, s[2:3]
global_load_i16 v4, v1, s[2:3]
global_load_i8 v4, v1, s[2:3]
global_load_u16 v4, v1, s[2:3]
global_load_u8 v4, v1, s[2:3]
global_store_addtid_b32 v4, off
global_store_b128 v1, v[4:7], s[2:3]
global_store_b16 v1, v4, s[2:3]
global_store_b32 v1, v4, s[2:3]
global_store_b64 v1, v[4:5], s[2:3]
global_store_b8 v1, v4, s[2:3]
global_store_b96 v1, v[4:6], s[2:3]
global_store_d16_hi_b16 v1, v4, s[2:3]
global_store_d16_hi_b8 v1, v4, s[2:3]
s_abs_i32 s4, s8
s_absdiff_i32 s4, s2, s6
s_add_i32 s4, s8, s12
s_add_u32 s4, s8, s12
s_addc_u32 s4, s8, s12
s_addk_i32 s0, -2
s_addk_i32 s4, 0x1
s_and_b32 s4, s8, s12
s_and_b64 s[4:5], s[8:9], s[12:13]
s_and_not0_saveexec_b32 s4, s8
s_and_not0_saveexec_b64 s[4:5], s[2:3]
s_and_not0_wrexec_b32 s4, s2
s_and_not0_wrexec_b64 s[4:5], s[2:3]
s_and_not1_b32 s4, s8, s12
s_and_not1_b64 s[4:5], s[8:9], s[12:13]
s_and_not1_saveexec_b32 s4, s8
s_and_not1_saveexec_b64 s[4:5], s[2:3]
s_and_not1_wrexec_b32 s4, s2
s_and_not1_wrexec_b64 s[4:5], s[2:3]
s_and_saveexec_b32 s4, s8
s_and_saveexec_b64 s[4:5], s[8:9]
s_ashr_i32 s4, s8, s12
s_ashr_i64 s[4:5], s[8:9], s12
s_barrier
s_bcnt0_i32_b32 s4, s2
s_bcnt0_i32_b64 s4, s[2:3]
s_bcnt1_i32_b32 s4, s8
s_bcnt1_i32_b64 s4, s[2:3]
s_bfe_i32 s4, s8, s12
s_bfe_i64 s[4:5], s[2:3], s6
s_bfe_u32 s4, s8, s12
s_bfe_u64 s[4:5], s[2:3], s6
s_bfm_b32 s4, s8, s12
s_bfm_b64 s[4:5], s2, s6
s_bitcmp0_b32 s4, s8
s_bitcmp0_b64 s[2:3], s6
s_bitcmp1_b32 s4, s8
s_bitcmp1_b64 s[2:3], s6
s_bitreplicate_b64_b32 s[4:5], s2
s_bitset0_b32 s4, s8
s_bitset0_b64 s[4:5], s2
s_bitset1_b32 s4, s8
s_bitset1_b64 s[4:5], s2
s_branch 0x1
s_brev_b32 s4, s8
s_brev_b64 s[4:5], s[2:3]
s_buffer_load_b128 s[8:11], s[4:7], null
s_buffer_load_b128 s[8:11], s[4:7], s3 offset:0x10
s_buffer_load_b256 s[8:15], s[4:7], null
s_buffer_load_b32 s8, s[4:7], 0x40
s_buffer_load_b32 s8, s[4:7], null
s_buffer_load_b512 s[8:23], s[4:7], null
s_buffer_load_b64 s[8:9], s[4:7], null
s_call_b64 s[20:21], 65520
s_call_b64 s[4:5], 1
s_cbranch_cdbgsys 0
s_cbranch_cdbgsys_and_user 0
s_cbranch_cdbgsys_or_user 0
s_cbranch_cdbguser 0
s_cbranch_execnz 0x1
s_cbranch_execz 0x1
s_cbranch_scc0 0x1
s_cbranch_scc1 0x1
s_cbranch_vccnz 0x1
s_cbranch_vccz 0x1
s_clause 0x1
s_clause 1
s_cls_i32 s4, s2
s_cls_i32_i64 s4, s[2:3]
s_clz_i32_u32 s4, s8
s_clz_i32_u64 s4, s[2:3]
s_cmov_b32 s4, s2
s_cmov_b64 s[4:5], s[2:3]
s_cmovk_i32 s4, 0x1
s_cmp_eq_i32 s4, s8
s_cmp_eq_u32 s4, s8
s_cmp_eq_u64 s[4:5], s[8:9]
s_cmp_ge_i32 s4, s8
s_cmp_ge_u32 s4, s8
s_cmp_gt_i32 s4, s8
s_cmp_gt_u32 s4, s8
s_cmp_le_i32 s4, s8
s_cmp_le_u32 s4, s8
s_cmp_lg_i32 s4, s8
s_cmp_lg_u32 s4, s8
s_cmp_lg_u64 s[4:5], s[8:9]
s_cmp_lt_i32 s4, s8
s_cmp_lt_u32 s4, s8
s_cmpk_eq_i32 s4, 0x1
s_cmpk_eq_u32 s4, 0x1
s_cmpk_ge_i32 s4, 0x1
s_cmpk_ge_u32 s4, 0x1
s_cmpk_gt_i32 s4, 0x1
s_cmpk_gt_u32 s4, 0x1
s_cmpk_le_i32 s4, 0x1
s_cmpk_le_u32 s4, 0x1
s_cmpk_lg_i32 s4, 0x1
s_cmpk_lg_u32 s4, 0x1
s_cmpk_lt_i32 s4, 0x1
s_cmpk_lt_u32 s0, 0xfffe
s_cmpk_lt_u32 s4, 0x1
s_code_end
s_cselect_b32 s4, s8, s12
s_cselect_b64 s[4:5], s[8:9], s[12:13]
s_ctz_i32_b32 s4, s8
s_ctz_i32_b64 s4, s[2:3]
s_dcache_inv
s_decperflevel 0
s_delay_alu 0
s_delay_alu 1
s_delay_alu instid0(FMA_ACCUM_CYCLE_1) | instskip(SKIP_4) | instid1(SALU_CYCLE_3)
s_delay_alu instid0(VALU_DEP_1)
s_denorm_mode 0x1
s_denorm_mode 15
s_endpgm
s_getpc_b64 s[2:3]
s_getpc_b64 s[4:5]
s_getreg_b32 s4, hwreg(8, 1, 2)
s_getreg_b32 s4, hwreg(HW_REG_MODE)
s_getreg_b32 s4, hwreg(HW_REG_MODE, 0, 1)
s_getreg_b32 s4, hwreg(HW_REG_SHADER_CYCLES, 0, 20)
s_gl1_inv
s_icache_inv
s_incperflevel 0
s_load_b128 s[8:11], s[4:5], null
s_load_b256 s[8:15], s[4:5], null
s_load_b32 s0, s[2:3], -0x10 glc dlc
s_load_b32 s0, s[2:3], s4
s_load_b32 s0, s[2:3], s4 offset:0x10
s_load_b32 s8, s[4:5], null
s_load_b512 s[8:23], s[4:5], null
s_load_b64 s[8:9], s[4:5], null
s_lshl1_add_u32 s4, s8, s12
s_lshl2_add_u32 s4, s8, s12
s_lshl3_add_u32 s4, s8, s12
s_lshl4_add_u32 s4, s8, s12
s_lshl_b32 s4, s8, s12
s_lshl_b64 s[4:5], s[8:9], s12
s_lshr_b32 s4, s8, s12
s_lshr_b64 s[4:5], s[8:9], s12
s_max_i32 s4, s8, s12
s_max_u32 s4, s8, s12
s_min_i32 s4, s8, s12
s_min_u32 s4, s8, s12
s_mov_b32 m0, ttmp3
s_mov_b32 s0, 0.5
s_mov_b32 s0, src_scc
s_mov_b32 s4, s8
s_mov_b32 s4, src_scc
s_mov_b64 exec, vcc
s_mov_b64 s[0:1], 0x12345678
s_mov_b64 s[0:1], null
s_mov_b64 s[0:1], src_shared_base
s_mov_b64 s[4:5], s[8:9]
s_mov_b64 s[4:5], src_private_base
s_mov_b64 s[4:5], src_shared_base
s_mov_b64 ttmp[2:3], s[4:5]
s_movk_i32 s0, -2
s_movk_i32 s4, 0x1
s_movreld_b32 s4, s2
s_movreld_b64 s[4:5], s[2:3]
s_movrels_b32 s4, s2
s_movrels_b64 s[4:5], s[2:3]
s_movrelsd_2_b32 s4, s2
s_mul_hi_i32 s4, s8, s12
s_mul_hi_u32 s4, s8, s12
s_mul_i32 s4, s8, s12
s_mulk_i32 s4, 0x1
s_nand_b32 s4, s8, s12
s_nand_b64 s[4:5], s[2:3], s[6:7]
s_nand_saveexec_b32 s4, s2
s_nand_saveexec_b64 s[4:5], s[2:3]
s_nop 0x1
s_nor_b32 s4, s8, s12
s_nor_b64 s[4:5], s[2:3], s[6:7]
s_nor_saveexec_b32 s4, s2
s_nor_saveexec_b64 s[4:5], s[2:3]
s_not_b32 s4, s8
s_not_b64 s[4:5], s[2:3]
s_or_b32 s4, s8, s12
s_or_b64 s[4:5], s[8:9], s[12:13]
s_or_not0_saveexec_b32 s4, s2
s_or_not0_saveexec_b64 s[4:5], s[2:3]
s_or_not1_b32 s4, s8, s12
s_or_not1_b64 s[4:5], s[2:3], s[6:7]
s_or_not1_saveexec_b32 s4, s2
s_or_not1_saveexec_b64 s[4:5], s[2:3]
s_or_saveexec_b32 s4, s8
s_or_saveexec_b64 s[4:5], s[2:3]
s_pack_hh_b32_b16 s4, s2, s6
s_pack_hl_b32_b16 s4, s2, s6
s_pack_lh_b32_b16 s4, s2, s6
s_pack_ll_b32_b16 s4, s8, s12
s_quadmask_b32 s4, s2
s_quadmask_b64 s[4:5], s[2:3]
s_round_mode 0x1
s_round_mode 3
s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)
s_sendmsg sendmsg(MSG_GS_ALLOC_REQ)
s_sendmsg sendmsg(MSG_HS_TESSFACTOR)
s_sendmsg sendmsg(MSG_INTERRUPT)
s_sendmsg sendmsg(MSG_RTN_GET_DDID)
s_sendmsg sendmsg(MSG_RTN_GET_DOORBELL)
s_sendmsg sendmsg(MSG_RTN_GET_REALTIME)
s_sendmsg sendmsg(MSG_RTN_GET_TBA)
s_sendmsg sendmsg(MSG_RTN_GET_TMA)
s_sendmsg sendmsg(MSG_RTN_SAVE_WAVE)
s_sendmsg_rtn_b32 s4, sendmsg(MSG_HS_TESSFACTOR)
s_sendmsg_rtn_b64 s[4:5], sendmsg(MSG_HS_TESSFACTOR)
s_sendmsg_rtn_b64 s[4:5], sendmsg(MSG_RTN_GET_REALTIME)
s_set_inst_prefetch_distance 0x1
s_setpc_b64 s[4:5]
s_setprio 0x1
s_setprio 2
s_setreg_b32 hwreg(HW_REG_MODE, 0, 1), s4
s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s4
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 8), 0xf0
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15
s_sext_i32_i16 s4, s8
s_sext_i32_i8 s4, s8
s_sleep 0x1
s_sleep 1
s_sub_i32 s4, s8, s12
s_sub_u32 s4, s8, s12
s_subb_u32 s4, s8, s12
s_swappc_b64 s[2:3], s[4:5]
s_swappc_b64 s[4:5], s[8:9]
s_trap 0x1
s_trap 2
s_ttracedata
s_ttracedata_imm 0x0
s_version 1
s_wait_event 0x0
s_wait_idle
s_waitcnt 0
s_waitcnt 0xffff
s_waitcnt 1
s_waitcnt expcnt(1)
s_waitcnt_depctr 0
s_waitcnt_depctr 0x0fff
s_waitcnt_depctr 0xffff
s_waitcnt_depctr 1
s_waitcnt_expcnt null, 0x1
s_waitcnt_lgkmcnt null, 0x1
s_waitcnt_vmcnt null, 0x1
s_waitcnt_vscnt null, 0x0
s_waitcnt_vscnt null, 0x3f
s_wakeup
s_wqm_b32 s4, s2
s_wqm_b64 s[4:5], s[2:3]
s_xnor_b32 s4, s8, s12
s_xnor_b64 s[4:5], s[2:3], s[6:7]
s_xnor_saveexec_b32 s4, s2
s_xnor_saveexec_b64 s[4:5], s[2:3]
s_xor_b32 s4, s8, s12
s_xor_b64 s[4:5], s[8:9], s[12:13]
s_xor_saveexec_b32 s4, s8
s_xor_saveexec_b64 s[4:5], s[2:3]
scratch_load_b128 v[4:7], off, s2
scratch_load_b32 v0, off, s3
scratch_load_b32 v0, v1, off
scratch_load_b32 v0, v1, s2 offset:-4
scratch_load_b32 v4, off, s2
scratch_load_b64 v[4:5], off, s2
scratch_load_b96 v[4:6], off, s2
scratch_load_d16_b16 v4, off, s2
scratch_load_d16_hi_b16 v4, off, s2
scratch_load_d16_hi_i8 v4, off, s2
scratch_load_d16_hi_u8 v4, off, s2
scratch_load_d16_i8 v4, off, s2
scratch_load_d16_u8 v4, off, s2
scratch_load_i16 v4, off, s2
scratch_load_i8 v4, off, s2
scratch_load_u16 v4, off, s2
scratch_load_u8 v4, off, s2
scratch_store_b128 off, v[4:7], s2
scratch_store_b16 off, v4, s2
scratch_store_b32 off, v4, s2
scratch_store_b64 off, v[4:5], s2
scratch_store_b8 off, v4, s2
scratch_store_b96 off, v[4:6], s2
scratch_store_d16_hi_b16 off, v4, s2
scratch_store_d16_hi_b8 off, v4, s2
v_add3_u32 v16, v24, v32, v40
v_add3_u32_e64 v16, v24, v32, v40
v_add_co_ci_u32 v16, s6, v24, v32, s6
v_add_co_ci_u32_dpp v16, vcc_lo, v24, v32, vcc_lo row_shr:1 row_mask:0xf bank_mask:0xf
v_add_co_ci_u32_e32 v16, vcc_lo, v24, v32, vcc_lo
v_add_co_ci_u32_e64 v0, s1, v1, v2, s3
v_add_co_ci_u32_e64 v16, s6, v24, v32, s6
v_add_co_u32 v16, s6, v24, v32
v_add_co_u32_e64 v16, s6, v24, v32
v_add_co_u32_e64_dpp v0, s1, v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
v_add_f16 v16, v24, v32
v_add_f16_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_add_f16_e32 v0, 0x4248, v1
v_add_f16_e32 v16, v24, v32
v_add_f16_e64 v16, v24, v32
v_add_f32 v16, v24, v32
v_add_f32_dpp v0, -v1, |v2| quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
v_add_f32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_add_f32_e32 v16, v24, v32
v_add_f32_e64 v0, -|v1|, v2 clamp mul:2
v_add_f32_e64 v0, v1, v2 div:2
v_add_f32_e64 v16, v24, v32
v_add_f32_e64_dpp v0, -v1, |v2| clamp quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
v_add_f64 v[0:1], 0.15915494, v[2:3]
v_add_f64 v[0:1], 0x40000000, v[2:3]
v_add_f64 v[16:17], v[24:25], v[32:33]
v_add_f64_e64 v[16:17], v[24:25], v[32:33]
v_add_lshl_u32 v16, v24, v32, v40
v_add_lshl_u32_e64 v16, v24, v32, v40
v_add_nc_i16 v16, v24, v32
v_add_nc_i16_e64 v16, v24, v32
v_add_nc_i32 v16, v24, v32
v_add_nc_i32_e64 v16, v24, v32
v_add_nc_u16 v16, v24, v32
v_add_nc_u16_e64 v16, v24, v32
v_add_nc_u32 v16, v24, v32
v_add_nc_u32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_add_nc_u32_e32 v16, v24, v32
v_add_nc_u32_e64 v1, v2, v3 clamp
v_add_nc_u32_e64 v16, v24, v32
v_alignbit_b32 v16, v24, v32, v40
v_alignbit_b32_e64 v16, v24, v32, v40
v_alignbyte_b32 v16, v24, v32, v40
v_alignbyte_b32_e64 v16, v24, v32, v40
v_and_b16 v16, v24, v32
v_and_b16_e64 v16, v24, v32
v_and_b32 v16, v24, v32
v_and_b32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_and_b32_e32 v16, v24, v32
v_and_b32_e64 v16, v24, v32
v_and_or_b32 v16, v24, v32, v40
v_and_or_b32_e64 v16, v24, v32, v40
v_ashrrev_i16 v16, v24, v32
v_ashrrev_i16_e64 v16, v24, v32
v_ashrrev_i32 v16, v24, v32
v_ashrrev_i32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_ashrrev_i32_e32 v16, v24, v32
v_ashrrev_i32_e64 v16, v24, v32
v_ashrrev_i64 v[16:17], v24, v[32:33]
v_ashrrev_i64_e64 v[16:17], v24, v[32:33]
v_bcnt_u32_b32 v16, v24, v32
v_bcnt_u32_b32_e64 v16, v24, v32
v_bfe_i32 v16, v24, v32, v40
v_bfe_i32_e64 v16, v24, v32, v40
v_bfe_u32 v16, v24, v32, v40
v_bfe_u32_e64 v16, v24, v32, v40
v_bfi_b32 v16, v24, v32, v40
v_bfi_b32_e64 v16, v24, v32, v40
v_bfm_b32 v4, v2, v6
v_bfrev_b32 v16, v24
v_bfrev_b32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_bfrev_b32_e32 v16, v24
v_bfrev_b32_e64 v16, v24
v_ceil_f16 v16, v24
v_ceil_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_ceil_f16_e32 v16, v24
v_ceil_f16_e64 v16, v24
v_ceil_f32 v16, v24
v_ceil_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_ceil_f32_e32 v16, v24
v_ceil_f32_e64 v16, v24
v_ceil_f64 v[16:17], v[24:25]
v_ceil_f64_e32 v[16:17], v[24:25]
v_ceil_f64_e64 v[16:17], v[24:25]
v_cls_i32_e32 v4, v2
v_cls_i32_e64 v4, v2
v_clz_i32_u32 v16, v24
v_clz_i32_u32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_clz_i32_u32_e32 v16, v24
v_clz_i32_u32_e64 v16, v24
v_cmp_class_f16 s6, v16, v24
v_cmp_class_f16_e32 vcc_lo, v16, v24
v_cmp_class_f16_e64 s6, v16, v24
v_cmp_class_f32 s6, v16, v24
v_cmp_class_f32_e32 vcc_lo, v16, v24
v_cmp_class_f32_e64 s0, -v1, 0x204
v_cmp_class_f32_e64 s6, v16, v24
v_cmp_class_f64 s6, v[16:17], v24
v_cmp_class_f64_e32 vcc_lo, v[16:17], v24
v_cmp_class_f64_e64 s6, v[16:17], v24
v_cmp_eq_f16 s6, v16, v24
v_cmp_eq_f16_e32 vcc_lo, v16, v24
v_cmp_eq_f16_e64 s6, v16, v24
v_cmp_eq_f32 s6, v16, v24
v_cmp_eq_f32_e32 vcc_lo, v16, v24
v_cmp_eq_f32_e64 s6, v16, v24
v_cmp_eq_f64 s6, v[16:17], v[24:25]
v_cmp_eq_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_eq_f64_e64 s6, v[16:17], v[24:25]
v_cmp_eq_i16 s6, v16, v24
v_cmp_eq_i16_e32 vcc_lo, v16, v24
v_cmp_eq_i16_e64 s6, v16, v24
v_cmp_eq_i32 s6, v16, v24
v_cmp_eq_i32_e32 vcc_lo, v16, v24
v_cmp_eq_i32_e64 s6, v16, v24
v_cmp_eq_i64 s6, v[16:17], v[24:25]
v_cmp_eq_i64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_eq_i64_e64 s6, v[16:17], v[24:25]
v_cmp_eq_u16 s6, v16, v24
v_cmp_eq_u16_e32 vcc_lo, v16, v24
v_cmp_eq_u16_e64 s6, v16, v24
v_cmp_eq_u32 s6, v16, v24
v_cmp_eq_u32_e32 vcc_lo, v16, v24
v_cmp_eq_u32_e64 s6, v16, v24
v_cmp_eq_u64 s6, v[16:17], v[24:25]
v_cmp_eq_u64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_eq_u64_e64 s6, v[16:17], v[24:25]
v_cmp_f_f16_e32 vcc_lo, v2, v6
v_cmp_f_f16_e64 s4, v2, v6
v_cmp_f_f32_e32 vcc_lo, v2, v6
v_cmp_f_f32_e64 s4, v2, v6
v_cmp_f_f64_e32 vcc_lo, v[2:3], v[6:7]
v_cmp_f_f64_e64 s4, v[2:3], v[6:7]
v_cmp_f_i32_e32 vcc_lo, v2, v6
v_cmp_f_i32_e64 s4, v2, v6
v_cmp_f_i64_e32 vcc_lo, v[2:3], v[6:7]
v_cmp_f_i64_e64 s4, v[2:3], v[6:7]
v_cmp_f_u32_e32 vcc_lo, v2, v6
v_cmp_f_u32_e64 s4, v2, v6
v_cmp_f_u64_e32 vcc_lo, v[2:3], v[6:7]
v_cmp_f_u64_e64 s4, v[2:3], v[6:7]
v_cmp_ge_f16 s6, v16, v24
v_cmp_ge_f16_e32 vcc_lo, v16, v24
v_cmp_ge_f16_e64 s6, v16, v24
v_cmp_ge_f32 s6, v16, v24
v_cmp_ge_f32_e32 vcc_lo, v16, v24
v_cmp_ge_f32_e64 s6, v16, v24
v_cmp_ge_f64 s6, v[16:17], v[24:25]
v_cmp_ge_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_ge_f64_e64 s6, v[16:17], v[24:25]
v_cmp_ge_i16 s6, v16, v24
v_cmp_ge_i16_e32 vcc_lo, v16, v24
v_cmp_ge_i16_e64 s6, v16, v24
v_cmp_ge_i32 s6, v16, v24
v_cmp_ge_i32_e32 vcc_lo, v16, v24
v_cmp_ge_i32_e64 s6, v16, v24
v_cmp_ge_i64 s6, v[16:17], v[24:25]
v_cmp_ge_i64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_ge_i64_e64 s6, v[16:17], v[24:25]
v_cmp_ge_u16 s6, v16, v24
v_cmp_ge_u16_e32 vcc_lo, v16, v24
v_cmp_ge_u16_e64 s6, v16, v24
v_cmp_ge_u32 s6, v16, v24
v_cmp_ge_u32_e32 vcc_lo, v16, v24
v_cmp_ge_u32_e64 s6, v16, v24
v_cmp_ge_u64 s6, v[16:17], v[24:25]
v_cmp_ge_u64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_ge_u64_e64 s6, v[16:17], v[24:25]
v_cmp_gt_f16 s6, v16, v24
v_cmp_gt_f16_e32 vcc_lo, v16, v24
v_cmp_gt_f16_e64 s6, v16, v24
v_cmp_gt_f32 s6, v16, v24
v_cmp_gt_f32_e32 vcc_lo, v16, v24
v_cmp_gt_f32_e64 s6, v16, v24
v_cmp_gt_f64 s6, v[16:17], v[24:25]
v_cmp_gt_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_gt_f64_e64 s6, v[16:17], v[24:25]
v_cmp_gt_i16 s6, v16, v24
v_cmp_gt_i16_e32 vcc_lo, v16, v24
v_cmp_gt_i16_e64 s6, v16, v24
v_cmp_gt_i32 s6, v16, v24
v_cmp_gt_i32_e32 vcc_lo, v16, v24
v_cmp_gt_i32_e64 s6, v16, v24
v_cmp_gt_i64 s6, v[16:17], v[24:25]
v_cmp_gt_i64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_gt_i64_e64 s6, v[16:17], v[24:25]
v_cmp_gt_u16 s6, v16, v24
v_cmp_gt_u16_e32 vcc_lo, v16, v24
v_cmp_gt_u16_e64 s6, v16, v24
v_cmp_gt_u32 s6, v16, v24
v_cmp_gt_u32_e32 vcc_lo, v16, v24
v_cmp_gt_u32_e64 s6, v16, v24
v_cmp_gt_u64 s6, v[16:17], v[24:25]
v_cmp_gt_u64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_gt_u64_e64 s6, v[16:17], v[24:25]
v_cmp_le_f16 s6, v16, v24
v_cmp_le_f16_e32 vcc_lo, v16, v24
v_cmp_le_f16_e64 s6, v16, v24
v_cmp_le_f32 s6, v16, v24
v_cmp_le_f32_e32 vcc_lo, v16, v24
v_cmp_le_f32_e64 s6, v16, v24
v_cmp_le_f64 s6, v[16:17], v[24:25]
v_cmp_le_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_le_f64_e64 s6, v[16:17], v[24:25]
v_cmp_le_i16 s6, v16, v24
v_cmp_le_i16_e32 vcc_lo, v16, v24
v_cmp_le_i16_e64 s6, v16, v24
v_cmp_le_i32 s6, v16, v24
v_cmp_le_i32_e32 vcc_lo, v16, v24
v_cmp_le_i32_e64 s6, v16, v24
v_cmp_le_i64 s6, v[16:17], v[24:25]
v_cmp_le_i64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_le_i64_e64 s6, v[16:17], v[24:25]
v_cmp_le_u16 s6, v16, v24
v_cmp_le_u16_e32 vcc_lo, v16, v24
v_cmp_le_u16_e64 s6, v16, v24
v_cmp_le_u32 s6, v16, v24
v_cmp_le_u32_e32 vcc_lo, v16, v24
v_cmp_le_u32_e64 s6, v16, v24
v_cmp_le_u64 s6, v[16:17], v[24:25]
v_cmp_le_u64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_le_u64_e64 s6, v[16:17], v[24:25]
v_cmp_lg_f16 s6, v16, v24
v_cmp_lg_f16_e32 vcc_lo, v16, v24
v_cmp_lg_f16_e64 s6, v16, v24
v_cmp_lg_f32 s6, v16, v24
v_cmp_lg_f32_e32 vcc_lo, v16, v24
v_cmp_lg_f32_e64 s6, v16, v24
v_cmp_lg_f64 s6, v[16:17], v[24:25]
v_cmp_lg_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_lg_f64_e64 s6, v[16:17], v[24:25]
v_cmp_lt_f16 s6, v16, v24
v_cmp_lt_f16_e32 vcc_lo, v16, v24
v_cmp_lt_f16_e64 s6, v16, v24
v_cmp_lt_f32 s6, v16, v24
v_cmp_lt_f32_e32 vcc_lo, v16, v24
v_cmp_lt_f32_e64 s6, v16, v24
v_cmp_lt_f64 s6, v[16:17], v[24:25]
v_cmp_lt_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_lt_f64_e64 s6, v[16:17], v[24:25]
v_cmp_lt_i16 s6, v16, v24
v_cmp_lt_i16_e32 vcc_lo, v16, v24
v_cmp_lt_i16_e64 s6, v16, v24
v_cmp_lt_i32 s6, v16, v24
v_cmp_lt_i32_e32 vcc_lo, v16, v24
v_cmp_lt_i32_e64 s6, v16, v24
v_cmp_lt_i64 s6, v[16:17], v[24:25]
v_cmp_lt_i64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_lt_i64_e64 s6, v[16:17], v[24:25]
v_cmp_lt_u16 s6, v16, v24
v_cmp_lt_u16_e32 vcc_lo, v16, v24
v_cmp_lt_u16_e64 s6, v16, v24
v_cmp_lt_u32 s6, v16, v24
v_cmp_lt_u32_e32 vcc_lo, v16, v24
v_cmp_lt_u32_e64 s6, v16, v24
v_cmp_lt_u64 s6, v[16:17], v[24:25]
v_cmp_lt_u64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_lt_u64_e64 s6, v[16:17], v[24:25]
v_cmp_ne_i16 s6, v16, v24
v_cmp_ne_i16_e32 vcc_lo, v16, v24
v_cmp_ne_i16_e64 s6, v16, v24
v_cmp_ne_i32 s6, v16, v24
v_cmp_ne_i32_e32 vcc_lo, v16, v24
v_cmp_ne_i32_e64 s6, v16, v24
v_cmp_ne_i64 s6, v[16:17], v[24:25]
v_cmp_ne_i64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_ne_i64_e64 s6, v[16:17], v[24:25]
v_cmp_ne_u16 s6, v16, v24
v_cmp_ne_u16_e32 vcc_lo, v16, v24
v_cmp_ne_u16_e64 s6, v16, v24
v_cmp_ne_u32 s6, v16, v24
v_cmp_ne_u32_e32 vcc_lo, v16, v24
v_cmp_ne_u32_e64 s6, v16, v24
v_cmp_ne_u64 s6, v[16:17], v[24:25]
v_cmp_ne_u64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_ne_u64_e64 s6, v[16:17], v[24:25]
v_cmp_neq_f16 s6, v16, v24
v_cmp_neq_f16_e32 vcc_lo, v16, v24
v_cmp_neq_f16_e64 s6, v16, v24
v_cmp_neq_f32 s6, v16, v24
v_cmp_neq_f32_e32 vcc_lo, v16, v24
v_cmp_neq_f32_e64 s6, v16, v24
v_cmp_neq_f64 s6, v[16:17], v[24:25]
v_cmp_neq_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_neq_f64_e64 s6, v[16:17], v[24:25]
v_cmp_nge_f16 s6, v16, v24
v_cmp_nge_f16_e32 vcc_lo, v16, v24
v_cmp_nge_f16_e64 s6, v16, v24
v_cmp_nge_f32 s6, v16, v24
v_cmp_nge_f32_e32 vcc_lo, v16, v24
v_cmp_nge_f32_e64 s6, v16, v24
v_cmp_nge_f64 s6, v[16:17], v[24:25]
v_cmp_nge_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_nge_f64_e64 s6, v[16:17], v[24:25]
v_cmp_ngt_f16 s6, v16, v24
v_cmp_ngt_f16_e32 vcc_lo, v16, v24
v_cmp_ngt_f16_e64 s6, v16, v24
v_cmp_ngt_f32 s6, v16, v24
v_cmp_ngt_f32_e32 vcc_lo, v16, v24
v_cmp_ngt_f32_e64 s6, v16, v24
v_cmp_ngt_f64 s6, v[16:17], v[24:25]
v_cmp_ngt_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_ngt_f64_e64 s6, v[16:17], v[24:25]
v_cmp_nle_f16 s6, v16, v24
v_cmp_nle_f16_e32 vcc_lo, v16, v24
v_cmp_nle_f16_e64 s6, v16, v24
v_cmp_nle_f32 s6, v16, v24
v_cmp_nle_f32_e32 vcc_lo, v16, v24
v_cmp_nle_f32_e64 s6, v16, v24
v_cmp_nle_f64 s6, v[16:17], v[24:25]
v_cmp_nle_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_nle_f64_e64 s6, v[16:17], v[24:25]
v_cmp_nlg_f16 s6, v16, v24
v_cmp_nlg_f16_e32 vcc_lo, v16, v24
v_cmp_nlg_f16_e64 s6, v16, v24
v_cmp_nlg_f32 s6, v16, v24
v_cmp_nlg_f32_e32 vcc_lo, v16, v24
v_cmp_nlg_f32_e64 s6, v16, v24
v_cmp_nlg_f64 s6, v[16:17], v[24:25]
v_cmp_nlg_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_nlg_f64_e64 s6, v[16:17], v[24:25]
v_cmp_nlt_f16 s6, v16, v24
v_cmp_nlt_f16_e32 vcc_lo, v16, v24
v_cmp_nlt_f16_e64 s6, v16, v24
v_cmp_nlt_f32 s6, v16, v24
v_cmp_nlt_f32_e32 vcc_lo, v16, v24
v_cmp_nlt_f32_e64 s6, v16, v24
v_cmp_nlt_f64 s6, v[16:17], v[24:25]
v_cmp_nlt_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_nlt_f64_e64 s6, v[16:17], v[24:25]
v_cmp_o_f16 s6, v16, v24
v_cmp_o_f16_e32 vcc_lo, v16, v24
v_cmp_o_f16_e64 s6, v16, v24
v_cmp_o_f32 s6, v16, v24
v_cmp_o_f32_e32 vcc_lo, v16, v24
v_cmp_o_f32_e64 s6, v16, v24
v_cmp_o_f64 s6, v[16:17], v[24:25]
v_cmp_o_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_o_f64_e64 s6, v[16:17], v[24:25]
v_cmp_t_f16_e32 vcc_lo, v2, v6
v_cmp_t_f16_e64 s4, v2, v6
v_cmp_t_f32_e32 vcc_lo, v2, v6
v_cmp_t_f32_e64 s4, v2, v6
v_cmp_t_f64_e32 vcc_lo, v[2:3], v[6:7]
v_cmp_t_f64_e64 s4, v[2:3], v[6:7]
v_cmp_t_i32_e32 vcc_lo, v2, v6
v_cmp_t_i32_e64 s4, v2, v6
v_cmp_t_i64_e32 vcc_lo, v[2:3], v[6:7]
v_cmp_t_i64_e64 s4, v[2:3], v[6:7]
v_cmp_t_u32_e32 vcc_lo, v2, v6
v_cmp_t_u32_e64 s4, v2, v6
v_cmp_t_u64_e32 vcc_lo, v[2:3], v[6:7]
v_cmp_t_u64_e64 s4, v[2:3], v[6:7]
v_cmp_u_f16 s6, v16, v24
v_cmp_u_f16_e32 vcc_lo, v16, v24
v_cmp_u_f16_e64 s6, v16, v24
v_cmp_u_f32 s6, v16, v24
v_cmp_u_f32_e32 vcc_lo, v16, v24
v_cmp_u_f32_e64 s6, v16, v24
v_cmp_u_f64 s6, v[16:17], v[24:25]
v_cmp_u_f64_e32 vcc_lo, v[16:17], v[24:25]
v_cmp_u_f64_e64 s6, v[16:17], v[24:25]
v_cmpx_class_f16 v16, v24
v_cmpx_class_f16_e32 v16, v24
v_cmpx_class_f16_e64 v16, v24
v_cmpx_class_f32 v16, v24
v_cmpx_class_f32_e32 v16, v24
v_cmpx_class_f32_e64 v16, v24
v_cmpx_class_f64 v[16:17], v24
v_cmpx_class_f64_e32 v[16:17], v24
v_cmpx_class_f64_e64 v[16:17], v24
v_cmpx_eq_f16 v16, v24
v_cmpx_eq_f16_e32 v16, v24
v_cmpx_eq_f16_e64 v16, v24
v_cmpx_eq_f32 v16, v24
v_cmpx_eq_f32_e32 v16, v24
v_cmpx_eq_f32_e64 v16, v24
v_cmpx_eq_f64 v[16:17], v[24:25]
v_cmpx_eq_f64_e32 v[16:17], v[24:25]
v_cmpx_eq_f64_e64 v[16:17], v[24:25]
v_cmpx_eq_i16 v16, v24
v_cmpx_eq_i16_e32 v16, v24
v_cmpx_eq_i16_e64 v16, v24
v_cmpx_eq_i32 v16, v24
v_cmpx_eq_i32_e32 v16, v24
v_cmpx_eq_i32_e64 v16, v24
v_cmpx_eq_i64 v[16:17], v[24:25]
v_cmpx_eq_i64_e32 v[16:17], v[24:25]
v_cmpx_eq_i64_e64 v[16:17], v[24:25]
v_cmpx_eq_u16 v16, v24
v_cmpx_eq_u16_e32 v16, v24
v_cmpx_eq_u16_e64 v16, v24
v_cmpx_eq_u32 v16, v24
v_cmpx_eq_u32_e32 v16, v24
v_cmpx_eq_u32_e64 v16, v24
v_cmpx_eq_u64 v[16:17], v[24:25]
v_cmpx_eq_u64_e32 v[16:17], v[24:25]
v_cmpx_eq_u64_e64 v[16:17], v[24:25]
v_cmpx_f_f16_e32 v2, v6
v_cmpx_f_f16_e64 v2, v6
v_cmpx_f_f32_e32 v2, v6
v_cmpx_f_f32_e64 v2, v6
v_cmpx_f_f64_e32 v[2:3], v[6:7]
v_cmpx_f_f64_e64 v[2:3], v[6:7]
v_cmpx_f_i32_e32 v2, v6
v_cmpx_f_i32_e64 v2, v6
v_cmpx_f_i64_e32 v[2:3], v[6:7]
v_cmpx_f_i64_e64 v[2:3], v[6:7]
v_cmpx_f_u32_e32 v2, v6
v_cmpx_f_u32_e64 v2, v6
v_cmpx_f_u64_e32 v[2:3], v[6:7]
v_cmpx_f_u64_e64 v[2:3], v[6:7]
v_cmpx_ge_f16 v16, v24
v_cmpx_ge_f16_e32 v16, v24
v_cmpx_ge_f16_e64 v16, v24
v_cmpx_ge_f32 v16, v24
v_cmpx_ge_f32_e32 v16, v24
v_cmpx_ge_f32_e64 v16, v24
v_cmpx_ge_f64 v[16:17], v[24:25]
v_cmpx_ge_f64_e32 v[16:17], v[24:25]
v_cmpx_ge_f64_e64 v[16:17], v[24:25]
v_cmpx_ge_i16 v16, v24
v_cmpx_ge_i16_e32 v16, v24
v_cmpx_ge_i16_e64 v16, v24
v_cmpx_ge_i32 v16, v24
v_cmpx_ge_i32_e32 v16, v24
v_cmpx_ge_i32_e64 v16, v24
v_cmpx_ge_i64 v[16:17], v[24:25]
v_cmpx_ge_i64_e32 v[16:17], v[24:25]
v_cmpx_ge_i64_e64 v[16:17], v[24:25]
v_cmpx_ge_u16 v16, v24
v_cmpx_ge_u16_e32 v16, v24
v_cmpx_ge_u16_e64 v16, v24
v_cmpx_ge_u32 v16, v24
v_cmpx_ge_u32_e32 v16, v24
v_cmpx_ge_u32_e64 v16, v24
v_cmpx_ge_u64 v[16:17], v[24:25]
v_cmpx_ge_u64_e32 v[16:17], v[24:25]
v_cmpx_ge_u64_e64 v[16:17], v[24:25]
v_cmpx_gt_f16 v16, v24
v_cmpx_gt_f16_e32 v16, v24
v_cmpx_gt_f16_e64 v16, v24
v_cmpx_gt_f32 v16, v24
v_cmpx_gt_f32_e32 v16, v24
v_cmpx_gt_f32_e64 v16, v24
v_cmpx_gt_f64 v[16:17], v[24:25]
v_cmpx_gt_f64_e32 v[16:17], v[24:25]
v_cmpx_gt_f64_e64 v[16:17], v[24:25]
v_cmpx_gt_i16 v16, v24
v_cmpx_gt_i16_e32 v16, v24
v_cmpx_gt_i16_e64 v16, v24
v_cmpx_gt_i32 v16, v24
v_cmpx_gt_i32_e32 v16, v24
v_cmpx_gt_i32_e64 v16, v24
v_cmpx_gt_i64 v[16:17], v[24:25]
v_cmpx_gt_i64_e32 v[16:17], v[24:25]
v_cmpx_gt_i64_e64 v[16:17], v[24:25]
v_cmpx_gt_u16 v16, v24
v_cmpx_gt_u16_e32 v16, v24
v_cmpx_gt_u16_e64 v16, v24
v_cmpx_gt_u32 v16, v24
v_cmpx_gt_u32_e32 v16, v24
v_cmpx_gt_u32_e64 v16, v24
v_cmpx_gt_u64 v[16:17], v[24:25]
v_cmpx_gt_u64_e32 v[16:17], v[24:25]
v_cmpx_gt_u64_e64 v[16:17], v[24:25]
v_cmpx_le_f16 v16, v24
v_cmpx_le_f16_e32 v16, v24
v_cmpx_le_f16_e64 v16, v24
v_cmpx_le_f32 v16, v24
v_cmpx_le_f32_e32 v16, v24
v_cmpx_le_f32_e64 v16, v24
v_cmpx_le_f64 v[16:17], v[24:25]
v_cmpx_le_f64_e32 v[16:17], v[24:25]
v_cmpx_le_f64_e64 v[16:17], v[24:25]
v_cmpx_le_i16 v16, v24
v_cmpx_le_i16_e32 v16, v24
v_cmpx_le_i16_e64 v16, v24
v_cmpx_le_i32 v16, v24
v_cmpx_le_i32_e32 v16, v24
v_cmpx_le_i32_e64 v16, v24
v_cmpx_le_i64 v[16:17], v[24:25]
v_cmpx_le_i64_e32 v[16:17], v[24:25]
v_cmpx_le_i64_e64 v[16:17], v[24:25]
v_cmpx_le_u16 v16, v24
v_cmpx_le_u16_e32 v16, v24
v_cmpx_le_u16_e64 v16, v24
v_cmpx_le_u32 v16, v24
v_cmpx_le_u32_e32 v16, v24
v_cmpx_le_u32_e64 v16, v24
v_cmpx_le_u64 v[16:17], v[24:25]
v_cmpx_le_u64_e32 v[16:17], v[24:25]
v_cmpx_le_u64_e64 v[16:17], v[24:25]
v_cmpx_lg_f16 v16, v24
v_cmpx_lg_f16_e32 v16, v24
v_cmpx_lg_f16_e64 v16, v24
v_cmpx_lg_f32 v16, v24
v_cmpx_lg_f32_e32 v16, v24
v_cmpx_lg_f32_e64 v16, v24
v_cmpx_lg_f64 v[16:17], v[24:25]
v_cmpx_lg_f64_e32 v[16:17], v[24:25]
v_cmpx_lg_f64_e64 v[16:17], v[24:25]
v_cmpx_lt_f16 v16, v24
v_cmpx_lt_f16_e32 v16, v24
v_cmpx_lt_f16_e64 v16, v24
v_cmpx_lt_f32 v16, v24
v_cmpx_lt_f32_e32 v0, v1
v_cmpx_lt_f32_e32 v16, v24
v_cmpx_lt_f32_e64 v0, -v1
v_cmpx_lt_f32_e64 v16, v24
v_cmpx_lt_f64 v[16:17], v[24:25]
v_cmpx_lt_f64_e32 v[16:17], v[24:25]
v_cmpx_lt_f64_e64 v[16:17], v[24:25]
v_cmpx_lt_i16 v16, v24
v_cmpx_lt_i16_e32 v16, v24
v_cmpx_lt_i16_e64 v16, v24
v_cmpx_lt_i32 v16, v24
v_cmpx_lt_i32_e32 v16, v24
v_cmpx_lt_i32_e64 v16, v24
v_cmpx_lt_i64 v[16:17], v[24:25]
v_cmpx_lt_i64_e32 v[16:17], v[24:25]
v_cmpx_lt_i64_e64 v[16:17], v[24:25]
v_cmpx_lt_u16 v16, v24
v_cmpx_lt_u16_e32 v16, v24
v_cmpx_lt_u16_e64 v16, v24
v_cmpx_lt_u32 v16, v24
v_cmpx_lt_u32_e32 v16, v24
v_cmpx_lt_u32_e64 v16, v24
v_cmpx_lt_u64 v[16:17], v[24:25]
v_cmpx_lt_u64_e32 v[16:17], v[24:25]
v_cmpx_lt_u64_e64 v[16:17], v[24:25]
v_cmpx_ne_i16 v16, v24
v_cmpx_ne_i16_e32 v16, v24
v_cmpx_ne_i16_e64 v16, v24
v_cmpx_ne_i32 v16, v24
v_cmpx_ne_i32_e32 v16, v24
v_cmpx_ne_i32_e64 v16, v24
v_cmpx_ne_i64 v[16:17], v[24:25]
v_cmpx_ne_i64_e32 v[16:17], v[24:25]
v_cmpx_ne_i64_e64 v[16:17], v[24:25]
v_cmpx_ne_u16 v16, v24
v_cmpx_ne_u16_e32 v16, v24
v_cmpx_ne_u16_e64 v16, v24
v_cmpx_ne_u32 v16, v24
v_cmpx_ne_u32_e32 v16, v24
v_cmpx_ne_u32_e64 v16, v24
v_cmpx_ne_u64 v[16:17], v[24:25]
v_cmpx_ne_u64_e32 v[16:17], v[24:25]
v_cmpx_ne_u64_e64 v[16:17], v[24:25]
v_cmpx_neq_f16 v16, v24
v_cmpx_neq_f16_e32 v16, v24
v_cmpx_neq_f16_e64 v16, v24
v_cmpx_neq_f32 v16, v24
v_cmpx_neq_f32_e32 v16, v24
v_cmpx_neq_f32_e64 v16, v24
v_cmpx_neq_f64 v[16:17], v[24:25]
v_cmpx_neq_f64_e32 v[16:17], v[24:25]
v_cmpx_neq_f64_e64 v[16:17], v[24:25]
v_cmpx_nge_f16 v16, v24
v_cmpx_nge_f16_e32 v16, v24
v_cmpx_nge_f16_e64 v16, v24
v_cmpx_nge_f32 v16, v24
v_cmpx_nge_f32_e32 v16, v24
v_cmpx_nge_f32_e64 v16, v24
v_cmpx_nge_f64 v[16:17], v[24:25]
v_cmpx_nge_f64_e32 v[16:17], v[24:25]
v_cmpx_nge_f64_e64 v[16:17], v[24:25]
v_cmpx_ngt_f16 v16, v24
v_cmpx_ngt_f16_e32 v16, v24
v_cmpx_ngt_f16_e64 v16, v24
v_cmpx_ngt_f32 v16, v24
v_cmpx_ngt_f32_e32 v16, v24
v_cmpx_ngt_f32_e64 v16, v24
v_cmpx_ngt_f64 v[16:17], v[24:25]
v_cmpx_ngt_f64_e32 v[16:17], v[24:25]
v_cmpx_ngt_f64_e64 v[16:17], v[24:25]
v_cmpx_nle_f16 v16, v24
v_cmpx_nle_f16_e32 v16, v24
v_cmpx_nle_f16_e64 v16, v24
v_cmpx_nle_f32 v16, v24
v_cmpx_nle_f32_e32 v16, v24
v_cmpx_nle_f32_e64 v16, v24
v_cmpx_nle_f64 v[16:17], v[24:25]
v_cmpx_nle_f64_e32 v[16:17], v[24:25]
v_cmpx_nle_f64_e64 v[16:17], v[24:25]
v_cmpx_nlg_f16 v16, v24
v_cmpx_nlg_f16_e32 v16, v24
v_cmpx_nlg_f16_e64 v16, v24
v_cmpx_nlg_f32 v16, v24
v_cmpx_nlg_f32_e32 v16, v24
v_cmpx_nlg_f32_e64 v16, v24
v_cmpx_nlg_f64 v[16:17], v[24:25]
v_cmpx_nlg_f64_e32 v[16:17], v[24:25]
v_cmpx_nlg_f64_e64 v[16:17], v[24:25]
v_cmpx_nlt_f16 v16, v24
v_cmpx_nlt_f16_e32 v16, v24
v_cmpx_nlt_f16_e64 v16, v24
v_cmpx_nlt_f32 v16, v24
v_cmpx_nlt_f32_e32 v16, v24
v_cmpx_nlt_f32_e64 v16, v24
v_cmpx_nlt_f64 v[16:17], v[24:25]
v_cmpx_nlt_f64_e32 v[16:17], v[24:25]
v_cmpx_nlt_f64_e64 v[16:17], v[24:25]
v_cmpx_o_f16 v16, v24
v_cmpx_o_f16_e32 v16, v24
v_cmpx_o_f16_e64 v16, v24
v_cmpx_o_f32 v16, v24
v_cmpx_o_f32_e32 v16, v24
v_cmpx_o_f32_e64 v16, v24
v_cmpx_o_f64 v[16:17], v[24:25]
v_cmpx_o_f64_e32 v[16:17], v[24:25]
v_cmpx_o_f64_e64 v[16:17], v[24:25]
v_cmpx_t_f16_e32 v2, v6
v_cmpx_t_f16_e64 v2, v6
v_cmpx_t_f32_e32 v2, v6
v_cmpx_t_f32_e64 v2, v6
v_cmpx_t_f64_e32 v[2:3], v[6:7]
v_cmpx_t_f64_e64 v[2:3], v[6:7]
v_cmpx_t_i32_e32 v2, v6
v_cmpx_t_i32_e64 v2, v6
v_cmpx_t_i64_e32 v[2:3], v[6:7]
v_cmpx_t_i64_e64 v[2:3], v[6:7]
v_cmpx_t_u32_e32 v2, v6
v_cmpx_t_u32_e64 v2, v6
v_cmpx_t_u64_e32 v[2:3], v[6:7]
v_cmpx_t_u64_e64 v[2:3], v[6:7]
v_cmpx_u_f16 v16, v24
v_cmpx_u_f16_e32 v16, v24
v_cmpx_u_f16_e64 v16, v24
v_cmpx_u_f32 v16, v24
v_cmpx_u_f32_e32 v16, v24
v_cmpx_u_f32_e64 v16, v24
v_cmpx_u_f64 v[16:17], v[24:25]
v_cmpx_u_f64_e32 v[16:17], v[24:25]
v_cmpx_u_f64_e64 v[16:17], v[24:25]
v_cndmask_b16 v16, v24, v32, s6
v_cndmask_b16_e64 v16, v24, v32, s6
v_cndmask_b32 v16, v24, v32, s6
v_cndmask_b32_dpp v16, v24, v32, vcc_lo row_shr:1 row_mask:0xf bank_mask:0xf
v_cndmask_b32_e32 v16, v24, v32, vcc_lo
v_cndmask_b32_e64 v0, -v1, |v2|, s2
v_cndmask_b32_e64 v16, v24, v32, s6
v_cos_f16_e32 v4, v2
v_cos_f16_e64 v4, v2
v_cos_f32 v16, v24
v_cos_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cos_f32_e32 v16, v24
v_cos_f32_e64 v16, v24
v_ctz_i32_b32 v16, v24
v_ctz_i32_b32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_ctz_i32_b32_e32 v16, v24
v_ctz_i32_b32_e64 v16, v24
v_cubeid_f32 v4, v2, v6, v8
v_cubema_f32 v4, v2, v6, v8
v_cubesc_f32 v4, v2, v6, v8
v_cubetc_f32 v4, v2, v6, v8
v_cvt_f16_f32 v16, v24
v_cvt_f16_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_f16_f32_e32 v16, v24
v_cvt_f16_f32_e64 v16, v24
v_cvt_f16_i16 v16, v24
v_cvt_f16_i16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_f16_i16_e32 v16, v24
v_cvt_f16_i16_e64 v16, v24
v_cvt_f16_u16 v16, v24
v_cvt_f16_u16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_f16_u16_e32 v16, v24
v_cvt_f16_u16_e64 v16, v24
v_cvt_f32_f16 v16, v24
v_cvt_f32_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_f32_f16_e32 v16, v24
v_cvt_f32_f16_e64 v16, v24
v_cvt_f32_f64 v16, v[24:25]
v_cvt_f32_f64_e32 v16, v[24:25]
v_cvt_f32_f64_e64 v16, v[24:25]
v_cvt_f32_i32 v16, v24
v_cvt_f32_i32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_f32_i32_e32 v16, v24
v_cvt_f32_i32_e64 v16, v24
v_cvt_f32_u32 v16, v24
v_cvt_f32_u32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_f32_u32_e32 v16, v24
v_cvt_f32_u32_e64 v16, v24
v_cvt_f32_ubyte0 v16, v24
v_cvt_f32_ubyte0_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_f32_ubyte0_e32 v16, v24
v_cvt_f32_ubyte0_e64 v16, v24
v_cvt_f32_ubyte1 v16, v24
v_cvt_f32_ubyte1_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_f32_ubyte1_e32 v16, v24
v_cvt_f32_ubyte1_e64 v16, v24
v_cvt_f32_ubyte2 v16, v24
v_cvt_f32_ubyte2_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_f32_ubyte2_e32 v16, v24
v_cvt_f32_ubyte2_e64 v16, v24
v_cvt_f32_ubyte3 v16, v24
v_cvt_f32_ubyte3_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_f32_ubyte3_e32 v16, v24
v_cvt_f32_ubyte3_e64 v16, v24
v_cvt_f64_f32 v[16:17], v24
v_cvt_f64_f32_e32 v[16:17], v24
v_cvt_f64_f32_e64 v[16:17], v24
v_cvt_f64_i32 v[16:17], v24
v_cvt_f64_i32_e32 v[16:17], v24
v_cvt_f64_i32_e64 v[16:17], v24
v_cvt_f64_u32 v[16:17], v24
v_cvt_f64_u32_e32 v[16:17], v24
v_cvt_f64_u32_e64 v[16:17], v24
v_cvt_floor_i32_f32_e32 v4, v2
v_cvt_floor_i32_f32_e64 v4, v2
v_cvt_i16_f16 v16, v24
v_cvt_i16_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_i16_f16_e32 v16, v24
v_cvt_i16_f16_e64 v16, v24
v_cvt_i32_f32 v16, v24
v_cvt_i32_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_i32_f32_e32 v16, v24
v_cvt_i32_f32_e64 v16, v24
v_cvt_i32_f64 v16, v[24:25]
v_cvt_i32_f64_e32 v16, v[24:25]
v_cvt_i32_f64_e64 v16, v[24:25]
v_cvt_i32_i16 v16, v24
v_cvt_i32_i16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_i32_i16_e32 v16, v24
v_cvt_i32_i16_e64 v16, v24
v_cvt_nearest_i32_f32_e32 v4, v2
v_cvt_nearest_i32_f32_e64 v4, v2
v_cvt_norm_i16_f16_e32 v4, v2
v_cvt_norm_i16_f16_e64 v4, v2
v_cvt_norm_u16_f16_e32 v4, v2
v_cvt_norm_u16_f16_e64 v4, v2
v_cvt_off_f32_i4_e32 v4, v2
v_cvt_off_f32_i4_e64 v4, v2
v_cvt_pk_i16_f32 v4, v2, v6
v_cvt_pk_i16_i32 v4, v2, v6
v_cvt_pk_norm_i16_f16 v4, v2, v6
v_cvt_pk_norm_i16_f32 v4, v2, v6
v_cvt_pk_norm_u16_f16 v4, v2, v6
v_cvt_pk_norm_u16_f32 v4, v2, v6
v_cvt_pk_rtz_f16_f32_e32 v4, v2, v6
v_cvt_pk_rtz_f16_f32_e64 v4, v2, v6
v_cvt_pk_u16_f32 v4, v2, v6
v_cvt_pk_u16_u32 v4, v2, v6
v_cvt_pk_u8_f32 v4, v2, v6, v8
v_cvt_u16_f16 v16, v24
v_cvt_u16_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_u16_f16_e32 v16, v24
v_cvt_u16_f16_e64 v16, v24
v_cvt_u32_f32 v16, v24
v_cvt_u32_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_u32_f32_e32 v16, v24
v_cvt_u32_f32_e64 v16, v24
v_cvt_u32_f64 v16, v[24:25]
v_cvt_u32_f64_e32 v16, v[24:25]
v_cvt_u32_f64_e64 v16, v[24:25]
v_cvt_u32_u16 v16, v24
v_cvt_u32_u16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_cvt_u32_u16_e32 v16, v24
v_cvt_u32_u16_e64 v16, v24
v_div_fixup_f16 v16, v24, v32, v40
v_div_fixup_f32 v16, v24, v32, v40
v_div_fixup_f32_e64 v16, v24, v32, v40
v_div_fixup_f64 v[4:5], v[2:3], v[6:7], v[8:9]
v_div_fmas_f32 v0, v1, v2, -v3
v_div_fmas_f32 v16, v24, v32, v40
v_div_fmas_f32_e64 v16, v24, v32, v40
v_div_fmas_f64 v[4:5], v[2:3], v[6:7], v[8:9]
v_div_scale_f32 v16, s6, v24, v32, v40
v_div_scale_f32_e64 v16, s6, v24, v32, v40
v_div_scale_f64 v[4:5], s0, v[2:3], v[6:7], v[8:9]
v_dot2_bf16_bf16 v4, v2, v6, v8
v_dot2_f16_f16 v4, v2, v6, v8
v_dot2_f16_f16 v4, v2, v6, v8 op_sel:[0,0,1,1]
v_dot2_f32_bf16 v16, v2, v6, v8
v_dot2_f32_f16 v16, v2, v6, v8
v_dot2_f32_f16 v16, v2, v6, v8 op_sel:[1,0,0] neg_lo:[1,0,0] clamp
v_dot2acc_f32_f16 v4, v2, v6
v_dot4_i32_iu8 v0, v1, v2, v3 neg_lo:[1,1,0] clamp
v_dot4_i32_iu8 v16, v24, v32, v40
v_dot4_i32_iu8_e64 v16, v24, v32, v40
v_dot4_u32_u8 v16, v2, v6, v8
v_dot8_i32_iu4 v16, v2, v6, v8
v_dot8_i32_iu4 v16, v2, v6, v8 neg_lo:[1,1,0] clamp
v_dot8_u32_u4 v16, v2, v6, v8
v_dual_add_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5
v_dual_cndmask_b32 v0, v1, v2 :: v_dual_mov_b32 v1, v3
v_dual_cndmask_b32 v1, v2, v3 :: v_dual_mov_b32 v4, v5
v_dual_dot2acc_f32_f16 v9, v2, v6 :: v_dual_fmac_f32 v8, v3, v7
v_dual_fmaak_f32 v0, v1, v2, 0x12345 :: v_dual_fmamk_f32 v1, v3, 0x12345, v4
v_dual_fmaak_f32 v1, v2, v3, 0x1234567 :: v_dual_mov_b32 v4, v5
v_dual_fmac_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5
v_dual_fmamk_f32 v1, v2, 0x1234567, v3 :: v_dual_mov_b32 v4, v5
v_dual_max_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5
v_dual_min_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5
v_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v4, v5
v_dual_mul_dx9_zero_f32 v9, v2, v6 :: v_dual_fmac_f32 v8, v3, v7
v_dual_mul_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5
v_dual_sub_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5
v_dual_subrev_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5
v_exp_f16 v16, v24
v_exp_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_exp_f16_e32 v16, v24
v_exp_f16_e64 v16, v24
v_exp_f32 v16, v24
v_exp_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_exp_f32_e32 v16, v24
v_exp_f32_e64 v16, v24
v_floor_f16 v16, v24
v_floor_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_floor_f16_e32 v16, v24
v_floor_f16_e64 v16, v24
v_floor_f32 v16, v24
v_floor_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_floor_f32_e32 v16, v24
v_floor_f32_e64 v16, v24
v_floor_f64 v[16:17], v[24:25]
v_floor_f64_e32 v[16:17], v[24:25]
v_floor_f64_e64 v[16:17], v[24:25]
v_fma_dx9_zero_f32 v4, v2, v6, v8
v_fma_f16 v16, v24, v32, v40
v_fma_f16_e64 v16, v24, v32, v40
v_fma_f32 v16, v24, v32, v40
v_fma_f32_e64 v16, v24, v32, v40
v_fma_f64 v[16:17], v[24:25], v[32:33], v[40:41]
v_fma_f64_e64 v[16:17], v[24:25], v[32:33], v[40:41]
v_fma_mix_f32 v0, -v1, |v2|, v3 op_sel:[1,0,0] op_sel_hi:[1,1,0] clamp
v_fma_mix_f32 v16, v24, v32, v40
v_fma_mix_f32_e64 v16, v24, v32, v40
v_fma_mixhi_f16 v16, v24, v32, v40
v_fma_mixhi_f16_e64 v16, v24, v32, v40
v_fma_mixlo_f16 v0, v1, v2, v3 op_sel_hi:[1,1,0]
v_fma_mixlo_f16 v16, v24, v32, v40
v_fma_mixlo_f16_e64 v16, v24, v32, v40
v_fmaak_f16 v4, v2, v6, 0x1234
v_fmaak_f32 v16, v24, v32, 0x1234567
v_fmaak_f32_e32 v16, v24, v32, 0x1234567
v_fmac_dx9_zero_f32_e32 v4, v2, v6
v_fmac_dx9_zero_f32_e64 v4, v2, v6
v_fmac_f16 v16, v24, v32
v_fmac_f16_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_fmac_f16_e32 v16, v24, v32
v_fmac_f16_e64 v16, v24, v32
v_fmac_f32 v16, v24, v32
v_fmac_f32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_fmac_f32_e32 v16, v24, v32
v_fmac_f32_e64 v16, v24, v32
v_fmamk_f16 v4, v2, 0x1234, v6
v_fmamk_f32 v16, v24, 0x1234567, v32
v_fmamk_f32_e32 v16, v24, 0x1234567, v32
v_fract_f16_e32 v4, v2
v_fract_f16_e64 v4, v2
v_fract_f32 v16, v24
v_fract_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_fract_f32_e32 v16, v24
v_fract_f32_e64 v16, v24
v_fract_f64_e32 v[4:5], v[2:3]
v_fract_f64_e64 v[4:5], v[2:3]
v_frexp_exp_i16_f16_e32 v4, v2
v_frexp_exp_i16_f16_e64 v4, v2
v_frexp_exp_i32_f32 v16, v24
v_frexp_exp_i32_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_frexp_exp_i32_f32_e32 v16, v24
v_frexp_exp_i32_f32_e64 v16, v24
v_frexp_exp_i32_f64 v16, v[24:25]
v_frexp_exp_i32_f64_e32 v16, v[24:25]
v_frexp_exp_i32_f64_e64 v16, v[24:25]
v_frexp_mant_f16_e32 v4, v2
v_frexp_mant_f16_e64 v4, v2
v_frexp_mant_f32 v16, v24
v_frexp_mant_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_frexp_mant_f32_e32 v16, v24
v_frexp_mant_f32_e64 v16, v24
v_frexp_mant_f64_e32 v[4:5], v[2:3]
v_frexp_mant_f64_e64 v[4:5], v[2:3]
v_ldexp_f16 v16, v24, v32
v_ldexp_f16_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_ldexp_f16_e32 v16, v24, v32
v_ldexp_f16_e64 v16, v24, v32
v_ldexp_f32 v0, v1, -3
v_ldexp_f32 v16, v24, v32
v_ldexp_f32_e64 v16, v24, v32
v_ldexp_f64 v[16:17], v[24:25], v32
v_ldexp_f64_e64 v[16:17], v[24:25], v32
v_lerp_u8 v4, v2, v6, v8
v_log_f16 v16, v24
v_log_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_log_f16_e32 v16, v24
v_log_f16_e64 v16, v24
v_log_f32 v16, v24
v_log_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_log_f32_e32 v16, v24
v_log_f32_e64 v16, v24
v_lshl_add_u32 v16, v24, v32, v40
v_lshl_add_u32_e64 v16, v24, v32, v40
v_lshl_or_b32 v16, v24, v32, v40
v_lshl_or_b32_e64 v16, v24, v32, v40
v_lshlrev_b16 v16, v24, v32
v_lshlrev_b16_e64 v16, v24, v32
v_lshlrev_b32 v16, v24, v32
v_lshlrev_b32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_lshlrev_b32_e32 v16, v24, v32
v_lshlrev_b32_e64 v16, v24, v32
v_lshlrev_b64 v[0:1], 3, 0x12345678
v_lshlrev_b64 v[16:17], v24, v[32:33]
v_lshlrev_b64_e64 v[16:17], v24, v[32:33]
v_lshrrev_b16 v16, v24, v32
v_lshrrev_b16_e64 v16, v24, v32
v_lshrrev_b32 v16, v24, v32
v_lshrrev_b32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_lshrrev_b32_e32 v16, v24, v32
v_lshrrev_b32_e64 v16, v24, v32
v_lshrrev_b64 v[16:17], v24, v[32:33]
v_lshrrev_b64_e64 v[16:17], v24, v[32:33]
v_mad_i16 v4, v2, v6, v8
v_mad_i32_i16 v4, v2, v6, v8
v_mad_i32_i24 v16, v24, v32, v40
v_mad_i32_i24_e64 v16, v24, v32, v40
v_mad_i64_i32 v[16:17], s6, v24, v32, v[40:41]
v_mad_i64_i32_e64 v[16:17], s6, v24, v32, v[40:41]
v_mad_u16 v16, v24, v32, v40
v_mad_u16_e64 v16, v24, v32, v40
v_mad_u32_u16 v4, v2, v6, v8
v_mad_u32_u24 v16, v24, v32, v40
v_mad_u32_u24_e64 v16, v24, v32, v40
v_mad_u64_u32 v[0:1], null, v1, s2, 0
v_mad_u64_u32 v[16:17], s6, v24, v32, v[40:41]
v_mad_u64_u32 v[4:5], s0, v2, v6, v[8:9] clamp
v_mad_u64_u32_e64 v[16:17], s6, v24, v32, v[40:41]
v_max3_f16 v0, v1, v2, v3 op_sel:[0,1,0,1]
v_max3_f16 v16, v24, v32, v40
v_max3_f16_e64 v16, v24, v32, v40
v_max3_f32 v16, v24, v32, v40
v_max3_f32_e64 v16, v24, v32, v40
v_max3_i16 v4, v2, v6, v8
v_max3_i32 v16, v24, v32, v40
v_max3_i32_e64 v16, v24, v32, v40
v_max3_u16 v4, v2, v6, v8
v_max3_u32 v16, v24, v32, v40
v_max3_u32_e64 v16, v24, v32, v40
v_max_f16 v16, v24, v32
v_max_f16_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_max_f16_e32 v16, v24, v32
v_max_f16_e64 v16, v24, v32
v_max_f32 v16, v24, v32
v_max_f32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_max_f32_e32 v16, v24, v32
v_max_f32_e64 v16, v24, v32
v_max_f64 v[16:17], v[24:25], v[32:33]
v_max_f64_e64 v[16:17], v[24:25], v[32:33]
v_max_i16 v16, v24, v32
v_max_i16_e64 v16, v24, v32
v_max_i32 v16, v24, v32
v_max_i32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_max_i32_e32 v16, v24, v32
v_max_i32_e64 v16, v24, v32
v_max_u16 v16, v24, v32
v_max_u16_e64 v16, v24, v32
v_max_u32 v16, v24, v32
v_max_u32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_max_u32_e32 v16, v24, v32
v_max_u32_e64 v16, v24, v32
v_maxmin_f16 v4, v2, v6, v8
v_maxmin_f32 v16, v24, v32, v40
v_maxmin_f32_e64 v16, v24, v32, v40
v_maxmin_i32 v16, v24, v32, v40
v_maxmin_i32_e64 v16, v24, v32, v40
v_maxmin_u32 v16, v24, v32, v40
v_maxmin_u32_e64 v16, v24, v32, v40
v_mbcnt_hi_u32_b32 v16, v24, v32
v_mbcnt_hi_u32_b32_e64 v16, v24, v32
v_mbcnt_lo_u32_b32 v16, v24, v32
v_mbcnt_lo_u32_b32_e64 v16, v24, v32
v_med3_f16 v4, v2, v6, v8
v_med3_f32 v16, v24, v32, v40
v_med3_f32_e64 v16, v24, v32, v40
v_med3_i16 v4, v2, v6, v8
v_med3_i32 v16, v24, v32, v40
v_med3_i32_e64 v16, v24, v32, v40
v_med3_u16 v4, v2, v6, v8
v_med3_u32 v16, v24, v32, v40
v_med3_u32_e64 v16, v24, v32, v40
v_min3_f16 v16, v24, v32, v40
v_min3_f16_e64 v16, v24, v32, v40
v_min3_f32 v16, v24, v32, v40
v_min3_f32_e64 v16, v24, v32, v40
v_min3_i16 v4, v2, v6, v8
v_min3_i16 v4, v2, v6, v8 op_sel:[1,0,1,1]
v_min3_i32 v16, v24, v32, v40
v_min3_i32_e64 v16, v24, v32, v40
v_min3_u16 v4, v2, v6, v8
v_min3_u32 v16, v24, v32, v40
v_min3_u32_e64 v16, v24, v32, v40
v_min_f16 v16, v24, v32
v_min_f16_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_min_f16_e32 v16, v24, v32
v_min_f16_e64 v16, v24, v32
v_min_f32 v16, v24, v32
v_min_f32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_min_f32_e32 v16, v24, v32
v_min_f32_e64 v16, v24, v32
v_min_f64 v[16:17], v[24:25], v[32:33]
v_min_f64_e64 v[16:17], v[24:25], v[32:33]
v_min_i16 v16, v24, v32
v_min_i16_e64 v16, v24, v32
v_min_i32 v16, v24, v32
v_min_i32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_min_i32_e32 v16, v24, v32
v_min_i32_e64 v16, v24, v32
v_min_u16 v16, v24, v32
v_min_u16_e64 v16, v24, v32
v_min_u32 v16, v24, v32
v_min_u32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_min_u32_e32 v16, v24, v32
v_min_u32_e64 v16, v24, v32
v_minmax_f16 v4, v2, v6, v8
v_minmax_f32 v16, v24, v32, v40
v_minmax_f32_e64 v16, v24, v32, v40
v_minmax_i32 v16, v24, v32, v40
v_minmax_i32_e64 v16, v24, v32, v40
v_minmax_u32 v16, v24, v32, v40
v_minmax_u32_e64 v16, v24, v32, v40
v_mov_b32 v16, v24
v_mov_b32_dpp v0, v1 dpp8:[7,6,5,4,3,2,1,0]
v_mov_b32_dpp v0, v1 dpp8:[7,6,5,4,3,2,1,0] fi:1
v_mov_b32_dpp v0, v1 row_half_mirror row_mask:0xf bank_mask:0xf
v_mov_b32_dpp v0, v1 row_mirror row_mask:0xf bank_mask:0xf
v_mov_b32_dpp v0, v1 row_ror:3 row_mask:0xf bank_mask:0xf
v_mov_b32_dpp v0, v1 row_share:3 row_mask:0xf bank_mask:0xf
v_mov_b32_dpp v0, v1 row_shl:1 row_mask:0xf bank_mask:0xf
v_mov_b32_dpp v0, v1 row_shr:3 row_mask:0xf bank_mask:0xf
v_mov_b32_dpp v0, v1 row_xmask:3 row_mask:0x5 bank_mask:0x3 bound_ctrl:1 fi:1
v_mov_b32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_mov_b32_e32 v0, src_shared_base
v_mov_b32_e32 v16, v24
v_mov_b32_e64 v16, v24
v_movreld_b32_e32 v4, v2
v_movreld_b32_e64 v4, v2
v_movrels_b32_e32 v4, v2
v_movrels_b32_e64 v4, v2
v_movrelsd_2_b32_e32 v4, v2
v_movrelsd_2_b32_e64 v4, v2
v_movrelsd_b32_e32 v4, v2
v_movrelsd_b32_e64 v4, v2
v_mqsad_pk_u16_u8 v[4:5], v[2:3], v6, v[8:9]
v_mqsad_u32_u8 v[4:7], v[2:3], v6, v[8:11]
v_msad_u8 v4, v2, v6, v8
v_mul_dx9_zero_f32_e32 v4, v2, v6
v_mul_dx9_zero_f32_e64 v4, v2, v6
v_mul_f16 v16, v24, v32
v_mul_f16_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_mul_f16_e32 v0, 0.15915494, v1
v_mul_f16_e32 v16, v24, v32
v_mul_f16_e64 v16, v24, v32
v_mul_f32 v16, v24, v32
v_mul_f32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_mul_f32_e32 v0, 0.15915494, v1
v_mul_f32_e32 v16, v24, v32
v_mul_f32_e64 v16, v24, v32
v_mul_f64 v[16:17], v[24:25], v[32:33]
v_mul_f64_e64 v[16:17], v[24:25], v[32:33]
v_mul_hi_i32 v16, v24, v32
v_mul_hi_i32_e64 v16, v24, v32
v_mul_hi_i32_i24_e32 v4, v2, v6
v_mul_hi_i32_i24_e64 v4, v2, v6
v_mul_hi_u32 v16, v24, v32
v_mul_hi_u32_e64 v16, v24, v32
v_mul_hi_u32_u24_e32 v4, v2, v6
v_mul_hi_u32_u24_e64 v4, v2, v6
v_mul_i32_i24 v16, v24, v32
v_mul_i32_i24_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_mul_i32_i24_e32 v16, v24, v32
v_mul_i32_i24_e64 v16, v24, v32
v_mul_lo_u16 v16, v24, v32
v_mul_lo_u16_e64 v16, v24, v32
v_mul_lo_u32 v16, v24, v32
v_mul_lo_u32_e64 v16, v24, v32
v_mul_u32_u24 v16, v24, v32
v_mul_u32_u24_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_mul_u32_u24_e32 v16, v24, v32
v_mul_u32_u24_e64 v16, v24, v32
v_mullit_f32 v4, v2, v6, v8
v_nop
v_not_b16 v16, v24
v_not_b16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_not_b16_e32 v16, v24
v_not_b16_e64 v16, v24
v_not_b32 v16, v24
v_not_b32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_not_b32_e32 v16, v24
v_not_b32_e64 v16, v24
v_or3_b32 v16, v24, v32, v40
v_or3_b32_e64 v16, v24, v32, v40
v_or_b16 v16, v24, v32
v_or_b16_e64 v16, v24, v32
v_or_b32 v16, v24, v32
v_or_b32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_or_b32_e32 v16, v24, v32
v_or_b32_e64 v16, v24, v32
v_pack_b32_f16 v16, v24, v32
v_pack_b32_f16_e64 v16, v24, v32
v_perm_b32 v16, v24, v32, v40
v_perm_b32_e64 v16, v24, v32, v40
v_permlane16_b32 v16, v24, s8, s8
v_permlane16_b32_e64 v16, v24, s8, s8
v_permlane64_b32 v4, v2
v_permlanex16_b32 v0, v1, s2, s3 op_sel:[1,0]
v_permlanex16_b32 v16, v24, s8, s8
v_permlanex16_b32_e64 v16, v24, s8, s8
v_pipeflush
v_pk_add_f16 v16, v24, v32
v_pk_add_f16_e64 v16, v24, v32
v_pk_add_i16 v16, v24, v32
v_pk_add_i16_e64 v16, v24, v32
v_pk_add_u16 v16, v24, v32
v_pk_add_u16_e64 v16, v24, v32
v_pk_ashrrev_i16 v16, v24, v32
v_pk_ashrrev_i16_e64 v16, v24, v32
v_pk_fma_f16 v16, v24, v32, v40
v_pk_fma_f16_e64 v16, v24, v32, v40
v_pk_fmac_f16 v4, v2, v6
v_pk_lshlrev_b16 v16, v24, v32
v_pk_lshlrev_b16_e64 v16, v24, v32
v_pk_lshrrev_b16 v16, v24, v32
v_pk_lshrrev_b16_e64 v16, v24, v32
v_pk_mad_i16 v16, v2, v6, v8
v_pk_mad_u16 v16, v24, v32, v40
v_pk_mad_u16_e64 v16, v24, v32, v40
v_pk_max_f16 v16, v24, v32
v_pk_max_f16_e64 v16, v24, v32
v_pk_max_i16 v16, v24, v32
v_pk_max_i16_e64 v16, v24, v32
v_pk_max_u16 v16, v24, v32
v_pk_max_u16_e64 v16, v24, v32
v_pk_min_f16 v16, v24, v32
v_pk_min_f16_e64 v16, v24, v32
v_pk_min_i16 v16, v24, v32
v_pk_min_i16_e64 v16, v24, v32
v_pk_min_u16 v16, v24, v32
v_pk_min_u16_e64 v16, v24, v32
v_pk_mul_f16 v0, v1, 1.0 op_sel_hi:[1,0]
v_pk_mul_f16 v0, v1, v2 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0] neg_hi:[0,1] clamp
v_pk_mul_f16 v16, v24, v32
v_pk_mul_f16_e64 v16, v24, v32
v_pk_mul_lo_u16 v16, v24, v32
v_pk_mul_lo_u16_e64 v16, v24, v32
v_pk_sub_i16 v16, v24, v32
v_pk_sub_i16_e64 v16, v24, v32
v_pk_sub_u16 v16, v24, v32
v_pk_sub_u16_e64 v16, v24, v32
v_qsad_pk_u16_u8 v[4:5], v[2:3], v6, v[8:9]
v_rcp_f16 v16, v24
v_rcp_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_rcp_f16_e32 v16, v24
v_rcp_f16_e64 v16, v24
v_rcp_f32 v16, v24
v_rcp_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_rcp_f32_e32 v16, v24
v_rcp_f32_e64 v16, v24
v_rcp_f64_e32 v[4:5], v[2:3]
v_rcp_f64_e64 v[4:5], v[2:3]
v_rcp_iflag_f32 v16, v24
v_rcp_iflag_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_rcp_iflag_f32_e32 v16, v24
v_rcp_iflag_f32_e64 v16, v24
v_readfirstlane_b32 s8, v16
v_readfirstlane_b32 vcc_lo, v1
v_readfirstlane_b32_e32 s8, v16
v_readlane_b32 s0, v1, m0
v_readlane_b32 s8, v16, s8
v_readlane_b32_e32 s8, v16, s8
v_rndne_f16 v16, v24
v_rndne_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_rndne_f16_e32 v16, v24
v_rndne_f16_e64 v16, v24
v_rndne_f32 v16, v24
v_rndne_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_rndne_f32_e32 v16, v24
v_rndne_f32_e64 v16, v24
v_rndne_f64 v[16:17], v[24:25]
v_rndne_f64_e32 v[16:17], v[24:25]
v_rndne_f64_e64 v[16:17], v[24:25]
v_rsq_f16 v16, v24
v_rsq_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_rsq_f16_e32 v16, v24
v_rsq_f16_e64 v16, v24
v_rsq_f32 v16, v24
v_rsq_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_rsq_f32_e32 v16, v24
v_rsq_f32_e64 v16, v24
v_rsq_f64_e32 v[4:5], v[2:3]
v_rsq_f64_e64 v[4:5], v[2:3]
v_sad_hi_u8 v4, v2, v6, v8
v_sad_u16 v4, v2, v6, v8
v_sad_u32 v4, v2, v6, v8
v_sad_u8 v4, v2, v6, v8
v_sat_pk_u8_i16_e32 v4, v2
v_sat_pk_u8_i16_e64 v4, v2
v_sin_f16_e32 v4, v2
v_sin_f16_e64 v4, v2
v_sin_f32 v16, v24
v_sin_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_sin_f32_e32 v16, v24
v_sin_f32_e64 v16, v24
v_sqrt_f16 v16, v24
v_sqrt_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_sqrt_f16_e32 v16, v24
v_sqrt_f16_e64 v16, v24
v_sqrt_f32 v16, v24
v_sqrt_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_sqrt_f32_e32 v16, v24
v_sqrt_f32_e64 v16, v24
v_sqrt_f64_e32 v[4:5], v[2:3]
v_sqrt_f64_e64 v[4:5], v[2:3]
v_sub_co_ci_u32 v16, s6, v24, v32, s6
v_sub_co_ci_u32_dpp v16, vcc_lo, v24, v32, vcc_lo row_shr:1 row_mask:0xf bank_mask:0xf
v_sub_co_ci_u32_e32 v16, vcc_lo, v24, v32, vcc_lo
v_sub_co_ci_u32_e64 v16, s6, v24, v32, s6
v_sub_co_u32 v16, s6, v24, v32
v_sub_co_u32_e64 v16, s6, v24, v32
v_sub_f16 v16, v24, v32
v_sub_f16_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_sub_f16_e32 v16, v24, v32
v_sub_f16_e64 v16, v24, v32
v_sub_f32 v16, v24, v32
v_sub_f32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_sub_f32_e32 v16, v24, v32
v_sub_f32_e64 v16, v24, v32
v_sub_nc_i16 v16, v24, v32
v_sub_nc_i16_e64 v16, v24, v32
v_sub_nc_i32 v16, v24, v32
v_sub_nc_i32_e64 v16, v24, v32
v_sub_nc_u16 v16, v24, v32
v_sub_nc_u16_e64 v16, v24, v32
v_sub_nc_u32 v16, v24, v32
v_sub_nc_u32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_sub_nc_u32_e32 v16, v24, v32
v_sub_nc_u32_e64 v16, v24, v32
v_subrev_co_ci_u32 v16, s6, v24, v32, s6
v_subrev_co_ci_u32_dpp v16, vcc_lo, v24, v32, vcc_lo row_shr:1 row_mask:0xf bank_mask:0xf
v_subrev_co_ci_u32_e32 v16, vcc_lo, v24, v32, vcc_lo
v_subrev_co_ci_u32_e64 v16, s6, v24, v32, s6
v_subrev_co_u32 v16, s6, v24, v32
v_subrev_co_u32_e64 v16, s6, v24, v32
v_subrev_f16 v16, v24, v32
v_subrev_f16_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_subrev_f16_e32 v16, v24, v32
v_subrev_f16_e64 v16, v24, v32
v_subrev_f32 v16, v24, v32
v_subrev_f32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_subrev_f32_e32 v16, v24, v32
v_subrev_f32_e64 v16, v24, v32
v_subrev_nc_u32 v16, v24, v32
v_subrev_nc_u32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_subrev_nc_u32_e32 v16, v24, v32
v_subrev_nc_u32_e64 v16, v24, v32
v_swap_b32 v4, v2
v_swaprel_b32 v4, v2
v_trig_preop_f64 v[4:5], v[2:3], v6
v_trunc_f16 v16, v24
v_trunc_f16_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_trunc_f16_e32 v16, v24
v_trunc_f16_e64 v16, v24
v_trunc_f32 v16, v24
v_trunc_f32_dpp v16, v24 row_shr:1 row_mask:0xf bank_mask:0xf
v_trunc_f32_e32 v16, v24
v_trunc_f32_e64 v16, v24
v_trunc_f64 v[16:17], v[24:25]
v_trunc_f64_e32 v[16:17], v[24:25]
v_trunc_f64_e64 v[16:17], v[24:25]
v_wmma_bf16_16x16x16_bf16 v[16:23], v[24:31], v[32:39], v[40:47]
v_wmma_bf16_16x16x16_bf16_e64 v[16:23], v[24:31], v[32:39], v[40:47]
v_wmma_f16_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7] op_sel:[0,0,1]
v_wmma_f16_16x16x16_f16 v[16:23], v[24:31], v[32:39], v[40:47]
v_wmma_f16_16x16x16_f16_e64 v[16:23], v[24:31], v[32:39], v[40:47]
v_wmma_f32_16x16x16_bf16 v[16:23], v[24:31], v[32:39], v[40:47]
v_wmma_f32_16x16x16_bf16_e64 v[16:23], v[24:31], v[32:39], v[40:47]
v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], 1.0
v_wmma_f32_16x16x16_f16 v[16:23], v[24:31], v[32:39], v[40:47]
v_wmma_f32_16x16x16_f16_e64 v[16:23], v[24:31], v[32:39], v[40:47]
v_wmma_i32_16x16x16_iu4 v[16:23], v[2:3], v[6:7], v[8:15]
v_wmma_i32_16x16x16_iu8 v[16:23], v[24:27], v[32:35], v[40:47]
v_wmma_i32_16x16x16_iu8_e64 v[16:23], v[24:27], v[32:35], v[40:47]
v_writelane_b32 v0, s1, 3
v_writelane_b32 v16, s8, s8
v_writelane_b32_e32 v16, s8, s8
v_xad_u32 v16, v24, v32, v40
v_xad_u32_e64 v16, v24, v32, v40
v_xnor_b32 v16, v24, v32
v_xnor_b32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_xnor_b32_e32 v16, v24, v32
v_xnor_b32_e64 v16, v24, v32
v_xor3_b32 v16, v24, v32, v40
v_xor3_b32_e64 v16, v24, v32, v40
v_xor_b16 v16, v24, v32
v_xor_b16_e64 v16, v24, v32
v_xor_b32 v16, v24, v32
v_xor_b32_dpp v16, v24, v32 row_shr:1 row_mask:0xf bank_mask:0xf
v_xor_b32_e32 v16, v24, v32
v_xor_b32_e64 v16, v24, v32
