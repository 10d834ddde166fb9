//! Flags of the process: the options of devices that are created afterwards.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use vireo::hal::local::task::TaskConfig;
use vireo::hal::{BuiltinOptions, DriverRegistry};

use crate::model::threads_of_environment;

/// The options so far, with the registry that has been made of them.
static OPTIONS: Mutex<Option<(TaskConfig, Arc<DriverRegistry>)>> = Mutex::new(None);

/// The drivers with the options that flags have set.
pub fn registry(py: Python<'_>) -> PyResult<Arc<DriverRegistry>> {
    current(py).map(|(_, registry)| registry)
}

fn current(py: Python<'_>) -> PyResult<(TaskConfig, Arc<DriverRegistry>)> {
    if let Some(options) = &*OPTIONS.lock().unwrap_or_else(PoisonError::into_inner) {
        return Ok(options.clone());
    }
    let mut config = TaskConfig::default();
    if let Some(threads) = threads_of_environment(py)? {
        config.group_count = threads;
    }
    Ok(set(config))
}

fn set(config: TaskConfig) -> (TaskConfig, Arc<DriverRegistry>) {
    let options = BuiltinOptions { local_task: config.clone(), ..BuiltinOptions::default() };
    let options = (config, Arc::new(options.registry()));
    OPTIONS.lock().unwrap_or_else(PoisonError::into_inner).replace(options.clone());
    options
}

/// Sets flags such as `--task_topology_group_count=2`, for devices that are created afterwards. `--help` prints them.
#[pyfunction]
#[pyo3(signature = (*flag))]
pub fn parse_flags(py: Python<'_>, flag: Vec<String>) -> PyResult<()> {
    let mut config = current(py)?.0;
    let mut is_changed = false;
    let refuse =
        |message: String| Err(PyValueError::new_err(format!("Error parsing flags: INVALID_ARGUMENT; {message}")));
    for flag in flag {
        if flag == "--help" {
            help(py)?;
            continue;
        }
        let Some(text) = flag.strip_prefix("--") else {
            return refuse(format!("'{flag}' is no flag: flags begin with `--`"));
        };
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        if !TaskConfig::OPTIONS.iter().any(|option| option.name == name) {
            return refuse(format!("flag '{name}' not recognized"));
        }
        let Some(value) = value else { return refuse(format!("flag '{name}' needs a value: --{name}=...")) };
        if let Err(message) = config.set(name, OsStr::new(value)) {
            return refuse(format!("flag '{name}': {message}"));
        }
        is_changed = true;
    }
    if is_changed {
        set(config);
    }
    Ok(())
}

fn help(py: Python<'_>) -> PyResult<()> {
    let mut text = String::from("# Prints the flags.\n# --help\n");
    for option in &TaskConfig::OPTIONS {
        text.push_str(&format!("\n# {}\n--{}={}\n", option.doc, option.name, option.default));
    }
    // By the stream of Python, which programs replace.
    py.import("builtins")?.call_method1("print", (text,))?;
    Ok(())
}
