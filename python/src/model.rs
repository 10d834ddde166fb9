//! `vireo.Model` and `vireo.Session`: compiled models, and their state.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use pyo3::exceptions::{PyAttributeError, PyKeyError, PyTypeError};
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use pyo3::{intern, prelude::*};
use vireo::hal::BuiltinOptions;
use vireo::hal::local::task::TaskConfig;
use vireo::inference::{Model, Session};
use vireo::vm::Module;
use vireo::{Result, SecurityPolicy, StatusCode};

use crate::error::{OrRaise, invalid, raise};
use crate::function::PyFunction;
use crate::interpreter::detached;
use crate::interrupts;
use crate::limits::PyLimits;
use crate::logging;
use crate::memory::describe_type;
use crate::progress::PyProgress;
use crate::signature::{PySignature, html};

/// Variables of the environment that say how many threads `local-task` has, the first that is set.
const THREAD_VARIABLES: [&str; 2] = ["VIREO_NUM_THREADS", "OMP_NUM_THREADS"];

/// A compiled model: verified and linked modules with their devices and parameters. Threads share it, each with a
/// session of its own. It is pickled by the path and the digest of its file.
#[pyclass(frozen, weakref, name = "Model", module = "vireo")]
pub struct PyModel {
    model: Model,
    /// The threads of `local-task`, if they were chosen.
    threads: Option<u32>,
    origin: Origin,
    progress: Option<Arc<PyProgress>>,
}

/// The ingredients of a model, of which another process makes it again.
struct Origin {
    source: Source,
    devices: Vec<String>,
    parameters: Vec<(String, PathBuf)>,
    limits: Option<Py<PyLimits>>,
    policy: String,
    threads: Option<u32>,
    preload: bool,
}

enum Source {
    /// A file, with its size and the time of its last change when it was opened.
    File {
        path: PathBuf,
        stamp: (u64, u128),
    },
    Bytes(Py<PyBytes>),
}

impl Origin {
    fn load(&self, py: Python<'_>, progress: Option<&Arc<PyProgress>>) -> PyResult<(Model, Option<u32>)> {
        let mut policy = match self.policy.as_str() {
            "trusted" => SecurityPolicy::trusted(),
            "untrusted" => SecurityPolicy::untrusted(),
            other => {
                let message = format!("`policy` is `{other}`: expected `trusted` or `untrusted`");
                return Err(invalid(py, message));
            }
        };
        if let Some(limits) = &self.limits {
            policy.limits = limits.get().over(&policy.limits);
        }
        policy.limits.cancellation.get_or_insert_with(interrupts::cancellation);
        let threads = self.threads.map_or_else(|| threads_of_environment(py), |threads| Ok(Some(threads)))?;
        if threads == Some(0) {
            return Err(invalid(py, "`threads` is 0: expected at least 1"));
        }
        let bytes = match &self.source {
            Source::File { .. } => None,
            Source::Bytes(bytes) => Some(bytes.bind(py).as_bytes()),
        };
        let load = || -> Result<Model> {
            let mut options = BuiltinOptions { policy: policy.clone(), ..BuiltinOptions::default() };
            if let Some(threads) = threads {
                options.local_task = TaskConfig { group_count: threads, ..options.local_task };
            }
            options.kernel_progress = progress.map(|progress| progress.clone() as _);
            let mut builder = Session::builder().policy(policy).drivers(Arc::new(options.registry()));
            if let Some(progress) = progress {
                builder = builder.parameter_progress(progress.clone());
            }
            if self.preload {
                builder = builder.preload();
            }
            builder = self.devices.iter().fold(builder, |builder, uri| builder.device(uri));
            let with = |builder: vireo::inference::ModelBuilder, (scope, path): &(String, PathBuf)| {
                builder.parameters_in(scope, path)
            };
            builder = self.parameters.iter().fold(builder, with);
            match (&self.source, bytes) {
                (Source::File { path, .. }, _) => builder.build_file(path),
                (Source::Bytes(_), bytes) => builder.build(Module::from_bytes(bytes.unwrap_or_default())?),
            }
        };
        Ok((detached(py, load).or_raise(py)?, threads))
    }
}

/// The number of threads that the environment asks for. `OMP_NUM_THREADS` may be a list, for nested regions.
pub fn threads_of_environment(py: Python<'_>) -> PyResult<Option<u32>> {
    for variable in THREAD_VARIABLES {
        let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else { continue };
        let number =
            value.to_str().and_then(|value| value.split(',').next()).and_then(|first| first.trim().parse().ok());
        return match number {
            Some(number @ 1..) => Ok(Some(number)),
            _ => Err(invalid(py, format!("{variable} is {value:?}: expected a number of threads"))),
        };
    }
    Ok(None)
}

/// The path that a text or an object with a path is, absolute, so that it is the same file wherever it is pickled.
fn path_of(value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let path: PathBuf = value.extract()?;
    Ok(std::path::absolute(&path).unwrap_or(path))
}

fn is_path(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.is_instance_of::<PyString>() || value.hasattr(intern!(value.py(), "__fspath__"))?)
}

fn one_or_more<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return value.try_iter()?.collect();
    }
    Ok(vec![value.clone()])
}

/// Archives of parameters with their scopes: a path, several, or a dictionary of those by scope.
fn parameters_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, PathBuf)>> {
    let mut archives = Vec::new();
    let mut add = |scope: &str, paths: &Bound<'_, PyAny>| -> PyResult<()> {
        for path in one_or_more(paths)? {
            if !is_path(&path)? {
                let message = format!("`parameters`: expected the path of an archive, got {}", describe_type(&path));
                return Err(invalid(value.py(), message));
            }
            archives.push((scope.to_string(), path_of(&path)?));
        }
        Ok(())
    };
    if let Ok(scopes) = value.cast::<PyDict>() {
        for (scope, paths) in scopes.iter() {
            add(&scope.extract::<String>()?, &paths)?;
        }
    } else {
        add("", value)?;
    }
    Ok(archives)
}

fn stamp(path: &PathBuf) -> (u64, u128) {
    let metadata = std::fs::metadata(path);
    metadata.map_or((0, 0), |metadata| {
        let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        (metadata.len(), changed.map_or(0, |time| time.as_nanos()))
    })
}

/// The keyword arguments of models and sessions.
struct Choices<'a, 'py> {
    device: Option<&'a Bound<'py, PyAny>>,
    parameters: Option<&'a Bound<'py, PyAny>>,
    limits: Option<Py<PyLimits>>,
    policy: &'a str,
    threads: Option<u32>,
    preload: bool,
    progress: Option<Py<PyAny>>,
}

impl PyModel {
    fn make(source: &Bound<'_, PyAny>, choices: Choices<'_, '_>) -> PyResult<PyModel> {
        let py = source.py();
        let source = if let Ok(bytes) = source.cast::<PyBytes>() {
            Source::Bytes(bytes.clone().unbind())
        } else if is_path(source)? {
            let path = path_of(source)?;
            let stamp = stamp(&path);
            Source::File { path, stamp }
        // SAFETY: the interpreter is attached, and the object is alive.
        } else if unsafe { pyo3::ffi::PyObject_CheckBuffer(source.as_ptr()) } == 1 {
            Source::Bytes(py.get_type::<PyBytes>().call1((source,))?.cast_into::<PyBytes>()?.unbind())
        } else {
            let message = format!("expected the path or the bytes of a module file, got {}", describe_type(source));
            return Err(invalid(py, message));
        };
        let devices = choices.device.map(one_or_more).transpose()?.unwrap_or_default();
        let devices = devices.iter().map(|uri| {
            let wrong = |_| invalid(py, format!("`device`: expected the URI of a device, got {}", describe_type(uri)));
            uri.extract::<String>().map_err(wrong)
        });
        let origin = Origin {
            source,
            devices: devices.collect::<PyResult<_>>()?,
            parameters: choices.parameters.map(parameters_of).transpose()?.unwrap_or_default(),
            limits: choices.limits,
            policy: choices.policy.to_string(),
            threads: choices.threads,
            preload: choices.preload,
        };
        let progress = choices.progress.map(|callback| Arc::new(PyProgress::new(callback)));
        logging::read_level(py)?;
        let model = origin.load(py, progress.as_ref());
        finish(py, progress.as_ref())?;
        let (model, threads) = model?;
        Ok(PyModel { model, threads, origin, progress })
    }

    fn new_session(&self, py: Python<'_>) -> PyResult<Session> {
        logging::read_level(py)?;
        let session = detached(py, || self.model.session());
        finish(py, self.progress.as_ref())?;
        session.or_raise(py)
    }
}

/// The exception of a callback that has raised one.
fn finish(py: Python<'_>, progress: Option<&Arc<PyProgress>>) -> PyResult<()> {
    progress.and_then(|progress| progress.take_error(py)).map_or(Ok(()), Err)
}

#[pymethods]
impl PyModel {
    #[new]
    #[pyo3(signature = (
        source, *, device=None, parameters=None, limits=None, policy="trusted", threads=None, preload=false, progress=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        source: &Bound<'_, PyAny>,
        device: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyAny>>,
        limits: Option<Py<PyLimits>>,
        policy: &str,
        threads: Option<u32>,
        preload: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<PyModel> {
        PyModel::make(source, Choices { device, parameters, limits, policy, threads, preload, progress })
    }

    /// A session, which has the state of the program to itself.
    fn session(slf: &Bound<'_, Self>) -> PyResult<PySession> {
        let session = slf.get().new_session(slf.py())?;
        Ok(PySession { session, model: slf.clone().unbind() })
    }

    /// The name of the module.
    #[getter]
    fn name(&self) -> String {
        self.model.main().name().to_string()
    }

    /// The signatures of the functions, by name.
    #[getter]
    fn signatures(&self) -> BTreeMap<String, PySignature> {
        let named = |signature: vireo::inference::Signature| (signature.name.clone(), PySignature(Arc::new(signature)));
        self.model.signatures().into_iter().map(named).collect()
    }

    /// How many threads `local-task` has, if that was chosen; else they are as many as the process may use.
    #[getter]
    fn threads(&self) -> Option<u32> {
        self.threads
    }

    /// The names of the devices.
    #[getter]
    fn devices(&self) -> Vec<String> {
        self.model.devices().iter().map(|device| device.id().to_string()).collect()
    }

    fn __repr__(&self) -> String {
        let names: Vec<String> = self.model.signatures().iter().map(ToString::to_string).collect();
        format!("<vireo.Model {}: {}>", self.model.main().name(), names.join(", "))
    }

    fn _repr_html_(&self) -> String {
        html(self.model.main().name(), &self.model.signatures())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, this) = (slf.py(), slf.get());
        let models = py.import(intern!(py, "vireo._models"))?;
        let origin = &this.origin;
        let keywords = PyDict::new(py);
        keywords.set_item("device", &origin.devices)?;
        let scopes = PyDict::new(py);
        for (scope, path) in &origin.parameters {
            match scopes.get_item(scope)? {
                Some(paths) => paths.call_method1("append", (path,))?,
                None => {
                    scopes.set_item(scope, PyList::new(py, [path])?)?;
                    continue;
                }
            };
        }
        keywords.set_item("parameters", scopes)?;
        keywords.set_item("limits", origin.limits.as_ref().map(|limits| limits.clone_ref(py)))?;
        keywords.set_item("policy", &origin.policy)?;
        keywords.set_item("threads", origin.threads)?;
        keywords.set_item("preload", origin.preload)?;
        let (source, digest) = match &origin.source {
            Source::Bytes(bytes) => (bytes.bind(py).clone().into_any(), None),
            Source::File { path, stamp: opened } => {
                if stamp(path) != *opened {
                    let message =
                        format!("{} has changed since the model was loaded, so it cannot be pickled", path.display());
                    return Err(raise(py, &vireo::Status::failed_precondition(message)));
                }
                let digest = models.call_method1("digest", (path,))?;
                (path.as_os_str().into_pyobject(py)?.into_any(), Some(digest))
            }
        };
        let state = (source, digest, env!("CARGO_PKG_VERSION"), keywords).into_pyobject(py)?;
        Ok((models.getattr("rebuild")?, state))
    }
}

/// A model with state: globals, loaded parameters and kernels. Calls of one session take turns.
#[pyclass(frozen, weakref, name = "Session", module = "vireo")]
pub struct PySession {
    session: Session,
    model: Py<PyModel>,
}

impl PySession {
    fn find(&self, py: Python<'_>, name: &str) -> Result<PyFunction, Option<PyErr>> {
        self.session
            .function(name)
            .map(PyFunction)
            .map_err(|status| (status.code() != StatusCode::NotFound).then(|| raise(py, &status)))
    }

    fn missing(&self, name: &str) -> String {
        let main = self.session.model().main();
        let names: Vec<&str> = main.exports().map(|export| export.name).collect();
        format!("module `{}` has no function `{name}`, but {}", main.name(), names.join(", "))
    }
}

#[pymethods]
impl PySession {
    #[new]
    #[pyo3(signature = (
        source, *, device=None, parameters=None, limits=None, policy="trusted", threads=None, preload=false, progress=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        source: &Bound<'_, PyAny>,
        device: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyAny>>,
        limits: Option<Py<PyLimits>>,
        policy: &str,
        threads: Option<u32>,
        preload: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<PySession> {
        let py = source.py();
        if let Ok(model) = source.cast::<PyModel>() {
            let is_plain = device.is_none()
                && parameters.is_none()
                && limits.is_none()
                && policy == "trusted"
                && threads.is_none()
                && !preload
                && progress.is_none();
            if !is_plain {
                return Err(invalid(
                    py,
                    "a session of a `Model` has its devices, parameters and limits, and takes no others",
                ));
            }
            return PyModel::session(model);
        }
        let model = PyModel::make(source, Choices { device, parameters, limits, policy, threads, preload, progress })?;
        let session = model.new_session(py)?;
        Ok(PySession { session, model: Py::new(py, model)? })
    }

    /// The model.
    #[getter]
    fn model(&self, py: Python<'_>) -> Py<PyModel> {
        self.model.clone_ref(py)
    }

    /// The signatures of the functions, by name.
    #[getter]
    fn signatures(&self) -> BTreeMap<String, PySignature> {
        self.model.get().signatures()
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<PyFunction> {
        self.find(py, name).map_err(|error| error.unwrap_or_else(|| PyKeyError::new_err(self.missing(name))))
    }

    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<PyFunction> {
        self.find(py, name).map_err(|error| error.unwrap_or_else(|| PyAttributeError::new_err(self.missing(name))))
    }

    fn __contains__(&self, name: &str) -> bool {
        self.session.function(name).is_ok()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let names: Vec<String> = self.model.get().signatures().into_keys().collect();
        Ok(PyList::new(py, names)?.try_iter()?.into_any())
    }

    fn __len__(&self) -> usize {
        self.model.get().signatures().len()
    }

    fn __dir__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let names = slf.py().get_type::<PyAny>().call_method1("__dir__", (slf,))?;
        for name in slf.get().model.get().signatures().into_keys() {
            names.call_method1("append", (name,))?;
        }
        Ok(names)
    }

    fn __repr__(&self) -> String {
        self.model.get().__repr__().replacen("vireo.Model", "vireo.Session", 1)
    }

    fn _repr_html_(&self) -> String {
        self.model.get()._repr_html_()
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a session has state, which cannot be pickled: pickle its `model`, and make a session of that",
        ))
    }
}

/// The URIs of the devices of this machine.
#[pyfunction]
pub fn devices(py: Python<'_>) -> Vec<String> {
    detached(py, || vireo::hal::list_devices().iter().map(vireo::hal::AvailableDevice::uri).collect())
}
