//! Integers with carries, halves of products, quotients that never trap, and fields of bits whose sizes are limited.

use super::integer::Int;

/// An integer type with the double-width type of its products.
pub trait Word: Int + Default + PartialEq {
    fn add_with_carry(self, other: Self, carry: bool) -> Self;
    fn carry_of_add_with_carry(self, other: Self, carry: bool) -> bool;
    fn sub_with_borrow(self, other: Self, borrow: bool) -> Self;
    fn borrow_of_sub_with_borrow(self, other: Self, borrow: bool) -> bool;
    fn mul_high_u(self, other: Self) -> Self;
    fn mul_high_s(self, other: Self) -> Self;
    fn div_u(self, other: Self) -> Self;
    fn div_s(self, other: Self) -> Self;
    fn rem_u(self, other: Self) -> Self;
    fn rem_s(self, other: Self) -> Self;
    fn wrapping_neg(self) -> Self;
    fn difference_s(self, other: Self) -> Self;
    fn shl_clamped(self, amount: u32) -> Self;
    fn shr_clamped_u(self, amount: u32) -> Self;
    fn shr_clamped_s(self, amount: u32) -> Self;
    fn field_u(self, first: u32, width: u32) -> Self;
    fn field_s(self, first: u32, width: u32) -> Self;
    fn insert_field(self, into: Self, first: u32, width: u32) -> Self;
    fn highest_bit_u(self) -> u32;
    fn highest_bit_s(self) -> u32;
    fn leading_signs_to_shift(self) -> u32;
    fn count_leading_zeros(self) -> u32;
}

macro_rules! word {
    ($($ty:ty, $signed:ty, $double:ty, $double_signed:ty;)*) => {$(
        impl Word for $ty {
            #[inline(always)]
            fn add_with_carry(self, other: Self, carry: bool) -> Self {
                self.wrapping_add(other).wrapping_add(Self::from(carry))
            }
            #[inline(always)]
            fn carry_of_add_with_carry(self, other: Self, carry: bool) -> bool {
                let sum = self.wrapping_add(other);
                (sum < self) | (carry & (sum == Self::MAX))
            }
            #[inline(always)]
            fn sub_with_borrow(self, other: Self, borrow: bool) -> Self {
                self.wrapping_sub(other).wrapping_sub(Self::from(borrow))
            }
            #[inline(always)]
            fn borrow_of_sub_with_borrow(self, other: Self, borrow: bool) -> bool {
                (self < other) | (borrow & (self == other))
            }
            #[inline(always)]
            fn mul_high_u(self, other: Self) -> Self {
                ((self as $double * other as $double) >> Self::BITS) as Self
            }
            #[inline(always)]
            fn mul_high_s(self, other: Self) -> Self {
                ((self as $signed as $double_signed * other as $signed as $double_signed) >> Self::BITS) as Self
            }
            #[inline(always)]
            fn div_u(self, other: Self) -> Self { self.checked_div(other).unwrap_or(Self::MAX) }
            #[inline(always)]
            fn div_s(self, other: Self) -> Self {
                if other == 0 { Self::MAX } else { (self as $signed).wrapping_div(other as $signed) as Self }
            }
            #[inline(always)]
            fn rem_u(self, other: Self) -> Self { self.checked_rem(other).unwrap_or(self) }
            #[inline(always)]
            fn rem_s(self, other: Self) -> Self {
                if other == 0 { self } else { (self as $signed).wrapping_rem(other as $signed) as Self }
            }
            #[inline(always)]
            fn wrapping_neg(self) -> Self { self.wrapping_neg() }
            #[inline(always)]
            fn difference_s(self, other: Self) -> Self {
                let (a, b) = (self as $signed, other as $signed);
                if a < b { b.wrapping_sub(a) as Self } else { a.wrapping_sub(b) as Self }
            }
            #[inline(always)]
            fn shl_clamped(self, amount: u32) -> Self {
                if amount < Self::BITS { self << (amount & (Self::BITS - 1)) } else { 0 }
            }
            #[inline(always)]
            fn shr_clamped_u(self, amount: u32) -> Self {
                if amount < Self::BITS { self >> (amount & (Self::BITS - 1)) } else { 0 }
            }
            #[inline(always)]
            fn shr_clamped_s(self, amount: u32) -> Self {
                ((self as $signed) >> amount.min(Self::BITS - 1)) as Self
            }
            #[inline(always)]
            fn field_u(self, first: u32, width: u32) -> Self {
                let (first, width) = (first & 0xFF, width & 0xFF);
                let mask = if width < Self::BITS { ((1 as Self) << (width & (Self::BITS - 1))).wrapping_sub(1) } else { Self::MAX };
                self.shr_clamped_u(first) & mask
            }
            #[inline(always)]
            fn field_s(self, first: u32, width: u32) -> Self {
                // The sign is the highest bit of the field that is in the value.
                let (first, width) = (first & 0xFF, width & 0xFF);
                let last = (first + width).wrapping_sub(1).min(Self::BITS - 1);
                let negative = width != 0 && self.shr_clamped_u(last) & 1 == 1;
                let inside = (Self::BITS.saturating_sub(first)).min(width);
                let field = self.field_u(first, width);
                let above = if inside < Self::BITS { Self::MAX << (inside & (Self::BITS - 1)) } else { 0 };
                if negative { field | above } else { field }
            }
            #[inline(always)]
            fn insert_field(self, into: Self, first: u32, width: u32) -> Self {
                let (first, width) = (first & 0xFF, width & 0xFF);
                let low = if width < Self::BITS { ((1 as Self) << (width & (Self::BITS - 1))).wrapping_sub(1) } else { Self::MAX };
                let mask = low.shl_clamped(first);
                (into & !mask) | (self.shl_clamped(first) & mask)
            }
            #[inline(always)]
            fn highest_bit_u(self) -> u32 { (Self::BITS - 1).wrapping_sub(self.leading_zeros()) }
            #[inline(always)]
            fn highest_bit_s(self) -> u32 {
                (self ^ ((self as $signed) >> (Self::BITS - 1)) as Self).highest_bit_u()
            }
            #[inline(always)]
            fn leading_signs_to_shift(self) -> u32 {
                let highest = self.highest_bit_s();
                if highest == u32::MAX { u32::MAX } else { Self::BITS - 1 - highest }
            }
            #[inline(always)]
            fn count_leading_zeros(self) -> u32 { self.leading_zeros() }
        }
    )*};
}

word! {
    u16, i16, u32, i32;
    u32, i32, u64, i64;
    u64, i64, u128, i128;
}

macro_rules! forward {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $result:ty;)*) => {$(
        #[inline(always)]
        pub fn $name<N: Word>(value: N $(, $arg: $ty)*) -> $result { value.$name($($arg),*) }
    )*};
}

forward! {
    add_with_carry(other: N, carry: bool) -> N;
    carry_of_add_with_carry(other: N, carry: bool) -> bool;
    sub_with_borrow(other: N, borrow: bool) -> N;
    borrow_of_sub_with_borrow(other: N, borrow: bool) -> bool;
    mul_high_u(other: N) -> N;
    mul_high_s(other: N) -> N;
    div_u(other: N) -> N;
    div_s(other: N) -> N;
    rem_u(other: N) -> N;
    rem_s(other: N) -> N;
    wrapping_neg() -> N;
    difference_s(other: N) -> N;
    shl_clamped(amount: u32) -> N;
    shr_clamped_u(amount: u32) -> N;
    shr_clamped_s(amount: u32) -> N;
    field_u(first: u32, width: u32) -> N;
    field_s(first: u32, width: u32) -> N;
    insert_field(into: N, first: u32, width: u32) -> N;
    highest_bit_u() -> u32;
    highest_bit_s() -> u32;
    leading_signs_to_shift() -> u32;
    count_leading_zeros() -> u32;
}

#[inline(always)]
pub fn low32(value: u64) -> u32 {
    value as u32
}

fn low24(value: u32) -> u64 {
    u64::from(value & 0xFF_FFFF)
}

fn low24_signed(value: u32) -> i64 {
    i64::from((value << 8) as i32 >> 8)
}

#[inline(always)]
pub fn mul24_low_u(a: u32, b: u32) -> u32 {
    (low24(a) * low24(b)) as u32
}

#[inline(always)]
pub fn mul24_low_s(a: u32, b: u32) -> u32 {
    (low24_signed(a) * low24_signed(b)) as u32
}

#[inline(always)]
pub fn mul24_high_u(a: u32, b: u32) -> u32 {
    ((low24(a) * low24(b)) >> 16) as u32
}

#[inline(always)]
pub fn mul24_high_s(a: u32, b: u32) -> u32 {
    ((low24_signed(a) * low24_signed(b)) >> 16) as u32
}

#[inline(always)]
pub fn lookup_bits(a: u32, b: u32, c: u32, table: u32) -> u32 {
    let mut result = 0;
    for entry in 0..8u32 {
        let pick = |value: u32, bit: u32| if entry >> bit & 1 == 1 { value } else { !value };
        let all = pick(a, 2) & pick(b, 1) & pick(c, 0);
        result |= all & 0u32.wrapping_sub(table >> entry & 1);
    }
    result
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline(always)]
pub fn funnel_left_wrap(low: u32, high: u32, amount: u32) -> u32 {
    ((pair(low, high) << (amount & 31)) >> 32) as u32
}

#[inline(always)]
pub fn funnel_left_clamp(low: u32, high: u32, amount: u32) -> u32 {
    ((pair(low, high) << amount.min(32)) >> 32) as u32
}

#[inline(always)]
pub fn funnel_right_wrap(low: u32, high: u32, amount: u32) -> u32 {
    (pair(low, high) >> (amount & 31)) as u32
}

#[inline(always)]
pub fn funnel_right_clamp(low: u32, high: u32, amount: u32) -> u32 {
    (pair(low, high) >> amount.min(32)) as u32
}

/// Byte `number` of two values, without the bit for its sign.
#[inline(always)]
fn byte_of(low: u32, high: u32, number: u32) -> u32 {
    // Words are chosen and shifted, since a shift of pairs takes twice as many vector instructions.
    let word = if number & 4 == 0 { low } else { high };
    word >> (8 * (number & 3)) & 0xFF
}

#[inline(always)]
fn bytes(low: u32, high: u32, number: impl Fn(u32) -> u32) -> u32 {
    let byte = |index: u32| byte_of(low, high, number(index)) << (8 * index);
    byte(0) | byte(1) | byte(2) | byte(3)
}

#[inline(always)]
pub fn pick_bytes(low: u32, high: u32, selectors: u32) -> u32 {
    let byte = |index: u32| {
        let selector = selectors >> (4 * index) & 15;
        let byte = byte_of(low, high, selector);
        let sign = 0u32.wrapping_sub(byte >> 7) & 0xFF;
        (if selector & 8 == 0 { byte } else { sign }) << (8 * index)
    };
    byte(0) | byte(1) | byte(2) | byte(3)
}

#[inline(always)]
pub fn pick_forward(low: u32, high: u32, first: u32) -> u32 {
    bytes(low, high, |index| (first & 3) + index)
}

#[inline(always)]
pub fn pick_backward(low: u32, high: u32, first: u32) -> u32 {
    bytes(low, high, |index| (first & 3).wrapping_sub(index) & 7)
}

#[inline(always)]
pub fn pick_byte(low: u32, high: u32, which: u32) -> u32 {
    bytes(low, high, |_| which & 3)
}

#[inline(always)]
pub fn pick_clamped_left(low: u32, high: u32, which: u32) -> u32 {
    bytes(low, high, |index| (which & 3).max(index))
}

#[inline(always)]
pub fn pick_clamped_right(low: u32, high: u32, which: u32) -> u32 {
    bytes(low, high, |index| (which & 3).min(index))
}

#[inline(always)]
pub fn pick_half(low: u32, high: u32, which: u32) -> u32 {
    bytes(low, high, |index| 2 * (which & 1) + (index & 1))
}

#[inline(always)]
fn dot(a: u32, b: u32, c: u32, sign: impl Fn(u32) -> i32, other: impl Fn(u32) -> i32) -> u32 {
    let mut sum = c;
    for shift in [0, 8, 16, 24] {
        sum = sum.wrapping_add(sign(a >> shift & 0xFF).wrapping_mul(other(b >> shift & 0xFF)) as u32);
    }
    sum
}

fn unsigned_byte(value: u32) -> i32 {
    value as i32
}

fn signed_byte(value: u32) -> i32 {
    i32::from(value as i8)
}

#[inline(always)]
pub fn dot_bytes_uu(a: u32, b: u32, c: u32) -> u32 {
    dot(a, b, c, unsigned_byte, unsigned_byte)
}

#[inline(always)]
pub fn dot_bytes_us(a: u32, b: u32, c: u32) -> u32 {
    dot(a, b, c, unsigned_byte, signed_byte)
}

#[inline(always)]
pub fn dot_bytes_ss(a: u32, b: u32, c: u32) -> u32 {
    dot(a, b, c, signed_byte, signed_byte)
}
