//! `vireo.Tensor`: a result of a call, or memory for arguments. Its elements are read in place, by the buffer protocol,
//! by DLPack and by `numpy`.

use std::any::Any;
use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::types::{PyBytes, PyString, PyTuple};
use pyo3::{ffi, intern, prelude::*};
use vireo::hal::{Device, ElementType, create_device};
use vireo::inference::dlpack::{ManagedTensor, Sharing};
use vireo::inference::{MappedTensor, Tensor};
use vireo::{Result, Status};

use crate::argument::is_number;
use crate::dtype::Dtype;
use crate::error::{OrRaise, invalid};
use crate::interpreter::{allow_forks, detached};
use crate::memory::{Array, Exported, Found, capsule, describe_type};

/// A tensor: elements of one type with a shape, which do not change unless `vireo.empty` made it.
#[pyclass(frozen, weakref, name = "Tensor", module = "vireo")]
pub struct PyTensor {
    tensor: Tensor,
    /// The elements in memory of the host. For a result that something else may refer to they are a copy, which is made
    /// when they are asked for.
    mapped: OnceLock<Arc<MappedTensor>>,
    is_writable: bool,
    layout: OnceLock<Layout>,
}

/// Sizes and distances as the buffer protocol points to them.
struct Layout {
    shape: Box<[isize]>,
    strides: Box<[isize]>,
}

impl PyTensor {
    /// The tensor of the library.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// A result of a call.
    pub fn of_result(tensor: Tensor) -> PyTensor {
        match tensor.map_in_place() {
            Ok(mapped) => PyTensor::of_mapped(mapped, false),
            Err(tensor) => PyTensor { tensor, mapped: OnceLock::new(), is_writable: false, layout: OnceLock::new() },
        }
    }

    fn of_mapped(mapped: MappedTensor, is_writable: bool) -> PyTensor {
        let tensor = mapped.tensor().clone();
        PyTensor { tensor, mapped: OnceLock::from(Arc::new(mapped)), is_writable, layout: OnceLock::new() }
    }

    fn mapped(&self, py: Python<'_>) -> PyResult<&Arc<MappedTensor>> {
        if let Some(mapped) = self.mapped.get() {
            return Ok(mapped);
        }
        // Of two threads that make a copy, one drops its own.
        let mapped = detached(py, || self.tensor.clone().into_mapped()).or_raise(py)?;
        Ok(self.mapped.get_or_init(|| Arc::new(mapped)))
    }

    fn dtype_of(&self) -> Option<&'static Dtype> {
        Dtype::of(self.tensor.element_type())
    }

    fn expect_dtype(&self) -> Result<&'static Dtype> {
        let element_type = self.tensor.element_type();
        self.dtype_of()
            .ok_or_else(|| Status::unimplemented(format!("Python has no element type for tensors of {element_type}")))
    }

    fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| {
            // The elements are in memory, and a shape without elements may have any sizes.
            let shape: Box<[isize]> =
                self.tensor.shape().iter().map(|size| isize::try_from(*size).unwrap_or(isize::MAX)).collect();
            let mut strides = vec![self.tensor.element_type().byte_count() as isize; shape.len()].into_boxed_slice();
            for dimension in (1..shape.len()).rev() {
                strides[dimension - 1] = strides[dimension].wrapping_mul(shape[dimension].max(1));
            }
            Layout { shape, strides }
        })
    }

    /// A copy of the elements, with the elements of its dtype.
    fn element_values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import(intern!(slf.py(), "vireo._arrays"))?.call_method1(intern!(slf.py(), "to_list"), (slf,))
    }

    fn single<'py>(slf: &Bound<'py, Self>, what: &str) -> PyResult<Bound<'py, PyAny>> {
        let tensor = &slf.get().tensor;
        if tensor.shape().iter().any(|size| *size != 1) {
            let message = format!("{what} needs one element, and the tensor is {}", tensor.view().shape_and_type());
            return Err(PyTypeError::new_err(message));
        }
        let mut value = PyTensor::element_values(slf)?;
        for _ in tensor.shape() {
            value = value.get_item(0)?;
        }
        Ok(value)
    }

    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import(intern!(py, "vireo._arrays"))?.call_method1(intern!(py, "to_array"), (slf,))
    }
}

#[pymethods]
impl PyTensor {
    /// The size of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.shape())
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor.shape().len()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> u64 {
        self.tensor.view().element_count()
    }

    /// The number of bytes of all elements.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.tensor.view().byte_length()
    }

    /// The name of the element type in `numpy`, or in `ml_dtypes`.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        Ok(PyString::intern(py, self.expect_dtype().or_raise(py)?.name))
    }

    /// The name of the element type in programs, such as `f32`.
    #[getter]
    fn element_type(&self) -> String {
        self.tensor.element_type().to_string()
    }

    /// Whether the elements are where the program wrote them, or where their owner has them, without a copy.
    #[getter]
    fn in_place(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.mapped(py)?.is_in_place())
    }

    /// An array of `numpy` with the elements, without a copy.
    #[pyo3(name = "numpy")]
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        PyTensor::numpy(slf)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import(intern!(py, "vireo._arrays"))?.call_method1(intern!(py, "convert"), (slf, dtype, copy))
    }

    /// The elements as numbers, in lists of lists.
    fn tolist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        PyTensor::element_values(slf)
    }

    /// The only element as a number.
    fn item<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        PyTensor::single(slf, "item()")
    }

    /// A copy of the bytes of the elements, row by row.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mapped = self.mapped(py)?;
        PyBytes::new_with(py, mapped.byte_length(), |bytes| {
            if !bytes.is_empty() {
                // SAFETY: the elements have as many bytes, which stay there as long as the tensor.
                unsafe { mapped.data().as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
            }
            Ok(())
        })
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        slf: &Bound<'_, Self>,
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        if stream.is_some() {
            return Err(PyBufferError::new_err("the elements are in memory of the host, which has no streams"));
        }
        if let Some(device) = dl_device.filter(|device| *device != slf.get().__dlpack_device__()) {
            let message = format!("device {device:?} of DLPack is asked for, and the elements are on the host, (1, 0)");
            return Err(PyBufferError::new_err(message));
        }
        let this = slf.get();
        let mapped = this.mapped(py)?;
        let (elements, sharing) = match copy {
            Some(true) => {
                let copied = detached(py, || {
                    let (tensor, data) = (&this.tensor, mapped.data());
                    let fill = |out: &mut [u8]| {
                        // SAFETY: there are as many bytes, and the copy is other memory.
                        unsafe { data.as_ptr().copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
                        Ok(())
                    };
                    Tensor::filled_by(&*host()?, tensor.shape(), tensor.element_type(), fill)?.into_mapped()
                });
                (Arc::new(copied.or_raise(py)?), Sharing::Copy)
            }
            _ if copy == Some(false) && !mapped.is_in_place() => {
                return Err(PyBufferError::new_err(NOT_IN_PLACE));
            }
            _ => (mapped.clone(), if this.is_writable { Sharing::Writable } else { Sharing::ReadOnly }),
        };
        let exported = if max_version.is_some_and(|(major, _)| major >= 1) {
            ManagedTensor::versioned(elements, sharing).map(Exported::Versioned)
        } else {
            ManagedTensor::unversioned(elements).map(Exported::Unversioned)
        };
        let exported = exported.map_err(|status| PyBufferError::new_err(status.message().to_string()))?;
        capsule(py, exported)
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        (vireo::hal::DlpackDeviceType::CPU.0, 0)
    }

    /// The elements as a capsule of DLPack, with their bytes as elements: for libraries that do not know their type.
    fn _dlpack_bytes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let bytes = self.mapped(py)?.clone();
        capsule(py, Exported::Unversioned(ManagedTensor::bytes(bytes)))
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let refuse = |message: String| Err(PyBufferError::new_err(message));
        if view.is_null() {
            return refuse("there is no structure for the buffer".into());
        }
        let format = match this.dtype_of() {
            Some(Dtype { format: Some(format), .. }) => *format,
            Some(dtype) => return refuse(format!("buffers have no format for {}: use `numpy()`", dtype.name)),
            None => return refuse(format!("buffers have no elements of {}", this.tensor.element_type())),
        };
        let mapped = this.mapped(py)?;
        if flags & ffi::PyBUF_WRITABLE != 0 && !this.is_writable {
            return refuse("the tensor is read-only".into());
        }
        let layout = this.layout();
        let rank = layout.shape.len();
        if flags & ffi::PyBUF_F_CONTIGUOUS == ffi::PyBUF_F_CONTIGUOUS
            && flags & ffi::PyBUF_C_CONTIGUOUS != ffi::PyBUF_C_CONTIGUOUS
            && layout.shape.iter().filter(|size| **size != 1).count() > 1
        {
            return refuse("the elements are row by row".into());
        }
        let wants = |flag: c_int| flags & flag == flag;
        // SAFETY: the caller passes a structure to be written. What it points to belongs to the object, which it keeps,
        // and does not move.
        unsafe {
            view.write(ffi::Py_buffer {
                buf: mapped.data().as_ptr().cast(),
                obj: ptr::null_mut(),
                len: mapped.byte_length() as isize,
                itemsize: this.tensor.element_type().byte_count() as isize,
                readonly: c_int::from(!this.is_writable),
                ndim: if wants(ffi::PyBUF_ND) { rank as c_int } else { 1 },
                format: if wants(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { ptr::null_mut() },
                shape: if wants(ffi::PyBUF_ND) && rank > 0 {
                    layout.shape.as_ptr().cast_mut()
                } else {
                    ptr::null_mut()
                },
                strides: if wants(ffi::PyBUF_STRIDES) && rank > 0 {
                    layout.strides.as_ptr().cast_mut()
                } else {
                    ptr::null_mut()
                },
                suboffsets: ptr::null_mut(),
                internal: ptr::null_mut(),
            });
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }

    fn __len__(&self) -> PyResult<usize> {
        let size = self.tensor.shape().first();
        let size = size.ok_or_else(|| PyTypeError::new_err("a tensor without dimensions has no length"))?;
        usize::try_from(*size).map_err(|_| PyValueError::new_err("the tensor has too many rows"))
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        PyTensor::numpy(slf)?.get_item(index)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyTensor::numpy(slf)?.try_iter()?.into_any())
    }

    fn __float__<'py>(slf: &Bound<'py, Self>) -> PyResult<f64> {
        PyTensor::single(slf, "float()")?.extract()
    }

    fn __int__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let value = PyTensor::single(slf, "int()")?;
        value.get_type().call_method1("__int__", (value,))
    }

    fn __bool__(slf: &Bound<'_, Self>) -> PyResult<bool> {
        PyTensor::single(slf, "bool()")?.is_truthy()
    }

    fn __repr__(&self) -> String {
        format!("<vireo.Tensor {}>", self.tensor.view().shape_and_type())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let rebuild = py.import(intern!(py, "vireo._arrays"))?.getattr(intern!(py, "from_bytes"))?;
        let this = slf.get();
        let state = (this.shape(py)?, this.element_type(), this.tobytes(py)?).into_pyobject(py)?;
        Ok((rebuild, state))
    }
}

/// The reason for which a tensor is not passed on without a copy.
const NOT_IN_PLACE: &str = "something else refers to the tensor, and `copy=False` refuses a copy of its elements";

/// The device of tensors that belong to none: their memory is that of the host, which all devices of the host use.
fn host() -> Result<Arc<dyn Device>> {
    static HOST: OnceLock<Arc<dyn Device>> = OnceLock::new();
    if let Some(device) = HOST.get() {
        return Ok(device.clone());
    }
    let device = create_device("local-sync")?;
    Ok(HOST.get_or_init(|| device).clone())
}

/// A tensor over the memory of an array, without a copy.
#[pyfunction]
pub fn borrow(py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    if is_number(array) {
        return Err(invalid(py, "a number has no memory to borrow"));
    }
    let Found::Array(found) = Array::of(array)? else {
        return Err(invalid(py, format!("expected an array, got {}", describe_type(array))));
    };
    if found.dense().is_none() {
        return Err(invalid(py, "the elements of the array do not follow each other row by row: copy it"));
    }
    allow_forks(py)?;
    let found = Arc::new(found);
    let owner: Arc<dyn Any + Send + Sync> = found.clone();
    // An array without elements may have any address.
    let data = found.address().unwrap_or(NonNull::dangling());
    // SAFETY: the exporter keeps the elements readable as long as the array that owns the export. No Rust reference to
    // them is kept.
    let mapped =
        host().and_then(|host| unsafe { Tensor::import(&*host, &found.shape, found.element_type(None), data, owner) });
    let mapped = mapped.map_err(|status| {
        status.context("the array cannot be borrowed; `vireo.empty` has memory that programs can use")
    });
    Ok(PyTensor::of_mapped(mapped.or_raise(py)?, false))
}

/// A tensor of zeros, which the host may write to as long as no call uses it: as `memoryview`, or as array of `numpy`.
#[pyfunction]
#[pyo3(signature = (shape, dtype=None))]
pub fn empty(py: Python<'_>, shape: &Bound<'_, PyAny>, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<PyTensor> {
    let shape: Vec<u64> = match shape.extract::<u64>() {
        Ok(size) => vec![size],
        Err(_) => shape.extract()?,
    };
    let name = dtype.map_or_else(|| Ok("float32".to_string()), dtype_name)?;
    let element_type = match Dtype::named(&name) {
        Some(dtype) => dtype.element_type,
        None => ElementType::parse(&name).or_raise(py)?,
    };
    let mapped = detached(py, || Tensor::zeroed(&*host()?, &shape, element_type)).or_raise(py)?;
    Ok(PyTensor::of_mapped(mapped, true))
}

/// A tensor with these elements, row by row.
#[pyfunction]
pub fn _tensor_of_bytes(py: Python<'_>, shape: Vec<u64>, element_type: &str, bytes: &[u8]) -> PyResult<PyTensor> {
    let made = detached(py, || {
        let fill = |out: &mut [u8]| {
            if out.len() != bytes.len() {
                let message = format!("{} bytes for a tensor of {} bytes", bytes.len(), out.len());
                return Err(Status::invalid_argument(message));
            }
            out.copy_from_slice(bytes);
            Ok(())
        };
        Tensor::filled_by(&*host()?, &shape, ElementType::parse(element_type)?, fill)
    });
    Ok(PyTensor::of_result(made.or_raise(py)?))
}

/// The name of an element type: a name, a type of `numpy`, or something that has one as its `dtype`.
fn dtype_name(dtype: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(name) = dtype.extract::<String>() {
        return Ok(name);
    }
    let py = dtype.py();
    if !dtype.is_instance_of::<pyo3::types::PyType>()
        && let Some(name) = dtype.getattr_opt(intern!(py, "name"))?
    {
        return name.extract();
    }
    let dtype = py.import(intern!(py, "numpy"))?.getattr(intern!(py, "dtype"))?.call1((dtype,))?;
    dtype.getattr(intern!(py, "name"))?.extract()
}
