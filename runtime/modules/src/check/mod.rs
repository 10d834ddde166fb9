//! The `check` module: expectations of test programs, such as equality of tensors.
//!
//! Its interface is `spec/abi/modules/check.yaml`. An unmet expectation does not end the program: it goes to the host's
//! sink, which collects the failures of a test. An expectation that cannot be checked, such as whether opaque bytes are
//! true, is an error of the program. `compare` compares tensors and describes differences; `tensor` is one with its
//! elements on the host, to which `readback` copies them.

mod compare;
mod readback;
mod tensor;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use vireo_macros::vm_module;

use crate::Result;
use crate::vm::Obj;
use vireo_hal::{BufferViewRef, DeviceRef};

use compare::{Tolerance, all_true, almost_equal, equal};
use tensor::tensor;

/// An expectation that was not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetExpectation {
    /// The export that was called, such as `expect_eq`.
    pub export: &'static str,
    /// A description of the difference; several lines for tensors.
    pub message: String,
}

impl fmt::Display for UnmetExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.export, self.message)
    }
}

/// The host's sink of unmet expectations.
pub type ExpectationSink = dyn Fn(UnmetExpectation) + Send + Sync;

/// Most expectations of one test that a [`Collector`] keeps.
const MAX_COLLECTED: usize = 100;

/// The `check` module. One that several contexts share reports the expectations of all of them to one sink.
pub struct CheckModule {
    sink: Arc<ExpectationSink>,
}

impl CheckModule {
    /// A module that hands expectations that are not met to `sink`.
    pub fn new(sink: Arc<ExpectationSink>) -> CheckModule {
        CheckModule { sink }
    }

    fn report(&self, export: &'static str, difference: Option<String>) {
        if let Some(message) = difference {
            (self.sink)(UnmetExpectation { export, message });
        }
    }
}

/// A sink that keeps the first expectations that are not met and counts the others: a test may have one in a loop.
#[derive(Clone, Debug, Default)]
pub struct Collector(Arc<Mutex<Collected>>);

/// The unmet expectations in a [`Collector`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The first ones.
    pub unmet: Vec<UnmetExpectation>,
    /// How many there were after them.
    pub more: u64,
}

impl Collected {
    /// True if every expectation was met.
    pub fn is_empty(&self) -> bool {
        self.unmet.is_empty()
    }
}

impl Collector {
    /// The module that reports to this collector.
    pub fn module(&self) -> CheckModule {
        let collected = Arc::clone(&self.0);
        CheckModule::new(Arc::new(move |unmet| {
            let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
            if collected.unmet.len() < MAX_COLLECTED {
                collected.unmet.push(unmet);
            } else {
                collected.more += 1;
            }
        }))
    }

    /// Takes the expectations collected since the last call.
    pub fn take(&self) -> Collected {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[vm_module(spec = "check")]
impl CheckModule {
    #[vm_export("expect_true")]
    fn expect_true(&self, operand: i32) -> Result<()> {
        self.report("expect_true", (operand == 0).then(|| "the operand is 0; expected any other number".into()));
        Ok(())
    }

    #[vm_export("expect_false")]
    fn expect_false(&self, operand: i32) -> Result<()> {
        self.report("expect_false", (operand != 0).then(|| format!("the operand is {operand}; expected 0")));
        Ok(())
    }

    #[vm_export("expect_all_true")]
    fn expect_all_true(&self, device: Option<&Obj<DeviceRef>>, operand: &Obj<BufferViewRef>) -> Result<()> {
        let operand = tensor(device, operand)?;
        self.report("expect_all_true", all_true(&operand)?);
        Ok(())
    }

    #[vm_export("expect_eq")]
    fn expect_eq(
        &self,
        device: Option<&Obj<DeviceRef>>,
        lhs: &Obj<BufferViewRef>,
        rhs: &Obj<BufferViewRef>,
    ) -> Result<()> {
        let (lhs, rhs) = (tensor(device, lhs)?, tensor(device, rhs)?);
        self.report("expect_eq", equal(&lhs, &rhs));
        Ok(())
    }

    #[vm_export("expect_almost_eq")]
    fn expect_almost_eq(
        &self,
        device: Option<&Obj<DeviceRef>>,
        lhs: &Obj<BufferViewRef>,
        rhs: &Obj<BufferViewRef>,
        atol: f32,
        rtol: f32,
    ) -> Result<()> {
        let (lhs, rhs) = (tensor(device, lhs)?, tensor(device, rhs)?);
        let tolerance = Tolerance { absolute: atol, relative: rtol };
        self.report("expect_almost_eq", almost_equal(&lhs, &rhs, tolerance)?);
        Ok(())
    }
}
