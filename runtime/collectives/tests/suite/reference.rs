//! The scalar reference: one value at a time, with arithmetic of its own for each type.

use vireo_hal::{CollectiveElementType, CollectiveKind, CollectiveReduction};

use crate::random::Random;

/// All element types.
pub const TYPES: [CollectiveElementType; 12] = [
    CollectiveElementType::SINT_8,
    CollectiveElementType::UINT_8,
    CollectiveElementType::SINT_16,
    CollectiveElementType::UINT_16,
    CollectiveElementType::SINT_32,
    CollectiveElementType::UINT_32,
    CollectiveElementType::SINT_64,
    CollectiveElementType::UINT_64,
    CollectiveElementType::FLOAT_16,
    CollectiveElementType::FLOAT_32,
    CollectiveElementType::FLOAT_64,
    CollectiveElementType::BFLOAT_16,
];

/// The reductions that reduce.
pub const REDUCTIONS: [CollectiveReduction; 5] = [
    CollectiveReduction::SUM,
    CollectiveReduction::PRODUCT,
    CollectiveReduction::MINIMUM,
    CollectiveReduction::MAXIMUM,
    CollectiveReduction::AVERAGE,
];

/// Bytes of an element.
pub fn size(element_type: CollectiveElementType) -> usize {
    match element_type {
        CollectiveElementType::SINT_8 | CollectiveElementType::UINT_8 => 1,
        CollectiveElementType::SINT_16 | CollectiveElementType::UINT_16 => 2,
        CollectiveElementType::FLOAT_16 | CollectiveElementType::BFLOAT_16 => 2,
        CollectiveElementType::SINT_32 | CollectiveElementType::UINT_32 | CollectiveElementType::FLOAT_32 => 4,
        _ => 8,
    }
}

fn is_float(element_type: CollectiveElementType) -> bool {
    matches!(
        element_type,
        CollectiveElementType::FLOAT_16
            | CollectiveElementType::BFLOAT_16
            | CollectiveElementType::FLOAT_32
            | CollectiveElementType::FLOAT_64
    )
}

fn is_signed(element_type: CollectiveElementType) -> bool {
    matches!(
        element_type,
        CollectiveElementType::SINT_8
            | CollectiveElementType::SINT_16
            | CollectiveElementType::SINT_32
            | CollectiveElementType::SINT_64
    )
}

/// Random bytes of elements. Some floats are zeros of either sign, infinities, NaNs and small numbers, most are
/// moderate.
pub fn elements(random: &mut Random, element_type: CollectiveElementType, count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        let bits = random.next();
        if !is_float(element_type) {
            bytes.extend_from_slice(&bits.to_le_bytes()[..size(element_type)]);
            continue;
        }
        let value = match random.below(24) {
            0 => 0.0,
            1 => -0.0,
            2 => f64::INFINITY,
            3 => f64::NAN,
            4 => 3e-7,
            5 => 60000.0,
            _ => (bits as i32) as f64 / (1u64 << 27) as f64,
        };
        bytes.extend_from_slice(&from_float(element_type, value));
    }
    bytes
}

/// The nearest 16-bit float to a value, ties to even, by arithmetic on its value.
fn narrow(exponent_bits: u32, mantissa_bits: i32, value: f64) -> u16 {
    let (sign, bias) = (u16::from(value.is_sign_negative()) << 15, (1 << (exponent_bits - 1)) - 1);
    let infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
    if value.is_nan() {
        return infinity | 1 << (mantissa_bits - 1);
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || magnitude.is_infinite() {
        return sign | if magnitude == 0.0 { 0 } else { infinity };
    }
    let exponent = (magnitude.log2().floor() as i32).clamp(1 - bias, bias);
    // In units of the last place of numbers with this exponent, which for a larger number is beyond all of them.
    let units = (magnitude / 2f64.powi(exponent - mantissa_bits)).round_ties_even().min(65535.0);
    // The leading bit of a normal number adds one to the exponent that is stored; a carry adds one more.
    let bits = units as u32 + ((exponent + bias - 1) << mantissa_bits) as u32;
    sign | bits.min(infinity.into()) as u16
}

/// The value of a 16-bit float.
fn widen(exponent_bits: u32, mantissa_bits: i32, bytes: &[u8]) -> f64 {
    let bits = u16::from_le_bytes([bytes[0], bytes[1]]);
    let (sign, bias) = (if bits >> 15 == 0 { 1.0 } else { -1.0 }, (1 << (exponent_bits - 1)) - 1);
    let exponent = i32::from(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    let mantissa = f64::from(bits & ((1 << mantissa_bits) - 1));
    let leading = if exponent == 0 { 0.0 } else { f64::from(1 << mantissa_bits) };
    match (exponent == (1 << exponent_bits) - 1, mantissa == 0.0) {
        (true, true) => sign * f64::INFINITY,
        (true, false) => f64::NAN,
        _ => sign * (leading + mantissa) * 2f64.powi(exponent.max(1) - bias - mantissa_bits),
    }
}

fn from_float(element_type: CollectiveElementType, value: f64) -> Vec<u8> {
    match element_type {
        CollectiveElementType::FLOAT_16 => narrow(5, 10, value).to_le_bytes().to_vec(),
        CollectiveElementType::BFLOAT_16 => narrow(8, 7, value).to_le_bytes().to_vec(),
        CollectiveElementType::FLOAT_32 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

fn to_float(element_type: CollectiveElementType, bytes: &[u8]) -> f64 {
    match element_type {
        CollectiveElementType::FLOAT_16 => widen(5, 10, bytes),
        CollectiveElementType::BFLOAT_16 => widen(8, 7, bytes),
        CollectiveElementType::FLOAT_32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
        _ => f64::from_le_bytes(bytes.try_into().unwrap()),
    }
}

/// The value of the low bits of an integer in its type.
fn wrapped(element_type: CollectiveElementType, value: i128) -> i128 {
    let bits = 8 * size(element_type) as u32;
    let low = value & ((1 << bits) - 1);
    if is_signed(element_type) && low >> (bits - 1) != 0 { low - (1 << bits) } else { low }
}

fn to_integer(element_type: CollectiveElementType, bytes: &[u8]) -> i128 {
    let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | i128::from(*byte));
    wrapped(element_type, value)
}

fn reduce_floats(element_type: CollectiveElementType, reduction: CollectiveReduction, values: &[f64]) -> f64 {
    // Every type but the widest is reduced as `f32`.
    let rounded = |value: f64| {
        if element_type == CollectiveElementType::FLOAT_64 { value } else { f64::from(value as f32) }
    };
    let has_nan = values.iter().any(|value| value.is_nan());
    let order = |left: &&f64, right: &&f64| left.total_cmp(right);
    match reduction {
        CollectiveReduction::MINIMUM | CollectiveReduction::MAXIMUM if has_nan => f64::NAN,
        CollectiveReduction::MINIMUM => *values.iter().min_by(order).unwrap(),
        CollectiveReduction::MAXIMUM => *values.iter().max_by(order).unwrap(),
        CollectiveReduction::PRODUCT => values[1..].iter().fold(values[0], |sum, value| rounded(sum * value)),
        _ => {
            let sum = values[1..].iter().fold(values[0], |sum, value| rounded(sum + value));
            if reduction == CollectiveReduction::AVERAGE { rounded(sum / values.len() as f64) } else { sum }
        }
    }
}

fn reduce_integers(element_type: CollectiveElementType, reduction: CollectiveReduction, values: &[i128]) -> i128 {
    match reduction {
        CollectiveReduction::MINIMUM => *values.iter().min().unwrap(),
        CollectiveReduction::MAXIMUM => *values.iter().max().unwrap(),
        CollectiveReduction::PRODUCT => {
            values.iter().fold(1, |product, value| wrapped(element_type, i128::wrapping_mul(product, *value)))
        }
        _ => {
            let sum = wrapped(element_type, values.iter().sum());
            if reduction == CollectiveReduction::AVERAGE { sum / values.len() as i128 } else { sum }
        }
    }
}

/// The reduction of the elements of all ranks.
fn reduce(element_type: CollectiveElementType, reduction: CollectiveReduction, ranks: &[&[u8]]) -> Vec<u8> {
    let size = size(element_type);
    let mut out = Vec::new();
    for start in (0..ranks[0].len()).step_by(size) {
        let of_ranks = ranks.iter().map(|rank| &rank[start..start + size]);
        if is_float(element_type) {
            let values: Vec<f64> = of_ranks.map(|bytes| to_float(element_type, bytes)).collect();
            out.extend(from_float(element_type, reduce_floats(element_type, reduction, &values)));
        } else {
            let values: Vec<i128> = of_ranks.map(|bytes| to_integer(element_type, bytes)).collect();
            let value = reduce_integers(element_type, reduction, &values);
            out.extend_from_slice(&value.to_le_bytes()[..size]);
        }
    }
    out
}

/// The bytes that a rank has afterwards in the range that it receives into, if it receives. `sent` are those of all
/// ranks. For transfers they go in a ring: each rank sends to the next one.
pub fn received(
    kind: CollectiveKind,
    element_type: CollectiveElementType,
    reduction: CollectiveReduction,
    root: usize,
    sent: &[Vec<u8>],
    rank: usize,
) -> Option<Vec<u8>> {
    let all: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
    let part = |bytes: &[u8]| {
        let length = bytes.len() / sent.len();
        bytes[rank * length..(rank + 1) * length].to_vec()
    };
    match kind {
        CollectiveKind::ALL_GATHER => Some(all.concat()),
        CollectiveKind::ALL_REDUCE => Some(reduce(element_type, reduction, &all)),
        CollectiveKind::ALL_TO_ALL => Some(all.iter().flat_map(|bytes| part(bytes)).collect()),
        CollectiveKind::BROADCAST => Some(sent[root].clone()),
        CollectiveKind::REDUCE => (rank == root).then(|| reduce(element_type, reduction, &all)),
        CollectiveKind::REDUCE_SCATTER => Some(part(&reduce(element_type, reduction, &all))),
        _ => Some(sent[(rank + sent.len() - 1) % sent.len()].clone()),
    }
}

/// Whether elements are equal; NaNs are, whatever their bits.
pub fn same(element_type: CollectiveElementType, left: &[u8], right: &[u8]) -> bool {
    if !is_float(element_type) || left.len() != right.len() {
        return left == right;
    }
    let size = size(element_type);
    left.chunks(size).zip(right.chunks(size)).all(|(left, right)| {
        let both_nan = to_float(element_type, left).is_nan() && to_float(element_type, right).is_nan();
        left == right || both_nan
    })
}
