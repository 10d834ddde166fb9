//! Values as users write and read them: the syntax of inputs, the text of outputs, files, and comparison. Commands call it; it runs nothing.

pub mod collection;
pub mod compare;
pub mod datum;
mod differences;
pub mod error;
pub mod output;
pub mod spec;
pub mod streams;

pub use datum::Datum;
pub use error::ValueError;

use vireo::hal::ElementType;

/// Bounds on what a value may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes of one tensor.
    pub max_tensor_bytes: u64,
}

impl Limits {
    /// Bytes of a tensor, checked against the limit before anything is allocated.
    pub fn byte_length(self, shape: &[u64], element: ElementType) -> Result<usize, ValueError> {
        if element.bit_count() == 0 {
            return Err(ValueError::NoWidth(element));
        }
        let product = shape.iter().try_fold(1_u64, |count, dimension| count.checked_mul(*dimension));
        let product = product.and_then(|count| element.packed_byte_count(count));
        let length = product.filter(|bytes| *bytes <= self.max_tensor_bytes);
        let length = length.and_then(|bytes| usize::try_from(bytes).ok());
        length.ok_or_else(|| ValueError::too_large(shape, element, product, self.max_tensor_bytes))
    }
}
