//! The steps of a capture that some of its steps need: the objects that they name, and the steps before them that write
//! what they read.

use std::collections::{HashMap, HashSet};

use vireo_core::limits::scope;
use vireo_core::status::Result;

use crate::generated::executor::references;
use crate::generated::format::ObjectType;
use crate::generated::operations::operation;
use crate::generated::payloads::DeviceQueueExecuteParts;
use crate::operation::Operation;
use crate::order::is_command;
use crate::plan::{Plan, Step, damaged};

/// Which steps stay.
pub(crate) struct Slice<'a> {
    plan: &'a Plan,
    /// The buffers that the commands of a command buffer name.
    buffers: HashMap<u64, Vec<u64>>,
}

/// The objects that a step names, with the one that it is called on.
fn named(plan: &Plan, step: &Step, visit: &mut dyn FnMut(ObjectType, u64)) -> Result<()> {
    visit(Operation::find(step.code).and_then(Operation::receiver).unwrap_or_default(), step.object);
    references(step.payload_type, plan.payload(step), &mut |reference| {
        if reference.id() != 0 {
            visit(reference.kind(), reference.id());
        }
        Ok(())
    })
}

/// Whether an object has contents.
fn has_contents(kind: ObjectType) -> bool {
    kind == ObjectType::BUFFER || kind == ObjectType::FILE
}

/// Whether a step names a scope.
fn is_scope(step: &Step) -> bool {
    [operation::REPLAY_SCOPE_BEGIN, operation::REPLAY_SCOPE_END].contains(&step.code)
}

/// Whether a command buffer needs a step that is called on it, whatever else is in it.
fn is_frame(step: &Step) -> bool {
    [operation::COMMAND_BUFFER_BEGIN, operation::COMMAND_BUFFER_END].contains(&step.code)
}

impl<'a> Slice<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Result<Slice<'a>> {
        let mut buffers: HashMap<u64, Vec<u64>> = HashMap::new();
        for step in plan.steps.iter().filter(|step| is_command(step)) {
            scope::check()?;
            let named_here = buffers.entry(step.object).or_default();
            named(plan, step, &mut |kind, id| {
                if has_contents(kind) && named_here.last() != Some(&id) {
                    named_here.push(id);
                }
            })?;
        }
        for named in buffers.values_mut() {
            named.sort_unstable();
            named.dedup();
        }
        Ok(Slice { plan, buffers })
    }

    /// The steps that are `wanted`, and those that they need to do the same: what makes their objects, the commands of
    /// their command buffers, and what writes their buffers before them. `order` has the indices of all steps.
    pub(crate) fn keep(&self, order: &[usize], wanted: &[bool]) -> Result<Vec<bool>> {
        let is_wanted = |index: usize| wanted.get(index).copied().unwrap_or(false);
        let commands = self.plan.steps.iter().enumerate();
        let wanted_buffers: HashSet<u64> = commands
            .filter(|(index, step)| is_command(step) && is_wanted(*index))
            .map(|(_, step)| step.object)
            .collect();
        let (mut kept, mut objects) = (vec![false; self.plan.steps.len()], HashSet::new());
        // The buffers whose contents are read later.
        let mut contents = HashSet::new();
        for (index, step) in order.iter().rev().filter_map(|index| Some((*index, self.plan.steps.get(*index)?))) {
            scope::check()?;
            let executed = self.executed(step)?;
            let is_needed = is_wanted(index)
                || is_scope(step)
                || executed.is_some_and(|commands| wanted_buffers.contains(&commands))
                || step.made().is_some_and(|made| objects.contains(&made))
                || is_command(step) && objects.contains(&step.object)
                || !is_command(step) && self.touches(step, executed, &contents)?;
            if !is_needed {
                continue;
            }
            named(self.plan, step, &mut |_, id| {
                objects.insert(id);
            })?;
            if !is_command(step) {
                self.each_buffer(step, executed, &mut |id| {
                    contents.insert(id);
                })?;
            }
            if let Some(kept) = kept.get_mut(index) {
                *kept = true;
            }
        }
        Ok(kept)
    }

    /// The steps that are `wanted`, and what makes their objects. Commands stay if they are wanted and their command
    /// buffer is executed.
    pub(crate) fn least(&self, order: &[usize], wanted: &[bool]) -> Result<Vec<bool>> {
        let is_wanted = |index: usize| wanted.get(index).copied().unwrap_or(false);
        let (mut kept, mut objects) = (vec![false; self.plan.steps.len()], HashSet::new());
        for (index, step) in order.iter().rev().filter_map(|index| Some((*index, self.plan.steps.get(*index)?))) {
            scope::check()?;
            let is_needed = match is_command(step) {
                true => objects.contains(&step.object) && (is_frame(step) || is_wanted(index)),
                false => {
                    step.made().is_some_and(|made| objects.contains(&made)) || step.made().is_none() && is_wanted(index)
                }
            };
            if is_needed {
                named(self.plan, step, &mut |_, id| {
                    objects.insert(id);
                })?;
                if let Some(kept) = kept.get_mut(index) {
                    *kept = true;
                }
            }
        }
        Ok(kept)
    }

    /// All steps but the `dropped` ones and those that need an object which one of them makes.
    pub(crate) fn without(&self, order: &[usize], dropped: &[bool]) -> Result<Vec<bool>> {
        let (mut kept, mut missing) = (vec![false; self.plan.steps.len()], HashSet::new());
        for (index, step) in order.iter().filter_map(|index| Some((*index, self.plan.steps.get(*index)?))) {
            scope::check()?;
            let mut is_dropped = dropped.get(index).copied().unwrap_or(false);
            if !missing.is_empty() {
                named(self.plan, step, &mut |_, id| is_dropped |= missing.contains(&id))?;
            }
            if is_dropped {
                missing.extend(step.made());
            } else if let Some(kept) = kept.get_mut(index) {
                *kept = true;
            }
        }
        Ok(kept)
    }

    /// The command buffer that a step executes.
    fn executed(&self, step: &Step) -> Result<Option<u64>> {
        if step.code != operation::DEVICE_QUEUE_EXECUTE {
            return Ok(None);
        }
        let head = DeviceQueueExecuteParts::read(self.plan.payload(step)).map_err(damaged)?.head;
        Ok(Some(head.command_buffer_id).filter(|id| *id != 0))
    }

    /// The buffers and files that a step may read or write.
    fn each_buffer(&self, step: &Step, executed: Option<u64>, visit: &mut dyn FnMut(u64)) -> Result<()> {
        if let Some(named) = executed.and_then(|commands| self.buffers.get(&commands)) {
            named.iter().for_each(|id| visit(*id));
        }
        named(self.plan, step, &mut |kind, id| {
            if has_contents(kind) {
                visit(id);
            }
        })
    }

    /// Whether a step may write a buffer or file whose contents are needed.
    fn touches(&self, step: &Step, executed: Option<u64>, contents: &HashSet<u64>) -> Result<bool> {
        let reads_alone = step.code == operation::BUFFER_MAP_RANGE || step.code == operation::DEVICE_QUEUE_DEALLOCA;
        if reads_alone || contents.is_empty() {
            return Ok(false);
        }
        let mut found = false;
        self.each_buffer(step, executed, &mut |id| found |= contents.contains(&id))?;
        Ok(found)
    }
}
