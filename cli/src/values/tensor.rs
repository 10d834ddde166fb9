//! A tensor in host memory.

use std::fmt;

use vireo::hal::{ElementType, format_elements};
use vireo::{Result, Status};

use super::element::byte_size;

/// Elements in row-major order with their type and shape. The product of the shape and the element's size is the length of `bytes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The type of each element.
    pub element: ElementType,
    /// The dimensions, outermost first.
    pub shape: Vec<u64>,
    /// The contents.
    pub bytes: Vec<u8>,
}

/// `2x3xf32`, the type of a tensor.
pub struct TypeText<'a>(pub &'a [u64], pub ElementType);

impl fmt::Display for TypeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|dimension| write!(f, "{dimension}x"))?;
        write!(f, "{}", self.1)
    }
}

impl Tensor {
    /// Number of elements.
    pub fn element_count(&self) -> usize {
        self.bytes.len() / byte_size(self.element).unwrap_or(1)
    }

    /// The bytes of element `index`.
    pub fn element_bytes(&self, index: usize) -> &[u8] {
        let size = byte_size(self.element).unwrap_or(1);
        self.bytes.get(index * size..(index + 1) * size).unwrap_or(&[])
    }

    /// The text of element `index`.
    pub fn element_text(&self, index: usize) -> Result<String> {
        let mut text = String::new();
        format_elements(self.element_bytes(index), &[], self.element, 1, &mut text)?;
        Ok(text)
    }

    /// The text, `2x2xf32=[1 2][3 4]`, with at most `max_elements` elements; what is left out is shown as `...`.
    pub fn to_text(&self, max_elements: usize) -> Result<String> {
        if byte_size(self.element).is_none() {
            let message = format!("elements of type {} are packed and have no text form yet", self.element);
            return Err(Status::unimplemented(message));
        }
        let mut text = format!("{}=", TypeText(&self.shape, self.element));
        format_elements(&self.bytes, &self.shape, self.element, max_elements, &mut text)?;
        Ok(text)
    }
}
