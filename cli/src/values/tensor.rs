//! A tensor in host memory: element type, shape and bytes.

use std::fmt;

use vireo::Result;
use vireo::hal::{ElementType, NumericalType, format_elements};
use vireo::inference::HostTensor;

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

impl From<HostTensor<'static>> for Tensor {
    fn from(tensor: HostTensor<'static>) -> Tensor {
        let (element, shape) = (tensor.element_type(), tensor.shape().to_vec());
        Tensor { element, shape, bytes: tensor.into_bytes() }
    }
}

impl Tensor {
    /// The same for the library, which refers to the elements.
    pub fn as_host(&self) -> Result<HostTensor<'_>> {
        HostTensor::from_bytes(&self.shape, self.element, &self.bytes[..])
    }

    /// Number of elements.
    pub fn element_count(&self) -> usize {
        match byte_size(self.element) {
            Some(size) => self.bytes.len() / size,
            // The bytes of a packed tensor may have room for more than it has.
            None => self.shape.iter().product::<u64>() as usize,
        }
    }

    /// The bytes of element `index`; none if it shares them with others.
    pub fn element_bytes(&self, index: usize) -> &[u8] {
        let size = byte_size(self.element).unwrap_or(0);
        self.bytes.get(index * size..(index + 1) * size).unwrap_or(&[])
    }

    /// True if element `index` of two tensors of one type has the same bits.
    pub fn same_element(&self, other: &Tensor, index: usize) -> bool {
        if byte_size(self.element).is_some() {
            return self.element_bytes(index) == other.element_bytes(index);
        }
        // What the bits mean does not matter.
        let bits = ElementType::new(NumericalType::INTEGER_UNSIGNED, self.element.bit_count() as u8);
        bits.value_at(&self.bytes, index) == bits.value_at(&other.bytes, index)
    }

    /// The text of element `index`.
    pub fn element_text(&self, index: usize) -> Result<String> {
        let mut text = String::new();
        match self.element.value_at(&self.bytes, index).filter(|_| self.element.is_packed()) {
            Some(value) => text.push_str(&value.to_string()),
            None => format_elements(self.element_bytes(index), &[], self.element, 1, &mut text)?,
        }
        Ok(text)
    }

    /// The text, `2x2xf32=[1 2][3 4]`, with at most `max_elements` elements; what is left out is shown as `...`.
    pub fn to_text(&self, max_elements: usize) -> Result<String> {
        let mut text = format!("{}=", TypeText(&self.shape, self.element));
        format_elements(&self.bytes, &self.shape, self.element, max_elements, &mut text)?;
        Ok(text)
    }
}
