//! Exports for fences: `fence.*`.

use vireo_macros::vm_module;

use crate::Result;
use crate::abi::{Span, Step};
use crate::hal::{HalModule, HalState, fence_await};
use crate::status::StatusCode;
use crate::vm::Obj;
use vireo_hal::*;

#[vm_module(spec = "hal", part("fence"), state = HalState)]
impl HalModule {
    #[vm_export("fence.await")]
    fn fence_await(
        &self,
        state: &mut HalState,
        timeout_millis: u32,
        _flags: u64,
        fences: Span<'_, Option<&Obj<FenceRef>>>,
    ) -> Result<Step<i32>> {
        state.pending_deadlines.wait(fences.iter().flatten().map(|fence| &**fence), timeout_millis)
    }

    #[vm_export("fence.create")]
    fn fence_create(&self, device: &Obj<DeviceRef>, _flags: u64) -> Result<Obj<FenceRef>> {
        let semaphore = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::DEFAULT)?;
        Ok(Obj::new(Fence::at(semaphore, 1)))
    }

    #[vm_export("fence.fail")]
    fn fence_fail(&self, fence: &Obj<FenceRef>, status: i32) -> Result<()> {
        fence.fail(&fence_await::failure(status));
        Ok(())
    }

    #[vm_export("fence.join")]
    fn fence_join(&self, _flags: u64, fences: Span<'_, Option<&Obj<FenceRef>>>) -> Result<Option<Obj<FenceRef>>> {
        let joined = Fence::join(fences.iter().flatten().flat_map(|fence| fence.timepoints()));
        Ok((!joined.timepoints().is_empty()).then(|| Obj::new(joined)))
    }

    #[vm_export("fence.query")]
    fn fence_query(&self, fence: &Obj<FenceRef>) -> Result<i32> {
        Ok(match fence.query() {
            Ok(true) => 0,
            Ok(false) => StatusCode::Deferred as i32,
            Err(failure) => failure.code() as i32,
        })
    }

    #[vm_export("fence.signal")]
    fn fence_signal(&self, fence: &Obj<FenceRef>) -> Result<()> {
        fence.signal()
    }
}
