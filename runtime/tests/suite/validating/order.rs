//! What depends on earlier calls: objects of other devices, timelines, and transient buffers.

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
    // What another implementation made is not known.
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
    // What failed is for the device to say.
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
    // Whoever waits, for the allocation or for what may wait for it, may use it.
    accepted(|bench| {
        let (buffer, line, _never) = pending(bench);
        fill(bench, &[point(&line, 1)], &buffer)?;
        fill(bench, &[point(&bench.timeline(), 1)], &buffer)
    });
    accepted(|bench| {
        let line = bench.timeline();
        fill(bench, &[], &alloca(bench, &[], &[point(&line, 1)]))
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
