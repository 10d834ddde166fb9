//! `ParameterIndex` and `ParameterProvider`: parameters outside of programs, in memory and in archives.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString, PyTuple};
use vireo::hal::ParameterProvider;
use vireo::io::{
    ArchiveFormat, Contents, ContentsMode, IndexProvider, Parameter, ParameterIndex, ParameterStorage, Splat, irpa,
};
use vireo::modules::io_parameters::IoParameters;
use vireo::vm::Module;
use vireo::{Result, Status, StatusCode};

use super::bytes::HostBytes;
use super::file::{PyFileHandle, contents_of, view_of};
use super::module::{PyInstance, PyVmModule};
use super::throw::{OrThrow, throw, unimplemented, wrong_type};
use crate::interpreter::detached;

/// Bytes that are copied at a time.
const CHUNK: usize = 1 << 20;

/// Parameters by name.
#[pyclass(frozen, weakref, name = "ParameterIndex", module = "vireo.compat.iree._binding")]
pub struct PyParameterIndex(Mutex<ParameterIndex>);

impl PyParameterIndex {
    fn lock(&self) -> MutexGuard<'_, ParameterIndex> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, py: Python<'_>, parameter: Parameter) -> PyResult<()> {
        self.lock().add(parameter).or_throw(py, "Could not add parameter index entry")
    }

    /// Adds all parameters of an archive, or none.
    fn add_all(&self, read: &ParameterIndex) -> Result<()> {
        let mut index = self.lock();
        let mut extended = index.clone();
        read.iter().try_for_each(|parameter| extended.add(parameter.clone()))?;
        *index = extended;
        Ok(())
    }
}

/// Bytes, or the bytes of a text.
fn metadata_of(metadata: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<u8>> {
    match metadata {
        None => Ok(Vec::new()),
        Some(metadata) => match metadata.cast::<PyString>() {
            Ok(text) => Ok(text.to_str()?.as_bytes().to_vec()),
            Err(_) => Ok(HostBytes::of(metadata)?.as_slice().to_vec()),
        },
    }
}

fn format_of(py: Python<'_>, name: &str) -> PyResult<ArchiveFormat> {
    let found = ArchiveFormat::ALL.into_iter().find(|(_, known)| *known == name);
    let unknown = || Status::unimplemented(format!("there is no format '{name}': expected irpa, gguf or safetensors"));
    found.map(|(format, _)| format).ok_or_else(unknown).or_throw(py, "Could not load parameters")
}

#[pymethods]
impl PyParameterIndex {
    #[new]
    fn new() -> PyParameterIndex {
        PyParameterIndex(Mutex::default())
    }

    fn __len__(&self) -> usize {
        self.lock().len()
    }

    /// A parameter by its number.
    fn __getitem__(&self, i: isize) -> PyResult<PyParameterEntry> {
        let index = self.lock();
        let found = usize::try_from(i).ok().and_then(|i| index.iter().nth(i));
        let missing = || PyIndexError::new_err(format!("there is no parameter {i} of {}", index.len()));
        found.map(|parameter| PyParameterEntry(parameter.clone())).ok_or_else(missing)
    }

    /// Makes room for parameters.
    fn reserve(&self, py: Python<'_>, new_capacity: usize) -> PyResult<()> {
        // Parameters are few: room is made when they come. A number that cannot be is refused.
        let fits = isize::try_from(new_capacity).is_ok();
        let refused = || Status::resource_exhausted(format!("{new_capacity} parameters"));
        if fits { Ok(()) } else { Err(refused()) }.or_throw(py, "Could not reserve capacity")
    }

    /// All parameters, with their names.
    fn items(&self) -> Vec<(String, PyParameterEntry)> {
        self.lock().iter().map(|parameter| (parameter.key.clone(), PyParameterEntry(parameter.clone()))).collect()
    }

    /// Adds a parameter whose bytes are a pattern, again and again.
    #[pyo3(signature = (key, pattern, total_length, *, metadata=None))]
    fn add_splat(
        &self,
        key: String,
        pattern: &Bound<'_, PyAny>,
        total_length: u64,
        metadata: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = pattern.py();
        let bytes = HostBytes::of(pattern)?;
        if bytes.len() > Splat::MAX_LENGTH {
            let message = format!("pattern length must be at most {} bytes, and is {}", Splat::MAX_LENGTH, bytes.len());
            return Err(PyValueError::new_err(message));
        }
        let splat = Splat::new(bytes.as_slice()).or_throw(py, "Could not add parameter index entry")?;
        if !total_length.is_multiple_of(bytes.len() as u64) {
            let message = format!("{total_length} bytes are no multiple of the pattern's {}", bytes.len());
            return Err(throw(py, "Could not add parameter index entry", &Status::invalid_argument(message)));
        }
        let (storage, metadata) = (ParameterStorage::Splat(splat), metadata_of(metadata)?);
        self.add(py, Parameter { key, length: total_length, storage, metadata, tensor: None })
    }

    /// Adds a parameter with a range of a file or of memory.
    #[pyo3(signature = (key, file_handle, length, *, offset=0, metadata=None))]
    fn add_from_file_handle(
        &self,
        py: Python<'_>,
        key: String,
        file_handle: &PyFileHandle,
        length: u64,
        offset: u64,
        metadata: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let contents = file_handle.contents().clone();
        let size = contents.len();
        if offset.checked_add(length).is_none_or(|end| end > size) {
            let message = format!("{length} bytes from offset {offset} on are not in the {size} bytes that there are");
            return Err(throw(py, "Could not add parameter index entry", &Status::out_of_range(message)));
        }
        let (storage, metadata) = (ParameterStorage::Stored { contents, offset }, metadata_of(metadata)?);
        self.add(py, Parameter { key, length, storage, metadata, tensor: None })
    }

    /// Adds a parameter with the memory of an array, which must not be written afterwards.
    #[pyo3(signature = (key, buffer, *, readable=true, writable=false, metadata=None))]
    fn add_buffer(
        &self,
        key: String,
        buffer: &Bound<'_, PyAny>,
        readable: bool,
        writable: bool,
        metadata: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = buffer.py();
        if !readable || writable {
            return Err(unimplemented(py, "ParameterIndex.add_buffer that is written or not read"));
        }
        let contents = contents_of(py, buffer)?;
        let (length, metadata) = (contents.len(), metadata_of(metadata)?);
        let storage = ParameterStorage::Stored { contents, offset: 0 };
        self.add(py, Parameter { key, length, storage, metadata, tensor: None })
    }

    /// Adds the parameters of an archive. `format` is `irpa`, `gguf` or `safetensors`; without one the extension of the
    /// file says it.
    #[pyo3(signature = (file_path, *, format=None, readable=true, writable=false, mmap=true))]
    fn load(
        &self,
        py: Python<'_>,
        file_path: PathBuf,
        format: Option<&str>,
        readable: bool,
        writable: bool,
        mmap: bool,
    ) -> PyResult<()> {
        if !readable {
            return Err(unimplemented(py, "ParameterIndex.load that is not read"));
        }
        let format = format.map(|name| format_of(py, name)).transpose()?;
        let mode = if mmap { ContentsMode::Mmap } else { ContentsMode::Preload };
        let loaded = detached(py, || {
            let contents =
                if writable { Contents::open_writable(&file_path)? } else { Contents::open(&file_path, mode)? };
            let format = format.map_or_else(|| ArchiveFormat::of_path(&file_path), Ok)?;
            self.add_all(&ParameterIndex::read(format, &contents)?)
        });
        loaded.or_throw(py, "Could not load parameters")
    }

    /// Adds the parameters of an archive.
    fn load_from_file_handle(&self, py: Python<'_>, file_handle: &PyFileHandle, format: &str) -> PyResult<()> {
        let format = format_of(py, format)?;
        let loaded = detached(py, || self.add_all(&ParameterIndex::read(format, file_handle.contents())?));
        loaded.or_throw(py, "Could not load parameters")
    }

    /// Writes all parameters to an archive of the format irpa, from an offset of the file on. Adds those of the archive
    /// to `target_index`, which is returned, or to a new index.
    #[pyo3(signature = (file_path, file_offset=0, target_index=None))]
    fn create_archive_file(
        &self,
        py: Python<'_>,
        file_path: PathBuf,
        file_offset: u64,
        target_index: Option<Py<PyParameterIndex>>,
    ) -> PyResult<Py<PyParameterIndex>> {
        if file_offset != 0 {
            return Err(unimplemented(py, "ParameterIndex.create_archive_file at an offset other than 0"));
        }
        let target = match target_index {
            Some(target) => target,
            None => Py::new(py, PyParameterIndex::new())?,
        };
        let source = self.lock().clone();
        let written = detached(py, || {
            write_archive(&source, &file_path)?;
            let contents = Contents::open(&file_path, ContentsMode::Mmap)?;
            target.get().add_all(&ParameterIndex::read(ArchiveFormat::Irpa, &contents)?)
        });
        written.or_throw(py, "Error building parameter archive")?;
        Ok(target)
    }

    /// A provider of the parameters that there are now.
    #[pyo3(signature = (*, scope="", max_concurrent_operations=None))]
    fn create_provider(
        &self,
        py: Python<'_>,
        scope: &str,
        max_concurrent_operations: Option<usize>,
    ) -> PyResult<PyParameterProvider> {
        if max_concurrent_operations.is_some() {
            return Err(unimplemented(py, "ParameterIndex.create_provider with max_concurrent_operations"));
        }
        Ok(PyParameterProvider(Arc::new(IndexProvider::new(scope, self.lock().clone()))))
    }

    fn __repr__(&self) -> String {
        let index = self.lock();
        let mut text = format!(
            "Parameter scope <global> ({} entries, {} total bytes)\n{:>12} {:>12} {:>12}  Key\n",
            index.len(),
            index.total_bytes(),
            "Start",
            "End",
            "Length"
        );
        for parameter in index.iter() {
            let Parameter { key, length, storage, .. } = parameter;
            let (start, end) = match storage {
                ParameterStorage::Splat(_) => ("-".to_string(), "-".to_string()),
                ParameterStorage::Stored { offset, .. } => {
                    (offset.to_string(), offset.saturating_add(*length).to_string())
                }
            };
            text.push_str(&format!("{start:>12} {end:>12} {length:>12}  {key:?}\n"));
        }
        text
    }
}

/// Writes an archive beside the file, and moves it there once it is complete: the parameters may come from the file.
fn write_archive(index: &ParameterIndex, path: &Path) -> Result<()> {
    let failed = |what: &'static str| {
        move |error: std::io::Error| {
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => StatusCode::NotFound,
                std::io::ErrorKind::PermissionDenied => StatusCode::PermissionDenied,
                _ => StatusCode::Unavailable,
            };
            Status::new(code, format!("{}: cannot {what} the archive: {error}", path.display()))
        }
    };
    let mut builder = irpa::Builder::with_default_alignment();
    let mut stored = Vec::new();
    for parameter in index {
        match &parameter.storage {
            ParameterStorage::Splat(splat) => {
                builder.splat(&parameter.key, &parameter.metadata, parameter.length, *splat)?;
            }
            ParameterStorage::Stored { contents, offset } => {
                builder.data(&parameter.key, &parameter.metadata, parameter.length)?;
                stored.push((contents, *offset));
            }
        }
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let write = || -> Result<()> {
        let mut file = BufWriter::new(File::create(&new).map_err(failed("create"))?);
        builder.write_header(&mut file).map_err(failed("write"))?;
        let mut chunk = vec![0; CHUNK];
        for ((_, start, length), (contents, offset)) in builder.data_ranges().zip(&stored) {
            file.seek(SeekFrom::Start(start)).map_err(failed("write"))?;
            let mut done = 0;
            while done < length {
                let part = &mut chunk[..CHUNK.min(usize::try_from(length - done).unwrap_or(CHUNK))];
                contents.read_at(offset + done, part)?;
                file.write_all(part).map_err(failed("write"))?;
                done += part.len() as u64;
            }
        }
        let file = file.into_inner().map_err(|error| failed("write")(error.into_error()))?;
        file.set_len(builder.file_length()).map_err(failed("write"))?;
        std::fs::rename(&new, path).map_err(failed("move"))
    };
    write().inspect_err(|_| {
        // There may be none.
        let _ = std::fs::remove_file(&new);
    })
}

/// A parameter.
#[pyclass(frozen, weakref, name = "ParameterIndexEntry", module = "vireo.compat.iree._binding")]
pub struct PyParameterEntry(Parameter);

impl PyParameterEntry {
    fn stored(&self) -> PyResult<(&Contents, u64)> {
        match &self.0.storage {
            ParameterStorage::Stored { contents, offset } => Ok((contents, *offset)),
            ParameterStorage::Splat(_) => Err(PyValueError::new_err("Entry is not file storage based")),
        }
    }
}

#[pymethods]
impl PyParameterEntry {
    /// Its name.
    #[getter]
    fn key(&self) -> &str {
        &self.0.key
    }

    /// How many bytes it has.
    #[getter]
    fn length(&self) -> u64 {
        self.0.length
    }

    /// Bytes that archives store with it.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.metadata)
    }

    /// Whether its bytes are in a file or in memory.
    #[getter]
    fn is_file(&self) -> bool {
        self.stored().is_ok()
    }

    /// Whether its bytes are a pattern, again and again.
    #[getter]
    fn is_splat(&self) -> bool {
        !self.is_file()
    }

    /// The file or memory with its bytes, and the offset of the first.
    #[getter]
    fn file_storage(&self) -> PyResult<(PyFileHandle, u64)> {
        let (contents, offset) = self.stored()?;
        Ok((PyFileHandle::of(contents.clone()), offset))
    }

    /// Its bytes, where they are.
    #[getter]
    fn file_view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        let (contents, offset) = self.stored()?;
        view_of(py, contents, offset, self.0.length)
    }

    /// The pattern that its bytes repeat.
    #[getter]
    fn splat_pattern<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        match &self.0.storage {
            ParameterStorage::Splat(splat) => Ok(PyBytes::new(py, splat.pattern())),
            ParameterStorage::Stored { .. } => Err(PyValueError::new_err("Entry is not splat")),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Parameter { key, length, storage, .. } = &self.0;
        let key = PyString::new(py, key).repr()?;
        Ok(match storage {
            ParameterStorage::Splat(splat) => {
                let pattern = PyBytes::new(py, splat.pattern()).repr()?;
                format!("<ParameterIndexEntry {key} splat {pattern}:{length}>")
            }
            ParameterStorage::Stored { contents, offset } => {
                let handle = PyFileHandle::of(contents.clone()).show();
                format!("<ParameterIndexEntry {key} {handle}:{offset}:{length}>")
            }
        })
    }
}

/// Parameters of a scope, for programs.
#[pyclass(frozen, weakref, name = "ParameterProvider", module = "vireo.compat.iree._binding")]
pub struct PyParameterProvider(Arc<dyn ParameterProvider>);

/// The module `io_parameters` with these providers.
#[pyfunction]
#[pyo3(signature = (instance, *providers))]
pub fn create_io_parameters_module(
    py: Python<'_>,
    instance: &PyInstance,
    providers: &Bound<'_, PyTuple>,
) -> PyResult<PyVmModule> {
    let _ = instance;
    let provider = |object: Bound<'_, PyAny>| match object.cast::<PyParameterProvider>() {
        Ok(provider) => Ok(provider.get().0.clone()),
        Err(_) => Err(wrong_type("a ParameterProvider", &object)),
    };
    let providers = providers.iter().map(provider).collect::<PyResult<Vec<_>>>()?;
    let module = Module::native(IoParameters::new(providers));
    Ok(PyVmModule::of(module.or_throw(py, "Error creating io_parameters module")?))
}
