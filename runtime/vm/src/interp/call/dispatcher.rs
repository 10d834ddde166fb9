//! The choice of the dispatcher: the limits of a call say which one runs its ops.

use crate::generated::vm::interp::dispatch as loop_dispatcher;
use crate::interp::code::import_site::ImportTarget;
use crate::interp::code::threaded_code::FunctionEntry;
use crate::interp::machine::Machine;
use crate::interp::machine::bound_modules::BytecodeModule;
use crate::interp::threaded::dispatcher as threaded_dispatcher;
use crate::limits::DispatchMode;
use crate::limits::Limits;
use crate::limits::Tier;
use crate::status::Result;
#[cfg(not(feature = "trace"))]
use crate::status::Status;

/// Resolves how ops are dispatched; the result is never `Auto`.
#[inline]
pub(in crate::interp) fn dispatch(limits: &Limits) -> DispatchMode {
    match (limits.dispatch, limits.tier) {
        (DispatchMode::Auto, Tier::Compiled) => DispatchMode::Compiled,
        (DispatchMode::Auto, Tier::Traced) => DispatchMode::Traced,
        (DispatchMode::Auto, _) if threaded_dispatcher::is_fast() => DispatchMode::Threaded,
        (DispatchMode::Auto, _) => DispatchMode::Loop,
        (chosen, _) => chosen,
    }
}

/// Runs until the outermost function returns or something suspends the machine: `Machine::exit` says which.
#[inline]
pub fn run(machine: &mut Machine<'_>) -> Result<()> {
    let result = match dispatch(machine.limits) {
        DispatchMode::Loop | DispatchMode::Auto => loop_dispatcher::run(machine, false),
        DispatchMode::Threaded | DispatchMode::Tiered | DispatchMode::Kernels | DispatchMode::Compiled => {
            threaded_dispatcher::run(machine)
        }
        #[cfg(feature = "trace")]
        DispatchMode::Traced => super::traced_dispatcher::run(machine),
        #[cfg(not(feature = "trace"))]
        DispatchMode::Traced => {
            Err(Status::unimplemented("ops are not traced: the library was built without the feature `trace`"))
        }
    };
    result.map_err(|status| machine.with_backtrace(status))
}

/// How a function of a module is entered by calls within these limits, if its ops are threaded and the tier-up does not
/// count its calls.
pub fn function_entry(module: &BytecodeModule, target: ImportTarget, limits: &Limits) -> Option<FunctionEntry> {
    match dispatch(limits) {
        DispatchMode::Threaded | DispatchMode::Tiered | DispatchMode::Kernels | DispatchMode::Compiled => {
            threaded_dispatcher::function_entry(module, target, limits)
        }
        DispatchMode::Auto | DispatchMode::Loop | DispatchMode::Traced => None,
    }
}

/// Goes on where the handlers of a function that was entered have stopped, as [`run`] does.
pub fn go_on(machine: &mut Machine<'_>) -> Result<()> {
    threaded_dispatcher::after_entry(machine).map_err(|status| machine.with_backtrace(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threaded_dispatcher_runs_where_calls_are_jumps() {
        let chosen =
            if cfg!(all(sibling_calls, not(debug_assertions))) { DispatchMode::Threaded } else { DispatchMode::Loop };
        assert_eq!(dispatch(&Limits::default()), chosen);
    }
}
