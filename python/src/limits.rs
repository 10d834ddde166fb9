//! `vireo.Limits`: limits of calls, and what has been counted of them.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyType;
use vireo::interp::{Limits, Tier};
use vireo::{Cancellation, Fuel, MemoryBudget};

use crate::error::invalid;
use crate::interpreter::detached;
use crate::interrupts;

/// Limits of the calls of a model. Those that are not given are those of the policy. Fuel and memory are counted for
/// all sessions with this object together.
#[pyclass(frozen, name = "Limits", module = "vireo")]
pub struct PyLimits {
    fuel: Option<Fuel>,
    memory: Option<MemoryBudget>,
    timeout: Option<Duration>,
    stack: Option<usize>,
    tier: Option<(String, Tier)>,
    cancellation: Cancellation,
}

/// A time in seconds.
///
/// # Errors
/// `InvalidArgument` for one that is negative, no number or too long.
pub fn seconds(py: Python<'_>, name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| invalid(py, format!("`{name}` is {value:?}: expected a number of seconds that is not negative")))
}

impl PyLimits {
    /// These limits over those of a policy.
    pub fn over(&self, policy: &Limits) -> Limits {
        Limits {
            fuel: self.fuel.clone().or_else(|| policy.fuel.clone()),
            memory: self.memory.clone().or_else(|| policy.memory.clone()),
            timeout: self.timeout.or(policy.timeout),
            stack_bytes: self.stack.unwrap_or(policy.stack_bytes),
            tier: self.tier.as_ref().map_or(policy.tier, |(_, tier)| *tier),
            cancellation: Some(self.cancellation.clone()),
            ..policy.clone()
        }
    }
}

/// The arguments that make the same limits again, with nothing counted.
type State = (Option<u64>, Option<u64>, Option<f64>, Option<usize>, Option<String>);

#[pymethods]
impl PyLimits {
    #[new]
    #[pyo3(signature = (fuel=None, memory=None, timeout=None, stack=None, tier=None))]
    fn new(
        py: Python<'_>,
        fuel: Option<u64>,
        memory: Option<u64>,
        timeout: Option<f64>,
        stack: Option<usize>,
        tier: Option<String>,
    ) -> PyResult<PyLimits> {
        let tier = tier.map(|name| {
            let tier = match name.as_str() {
                "auto" => Tier::Auto,
                "interp" => Tier::Interpreter,
                "jit" => Tier::Compiled,
                _ => return Err(invalid(py, format!("`tier` is `{name}`: expected `auto`, `interp` or `jit`"))),
            };
            Ok((name, tier))
        });
        Ok(PyLimits {
            fuel: fuel.map(Fuel::new),
            memory: memory.map(MemoryBudget::new),
            timeout: timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?,
            stack,
            tier: tier.transpose()?,
            cancellation: interrupts::cancellation(),
        })
    }

    /// The steps that calls may take together.
    #[getter]
    fn fuel(&self) -> Option<u64> {
        self.fuel.as_ref().map(Fuel::limit)
    }

    /// The steps that calls have taken.
    #[getter]
    fn fuel_used(&self) -> Option<u64> {
        self.fuel.as_ref().map(Fuel::used)
    }

    /// Lets calls take more steps.
    fn add_fuel(&self, py: Python<'_>, steps: u64) -> PyResult<()> {
        let fuel = self.fuel.as_ref().ok_or_else(|| invalid(py, "the limits have no fuel, so nothing can be added"))?;
        fuel.add(steps);
        Ok(())
    }

    /// The bytes that programs may use together.
    #[getter]
    fn memory(&self) -> Option<u64> {
        self.memory.as_ref().map(MemoryBudget::limit)
    }

    /// The bytes that programs use.
    #[getter]
    fn memory_used(&self) -> Option<u64> {
        self.memory.as_ref().map(MemoryBudget::used)
    }

    /// The most bytes that programs have used at a time.
    #[getter]
    fn memory_peak(&self) -> Option<u64> {
        self.memory.as_ref().map(MemoryBudget::peak)
    }

    /// The seconds that a call may take.
    #[getter]
    fn timeout(&self) -> Option<f64> {
        self.timeout.map(|timeout| timeout.as_secs_f64())
    }

    /// Ends the calls with these limits, from another thread, and those that are made until `reset`.
    fn cancel(&self, py: Python<'_>) {
        // Tasks that wait are woken, for which they need the interpreter.
        detached(py, || self.cancellation.cancel());
    }

    /// Lets calls be made again after `cancel`.
    fn reset(&self) {
        self.cancellation.reset();
    }

    fn __repr__(&self) -> String {
        let (fuel, memory, timeout, stack, tier) = self.state();
        let fields = [
            fuel.map(|fuel| format!("fuel={fuel}")),
            memory.map(|memory| format!("memory={memory}")),
            timeout.map(|timeout| format!("timeout={timeout:?}")),
            stack.map(|stack| format!("stack={stack}")),
            tier.map(|tier| format!("tier='{tier}'")),
        ];
        format!("vireo.Limits({})", fields.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyType>, State)> {
        Ok((slf.get_type().unbind(), slf.get().state()))
    }
}

impl PyLimits {
    fn state(&self) -> State {
        let tier = self.tier.as_ref().map(|(name, _)| name.clone());
        (self.fuel(), self.memory(), self.timeout(), self.stack, tier)
    }
}
