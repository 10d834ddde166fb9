//! The state of a validation ([`Validate`]): command buffers, transient buffers, and which device made an object.

use std::collections::HashMap;
use std::sync::{Mutex, Weak};

use super::recording::CommandBuffers;
use super::table::lock;
use super::transients::Transients;
use crate::hal::Event;
use crate::observe::{Called, ObjectId};

/// Refuses calls that break the contract of the HAL.
///
/// ```
/// use vireo::StatusCode;
/// use vireo::hal::observe::{Observation, Validate};
/// use vireo::hal::{CommandBufferMode, CommandCategory, QueueAffinity, create_device};
///
/// # fn main() -> vireo::Result<()> {
/// let device = Observation::new(Validate::new()).device(&create_device("local-sync")?);
/// let mode = CommandBufferMode::empty();
/// let commands = device.create_command_buffer(mode, CommandCategory::ANY, QueueAffinity::ANY, 0)?;
/// let refused = commands.end().unwrap_err();
/// assert_eq!(refused.code(), StatusCode::FailedPrecondition);
/// assert_eq!(refused.message(), "command_buffer#1.end: cannot end a command buffer that is not begun");
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Validate {
    pub(super) command_buffers: CommandBuffers,
    pub(super) transients: Transients,
    pub(super) makers: Mutex<Makers>,
}

/// Which device made an object.
#[derive(Default)]
pub(super) struct Makers {
    pub(super) by_object: HashMap<ObjectId, Maker>,
    /// Entries of events that are gone are removed when there are so many.
    limit: usize,
}

pub(super) struct Maker {
    device: ObjectId,
    /// Events have no wrapper, so their end is not seen.
    event: Option<Weak<dyn Event>>,
}

impl Validate {
    /// Has seen nothing yet.
    pub fn new() -> Validate {
        Validate::default()
    }

    /// The device that made an object, or that it is, if that is known.
    pub(super) fn device_of(&self, object: ObjectId) -> Option<ObjectId> {
        match object.kind {
            "device" => Some(object),
            _ => lock(&self.makers).by_object.get(&object).map(|maker| maker.device),
        }
    }

    pub(super) fn made(&self, called: &Called<'_>, made: ObjectId, event: Option<Weak<dyn Event>>) {
        let Some(device) = self.device_of(called.object()) else { return };
        let mut makers = lock(&self.makers);
        let Makers { by_object, limit } = &mut *makers;
        if by_object.len() >= *limit {
            by_object.retain(|_, maker| maker.event.as_ref().is_none_or(|event| event.strong_count() > 0));
            *limit = 64.max(2 * by_object.len());
        }
        by_object.insert(made, Maker { device, event });
    }
}
