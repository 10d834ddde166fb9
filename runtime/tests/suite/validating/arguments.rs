//! Arguments of one call: ranges, alignment, lengths, usage and access, and dispatches against their function.

use std::ptr::NonNull;

use vireo::Result;
use vireo::StatusCode::{InvalidArgument, OutOfRange, PermissionDenied};
use vireo::hal::ForwardedMethod as Method;
use vireo::hal::*;

use super::*;

const BEYOND: [(u64, u64); 4] = [(60, 5), (65, 0), (u64::MAX, 1), (1, u64::MAX - 1)];

fn fill(bench: &Bench, target: &BufferRef, pattern: &[u8]) -> Result<()> {
    bench.recording(CommandBufferMode::empty(), 1).fill_buffer(target, pattern, FillFlags::empty())
}

fn update(bench: &Bench, bytes: &[u8], target: &BufferRef) -> Result<()> {
    bench.recording(CommandBufferMode::empty(), 1).update_buffer(bytes, target, UpdateFlags::empty())
}

fn copy(bench: &Bench, source: &BufferRef, target: &BufferRef) -> Result<()> {
    bench.recording(CommandBufferMode::empty(), 1).copy_buffer(source, target, CopyFlags::empty())
}

fn queue_fill(bench: &Bench, target: &Arc<dyn Buffer>, offset: u64, length: u64, pattern: &[u8]) -> Result<()> {
    bench.operation(|signal| {
        bench.device.queue_fill(ANY, &[], signal, target, offset, length, pattern, FillFlags::empty())
    })
}

fn queue_update(bench: &Bench, bytes: &[u8], target: &Arc<dyn Buffer>, offset: u64) -> Result<()> {
    bench.operation(|signal| bench.device.queue_update(ANY, &[], signal, bytes, target, offset, UpdateFlags::empty()))
}

type Place<'a> = (&'a Arc<dyn Buffer>, u64);

fn queue_copy(bench: &Bench, (source, from): Place<'_>, (target, to): Place<'_>, length: u64) -> Result<()> {
    bench.operation(|signal| {
        bench.device.queue_copy(ANY, &[], signal, source, from, target, to, length, CopyFlags::empty())
    })
}

#[test]
fn recorded_ranges_are_within_their_buffers() {
    for (offset, length) in BEYOND {
        let beyond = |bench: &Bench| range(&bench.buffer(), offset, length);
        let inside = |bench: &Bench| range(&bench.buffer(), 0, 4);
        refused(Method::CommandBufferFillBuffer, OutOfRange, |bench| fill(bench, &beyond(bench), &[1]));
        refused(Method::CommandBufferUpdateBuffer, OutOfRange, |bench| update(bench, &[1; 5], &beyond(bench)));
        refused(Method::CommandBufferCopyBuffer, OutOfRange, |bench| copy(bench, &beyond(bench), &inside(bench)));
        refused(Method::CommandBufferCopyBuffer, OutOfRange, |bench| copy(bench, &inside(bench), &beyond(bench)));
        let recording = |bench: &Bench| bench.recording(CommandBufferMode::empty(), 0);
        refused(Method::CommandBufferAdviseBuffer, OutOfRange, |bench| {
            recording(bench).advise_buffer(&beyond(bench), MemoryAdviseFlags::empty(), 0, 0)
        });
        refused(Method::CommandBufferFlushBuffer, OutOfRange, |bench| recording(bench).flush_buffer(&beyond(bench)));
        refused(Method::CommandBufferInvalidateBuffer, OutOfRange, |bench| {
            recording(bench).invalidate_buffer(&beyond(bench))
        });
        let scope = AccessScope::TRANSFER_WRITE;
        let barrier =
            |bench: &Bench| BufferBarrier { source_scope: scope, target_scope: scope, buffer_ref: beyond(bench) };
        let stage = ExecutionStage::TRANSFER;
        refused(Method::CommandBufferExecutionBarrier, OutOfRange, |bench| {
            let flags = ExecutionBarrierFlags::empty();
            recording(bench).execution_barrier(stage, stage, flags, &[], &[barrier(bench)])
        });
        refused(Method::CommandBufferWaitEvents, OutOfRange, |bench| {
            recording(bench).wait_events(&[], stage, stage, &[], &[barrier(bench)])
        });
        refused(Method::CommandBufferDispatch, OutOfRange, |bench| {
            dispatch(bench, &Dispatch { binding: beyond(bench), ..Dispatch::of(bench) })
        });
    }
}

#[test]
fn ranges_of_operations_are_within_their_buffers() {
    for (offset, length) in BEYOND {
        refused(Method::DeviceQueueFill, OutOfRange, |bench| queue_fill(bench, &bench.buffer(), offset, length, &[1]));
        let (fits, copy) = (|bench: &Bench| bench.buffer(), Method::DeviceQueueCopy);
        refused(copy, OutOfRange, |bench| queue_copy(bench, (&fits(bench), offset), (&fits(bench), 0), length));
        refused(copy, OutOfRange, |bench| queue_copy(bench, (&fits(bench), 0), (&fits(bench), offset), length));
    }
    refused(Method::DeviceQueueUpdate, OutOfRange, |bench| queue_update(bench, &[1; 5], &bench.buffer(), 60));
    // The rest of the source is longer than the target.
    refused(Method::DeviceQueueCopy, OutOfRange, |bench| {
        queue_copy(bench, (&bench.buffer(), 4), (&bench.buffer(), 5), WHOLE_BUFFER)
    });
    accepted(|bench| queue_copy(bench, (&bench.buffer(), 5), (&bench.buffer(), 4), WHOLE_BUFFER));
    refused(Method::DeviceQueueDispatch, OutOfRange, |bench| {
        queue_dispatch(bench, &Dispatch { binding: range(&bench.buffer(), 60, 5), ..Dispatch::of(bench) })
    });
}

/// Operations that fail do so where they would: after what they wait for, and with its failure if it fails.
#[test]
fn refused_operations_fail_in_their_turn() {
    let bench = Bench::validated();
    let (wait, signal, failed, last) = (bench.timeline(), bench.timeline(), bench.timeline(), bench.timeline());
    let fill = |wait: &[Timepoint], signal: &[Timepoint]| {
        bench.device.queue_fill(ANY, wait, signal, &bench.buffer(), 60, 5, &[1], FillFlags::empty())
    };
    fill(&[point(&wait, 1)], &[point(&signal, 1)]).unwrap();
    fill(&[point(&failed, 1)], &[point(&last, 1)]).unwrap();
    assert_eq!((signal.query().unwrap(), last.query().unwrap()), (0, 0));
    wait.signal(1).unwrap();
    assert_eq!(signal.query().unwrap_err().code(), OutOfRange);
    failed.fail(vireo::Status::data_loss("gone"));
    assert_eq!(last.query().unwrap_err().to_string(), "DATA_LOSS: gone");
    // Only the caller can be told.
    assert_eq!(fill(&[], &[]).unwrap_err().code(), OutOfRange);
    let after = bench.timeline();
    fill(&[point(&failed, 1)], &[point(&after, 1)]).unwrap();
    assert_eq!(after.query().unwrap_err().to_string(), "DATA_LOSS: gone");
    assert_eq!(bench.log.count(Method::DeviceQueueFill), 0);
}

#[test]
fn virtual_ranges_are_within_their_buffers() {
    #[derive(Debug)]
    struct NoMemory;

    impl PhysicalMemory for NoMemory {}

    for (offset, size) in BEYOND {
        let allocator = |bench: &Bench| bench.device.allocator();
        refused(Method::AllocatorVirtualMemoryMap, OutOfRange, |bench| {
            let memory: Arc<dyn PhysicalMemory> = Arc::new(NoMemory);
            allocator(bench).virtual_memory_map(&bench.buffer(), offset, &memory, 0, size)
        });
        refused(Method::AllocatorVirtualMemoryUnmap, OutOfRange, |bench| {
            allocator(bench).virtual_memory_unmap(&bench.buffer(), offset, size)
        });
        refused(Method::AllocatorVirtualMemoryProtect, OutOfRange, |bench| {
            allocator(bench).virtual_memory_protect(&bench.buffer(), offset, size, ANY, MemoryProtection::READ)
        });
        refused(Method::AllocatorVirtualMemoryAdvise, OutOfRange, |bench| {
            allocator(bench).virtual_memory_advise(&bench.buffer(), offset, size, ANY, MemoryAdvice::WILL_NEED)
        });
    }
}

type Transfer = fn(&Bench, &Arc<dyn File>, u64, &Arc<dyn Buffer>, u64, u64) -> Result<()>;

const QUEUE_READ: Transfer = |bench, file, file_offset, buffer, offset, length| {
    bench.operation(|signal| {
        bench.device.queue_read(ANY, &[], signal, file, file_offset, buffer, offset, length, ReadFlags::empty())
    })
};
const QUEUE_WRITE: Transfer = |bench, file, file_offset, buffer, offset, length| {
    bench.operation(|signal| {
        bench.device.queue_write(ANY, &[], signal, buffer, offset, file, file_offset, length, WriteFlags::empty())
    })
};
const READ: Transfer = |_, file, file_offset, buffer, offset, length| file.read(file_offset, buffer, offset, length);
const WRITE: Transfer = |_, file, file_offset, buffer, offset, length| file.write(file_offset, buffer, offset, length);

#[test]
fn files_are_used_within_them_and_as_they_allow() {
    let of_queues = [(Method::DeviceQueueRead, QUEUE_READ), (Method::DeviceQueueWrite, QUEUE_WRITE)];
    let all = MemoryAccess::READ | MemoryAccess::WRITE;
    for (method, transfer) in of_queues.into_iter().chain([(Method::FileRead, READ), (Method::FileWrite, WRITE)]) {
        for (offset, length) in BEYOND {
            refused(method, OutOfRange, |bench| transfer(bench, &bench.file(all), 0, &bench.buffer(), offset, length));
        }
        accepted(|bench| transfer(bench, &bench.file(all), 4, &bench.buffer(), 8, 4));
    }
    for (method, transfer) in of_queues {
        for (offset, length) in BEYOND {
            refused(method, OutOfRange, |bench| transfer(bench, &bench.file(all), offset, &bench.buffer(), 0, length));
        }
    }
    let usage = BufferUsage::DEFAULT;
    for (method, transfer, needed, other) in [
        (Method::DeviceQueueRead, QUEUE_READ, MemoryAccess::READ, MemoryAccess::WRITE),
        (Method::DeviceQueueWrite, QUEUE_WRITE, MemoryAccess::WRITE, MemoryAccess::READ),
    ] {
        refused(method, PermissionDenied, |bench| transfer(bench, &bench.file(other), 0, &bench.buffer(), 0, 4));
        // Data that is read from a file is written to the buffer.
        refused(method, PermissionDenied, |bench| {
            transfer(bench, &bench.file(all), 0, &bench.buffer_for(usage, needed), 0, 4)
        });
    }
    refused(Method::FileRead, PermissionDenied, |bench| {
        READ(bench, &bench.file(all), 0, &bench.buffer_for(usage, MemoryAccess::READ), 0, 4)
    });
    refused(Method::FileWrite, PermissionDenied, |bench| {
        WRITE(bench, &bench.file(all), 0, &bench.buffer_for(usage, MemoryAccess::WRITE), 0, 4)
    });
}

#[test]
fn patterns_and_their_ranges_are_aligned() {
    let (recorded, queued) = (Method::CommandBufferFillBuffer, Method::DeviceQueueFill);
    for pattern in [&[][..], &[1; 3], &[1; 9]] {
        refused(recorded, InvalidArgument, |bench| fill(bench, &range(&bench.buffer(), 0, 0), pattern));
        refused(queued, InvalidArgument, |bench| queue_fill(bench, &bench.buffer(), 0, 0, pattern));
    }
    for (offset, length) in [(2, 4), (0, 6)] {
        refused(recorded, InvalidArgument, |bench| fill(bench, &range(&bench.buffer(), offset, length), &[1; 4]));
        refused(queued, InvalidArgument, |bench| queue_fill(bench, &bench.buffer(), offset, length, &[1; 4]));
    }
    accepted(|bench| fill(bench, &range(&bench.buffer(), 8, 16), &[1; 8]));
}

#[test]
fn lengths_are_what_they_must_be() {
    refused(Method::CommandBufferUpdateBuffer, OutOfRange, |bench| {
        let bytes = vec![0; MAX_UPDATE_SIZE as usize + 1];
        update(bench, &bytes, &slot(0, 0, bytes.len() as u64))
    });
    refused(Method::CommandBufferUpdateBuffer, InvalidArgument, |bench| {
        update(bench, &[0; 2], &range(&bench.buffer(), 0, 3))
    });
    refused(Method::CommandBufferCopyBuffer, InvalidArgument, |bench| {
        copy(bench, &range(&bench.buffer(), 0, 2), &range(&bench.buffer(), 0, 3))
    });
    refused(Method::CommandBufferCopyBuffer, InvalidArgument, |bench| {
        copy(bench, &range(&bench.buffer(), 62, WHOLE_BUFFER), &slot(0, 0, 3))
    });
    // How long what is bound will be is not known.
    accepted(|bench| copy(bench, &range(&bench.buffer(), 62, WHOLE_BUFFER), &slot(0, 0, WHOLE_BUFFER)));

    refused(Method::DeviceQueueHostCall, InvalidArgument, |bench| {
        let call: Arc<dyn HostCall> = Arc::new(Nothing);
        bench.operation(|signal| bench.device.queue_host_call(ANY, &[], signal, &call, &[0; 5], HostCallFlags::empty()))
    });
}

#[test]
fn buffers_are_used_as_they_allow() {
    use BufferUsage as Usage;

    // No usage of transfers, another one, and the usage without the access.
    let unfit = |usage: Usage, access: MemoryAccess| {
        let not = MemoryAccess::ALL - access;
        [(Usage::DISPATCH_STORAGE, MemoryAccess::ALL), (Usage::DEFAULT - usage, MemoryAccess::ALL), (usage, not)]
    };
    for (usage, access) in unfit(Usage::TRANSFER_TARGET, MemoryAccess::WRITE) {
        let target = |bench: &Bench| bench.buffer_for(usage, access);
        refused(Method::CommandBufferFillBuffer, PermissionDenied, |bench| fill(bench, &whole(&target(bench)), &[1]));
        refused(Method::CommandBufferUpdateBuffer, PermissionDenied, |bench| {
            update(bench, &[1; 64], &whole(&target(bench)))
        });
        refused(Method::CommandBufferCopyBuffer, PermissionDenied, |bench| {
            copy(bench, &whole(&bench.buffer()), &whole(&target(bench)))
        });
        refused(Method::DeviceQueueFill, PermissionDenied, |bench| queue_fill(bench, &target(bench), 0, 4, &[1]));
        refused(Method::DeviceQueueUpdate, PermissionDenied, |bench| queue_update(bench, &[1], &target(bench), 0));
        refused(Method::DeviceQueueCopy, PermissionDenied, |bench| {
            queue_copy(bench, (&bench.buffer(), 0), (&target(bench), 0), 4)
        });
    }
    for (usage, access) in unfit(Usage::TRANSFER_SOURCE, MemoryAccess::READ) {
        let source = |bench: &Bench| bench.buffer_for(usage, access);
        refused(Method::CommandBufferCopyBuffer, PermissionDenied, |bench| {
            copy(bench, &whole(&source(bench)), &whole(&bench.buffer()))
        });
        refused(Method::DeviceQueueCopy, PermissionDenied, |bench| {
            queue_copy(bench, (&source(bench), 0), (&bench.buffer(), 0), 4)
        });
    }
    for (method, run) in DISPATCHES {
        refused(method, PermissionDenied, |bench| {
            let buffer = bench.buffer_for(Usage::TRANSFER, MemoryAccess::ALL);
            run(bench, &Dispatch { binding: whole(&buffer), ..Dispatch::of(bench) })
        });
        accepted(|bench| {
            let buffer = bench.buffer_for(Usage::DISPATCH_STORAGE_READ, MemoryAccess::READ);
            run(bench, &Dispatch { binding: whole(&buffer), ..Dispatch::of(bench) })
        });
    }
}

/// A dispatch with one binding.
struct Dispatch {
    executable: Arc<dyn Executable>,
    function: u64,
    config: DispatchConfig,
    constants: Vec<u32>,
    binding: BufferRef,
    more: Vec<BufferRef>,
    flags: DispatchFlags,
}

type Run = fn(&Bench, &Dispatch) -> Result<()>;

/// Both ways to dispatch.
const DISPATCHES: [(Method, Run); 2] =
    [(Method::CommandBufferDispatch, dispatch), (Method::DeviceQueueDispatch, queue_dispatch)];

impl Dispatch {
    /// One that nothing is wrong with.
    fn of(bench: &Bench) -> Dispatch {
        Dispatch {
            executable: bench.executable(&bench.device),
            function: 0,
            config: DispatchConfig::default(),
            constants: vec![1, 2],
            binding: whole(&bench.buffer()),
            more: Vec::new(),
            flags: DispatchFlags::empty(),
        }
    }

    fn bindings(&self) -> Vec<BufferRef> {
        [&self.binding].into_iter().chain(&self.more).cloned().collect()
    }
}

fn dispatch(bench: &Bench, dispatch: &Dispatch) -> Result<()> {
    let Dispatch { executable, function, config, constants, flags, .. } = dispatch;
    let commands = bench.recording(CommandBufferMode::empty(), 0);
    commands.dispatch(executable, ExecutableFunction(*function), config, constants, &dispatch.bindings(), *flags)
}

fn queue_dispatch(bench: &Bench, dispatch: &Dispatch) -> Result<()> {
    let Dispatch { executable, function, config, constants, flags, .. } = dispatch;
    let (function, bindings) = (ExecutableFunction(*function), dispatch.bindings());
    bench.operation(|signal| {
        bench.device.queue_dispatch(ANY, &[], signal, executable, function, config, constants, &bindings, *flags)
    })
}

#[test]
fn dispatches_are_what_their_function_takes() {
    for (method, run) in DISPATCHES {
        accepted(|bench| run(bench, &Dispatch::of(bench)));
        refused(method, OutOfRange, |bench| run(bench, &Dispatch { function: 4, ..Dispatch::of(bench) }));
        refused(method, InvalidArgument, |bench| run(bench, &Dispatch { constants: vec![1], ..Dispatch::of(bench) }));
        refused(method, InvalidArgument, |bench| {
            run(bench, &Dispatch { more: vec![whole(&bench.buffer())], ..Dispatch::of(bench) })
        });
        // Constants that are the argument block are as many as there have to be.
        accepted(|bench| {
            let flags = DispatchFlags::CUSTOM_DIRECT_ARGUMENTS;
            run(bench, &Dispatch { constants: vec![1], flags, ..Dispatch::of(bench) })
        });
        let size = |x| DispatchConfig { workgroup_size: [x, 0, 1], ..DispatchConfig::default() };
        for (function, x, fits) in [(0, 4, true), (0, 8, false), (1, 8, true), (1, 6, false)] {
            let case = |bench: &Bench| run(bench, &Dispatch { function, config: size(x), ..Dispatch::of(bench) });
            if fits { accepted(case) } else { refused(method, InvalidArgument, case) }
        }
        // Properties that a function does not declare are not checked.
        for function in [2, 3] {
            accepted(|bench| {
                let (constants, config) = (vec![1, 2, 3], size(6));
                run(bench, &Dispatch { function, constants, config, ..Dispatch::of(bench) })
            });
        }
    }
}

#[test]
fn workgroup_counts_are_where_they_can_be_read() {
    let usage = BufferUsage::DISPATCH_INDIRECT_PARAMETERS;
    let flags = [DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS, DispatchFlags::STATIC_INDIRECT_PARAMETERS];
    for ((method, run), flags) in DISPATCHES.into_iter().flat_map(|way| flags.map(|flags| (way, flags))) {
        let counted = |bench: &Bench, usage, access, offset, length| {
            let workgroup_count_ref = range(&bench.buffer_for(usage, access), offset, length);
            let config = DispatchConfig { workgroup_count_ref, ..DispatchConfig::default() };
            run(bench, &Dispatch { config, flags, ..Dispatch::of(bench) })
        };
        accepted(|bench| counted(bench, usage, MemoryAccess::READ, 4, 12));
        refused(method, PermissionDenied, |bench| counted(bench, BufferUsage::DEFAULT, MemoryAccess::ALL, 0, 12));
        refused(method, PermissionDenied, |bench| counted(bench, usage, MemoryAccess::WRITE, 0, 12));
        refused(method, OutOfRange, |bench| counted(bench, usage, MemoryAccess::ALL, 0, 11));
        refused(method, OutOfRange, |bench| counted(bench, usage, MemoryAccess::ALL, 56, 12));
        refused(method, InvalidArgument, |bench| counted(bench, usage, MemoryAccess::ALL, 2, 12));
    }
}

#[test]
fn alignments_are_powers_of_two() {
    let params = BufferParams { min_alignment: 3, ..BufferParams::default() };
    refused(Method::AllocatorAllocateBuffer, InvalidArgument, |bench| {
        bench.device.allocator().allocate_buffer(params, 64).map(drop)
    });
    refused(Method::AllocatorImportBuffer, InvalidArgument, |bench| {
        let (data, owner) = (NonNull::dangling(), Arc::new(()));
        let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size: 0, owner };
        // SAFETY: there are no bytes.
        unsafe { bench.device.allocator().import_buffer(params, &external) }.map(drop)
    });
    refused(Method::DeviceQueueAlloca, InvalidArgument, |bench| {
        let signal = [point(&bench.timeline(), 1)];
        bench.device.queue_alloca(ANY, &[], &signal, None, params, 64, AllocaFlags::empty()).map(drop)
    });
}
