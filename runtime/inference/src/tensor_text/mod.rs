//! Tensors of the host as text, `2x2xf32=[1 2][3 4]`: the form in which the tools print and read them.

pub mod element;
pub mod number;
mod parse;

use vireo_core::status::Result;
use vireo_hal::{ShapeAndType, format_elements};

pub use number::NumberError;
pub use parse::{TensorTextError, byte_length, shorten, split};

use crate::tensor::HostTensor;

impl HostTensor<'_> {
    /// The shape and the type of the elements: `2x2xf32`.
    pub fn shape_and_type(&self) -> ShapeAndType<'_> {
        ShapeAndType { shape: self.shape(), element_type: self.element_type() }
    }

    /// The text, `2x2xf32=[1 2][3 4]`, with at most `max_elements` elements; what is left out is shown as `...`.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` for a tensor of very many rows without elements.
    pub fn to_text(&self, max_elements: usize) -> Result<String> {
        let mut text = format!("{}=", self.shape_and_type());
        format_elements(self.bytes(), self.shape(), self.element_type(), max_elements, &mut text)?;
        Ok(text)
    }

    /// The text of element `index`, as [`HostTensor::to_text`] has it; none if there is no such element.
    pub fn element_text(&self, index: usize) -> Option<String> {
        self.element_type().text_at(self.bytes(), index).filter(|_| index < self.element_count())
    }
}

#[cfg(test)]
mod tests {
    use vireo_core::status::StatusCode;
    use vireo_hal::ElementType;

    use super::*;

    #[test]
    fn tensors_and_their_elements_are_printed() {
        let tensor = HostTensor::new(&[2, 2], &[1.5f32, 2.0, -0.0, 1e10]).unwrap();
        assert_eq!(tensor.to_text(9).unwrap(), "2x2xf32=[1.5 2][-0 1E+10]");
        assert_eq!(tensor.to_text(1).unwrap(), "2x2xf32=[1.5...][...]");
        assert_eq!(tensor.element_text(3).as_deref(), Some("1E+10"));
        assert_eq!((tensor.element_text(4), tensor.element_text(usize::MAX)), (None, None));
        let narrow = HostTensor::from_bytes(&[3], ElementType::INT_4, vec![0xF1, 2]).unwrap();
        assert_eq!((narrow.element_count(), narrow.to_text(9).unwrap().as_str()), (3, "3xi4=1 -1 2"));
        assert_eq!(narrow.element_text(1).as_deref(), Some("-1"));
        // The last byte has room for a fourth one.
        assert_eq!((narrow.element_text(3), narrow.element(3)), (None, None));
        let opaque = HostTensor::from_bytes(&[2], ElementType::parse("*4").unwrap(), vec![0xF1]).unwrap();
        assert_eq!(opaque.element_text(1).as_deref(), Some("F"));
        let empty = HostTensor::from_bytes(&[1 << 40, 0], ElementType::INT_8, vec![]).unwrap();
        assert_eq!(empty.element_count(), 0);
        assert_eq!(empty.to_text(9).unwrap_err().code(), StatusCode::ResourceExhausted);
    }
}
