//! The order in which the steps of a capture can be done one after the other: a submission comes after those that
//! signal its points. Steppers and edits use it; IREE's replay, which waits for each submission, needs it.
//!
//! A submission that waits for a later one is put off until right after that one, and with it what uses the buffer that
//! it makes and what is recorded to a command buffer that does. The host cannot have seen its effects before then.

use std::collections::HashSet;

use vireo_core::limits::scope;
use vireo_core::status::{Result, Status};

use crate::generated::executor::references;
use crate::generated::format::ObjectType;
use crate::operation::Operation;
use crate::plan::{Plan, Step};
use crate::timelines::Timelines;

impl Plan {
    /// The indices of all steps in such an order, which is that of the capture as far as possible.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if a submission waits for what nothing signals; DEADLINE_EXCEEDED at the limit of time.
    pub(crate) fn serial_order(&self) -> Result<Vec<usize>> {
        if let Some(status) = &self.hopeless {
            return Err(status.clone());
        }
        let mut order = Order {
            plan: self,
            timelines: Timelines::new(self.places),
            put_off: Vec::new(),
            missing: HashSet::new(),
            done: Vec::new(),
        };
        for index in 0..self.steps.len() {
            order.add(index)?;
        }
        match order.put_off.first().and_then(|index| self.steps.get(*index)) {
            None => Ok(order.done),
            // The plan has found that everything is signalled, and a step is put off for nothing else.
            Some(step) => Err(self.context(step, Status::internal("no order of submissions was found"))),
        }
    }
}

struct Order<'a> {
    plan: &'a Plan,
    timelines: Timelines,
    /// Steps that wait for later ones.
    put_off: Vec<usize>,
    /// The objects that they make, and the command buffers that are recorded there.
    missing: HashSet<u64>,
    done: Vec<usize>,
}

/// The outcome of an attempt to do a step.
#[derive(PartialEq, Eq)]
enum Done {
    /// It waits for a later one.
    No,
    Yes,
    /// It is done and has signalled points.
    Signals,
}

impl Order<'_> {
    fn add(&mut self, index: usize) -> Result<()> {
        match self.does(index)? {
            Done::No => self.put_off.push(index),
            Done::Signals if !self.put_off.is_empty() => self.again()?,
            Done::Yes | Done::Signals => {}
        }
        Ok(())
    }

    /// Does what was put off and can be done now.
    fn again(&mut self) -> Result<()> {
        let mut is_over = false;
        while !is_over {
            scope::check()?;
            is_over = true;
            self.missing.clear();
            for index in std::mem::take(&mut self.put_off) {
                match self.does(index)? {
                    Done::No => self.put_off.push(index),
                    Done::Yes => {}
                    Done::Signals => is_over = false,
                }
            }
        }
        Ok(())
    }

    /// Does a step, unless it waits for a point that is not signalled, or uses an object of a step that is put off;
    /// then its own objects are added to these.
    fn does(&mut self, index: usize) -> Result<Done> {
        let plan = self.plan;
        let Some(step) = plan.steps.get(index) else { return Ok(Done::Yes) };
        let (waits, signals) = plan.points_of(step, &mut self.timelines)?;
        if self.timelines.missing(waits).is_some() || uses(plan, step, &self.missing)? {
            self.missing.extend(step.made());
            if is_command(step) {
                self.missing.insert(step.object);
            }
            return Ok(Done::No);
        }
        self.done.push(index);
        if signals.is_empty() {
            return Ok(Done::Yes);
        }
        self.timelines.promise(signals);
        Ok(Done::Signals)
    }
}

/// Whether a step uses one of these objects.
fn uses(plan: &Plan, step: &Step, objects: &HashSet<u64>) -> Result<bool> {
    if objects.is_empty() {
        return Ok(false);
    }
    let mut found = objects.contains(&step.object);
    references(step.payload_type, plan.payload(step), &mut |reference| {
        found |= objects.contains(&reference.id());
        Ok(())
    })?;
    Ok(found)
}

/// Whether a step records a command.
pub(crate) fn is_command(step: &Step) -> bool {
    Operation::find(step.code).and_then(Operation::receiver) == Some(ObjectType::COMMAND_BUFFER)
}
