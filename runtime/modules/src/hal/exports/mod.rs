//! The exports of the `hal` module, as `spec/abi/modules/hal.yaml` lists them, in files by the object they work on.
//! `#[vm_module]` checks that none is missing.
#![expect(clippy::too_many_arguments, reason = "the spec lists the arguments")]

mod commands;
mod fences;
mod memory;
mod queues;

use vireo_macros::vm_module;

use super::convert::{check_file_access, import_file, object, words};
use super::shared_executables::ExecutableKey;
use super::{HalModule, HalState};
use crate::vm::{Buffer as VmBuffer, Obj};
use crate::{Result, Status};
use vireo_hal::*;

type Buffers = BufferRefObject;

#[vm_module(spec = "hal", parts("allocator", "buffer", "buffer_view", "command_buffer", "device", "fence"))]
impl HalModule {
    #[vm_state]
    fn create_state(&self) -> Result<HalState> {
        HalState::new(self.devices())
    }

    #[vm_export("devices.count")]
    fn devices_count(&self) -> Result<u32> {
        Ok(self.devices().len() as u32)
    }

    #[vm_export("devices.get")]
    fn devices_get(&self, index: u32) -> Result<Option<Obj<DeviceRef>>> {
        Ok(self.devices().get(index as usize).cloned().map(object))
    }

    #[vm_export("ex.file.from_memory")]
    fn ex_file_from_memory(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        access: MemoryAccess,
        buffer: &Obj<VmBuffer>,
        offset: u64,
        length: u64,
        flags: ExternalFileFlags,
    ) -> Result<Obj<FileRef>> {
        check_file_access(access)?;
        if access.contains(MemoryAccess::WRITE) && !buffer.is_mutable() {
            return Err(Status::permission_denied("a read-only buffer cannot become a file that is written"));
        }
        let length = check_range(buffer.len() as u64, offset, length)?;
        // SAFETY: writing is asked for only where the buffer is mutable.
        Ok(object(unsafe { import_file(&*device.0, queue_affinity, access, buffer, offset, length, flags) }?))
    }

    #[vm_export("executable.create")]
    fn executable_create(
        &self,
        state: &mut HalState,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        executable_format: &str,
        executable_data: &Obj<VmBuffer>,
        constants: Option<&Obj<VmBuffer>>,
    ) -> Result<Obj<ExecutableRef>> {
        let constants = constants.map_or(Ok(Vec::new()), |constants| words("constants", constants))?;
        let key = ExecutableKey {
            device: &device.0,
            queue_affinity,
            format: executable_format,
            data: executable_data,
            constants: &constants,
        };
        if let Some(executable) = self.executables.get(&key) {
            return Ok(object(executable));
        }
        // The bytes are copied, because the program may write to a mutable buffer while the loader reads it.
        let executable = state.executable_cache(&device.0)?.prepare_executable(
            queue_affinity,
            ExecutableCachingMode::empty(),
            executable_format,
            &executable_data.to_vec(),
            &constants,
        )?;
        self.executables.add(&key, &executable);
        Ok(object(executable))
    }

    #[vm_export("executable.lookup.function")]
    fn executable_lookup_function(
        &self,
        executable: &Obj<ExecutableRef>,
        function_name: &str,
    ) -> Result<ExecutableFunction> {
        executable.lookup_function(function_name)
    }

    #[vm_export("channel.create")]
    fn channel_create(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        flags: ChannelFlags,
        id: Option<&Obj<VmBuffer>>,
        group: Option<&str>,
        rank: i32,
        count: i32,
    ) -> Result<Obj<ChannelRef>> {
        let params = ChannelParams {
            flags,
            id: id.map_or_else(Vec::new, |id| id.to_vec()),
            group: group.unwrap_or_default().to_string(),
            rank,
            count,
        };
        Ok(object(device.create_channel(queue_affinity, &params)?))
    }

    #[vm_export("channel.rank_and_count")]
    fn channel_rank_and_count(&self, channel: &Obj<ChannelRef>) -> Result<(i32, i32)> {
        let ChannelRank { rank, count } = channel.rank_and_count();
        Ok((rank, count))
    }

    #[vm_export("channel.split")]
    fn channel_split(
        &self,
        channel: &Obj<ChannelRef>,
        color: i32,
        key: i32,
        flags: ChannelFlags,
    ) -> Result<Obj<ChannelRef>> {
        Ok(object(channel.split(color, key, flags)?))
    }
}
