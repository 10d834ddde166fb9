//! Stand-ins for the command buffers of the driver, which the operations of the model do not use.

pub(crate) mod command_buffer {
    use crate::hal::BufferBinding;
    use crate::hal::recycle::{MAX_FREE, Uninit, Unshared, free_list};
    use crate::hal_driver::deferred::{
        CommandFreeLists, CommandProgram, Deferred, DeferredCommandBuffer, DispatchRequest, MAX_FREE_PROGRAMS,
        ProgramRecorder,
    };
    use crate::status::{Result, Status};
    use crate::task::Executor;

    /// A device that records nothing.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct LocalCommands;

    pub(crate) type LocalCommandProgram = CommandProgram<LocalCommands>;

    free_list! { static PROGRAMS: Unshared<LocalCommandProgram>, MAX_FREE_PROGRAMS }
    free_list! { static COMMAND_BUFFERS: Uninit<DeferredCommandBuffer<ProgramRecorder<LocalCommands>>>, MAX_FREE }

    impl Deferred for LocalCommands {
        type Executable = ();
        type Profile = ();

        fn free_lists() -> CommandFreeLists<LocalCommands> {
            CommandFreeLists { programs: &PROGRAMS, command_buffers: &COMMAND_BUFFERS }
        }

        fn executable(self, _dispatch: &DispatchRequest<'_>) -> Result<()> {
            Err(Status::unimplemented("the model dispatches nothing"))
        }
    }

    /// An execution of a program, of which there is none.
    pub(crate) struct Execution<'p>(pub(crate) &'p LocalCommandProgram);

    impl Execution<'_> {
        pub(crate) fn run(self, _table: &[BufferBinding], _runner: Option<&Executor>) -> Result<()> {
            Err(Status::unimplemented(format!("the model executes nothing: {:?}", self.0)))
        }

        pub(crate) fn expected_time(self, _executor: Option<&Executor>) -> Option<u64> {
            None
        }
    }
}
