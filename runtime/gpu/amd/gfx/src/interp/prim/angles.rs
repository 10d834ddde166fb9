//! Steps of trigonometric functions of large angles, and of cube maps.

use vireo_simt::prim::{Float, ldexp};

/// The first 1201 bits of two over pi, highest first, and zeros.
const TWO_OVER_PI: [u64; 19] = [
    0xA2F9_836E_4E44_1529,
    0xFC27_57D1_F534_DDC0,
    0xDB62_9599_3C43_9041,
    0xFE51_63AB_DEBB_C561,
    0xB724_6E3A_424D_D2E0,
    0x0649_2EEA_09D1_921C,
    0xFE1D_EB1C_B129_A73E,
    0xE882_35F5_2EBB_4484,
    0xE99C_7026_B45F_7E41,
    0x3991_D639_8353_39F4,
    0x9C84_5F8B_BDF9_283B,
    0x1FF8_97FF_DE05_980F,
    0xEF2F_118B_5A0A_6D1F,
    0x6D36_7ECF_27CB_09B7,
    0x4F46_3F66_9E5F_EA2D,
    0x7527_BAC7_EBE5_F17B,
    0x3D07_39F7_8A52_92EA,
    0x6BFB_5FB1_1F8D_5D08,
    0x5603_3046_FC7B_0000,
];

/// 53 bits from bit `first` on, counted from the highest one; zeros after the last.
fn segment(first: u32) -> u64 {
    let (word, shift) = ((first / 64) as usize, first % 64);
    let at = |index: usize| TWO_OVER_PI.get(index).copied().unwrap_or(0);
    let both = u128::from(at(word)) << 64 | u128::from(at(word + 1));
    ((both << shift) >> 75) as u64
}

#[inline(always)]
pub(crate) fn two_over_pi(angle: f64, number: u32) -> f64 {
    let exponent = angle.exponent_field();
    let first = 53 * (number & 31) + (exponent - 1077).max(0) as u32;
    // Scaled by 2^128 for the largest angles, so that the segments of interest are no subnormal numbers.
    let scale = if exponent >= 1968 { 128 } else { 0 } - 53 - first as i32;
    ldexp(segment(first) as f64, scale as u32)
}

/// The axis of the largest coordinate, of equal ones z, then y.
#[inline(always)]
fn major(x: f32, y: f32, z: f32) -> u32 {
    let (x, y, z) = (x.abs(), y.abs(), z.abs());
    let side = if y >= x { 1 } else { 0 };
    if (z >= x) & (z >= y) { 2 } else { side }
}

#[inline(always)]
fn pick(axis: u32, of: [f32; 3]) -> f32 {
    let side = if axis == 1 { of[1] } else { of[0] };
    if axis == 2 { of[2] } else { side }
}

#[inline(always)]
pub(crate) fn cube_face(x: f32, y: f32, z: f32) -> f32 {
    let axis = major(x, y, z);
    let negative = pick(axis, [x, y, z]) < 0.0;
    (2 * axis + u32::from(negative)) as f32
}

#[inline(always)]
pub(crate) fn cube_s(x: f32, y: f32, z: f32) -> f32 {
    let of_x = if x < 0.0 { z } else { -z };
    let of_z = if z < 0.0 { -x } else { x };
    pick(major(x, y, z), [of_x, x, of_z])
}

#[inline(always)]
pub(crate) fn cube_t(x: f32, y: f32, z: f32) -> f32 {
    pick(major(x, y, z), [-y, if y < 0.0 { -z } else { z }, -y])
}

#[inline(always)]
pub(crate) fn cube_axis(x: f32, y: f32, z: f32) -> f32 {
    2.0 * pick(major(x, y, z), [x, y, z])
}
