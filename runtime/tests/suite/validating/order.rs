//! Rules that depend on earlier calls: objects of other devices, timelines, and transient buffers.

use vireo::Result;
use vireo::StatusCode::{FailedPrecondition, InvalidArgument};
use vireo::hal::ForwardedMethod as Method;
use vireo::hal::*;

use super::*;

#[test]
fn objects_are_those_of_the_device() {
    let of_other = |bench: &Bench| {
        let mode = CommandBufferMode::empty();
        let commands = bench.other.create_command_buffer(mode, CommandCategory::ANY, ANY, 0).unwrap();
        commands.begin().and_then(|()| commands.end()).unwrap();
        commands
    };
    refused(Method::DeviceQueueExecute, InvalidArgument, |bench| bench.execute(&of_other(bench), &[]));
    let config = DispatchConfig::default();
    let (function, flags) = (ExecutableFunction(0), DispatchFlags::empty());
    refused(Method::CommandBufferDispatch, InvalidArgument, |bench| {
        let (executable, bindings) = (bench.executable(&bench.other), [whole(&bench.buffer())]);
        let commands = bench.recording(CommandBufferMode::empty(), 0);
        commands.dispatch(&executable, function, &config, &[1, 2], &bindings, flags)
    });
    refused(Method::DeviceQueueDispatch, InvalidArgument, |bench| {
        let (executable, bindings) = (bench.executable(&bench.other), [whole(&bench.buffer())]);
        bench.operation(|signal| {
            bench.device.queue_dispatch(ANY, &[], signal, &executable, function, &config, &[1, 2], &bindings, flags)
        })
    });
    type Use = fn(&dyn CommandBuffer, &Arc<dyn Event>) -> Result<()>;
    const STAGE: ExecutionStage = ExecutionStage::TRANSFER;
    let uses: [(Method, Use); 3] = [
        (Method::CommandBufferSignalEvent, |commands, event| commands.signal_event(event, STAGE)),
        (Method::CommandBufferResetEvent, |commands, event| commands.reset_event(event, STAGE)),
        (Method::CommandBufferWaitEvents, |commands, event| {
            commands.wait_events(std::slice::from_ref(event), STAGE, STAGE, &[], &[])
        }),
    ];
    for (method, use_event) in uses {
        let with = |bench: &Bench, device: &Arc<dyn Device>| {
            // Events that are gone are forgotten, and no other one is taken for them.
            for _ in 0..200 {
                bench.device.create_event(ANY, EventFlags::empty())?;
            }
            let event = device.create_event(ANY, EventFlags::empty())?;
            use_event(&*bench.recording(CommandBufferMode::empty(), 0), &event)
        };
        refused(method, InvalidArgument, |bench| with(bench, &bench.other));
        accepted(|bench| with(bench, &bench.device));
    }
    // An object of another implementation is not known.
    accepted(|bench| {
        let executable = bench.executable(&careless(&Log::default()));
        let bindings = [whole(&bench.buffer())];
        let commands = bench.recording(CommandBufferMode::empty(), 0);
        commands.dispatch(&executable, function, &config, &[1, 2], &bindings, flags)
    });
}

#[test]
fn timelines_advance() {
    let signal = |bench: &Bench, value| {
        let line = bench.timeline();
        line.signal(5)?;
        line.signal(value)
    };
    for value in [0, 4, 5, SEMAPHORE_MAX_VALUE + 1, u64::MAX] {
        refused(Method::SemaphoreSignal, InvalidArgument, |bench| signal(bench, value));
    }
    accepted(|bench| signal(bench, 6));
    accepted(|bench| signal(bench, SEMAPHORE_MAX_VALUE));
}

type Operation = fn(&Bench, &[Timepoint], &[Timepoint]) -> Result<()>;

/// Every operation, with arguments that are right.
const OPERATIONS: &[(Method, Operation)] = &[
    (Method::DeviceQueueAlloca, |bench, wait, signal| {
        let params = BufferParams::default();
        bench.device.queue_alloca(ANY, wait, signal, None, params, 64, AllocaFlags::empty()).map(drop)
    }),
    (Method::DeviceQueueDealloca, |bench, wait, signal| dealloca(bench, wait, signal, &bench.buffer())),
    (Method::DeviceQueueFill, |bench, wait, signal| {
        bench.device.queue_fill(ANY, wait, signal, &bench.buffer(), 0, 4, &[1], FillFlags::empty())
    }),
    (Method::DeviceQueueUpdate, |bench, wait, signal| {
        bench.device.queue_update(ANY, wait, signal, &[1], &bench.buffer(), 0, UpdateFlags::empty())
    }),
    (Method::DeviceQueueCopy, |bench, wait, signal| {
        let (source, target) = (bench.buffer(), bench.buffer());
        bench.device.queue_copy(ANY, wait, signal, &source, 0, &target, 0, 4, CopyFlags::empty())
    }),
    (Method::DeviceQueueRead, |bench, wait, signal| {
        let (file, buffer) = (bench.file(MemoryAccess::READ), bench.buffer());
        bench.device.queue_read(ANY, wait, signal, &file, 0, &buffer, 0, 4, ReadFlags::empty())
    }),
    (Method::DeviceQueueWrite, |bench, wait, signal| {
        let (file, buffer) = (bench.file(MemoryAccess::WRITE), bench.buffer());
        bench.device.queue_write(ANY, wait, signal, &buffer, 0, &file, 0, 4, WriteFlags::empty())
    }),
    (Method::DeviceQueueHostCall, |bench, wait, signal| {
        let call: Arc<dyn HostCall> = Arc::new(Nothing);
        bench.device.queue_host_call(ANY, wait, signal, &call, &[], HostCallFlags::empty())
    }),
    (Method::DeviceQueueDispatch, |bench, wait, signal| {
        let (executable, config) = (bench.executable(&bench.device), DispatchConfig::default());
        let (function, bindings, flags) = (ExecutableFunction(0), [whole(&bench.buffer())], DispatchFlags::empty());
        bench.device.queue_dispatch(ANY, wait, signal, &executable, function, &config, &[1, 2], &bindings, flags)
    }),
    (Method::DeviceQueueExecute, |bench, wait, signal| {
        let commands = bench.recording(CommandBufferMode::empty(), 0);
        commands.end()?;
        bench.device.queue_execute(ANY, wait, signal, &commands, &[], ExecuteFlags::empty())
    }),
    (Method::DeviceQueueBarrier, |bench, wait, signal| {
        bench.device.queue_barrier(ANY, wait, signal, ExecuteFlags::empty())
    }),
];

#[test]
fn points_of_every_operation_are_checked() {
    for (method, operation) in OPERATIONS {
        let signal = |bench: &Bench, value| {
            let line = bench.timeline();
            line.signal(5)?;
            operation(bench, &[], &[point(&line, value)])
        };
        refused(*method, InvalidArgument, |bench| signal(bench, 5));
        accepted(|bench| signal(bench, 6));
    }
    // Nothing that signals is missing here.
    for method in Method::ALL.iter().filter(|method| method.name().starts_with("device.queue_")) {
        let is_here = OPERATIONS.iter().any(|(other, _)| other == method);
        let is_none = matches!(method, Method::DeviceQueuePoolBackend | Method::DeviceQueueFlush);
        assert!(is_here || is_none, "{}", method.name());
    }
}

#[test]
fn operations_signal_what_is_to_come() {
    let barrier = |bench: &Bench, line: &Arc<dyn Semaphore>, wait: &[u64], signal: &[u64]| {
        let points = |values: &[u64]| values.iter().map(|value| point(line, *value)).collect::<Vec<_>>();
        bench.device.queue_barrier(ANY, &points(wait), &points(signal), ExecuteFlags::empty())
    };
    let at_five = |bench: &Bench| {
        let line = bench.timeline();
        line.signal(5).unwrap();
        line
    };
    let method = Method::DeviceQueueBarrier;
    refused(method, InvalidArgument, |bench| barrier(bench, &at_five(bench), &[], &[5]));
    refused(method, InvalidArgument, |bench| barrier(bench, &at_five(bench), &[], &[SEMAPHORE_MAX_VALUE + 1]));
    refused(method, InvalidArgument, |bench| barrier(bench, &at_five(bench), &[7], &[7]));
    refused(method, InvalidArgument, |bench| barrier(bench, &at_five(bench), &[], &[7, 6]));
    accepted(|bench| barrier(bench, &at_five(bench), &[6], &[7, 8]));
    // Refused operations change no timeline.
    let bench = Bench::validated();
    let line = at_five(&bench);
    assert!(barrier(&bench, &line, &[], &[3]).is_err());
    assert_eq!(line.query().unwrap(), 5);
    // The device tells the failure of a timeline.
    line.fail(vireo::Status::data_loss("gone"));
    barrier(&bench, &line, &[], &[9]).unwrap();
}

/// A transient buffer whose allocation signals `line` at 1, and waits for `wait`.
fn alloca(bench: &Bench, wait: &[Timepoint], signal: &[Timepoint]) -> Arc<dyn Buffer> {
    let flags = AllocaFlags::empty();
    bench.device.queue_alloca(ANY, wait, signal, None, BufferParams::default(), 64, flags).unwrap()
}

fn dealloca(bench: &Bench, wait: &[Timepoint], signal: &[Timepoint], buffer: &Arc<dyn Buffer>) -> Result<()> {
    bench.device.queue_dealloca(ANY, wait, signal, buffer, DeallocaFlags::empty())
}

fn fill(bench: &Bench, wait: &[Timepoint], buffer: &Arc<dyn Buffer>) -> Result<()> {
    bench.operation(|signal| bench.device.queue_fill(ANY, wait, signal, buffer, 0, 4, &[1], FillFlags::empty()))
}

#[test]
fn transient_buffers_are_used_after_their_allocation() {
    let pending = |bench: &Bench| {
        let (never, line) = (bench.timeline(), bench.timeline());
        let buffer = alloca(bench, &[point(&never, 1)], &[point(&line, 1)]);
        // Points are there as long as somebody has their timeline.
        (buffer, line, never)
    };
    refused(Method::DeviceQueueFill, FailedPrecondition, |bench| fill(bench, &[], &pending(bench).0));
    refused(Method::DeviceQueueFill, FailedPrecondition, |bench| {
        let (buffer, _line, _never) = pending(bench);
        fill(bench, &[], &subspan(&buffer, 0, 8)?)
    });
    refused(Method::DeviceQueueExecute, FailedPrecondition, |bench| {
        let (buffer, _line, _never) = pending(bench);
        let commands = bench.recording(CommandBufferMode::empty(), 0);
        commands.fill_buffer(&whole(&buffer), &[1], FillFlags::empty())?;
        commands.end()?;
        bench.execute(&commands, &[])
    });
    refused(Method::DeviceQueueExecute, FailedPrecondition, |bench| {
        let (buffer, _line, _never) = pending(bench);
        let commands = bench.recording(CommandBufferMode::empty(), 1);
        commands.fill_buffer(&slot(0, 0, 4), &[1], FillFlags::empty())?;
        commands.end()?;
        bench.execute(&commands, &[bound(&buffer, 0, 64)])
    });
    // An operation that waits, for the allocation or for one that may wait for it, may use it.
    accepted(|bench| {
        let (buffer, line, _never) = pending(bench);
        fill(bench, &[point(&line, 1)], &buffer)?;
        fill(bench, &[point(&bench.timeline(), 1)], &buffer)
    });
    accepted(|bench| {
        let line = bench.timeline();
        fill(bench, &[], &alloca(bench, &[], &[point(&line, 1)]))
    });
    // Without a point it is unknown when it has memory, nor after its timeline failed or is gone.
    accepted(|bench| fill(bench, &[], &alloca(bench, &[], &[])));
    accepted(|bench| {
        let (buffer, line, _never) = pending(bench);
        line.fail(vireo::Status::data_loss("gone"));
        fill(bench, &[], &buffer)
    });
    accepted(|bench| {
        let (buffer, ..) = pending(bench);
        fill(bench, &[], &buffer)
    });
}

#[test]
fn transient_buffers_are_used_before_their_deallocation() {
    let returned = |bench: &Bench| {
        let line = bench.timeline();
        let buffer = alloca(bench, &[], &[point(&line, 1)]);
        dealloca(bench, &[], &[point(&line, 2)], &buffer).unwrap();
        (buffer, line)
    };
    refused(Method::DeviceQueueFill, FailedPrecondition, |bench| {
        let (buffer, _line) = returned(bench);
        fill(bench, &[], &buffer)
    });
    refused(Method::DeviceQueueDealloca, FailedPrecondition, |bench| {
        let (buffer, _line) = returned(bench);
        bench.operation(|signal| dealloca(bench, &[], signal, &buffer))
    });
    // A second deallocation, which is refused, does not undo the first one.
    refused(Method::DeviceQueueFill, FailedPrecondition, |bench| {
        let (buffer, _line) = returned(bench);
        let (never, other) = (bench.timeline(), bench.timeline());
        dealloca(bench, &[point(&never, 1)], &[point(&other, 1)], &buffer)?;
        fill(bench, &[], &buffer)
    });
    // Nothing can be ordered before a deallocation that nothing is known of.
    refused(Method::DeviceQueueFill, FailedPrecondition, |bench| {
        let buffer = alloca(bench, &[], &[]);
        dealloca(bench, &[], &[], &buffer)?;
        fill(bench, &[], &buffer)
    });
    // As long as it has not happened, others may come before it.
    accepted(|bench| {
        let (never, line) = (bench.timeline(), bench.timeline());
        let buffer = alloca(bench, &[], &[point(&line, 1)]);
        dealloca(bench, &[point(&never, 1)], &[point(&line, 2)], &buffer)?;
        fill(bench, &[], &buffer)
    });
    accepted(|bench| {
        let (never, line) = (bench.timeline(), bench.timeline());
        let buffer = alloca(bench, &[], &[point(&line, 1)]);
        dealloca(bench, &[point(&never, 1)], &[], &buffer)?;
        fill(bench, &[], &buffer)
    });
    // Buffers that queues did not reserve live on.
    accepted(|bench| {
        let (buffer, line) = (bench.buffer(), bench.timeline());
        dealloca(bench, &[], &[point(&line, 1)], &buffer)?;
        fill(bench, &[], &buffer)
    });
}
