//! Mutants of seeds, for runs without a fuzzer: the kinds of damage that find bugs in readers of binary formats, and
//! numbers in texts.

use std::ops::Range;

use fastrand::Rng;

use super::Seed;

/// Most changes of one mutant.
const MAX_CHANGES: usize = 4;
/// Longest piece that is moved, copied or removed.
const MAX_PIECE: usize = 64;
/// Numbers that are one too many or too few somewhere.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    7,
    8,
    63,
    64,
    0x7F,
    0xFF,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// The mutant of a number: which seed it is of, and its bytes. They depend on nothing but the seeds and the number.
///
/// # Panics
/// If there are no seeds.
pub fn mutant(seeds: &[Seed], number: u64) -> (&Seed, Vec<u8>) {
    let seed = &seeds[(number % seeds.len() as u64) as usize];
    let random = &mut Rng::with_seed(number);
    let mut bytes = seed.bytes.clone();
    for _ in 0..random.usize(1..=MAX_CHANGES) {
        let other = &seeds[random.usize(..seeds.len())];
        change(&mut bytes, &other.bytes, random);
    }
    (seed, bytes)
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Rng) {
    if bytes.is_empty() {
        bytes.extend(std::iter::repeat_with(|| random.u8(..)).take(MAX_PIECE));
        return;
    }
    // Headers and tables, which decide what becomes of the rest, are at the beginning of most formats, and at the end
    // of zip archives.
    let end = bytes.len();
    let region = match random.u8(..4) {
        0 => 0..end,
        1 => end.saturating_sub(256)..end,
        _ => 0..end.min(512),
    };
    let at = random.usize(region);
    match random.u8(..10) {
        0 | 1 => bytes[at] ^= 1 << random.u8(..8),
        2 => bytes[at] = random.u8(..),
        3..=5 => set_number(bytes, at, random),
        6 => set_decimal(bytes, at, random),
        7 => bytes.truncate(at),
        8 => {
            let (from, to) = (piece(bytes.len(), random), piece(bytes.len(), random));
            match random.u8(..3) {
                0 => drop(bytes.drain(from)),
                1 => drop(bytes.splice(at..at, bytes[from].to_vec())),
                _ => {
                    let length = from.len().min(bytes.len() - to.start);
                    bytes.copy_within(from.start..from.start + length, to.start);
                }
            }
        }
        _ if !other.is_empty() => {
            let from = &other[piece(other.len(), random)];
            let length = from.len().min(bytes.len() - at);
            bytes.splice(at..at + length, from.iter().copied());
        }
        _ => {}
    }
}

/// A piece of a file that has bytes.
fn piece(length: usize, random: &mut Rng) -> Range<usize> {
    let start = random.usize(..length);
    start..start + random.usize(1..=(length - start).min(MAX_PIECE))
}

/// Sets a little-endian number of one to eight bytes to a telling value, to a length or an offset in the file, or to
/// one a little greater or smaller.
fn set_number(bytes: &mut [u8], at: usize, random: &mut Rng) {
    let width = 1 << random.u32(..4);
    // Most formats align numbers.
    let at = if random.bool() { at - at % width } else { at };
    let length = bytes.len() as u64;
    let Some(place) = bytes.get_mut(at..at + width) else { return };
    let mut word = [0; 8];
    word[..width].copy_from_slice(place);
    let old = u64::from_le_bytes(word);
    let delta = u64::from(random.u8(1..=16));
    let new = match random.u8(..6) {
        0 => old.wrapping_add(delta),
        1 => old.wrapping_sub(delta),
        2 => length.wrapping_sub(delta - 1),
        3 => random.u64(..length),
        _ => NUMBERS[random.usize(..NUMBERS.len())],
    };
    place.copy_from_slice(&new.to_le_bytes()[..width]);
}

/// Sets the next decimal number of a text.
fn set_decimal(bytes: &mut Vec<u8>, at: usize, random: &mut Rng) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|distance| at + distance) else { return };
    let end =
        bytes[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(bytes.len(), |length| start + length);
    let new = match random.u8(..4) {
        0 => random.u64(..100).to_string(),
        1 => format!("-{}", random.u64(..100)),
        _ => NUMBERS[random.usize(..NUMBERS.len())].to_string(),
    };
    bytes.splice(start..end, new.into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_depend_on_their_number_alone() {
        let seeds = ["{\"length\": 17}".repeat(9), String::new(), "x".into()];
        let seeds = seeds.map(|text| Seed { name: text.clone(), bytes: text.into_bytes() });
        let mut changed = 0;
        for number in 0..2000 {
            let (seed, bytes) = mutant(&seeds, number);
            assert_eq!(seed.name, seeds[number as usize % 3].name);
            assert_eq!(bytes, mutant(&seeds, number).1);
            changed += usize::from(bytes != seed.bytes);
        }
        assert!(changed > 1800, "{changed} of 2000 mutants differ from their seed");
    }
}
