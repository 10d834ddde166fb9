//! `HalSemaphore` and `HalFence`: timelines, and sets of points of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use vireo::hal::{
    ExternalTimepointFlags, ExternalTimepointType, Fence, QueueAffinity, Semaphore, SemaphoreRef, Timepoint,
};
use vireo::vm::Ref;
use vireo::{Status, StatusCode};

use super::object::PyVmObject;
use super::throw::{OrThrow, wrong_type};
use super::timepoint::PyExternalTimepoint;
use super::wait::wait;
use crate::interpreter::detached;

/// A timeline.
#[pyclass(frozen, extends = PyVmObject, name = "HalSemaphore", module = "vireo.compat.iree._binding")]
pub struct PySemaphore(pub Arc<dyn Semaphore>);

impl PySemaphore {
    /// A semaphore of a device.
    pub fn of(py: Python<'_>, semaphore: Arc<dyn Semaphore>) -> PyResult<Py<PySemaphore>> {
        PyVmObject::make(py, SemaphoreRef::to_ref(semaphore.clone()), PySemaphore(semaphore))
    }

    fn point(&self, value: u64) -> Timepoint {
        Timepoint { semaphore: self.0.clone(), value }
    }
}

#[pymethods]
impl PySemaphore {
    /// The value that it has reached.
    fn query(&self, py: Python<'_>) -> PyResult<u64> {
        self.0.query().or_throw(py, "querying semaphore")
    }

    /// Advances it.
    fn signal(&self, py: Python<'_>, new_value: u64) -> PyResult<()> {
        detached(py, || self.0.signal(new_value)).or_throw(py, "signaling semaphore")
    }

    /// Fails it, and everything that waits for it.
    fn fail(&self, py: Python<'_>, message: String) {
        detached(py, || self.0.fail(Status::new(StatusCode::Unknown, message)));
    }

    /// Waits until it reaches a value. False if the time is up before.
    #[pyo3(signature = (payload, timeout=None, deadline=None))]
    fn wait(&self, py: Python<'_>, payload: u64, timeout: Option<u64>, deadline: Option<u64>) -> PyResult<bool> {
        wait(py, "semaphore", &[self.point(payload)], timeout, deadline)
    }

    /// Lets an event of another API signal it.
    fn import_timepoint(&self, py: Python<'_>, value: u64, timepoint: &PyExternalTimepoint) -> PyResult<()> {
        let imported = self.0.import_timepoint(value, QueueAffinity::ANY, timepoint.get());
        imported.or_throw(py, "importing timepoint")
    }

    /// An event of another API that is signaled when it reaches a value.
    fn export_timepoint(
        &self,
        py: Python<'_>,
        value: u64,
        requested_type: u32,
        requested_flags: u32,
        out_external_timepoint: &PyExternalTimepoint,
    ) -> PyResult<()> {
        let what = "exporting timepoint";
        let flags = ExternalTimepointFlags::from_number(requested_flags).or_throw(py, what)?;
        let r#type = ExternalTimepointType(requested_type);
        let exported = self.0.export_timepoint(value, QueueAffinity::ANY, r#type, flags);
        out_external_timepoint.set(exported.or_throw(py, what)?);
        Ok(())
    }
}

/// A set of points of timelines, which grows until programs or queues use it.
#[pyclass(frozen, extends = PyVmObject, name = "HalFence", module = "vireo.compat.iree._binding")]
pub struct PyHalFence(Mutex<Points>);

struct Points {
    fence: Fence,
    capacity: usize,
    /// The reference that programs have got for these points.
    reference: Option<Ref>,
}

impl PyHalFence {
    /// A fence of a program.
    pub fn of(py: Python<'_>, fence: Fence) -> PyResult<Py<PyHalFence>> {
        let points = Points { capacity: fence.timepoints().len(), reference: None, fence };
        // References to a fence are those to the points that it has; see `reference`.
        PyVmObject::make(py, Fence::default().to_ref(), PyHalFence(Mutex::new(points)))
    }

    fn lock(&self) -> MutexGuard<'_, Points> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The points that it has now.
    pub fn fence(&self) -> Fence {
        self.lock().fence.clone()
    }

    /// A reference to the points that it has now: points that come later are not in it.
    pub fn reference(&self) -> Ref {
        let mut points = self.lock();
        let points = &mut *points;
        points.reference.get_or_insert_with(|| points.fence.to_ref()).clone()
    }

    /// Adds points, and gives room to them if `grows`.
    fn add(&self, new: &[Timepoint]) -> vireo::Result<()> {
        let mut points = self.lock();
        let joined = Fence::join(points.fence.timepoints().iter().chain(new));
        if joined.timepoints().len() > points.capacity {
            let capacity = points.capacity;
            return Err(Status::resource_exhausted(format!("the fence has room for {capacity} semaphores")));
        }
        points.fence = joined;
        points.reference = None;
        Ok(())
    }
}

#[pymethods]
impl PyHalFence {
    #[new]
    fn new(capacity: usize) -> PyClassInitializer<PyHalFence> {
        let fence = Fence::default();
        PyVmObject::over(fence.to_ref(), PyHalFence(Mutex::new(Points { fence, capacity, reference: None })))
    }

    /// A fence at a point of a timeline.
    #[staticmethod]
    fn create_at(py: Python<'_>, sem: &Bound<'_, PySemaphore>, value: u64) -> PyResult<Py<PyHalFence>> {
        PyHalFence::of(py, Fence::at(sem.get().0.clone(), value))
    }

    /// A fence that is reached when all of these are.
    #[staticmethod]
    fn join(py: Python<'_>, fences: Vec<Bound<'_, PyHalFence>>) -> PyResult<Py<PyHalFence>> {
        let fences: Vec<Fence> = fences.iter().map(|fence| fence.get().fence()).collect();
        PyHalFence::of(py, Fence::join(fences.iter().flat_map(Fence::timepoints)))
    }

    /// How many points it has.
    #[getter]
    fn timepoint_count(&self) -> usize {
        self.lock().fence.timepoints().len()
    }

    /// Adds a point. Of a timeline it keeps the last.
    fn insert(&self, py: Python<'_>, sem: &Bound<'_, PySemaphore>, value: u64) -> PyResult<()> {
        self.add(&[sem.get().point(value)]).or_throw(py, "inserting into fence")
    }

    /// Adds the points of another fence.
    fn extend(&self, py: Python<'_>, from_fence: &Bound<'_, PyHalFence>) -> PyResult<()> {
        let from = from_fence.get().fence();
        self.add(from.timepoints()).or_throw(py, "extending fence")
    }

    /// Signals all points.
    fn signal(&self, py: Python<'_>) -> PyResult<()> {
        let fence = self.fence();
        detached(py, || fence.signal()).or_throw(py, "signaling fence")
    }

    /// Fails the timelines of all points.
    fn fail(&self, py: Python<'_>, message: String) {
        let fence = self.fence();
        detached(py, || fence.fail(&Status::new(StatusCode::Unknown, message)));
    }

    /// Waits until it is reached. False if the time is up before.
    #[pyo3(signature = (timeout=None, deadline=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<u64>, deadline: Option<u64>) -> PyResult<bool> {
        wait(py, "fence", self.fence().timepoints(), timeout, deadline)
    }
}

/// Points to wait for or to signal: a fence, or a sequence of semaphores with values.
pub fn timepoints(given: &Bound<'_, PyAny>) -> PyResult<Vec<Timepoint>> {
    if let Ok(fence) = given.cast::<PyHalFence>() {
        return Ok(fence.get().fence().timepoints().to_vec());
    }
    let expected = "a HalFence, or a list of tuples of a HalSemaphore and a value";
    let points = given.try_iter().map_err(|_| wrong_type(expected, given))?;
    let point = |pair: PyResult<Bound<'_, PyAny>>| {
        let pair = pair?;
        let pair = pair.cast::<PyTuple>().map_err(|_| wrong_type(expected, &pair))?;
        let (semaphore, value): (Bound<'_, PySemaphore>, u64) =
            pair.extract().map_err(|_| wrong_type(expected, pair))?;
        Ok(semaphore.get().point(value))
    };
    points.map(point).collect()
}
