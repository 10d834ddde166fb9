//! Vector accesses of the processor: which loads and stores of elements it has vector instructions for, and which
//! gathers; and which divisions. The shape analysis asks it.

use crate::generated::vm::primitive::Primitive;
use crate::ir::types::{Effect, Lanes, Scalar, Width};

/// Whether a vector can be loaded from consecutive elements, or stored there.
pub(crate) fn can_access(primitive: Primitive) -> bool {
    // Narrower elements than those of 32 bits are extended to lanes of 32 bits.
    let is_access = matches!(primitive.effect(), Effect::Load | Effect::Store);
    is_access && primitive.lanes(Scalar::I32) == Some(Lanes::Instructions)
}

/// The quotient and remainder of a division whose dividend may be a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// The numbers have signs.
    pub signed: bool,
    /// It gives the remainder.
    pub remainder: bool,
}

/// The division that a primitive is, if vectors can be divided so: of 32 bits by one divisor, of 64 by a constant
/// ([`can_divide_wide`]).
pub(crate) fn division(primitive: Primitive, of: Scalar) -> Option<Division> {
    let (signed, remainder) = match primitive {
        Primitive::CheckedDivS => (true, false),
        Primitive::CheckedDivU => (false, false),
        Primitive::CheckedRemS => (true, true),
        Primitive::CheckedRemU => (false, true),
        _ => return None,
    };
    (!of.is_float()).then_some(Division { signed, remainder })
}

/// Whether lanes of 64 bits can be divided by a constant: none by which a division may trap, nor one of more than 63
/// bits, or the negative of that.
pub(crate) fn can_divide_wide(divisor: u64, signed: bool) -> bool {
    let magnitude = if signed { (divisor as i64).unsigned_abs() } else { divisor };
    (2..1 << 63).contains(&magnitude)
}

/// Whether lanes can be shifted by a constant.
pub(crate) fn can_shift(primitive: Primitive, of: Scalar, width: Width) -> bool {
    let has_width = if of.is_wide() { width == Width::Four } else { !width.has_bytes() };
    has_width && !of.is_float() && matches!(primitive, Primitive::Shl | Primitive::ShrS | Primitive::ShrU)
}

/// Whether a vector can be made of bytes that are this far apart.
pub(crate) fn can_load_bytes(primitive: Primitive, by: i64) -> bool {
    // No instruction gathers less than 32 bits, so each byte is loaded by one.
    can_access(primitive) && primitive.element_shift() == 0 && (1..1 << 20).contains(&by)
}

/// Whether a vector with lanes of 8 bits can be made of bytes that are this far apart: by one load, or by two of which
/// every other byte is taken.
pub(crate) fn can_load_byte_lanes(primitive: Primitive, by: i64) -> bool {
    primitive.byte_lanes() == Some(Lanes::Instructions) && matches!(by, 1 | 2)
}

/// Whether two loads and a permutation make a vector of elements that are this far apart.
pub(crate) fn can_load_even(primitive: Primitive, by: i64) -> bool {
    can_gather(primitive, by) && primitive.element_shift() == 2 && by == 2
}

/// Whether a vector can be gathered from elements that are this far apart.
pub(crate) fn can_gather(primitive: Primitive, by: i64) -> bool {
    // One instruction gathers all elements, 32 or 64 bits of each.
    can_access(primitive) && matches!(primitive.element_shift(), 2 | 3) && (1..1 << 20).contains(&by)
}
