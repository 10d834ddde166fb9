//! Command buffers of several agents ([`AgentsCommandBuffer`]): one recorder for each, since kernels and arguments have
//! other addresses on each. A device makes them where queues of several agents may execute the commands; the programs
//! share buffers and executables.

use std::sync::Arc;

use super::program::Program;
use super::recorder::PacketRecorder;
use super::source::KernelSource;
use crate::hal::BufferRef;
use crate::hal::recycle::{FreeList, MAX_FREE, Uninit, free_list};
use crate::hal_driver::deferred::{self, DeferredCommandBuffer, DispatchRequest};
use crate::status::{Result, Status};

/// A command buffer of several agents.
pub type AgentsCommandBuffer = DeferredCommandBuffer<AgentsRecorder>;

free_list! { static COMMAND_BUFFERS: Uninit<AgentsCommandBuffer>, MAX_FREE }

/// Records commands for several agents.
pub struct AgentsRecorder {
    /// In the order of the agents.
    recorders: Vec<PacketRecorder>,
    /// Whether one of them refused a command that another one recorded.
    differs: bool,
}

/// The programs of several agents.
#[derive(Debug)]
pub struct AgentsProgram(Vec<(Arc<dyn KernelSource>, Arc<Program>)>);

impl AgentsProgram {
    /// The program of an agent.
    pub fn of(&self, agent: &Arc<dyn KernelSource>) -> Option<&Arc<Program>> {
        self.0.iter().find(|(source, _)| Arc::ptr_eq(source, agent)).map(|(_, program)| program)
    }
}

impl AgentsRecorder {
    /// Records a command for each agent.
    fn each(&mut self, mut command: impl FnMut(usize, &mut PacketRecorder) -> Result<()>) -> Result<()> {
        for (index, recorder) in self.recorders.iter_mut().enumerate() {
            if let Err(status) = command(index, recorder) {
                self.differs |= index > 0;
                return Err(status);
            }
        }
        Ok(())
    }
}

impl deferred::Recorder for AgentsRecorder {
    type Device = Arc<[Arc<dyn KernelSource>]>;
    type Program = AgentsProgram;

    fn command_buffers() -> &'static FreeList<Uninit<AgentsCommandBuffer>> {
        &COMMAND_BUFFERS
    }

    fn new(sources: &Self::Device, capacity: u32, reusable: bool) -> AgentsRecorder {
        let recorders = sources.iter().map(|source| PacketRecorder::new(source, capacity, reusable)).collect();
        AgentsRecorder { recorders, differs: false }
    }

    fn command_count(&self) -> usize {
        self.recorders.first().map_or(0, PacketRecorder::command_count)
    }

    fn commands_of(program: &AgentsProgram) -> usize {
        program.0.first().map_or(0, |(_, program)| PacketRecorder::commands_of(program))
    }

    fn barrier(&mut self) -> Result<()> {
        self.each(|_, recorder| recorder.barrier())
    }

    fn fill(&mut self, target: &BufferRef, pattern: &[u8]) -> Result<()> {
        self.each(|_, recorder| recorder.fill(target, pattern))
    }

    fn update(&mut self, source: &[u8], target: &BufferRef) -> Result<()> {
        self.each(|_, recorder| recorder.update(source, target))
    }

    fn copy(&mut self, source: &BufferRef, target: &BufferRef) -> Result<()> {
        self.each(|_, recorder| recorder.copy(source, target))
    }

    fn synchronise(&mut self, range: &BufferRef) -> Result<()> {
        self.each(|_, recorder| recorder.synchronise(range))
    }

    fn dispatch(&mut self, sources: &Self::Device, request: DispatchRequest<'_>) -> Result<()> {
        self.each(|index, recorder| recorder.dispatch(&sources[index], request))
    }

    fn finish(self, sources: &Self::Device) -> Result<Arc<AgentsProgram>> {
        if self.differs {
            let message = "a command was recorded for some agents of the device and refused by another one";
            return Err(Status::failed_precondition(message));
        }
        let finish = |(recorder, source): (PacketRecorder, &Arc<dyn KernelSource>)| {
            Ok((source.clone(), recorder.finish(source)?))
        };
        let programs = self.recorders.into_iter().zip(sources.iter()).map(finish).collect::<Result<_>>()?;
        Ok(Arc::new(AgentsProgram(programs)))
    }
}
