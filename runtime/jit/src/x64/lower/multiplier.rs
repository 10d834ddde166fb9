//! The multiplier by which a number is divided by a constant: the upper half of the product, shifted, is the quotient.
//! `int.rs` multiplies by it. The proof is in `passes/vectorise/vector_loop/division.rs`, which divides vectors of
//! 32-bit numbers; here numbers have 32 or 64 bits.

/// How a quotient follows from the upper half of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Multiplier {
    /// The low bits of the multiplier, as many as a number has.
    pub bits: u64,
    /// The multiplier has one bit more, or a number with a sign is too small for it: the dividend is added to the upper
    /// half.
    pub adds_dividend: bool,
    /// By how much the upper half, or the sum, is shifted.
    pub shift: u32,
}

/// The multiplier for a divisor of more than 1 that is no power of two, for numbers of so many bits.
pub(super) fn multiplier(divisor: u64, bits: u32, signed: bool) -> Multiplier {
    let divisor = u128::from(divisor);
    for shift in 0..bits {
        // Below 2^128, since a shift of the bits of the divisor is enough, and a divisor with a sign has 63.
        let power = 1_u128 << (bits + shift);
        let multiplier = power / divisor + 1;
        if multiplier * divisor - power <= 1_u128 << (shift + u32::from(signed)) {
            let adds_dividend = multiplier >> if signed { bits - 1 } else { bits } != 0;
            return Multiplier { bits: multiplier as u64 & (u64::MAX >> (64 - bits)), adds_dividend, shift };
        }
    }
    unreachable!("{divisor} has a multiplier of {bits} bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quotient as machine code computes it.
    fn quotient(number: u64, divisor: u64, bits: u32, signed: bool) -> u64 {
        let Multiplier { bits: low, adds_dividend, shift } = multiplier(divisor, bits, signed);
        let mask = u64::MAX >> (64 - bits);
        if signed {
            let extend = |number: u64| i128::from((number << (64 - bits)) as i64 >> (64 - bits));
            let upper = (extend(number) * extend(low)) >> bits;
            let sum = if adds_dividend { upper + extend(number) } else { upper } >> shift;
            (sum + i128::from(sum < 0)) as u64 & mask
        } else {
            let upper = ((u128::from(number) * u128::from(low)) >> bits) as u64;
            match adds_dividend {
                true => (((number - upper) >> 1) + upper) >> (shift - 1),
                false => upper >> shift,
            }
        }
    }

    #[test]
    fn quotients_are_those_of_divisions() {
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            random ^ random >> 33
        };
        for bits in [32, 64] {
            let most = u64::MAX >> (64 - bits);
            let edges = [3, 5, 6, 7, 9, 10, 100, 641, 1000, 65_535, 65_537, 998_244_353, 0x7FFF_FFFF, 0x7FFF_FFFE];
            let drawn: Vec<u64> = (0..2000).map(|index| next() >> (33 + index % 30) | 1).collect();
            let drawn = drawn.into_iter().filter(|divisor| *divisor > 1);
            for divisor in edges.into_iter().chain(drawn) {
                let multiples =
                    (0..20).map(|index| next() >> (index * 3) & most).map(|number| number / divisor * divisor);
                let near: Vec<u64> =
                    multiples.flat_map(|number| [number, number.wrapping_sub(1), number + 1]).collect();
                for number in near.into_iter().chain([0, 1, most, most >> 1, (most >> 1) + 1]) {
                    let number = number & most;
                    assert_eq!(quotient(number, divisor, bits, false), number / divisor, "{number} / {divisor}");
                    let signed = (number << (64 - bits)) as i64 >> (64 - bits);
                    let expected = (signed / divisor as i64) as u64 & most;
                    assert_eq!(quotient(number, divisor, bits, true), expected, "{signed} / {divisor}");
                }
            }
        }
    }
}
