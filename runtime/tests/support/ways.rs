//! Runs a program in all ways there are: both dispatchers of the interpreter, and machine code.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use vireo::abi::Step;
use vireo::interp::{CodeShape, DispatchMode, Limits, TraceSink};
use vireo::vm::{BoxedWaitSource, Buffer, Context, Module, Obj, Value};
use vireo::{Fuel, Result, Status, StatusCode, vm_module};

#[path = "soon.rs"]
mod soon;
use soon::Soon;

/// The arguments of `f0` of a program.
pub const ARGUMENTS: [[i32; 2]; 4] = [[0, 0], [1, 9], [100, -7], [i32::MIN, i32::MAX]];
// Machine code belongs to a module, so each way has a module of its own.
const WAYS: [(DispatchMode, bool); 4] = [
    (DispatchMode::Loop, false),
    (DispatchMode::Threaded, false),
    (DispatchMode::Compiled, false),
    (DispatchMode::Compiled, true),
];

/// Of each call the values or the status, as text.
pub type Outcomes = Vec<Result<String, String>>;

/// The functions that programs import.
#[derive(Default)]
struct Host {
    calls: AtomicU64,
}

#[vm_module(name = "host")]
impl Host {
    #[vm_export("mix")]
    fn mix(&self, a: i32, b: i64) -> Result<(i64, i32)> {
        if a.rem_euclid(61) == 5 {
            return Err(Status::new(StatusCode::DataLoss, "it is lost"));
        }
        Ok((b.wrapping_mul(31) ^ i64::from(a), a.wrapping_sub(b as i32)))
    }

    #[vm_export("pick")]
    fn pick(&self, a: Option<Obj<Buffer>>, b: Option<Obj<Buffer>>, which: i32) -> Result<Option<Obj<Buffer>>> {
        Ok(if which & 1 == 0 { a } else { b })
    }

    #[vm_export("sum")]
    fn sum(&self, values: Vec<i32>) -> Result<i32> {
        Ok(values.into_iter().fold(0, i32::wrapping_add))
    }

    /// Waits each second time.
    #[vm_export("later")]
    fn later(&self, value: i32) -> Result<Step<i32>> {
        let waited = self.calls.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        Ok(if waited { Step::Return(value ^ 1) } else { Step::Wait(BoxedWaitSource::new(Soon)) })
    }
}

/// Keeps what programs report.
#[derive(Default)]
struct Reports(Mutex<String>);

impl TraceSink for Reports {
    fn trace(&self, event: &str, values: &[Value]) {
        self.0.lock().unwrap().push_str(&format!(" {event}{values:?}"));
    }

    fn print(&self, text: &str, values: &[Value]) {
        self.trace(text, values);
    }

    fn executed(&self, _: &str) {}
}

/// The outcomes of all arguments in one way. Machine code may have to be made in `baseline` mode.
fn outcomes(bytes: &[u8], (dispatch, baseline): (DispatchMode, bool)) -> Result<Outcomes> {
    let reports = Arc::new(Reports::default());
    let mut module = Module::from_bytes(bytes)?;
    module.set_code_shape(CodeShape { baseline, ..CodeShape::default() });
    let modules = [Module::native(Host::default())?, module];
    let context = Context::with_sink(modules, Limits::default(), Arc::clone(&reports) as _)?;
    let function = context.function("f0")?;
    let run = |args: &[i32; 2]| {
        let fuel = Fuel::new(6 << 10);
        let limits = Limits { fuel: Some(fuel.clone()), dispatch, stack_bytes: 1 << 14, ..Limits::default() };
        let result = function.call_with(&args.map(Value::I32), limits);
        let reports = std::mem::take(&mut *reports.0.lock().unwrap());
        let used = fuel.used();
        result
            .map(|values| format!("{values:?}{reports} in {used} steps"))
            .map_err(|status| format!("{status}{reports} after {used} steps"))
    };
    Ok(ARGUMENTS.iter().map(run).collect())
}

/// The outcomes of a program that all ways have, or the first difference between them.
///
/// # Errors
/// Fails, in the way that comes first, with the reason why the bytes are no program.
pub fn run_all_ways(bytes: &[u8]) -> Result<Result<Outcomes, String>> {
    let expected = outcomes(bytes, WAYS[0])?;
    let difference = WAYS[1..].iter().find_map(|way| {
        let actual = match outcomes(bytes, *way) {
            Ok(actual) if actual == expected => return None,
            Ok(actual) => actual,
            Err(status) => return Some(format!("{way:?}: {status}")),
        };
        let index = (0..expected.len()).find(|index| actual[*index] != expected[*index])?;
        let (args, expected, actual) = (ARGUMENTS[index], &expected[index], &actual[index]);
        Some(format!("{way:?} with {args:?}: {actual:?} instead of {expected:?}"))
    });
    Ok(difference.map_or(Ok(expected), Err))
}
