//! Vector accesses of the processor: which loads and stores of elements it has vector instructions for, and which gathers. The shape
//! analysis asks it.

use crate::generated::vm::primitive::Primitive;
use crate::ir::types::{Effect, Lanes, Scalar};

/// Whether a vector can be loaded from consecutive elements, or stored there.
pub(crate) fn can_access(primitive: Primitive) -> bool {
    // Narrower elements are extended to lanes of 32 bits.
    let is_access = matches!(primitive.effect(), Effect::Load | Effect::Store);
    is_access && primitive.lanes(Scalar::I32) == Some(Lanes::Instructions)
}

/// Whether a vector can be gathered from elements that are this far apart.
pub(crate) fn can_gather(primitive: Primitive, by: i64) -> bool {
    // One instruction gathers all elements, 32 bits of each.
    can_access(primitive) && primitive.element_shift() == 2 && (1..1 << 20).contains(&by)
}
