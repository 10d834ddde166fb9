//! Conversions between tensors and slices of Rust values, and with the feature `ndarray` arrays, for hosts.
//!
//! A Rust type stands for the element types that have its values: `i32` for `i32` and `si32`, `u8` for `ui8` and `i8`, `bool` for `i1`. The
//! feature `half` adds `half::f16` and `half::bf16`.

use super::{BufferView, Device, ElementType};
use crate::status::{Result, Status};

mod sealed {
    /// The bytes of an element.
    pub trait Bytes: Sized {
        const SIZE: usize;

        fn append(self, out: &mut Vec<u8>);

        /// From [`Self::SIZE`] bytes.
        fn read(bytes: &[u8]) -> Self;
    }
}

/// A Rust type whose values are elements of tensors.
pub trait HostElement: Copy + sealed::Bytes + 'static {
    /// The type of the elements of tensors that are made of slices.
    const ELEMENT_TYPE: ElementType;

    /// All types whose elements can be read as this type.
    const READABLE: &'static [ElementType];
}

macro_rules! host_elements {
    ($($ty:ty, $made:ident, $($read:ident)*;)*) => {$(
        impl sealed::Bytes for $ty {
            const SIZE: usize = size_of::<$ty>();

            fn append(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> $ty {
                let mut le = [0; size_of::<$ty>()];
                le.copy_from_slice(bytes);
                <$ty>::from_le_bytes(le)
            }
        }

        impl HostElement for $ty {
            const ELEMENT_TYPE: ElementType = ElementType::$made;
            const READABLE: &'static [ElementType] = &[$(ElementType::$read),*];
        }
    )*};
}

host_elements! {
    i8, INT_8, INT_8 SINT_8;
    i16, INT_16, INT_16 SINT_16;
    i32, INT_32, INT_32 SINT_32;
    i64, INT_64, INT_64 SINT_64;
    u8, UINT_8, UINT_8 INT_8 OPAQUE_8;
    u16, UINT_16, UINT_16 INT_16;
    u32, UINT_32, UINT_32 INT_32;
    u64, UINT_64, UINT_64 INT_64;
    f32, FLOAT_32, FLOAT_32;
    f64, FLOAT_64, FLOAT_64;
}

#[cfg(feature = "half")]
host_elements! {
    half::f16, FLOAT_16, FLOAT_16;
    half::bf16, BFLOAT_16, BFLOAT_16;
}

impl sealed::Bytes for bool {
    const SIZE: usize = 1;

    fn append(self, out: &mut Vec<u8>) {
        out.push(self.into());
    }

    fn read(bytes: &[u8]) -> bool {
        bytes.iter().any(|byte| *byte != 0)
    }
}

impl HostElement for bool {
    const ELEMENT_TYPE: ElementType = ElementType::BOOL_8;
    const READABLE: &'static [ElementType] = &[ElementType::BOOL_8];
}

impl BufferView {
    /// A dense tensor on `device`, row by row, with a copy of `elements`.
    ///
    /// ```
    /// use vireo::hal::{BufferView, create_device};
    ///
    /// # fn main() -> vireo::Result<()> {
    /// let device = create_device("local-sync")?;
    /// let view = BufferView::from_slice(&*device, &[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
    /// assert_eq!(view.shape_and_type(), "2x2xf32");
    /// assert_eq!(view.to_elements::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` unless there are as many elements as the shape has, and failures of the device's allocator.
    pub fn from_slice<T: HostElement>(device: &dyn Device, shape: &[u64], elements: &[T]) -> Result<BufferView> {
        BufferView::from_elements(device, shape, elements.len(), elements.iter().copied())
    }

    fn from_elements<T: HostElement>(
        device: &dyn Device,
        shape: &[u64],
        count: usize,
        elements: impl Iterator<Item = T>,
    ) -> Result<BufferView> {
        let expected = shape.iter().try_fold(1u64, |count, dim| count.checked_mul(*dim));
        if expected != Some(count as u64) {
            let message = format!("{count} elements for a tensor of shape {shape:?}: expected as many as it has");
            return Err(Status::invalid_argument(message));
        }
        let mut bytes = Vec::with_capacity(count.saturating_mul(T::SIZE));
        elements.for_each(|element| element.append(&mut bytes));
        BufferView::from_bytes(device, shape, T::ELEMENT_TYPE, &bytes)
    }

    /// A copy of the elements, row by row.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if they are of a type that `T` does not stand for, and failures of reading the buffer.
    pub fn to_elements<T: HostElement>(&self) -> Result<Vec<T>> {
        let element_type = self.element_type();
        if !T::READABLE.contains(&element_type) {
            let message = format!(
                "elements of {} cannot be read as {}: expected {}",
                self.shape_and_type(),
                std::any::type_name::<T>(),
                T::READABLE.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
            );
            return Err(Status::invalid_argument(message));
        }
        Ok(self.to_vec()?.chunks_exact(T::SIZE).map(T::read).collect())
    }
}

#[cfg(feature = "ndarray")]
impl BufferView {
    /// A dense tensor on `device` with a copy of an array.
    ///
    /// # Errors
    /// Failures of the device's allocator.
    pub fn from_array<T, S, D>(device: &dyn Device, array: &ndarray::ArrayBase<S, D>) -> Result<BufferView>
    where
        T: HostElement,
        S: ndarray::Data<Elem = T>,
        D: ndarray::Dimension,
    {
        let shape: Vec<u64> = array.shape().iter().map(|dim| *dim as u64).collect();
        // The iterator goes row by row, whatever the layout.
        BufferView::from_elements(device, &shape, array.len(), array.iter().copied())
    }

    /// A copy of the elements as an array.
    ///
    /// # Errors
    /// As [`BufferView::to_elements`].
    pub fn to_array<T: HostElement>(&self) -> Result<ndarray::ArrayD<T>> {
        let dims = self.shape().iter().map(|dim| usize::try_from(*dim));
        let dims: std::result::Result<Vec<usize>, _> = dims.collect();
        let dims = dims.map_err(|_| Status::out_of_range("the shape does not fit the address space"))?;
        ndarray::ArrayD::from_shape_vec(dims, self.to_elements()?)
            .map_err(|error| Status::internal("the elements do not fill the shape").with_source(error))
    }
}
