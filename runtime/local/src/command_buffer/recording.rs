//! The record of a dispatch in local devices: the kernels of its executable. Their command buffers and programs are the
//! deferred ones of `vireo_hal_driver::deferred`.

use std::sync::Arc;

use super::profile::ProgramProfile;
use crate::hal::DispatchFlags;
use crate::hal::host_kernels::{HostKernels, check_z, kernels_of};
use crate::hal::recycle::{MAX_FREE, Uninit, Unshared, free_list};
use crate::hal_driver::deferred::{
    self, CommandFreeLists, CommandProgram, Deferred, DeferredCommandBuffer, DispatchRequest, MAX_FREE_PROGRAMS,
    ProgramRecorder,
};
use crate::status::{Result, Status};

/// The kind of local device that commands are recorded for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalCommands {
    /// Whether it is the null device, whose kernels do nothing.
    pub(crate) null: bool,
}

pub(crate) type LocalCommandBuffer = DeferredCommandBuffer<ProgramRecorder<LocalCommands>>;
pub(crate) type LocalCommandProgram = CommandProgram<LocalCommands>;
pub(super) type Step = deferred::Step<LocalCommands>;
pub(super) type Command = deferred::Command<LocalCommands>;
pub(super) type RecordedDispatch = deferred::RecordedDispatch<LocalCommands>;

free_list! { static PROGRAMS: Unshared<LocalCommandProgram>, MAX_FREE_PROGRAMS }
free_list! { static COMMAND_BUFFERS: Uninit<LocalCommandBuffer>, MAX_FREE }

impl Deferred for LocalCommands {
    type Executable = Arc<dyn HostKernels>;
    type Profile = ProgramProfile;

    #[inline]
    fn free_lists() -> CommandFreeLists<LocalCommands> {
        CommandFreeLists { programs: &PROGRAMS, command_buffers: &COMMAND_BUFFERS }
    }

    fn executable(self, dispatch: &DispatchRequest<'_>) -> Result<Arc<dyn HostKernels>> {
        let custom = DispatchFlags::CUSTOM_DIRECT_ARGUMENTS
            | DispatchFlags::DYNAMIC_INDIRECT_ARGUMENTS
            | DispatchFlags::STATIC_INDIRECT_ARGUMENTS;
        if dispatch.flags.intersects(custom) {
            let message = format!("dispatches with {:?} are not supported on local devices", dispatch.flags & custom);
            return Err(Status::unimplemented(message));
        }
        let kernels = kernels_of(dispatch.executable, self.null)?;
        kernels.check_arguments(dispatch.function, dispatch.constants.len(), dispatch.bindings.len())?;
        let grid = dispatch.grid();
        check_z(grid.size[2], "workgroup size")?;
        grid.workgroups()?;
        Ok(kernels)
    }
}
