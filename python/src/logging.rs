//! Events of models, sessions and calls for the module `logging`: loggers `vireo.model` and
//! `vireo.call`, with the fields of an event as attributes of its record.
//!
//! Levels are read when a model or a session is made. Events at levels that no logger has cost one check, and
//! a program that has not imported `logging` has asked for none.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use pyo3::{ffi, intern, prelude::*};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber, callsite};

use crate::interpreter::attached;

/// The most detailed level that the logger `vireo` has: a number of [`LEVELS`], or their count for none.
static LEVEL: AtomicUsize = AtomicUsize::new(LEVELS.len());
/// The levels, the most detailed one first, with those of `logging`. `TRACE` has none there.
const LEVELS: [(Level, u32); 5] =
    [(Level::TRACE, 5), (Level::DEBUG, 10), (Level::INFO, 20), (Level::WARN, 30), (Level::ERROR, 40)];

/// Reads the level of the logger.
pub fn read_level(py: Python<'_>) -> PyResult<()> {
    static SUBSCRIBED: PyOnceLock<()> = PyOnceLock::new();
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let Some(logging) = modules.cast::<PyDict>()?.get_item(intern!(py, "logging"))? else { return Ok(()) };
    SUBSCRIBED.get_or_init(py, || {
        // There is no other subscriber: the crate is a part of this library alone.
        _ = tracing::subscriber::set_global_default(Loggers);
    });
    let logger = logging.call_method1(intern!(py, "getLogger"), (intern!(py, "vireo"),))?;
    let wanted: i64 = logger.call_method0(intern!(py, "getEffectiveLevel"))?.extract()?;
    let disabled: i64 = logging
        .getattr(intern!(py, "root"))?
        .getattr(intern!(py, "manager"))?
        .getattr(intern!(py, "disable"))?
        .extract()?;
    let wanted = wanted.max(disabled.saturating_add(1));
    let level = LEVELS.iter().position(|(_, number)| i64::from(*number) >= wanted).unwrap_or(LEVELS.len());
    if LEVEL.swap(level, Ordering::Relaxed) != level {
        callsite::rebuild_interest_cache();
    }
    Ok(())
}

/// Hands events to the loggers.
struct Loggers;

impl Subscriber for Loggers {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.max_level_hint().is_some_and(|level| *metadata.level() <= level)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let level = LEVELS.get(LEVEL.load(Ordering::Relaxed));
        Some(level.map_or(LevelFilter::OFF, |(level, _)| LevelFilter::from_level(*level)))
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        // Without an interpreter there are no loggers.
        attached(|py| {
            if let Err(error) = tell(py, metadata, &fields) {
                if error.is_instance_of::<PyKeyboardInterrupt>(py) {
                    // It comes again where a call can end.
                    // SAFETY: the function may be called at any time; it marks the signal as one that came.
                    unsafe { ffi::PyErr_SetInterrupt() };
                } else {
                    // No caller could catch it here.
                    error.write_unraisable(py, None);
                }
            }
        });
    }

    // Records have no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn tell(py: Python<'_>, metadata: &Metadata<'_>, fields: &Fields) -> PyResult<()> {
    let logging = py.import(intern!(py, "logging"))?;
    let logger = logging.call_method1(intern!(py, "getLogger"), (metadata.target().replace("::", "."),))?;
    let level = LEVELS.iter().find(|(level, _)| level == metadata.level()).map_or(0, |(_, number)| *number);
    let extra = PyDict::new(py);
    let mut text = fields.message.clone();
    for (name, value) in &fields.others {
        // Those of records are not to be overwritten.
        extra.set_item(format!("vireo_{name}"), value)?;
        _ = write!(text, " {name}={value}");
    }
    let named = PyDict::new(py);
    named.set_item(intern!(py, "extra"), extra)?;
    logger.call_method(intern!(py, "log"), (level, intern!(py, "%s"), text), Some(&named))?;
    Ok(())
}

/// The fields of an event, as texts.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.others.push((field.name(), value.to_string()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        if field.name() == "message" { self.message = value } else { self.others.push((field.name(), value)) }
    }
}
