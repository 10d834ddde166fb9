//! The counters of a session ([`SessionCounters`]): those of the processor, or those of a device that counts itself.

use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::DeviceCounter;

use super::cpu_counters::{CpuCounters, Values};
use crate::generated::format::CounterUnit;

/// The counters that a session selects.
pub(super) enum SessionCounters {
    /// Of the processor that runs dispatches.
    Processor(CpuCounters),
    /// Of the device: each with its place among all that the device has.
    Device(Vec<(usize, DeviceCounter)>),
}

/// A counter as a profile describes it.
pub(super) struct Described {
    pub(super) block: &'static str,
    pub(super) name: &'static str,
    pub(super) unit: CounterUnit,
    pub(super) description: &'static str,
}

impl SessionCounters {
    /// Those of a device with these names.
    ///
    /// # Errors
    /// NOT_FOUND for a name that is none, ALREADY_EXISTS for one that is there twice.
    pub(super) fn of_device(known: &[DeviceCounter], names: &[String]) -> Result<SessionCounters> {
        let mut selected: Vec<(usize, DeviceCounter)> = Vec::new();
        for name in names {
            let Some(place) = known.iter().position(|counter| counter.name == name) else {
                let known: Vec<&str> = known.iter().map(|counter| counter.name).collect();
                let message = format!("the device has no counter `{name}`: expected one of {}", known.join(", "));
                return Err(Status::not_found(message));
            };
            if selected.iter().any(|(other, _)| *other == place) {
                return Err(Status::new(StatusCode::AlreadyExists, format!("the counter `{name}` is selected twice")));
            }
            selected.push((place, known[place]));
        }
        Ok(SessionCounters::Device(selected))
    }

    /// The name of their set.
    pub(super) fn set_name(&self) -> &'static str {
        match self {
            SessionCounters::Processor(_) => "processor",
            SessionCounters::Device(_) => "device",
        }
    }

    /// Their descriptions, in the order of the values of a sample.
    pub(super) fn described(&self) -> Vec<Described> {
        match self {
            SessionCounters::Processor(counters) => {
                let counters = counters.counters.iter().map(|counter| Described {
                    block: "cpu",
                    name: counter.name,
                    unit: counter.unit,
                    description: counter.description,
                });
                counters.collect()
            }
            SessionCounters::Device(counters) => {
                let counters = counters.iter().map(|(_, counter)| Described {
                    block: counter.block,
                    name: counter.name,
                    unit: CounterUnit::COUNT,
                    description: counter.description,
                });
                counters.collect()
            }
        }
    }

    /// The selected ones of all values of a device; none if it did not say all of them.
    pub(super) fn select(&self, values: &[u64]) -> Option<Values> {
        let SessionCounters::Device(counters) = self else { return None };
        counters.iter().map(|(place, _)| values.get(*place).copied()).collect()
    }
}
