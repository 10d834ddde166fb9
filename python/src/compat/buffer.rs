//! `HalBuffer`, `HalBufferView`, `MappedMemory`, `Shape` and `VmBuffer`: memory of devices and of programs.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::types::{PyDict, PyList};
use pyo3::{ffi, intern, prelude::*};
use vireo::hal::{
    Buffer, BufferRefObject, BufferUsage, BufferView, ElementType, EncodingType, Mapping, MappingMode, MemoryAccess,
    MemoryType, buffer_fill,
};
use vireo::vm::{self, Obj};

use super::bytes::export;
use super::object::PyVmObject;
use super::throw::OrThrow;
use crate::interpreter::detached;

/// Memory of a device.
#[pyclass(frozen, extends = PyVmObject, name = "HalBuffer", module = "vireo.compat.iree._binding")]
pub struct PyHalBuffer(pub Arc<dyn Buffer>);

impl PyHalBuffer {
    /// A buffer of a device.
    pub fn of(py: Python<'_>, buffer: Arc<dyn Buffer>) -> PyResult<Py<PyHalBuffer>> {
        PyVmObject::make(py, BufferRefObject::to_ref(buffer.clone()), PyHalBuffer(buffer))
    }
}

#[pymethods]
impl PyHalBuffer {
    /// The bits of what it may be used for.
    fn allowed_usage(&self) -> u32 {
        self.0.allowed_usage().bits()
    }

    /// The bits of the kind of memory.
    fn memory_type(&self) -> u32 {
        self.0.memory_type().bits()
    }

    /// How many bytes there are.
    fn byte_length(&self) -> u64 {
        self.0.byte_length()
    }

    /// Zeroes a range.
    fn fill_zero(&self, py: Python<'_>, byte_offset: u64, byte_length: u64) -> PyResult<()> {
        let filled = detached(py, || buffer_fill(&*self.0, byte_offset, byte_length, &[0]));
        filled.or_throw(py, "Error zero filling buffer")
    }

    /// A view of elements of a size, whose type is not known.
    fn create_view(&self, py: Python<'_>, shape: &PyShape, element_size: u32) -> PyResult<Py<PyBufferView>> {
        let element_type = ElementType(element_size.saturating_mul(8));
        let view = BufferView::new(self.0.clone(), &shape.0, element_type, EncodingType::DENSE_ROW_MAJOR);
        PyBufferView::of(py, Obj::new(view.or_throw(py, "Error creating buffer view")?))
    }

    /// The memory, to be read and written.
    fn map(&self, py: Python<'_>) -> PyResult<PyMappedMemory> {
        PyMappedMemory::of(py, &self.0)
    }

    fn __repr__(&self) -> String {
        format!("<HalBuffer {}>", describe(&*self.0))
    }
}

/// A tensor: a buffer with a shape and an element type.
#[pyclass(frozen, extends = PyVmObject, name = "HalBufferView", module = "vireo.compat.iree._binding")]
pub struct PyBufferView(pub Obj<BufferView>);

impl PyBufferView {
    /// A buffer view of the library.
    pub fn of(py: Python<'_>, view: Obj<BufferView>) -> PyResult<Py<PyBufferView>> {
        PyVmObject::make(py, view.clone().into_ref(), PyBufferView(view))
    }
}

#[pymethods]
impl PyBufferView {
    #[new]
    fn new(
        py: Python<'_>,
        buffer: &Bound<'_, PyHalBuffer>,
        shape: Vec<u64>,
        element_type: u32,
    ) -> PyResult<PyClassInitializer<PyBufferView>> {
        let (buffer, element_type) = (buffer.get().0.clone(), ElementType(element_type));
        let view = BufferView::new(buffer, &shape, element_type, EncodingType::DENSE_ROW_MAJOR);
        let view = Obj::new(view.or_throw(py, "creating buffer view")?);
        Ok(PyVmObject::over(view.clone().into_ref(), PyBufferView(view)))
    }

    /// The buffer with the elements.
    fn get_buffer(&self, py: Python<'_>) -> PyResult<Py<PyHalBuffer>> {
        PyHalBuffer::of(py, self.0.buffer().clone())
    }

    /// The memory of the buffer, to be read and written.
    fn map(&self, py: Python<'_>) -> PyResult<PyMappedMemory> {
        PyMappedMemory::of(py, self.0.buffer())
    }

    /// The size of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.shape())
    }

    /// The number of the element type, that of `HalElementType`.
    #[getter]
    fn element_type(&self) -> u32 {
        self.0.element_type().0
    }

    /// How many bytes the elements have.
    #[getter]
    fn byte_length(&self) -> u64 {
        self.0.byte_length()
    }

    fn __repr__(&self) -> String {
        let shape = self.0.shape().iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let element_type = self.0.element_type().0.swap_bytes();
        format!("<HalBufferView ({shape}), element_type={element_type:#010x}, {}>", describe(&**self.0.buffer()))
    }
}

/// The size, place and kind of a buffer.
fn describe(buffer: &dyn Buffer) -> String {
    let access = buffer.allowed_access();
    let usage = buffer.allowed_usage();
    // The interface has no names for hints: it shows their bits.
    let accesses = MemoryAccess::NAMED.iter().filter(|(set, _)| MemoryAccess::ALL.contains(*set));
    format!(
        "{} bytes (at offset {} into {}), memory_type={}, allowed_access={}, allowed_usage={}",
        buffer.byte_length(),
        buffer.byte_offset(),
        buffer.allocation_size(),
        bits(MemoryType::NAMED.iter().map(|(set, name)| (set.bits(), *name)), buffer.memory_type().bits()),
        bits(accesses.map(|(set, name)| (set.bits().into(), *name)), access.bits().into()),
        bits(BufferUsage::NAMED.iter().map(|(set, name)| (set.bits(), *name)), usage.bits()),
    )
}

/// The names of the bits of a set, those of most bits first. `default` stands for others and is none.
fn bits(names: impl Iterator<Item = (u32, &'static str)>, set: u32) -> String {
    let mut names: Vec<_> = names.filter(|(_, name)| *name != "default").collect();
    names.sort_by_key(|(bits, _)| std::cmp::Reverse(bits.count_ones()));
    let (mut left, mut shown) = (set, Vec::new());
    for (bits, name) in names {
        if bits != 0 && left & bits == bits {
            left &= !bits;
            shown.push(name.to_uppercase());
        }
    }
    if left != 0 {
        shown.push(format!("{left:x}h"));
    }
    if shown.is_empty() { "NONE".into() } else { shown.join("|") }
}

/// Memory of a buffer, as the host sees it. It stays where it is as long as this lives.
#[pyclass(frozen, weakref, name = "MappedMemory", module = "vireo.compat.iree._binding")]
pub struct PyMappedMemory {
    mapping: Mapped,
    is_read_only: bool,
}

struct Mapped(Mapping);

// SAFETY: a mapping is an address with the owner of the bytes, which is `Send + Sync`; the bytes are reached through
// raw pointers only.
unsafe impl Send for Mapped {}
// SAFETY: no method reads or writes the bytes by a reference to this; raw pointers alone reach them.
unsafe impl Sync for Mapped {}

impl PyMappedMemory {
    fn of(py: Python<'_>, buffer: &Arc<dyn Buffer>) -> PyResult<PyMappedMemory> {
        let access = buffer.allowed_access() & (MemoryAccess::READ | MemoryAccess::WRITE);
        let mapped =
            detached(py, || buffer.map_range(MappingMode::SCOPED, access, 0, buffer.byte_length()).map(Mapped));
        let mapping = mapped.or_throw(py, "Could not map memory")?;
        Ok(PyMappedMemory { mapping, is_read_only: !access.contains(MemoryAccess::WRITE) })
    }
}

#[pymethods]
impl PyMappedMemory {
    /// An array of `numpy` over the memory, which has to be large enough.
    fn asarray<'py>(
        slf: &Bound<'py, Self>,
        shape: Vec<usize>,
        numpy_dtype_descr: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let numpy = py.import(intern!(py, "numpy"))?;
        let dtype = numpy.getattr(intern!(py, "dtype"))?.call1((numpy_dtype_descr,))?;
        // Bytes of a device would become the addresses of objects.
        if dtype.getattr(intern!(py, "hasobject"))?.is_truthy()? {
            return Err(PyValueError::new_err(format!("memory of a device has no objects: {dtype}")));
        }
        let keywords = PyDict::new(py);
        keywords.set_item(intern!(py, "shape"), shape)?;
        keywords.set_item(intern!(py, "dtype"), dtype)?;
        keywords.set_item(intern!(py, "buffer"), slf)?;
        numpy.getattr(intern!(py, "ndarray"))?.call((), Some(&keywords))
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let (data, length) = (this.mapping.0.data, this.mapping.0.length as usize);
        // SAFETY: Python passes the structure. The mapping keeps the bytes, and is read-only where the buffer is.
        unsafe { export(slf.as_any(), view, flags, data, length, this.is_read_only) }
    }
}

/// The size of each dimension of a buffer view.
#[pyclass(frozen, name = "Shape", module = "vireo.compat.iree._binding")]
pub struct PyShape(Vec<u64>);

#[pymethods]
impl PyShape {
    #[new]
    fn new(indices: Vec<u64>) -> PyShape {
        PyShape(indices)
    }
}

/// Bytes of a program.
#[pyclass(frozen, extends = PyVmObject, name = "VmBuffer", module = "vireo.compat.iree._binding")]
pub struct PyVmBuffer(Obj<vm::Buffer>);

impl PyVmBuffer {
    /// A buffer of a program.
    pub fn of(py: Python<'_>, buffer: Obj<vm::Buffer>) -> PyResult<Py<PyVmBuffer>> {
        PyVmObject::make(py, buffer.clone().into_ref(), PyVmBuffer(buffer))
    }
}

#[pymethods]
impl PyVmBuffer {
    #[new]
    #[pyo3(signature = (length, alignment=0, mutable=true))]
    fn new(py: Python<'_>, length: usize, alignment: usize, mutable: bool) -> PyResult<PyClassInitializer<PyVmBuffer>> {
        let buffer = vm::Buffer::allocate(length, alignment.max(1)).or_throw(py, "Error creating buffer")?;
        let buffer = if mutable {
            buffer
        } else {
            let owner = Arc::new(buffer);
            let data = NonNull::new(owner.as_ptr()).unwrap_or(NonNull::dangling());
            // SAFETY: the owner has as many bytes at that address, and nothing else refers to it.
            unsafe { vm::Buffer::from_shared(owner, data, length, false) }
        };
        let buffer = Obj::new(buffer);
        Ok(PyVmObject::over(buffer.clone().into_ref(), PyVmBuffer(buffer)))
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let buffer = &slf.get().0;
        let data = NonNull::new(buffer.as_ptr()).unwrap_or(NonNull::dangling());
        // SAFETY: Python passes the structure. The buffer keeps its bytes where they are, which programs and the host
        // reach through raw pointers alone.
        unsafe { export(slf.as_any(), view, flags, data, buffer.len(), !buffer.is_mutable()) }
    }

    fn __repr__(&self) -> String {
        format!("<VmBuffer size {} at {:p}>", self.0.len(), self.0.as_ptr())
    }
}
