//! Which accesses to elements of buffers the processor has instructions for that make them in all lanes of a vector.

use crate::generated::vm::primitive::Primitive;
use crate::ir::types::{Effect, Lanes, Scalar};

/// Whether lanes can be loaded from elements that follow each other, or stored there.
pub(crate) fn can_access(primitive: Primitive) -> bool {
    // Narrower elements become lanes of 32 bits.
    let is_access = matches!(primitive.effect(), Effect::Load | Effect::Store);
    is_access && primitive.lanes(Scalar::I32) == Some(Lanes::Instructions)
}

/// Whether lanes can be loaded from elements that are this far apart.
pub(crate) fn can_gather(primitive: Primitive, by: i64) -> bool {
    // All elements are gathered by one instruction, which takes 32 bits of each.
    can_access(primitive) && primitive.element_shift() == 2 && (1..1 << 20).contains(&by)
}
