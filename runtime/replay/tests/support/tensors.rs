//! Results of models in files, and whether replays read them.

use std::path::Path;

/// The elements of a NumPy array in a file.
pub fn npy_bytes(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(&bytes[..7], b"\x93NUMPY\x01", "{}", path.display());
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[10 + length..].to_vec()
}

/// True if one of `reads` begins with the result in a file, or differs by so many representable `f32` values. Empty
/// results and numbers, which programs return without a buffer, need not be there.
pub fn is_among(reads: &[Vec<u8>], path: &Path, units: u64) -> bool {
    if path.extension().is_none_or(|extension| extension != "npy") {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return bytes.len() <= 8 || reads.iter().any(|read| read.starts_with(&bytes));
    }
    let expected = npy_bytes(path);
    expected.is_empty()
        || reads.iter().any(|read| read.starts_with(&expected) || units > 0 && is_near(read, &expected, units))
}

fn is_near(read: &[u8], expected: &[u8], units: u64) -> bool {
    let ordered = |bytes: &[u8]| {
        let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let magnitude = i64::from(bits & 0x7fff_ffff);
        if bits >> 31 == 0 { magnitude } else { -magnitude }
    };
    let mut pairs = read.chunks_exact(4).zip(expected.chunks_exact(4));
    read.len() >= expected.len() && pairs.all(|(one, other)| ordered(one).abs_diff(ordered(other)) <= units)
}
