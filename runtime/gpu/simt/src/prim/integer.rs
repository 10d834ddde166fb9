//! Integers and bits.

/// An integer type.
pub trait Int: Copy {
    fn wrapping_add(self, other: Self) -> Self;
    fn wrapping_sub(self, other: Self) -> Self;
    fn wrapping_mul(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn shl(self, amount: u32) -> Self;
    fn shr_u(self, amount: u32) -> Self;
    fn shr_s(self, amount: u32) -> Self;
    fn abs_wrapping(self) -> Self;
    fn lt_s(self, other: Self) -> bool;
    fn lt_u(self, other: Self) -> bool;
    fn eq(self, other: Self) -> bool;
    fn is_nonzero(self) -> bool;
    fn carry_of_add(self, other: Self) -> bool;
    fn overflow_of_add(self, other: Self) -> bool;
    fn overflow_of_sub(self, other: Self) -> bool;
    fn add_saturating_s(self, other: Self) -> Self;
    fn add_saturating_u(self, other: Self) -> Self;
    fn sub_saturating_s(self, other: Self) -> Self;
    fn sub_saturating_u(self, other: Self) -> Self;
    fn difference_u(self, other: Self) -> Self;
    fn reverse_bits(self) -> Self;
    fn count_ones(self) -> u32;
    fn leading_zeros_or_ones(self) -> u32;
    fn leading_signs_or_ones(self) -> u32;
    fn bits_of_quads(self) -> Self;
    fn whole_quads(self) -> Self;
    fn bit_field_u(self, first: u32, width: u32) -> Self;
    fn bit_field_s(self, first: u32, width: u32) -> Self;
}

macro_rules! int {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl Int for $unsigned {
            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn wrapping_mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn and(self, other: Self) -> Self { self & other }
            #[inline(always)]
            fn or(self, other: Self) -> Self { self | other }
            #[inline(always)]
            fn xor(self, other: Self) -> Self { self ^ other }
            #[inline(always)]
            fn shl(self, amount: u32) -> Self { self.wrapping_shl(amount) }
            #[inline(always)]
            fn shr_u(self, amount: u32) -> Self { self.wrapping_shr(amount) }
            #[inline(always)]
            fn shr_s(self, amount: u32) -> Self { (self as $signed).wrapping_shr(amount) as $unsigned }
            #[inline(always)]
            fn abs_wrapping(self) -> Self { (self as $signed).wrapping_abs() as $unsigned }
            #[inline(always)]
            fn lt_s(self, other: Self) -> bool { (self as $signed) < other as $signed }
            #[inline(always)]
            fn lt_u(self, other: Self) -> bool { self < other }
            #[inline(always)]
            fn eq(self, other: Self) -> bool { self == other }
            #[inline(always)]
            fn is_nonzero(self) -> bool { self != 0 }
            #[inline(always)]
            fn carry_of_add(self, other: Self) -> bool { self.wrapping_add(other) < self }
            #[inline(always)]
            fn overflow_of_add(self, other: Self) -> bool { (self as $signed).overflowing_add(other as $signed).1 }
            #[inline(always)]
            fn overflow_of_sub(self, other: Self) -> bool { (self as $signed).overflowing_sub(other as $signed).1 }
            #[inline(always)]
            fn add_saturating_s(self, other: Self) -> Self { (self as $signed).saturating_add(other as $signed) as Self }
            #[inline(always)]
            fn add_saturating_u(self, other: Self) -> Self { self.saturating_add(other) }
            #[inline(always)]
            fn sub_saturating_s(self, other: Self) -> Self { (self as $signed).saturating_sub(other as $signed) as Self }
            #[inline(always)]
            fn sub_saturating_u(self, other: Self) -> Self { self.saturating_sub(other) }
            #[inline(always)]
            fn difference_u(self, other: Self) -> Self { self.max(other) - self.min(other) }
            #[inline(always)]
            fn reverse_bits(self) -> Self { self.reverse_bits() }
            #[inline(always)]
            fn count_ones(self) -> u32 { self.count_ones() }
            #[inline(always)]
            fn leading_zeros_or_ones(self) -> u32 { if self == 0 { u32::MAX } else { self.leading_zeros() } }
            #[inline(always)]
            fn leading_signs_or_ones(self) -> u32 {
                (self ^ ((self as $signed) >> (<$unsigned>::BITS - 1)) as Self).leading_zeros_or_ones()
            }
            #[inline(always)]
            fn bits_of_quads(self) -> Self {
                let mut bits = 0;
                for quad in 0..<$unsigned>::BITS / 4 {
                    bits |= Self::from(self >> (4 * quad) & 15 != 0) << quad;
                }
                bits
            }
            #[inline(always)]
            fn whole_quads(self) -> Self {
                let lowest = (self | self >> 1 | self >> 2 | self >> 3) & (<$unsigned>::MAX / 15);
                lowest * 15
            }
            #[inline(always)]
            fn bit_field_u(self, first: u32, width: u32) -> Self {
                let (first, width) = (first % <$unsigned>::BITS, (width & 127).min(<$unsigned>::BITS));
                let spare = (<$unsigned>::BITS - width) % <$unsigned>::BITS;
                let field = self >> first << spare >> spare;
                if width == 0 { 0 } else { field }
            }
            #[inline(always)]
            fn bit_field_s(self, first: u32, width: u32) -> Self {
                // Above the field is its own sign; a field of no bits is zero.
                let (first, width) = (first % <$unsigned>::BITS, (width & 127).min(<$unsigned>::BITS));
                let spare = (<$unsigned>::BITS - width) % <$unsigned>::BITS;
                let field = ((self as $signed) >> first << spare >> spare) as Self;
                if width == 0 { 0 } else { field }
            }
        }
    )*};
}

int! {
    u16, i16;
    u32, i32;
    u64, i64;
}

macro_rules! forward {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $result:ty;)*) => {$(
        #[inline(always)]
        pub fn $name<N: Int>(value: N $(, $arg: $ty)*) -> $result { value.$name($($arg),*) }
    )*};
}

forward! {
    wrapping_add(other: N) -> N;
    wrapping_sub(other: N) -> N;
    wrapping_mul(other: N) -> N;
    and(other: N) -> N;
    or(other: N) -> N;
    xor(other: N) -> N;
    shl(amount: u32) -> N;
    shr_u(amount: u32) -> N;
    shr_s(amount: u32) -> N;
    abs_wrapping() -> N;
    lt_s(other: N) -> bool;
    lt_u(other: N) -> bool;
    eq(other: N) -> bool;
    is_nonzero() -> bool;
    carry_of_add(other: N) -> bool;
    overflow_of_add(other: N) -> bool;
    overflow_of_sub(other: N) -> bool;
    add_saturating_s(other: N) -> N;
    add_saturating_u(other: N) -> N;
    sub_saturating_s(other: N) -> N;
    sub_saturating_u(other: N) -> N;
    difference_u(other: N) -> N;
    reverse_bits() -> N;
    count_ones() -> u32;
    leading_zeros_or_ones() -> u32;
    leading_signs_or_ones() -> u32;
    bits_of_quads() -> N;
    whole_quads() -> N;
    bit_field_u(first: u32, width: u32) -> N;
    bit_field_s(first: u32, width: u32) -> N;
}

#[inline(always)]
pub fn not<T: std::ops::Not<Output = T>>(value: T) -> T {
    !value
}

#[inline(always)]
pub fn ne<N: Int>(a: N, b: N) -> bool {
    !a.eq(b)
}

#[inline(always)]
pub fn le_s<N: Int>(a: N, b: N) -> bool {
    !b.lt_s(a)
}

#[inline(always)]
pub fn le_u<N: Int>(a: N, b: N) -> bool {
    !b.lt_u(a)
}

#[inline(always)]
pub fn min_s<N: Int>(a: N, b: N) -> N {
    if a.lt_s(b) { a } else { b }
}

#[inline(always)]
pub fn min_u<N: Int>(a: N, b: N) -> N {
    if a.lt_u(b) { a } else { b }
}

#[inline(always)]
pub fn max_s<N: Int>(a: N, b: N) -> N {
    if a.lt_s(b) { b } else { a }
}

#[inline(always)]
pub fn max_u<N: Int>(a: N, b: N) -> N {
    if a.lt_u(b) { b } else { a }
}

#[inline(always)]
pub fn low8_sext(value: u32) -> u32 {
    value as i8 as u32
}

#[inline(always)]
pub fn low8_zext(value: u32) -> u32 {
    value & 0xFF
}

#[inline(always)]
pub fn low16_sext(value: u32) -> u32 {
    value as i16 as u32
}

#[inline(always)]
pub fn low16_zext(value: u32) -> u32 {
    value & 0xFFFF
}

#[inline(always)]
pub fn zext32(value: u16) -> u32 {
    u32::from(value)
}

#[inline(always)]
pub fn sext32(value: u16) -> u32 {
    value as i16 as u32
}

#[inline(always)]
pub fn zext64(value: u32) -> u64 {
    u64::from(value)
}

#[inline(always)]
pub fn sext64(value: u32) -> u64 {
    value as i32 as u64
}

#[inline(always)]
pub fn add_with(a: u32, b: u32, carry: bool) -> u32 {
    a.wrapping_add(b).wrapping_add(u32::from(carry))
}

#[inline(always)]
pub fn carry_of_add_with(a: u32, b: u32, carry: bool) -> bool {
    let sum = a.wrapping_add(b);
    (sum < a) | (carry & (sum == u32::MAX))
}

#[inline(always)]
pub fn sub_with(a: u32, b: u32, borrow: bool) -> u32 {
    a.wrapping_sub(b).wrapping_sub(u32::from(borrow))
}

#[inline(always)]
pub fn borrow_of_sub_with(a: u32, b: u32, borrow: bool) -> bool {
    (a < b) | (borrow & (a == b))
}

#[inline(always)]
pub fn carry_of_shl_add(a: u32, b: u32, amount: u32) -> bool {
    (u64::from(a) << (amount & 31)) + u64::from(b) > u64::from(u32::MAX)
}

#[inline(always)]
pub fn mul_hi_u(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

#[inline(always)]
pub fn mul_hi_s(a: u32, b: u32) -> u32 {
    ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
}

#[inline(always)]
pub fn bit_mask(width: u32, first: u32) -> u32 {
    ((1u32 << (width & 31)) - 1) << (first & 31)
}

#[inline(always)]
pub fn one_bit(number: u32) -> u32 {
    1 << (number & 31)
}

#[inline(always)]
pub fn bit_mask_wide(width: u32, first: u32) -> u64 {
    ((1u64 << (width & 63)) - 1) << (first & 63)
}

#[inline(always)]
pub fn one_bit_wide(number: u32) -> u64 {
    1 << (number & 63)
}

#[inline(always)]
pub fn saturate_s16(value: u32) -> u16 {
    (value as i32).clamp(i16::MIN.into(), i16::MAX.into()) as u16
}

#[inline(always)]
pub fn saturate_u16(value: u32) -> u16 {
    value.min(u16::MAX.into()) as u16
}

#[inline(always)]
pub fn saturate_s32(value: u64) -> u32 {
    (value as i64).clamp(i32::MIN.into(), i32::MAX.into()) as u32
}

#[inline(always)]
pub fn saturate_u32(value: u64) -> u32 {
    value.min(u32::MAX.into()) as u32
}

#[inline(always)]
pub fn low_half(value: u32) -> u16 {
    value as u16
}

#[inline(always)]
pub fn difference_of_bytes(a: u32, b: u32) -> u32 {
    let mut sum = 0;
    for shift in [0, 8, 16, 24] {
        sum += difference_u(a >> shift & 0xFF, b >> shift & 0xFF);
    }
    sum
}

#[inline(always)]
pub fn difference_of_halves(a: u32, b: u32) -> u32 {
    difference_u(a & 0xFFFF, b & 0xFFFF) + difference_u(a >> 16, b >> 16)
}

#[inline(always)]
pub fn average_of_bytes(a: u32, b: u32, up: u32) -> u32 {
    let mut result = 0;
    for shift in [0, 8, 16, 24] {
        result |= ((a >> shift & 0xFF) + (b >> shift & 0xFF) + (up >> shift & 1)) >> 1 << shift;
    }
    result
}

#[inline(always)]
pub fn with_byte(old: u32, number: u32, byte: u32) -> u32 {
    let shift = 8 * (number & 3);
    old & !(0xFF << shift) | (byte & 0xFF) << shift
}

#[inline(always)]
pub fn align_bits(high: u32, low: u32, amount: u32) -> u32 {
    ((u64::from(high) << 32 | u64::from(low)) >> (amount & 31)) as u32
}
