//! Queues, command buffers and executables, and observers of them.

use super::*;

impl Channel for Mock {
    fn split(&self, color: i32, key: i32, flags: ChannelFlags) -> Result<Arc<dyn Channel>> {
        self.note((color, key, flags));
        if color < 0 { Err(Status::not_found("no group")) } else { Ok(Arc::new(Mock::default())) }
    }

    fn rank_and_count(&self) -> ChannelRank {
        ChannelRank { rank: -1, count: 7 }
    }
}

#[test]
fn channels() {
    alike::<dyn Channel, _>(
        |mock| mock,
        2,
        |channel| {
            let split = channel.split(1, i32::MIN, ChannelFlags::empty()).unwrap();
            let failure = channel.split(-1, 0, ChannelFlags::empty()).unwrap_err();
            (channel.rank_and_count(), split.rank_and_count(), failure.to_string())
        },
    );
}

impl ChannelProvider for Mock {
    fn default_rank_and_count(&self) -> Result<ChannelRank> {
        Ok(ChannelRank { rank: 2, count: 3 })
    }

    fn exchange_default_id(&self, id: &[u8]) -> Result<Vec<u8>> {
        self.note(id);
        Ok(id.iter().rev().copied().collect())
    }
}

#[test]
fn channel_providers() {
    alike::<dyn ChannelProvider, _>(
        |mock| mock,
        2,
        |provider| {
            let ids = [provider.exchange_default_id(&[1, 2, 3]).unwrap(), provider.exchange_default_id(&[]).unwrap()];
            (provider.default_rank_and_count().unwrap(), ids)
        },
    );
}

impl ProfileSink for Mock {
    fn begin_session(&self, metadata: &ProfileChunkMetadata) -> Result<()> {
        self.note(metadata);
        Ok(())
    }

    fn write(&self, metadata: &ProfileChunkMetadata, parts: &[&[u8]]) -> Result<()> {
        self.note((metadata, parts));
        Ok(())
    }

    fn end_session(&self, metadata: &ProfileChunkMetadata, session_status_code: u32) -> Result<()> {
        self.note((metadata, session_status_code));
        Ok(())
    }
}

#[test]
fn profile_sinks() {
    alike::<dyn ProfileSink, _>(
        |mock| mock,
        3,
        |sink| {
            let metadata = ProfileChunkMetadata {
                content_type: "text".to_string(),
                queue_ordinal: u32::MAX,
                flags: ProfileChunkFlags::TRUNCATED,
                dropped_record_count: 5,
                ..ProfileChunkMetadata::default()
            };
            sink.begin_session(&metadata).unwrap();
            sink.write(&metadata, &[&[1, 2], &[], &[3]]).unwrap();
            sink.end_session(&metadata, 13).unwrap();
        },
    );
}

impl Executable for Mock {
    fn function_count(&self) -> u32 {
        2
    }

    fn function_info(&self, function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        self.note(function);
        Err(Status::out_of_range("none"))
    }

    fn function_parameters(&self, function: ExecutableFunction) -> Result<Vec<ExecutableFunctionParameter>> {
        self.note(function);
        let parameter = |name: &str| ExecutableFunctionParameter {
            r#type: ExecutableFunctionParameterType::BINDING,
            size: 8,
            flags: ExecutableFunctionParameterFlags::empty(),
            name: name.to_string(),
            offset: 16,
        };
        Ok(vec![parameter("lhs"), parameter(""), parameter("result")])
    }

    fn lookup_function(&self, name: &str) -> Result<ExecutableFunction> {
        self.note(name);
        Ok(ExecutableFunction(name.len() as u64))
    }

    fn lookup_global(&self, name: &str, queue_affinity: QueueAffinity) -> Result<Arc<dyn Buffer>> {
        self.note((name, queue_affinity));
        Ok(buffer(name.as_bytes()))
    }
}

impl LocalExecutable for Mock {
    unsafe fn issue_call(
        &self,
        ordinal: u32,
        dispatch_state: &DispatchState,
        workgroup_state: &WorkgroupState,
        worker_id: u32,
    ) -> Result<()> {
        let workgroup = (workgroup_state.workgroup_id_x, workgroup_state.workgroup_id_z);
        self.note((ordinal, dispatch_state.workgroup_count_y, workgroup, worker_id));
        Ok(())
    }
}

#[test]
fn local_executables() {
    alike::<dyn LocalExecutable, _>(
        |mock| mock,
        5,
        |executable| {
            let dispatch_state = DispatchState {
                workgroup_size_x: 1,
                workgroup_size_y: 1,
                workgroup_size_z: 1,
                constant_count: 0,
                workgroup_count_x: 2,
                workgroup_count_y: 3,
                workgroup_count_z: 4,
                max_concurrency: 1,
                binding_count: 0,
                constants: std::ptr::null(),
                binding_pointers: std::ptr::null(),
                binding_lengths: std::ptr::null(),
            };
            let workgroup_state = WorkgroupState {
                workgroup_id_x: 1,
                workgroup_id_y: 2,
                workgroup_id_z: 3,
                reserved: 0,
                processor_id: 0,
                local_memory: std::ptr::null_mut(),
                local_memory_size: 0,
                padding: 0,
            };
            // SAFETY: the mock runs nothing.
            unsafe { executable.issue_call(1, &dispatch_state, &workgroup_state, 5) }.unwrap();
            let info = executable.function_info(ExecutableFunction(3)).unwrap_err().to_string();
            let parameters = executable.function_parameters(ExecutableFunction(4)).unwrap();
            let function = executable.lookup_function("main").unwrap();
            let global = bytes(&executable.lookup_global("table", QueueAffinity::ANY).unwrap());
            (executable.function_count(), info, parameters, function, global)
        },
    );
}
