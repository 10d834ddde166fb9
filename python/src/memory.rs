//! Memory of arrays of other libraries ([`Array`]): by the buffer protocol of Python, or by DLPack.

use std::ffi::{CStr, c_int};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

use pyo3::exceptions::PyTypeError;
use pyo3::types::{PyCapsule, PyDict, PyString};
use pyo3::{ffi, intern, prelude::*};
use smallvec::SmallVec;
use vireo::hal::{DlpackDeviceType, ElementType};
use vireo::inference::StridedMemory;
use vireo::inference::dlpack::{DlManagedTensor, DlManagedTensorVersioned, ManagedTensor, is_host};

use crate::dtype::Dtype;
use crate::error::{OrRaise, invalid};
use crate::interpreter::with_interpreter;

/// An array, whose memory stays where it is as long as this lives.
pub struct Array {
    /// The size of each dimension.
    pub shape: SmallVec<[u64; 4]>,
    /// The distance of elements in bytes; none if they follow each other row by row.
    strides: Option<SmallVec<[isize; 4]>>,
    data: *const u8,
    /// The type of the elements.
    pub dtype: &'static Dtype,
    _owner: Owner,
}

// SAFETY: the memory is read through a raw pointer alone, on any thread; the owner keeps it.
unsafe impl Send for Array {}
// SAFETY: the bytes behind the pointer are only read, and stay as long as the owner.
unsafe impl Sync for Array {}

enum Owner {
    Buffer { _buffer: ExportedBuffer },
    Dlpack { _tensor: ManagedTensor },
}

/// An object that is no number and no list.
pub enum Found {
    /// An array.
    Array(Array),
    /// Something that has no elements.
    Other,
}

impl Array {
    /// The elements of an array, of any library that exports them.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Found> {
        let py = object.py();
        // SAFETY: the interpreter is attached, and the object is alive.
        if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 1 {
            return Array::of_buffer(object).map(Found::Array);
        }
        if object.is_instance_of::<PyCapsule>() {
            return Array::of_capsule(object).map(Found::Array);
        }
        if let Some(device) = object.getattr_opt(intern!(py, "__dlpack_device__"))? {
            let (device_type, _): (i64, i64) = device.call0()?.extract()?;
            if !u32::try_from(device_type).is_ok_and(|code| is_host(DlpackDeviceType(code))) {
                let message = format!(
                    "{} on a device of type {device_type} of DLPack: expected 1, the host",
                    describe_type(object)
                );
                return Err(invalid(py, message));
            }
            return Array::of_capsule(&dlpack_capsule(object)?).map(Found::Array);
        }
        if let Some(convert) = object.getattr_opt(intern!(py, "__array__"))?
            && !object.is_instance_of::<pyo3::types::PyType>()
        {
            let array = convert.call0()?;
            // SAFETY: the interpreter is attached, and the object is alive.
            if unsafe { ffi::PyObject_CheckBuffer(array.as_ptr()) } == 1 {
                return Array::of_buffer(&array).map(Found::Array);
            }
        }
        Ok(Found::Other)
    }

    fn of_buffer(object: &Bound<'_, PyAny>) -> PyResult<Array> {
        let py = object.py();
        let (buffer, dtype) = match ExportedBuffer::get(object, ffi::PyBUF_RECORDS_RO) {
            Ok(buffer) => {
                let dtype = Dtype::of_format(buffer.format().map_or(&b"B"[..], CStr::to_bytes), buffer.item_size());
                (buffer, dtype.map_err(|found| invalid(py, format!("expected numbers, got {found}")))?)
            }
            Err(error) => {
                // Arrays of `ml_dtypes` have no format, but the name of their type.
                let name = object.getattr_opt(intern!(py, "dtype"))?.map(|dtype| dtype.getattr(intern!(py, "name")));
                let name: Option<String> = name.and_then(Result::ok).and_then(|name| name.extract().ok());
                match name.as_deref().and_then(Dtype::named).filter(|dtype| dtype.format.is_none()) {
                    Some(dtype) => (ExportedBuffer::get(object, ffi::PyBUF_STRIDES)?, dtype),
                    None => {
                        let of = name.map_or(String::new(), |name| format!(" of {name}"));
                        let refused = invalid(py, format!("expected numbers, got {}{of}", describe_type(object)));
                        refused.set_cause(py, Some(error));
                        return Err(refused);
                    }
                }
            }
        };
        if buffer.item_size() != dtype.size {
            let message = format!("{} has elements of {} bytes", dtype.name, buffer.item_size());
            return Err(invalid(py, message));
        }
        let strides = buffer.strides().map(|strides| strides.iter().copied().collect());
        Ok(Array {
            // Sizes are not negative.
            shape: buffer.shape().iter().map(|size| size.unsigned_abs() as u64).collect(),
            strides,
            data: buffer.data(),
            dtype,
            _owner: Owner::Buffer { _buffer: buffer },
        })
    }

    fn of_capsule(capsule: &Bound<'_, PyAny>) -> PyResult<Array> {
        let py = capsule.py();
        let tensor = take(capsule)?.or_raise(py)?;
        if !tensor.is_on_host() {
            let message =
                format!("a tensor on a device of type {} of DLPack: expected 1, the host", tensor.device_type().0);
            return Err(invalid(py, message));
        }
        let element_type = tensor.element_type().or_raise(py)?;
        let dtype = Dtype::of(element_type)
            .ok_or_else(|| invalid(py, format!("a tensor of DLPack with elements of {element_type}")))?;
        Ok(Array {
            shape: tensor.shape(),
            strides: tensor.byte_strides(),
            data: tensor.data(),
            dtype,
            _owner: Owner::Dlpack { _tensor: tensor },
        })
    }

    /// The elements as memory with strides.
    pub fn memory(&self) -> StridedMemory<'_> {
        // SAFETY: the exporter keeps all elements readable as long as the owner lives. Other threads of Python may
        // write to them meanwhile, as to arrays in all libraries.
        unsafe { StridedMemory::new(self.data, &self.shape, self.strides.as_deref(), self.dtype.size) }
    }

    /// The elements where they are; none if they do not follow each other row by row.
    pub fn dense(&self) -> Option<&[u8]> {
        let length = self.byte_length()?;
        if !self.memory().is_dense() {
            return None;
        }
        if length == 0 {
            return Some(&[]);
        }
        // SAFETY: the exporter keeps as many bytes readable as long as the owner lives. A thread of Python that writes
        // to the array meanwhile makes the copy of the bytes, all that is done with them, one of a mixture.
        Some(unsafe { std::slice::from_raw_parts(self.data, length) })
    }

    /// The address of the first element.
    pub fn address(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.data.cast_mut())
    }

    /// How many bytes the elements have together; none if they do not fit the address space.
    pub fn byte_length(&self) -> Option<usize> {
        let bytes = |bytes: usize, size: &u64| bytes.checked_mul(usize::try_from(*size).ok()?);
        let length = self.shape.iter().try_fold(self.dtype.size, bytes)?;
        isize::try_from(length).ok().map(|_| length)
    }

    /// The element type of a tensor of this array.
    pub fn element_type(&self, declared: Option<ElementType>) -> ElementType {
        self.dtype.as_declared(declared)
    }
}

/// A buffer that an object has exported, until it is dropped.
pub struct ExportedBuffer(ManuallyDrop<Box<ffi::Py_buffer>>);

impl ExportedBuffer {
    /// The buffer of an object.
    pub fn get(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<ExportedBuffer> {
        let mut buffer = Box::new(MaybeUninit::<ffi::Py_buffer>::uninit());
        // SAFETY: the interpreter is attached; the structure is written, and does not move, since exporters may let it
        // point to itself.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), buffer.as_mut_ptr(), flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: the exporter has written all of it.
        let buffer = ExportedBuffer(ManuallyDrop::new(unsafe { Box::from_raw(Box::into_raw(buffer).cast()) }));
        let (rank, has_shape) = (buffer.0.ndim, !buffer.0.shape.is_null());
        if rank < 0 || (rank > 0 && !has_shape) || buffer.0.itemsize <= 0 {
            return Err(invalid(object.py(), format!("{} exports a malformed buffer", describe_type(object))));
        }
        Ok(buffer)
    }

    fn rank(&self) -> usize {
        self.0.ndim.unsigned_abs() as usize
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[isize] {
        if self.rank() == 0 {
            return &[];
        }
        // SAFETY: an exporter that is asked for it gives a size for each dimension, and the list was found to be there.
        unsafe { std::slice::from_raw_parts(self.0.shape, self.rank()) }
    }

    /// The distances of elements; none if they follow each other row by row. Arrays of `ctypes` give none.
    fn strides(&self) -> Option<&[isize]> {
        if self.rank() == 0 || self.0.strides.is_null() {
            return None;
        }
        // SAFETY: an exporter that gives distances gives one for each dimension.
        Some(unsafe { std::slice::from_raw_parts(self.0.strides, self.rank()) })
    }

    fn format(&self) -> Option<&CStr> {
        // SAFETY: the format is a text of C, which lives as long as the buffer.
        (!self.0.format.is_null()).then(|| unsafe { CStr::from_ptr(self.0.format) })
    }

    /// Bytes of an element.
    pub fn item_size(&self) -> usize {
        self.0.itemsize.unsigned_abs()
    }

    /// Bytes of all elements together.
    pub fn byte_length(&self) -> usize {
        self.0.len.max(0).unsigned_abs()
    }

    /// The first element.
    pub fn data(&self) -> *const u8 {
        self.0.buf.cast::<u8>().cast_const()
    }
}

impl Drop for ExportedBuffer {
    fn drop(&mut self) {
        // SAFETY: the value is not used again. The structure does not move, which it might not survive.
        let buffer = OwnedBuffer(unsafe { ManuallyDrop::take(&mut self.0) });
        with_interpreter(move |_| buffer.release());
    }
}

/// The structure on its way to a thread that has the interpreter. Without one it is dropped and nothing released.
struct OwnedBuffer(Box<ffi::Py_buffer>);

// SAFETY: any thread that has the interpreter may release a buffer.
unsafe impl Send for OwnedBuffer {}

impl OwnedBuffer {
    /// Gives the buffer back, with the interpreter.
    fn release(mut self) {
        // SAFETY: the caller has the interpreter, and the buffer is released once.
        unsafe { ffi::PyBuffer_Release(&mut *self.0) };
    }
}

const UNVERSIONED: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_UNVERSIONED: &CStr = c"used_dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

/// The capsule of an object that speaks DLPack.
fn dlpack_capsule<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "max_version"), (1, 1))?;
    match object.call_method(intern!(py, "__dlpack__"), (), Some(&keywords)) {
        // Libraries from before DLPack 1.0 know no keywords.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => object.call_method0(intern!(py, "__dlpack__")),
        called => called,
    }
}

/// Takes the tensor out of a capsule.
pub fn take(capsule: &Bound<'_, PyAny>) -> PyResult<vireo::Result<ManagedTensor>> {
    let py = capsule.py();
    let pointer = |name: &CStr, used: &CStr| -> PyResult<Option<NonNull<std::ffi::c_void>>> {
        // SAFETY: the interpreter is attached. A capsule with the name has the structure of the name; it is renamed, so
        // that its destructor leaves the structure alone and it is not taken twice. The new name lives for ever.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) != 1 {
                return Ok(None);
            }
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr());
            if ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) != 0 {
                return Err(PyErr::fetch(py));
            }
            Ok(NonNull::new(pointer))
        }
    };
    if let Some(tensor) = pointer(VERSIONED, USED_VERSIONED)? {
        // SAFETY: the capsule had that structure, and has been renamed.
        return Ok(unsafe { ManagedTensor::from_versioned(tensor.cast::<DlManagedTensorVersioned>()) });
    }
    if let Some(tensor) = pointer(UNVERSIONED, USED_UNVERSIONED)? {
        // SAFETY: the capsule had the structure without a version, and has been renamed.
        return Ok(unsafe { ManagedTensor::from_unversioned(tensor.cast::<DlManagedTensor>()) });
    }
    let message = format!("{} is no capsule of DLPack, or one that has been used", describe_type(capsule));
    Err(invalid(py, message))
}

/// A capsule with a tensor of ours, as `__dlpack__` returns it.
pub fn capsule(py: Python<'_>, tensor: Exported) -> PyResult<Py<PyAny>> {
    let (pointer, name, destructor): (_, _, unsafe extern "C" fn(*mut ffi::PyObject)) = match tensor {
        Exported::Versioned(tensor) => (tensor.as_ptr().cast(), VERSIONED, drop_versioned),
        Exported::Unversioned(tensor) => (tensor.as_ptr().cast(), UNVERSIONED, drop_unversioned),
    };
    // SAFETY: the interpreter is attached, the pointer is not null, and the name lives for ever.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor))) }
        .map(Bound::unbind)
}

/// A tensor of ours for other libraries.
pub enum Exported {
    /// With a version.
    Versioned(NonNull<DlManagedTensorVersioned>),
    /// As before version 1.
    Unversioned(NonNull<DlManagedTensor>),
}

/// # Safety
/// Python calls it for a capsule of [`capsule`].
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that still has its name still has the structure, which no other consumer has.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1
            && let Some(tensor) = NonNull::new(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()))
        {
            drop(ManagedTensor::from_versioned(tensor.cast()));
        }
    }
}

/// # Safety
/// As for [`drop_versioned`].
unsafe extern "C" fn drop_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls the destructor of a capsule once, and one of this name has a tensor without a version.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNVERSIONED.as_ptr()) == 1
            && let Some(tensor) = NonNull::new(ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()))
        {
            drop(ManagedTensor::from_unversioned(tensor.cast()));
        }
    }
}

/// The type of an object, for messages: `a numpy.ndarray`.
pub fn describe_type(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().fully_qualified_name();
    let name = name.as_ref().map(|name: &Bound<'_, PyString>| name.to_string_lossy().into_owned());
    format!("a {}", name.unwrap_or_else(|_| "value of an unknown type".into()))
}
