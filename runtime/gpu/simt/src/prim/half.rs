//! Halves: IEEE numbers of 16 bits, which compute as f32 or f64 and are rounded once.

/// The bits of an f16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct F16(pub u16);

impl F16 {
    /// The same number as f32, without branches.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        let bits = u32::from(self.0);
        let magnitude = (bits & 0x7FFF) << 13;
        // Scaled by 2^112, subnormal numbers become right, too; infinities and NaN get the largest exponent.
        let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
        let special = if bits & 0x7C00 == 0x7C00 { 0x7F80_0000 | magnitude } else { scaled.to_bits() };
        f32::from_bits(special | (bits & 0x8000) << 16)
    }

    /// The nearest f16, of two the even one; without branches.
    #[inline(always)]
    pub fn of_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7FFF_FFFF);
        // Subnormal results are rounded by adding a number whose lowest bit is theirs.
        let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3F00_0000);
        let odd = magnitude >> 13 & 1;
        let normal = magnitude.wrapping_add(0xC800_0000).wrapping_add(0xFFF).wrapping_add(odd) >> 13;
        let finite = if magnitude < 0x3880_0000 { small } else { normal };
        let nan = 0x7E00 | (magnitude >> 13 & 0x1FF);
        let special = if magnitude > 0x7F80_0000 { nan } else { 0x7C00 };
        F16((sign | if magnitude >= 0x4780_0000 { special } else { finite }) as u16)
    }

    /// The nearest f16 of an f64: rounded to odd first, so that rounding again gives the nearest.
    #[inline(always)]
    pub fn of_f64(value: f64) -> Self {
        F16::of_f32(to_odd_f32(value))
    }
}

/// The number as f32, of the two next to it the odd one unless it is exact.
#[inline(always)]
pub fn to_odd_f32(value: f64) -> f32 {
    let near = value as f32;
    let exact = f64::from(near) == value || value.is_nan();
    let bits = near.to_bits();
    // Toward zero if it was rounded away, then with the lowest bit set.
    let away = f64::from(near).abs() > value.abs();
    let odd = (if away { bits.wrapping_sub(1) } else { bits }) | 1;
    if exact { near } else { f32::from_bits(odd) }
}
