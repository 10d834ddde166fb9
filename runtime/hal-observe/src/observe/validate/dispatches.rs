//! Dispatches held to what their executable says of its functions, and to where they read workgroup counts from.

use super::checks::Checks;
use super::needs::Needs;
use crate::hal::{
    BufferUsage, DispatchConfig, DispatchFlags, ExecutableFunctionFlags, ExecutableFunctionInfo, MemoryAccess,
};
use crate::observe::Call;
use crate::status::{Result, Status, StatusCode};

/// Bytes of three workgroup counts, and what they are aligned to.
const COUNTS: u64 = 3 * size_of::<u32>() as u64;
const COUNT_ALIGNMENT: u64 = align_of::<u32>() as u64;

/// Flags of dispatches whose constants and bindings are not those that the function declares.
const CUSTOM_ARGUMENTS: DispatchFlags = DispatchFlags::CUSTOM_DIRECT_ARGUMENTS
    .union(DispatchFlags::DYNAMIC_INDIRECT_ARGUMENTS)
    .union(DispatchFlags::STATIC_INDIRECT_ARGUMENTS);

const INDIRECT_COUNTS: DispatchFlags =
    DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS.union(DispatchFlags::STATIC_INDIRECT_PARAMETERS);

/// Checks a call if it is a dispatch.
pub(super) fn check(checks: &mut Checks<'_>) -> Result<()> {
    let called = checks.called;
    let (Call::CommandBufferDispatch { executable, function, config, constants, bindings, flags }
    | Call::DeviceQueueDispatch { executable, function, config, constants, bindings, flags, .. }) = called.call()
    else {
        return Ok(());
    };
    match called.unwrapped(executable).function_info(*function) {
        Ok(info) => {
            if !flags.intersects(CUSTOM_ARGUMENTS) {
                check_counts(&info, constants.len(), bindings.len())?;
            }
            check_size(&info, config)?;
        }
        // Nothing is known of it.
        Err(status) if status.code() == StatusCode::Unimplemented => {}
        Err(status) => return Err(status.context("`function`")),
    }
    if flags.intersects(INDIRECT_COUNTS) {
        let needs = Needs {
            usage: BufferUsage::DISPATCH_INDIRECT_PARAMETERS,
            access: MemoryAccess::READ,
            aligned_to: COUNT_ALIGNMENT,
            at_least: COUNTS,
            ..Needs::default()
        };
        checks.reference("config.workgroup_count_ref", &config.workgroup_count_ref, needs)?;
    }
    Ok(())
}

/// A function that declares neither constants nor bindings is one of which that is not known: without a binding it
/// could do nothing.
fn check_counts(info: &ExecutableFunctionInfo, constants: usize, bindings: usize) -> Result<()> {
    let (expected_constants, expected_bindings) = (usize::from(info.constant_count), usize::from(info.binding_count));
    if (expected_constants, expected_bindings) == (0, 0)
        || (constants, bindings) == (expected_constants, expected_bindings)
    {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "`{}` takes {expected_constants} constants and {expected_bindings} bindings, {constants} and {bindings} are given",
        info.name
    )))
}

/// Sizes of workgroups that the function declares are those of the dispatch, or divide them if it says that they may.
fn check_size(info: &ExecutableFunctionInfo, config: &DispatchConfig) -> Result<()> {
    let dynamic = info.flags.contains(ExecutableFunctionFlags::WORKGROUP_SIZE_DYNAMIC);
    let fits = |(given, declared): (&u32, &u32)| {
        *given == 0 || *declared == 0 || given == declared || dynamic && given.is_multiple_of(*declared)
    };
    if config.workgroup_size.iter().zip(&info.workgroup_size).all(fits) {
        return Ok(());
    }
    let expected = if dynamic { "expected multiples of" } else { "expected" };
    Err(Status::invalid_argument(format!(
        "`{}`: workgroup size {:?}: {expected} {:?}",
        info.name, config.workgroup_size, info.workgroup_size
    )))
}
