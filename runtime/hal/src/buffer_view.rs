//! Buffer views: buffers with a shape, an element type and an encoding, which are the tensors that programs and hosts
//! exchange.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Buffer, BufferRefObject, Device, ElementType, EncodingType, Handle, buffer_from_bytes, buffer_to_vec};
use crate::VmType;
use crate::status::{Result, Status};
use crate::vm::{Obj, Object, Ref};

/// Most dimensions a view may have.
const MAX_RANK: usize = 128;

/// `hal.buffer_view`. Views never change and programs make one for each result, so the heap object holds the view
/// itself.
pub type BufferViewRef = BufferView;

/// A buffer with a shape, an element type and an encoding. Elements start at the first byte of the buffer.
pub struct BufferView {
    /// As the reference that programs ask for at every call.
    buffer: Obj<BufferRefObject>,
    shape: SmallVec<[u64; 4]>,
    element_type: ElementType,
    encoding: EncodingType,
    byte_length: u64,
}

impl BufferView {
    /// A view of `buffer`. The elements must fit the buffer if the encoding is dense.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for more than 128 dimensions, `OUT_OF_RANGE` if the elements do not fit the buffer or their
    /// size overflows.
    pub fn new(
        buffer: Arc<dyn Buffer>,
        shape: &[u64],
        element_type: ElementType,
        encoding: EncodingType,
    ) -> Result<BufferView> {
        BufferView::of(Obj::new(Handle(buffer)), shape, element_type, encoding)
    }

    /// The same, of a buffer that a program refers to.
    ///
    /// # Errors
    /// As [`BufferView::new`].
    pub fn of(
        buffer: Obj<BufferRefObject>,
        shape: &[u64],
        element_type: ElementType,
        encoding: EncodingType,
    ) -> Result<BufferView> {
        if shape.len() > MAX_RANK {
            return Err(Status::invalid_argument(format!("rank {}: expected at most {MAX_RANK}", shape.len())));
        }
        let byte_length = dense_byte_length(shape, element_type)?;
        if encoding == EncodingType::DENSE_ROW_MAJOR && byte_length > buffer.byte_length() {
            return Err(Status::out_of_range(format!(
                "a view of {byte_length} bytes ({}) does not fit a buffer of {} bytes",
                ShapeAndType { shape, element_type },
                buffer.byte_length()
            )));
        }
        Ok(BufferView { buffer, shape: shape.into(), element_type, encoding, byte_length })
    }

    /// A dense tensor on `device`, row by row, with a copy of the elements in `bytes` (little-endian).
    ///
    /// # Errors
    /// Those of the allocator of the device, and as [`BufferView::new`] for the bytes that are given.
    pub fn from_bytes(
        device: &dyn Device,
        shape: &[u64],
        element_type: ElementType,
        bytes: &[u8],
    ) -> Result<BufferView> {
        let buffer = buffer_from_bytes(device, bytes)?;
        BufferView::new(buffer, shape, element_type, EncodingType::DENSE_ROW_MAJOR)
    }

    /// A copy of the elements as bytes.
    ///
    /// # Errors
    /// As [`buffer_to_vec`]; `OUT_OF_RANGE` also if the buffer is smaller than a dense tensor, as for another encoding.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        buffer_to_vec(&*self.buffer.0, self.byte_length)
    }

    /// The view as programs pass it around.
    pub fn into_ref(self) -> Ref {
        Ref::new(self)
    }

    /// The buffer that holds the elements.
    pub fn buffer(&self) -> &Arc<dyn Buffer> {
        &self.buffer.0
    }

    /// The same, mutably, if nothing else refers to the object that programs refer to.
    pub(super) fn buffer_mut(&mut self) -> Option<&mut Arc<dyn Buffer>> {
        self.buffer.get_mut().map(|handle| &mut handle.0)
    }

    /// The same, as programs refer to it.
    pub fn buffer_reference(&self) -> &Obj<BufferRefObject> {
        &self.buffer
    }

    /// Size of each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Number of elements.
    pub fn element_count(&self) -> u64 {
        // The byte length did not overflow, so this can only if a dimension is zero.
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product() }
    }

    /// The element type.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// The encoding.
    pub fn encoding(&self) -> EncodingType {
        self.encoding
    }

    /// Bytes of all elements, narrow ones packed.
    pub fn byte_length(&self) -> u64 {
        self.byte_length
    }

    /// The shape and the element type as tools write them, such as `2x3xf32`.
    pub fn shape_and_type(&self) -> String {
        ShapeAndType { shape: &self.shape, element_type: self.element_type }.to_string()
    }
}

/// Bytes of a dense tensor, narrow elements packed.
///
/// # Errors
/// `OUT_OF_RANGE` if they are more than 64 bits can count.
pub fn dense_byte_length(shape: &[u64], element_type: ElementType) -> Result<u64> {
    // A zero makes the product zero, however large the others are.
    let count =
        if shape.contains(&0) { Some(0) } else { shape.iter().try_fold(1u64, |count, dim| count.checked_mul(*dim)) };
    count
        .and_then(|count| element_type.packed_byte_count(count))
        .ok_or_else(|| Status::out_of_range(format!("the size of {} overflows", ShapeAndType { shape, element_type })))
}

/// A shape and an element type as tools write them: `2x3xf32`.
#[derive(Clone, Copy, Debug)]
pub struct ShapeAndType<'a> {
    /// The size of each dimension, outermost first.
    pub shape: &'a [u64],
    /// The type of the elements.
    pub element_type: ElementType,
}

impl fmt::Display for ShapeAndType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for dim in self.shape {
            // Programs have signed numbers, and no tensor is so large that the sign means anything else.
            write!(f, "{}x", dim.cast_signed())?;
        }
        self.element_type.fmt(f)
    }
}

impl fmt::Debug for BufferView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shape_and_type())
    }
}

impl Object for BufferView {
    const TYPE_NAME: &'static str = <BufferView as VmType>::TYPE_NAME;

    fn footprint(&self) -> u64 {
        (size_of_val(self) + size_of_val(self.shape())) as u64
    }
}
