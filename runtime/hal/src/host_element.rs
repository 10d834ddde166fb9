//! Conversions between tensors and slices of Rust values, and with the feature `ndarray` arrays, for hosts.
//!
//! A Rust type stands for the element types that have its values: `i32` for `i32` and `si32`, `u8` for `ui8` and `i8`,
//! `bool` for `i1`. The feature `half` adds `half::f16` and `half::bf16`.

use std::borrow::Cow;

use bytemuck::{CheckedBitPattern, NoUninit};

use super::{BufferView, Device, ElementType, buffer_read, check_range};
use crate::status::{Result, Status};

#[cfg(target_endian = "big")]
compile_error!("elements of tensors are little-endian, and conversions take those of the host as they are");

mod sealed {
    use crate::status::Result;

    /// Types of elements, which are here alone.
    pub trait Sealed: Sized {
        /// A list of `count` elements, whose bytes `fill` writes.
        fn read_all(count: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Vec<Self>>;
    }
}

/// A Rust type whose values are elements of tensors.
pub trait HostElement:
    NoUninit + CheckedBitPattern + PartialEq + std::fmt::Debug + Send + Sync + sealed::Sealed
{
    /// The type of the elements of tensors that are made of slices.
    const ELEMENT_TYPE: ElementType;

    /// All types whose elements can be read as this type.
    const READABLE: &'static [ElementType];

    /// Whether any bits are a value of the type; those of a `bool` are not.
    const HAS_ANY_BITS: bool;
}

macro_rules! host_elements {
    ($($ty:ty, $made:ident, $($read:ident)*;)*) => {$(
        impl sealed::Sealed for $ty {
            fn read_all(count: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Vec<$ty>> {
                let mut elements = vec![bytemuck::Zeroable::zeroed(); count];
                fill(bytemuck::cast_slice_mut(&mut elements))?;
                Ok(elements)
            }
        }

        impl HostElement for $ty {
            const ELEMENT_TYPE: ElementType = ElementType::$made;
            const READABLE: &'static [ElementType] = &[$(ElementType::$read),*];
            const HAS_ANY_BITS: bool = true;
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

impl sealed::Sealed for bool {
    fn read_all(count: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Vec<bool>> {
        // A kernel may write any byte, and a `bool` is zero or one.
        let bytes = u8::read_all(count, fill)?;
        Ok(bytes.into_iter().map(|byte| byte != 0).collect())
    }
}

impl HostElement for bool {
    const ELEMENT_TYPE: ElementType = ElementType::BOOL_8;
    const READABLE: &'static [ElementType] = &[ElementType::BOOL_8];
    const HAS_ANY_BITS: bool = false;
}

/// The bytes of elements, as tensors have them.
pub fn bytes_of<T: HostElement>(elements: &[T]) -> &[u8] {
    bytemuck::cast_slice(elements)
}

/// The elements in `bytes`, without a copy where they are aligned and are values of the type.
///
/// # Errors
/// `INVALID_ARGUMENT` if they are not a whole number of elements.
pub fn elements_of<T: HostElement>(bytes: &[u8]) -> Result<Cow<'_, [T]>> {
    if let Ok(elements) = bytemuck::checked::try_cast_slice(bytes) {
        return Ok(Cow::Borrowed(elements));
    }
    let count = bytes.len() / size_of::<T>();
    if count * size_of::<T>() != bytes.len() {
        let name = std::any::type_name::<T>();
        return Err(Status::invalid_argument(format!("{} bytes are no whole number of {name}", bytes.len())));
    }
    let fill = |out: &mut [u8]| {
        out.copy_from_slice(bytes);
        Ok(())
    };
    T::read_all(count, fill).map(Cow::Owned)
}

/// Checks that elements of a type can be read as `T`; `what` are the elements.
///
/// # Errors
/// `INVALID_ARGUMENT` if they cannot.
pub fn check_readable<T: HostElement>(element_type: ElementType, what: impl FnOnce() -> String) -> Result<()> {
    if T::READABLE.contains(&element_type) {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "elements of {} cannot be read as {}: expected {}",
        what(),
        std::any::type_name::<T>(),
        T::READABLE.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
    )))
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
        let expected = shape.iter().try_fold(1u64, |count, dim| count.checked_mul(*dim));
        if expected != Some(elements.len() as u64) {
            let count = elements.len();
            let message = format!("{count} elements for a tensor of shape {shape:?}: expected as many as it has");
            return Err(Status::invalid_argument(message));
        }
        BufferView::from_bytes(device, shape, T::ELEMENT_TYPE, bytes_of(elements))
    }

    /// A copy of the elements, row by row.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if they are of a type that `T` does not stand for, and failures of reading the buffer.
    pub fn to_elements<T: HostElement>(&self) -> Result<Vec<T>> {
        check_readable::<T>(self.element_type(), || self.shape_and_type())?;
        let count = usize::try_from(self.element_count());
        let count = count.map_err(|_| Status::out_of_range("the elements do not fit the address space"))?;
        // A tensor of another encoding may have fewer bytes than its shape says. No more memory is taken than the
        // buffer has.
        check_range(self.buffer().byte_length(), 0, self.byte_length())?;
        T::read_all(count, |out| buffer_read(&**self.buffer(), 0, out))
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
        match array.as_slice() {
            Some(elements) => BufferView::from_slice(device, &shape, elements),
            // The iterator goes row by row, whatever the layout.
            None => BufferView::from_slice(device, &shape, &array.iter().copied().collect::<Vec<T>>()),
        }
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
