//! Verification of vectors of unions, which the `flatbuffers` crate lacks. The generated readers call it.
//!
//! A vector of unions is two vectors of equal length: one of tags and one of offsets. The crate verifies single unions
//! only.

use flatbuffers::{InvalidFlatbuffer, SIZE_UOFFSET, TableVerifier, VOffsetT, Verifier};

/// Verifies a vector of unions: both vectors are there or neither is, they are equally long, and each element has the
/// type of its tag.
pub fn visit_union_vector<'verifier, 'options, 'buffer>(
    mut table: TableVerifier<'verifier, 'options, 'buffer>,
    tags_name: &'static str,
    tags_slot: VOffsetT,
    values_name: &'static str,
    values_slot: VOffsetT,
    verify: impl Fn(u8, &mut Verifier<'_, '_>, usize) -> Result<(), InvalidFlatbuffer>,
) -> Result<TableVerifier<'verifier, 'options, 'buffer>, InvalidFlatbuffer> {
    let places = (table.deref(tags_slot)?, table.deref(values_slot)?);
    let (tags, values) = match places {
        (None, None) => return Ok(table),
        (Some(tags), Some(values)) => (tags, values),
        _ => return InvalidFlatbuffer::new_inconsistent_union(tags_name, values_name),
    };
    let verifier = table.verifier();
    let (tags, tag_count) = vector(verifier, tags, 1)?;
    let (values, value_count) = vector(verifier, values, SIZE_UOFFSET)?;
    if tag_count != value_count {
        return InvalidFlatbuffer::new_inconsistent_union(tags_name, values_name);
    }
    for index in 0..tag_count {
        // The ranges of both vectors were checked, so these sums do not overflow.
        let tag = verifier.get_u8(tags + index)?;
        verify(tag, verifier, values + index * SIZE_UOFFSET)?;
    }
    Ok(table)
}

/// The position of the first element, and the number of elements, of the vector that the offset at `place` leads to.
fn vector(
    verifier: &mut Verifier<'_, '_>,
    place: usize,
    element_size: usize,
) -> Result<(usize, usize), InvalidFlatbuffer> {
    let start = place.saturating_add(verifier.get_uoffset(place)? as usize);
    let count = verifier.get_uoffset(start)? as usize;
    let first = start.saturating_add(SIZE_UOFFSET);
    verifier.range_in_buffer(first, count.saturating_mul(element_size))?;
    Ok((first, count))
}
