//! Command buffers as they are recorded and executed: what they are allowed in each state, and what recorded commands
//! ask of binding tables.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::needs::Collected;
use super::table::lock;
use crate::hal::{CommandBufferMode, CommandCategory, QueueAffinity};
use crate::observe::{Call, Called, ObjectId};
use crate::status::{Result, Status};

/// The requirements of recorded commands on executions.
pub(super) type Recorded = Collected;

/// The command buffers that were created since they are observed.
#[derive(Debug, Default)]
pub(super) struct CommandBuffers(Mutex<HashMap<ObjectId, CommandBuffer>>);

#[derive(Debug)]
struct CommandBuffer {
    mode: CommandBufferMode,
    categories: CommandCategory,
    queue_affinity: QueueAffinity,
    /// Slots that commands may refer to.
    slots: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    Created,
    Recording {
        commands: Recorded,
        /// Debug groups that are open.
        groups: u32,
    },
    Recorded(Arc<Recorded>),
    /// A one-shot command buffer that was handed to a queue.
    Spent(Arc<Recorded>),
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            State::Created => "not begun",
            State::Recording { .. } => "being recorded",
            State::Recorded(_) => "recorded already",
            State::Spent(_) => "executed already and one-shot",
        }
    }
}

impl CommandBuffers {
    pub(super) fn create(
        &self,
        id: ObjectId,
        mode: CommandBufferMode,
        categories: CommandCategory,
        queue_affinity: QueueAffinity,
        slots: u32,
    ) {
        let state = State::Created;
        lock(&self.0).insert(id, CommandBuffer { mode, categories, queue_affinity, slots, state });
    }

    pub(super) fn dropped(&self, id: ObjectId) {
        lock(&self.0).remove(&id);
    }

    /// The slots that commands of an object may refer to: none if it is no command buffer, any if it is one that is not
    /// known.
    pub(super) fn slots(&self, id: ObjectId) -> u32 {
        match lock(&self.0).get(&id) {
            Some(commands) => commands.slots,
            None if id.kind == "command_buffer" => u32::MAX,
            None => 0,
        }
    }

    /// A call of a command buffer is one that its state and its categories allow.
    pub(super) fn check(&self, called: &Called<'_>) -> Result<()> {
        let table = lock(&self.0);
        let Some(commands) = table.get(&called.object()) else { return Ok(()) };
        let refused = |what: &str| {
            let state = commands.state.name();
            Err(Status::failed_precondition(format!("cannot {what} a command buffer that is {state}")))
        };
        match (called.call(), &commands.state) {
            (Call::CommandBufferBegin, State::Created) => Ok(()),
            (Call::CommandBufferBegin, _) => refused("begin"),
            (Call::CommandBufferEnd, State::Recording { groups: 0, .. }) => Ok(()),
            (Call::CommandBufferEnd, State::Recording { groups, .. }) => {
                Err(Status::failed_precondition(format!("{groups} debug groups are still open")))
            }
            (Call::CommandBufferEnd, _) => refused("end"),
            (call, state) => match (call.recorded(), state) {
                (None, _) => Ok(()),
                (Some(needed), State::Recording { groups, .. }) => {
                    if !commands.categories.contains(needed) {
                        let held = commands.categories;
                        let message = format!("the command buffer holds {held:?} commands, not {needed:?}");
                        return Err(Status::failed_precondition(message));
                    }
                    match call {
                        Call::CommandBufferEndDebugGroup if *groups == 0 => {
                            Err(Status::failed_precondition("no debug group is open"))
                        }
                        _ => Ok(()),
                    }
                }
                (Some(_), _) => refused("record into"),
            },
        }
    }

    /// A call of a command buffer was done.
    pub(super) fn record(&self, called: &Called<'_>, collected: Collected) {
        let mut table = lock(&self.0);
        let Some(commands) = table.get_mut(&called.object()) else { return };
        match (called.call(), &mut commands.state) {
            (Call::CommandBufferBegin, State::Created) => {
                commands.state = State::Recording { commands: Recorded::default(), groups: 0 };
            }
            (Call::CommandBufferEnd, State::Recording { commands: recorded, .. }) => {
                commands.state = State::Recorded(Arc::new(std::mem::take(recorded)));
            }
            (Call::CommandBufferBeginDebugGroup { .. }, State::Recording { groups, .. }) => {
                *groups = groups.saturating_add(1);
            }
            (Call::CommandBufferEndDebugGroup, State::Recording { groups, .. }) => *groups = groups.saturating_sub(1),
            (_, State::Recording { commands, .. }) => {
                commands.uses.extend(collected.uses);
                commands.transients.extend(collected.transients);
            }
            _ => {}
        }
    }

    /// A command buffer is handed to queues with a table of so many bindings.
    pub(super) fn submit(&self, id: ObjectId, queue_affinity: QueueAffinity, bindings: usize) -> Result<()> {
        let mut table = lock(&self.0);
        let Some(commands) = table.get_mut(&id) else { return Ok(()) };
        let State::Recorded(recorded) = &commands.state else {
            let state = commands.state.name();
            return Err(Status::failed_precondition(format!("cannot execute a command buffer that is {state}")));
        };
        let slots = recorded.uses.iter().map(|used| used.slot as usize + 1).max().unwrap_or(0);
        if slots > bindings {
            let message = format!("the commands refer to {slots} slots, {bindings} are bound");
            return Err(Status::invalid_argument(message));
        }
        let (allowed, given) = (commands.queue_affinity, queue_affinity);
        if !(allowed.is_empty() || given.is_empty() || allowed.intersects(given)) {
            let message = format!("the command buffer may be executed on queues {allowed:?}, not on {given:?}");
            return Err(Status::invalid_argument(message));
        }
        if commands.mode.contains(CommandBufferMode::ONE_SHOT) {
            commands.state = State::Spent(recorded.clone());
        }
        Ok(())
    }

    /// The requirements of a command buffer on its executions.
    pub(super) fn recorded(&self, id: ObjectId) -> Option<Arc<Recorded>> {
        match &lock(&self.0).get(&id)?.state {
            State::Recorded(recorded) | State::Spent(recorded) => Some(recorded.clone()),
            State::Created | State::Recording { .. } => None,
        }
    }
}
