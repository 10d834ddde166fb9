//! Command buffers of several devices ([`EachRecorder`]): one recorder for each, since kernels and arguments have other
//! addresses on each. A logical device makes them where queues of several of its devices may execute the commands; the
//! programs share buffers and executables.

use std::sync::Arc;

use super::{DeferredCommandBuffer, DispatchRequest, Recorder};
use crate::hal::BufferRef;
use crate::hal::recycle::{FreeList, Uninit};
use crate::status::{Result, Status};

/// A recorder for one of several devices.
pub trait OfOneDevice: Recorder<Device: Clone + Same> {
    /// The free list of command buffers of several devices, as [`Recorder::command_buffers`].
    fn command_buffers_of_each() -> &'static FreeList<Uninit<DeferredCommandBuffer<EachRecorder<Self>>>>;
}

/// Devices that can be told apart.
pub trait Same {
    /// Whether both are one.
    fn is_same(&self, other: &Self) -> bool;
}

impl<T: ?Sized> Same for Arc<T> {
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}

/// Records commands for several devices.
pub struct EachRecorder<R> {
    /// In the order of the devices.
    recorders: Vec<R>,
    /// Whether one of them refused a command that another one recorded.
    differs: bool,
}

/// The programs of several devices.
#[derive(Debug)]
pub struct EachProgram<R: Recorder>(Vec<(R::Device, Arc<R::Program>)>);

impl<R: OfOneDevice> EachProgram<R> {
    /// The program of a device.
    pub fn of(&self, device: &R::Device) -> Option<&Arc<R::Program>> {
        self.0.iter().find(|(other, _)| other.is_same(device)).map(|(_, program)| program)
    }
}

impl<R: OfOneDevice> EachRecorder<R> {
    /// Records a command for each device.
    fn each(&mut self, mut command: impl FnMut(usize, &mut R) -> Result<()>) -> Result<()> {
        for (index, recorder) in self.recorders.iter_mut().enumerate() {
            if let Err(status) = command(index, recorder) {
                self.differs |= index > 0;
                return Err(status);
            }
        }
        Ok(())
    }
}

impl<R: OfOneDevice> Recorder for EachRecorder<R> {
    type Device = Arc<[R::Device]>;
    type Program = EachProgram<R>;

    fn command_buffers() -> &'static FreeList<Uninit<DeferredCommandBuffer<Self>>> {
        R::command_buffers_of_each()
    }

    fn new(devices: &Self::Device, capacity: u32, reusable: bool) -> Self {
        let recorders = devices.iter().map(|device| R::new(device, capacity, reusable)).collect();
        EachRecorder { recorders, differs: false }
    }

    fn command_count(&self) -> usize {
        self.recorders.first().map_or(0, R::command_count)
    }

    fn commands_of(program: &Self::Program) -> usize {
        program.0.first().map_or(0, |(_, program)| R::commands_of(program))
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

    fn dispatch(&mut self, devices: &Self::Device, request: DispatchRequest<'_>) -> Result<()> {
        self.each(|index, recorder| recorder.dispatch(&devices[index], request))
    }

    fn finish(self, devices: &Self::Device) -> Result<Arc<Self::Program>> {
        if self.differs {
            let message = "a command was recorded for some devices and refused by another one";
            return Err(Status::failed_precondition(message));
        }
        let finish = |(recorder, device): (R, &R::Device)| Ok((device.clone(), recorder.finish(device)?));
        let programs = self.recorders.into_iter().zip(devices.iter()).map(finish).collect::<Result<_>>()?;
        Ok(Arc::new(EachProgram(programs)))
    }
}
