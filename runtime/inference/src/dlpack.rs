//! Tensors of other libraries in this process, by DLPack: structures of C with the address, shape and element type of a
//! tensor and a function that its owner calls at the end.
//!
//! [`ManagedTensor`] is such a structure, of this library or of another one. Bindings of other languages pass them
//! around; `docs/python.md` shows how. Codes and flags are those of `spec/hal/dlpack.yaml`.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use smallvec::SmallVec;
use vireo_core::status::{Result, Status};
use vireo_hal::{
    DLPACK_IS_COPIED, DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION, DLPACK_READ_ONLY, DlpackDeviceType, DlpackTypeCode,
    ElementType,
};

use crate::mapped::{MappedTensor, StridedMemory};

/// Most dimensions of a tensor of another library.
const MAX_RANK: i32 = 128;

/// A device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct DlDevice {
    device_type: u32,
    device_id: i32,
}

/// An element type.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// A tensor.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    /// In elements; null for row by row.
    strides: *mut i64,
    byte_offset: u64,
}

/// A tensor with its owner, as before version 1.
#[repr(C)]
pub struct DlManagedTensor {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

/// A tensor with its owner, and a version before everything else.
#[repr(C)]
pub struct DlManagedTensorVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

const _: () = assert!(size_of::<DlTensor>() == 48 && size_of::<DlManagedTensor>() == 64);
const _: () = assert!(size_of::<DlManagedTensorVersioned>() == 80);
const _: () = assert!(std::mem::offset_of!(DlManagedTensorVersioned, tensor) == 32);

/// How a consumer may use the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It reads them.
    ReadOnly,
    /// It reads and writes them, as the one that passes them on does.
    Writable,
    /// They are a copy that was made for it.
    Copy,
}

/// A tensor of DLPack, which is released when this is dropped.
#[derive(Debug)]
pub struct ManagedTensor(Raw);

#[derive(Debug)]
enum Raw {
    Versioned(NonNull<DlManagedTensorVersioned>),
    Unversioned(NonNull<DlManagedTensor>),
}

// SAFETY: DLPack leaves it to the consumer on which thread it reads and releases a tensor.
unsafe impl Send for ManagedTensor {}
// SAFETY: `&ManagedTensor` only reads the structure, which nothing writes.
unsafe impl Sync for ManagedTensor {}

impl ManagedTensor {
    /// Takes a tensor with a version over.
    ///
    /// # Errors
    /// `INCOMPATIBLE` for another major version, `INVALID_ARGUMENT` for a malformed tensor. It is released then.
    ///
    /// # Safety
    /// `tensor` has to be one that no other consumer has taken over, and that keeps to the interface.
    pub unsafe fn from_versioned(tensor: NonNull<DlManagedTensorVersioned>) -> Result<ManagedTensor> {
        // SAFETY: the caller guarantees that it can be read. The version is the first field in all versions.
        let (major, minor) = unsafe { ((*tensor.as_ptr()).major, (*tensor.as_ptr()).minor) };
        // The deleter has its place in all versions, so a tensor of any can be released.
        let managed = ManagedTensor(Raw::Versioned(tensor));
        if major != DLPACK_MAJOR_VERSION {
            return Err(Status::incompatible(format!(
                "a tensor of DLPack {major}.{minor}: expected version {DLPACK_MAJOR_VERSION}"
            )));
        }
        managed.check()?;
        Ok(managed)
    }

    /// Takes a tensor without a version over, as libraries made them before DLPack 1.0.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a malformed tensor. It is released then.
    ///
    /// # Safety
    /// As for [`ManagedTensor::from_versioned`].
    pub unsafe fn from_unversioned(tensor: NonNull<DlManagedTensor>) -> Result<ManagedTensor> {
        let managed = ManagedTensor(Raw::Unversioned(tensor));
        managed.check()?;
        Ok(managed)
    }

    /// The elements of a tensor of this library, which they keep in memory.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for an element type that DLPack does not have.
    pub fn versioned(elements: Arc<MappedTensor>, sharing: Sharing) -> Result<NonNull<DlManagedTensorVersioned>> {
        let (tensor, context) = export(elements)?;
        let flags = match sharing {
            Sharing::ReadOnly => DLPACK_READ_ONLY,
            Sharing::Writable => 0,
            Sharing::Copy => DLPACK_IS_COPIED,
        };
        let (major, minor) = (DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
        let deleter = Some(delete_versioned as _);
        Ok(NonNull::from(Box::leak(Box::new(DlManagedTensorVersioned {
            major,
            minor,
            context,
            deleter,
            flags,
            tensor,
        }))))
    }

    /// The same in the form before version 1, which cannot say that elements are not to be written.
    ///
    /// # Errors
    /// As [`ManagedTensor::versioned`].
    pub fn unversioned(elements: Arc<MappedTensor>) -> Result<NonNull<DlManagedTensor>> {
        let (tensor, context) = export(elements)?;
        Ok(NonNull::from(Box::leak(Box::new(DlManagedTensor { tensor, context, deleter: Some(delete_unversioned) }))))
    }

    /// The bytes of the elements as a list of integers of eight bits, in the form before version 1: for libraries that
    /// do not know their type.
    pub fn bytes(elements: Arc<MappedTensor>) -> NonNull<DlManagedTensor> {
        let length = elements.byte_length() as i64;
        let dtype = DlDataType { code: DlpackTypeCode::UINT.0, bits: 8, lanes: 1 };
        let (tensor, context) = export_as(elements, dtype, Box::new([length]), Box::new([1]));
        NonNull::from(Box::leak(Box::new(DlManagedTensor { tensor, context, deleter: Some(delete_unversioned) })))
    }

    fn tensor(&self) -> &DlTensor {
        // SAFETY: the structure can be read until it is released, which `drop` does, as the maker of this guaranteed.
        unsafe {
            match self.0 {
                Raw::Versioned(tensor) => &(*tensor.as_ptr()).tensor,
                Raw::Unversioned(tensor) => &(*tensor.as_ptr()).tensor,
            }
        }
    }

    fn check(&self) -> Result<()> {
        let tensor = self.tensor();
        let malformed = |problem: String| Err(Status::invalid_argument(format!("a tensor of DLPack {problem}")));
        if !(0..=MAX_RANK).contains(&tensor.ndim) {
            return malformed(format!("has {} dimensions: expected at most {MAX_RANK}", tensor.ndim));
        }
        if tensor.ndim > 0 && tensor.shape.is_null() {
            return malformed("has no shape".into());
        }
        if let Some(size) = self.sizes().iter().find(|size| **size < 0) {
            return malformed(format!("has a dimension of {size}"));
        }
        self.element_type()?;
        let bytes = self.sizes().iter().try_fold(self.element_size() as i64, |bytes, size| bytes.checked_mul(*size));
        let Some(bytes) = bytes else { return malformed(format!("of shape {:?} is too large", self.sizes())) };
        if bytes > 0 && tensor.data.is_null() {
            return malformed("has no elements".into());
        }
        let element = self.element_size() as i64;
        if let Some(stride) = self.strides().iter().flat_map(|strides| strides.iter()).find(|stride| {
            // The elements of a dimension, as far as they are apart.
            stride.checked_mul(element).is_none_or(|stride| isize::try_from(stride).is_err())
        }) {
            return malformed(format!("has a stride of {stride}"));
        }
        Ok(())
    }

    fn sizes(&self) -> &[i64] {
        let tensor = self.tensor();
        if tensor.ndim == 0 || tensor.shape.is_null() {
            return &[];
        }
        // SAFETY: a tensor has a size for each of its dimensions.
        unsafe { std::slice::from_raw_parts(tensor.shape, tensor.ndim as usize) }
    }

    fn strides(&self) -> Option<&[i64]> {
        let tensor = self.tensor();
        // SAFETY: a tensor that has strides has one for each of its dimensions.
        (!tensor.strides.is_null())
            .then(|| unsafe { std::slice::from_raw_parts(tensor.strides, tensor.ndim.max(0) as usize) })
    }

    fn element_size(&self) -> usize {
        usize::from(self.tensor().dtype.bits / 8)
    }

    /// The size of each dimension.
    pub fn shape(&self) -> SmallVec<[u64; 4]> {
        // They were found not to be negative.
        self.sizes().iter().map(|size| size.cast_unsigned()).collect()
    }

    /// The distance of elements of each dimension in bytes; none if they follow each other row by row.
    pub fn byte_strides(&self) -> Option<SmallVec<[isize; 4]>> {
        let size = self.element_size() as isize;
        // They were found to fit.
        self.strides().map(|strides| strides.iter().map(|stride| *stride as isize * size).collect())
    }

    /// The type of the elements.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the numbers of DLPack, if there is no such type here.
    pub fn element_type(&self) -> Result<ElementType> {
        let DlDataType { code, bits, lanes } = self.tensor().dtype;
        let found = TYPES.iter().find(|(known, width, _)| (known.0, *width, 1) == (code, bits, lanes));
        found.map(|(_, _, element_type)| *element_type).ok_or_else(|| {
            Status::invalid_argument(format!(
                "a tensor of DLPack has elements of code {code}, {bits} bits and {lanes} lanes, which no element type here has"
            ))
        })
    }

    /// The kind of device that the elements are on.
    pub fn device_type(&self) -> DlpackDeviceType {
        DlpackDeviceType(self.tensor().device.device_type)
    }

    /// True if the elements are in memory of the host.
    pub fn is_on_host(&self) -> bool {
        is_host(self.device_type())
    }

    /// The address of the first element.
    pub fn data(&self) -> *const u8 {
        let tensor = self.tensor();
        tensor.data.cast::<u8>().cast_const().wrapping_add(tensor.byte_offset as usize)
    }

    /// The elements in memory of the host, for copying.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for a tensor that is not there.
    pub fn memory<'a>(&'a self, shape: &'a [u64], strides: Option<&'a [isize]>) -> Result<StridedMemory<'a>> {
        if !self.is_on_host() {
            let device = self.device_type().0;
            return Err(Status::unimplemented(format!(
                "a tensor of DLPack on a device of type {device}: expected 1, the host"
            )));
        }
        // SAFETY: the library that made the tensor keeps the elements readable until it is released.
        Ok(unsafe { StridedMemory::new(self.data(), shape, strides, self.element_size()) })
    }
}

impl Drop for ManagedTensor {
    fn drop(&mut self) {
        // SAFETY: this is the owner of the structure, and calls the deleter that came with it once.
        unsafe {
            match self.0 {
                Raw::Versioned(tensor) => {
                    if let Some(deleter) = (*tensor.as_ptr()).deleter {
                        deleter(tensor.as_ptr());
                    }
                }
                Raw::Unversioned(tensor) => {
                    if let Some(deleter) = (*tensor.as_ptr()).deleter {
                        deleter(tensor.as_ptr());
                    }
                }
            }
        }
    }
}

/// True for devices whose memory is that of the host.
pub fn is_host(device: DlpackDeviceType) -> bool {
    [DlpackDeviceType::CPU, DlpackDeviceType::CUDA_HOST, DlpackDeviceType::ROCM_HOST].contains(&device)
}

/// Each element type that both sides have. For one of DLPack the first counts: integers there have a sign, or none.
const TYPES: [(DlpackTypeCode, u8, ElementType); 28] = [
    (DlpackTypeCode::INT, 8, ElementType::INT_8),
    (DlpackTypeCode::INT, 16, ElementType::INT_16),
    (DlpackTypeCode::INT, 32, ElementType::INT_32),
    (DlpackTypeCode::INT, 64, ElementType::INT_64),
    (DlpackTypeCode::INT, 8, ElementType::SINT_8),
    (DlpackTypeCode::INT, 16, ElementType::SINT_16),
    (DlpackTypeCode::INT, 32, ElementType::SINT_32),
    (DlpackTypeCode::INT, 64, ElementType::SINT_64),
    (DlpackTypeCode::UINT, 8, ElementType::UINT_8),
    (DlpackTypeCode::UINT, 16, ElementType::UINT_16),
    (DlpackTypeCode::UINT, 32, ElementType::UINT_32),
    (DlpackTypeCode::UINT, 64, ElementType::UINT_64),
    (DlpackTypeCode::BOOL, 8, ElementType::BOOL_8),
    (DlpackTypeCode::FLOAT, 16, ElementType::FLOAT_16),
    (DlpackTypeCode::FLOAT, 32, ElementType::FLOAT_32),
    (DlpackTypeCode::FLOAT, 64, ElementType::FLOAT_64),
    (DlpackTypeCode::BFLOAT, 16, ElementType::BFLOAT_16),
    (DlpackTypeCode::COMPLEX, 64, ElementType::COMPLEX_FLOAT_64),
    (DlpackTypeCode::COMPLEX, 128, ElementType::COMPLEX_FLOAT_128),
    (DlpackTypeCode::FLOAT_8_E5M2, 8, ElementType::FLOAT_8_E5M2),
    (DlpackTypeCode::FLOAT_8_E4M3FN, 8, ElementType::FLOAT_8_E4M3_FN),
    (DlpackTypeCode::FLOAT_8_E5M2FNUZ, 8, ElementType::FLOAT_8_E5M2_FNUZ),
    (DlpackTypeCode::FLOAT_8_E4M3FNUZ, 8, ElementType::FLOAT_8_E4M3_FNUZ),
    (DlpackTypeCode::FLOAT_8_E8M0FNU, 8, ElementType::FLOAT_8_E8M0_FNU),
    (DlpackTypeCode::OPAQUE, 8, ElementType::OPAQUE_8),
    (DlpackTypeCode::OPAQUE, 16, ElementType::OPAQUE_16),
    (DlpackTypeCode::OPAQUE, 32, ElementType::OPAQUE_32),
    (DlpackTypeCode::OPAQUE, 64, ElementType::OPAQUE_64),
];

/// The owner of an exported tensor. Its shape and strides are in memory that does not move.
struct Exported {
    _elements: Arc<MappedTensor>,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
}

/// The structure of a tensor, and its owner.
fn export(elements: Arc<MappedTensor>) -> Result<(DlTensor, *mut c_void)> {
    let element_type = elements.tensor().element_type();
    let known = TYPES.iter().find(|(_, _, known)| *known == element_type);
    let (code, bits, _) = known
        .ok_or_else(|| Status::unimplemented(format!("DLPack has no element type for tensors of {element_type}")))?;
    let shape: Box<[i64]> = elements.tensor().shape().iter().map(|size| size.cast_signed()).collect();
    let mut strides = vec![1_i64; shape.len()].into_boxed_slice();
    for dimension in (1..shape.len()).rev() {
        strides[dimension - 1] = strides[dimension].wrapping_mul(shape[dimension].max(1));
    }
    Ok(export_as(elements, DlDataType { code: code.0, bits: *bits, lanes: 1 }, shape, strides))
}

fn export_as(
    elements: Arc<MappedTensor>,
    dtype: DlDataType,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
) -> (DlTensor, *mut c_void) {
    // Consumers expect no address where there is nothing.
    let data = if elements.byte_length() == 0 { ptr::null_mut() } else { elements.data().as_ptr().cast() };
    let exported = Box::leak(Box::new(Exported { _elements: elements, shape, strides }));
    let tensor = DlTensor {
        data,
        device: DlDevice { device_type: DlpackDeviceType::CPU.0, device_id: 0 },
        ndim: exported.shape.len() as i32,
        dtype,
        shape: exported.shape.as_mut_ptr(),
        strides: exported.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    (tensor, ptr::from_mut(exported).cast())
}

/// # Safety
/// `tensor` has to be one that [`ManagedTensor::versioned`] made, and is gone afterwards.
unsafe extern "C" fn delete_versioned(tensor: *mut DlManagedTensorVersioned) {
    // SAFETY: the caller guarantees that it is such a tensor, which is a box with a box as its context.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: the context of such a tensor is a box, which nothing else frees.
    drop(unsafe { Box::from_raw(tensor.context.cast::<Exported>()) });
}

/// # Safety
/// `tensor` has to be one that [`ManagedTensor::unversioned`] made, and is gone afterwards.
unsafe extern "C" fn delete_unversioned(tensor: *mut DlManagedTensor) {
    // SAFETY: the caller guarantees that it is such a tensor, which is a box with a box as its context.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: the context of such a tensor is a box, which nothing else frees.
    drop(unsafe { Box::from_raw(tensor.context.cast::<Exported>()) });
}

#[cfg(all(test, feature = "local"))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::tensor::Tensor;

    fn mapped(shape: &[u64], element_type: ElementType) -> Arc<MappedTensor> {
        let device = crate::create_device("local-sync").expect("there is the device");
        let fill = |bytes: &mut [u8]| {
            (0..).zip(bytes).for_each(|(value, byte)| *byte = value);
            Ok(())
        };
        let tensor = Tensor::filled_by(&*device, shape, element_type, fill).expect("allocates");
        Arc::new(tensor.into_mapped().expect("is readable"))
    }

    #[test]
    fn a_tensor_comes_back_as_it_was() {
        let elements = mapped(&[2, 3], ElementType::INT_16);
        let versioned = ManagedTensor::versioned(elements.clone(), Sharing::ReadOnly).expect("DLPack has the type");
        // SAFETY: nothing else takes it over.
        let managed = unsafe { ManagedTensor::from_versioned(versioned) }.expect("is well-formed");
        assert_eq!(managed.shape()[..], [2, 3]);
        assert_eq!(managed.byte_strides().expect("it has strides")[..], [6, 2]);
        assert_eq!(managed.element_type().expect("is known"), ElementType::INT_16);
        assert_eq!(managed.data(), elements.data().as_ptr().cast_const());
        assert_eq!(Arc::strong_count(&elements), 2);
        drop(managed);
        assert_eq!(Arc::strong_count(&elements), 1);
        let unversioned = ManagedTensor::unversioned(elements.clone()).expect("DLPack has the type");
        // SAFETY: nothing else takes it over.
        let managed = unsafe { ManagedTensor::from_unversioned(unversioned) }.expect("is well-formed");
        let (shape, mut out) = (managed.shape(), [0; 12]);
        managed.memory(&shape, None).expect("is on the host").copy_to(&mut out).expect("has as many bytes");
        assert_eq!(out, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn types_that_only_one_side_has_are_refused() {
        let error = ManagedTensor::unversioned(mapped(&[2], ElementType::INT_4)).expect_err("there is no such type");
        assert_eq!(error.message(), "DLPack has no element type for tensors of i4");
    }

    static RELEASED: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn release(_tensor: *mut DlManagedTensorVersioned) {
        RELEASED.fetch_add(1, Ordering::Relaxed);
    }

    type Change = dyn Fn(&mut DlManagedTensorVersioned, &mut [i64; 2], &mut [i64; 2]);

    #[test]
    fn malformed_tensors_are_refused_and_released() {
        let mut element = [0_u8; 8];
        let mut sizes = [2_i64, 2];
        let mut strides = [1_i64, 1];
        let mut refused = |change: &Change| {
            (sizes, strides) = ([2, 2], [2, 1]);
            let mut raw = DlManagedTensorVersioned {
                major: DLPACK_MAJOR_VERSION,
                minor: 0,
                context: ptr::null_mut(),
                deleter: Some(release),
                flags: 0,
                tensor: DlTensor {
                    data: element.as_mut_ptr().cast(),
                    device: DlDevice { device_type: DlpackDeviceType::CPU.0, device_id: 0 },
                    ndim: 2,
                    dtype: DlDataType { code: DlpackTypeCode::INT.0, bits: 16, lanes: 1 },
                    shape: sizes.as_mut_ptr(),
                    strides: strides.as_mut_ptr(),
                    byte_offset: 0,
                },
            };
            change(&mut raw, &mut sizes, &mut strides);
            let before = RELEASED.load(Ordering::Relaxed);
            // SAFETY: the structure and what it points to live until the end, and nothing else takes it over.
            let result = unsafe { ManagedTensor::from_versioned(NonNull::from(&mut raw)) };
            let message = result.map(drop).map_err(|status| status.message().to_string());
            assert_eq!(RELEASED.load(Ordering::Relaxed), before + 1);
            message.err()
        };
        assert_eq!(refused(&|_, _, _| ()), None);
        let error = refused(&|raw, _, _| raw.major = 2).expect("another version");
        assert_eq!(error, "a tensor of DLPack 2.0: expected version 1");
        let cases: [(&Change, &str); 10] = [
            (&|raw, _, _| raw.tensor.ndim = -1, "-1 dimensions"),
            (&|raw, _, _| raw.tensor.ndim = 1000, "1000 dimensions"),
            (&|raw, _, _| raw.tensor.shape = ptr::null_mut(), "has no shape"),
            (&|_, sizes, _| sizes[1] = -3, "a dimension of -3"),
            (&|_, sizes, _| *sizes = [i64::MAX, i64::MAX], "is too large"),
            (&|_, _, strides| strides[0] = i64::MAX, "a stride of 9223372036854775807"),
            (&|raw, _, _| raw.tensor.data = ptr::null_mut(), "has no elements"),
            (&|raw, _, _| raw.tensor.dtype.lanes = 4, "4 lanes"),
            (&|raw, _, _| raw.tensor.dtype.bits = 48, "48 bits"),
            (&|raw, _, _| raw.tensor.dtype.code = 77, "code 77"),
        ];
        for (change, expected) in cases {
            let error = refused(change).expect(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_tensor_of_another_device_is_not_read() {
        let raw =
            ManagedTensor::versioned(mapped(&[1], ElementType::FLOAT_32), Sharing::Copy).expect("DLPack has the type");
        // SAFETY: nothing else has the structure.
        unsafe { (*raw.as_ptr()).tensor.device.device_type = DlpackDeviceType::CUDA.0 };
        // SAFETY: nothing else takes it over.
        let managed = unsafe { ManagedTensor::from_versioned(raw) }.expect("is well-formed");
        let error = managed.memory(&[1], None).expect_err("is on a GPU");
        assert_eq!(error.message(), "a tensor of DLPack on a device of type 2: expected 1, the host");
    }
}
