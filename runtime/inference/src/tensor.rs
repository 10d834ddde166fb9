//! Tensors: of the host, before they are copied to a device ([`HostTensor`]), and on a device ([`Tensor`]), with what
//! reads their elements ([`Elements`]).

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use smallvec::SmallVec;
use vireo_core::status::{Result, Status};
use vireo_hal::{
    BufferView, Device, ElementType, ElementValue, ExclusiveBytes, HostElement, NumericalType, bytes_of,
    check_readable, dense_byte_length, elements_of, overwrite_exclusive,
};
use vireo_vm::{Obj, Ref};

use crate::signature::TensorType;

/// The elements of a tensor in memory of the host, row by row, borrowed or owned.
#[derive(Clone, Debug)]
pub struct HostTensor<'a> {
    shape: SmallVec<[u64; 4]>,
    element_type: ElementType,
    /// The types that the elements may be taken for: `u8` are `ui8`, and `i8` to programs that do not care about the
    /// sign.
    readable: &'static [ElementType],
    bytes: Cow<'a, [u8]>,
}

impl<'a> HostTensor<'a> {
    /// A tensor of these elements.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` unless there are as many elements as the shape has.
    pub fn new<T: HostElement>(shape: &[u64], elements: &'a [T]) -> Result<HostTensor<'a>> {
        let tensor = HostTensor::unchecked(shape.iter().copied().collect(), elements);
        tensor.check()?;
        Ok(tensor)
    }

    /// The same, of a shape that has to be checked.
    pub(crate) fn unchecked<T: HostElement>(shape: SmallVec<[u64; 4]>, elements: &'a [T]) -> HostTensor<'a> {
        let bytes = Cow::Borrowed(bytes_of(elements));
        HostTensor { shape, element_type: T::ELEMENT_TYPE, readable: T::READABLE, bytes }
    }

    /// Fails unless there are as many elements as the shape has.
    pub(crate) fn check(&self) -> Result<()> {
        let (shape, element_type) = (&self.shape, self.element_type);
        let expected = dense_byte_length(shape, element_type)?;
        if expected == self.bytes.len() as u64 {
            return Ok(());
        }
        Err(Status::invalid_argument(format!(
            "{} bytes for a tensor of shape {shape:?} and element type {element_type}: expected {expected}",
            self.bytes.len()
        )))
    }

    /// A list of elements.
    pub fn from_slice<T: HostElement>(elements: &'a [T]) -> HostTensor<'a> {
        HostTensor::unchecked(SmallVec::from_slice(&[elements.len() as u64]), elements)
    }

    /// A tensor of rank zero.
    pub fn from_scalar<T: HostElement>(value: T) -> HostTensor<'static> {
        let bytes = Cow::Owned(bytes_of(&[value]).to_vec());
        HostTensor { shape: SmallVec::new(), element_type: T::ELEMENT_TYPE, readable: T::READABLE, bytes }
    }

    /// A tensor of any type, whose elements are in `bytes` as devices have them: little-endian, narrow ones packed.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` unless there are as many bytes as the tensor has.
    pub fn from_bytes(
        shape: &[u64],
        element_type: ElementType,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<HostTensor<'a>> {
        let tensor =
            HostTensor { shape: shape.iter().copied().collect(), element_type, readable: &[], bytes: bytes.into() };
        tensor.check()?;
        Ok(tensor)
    }

    /// A tensor of bytes whose number is that of the shape.
    pub(crate) fn dense(shape: &[u64], element_type: ElementType, bytes: Vec<u8>) -> HostTensor<'static> {
        HostTensor { shape: shape.iter().copied().collect(), element_type, readable: &[], bytes: Cow::Owned(bytes) }
    }

    /// The elements of an array, row by row. They are copied if the array has them in another order.
    #[cfg(feature = "ndarray")]
    pub fn from_array<T, S, D>(array: &'a ndarray::ArrayBase<S, D>) -> HostTensor<'a>
    where
        T: HostElement,
        S: ndarray::Data<Elem = T>,
        D: ndarray::Dimension,
    {
        let shape = array.shape().iter().map(|size| *size as u64).collect();
        match array.as_slice() {
            Some(elements) => HostTensor::unchecked(shape, elements),
            None => {
                let elements: Vec<T> = array.iter().copied().collect();
                let bytes = Cow::Owned(bytes_of(&elements).to_vec());
                HostTensor { shape, element_type: T::ELEMENT_TYPE, readable: T::READABLE, bytes }
            }
        }
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// The elements as bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many elements it has.
    pub fn element_count(&self) -> usize {
        // The elements fit memory, so the product can only overflow where a dimension is zero.
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product::<u64>() as usize }
    }

    /// The value of element `index`, row by row; none if there is no such element, or if its type has no numerical
    /// meaning.
    pub fn element(&self, index: usize) -> Option<ElementValue> {
        self.element_type.value_at(&self.bytes, index).filter(|_| index < self.element_count())
    }

    /// True if element `index` of two tensors of one type has the same bits, or neither has such an element.
    pub fn same_bits(&self, other: &HostTensor<'_>, index: usize) -> bool {
        let Some(size) = self.element_type.byte_size() else {
            // The meaning of the bits does not matter.
            let bits = ElementType::new(NumericalType::INTEGER_UNSIGNED, self.element_type.bit_count() as u8);
            return bits.value_at(&self.bytes, index) == bits.value_at(&other.bytes, index);
        };
        let (start, end) = (index.checked_mul(size), index.checked_add(1).and_then(|end| end.checked_mul(size)));
        let Some((start, end)) = start.zip(end) else { return true };
        self.bytes.get(start..end) == other.bytes.get(start..end)
    }

    /// The elements as bytes of their own.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_owned()
    }

    /// `wanted`, if the elements may be taken for that; else their type.
    pub(crate) fn element_type_for(&self, wanted: ElementType) -> ElementType {
        if self.readable.contains(&wanted) { wanted } else { self.element_type }
    }

    /// A copy on a device.
    ///
    /// # Errors
    /// Failures of the device's allocator.
    pub fn to_device(&self, device: &dyn Device) -> Result<Tensor> {
        self.to_device_as(self.element_type, device)
    }

    /// The same with elements that are taken for `element_type`.
    pub(crate) fn to_device_as(&self, element_type: ElementType, device: &dyn Device) -> Result<Tensor> {
        BufferView::from_bytes(device, &self.shape, element_type, &self.bytes).map(|view| Tensor(Obj::new(view)))
    }
}

/// Equal in shape, type and bits.
impl PartialEq for HostTensor<'_> {
    fn eq(&self, other: &HostTensor<'_>) -> bool {
        self.shape == other.shape && self.element_type == other.element_type && self.bytes == other.bytes
    }
}

/// A tensor on a device, as programs take and return it. Cheap to clone: clones share the memory.
#[derive(Clone)]
pub struct Tensor(Obj<BufferView>);

impl Tensor {
    /// The size of each dimension.
    pub fn shape(&self) -> &[u64] {
        self.0.shape()
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.0.element_type()
    }

    /// The buffer view that it is.
    pub fn view(&self) -> &BufferView {
        &self.0
    }

    /// A copy of the elements, row by row.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if they are of a type that `T` does not stand for, and failures of reading the device.
    pub fn to_vec<T: HostElement>(&self) -> Result<Vec<T>> {
        self.0.to_elements()
    }

    /// A copy in memory of the host, whatever the type of the elements is.
    ///
    /// # Errors
    /// Failures of reading the device, and `INVALID_ARGUMENT` for a tensor in another encoding than row by row.
    pub fn to_host(&self) -> Result<HostTensor<'static>> {
        HostTensor::from_bytes(self.shape(), self.element_type(), self.0.to_vec()?)
    }

    /// The value of a tensor of one element.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`], and `INVALID_ARGUMENT` for a tensor of another number of elements.
    pub fn to_scalar<T: HostElement>(&self) -> Result<T> {
        match self.to_vec()?[..] {
            [value] => Ok(value),
            _ => Err(Status::invalid_argument(format!("{} has not one element", self.0.shape_and_type()))),
        }
    }

    /// A copy of the elements as an array.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    #[cfg(feature = "ndarray")]
    pub fn to_array<T: HostElement>(&self) -> Result<ndarray::ArrayD<T>> {
        self.0.to_array()
    }

    /// The elements where they are, if this is the only reference to a tensor in memory of the host, which results of
    /// calls often are; else a copy.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    pub fn into_elements<T: HostElement>(self) -> Result<Elements<T>> {
        check_readable::<T>(self.element_type(), || self.0.shape_and_type())?;
        let shape = self.shape().iter().copied().collect();
        let storage = match ExclusiveBytes::of(self.0) {
            // Where not every byte is a value, each look at the elements would have to check them all.
            Ok(bytes) if T::HAS_ANY_BITS && matches!(elements_of::<T>(&bytes), Ok(Cow::Borrowed(_))) => {
                Storage::Exclusive(bytes)
            }
            Ok(bytes) => Storage::Copy(bytes.into_view().to_elements()?),
            Err(view) => Storage::Copy(view.to_elements()?),
        };
        Ok(Elements { shape, storage, element: PhantomData })
    }

    pub(crate) fn into_ref(self) -> Ref {
        self.0.into_ref()
    }

    /// Overwrites the elements with those of `other`, taken for `element_type`, if that makes a tensor of the same type
    /// and nothing else refers to this tensor. Returns whether it did.
    pub(crate) fn overwrite(&mut self, other: &HostTensor<'_>, element_type: ElementType) -> Result<bool> {
        if self.shape() != other.shape() || self.element_type() != element_type {
            return Ok(false);
        }
        overwrite_exclusive(&mut self.0, other.bytes())
    }
}

impl From<Obj<BufferView>> for Tensor {
    fn from(view: Obj<BufferView>) -> Tensor {
        Tensor(view)
    }
}

impl From<Tensor> for Obj<BufferView> {
    fn from(tensor: Tensor) -> Obj<BufferView> {
        tensor.0
    }
}

/// `2x3xf32`
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The elements of a tensor in memory of the host: a slice, with a shape.
pub struct Elements<T> {
    shape: SmallVec<[u64; 4]>,
    storage: Storage<T>,
    element: PhantomData<T>,
}

enum Storage<T> {
    /// Those of the tensor itself. They are aligned values of the type.
    Exclusive(ExclusiveBytes),
    Copy(Vec<T>),
}

impl<T: HostElement> Elements<T> {
    /// The size of each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// True if they are where the program wrote them, without a copy.
    pub fn is_in_place(&self) -> bool {
        matches!(self.storage, Storage::Exclusive(_))
    }

    /// The elements as an array.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` for a shape that does not fit the address space, which only a tensor without elements can have.
    #[cfg(feature = "ndarray")]
    pub fn as_array(&self) -> Result<ndarray::ArrayViewD<'_, T>> {
        let shape = self.shape.iter().map(|size| usize::try_from(*size)).collect::<std::result::Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| Status::out_of_range("the shape does not fit the address space"))?;
        ndarray::ArrayViewD::from_shape(shape, self)
            .map_err(|error| Status::out_of_range("the shape does not fit the address space").with_source(error))
    }
}

impl<T: HostElement> Deref for Elements<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.storage {
            Storage::Copy(elements) => elements,
            Storage::Exclusive(bytes) => match elements_of(bytes) {
                Ok(Cow::Borrowed(elements)) => elements,
                // They were found to be aligned values of the type, and nothing else writes to them.
                _ => unreachable!("exclusive elements do not change"),
            },
        }
    }
}

impl<T: HostElement> fmt::Debug for Elements<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elements").field("shape", &self.shape).field("elements", &&**self).finish()
    }
}
impl TensorType {
    /// True if a program that checks its arguments itself may take a tensor as one of the type: it has the shape and
    /// the width of the elements. Whether integers have a sign is up to the program.
    pub fn may_be(&self, tensor: &HostTensor<'_>) -> bool {
        let class = |of: ElementType| match of.numerical() {
            numerical if is_integer(numerical) => (of.bit_count(), None),
            numerical => (of.bit_count(), Some(numerical)),
        };
        self.allows_shape(tensor.shape()) && class(self.element_type) == class(tensor.element_type())
    }
}

fn is_integer(of: NumericalType) -> bool {
    matches!(of, NumericalType::INTEGER | NumericalType::INTEGER_SIGNED | NumericalType::INTEGER_UNSIGNED)
}
