//! Tensors in memory of the host: results whose elements are read where the program wrote them ([`MappedTensor`]),
//! tensors over memory of another owner, and tensors that the host fills in place.
//!
//! Bindings of other languages use them, whose arrays are views of such memory, and [`dlpack`](crate::dlpack).

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use vireo_core::status::{Result, Status};
use vireo_hal::{
    BufferParams, BufferUsage, BufferView, Device, ElementType, EncodingType, ExclusiveBytes, ExternalBuffer,
    ExternalBufferType, Mapping, MappingMode, MemoryAccess, MemoryType, dense_byte_length,
};
use vireo_vm::Obj;

use crate::tensor::Tensor;

/// A tensor with its elements in memory of the host, row by row, where they stay as long as it lives: a program that
/// gets the tensor later can release the buffer, but not this memory.
#[derive(Debug)]
pub struct MappedTensor {
    tensor: Tensor,
    elements: MappedElements,
}

#[derive(Debug)]
enum MappedElements {
    InPlace(Mapping),
    Copy(Vec<u8>),
}

// SAFETY: a mapping is an address with the owner of the bytes, which is `Send + Sync`; the bytes are reached through
// raw pointers only.
unsafe impl Send for MappedTensor {}
// SAFETY: `&MappedTensor` gives the address alone.
unsafe impl Sync for MappedTensor {}

impl MappedTensor {
    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The address of the first element. It stays the same, and valid for reads of [`MappedTensor::byte_length`] bytes,
    /// as long as this lives. Programs that are given the tensor afterwards may write there.
    pub fn data(&self) -> NonNull<u8> {
        match &self.elements {
            MappedElements::InPlace(mapping) => mapping.data,
            MappedElements::Copy(bytes) => NonNull::from(&bytes[..]).cast(),
        }
    }

    /// How many bytes the elements have.
    pub fn byte_length(&self) -> usize {
        match &self.elements {
            // The memory is mapped, so its size fits the address space.
            MappedElements::InPlace(mapping) => mapping.length as usize,
            MappedElements::Copy(bytes) => bytes.len(),
        }
    }

    /// True if the elements are where the program wrote them, without a copy.
    pub fn is_in_place(&self) -> bool {
        matches!(self.elements, MappedElements::InPlace(_))
    }
}

impl Tensor {
    /// The tensor with its elements in memory of the host: in place if this is the only reference to a tensor in such
    /// memory, which results of calls often are; else a copy, since something else may write to it.
    ///
    /// # Errors
    /// Failures of reading the device, and `INVALID_ARGUMENT` for a tensor in another encoding than row by row.
    pub fn into_mapped(self) -> Result<MappedTensor> {
        let tensor = match self.map_in_place() {
            Ok(mapped) => return Ok(mapped),
            Err(tensor) => tensor,
        };
        if tensor.view().encoding() != EncodingType::DENSE_ROW_MAJOR {
            return Err(Status::invalid_argument(format!("{} is not row by row", tensor.view().shape_and_type())));
        }
        let bytes = tensor.view().to_vec()?;
        Ok(MappedTensor { tensor, elements: MappedElements::Copy(bytes) })
    }

    /// The same without a copy.
    ///
    /// # Errors
    /// The tensor itself, if something else may refer to it or to its memory, or if the memory is not the host's.
    pub fn map_in_place(self) -> Result<MappedTensor, Tensor> {
        let view = ExclusiveBytes::of(self.into()).map_err(Tensor::from)?.into_view();
        match view.buffer().map_range(MappingMode::SCOPED, MemoryAccess::READ, 0, view.byte_length()) {
            Ok(mapping) => Ok(MappedTensor { tensor: view.into(), elements: MappedElements::InPlace(mapping) }),
            Err(_) => Err(view.into()),
        }
    }

    /// A new tensor on `device`, whose elements `fill` writes in place, row by row. The bytes that it gets have any
    /// value.
    ///
    /// # Errors
    /// Failures of the device's allocator, of mapping its memory, and of `fill`.
    pub fn filled_by(
        device: &dyn Device,
        shape: &[u64],
        element_type: ElementType,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Tensor> {
        let length = dense_byte_length(shape, element_type)?;
        let buffer = device.allocator().allocate_buffer(host_params(MemoryAccess::ALL), length)?;
        let mapping = buffer.map_range(MappingMode::SCOPED, MemoryAccess::DISCARD_WRITE, 0, length)?;
        let size = usize::try_from(mapping.length)
            .map_err(|_| Status::out_of_range("the mapping does not fit the address space"))?;
        // SAFETY: the mapping has that many bytes, which are initialised as all memory of allocators is, and nothing
        // else refers to a buffer that has just been allocated.
        fill(unsafe { std::slice::from_raw_parts_mut(mapping.data.as_ptr(), size) })?;
        buffer.flush_range(0, length)?;
        drop(mapping);
        let view = BufferView::new(buffer, shape, element_type, EncodingType::DENSE_ROW_MAJOR)?;
        Ok(Tensor::from(Obj::new(view)))
    }

    /// A new tensor of zeros on `device`, whose memory the host may write to as long as no program uses it.
    ///
    /// # Errors
    /// Failures of the device's allocator and of mapping its memory.
    pub fn zeroed(device: &dyn Device, shape: &[u64], element_type: ElementType) -> Result<MappedTensor> {
        let tensor = Tensor::filled_by(device, shape, element_type, |bytes| {
            bytes.fill(0);
            Ok(())
        })?;
        tensor.with_mapping(MemoryAccess::READ | MemoryAccess::WRITE)
    }

    /// A tensor over memory of the host that `owner` keeps, without a copy. Programs may only read it. The memory has
    /// to be aligned as the allocator of `device` says, which is 64 bytes for devices of the host.
    ///
    /// # Errors
    /// `UNAVAILABLE` if it is aligned to less, and other failures of the device's allocator.
    ///
    /// # Safety
    /// The bytes of the tensor have to stay valid for reads as long as `owner` lives, and no Rust reference through
    /// which they may be written may exist meanwhile.
    pub unsafe fn import(
        device: &dyn Device,
        shape: &[u64],
        element_type: ElementType,
        data: NonNull<u8>,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<MappedTensor> {
        let size = dense_byte_length(shape, element_type)?;
        let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size, owner };
        // SAFETY: the caller guarantees that the memory is there as long as its owner; access is for reading only.
        let buffer = unsafe { device.allocator().import_buffer(host_params(MemoryAccess::READ), &external) }?;
        let view = BufferView::new(buffer, shape, element_type, EncodingType::DENSE_ROW_MAJOR)?;
        Tensor::from(Obj::new(view)).with_mapping(MemoryAccess::READ)
    }

    /// The tensor with its elements in place, in memory that others may refer to and write to: what they write shows.
    ///
    /// # Errors
    /// Failures of mapping the memory, and `INVALID_ARGUMENT` for a tensor in another encoding than row by row.
    pub fn map_shared(self) -> Result<MappedTensor> {
        if self.view().encoding() != EncodingType::DENSE_ROW_MAJOR {
            return Err(Status::invalid_argument(format!("{} is not row by row", self.view().shape_and_type())));
        }
        let access = self.view().buffer().allowed_access() & (MemoryAccess::READ | MemoryAccess::WRITE);
        self.with_mapping(access)
    }

    fn with_mapping(self, access: MemoryAccess) -> Result<MappedTensor> {
        let mapping = self.view().buffer().map_range(MappingMode::PERSISTENT, access, 0, self.view().byte_length())?;
        Ok(MappedTensor { tensor: self, elements: MappedElements::InPlace(mapping) })
    }
}

/// Memory that the host maps and programs use for anything.
fn host_params(access: MemoryAccess) -> BufferParams {
    BufferParams {
        usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
        access,
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    }
}

/// Memory of another owner with a shape, as arrays of other libraries have it: with strides, possibly negative.
#[derive(Clone, Copy)]
pub struct StridedMemory<'a> {
    data: *const u8,
    shape: &'a [u64],
    /// In bytes; row by row where there are none.
    strides: Option<&'a [isize]>,
    element_size: usize,
}

// SAFETY: the memory can be read on any thread as long as the lifetime lasts, as the caller of `new` guarantees.
unsafe impl Send for StridedMemory<'_> {}

impl<'a> StridedMemory<'a> {
    /// The memory at `data` of elements of `element_size` bytes. `strides` are in bytes, one for each dimension.
    ///
    /// # Safety
    /// Each element of the shape has to be valid for reads for `'a`, also while other code writes there; torn elements
    /// are then the result.
    pub unsafe fn new(
        data: *const u8,
        shape: &'a [u64],
        strides: Option<&'a [isize]>,
        element_size: usize,
    ) -> StridedMemory<'a> {
        debug_assert!(strides.is_none_or(|strides| strides.len() == shape.len()), "a stride for each dimension");
        StridedMemory { data, shape, strides, element_size }
    }

    /// True if the elements follow each other row by row, so that they are one range of memory.
    pub fn is_dense(&self) -> bool {
        let Some(strides) = self.strides else { return true };
        if self.shape.contains(&0) {
            return true;
        }
        let mut expected = self.element_size as u64;
        for (size, stride) in self.shape.iter().zip(strides).rev() {
            // The stride of a dimension of one element is never taken.
            if *size != 1 && u64::try_from(*stride) != Ok(expected) {
                return false;
            }
            expected = expected.saturating_mul(*size);
        }
        true
    }

    /// Copies the elements, row by row.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` unless `out` has as many bytes as the elements.
    pub fn copy_to(&self, out: &mut [u8]) -> Result<()> {
        let count = self.shape.iter().try_fold(self.element_size as u64, |bytes, size| bytes.checked_mul(*size));
        if count != Some(out.len() as u64) {
            return Err(Status::invalid_argument(format!(
                "{} bytes for elements of {} bytes of shape {:?}",
                out.len(),
                self.element_size,
                self.shape
            )));
        }
        if out.is_empty() {
            return Ok(());
        }
        if self.is_dense() {
            // SAFETY: all elements can be read, and are one range of as many bytes as `out` has; `out` is exclusively
            // borrowed, so it is other memory.
            unsafe { self.data.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
            return Ok(());
        }
        self.copy_part(0, self.data, out);
        Ok(())
    }

    /// Copies the elements of the dimensions from `dimension` on, of which the first is at `data`.
    fn copy_part(&self, dimension: usize, data: *const u8, out: &mut [u8]) {
        let (Some(size), Some(stride)) =
            (self.shape.get(dimension), self.strides.and_then(|strides| strides.get(dimension)))
        else {
            // SAFETY: it is an element of the shape, which can be read.
            unsafe { data.copy_to_nonoverlapping(out.as_mut_ptr(), out.len().min(self.element_size)) };
            return;
        };
        // The elements fit `out`, so there are at least as many bytes as parts.
        let part = out.len() / *size as usize;
        for (index, out) in out.chunks_exact_mut(part).enumerate() {
            // The first element of the part is one of the shape, so its address does not wrap.
            self.copy_part(dimension + 1, data.wrapping_offset(index as isize * stride), out);
        }
    }
}

impl fmt::Debug for StridedMemory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StridedMemory").field("shape", &self.shape).field("strides", &self.strides).finish()
    }
}

#[cfg(all(test, feature = "local"))]
mod tests {
    use super::*;
    use crate::create_device;

    fn device() -> Arc<dyn Device> {
        create_device("local-sync").expect("there is the device")
    }

    #[test]
    fn what_others_write_shows_in_a_shared_mapping() {
        let tensor = Tensor::zeroed(&*device(), &[3], ElementType::UINT_8).expect("there is memory").tensor().clone();
        let mapped = tensor.clone().map_shared().expect("the memory is the host's");
        assert!(mapped.is_in_place());
        vireo_hal::buffer_write(&**tensor.view().buffer(), 1, &[5]).expect("may be written");
        // SAFETY: there are three bytes, and nothing writes to them now.
        assert_eq!(unsafe { std::slice::from_raw_parts(mapped.data().as_ptr(), mapped.byte_length()) }, [0, 5, 0]);
    }

    #[test]
    fn the_only_reference_is_mapped_in_place_and_others_are_copied() {
        let fill = |bytes: &mut [u8]| {
            bytes.copy_from_slice(&[1, 2, 3]);
            Ok(())
        };
        let tensor = Tensor::filled_by(&*device(), &[3], ElementType::UINT_8, fill).expect("allocates");
        let other = tensor.clone();
        let copy = tensor.into_mapped().expect("is readable");
        assert!(!copy.is_in_place());
        drop(copy);
        let mapped = other.into_mapped().expect("is readable");
        assert!(mapped.is_in_place());
        // SAFETY: nothing writes to the tensor.
        let bytes = unsafe { std::slice::from_raw_parts(mapped.data().as_ptr(), mapped.byte_length()) };
        assert_eq!(bytes, [1, 2, 3]);
        assert_eq!(mapped.tensor().to_vec::<u8>().expect("is readable"), [1, 2, 3]);
        // A mapping is another reference to the memory, so the tensor is no longer taken in place.
        assert!(!mapped.tensor().clone().into_mapped().expect("is readable").is_in_place());
    }

    #[test]
    fn a_failure_to_fill_is_passed_on() {
        let failed = Tensor::filled_by(&*device(), &[2], ElementType::FLOAT_32, |_| Err(Status::data_loss("gone")));
        assert_eq!(failed.expect_err("fails").message(), "gone");
        let huge = Tensor::filled_by(&*device(), &[u64::MAX, 2], ElementType::FLOAT_32, |_| Ok(()));
        assert!(huge.expect_err("fails").message().contains("overflows"));
    }

    #[test]
    fn the_host_writes_to_a_tensor_of_zeros() {
        let zeros = Tensor::zeroed(&*device(), &[2], ElementType::UINT_8).expect("allocates");
        assert_eq!(zeros.tensor().to_vec::<u8>().expect("is readable"), [0, 0]);
        // SAFETY: the tensor has two bytes, and nothing else uses them.
        unsafe { zeros.data().add(1).write(5) };
        assert_eq!(zeros.tensor().to_vec::<u8>().expect("is readable"), [0, 5]);
    }

    #[test]
    fn imported_memory_is_used_where_it_is_if_it_is_aligned() {
        #[repr(align(64))]
        struct Aligned([u8; 68]);
        let owner = Arc::new(Aligned([7; 68]));
        let import = |offset: usize| {
            let data = NonNull::from(&owner.0[offset]);
            // SAFETY: the owner has the bytes, and nothing writes them.
            unsafe { Tensor::import(&*device(), &[64], ElementType::UINT_8, data, owner.clone()) }
        };
        let tensor = import(0).expect("is aligned");
        assert_eq!(tensor.tensor().to_vec::<u8>().expect("is readable"), [7; 64]);
        assert!(tensor.is_in_place());
        assert_eq!(tensor.data().as_ptr() as usize, owner.0.as_ptr() as usize);
        assert!(tensor.tensor().view().buffer().map_range(MappingMode::SCOPED, MemoryAccess::WRITE, 0, 64).is_err());
        assert!(import(4).is_err());
    }

    #[test]
    fn strided_memory_is_copied_row_by_row() {
        let data: Vec<u8> = (0..24).collect();
        let copy = |offset: usize, shape: &[u64], strides: Option<&[isize]>, size: usize| {
            let length = shape.iter().product::<u64>() as usize * size;
            // SAFETY: the cases below stay inside of the list.
            let memory = unsafe { StridedMemory::new(data[offset..].as_ptr(), shape, strides, size) };
            let mut out = vec![0xFF; length];
            memory.copy_to(&mut out).expect("it has as many bytes");
            (out, memory.is_dense())
        };
        assert_eq!(copy(0, &[2, 3], None, 1), ((0..6).collect(), true));
        assert_eq!(copy(0, &[2, 3], Some(&[3, 1]), 1), ((0..6).collect(), true));
        assert_eq!(copy(0, &[2, 3], Some(&[1, 2]), 1), (vec![0, 2, 4, 1, 3, 5], false));
        assert_eq!(copy(4, &[3], Some(&[-2]), 2), (vec![4, 5, 2, 3, 0, 1], false));
        assert_eq!(copy(0, &[2, 2], Some(&[0, 1]), 1), (vec![0, 1, 0, 1], false));
        assert_eq!(copy(5, &[], Some(&[]), 4), (vec![5, 6, 7, 8], true));
        assert_eq!(copy(0, &[1, 3], Some(&[99, 1]), 1), (vec![0, 1, 2], true));
        assert_eq!(copy(0, &[2, 0, 3], Some(&[1, 1, 1]), 1), (Vec::new(), true));
        // SAFETY: nothing is read.
        let memory = unsafe { StridedMemory::new(data.as_ptr(), &[u64::MAX, 2], None, 4) };
        assert!(memory.copy_to(&mut [0; 8]).is_err());
    }
}
