//! A device made of the parts that `vireo-hal-driver` has for drivers: it does everything but run kernels, on the
//! threads that submit. A device for hardware has another discipline, which gives operations to the hardware.

use std::sync::Arc;

use vireo_core::status::{Result, Status};
use vireo_hal::recycle::{MAX_FREE, Uninit, Unshared, free_list};
use vireo_hal::timepoints::PendingWait;
use vireo_hal::*;
use vireo_hal_driver::deferred::*;
use vireo_hal_driver::device_state::{DeviceState, host_device_methods};
use vireo_hal_driver::memory_source::DeviceMemory;
use vireo_hal_driver::queue::{self, Discipline, InlineRunner, Operation, QueueFreeLists, Queued, Weight};

/// The kind of device that commands are recorded for. A dispatch is recorded without anything of its executable.
#[derive(Clone, Copy, Debug)]
struct NullCommands;
type Program = CommandProgram<NullCommands>;
type Commands = DeferredCommandBuffer<ProgramRecorder<NullCommands>>;

/// The discipline of its queue: the threads that make operations ready run them.
#[derive(Debug, Default)]
struct Inline(InlineRunner<Inline>);

free_list! { static PROGRAMS: Unshared<Program>, MAX_FREE_PROGRAMS }
free_list! { static COMMAND_BUFFERS: Uninit<Commands>, MAX_FREE }
free_list! { static OPERATIONS: Box<Operation<Inline>>, MAX_FREE }
free_list! { static PENDING: Uninit<PendingWait<Queued<Inline>>>, MAX_FREE }

impl Deferred for NullCommands {
    type Executable = ();
    type Profile = ();

    fn free_lists() -> CommandFreeLists<NullCommands> {
        CommandFreeLists { programs: &PROGRAMS, command_buffers: &COMMAND_BUFFERS }
    }

    fn executable(self, _dispatch: &DispatchRequest<'_>) -> Result<()> {
        Ok(())
    }
}

impl Discipline for Inline {
    type Device = NullCommands;
    type Runner = ();

    fn free_lists() -> QueueFreeLists<Inline> {
        QueueFreeLists { operations: &OPERATIONS, pending: &PENDING }
    }

    fn run(&self, signal: &[Timepoint], weight: Weight, submission: impl queue::Submission<Inline>) {
        self.0.run(signal, weight, submission);
    }

    fn push(&self, operation: Box<Operation<Inline>>) {
        self.0.push(operation);
    }

    fn execute(program: &Arc<Program>, table: &[BufferBinding], _runner: Option<&()>) -> Result<()> {
        program.steps().iter().try_for_each(|step| {
            let Some(dispatch) = program.run_transfer(&step.command, table)? else { return Ok(()) };
            // It does nothing, with arguments that are there.
            program.grid(dispatch, table)?.workgroups()?;
            program.bindings_of(dispatch, table).try_for_each(|range| range.map(drop))
        })
    }
}

/// Executables of every format, with every function, and the cache that prepares them.
#[derive(Debug)]
struct Nothing;

impl Executable for Nothing {
    fn function_count(&self) -> u32 {
        0
    }

    fn function_info(&self, _function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        Err(Status::unimplemented("the null driver does not read executables"))
    }

    fn lookup_function(&self, _name: &str) -> Result<ExecutableFunction> {
        Ok(ExecutableFunction(0))
    }
}

impl ExecutableCache for Nothing {
    fn infer_format(&self, _mode: ExecutableCachingMode, _data: &[u8]) -> Result<String> {
        Err(Status::unimplemented("the null driver does not read executables"))
    }

    fn can_prepare_format(&self, _mode: ExecutableCachingMode, _format: &str) -> bool {
        true
    }

    fn prepare_executable(
        &self,
        _affinity: QueueAffinity,
        _mode: ExecutableCachingMode,
        _format: &str,
        _data: &[u8],
        _constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        Ok(Arc::new(Nothing))
    }
}

/// The device.
#[derive(Debug)]
pub struct NullDevice {
    state: DeviceState,
    queue: Arc<queue::Queue<Inline>>,
}

impl Default for NullDevice {
    fn default() -> NullDevice {
        let memory = DeviceMemory::new(Arc::<HeapAllocator>::default());
        NullDevice { state: DeviceState::new("null", memory), queue: Arc::default() }
    }
}

impl NullDevice {
    fn queue(&self, _affinity: QueueAffinity) -> &Arc<queue::Queue<Inline>> {
        &self.queue
    }

    fn commands(&self) -> NullCommands {
        NullCommands
    }
}

impl Device for NullDevice {
    host_device_methods!();

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        let is_known = match QueryCategory::from_name(category) {
            Some(QueryCategory::Device | QueryCategory::Dispatch) => QueryKey::from_name(key).is_some(),
            known => matches!(known, Some(QueryCategory::DeviceId | QueryCategory::ExecutableFormat)),
        };
        if is_known { Ok(1) } else { Err(self.state.unknown(category, key)) }
    }

    fn capabilities(&self) -> DeviceCapabilities {
        DeviceCapabilities { flags: DeviceCapabilityBits::CONCURRENT_SAFE, ..DeviceCapabilities::default() }
    }

    fn create_executable_cache(&self, _identifier: &str) -> Result<Arc<dyn ExecutableCache>> {
        Ok(Arc::new(Nothing))
    }
}
