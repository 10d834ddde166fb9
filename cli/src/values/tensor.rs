//! A tensor in host memory, and its text: `2x2xf32=[1 2][3 4]`.

use std::fmt::{self, Write};

use super::ElementType;

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

/// Most brackets that an empty tensor is written with. Its shape can name any number of empty rows without a byte to back them.
const EMPTY_ROWS: u64 = 1 << 16;

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
        self.bytes.len() / self.element.byte_size().unwrap_or(1)
    }

    /// The bytes of element `index`.
    pub fn element(&self, index: usize) -> &[u8] {
        let size = self.element.byte_size().unwrap_or(1);
        self.bytes.get(index * size..(index + 1) * size).unwrap_or(&[])
    }

    /// The text with at most `max_elements` elements; what is left out is shown as `...`.
    pub fn to_text(&self, max_elements: usize) -> String {
        let mut text = format!("{}=", TypeText(&self.shape, self.element));
        let mut printer = Printer { tensor: self, next: 0, left: max_elements, text: &mut text };
        if self.shape.is_empty() {
            printer.row(1);
        } else {
            printer.dimensions(&self.shape);
        }
        text
    }
}

struct Printer<'a> {
    tensor: &'a Tensor,
    next: usize,
    left: usize,
    text: &'a mut String,
}

impl Printer<'_> {
    fn dimensions(&mut self, shape: &[u64]) {
        match shape {
            [] => {}
            [length] => self.row(*length),
            [outer, inner @ ..] => {
                let rows = if self.tensor.bytes.is_empty() { EMPTY_ROWS.min(*outer) } else { *outer };
                for _ in 0..rows {
                    if self.text.len() as u64 > EMPTY_ROWS && self.tensor.bytes.is_empty() {
                        break;
                    }
                    self.text.push('[');
                    self.dimensions(inner);
                    self.text.push(']');
                }
                if rows < *outer {
                    self.text.push_str("...");
                }
            }
        }
    }

    fn row(&mut self, length: u64) {
        let shown = self.left.min(usize::try_from(length).unwrap_or(usize::MAX));
        for index in 0..shown {
            if index > 0 {
                self.text.push(' ');
            }
            let element = self.tensor.element(self.next + index);
            // Writing to a string cannot fail.
            let _ = write!(self.text, "{}", self.tensor.element.format_element(element));
        }
        if (shown as u64) < length {
            self.text.push_str("...");
        }
        self.left -= shown;
        self.next = self.next.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ones(shape: &[u64]) -> Tensor {
        let count = shape.iter().rev().product::<u64>() as usize;
        Tensor { element: ElementType::F32, shape: shape.into(), bytes: 1_f32.to_le_bytes().repeat(count) }
    }

    #[test]
    fn brackets_follow_the_shape() {
        assert_eq!(ones(&[]).to_text(9), "f32=1");
        assert_eq!(ones(&[2]).to_text(9), "2xf32=1 1");
        assert_eq!(ones(&[1, 1, 1]).to_text(9), "1x1x1xf32=[[1]]");
        assert_eq!(ones(&[2, 2]).to_text(9), "2x2xf32=[1 1][1 1]");
        assert_eq!(ones(&[0]).to_text(9), "0xf32=");
        assert_eq!(ones(&[2, 0, 3]).to_text(9), "2x0x3xf32=[][]");
        assert!(ones(&[1 << 40, 1 << 40, 0]).to_text(9).len() < 200_000);
    }

    #[test]
    fn what_exceeds_the_limit_is_elided() {
        assert_eq!(ones(&[]).to_text(0), "f32=...");
        assert_eq!(ones(&[2, 3]).to_text(0), "2x3xf32=[...][...]");
        assert_eq!(ones(&[2, 3]).to_text(2), "2x3xf32=[1 1...][...]");
        assert_eq!(ones(&[2, 3]).to_text(3), "2x3xf32=[1 1 1][...]");
        assert_eq!(ones(&[2, 3]).to_text(4), "2x3xf32=[1 1 1][1...]");
    }
}
