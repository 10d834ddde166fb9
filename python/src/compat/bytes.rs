//! Bytes between Python and the runtime: what objects export by the buffer protocol, and buffers that classes of this
//! module export themselves.

use std::ffi::c_int;
use std::ptr::NonNull;

use pyo3::exceptions::PyBufferError;
use pyo3::{ffi, prelude::*};

use crate::memory::ExportedBuffer;

/// The bytes of an object of Python, row by row, which stay where they are as long as this lives.
pub struct HostBytes(ExportedBuffer);

// SAFETY: the bytes are read and written through a raw pointer alone, and the export keeps them; it may be released on
// any thread, since `ExportedBuffer` hands itself to one that has the interpreter.
unsafe impl Send for HostBytes {}
// SAFETY: a raw pointer alone reaches the bytes, so threads that share this hold no references to them.
unsafe impl Sync for HostBytes {}

impl HostBytes {
    /// The bytes of an object.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<HostBytes> {
        ExportedBuffer::get(object, ffi::PyBUF_C_CONTIGUOUS).map(HostBytes)
    }

    /// The bytes of an object, which may be written.
    pub fn writable(object: &Bound<'_, PyAny>) -> PyResult<HostBytes> {
        ExportedBuffer::get(object, ffi::PyBUF_C_CONTIGUOUS | ffi::PyBUF_WRITABLE).map(HostBytes)
    }

    /// The size of each dimension.
    pub fn shape(&self) -> Vec<u64> {
        self.0.shape().iter().map(|size| size.unsigned_abs() as u64).collect()
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.0.byte_length()
    }

    /// The first byte. An object without bytes may have any address.
    pub fn data(&self) -> NonNull<u8> {
        NonNull::new(self.0.data().cast_mut()).filter(|_| self.len() > 0).unwrap_or(NonNull::dangling())
    }

    /// The bytes, to be copied.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the export keeps as many bytes readable. A thread of Python that writes to them meanwhile makes the
        // copy, all that is done with them, one of a mixture.
        unsafe { std::slice::from_raw_parts(self.data().as_ptr(), self.len()) }
    }
}

/// Fills in the structure of an export of bytes that `owner` keeps.
///
/// # Safety
/// `view` has to be one that Python passes to `__getbuffer__`, and the `length` bytes at `data` have to stay as long as
/// `owner` lives, and may be written unless `is_read_only`.
pub unsafe fn export(
    owner: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    data: NonNull<u8>,
    length: usize,
    is_read_only: bool,
) -> PyResult<()> {
    let Ok(length) = isize::try_from(length) else {
        return Err(PyBufferError::new_err(format!("{length} bytes do not fit the address space")));
    };
    let read_only = c_int::from(is_read_only);
    // SAFETY: the caller passes a structure to be written, and keeps the bytes. The function takes a reference to the
    // owner.
    let done = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), data.as_ptr().cast(), length, read_only, flags) };
    if done == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}
