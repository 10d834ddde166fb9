//! `FileHandle`: memory or a file with parameters, and views of them.

use std::any::Any;
use std::ffi::c_int;
use std::fs::File;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::types::PyMemoryView;
use pyo3::{ffi, prelude::*};
use vireo::Status;
use vireo::io::Contents;

use super::bytes::{HostBytes, export};
use super::throw::{OrThrow, throw, unimplemented};
use crate::interpreter::allow_forks;

/// Memory or a file with parameters.
#[pyclass(frozen, weakref, name = "FileHandle", module = "vireo.compat.iree._binding")]
pub struct PyFileHandle {
    contents: Contents,
    /// The descriptor that was wrapped; the contents have one of their own.
    fd: Option<RawFd>,
}

impl PyFileHandle {
    /// A handle of contents.
    pub fn of(contents: Contents) -> PyFileHandle {
        PyFileHandle { contents, fd: None }
    }

    /// The contents.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Its text, as the index of parameters shows it.
    pub fn show(&self) -> String {
        match (self.fd, self.contents.in_place(0, 0)) {
            (Some(fd), _) => format!("FileHandle<fd({fd})>"),
            (None, Some((data, _))) => format!("FileHandle<host_allocation({data:p})>"),
            (None, None) => format!("FileHandle<{}>", self.contents.name()),
        }
    }
}

/// The bytes of memory of Python, without a copy. They must not be written while parameters are read.
pub fn contents_of(py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<Contents> {
    // A program may release the last reference.
    allow_forks(py)?;
    let bytes = Arc::new(HostBytes::of(buffer)?);
    let (data, length) = (bytes.data(), bytes.len());
    let owner: Arc<dyn Any + Send + Sync> = bytes;
    // SAFETY: the export keeps the bytes as long as the owner lives. What the interface asks of its callers is that
    // they do not write to them meanwhile, as with files that are mapped.
    Ok(unsafe { Contents::from_shared("memory", owner, data, length) })
}

/// A view of a range of contents, as a `memoryview` of Python.
pub fn view_of<'py>(
    py: Python<'py>,
    contents: &Contents,
    offset: u64,
    length: u64,
) -> PyResult<Bound<'py, PyMemoryView>> {
    let Some((data, owner)) = contents.in_place(offset, length) else {
        return Err(PyValueError::new_err("the file is not in memory, so there is no view of it"));
    };
    let view = PyFileView { data: Address(data), length: length as usize, _owner: owner };
    PyMemoryView::from(Bound::new(py, view)?.as_any())
}

#[pymethods]
impl PyFileHandle {
    /// Memory of another object.
    #[staticmethod]
    #[pyo3(signature = (host_buffer, readable=true, writable=false))]
    fn wrap_memory(
        py: Python<'_>,
        host_buffer: &Bound<'_, PyAny>,
        readable: bool,
        writable: bool,
    ) -> PyResult<PyFileHandle> {
        if !readable || writable {
            return Err(unimplemented(py, "FileHandle.wrap_memory that is written or not read"));
        }
        Ok(PyFileHandle::of(contents_of(py, host_buffer)?))
    }

    /// A file by its descriptor, which is duplicated.
    #[staticmethod]
    #[pyo3(signature = (fd, readable=true, writable=false))]
    fn wrap_fd(py: Python<'_>, fd: RawFd, readable: bool, writable: bool) -> PyResult<PyFileHandle> {
        let what = "Could not wrap host fd into a file handle";
        if !readable {
            return Err(unimplemented(py, "FileHandle.wrap_fd that is not read"));
        }
        if fd < 0 {
            return Err(throw(py, what, &Status::invalid_argument(format!("{fd} is no descriptor of a file"))));
        }
        // SAFETY: the system refuses to duplicate what is no open descriptor; nothing else is done with it.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        let owned = borrowed.try_clone_to_owned();
        let owned = owned.map_err(|error| Status::invalid_argument(format!("descriptor {fd}: {error}")));
        let file = File::from(owned.or_throw(py, what)?);
        let contents = Contents::from_file(format!("fd({fd})"), file, writable).or_throw(py, what)?;
        Ok(PyFileHandle { contents, fd: Some(fd) })
    }

    /// Whether it is memory.
    #[getter]
    fn is_host_allocation(&self) -> bool {
        self.contents.in_place(0, 0).is_some()
    }

    /// The memory.
    #[getter]
    fn host_allocation<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        view_of(py, &self.contents, 0, self.contents.len())
    }

    /// Whether it is a descriptor.
    #[getter]
    fn is_fd(&self) -> bool {
        self.fd.is_some()
    }

    /// The descriptor that was wrapped.
    #[getter]
    fn fd(&self) -> PyResult<RawFd> {
        self.fd.ok_or_else(|| PyValueError::new_err("the file has no descriptor"))
    }

    fn __repr__(&self) -> String {
        self.show()
    }
}

/// Bytes of a file or of memory, which may be read.
#[pyclass(frozen, name = "FileView", module = "vireo.compat.iree._binding")]
pub struct PyFileView {
    data: Address,
    length: usize,
    _owner: Arc<dyn Any + Send + Sync>,
}

struct Address(NonNull<u8>);

// SAFETY: an address is a number; what is there is read alone, and stays as long as its owner.
unsafe impl Send for Address {}
// SAFETY: threads that share an address only read what is there, and the owner keeps it.
unsafe impl Sync for Address {}

#[pymethods]
impl PyFileView {
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        // SAFETY: Python passes the structure. The owner keeps the bytes, which are exported to be read.
        unsafe { export(slf.as_any(), view, flags, this.data.0, this.length, true) }
    }

    fn __len__(&self) -> usize {
        self.length
    }
}
