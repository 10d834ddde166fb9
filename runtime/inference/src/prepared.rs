//! Calls that are made again and again ([`PreparedCall`]), and many of them without waiting for each ([`CallBatch`]).

use std::sync::Arc;

use vireo_core::limits::scope;
use vireo_core::status::{Result, Status};
use vireo_hal::{Fence, QueueAffinity, Semaphore, SemaphoreFlags};
use vireo_vm::Value;

use crate::events::CallEvents;
use crate::input::{Input, to_values};
use crate::output::{Output, Outputs};
use crate::session::Function;
use crate::signature::FENCES;

/// A call that can be made again and again. It keeps its arguments, and the memory of its results, so once it has been
/// made a few times with results of the same shapes it allocates nothing.
#[derive(Debug)]
pub struct PreparedCall {
    function: Function,
    arguments: Vec<Value>,
    results: Vec<Value>,
    /// Where a function that takes fences signals that its results are there.
    timeline: Option<Timeline>,
}

#[derive(Debug)]
struct Timeline {
    semaphore: Arc<dyn Semaphore>,
    /// The value after the last call.
    value: u64,
}

impl Function {
    /// Prepares a call that can be made again and again.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the number and the name of the argument, if `inputs` are not what the signature says.
    pub fn prepare<'i>(&self, inputs: impl AsRef<[Input<'i>]>) -> Result<PreparedCall> {
        let inputs = inputs.as_ref();
        let mut arguments = Vec::with_capacity(inputs.len() + FENCES);
        to_values(self.signature(), inputs, &**self.device(), &mut arguments)?;
        self.prepare_values(arguments)
    }

    /// The same with values of the virtual machine as arguments, which it checks.
    ///
    /// # Errors
    /// Failures of the device to create a semaphore.
    pub fn prepare_values(&self, arguments: Vec<Value>) -> Result<PreparedCall> {
        PreparedCall::new(self, arguments)
    }
}

impl PreparedCall {
    /// A call with these arguments, without fences.
    pub(crate) fn new(function: &Function, mut arguments: Vec<Value>) -> Result<PreparedCall> {
        let timeline = if function.signature().is_async {
            // Inputs are there already, so there is nothing to wait for.
            arguments.extend([Value::NULL, Value::NULL]);
            let device = function.device();
            let semaphore = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::default())?;
            Some(Timeline { semaphore, value: 0 })
        } else {
            None
        };
        Ok(PreparedCall { function: function.clone(), arguments, results: Vec::new(), timeline })
    }

    pub(crate) fn into_outputs(self) -> Outputs {
        Outputs::of(self.results, self.function.shared_signature())
    }

    /// Prepares `size` calls with the same arguments, of which `concurrency` may be under way on the device at a time:
    /// call `i` waits there for call `i - concurrency`, while the host continues.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the function takes no fences, so that each of its calls waits for its results, or
    /// `concurrency` is zero; failures of the device to create a semaphore.
    pub fn batch(&self, size: usize, concurrency: usize) -> Result<CallBatch> {
        let signature = self.function.signature();
        if !signature.is_async {
            return Err(Status::invalid_argument(format!(
                "`{signature}` takes no fences, so its calls cannot overlap"
            )));
        }
        if concurrency == 0 {
            return Err(Status::invalid_argument("a batch of which no call may be under way"));
        }
        let given = self.arguments.get(..self.arguments.len() - FENCES).unwrap_or_default();
        let device = self.function.device();
        let semaphore = |_| device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::default());
        let timelines = (0..concurrency.min(size)).map(semaphore).collect::<Result<Vec<_>>>()?;
        let (mut calls, mut last) = (Vec::with_capacity(size), Vec::new());
        for index in 0..size {
            let (timeline, value) = (&timelines[index % concurrency], (index / concurrency) as u64);
            let before = if value == 0 { Value::NULL } else { Fence::at(timeline.clone(), value).to_ref().into() };
            let done = Fence::at(timeline.clone(), value + 1);
            if index + concurrency >= size {
                last.extend_from_slice(done.timepoints());
            }
            calls.push([given, &[before, done.to_ref().into()]].concat());
        }
        let results = Vec::with_capacity(calls.len());
        Ok(CallBatch { function: self.function.clone(), calls, results, done: Fence::join(&last) })
    }

    /// Replaces an argument. A tensor of the host is written over the last one, unless the program kept a reference to
    /// that.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the name of the argument, if `input` is not what the signature says, or there is no
    /// such argument. The argument is null then.
    pub fn set<'i>(&mut self, index: usize, input: impl Into<Input<'i>>) -> Result<()> {
        let Some(info) = self.function.signature().arguments.get(index) else {
            let signature = self.function.signature();
            return Err(Status::invalid_argument(format!("there is no argument {index} of `{signature}`")));
        };
        let last = std::mem::replace(&mut self.arguments[index], Value::NULL);
        let value = input.into().to_value(info, &**self.function.device(), last);
        self.arguments[index] =
            value.map_err(|status| status.context(crate::input::place(self.function.signature(), index)))?;
        Ok(())
    }

    /// Makes the call and waits for its results. Those of the last call are dropped before, so that the program can use
    /// their memory again.
    ///
    /// # Errors
    /// The error of the program; there are no results then.
    pub fn run(&mut self) -> Result<()> {
        CallEvents::begin(&self.function.signature().name).run(|| self.call())
    }

    fn call(&mut self) -> Result<()> {
        let Some(timeline) = &mut self.timeline else {
            return self.function.vm_function().call_into(&self.arguments, &mut self.results);
        };
        timeline.value += 1;
        let done = Fence::at(timeline.semaphore.clone(), timeline.value);
        // The program may drop the fence without signaling it, so the wait has the limits of the call.
        let _limits = scope::start_shared(self.function.shared_limits());
        if let Some(signal) = self.arguments.last_mut() {
            *signal = done.to_ref().into();
        }
        let called = self.function.vm_function().call_into(&self.arguments, &mut self.results);
        let waited =
            called.and_then(|()| done.wait(None).map_err(|status| status.context("the results were not produced")));
        if waited.is_err() {
            // A timeline that failed, or that a program never signaled, cannot be used again.
            self.results.clear();
            let device = self.function.device();
            timeline.semaphore = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::default())?;
            timeline.value = 0;
        }
        waited
    }

    /// The results of the last call.
    pub fn results(&self) -> impl ExactSizeIterator<Item = Output> {
        self.results.iter().map(|value| Output::from(value.clone()))
    }

    /// The results of the last call, which this then refers to no longer.
    pub fn take_results(&mut self) -> Outputs {
        Outputs::of(self.results.drain(..), self.function.shared_signature())
    }

    /// A result of the last call.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is none with this number.
    pub fn result(&self, index: usize) -> Result<Output> {
        let missing = || Status::not_found(format!("there is no result {index}, but {}", self.results.len()));
        self.results.get(index).map(|value| Output::from(value.clone())).ok_or_else(missing)
    }

    /// The results of the last call as the virtual machine has them.
    pub fn values(&self) -> &[Value] {
        &self.results
    }
}

/// Calls of which several are under way on a device at a time, each once.
#[derive(Debug)]
pub struct CallBatch {
    function: Function,
    calls: Vec<Vec<Value>>,
    results: Vec<Vec<Value>>,
    /// The ends of the last calls.
    done: Fence,
}

impl CallBatch {
    /// Makes the calls and waits for the last ones.
    ///
    /// # Errors
    /// The error of the first call that fails; `FAILED_PRECONDITION` if the calls were made before.
    pub fn run(&mut self) -> Result<()> {
        if !self.results.is_empty() {
            return Err(Status::failed_precondition("the calls of the batch have been made"));
        }
        let _limits = scope::start_shared(self.function.shared_limits());
        for call in &self.calls {
            self.results.push(self.function.vm_function().call(call)?);
        }
        self.done.wait(None).map_err(|status| status.context("the results were not produced"))
    }

    /// The results of each call, in order. They live as long as the batch.
    pub fn results(&self) -> impl ExactSizeIterator<Item = Outputs> {
        self.results.iter().map(|values| Outputs::of(values.iter().cloned(), self.function.shared_signature()))
    }
}
