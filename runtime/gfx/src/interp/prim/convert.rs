//! Conversions.

use super::half::F16;

#[inline(always)]
pub(crate) fn i32_to_f32(value: u32) -> f32 {
    value as i32 as f32
}

#[inline(always)]
pub(crate) fn u32_to_f32(value: u32) -> f32 {
    value as f32
}

#[inline(always)]
pub(crate) fn i32_to_f64(value: u32) -> f64 {
    f64::from(value as i32)
}

#[inline(always)]
pub(crate) fn u32_to_f64(value: u32) -> f64 {
    f64::from(value)
}

#[inline(always)]
pub(crate) fn f32_to_i32(value: f32) -> u32 {
    value as i32 as u32
}

#[inline(always)]
pub(crate) fn f32_to_u32(value: f32) -> u32 {
    value as u32
}

#[inline(always)]
pub(crate) fn f64_to_i32(value: f64) -> u32 {
    value as i32 as u32
}

#[inline(always)]
pub(crate) fn f64_to_u32(value: f64) -> u32 {
    value as u32
}

#[inline(always)]
pub(crate) fn f16_to_i16(value: F16) -> u16 {
    value.to_f32() as i16 as u16
}

#[inline(always)]
pub(crate) fn f16_to_u16(value: F16) -> u16 {
    value.to_f32() as u16
}

#[inline(always)]
pub(crate) fn i16_to_f16(value: u16) -> F16 {
    F16::of_f32(f32::from(value as i16))
}

#[inline(always)]
pub(crate) fn u16_to_f16(value: u16) -> F16 {
    F16::of_f32(f32::from(value))
}

#[inline(always)]
pub(crate) fn fdemote(value: f64) -> f32 {
    value as f32
}

#[inline(always)]
pub(crate) fn fpromote(value: f32) -> f64 {
    f64::from(value)
}

#[inline(always)]
pub(crate) fn fdemote_f16(value: f32) -> F16 {
    F16::of_f32(value)
}

#[inline(always)]
pub(crate) fn fpromote_f16(value: F16) -> f32 {
    value.to_f32()
}

#[inline(always)]
pub(crate) fn pack_halves(low: F16, high: F16) -> u32 {
    u32::from(low.0) | u32::from(high.0) << 16
}
