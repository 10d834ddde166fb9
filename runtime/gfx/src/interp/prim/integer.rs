//! Integers and bits.

/// An integer type.
pub(crate) trait Int: Copy {
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
        pub(crate) fn $name<N: Int>(value: N $(, $arg: $ty)*) -> $result { value.$name($($arg),*) }
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
}

#[inline(always)]
pub(crate) fn not<T: std::ops::Not<Output = T>>(value: T) -> T {
    !value
}

#[inline(always)]
pub(crate) fn ne<N: Int>(a: N, b: N) -> bool {
    !a.eq(b)
}

#[inline(always)]
pub(crate) fn le_s<N: Int>(a: N, b: N) -> bool {
    !b.lt_s(a)
}

#[inline(always)]
pub(crate) fn le_u<N: Int>(a: N, b: N) -> bool {
    !b.lt_u(a)
}

#[inline(always)]
pub(crate) fn min_s<N: Int>(a: N, b: N) -> N {
    if a.lt_s(b) { a } else { b }
}

#[inline(always)]
pub(crate) fn min_u<N: Int>(a: N, b: N) -> N {
    if a.lt_u(b) { a } else { b }
}

#[inline(always)]
pub(crate) fn max_s<N: Int>(a: N, b: N) -> N {
    if a.lt_s(b) { b } else { a }
}

#[inline(always)]
pub(crate) fn max_u<N: Int>(a: N, b: N) -> N {
    if a.lt_u(b) { b } else { a }
}

#[inline(always)]
pub(crate) fn low8_sext(value: u32) -> u32 {
    value as i8 as u32
}

#[inline(always)]
pub(crate) fn low8_zext(value: u32) -> u32 {
    value & 0xFF
}

#[inline(always)]
pub(crate) fn low16_sext(value: u32) -> u32 {
    value as i16 as u32
}

#[inline(always)]
pub(crate) fn low16_zext(value: u32) -> u32 {
    value & 0xFFFF
}

#[inline(always)]
pub(crate) fn low24_sext(value: u32) -> u32 {
    ((value << 8) as i32 >> 8) as u32
}

#[inline(always)]
pub(crate) fn low24_zext(value: u32) -> u32 {
    value & 0x00FF_FFFF
}

#[inline(always)]
pub(crate) fn zext32(value: u16) -> u32 {
    u32::from(value)
}

#[inline(always)]
pub(crate) fn sext32(value: u16) -> u32 {
    value as i16 as u32
}

#[inline(always)]
pub(crate) fn zext64(value: u32) -> u64 {
    u64::from(value)
}

#[inline(always)]
pub(crate) fn sext64(value: u32) -> u64 {
    value as i32 as u64
}

#[inline(always)]
pub(crate) fn add_with(a: u32, b: u32, carry: bool) -> u32 {
    a.wrapping_add(b).wrapping_add(u32::from(carry))
}

#[inline(always)]
pub(crate) fn carry_of_add_with(a: u32, b: u32, carry: bool) -> bool {
    let sum = a.wrapping_add(b);
    (sum < a) | (carry & (sum == u32::MAX))
}

#[inline(always)]
pub(crate) fn sub_with(a: u32, b: u32, borrow: bool) -> u32 {
    a.wrapping_sub(b).wrapping_sub(u32::from(borrow))
}

#[inline(always)]
pub(crate) fn borrow_of_sub_with(a: u32, b: u32, borrow: bool) -> bool {
    (a < b) | (borrow & (a == b))
}

#[inline(always)]
pub(crate) fn carry_of_shl_add(a: u32, b: u32, amount: u32) -> bool {
    (u64::from(a) << (amount & 31)) + u64::from(b) > u64::from(u32::MAX)
}

#[inline(always)]
pub(crate) fn mul_hi_u(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

#[inline(always)]
pub(crate) fn mul_hi_s(a: u32, b: u32) -> u32 {
    ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
}

#[inline(always)]
pub(crate) fn bit_field_u(value: u32, first: u32, width: u32) -> u32 {
    let width = (width & 127).min(32);
    let mask = ((1u64 << width) - 1) as u32;
    (value >> (first & 31)) & mask
}

#[inline(always)]
pub(crate) fn bit_field_s(value: u32, first: u32, width: u32) -> u32 {
    let (first, width) = (first & 31, (width & 127).min(32));
    let field = ((value as i32) >> first) as u32;
    // Above the field is its own sign; a field of no bits is zero.
    let spare = (32 - width) & 31;
    let signed = ((field << spare) as i32 >> spare) as u32;
    if width == 0 { 0 } else { signed }
}

#[inline(always)]
pub(crate) fn bit_mask(width: u32, first: u32) -> u32 {
    ((1u32 << (width & 31)) - 1) << (first & 31)
}

#[inline(always)]
pub(crate) fn one_bit(number: u32) -> u32 {
    1 << (number & 31)
}

#[inline(always)]
pub(crate) fn reverse_bits(value: u32) -> u32 {
    value.reverse_bits()
}

#[inline(always)]
pub(crate) fn leading_zeros_or_ones(value: u32) -> u32 {
    if value == 0 { u32::MAX } else { value.leading_zeros() }
}

#[inline(always)]
pub(crate) fn count_ones(value: u32) -> u32 {
    value.count_ones()
}

#[inline(always)]
pub(crate) fn align_bits(high: u32, low: u32, amount: u32) -> u32 {
    ((u64::from(high) << 32 | u64::from(low)) >> (amount & 31)) as u32
}

#[inline(always)]
pub(crate) fn permute_bytes(high: u32, low: u32, selectors: u32) -> u32 {
    let mut result = 0;
    for index in 0..4 {
        let selector = selectors >> (8 * index) & 0xFF;
        // All cases are computed, so that lanes need no branches.
        let word = if selector & 4 == 0 { low } else { high };
        let byte = word >> (8 * (selector & 3)) & 0xFF;
        // The signs of the halves, lowest first.
        let word = if selector & 2 == 0 { low } else { high };
        let sign = (word >> (16 * (selector & 1) + 15) & 1) * 0xFF;
        let constant = if selector == 12 { 0 } else { 0xFF };
        let byte = if selector >= 8 { sign } else { byte };
        let byte = if selector >= 12 { constant } else { byte };
        result |= byte << (8 * index);
    }
    result
}
