//! Command buffers: states, categories, groups, slots, and what executions bind.

use vireo::Result;
use vireo::StatusCode::{FailedPrecondition, InvalidArgument, OutOfRange, PermissionDenied};
use vireo::hal::ForwardedMethod as Method;
use vireo::hal::*;

use super::*;

const NONE: CommandBufferMode = CommandBufferMode::empty();
const STAGE: ExecutionStage = ExecutionStage::TRANSFER;

#[derive(Debug)]
struct Alone;

impl Channel for Alone {
    fn split(&self, _: i32, _: i32, _: ChannelFlags) -> Result<Arc<dyn Channel>> {
        Ok(Arc::new(Alone))
    }

    fn rank_and_count(&self) -> ChannelRank {
        ChannelRank { rank: 0, count: 1 }
    }
}

fn create(bench: &Bench, categories: CommandCategory) -> Arc<dyn CommandBuffer> {
    bench.device.create_command_buffer(NONE, categories, ANY, 0).unwrap()
}

fn fill(commands: &Arc<dyn CommandBuffer>, target: &BufferRef) -> Result<()> {
    commands.fill_buffer(target, &[0; 4], FillFlags::empty())
}

/// Every method that records, with arguments that are right.
type Command = fn(&Bench, &Arc<dyn CommandBuffer>) -> Result<()>;

const COMMANDS: &[(Method, Command)] = &[
    (Method::CommandBufferBeginDebugGroup, |_, commands| {
        commands.begin_debug_group("group", LabelColor::default(), &LabelLocation::default())
    }),
    (Method::CommandBufferEndDebugGroup, |_, commands| commands.end_debug_group()),
    (Method::CommandBufferExecutionBarrier, |_, commands| {
        commands.execution_barrier(STAGE, STAGE, ExecutionBarrierFlags::empty(), &[], &[])
    }),
    (Method::CommandBufferSignalEvent, |bench, commands| {
        commands.signal_event(&bench.device.create_event(ANY, EventFlags::empty())?, STAGE)
    }),
    (Method::CommandBufferResetEvent, |bench, commands| {
        commands.reset_event(&bench.device.create_event(ANY, EventFlags::empty())?, STAGE)
    }),
    (Method::CommandBufferWaitEvents, |_, commands| commands.wait_events(&[], STAGE, STAGE, &[], &[])),
    (Method::CommandBufferAdviseBuffer, |bench, commands| {
        commands.advise_buffer(&whole(&bench.buffer()), MemoryAdviseFlags::empty(), 0, 0)
    }),
    (Method::CommandBufferFillBuffer, |bench, commands| fill(commands, &whole(&bench.buffer()))),
    (Method::CommandBufferUpdateBuffer, |bench, commands| {
        commands.update_buffer(&[0; 8], &range(&bench.buffer(), 0, 8), UpdateFlags::empty())
    }),
    (Method::CommandBufferCopyBuffer, |bench, commands| {
        commands.copy_buffer(&whole(&bench.buffer()), &whole(&bench.buffer()), CopyFlags::empty())
    }),
    (Method::CommandBufferCollective, |bench, commands| {
        let channel: Arc<dyn Channel> = Arc::new(Alone);
        let op = CollectiveOp {
            kind: CollectiveKind::ALL_GATHER,
            reduction: CollectiveReduction::NONE,
            element_type: CollectiveElementType::UINT_8,
        };
        let buffer = bench.buffer();
        commands.collective(&channel, op, 0, &whole(&buffer), &whole(&buffer), 1)
    }),
    (Method::CommandBufferDispatch, |bench, commands| {
        let (executable, config) = (bench.executable(&bench.device), DispatchConfig::default());
        let bindings = [whole(&bench.buffer())];
        commands.dispatch(&executable, ExecutableFunction(0), &config, &[1, 2], &bindings, DispatchFlags::empty())
    }),
    (Method::CommandBufferFlushBuffer, |bench, commands| commands.flush_buffer(&whole(&bench.buffer()))),
    (Method::CommandBufferInvalidateBuffer, |bench, commands| commands.invalidate_buffer(&whole(&bench.buffer()))),
];

#[test]
fn commands_are_recorded_between_begin_and_end() {
    for (method, command) in COMMANDS {
        refused(*method, FailedPrecondition, |bench| command(bench, &create(bench, CommandCategory::ANY)));
        refused(*method, FailedPrecondition, |bench| {
            let commands = bench.recording(NONE, 0);
            commands.end()?;
            command(bench, &commands)
        });
        accepted(|bench| {
            let commands = bench.recording(NONE, 0);
            commands.begin_debug_group("outer", LabelColor::default(), &LabelLocation::default())?;
            command(bench, &commands)
        });
    }
    // Nothing that records is missing here.
    let not_recorded = ["mode", "allowed_categories", "queue_affinity", "binding_capacity", "begin", "end"];
    for method in Method::ALL {
        if let Some(name) = method.name().strip_prefix("command_buffer.") {
            let is_here = COMMANDS.iter().any(|(other, _)| other == method);
            assert!(is_here || not_recorded.contains(&name), "{name}");
        }
    }
}

#[test]
fn command_buffers_are_recorded_once() {
    refused(Method::CommandBufferEnd, FailedPrecondition, |bench| create(bench, CommandCategory::ANY).end());
    refused(Method::CommandBufferBegin, FailedPrecondition, |bench| bench.recording(NONE, 0).begin());
    refused(Method::CommandBufferBegin, FailedPrecondition, |bench| {
        let commands = bench.recording(NONE, 0);
        commands.end()?;
        commands.begin()
    });
    refused(Method::CommandBufferEnd, FailedPrecondition, |bench| {
        let commands = bench.recording(NONE, 0);
        commands.end()?;
        commands.end()
    });
}

#[test]
fn groups_nest() {
    let group = |commands: &Arc<dyn CommandBuffer>| {
        commands.begin_debug_group("group", LabelColor::default(), &LabelLocation::default())
    };
    refused(Method::CommandBufferEndDebugGroup, FailedPrecondition, |bench| bench.recording(NONE, 0).end_debug_group());
    refused(Method::CommandBufferEndDebugGroup, FailedPrecondition, |bench| {
        let commands = bench.recording(NONE, 0);
        group(&commands)?;
        commands.end_debug_group()?;
        commands.end_debug_group()
    });
    refused(Method::CommandBufferEnd, FailedPrecondition, |bench| {
        let commands = bench.recording(NONE, 0);
        group(&commands)?;
        commands.end()
    });
}

#[test]
fn command_buffers_hold_what_they_are_for() {
    const TRANSFERS: [Method; 3] =
        [Method::CommandBufferFillBuffer, Method::CommandBufferUpdateBuffer, Method::CommandBufferCopyBuffer];
    for (method, command) in COMMANDS {
        for categories in [CommandCategory::TRANSFER, CommandCategory::DISPATCH, CommandCategory::empty()] {
            let case = |bench: &Bench| {
                let commands = create(bench, categories);
                commands.begin()?;
                commands.begin_debug_group("group", LabelColor::default(), &LabelLocation::default())?;
                command(bench, &commands)
            };
            let needed = match method {
                Method::CommandBufferDispatch => CommandCategory::DISPATCH,
                method if TRANSFERS.contains(method) => CommandCategory::TRANSFER,
                _ => CommandCategory::empty(),
            };
            if categories.contains(needed) { accepted(case) } else { refused(*method, FailedPrecondition, case) }
        }
    }
    refused(Method::DeviceCreateCommandBuffer, InvalidArgument, |bench| {
        let mode = CommandBufferMode::ALLOW_INLINE_EXECUTION;
        bench.device.create_command_buffer(mode, CommandCategory::ANY, ANY, 1).map(drop)
    });
}

/// These are no operations, so they have no timelines that could fail.
#[test]
fn what_is_not_recorded_is_not_submitted() {
    let submit = |bench: &Bench, commands: &Arc<dyn CommandBuffer>, queue_affinity| {
        let signal = [point(&bench.timeline(), 1)];
        bench.device.queue_execute(queue_affinity, &[], &signal, commands, &[], ExecuteFlags::empty())
    };
    let execute = Method::DeviceQueueExecute;
    refused(execute, FailedPrecondition, |bench| submit(bench, &create(bench, CommandCategory::ANY), ANY));
    refused(execute, FailedPrecondition, |bench| submit(bench, &bench.recording(NONE, 0), ANY));
    refused(execute, FailedPrecondition, |bench| {
        let commands = bench.recording(CommandBufferMode::ONE_SHOT, 0);
        commands.end()?;
        submit(bench, &commands, ANY)?;
        submit(bench, &commands, ANY)
    });
    accepted(|bench| {
        let commands = bench.recording(NONE, 0);
        commands.end()?;
        submit(bench, &commands, ANY)?;
        submit(bench, &commands, ANY)
    });
    let (first, second) = (QueueAffinity::from_bits_retain(1), QueueAffinity::from_bits_retain(2));
    let on = |bench: &Bench, queues| {
        let commands = bench.device.create_command_buffer(NONE, CommandCategory::ANY, queues, 0).unwrap();
        commands.begin().and_then(|()| commands.end()).unwrap();
        commands
    };
    refused(execute, InvalidArgument, |bench| submit(bench, &on(bench, first), second));
    accepted(|bench| submit(bench, &on(bench, first), first));
    // A call without a queue leaves the choice to the device.
    accepted(|bench| submit(bench, &on(bench, first), QueueAffinity::empty()));
    accepted(|bench| submit(bench, &on(bench, QueueAffinity::empty()), second));
}

/// Commands over the slots 0 and 1.
fn recorded(bench: &Bench) -> Arc<dyn CommandBuffer> {
    let commands = bench.recording(NONE, 2);
    fill(&commands, &slot(0, 4, 8)).unwrap();
    commands.copy_buffer(&slot(0, 0, 16), &slot(1, 8, 16), CopyFlags::empty()).unwrap();
    commands.end().unwrap();
    commands
}

#[test]
fn slots_are_bound_to_what_commands_need() {
    let execute = Method::DeviceQueueExecute;
    let with = |bench: &Bench, table: &[BufferBinding]| bench.execute(&recorded(bench), table);
    accepted(|bench| {
        let buffer = bench.buffer();
        with(bench, &[bound(&buffer, 4, 16), bound(&buffer, 40, WHOLE_BUFFER)])
    });
    refused(execute, InvalidArgument, |bench| {
        let (commands, table) = (recorded(bench), [bound(&bench.buffer(), 0, 16)]);
        let signal = [point(&bench.timeline(), 1)];
        bench.device.queue_execute(ANY, &[], &signal, &commands, &table, ExecuteFlags::empty())
    });
    refused(execute, FailedPrecondition, |bench| {
        let none = BufferBinding { buffer: None, offset: 0, length: WHOLE_BUFFER };
        with(bench, &[bound(&bench.buffer(), 0, 16), none])
    });
    // The binding is not in the buffer, or the range not in the binding.
    for (offset, length) in [(0, 65), (60, 20), (60, 5), (u64::MAX, 1), (0, 15), (52, WHOLE_BUFFER)] {
        refused(execute, OutOfRange, |bench| {
            let buffer = bench.buffer();
            with(bench, &[bound(&buffer, offset, length), bound(&buffer, 0, 64)])
        });
    }
    // Patterns of four bytes are at multiples of four in the buffer.
    refused(execute, InvalidArgument, |bench| {
        let buffer = bench.buffer();
        with(bench, &[bound(&buffer, 2, 16), bound(&buffer, 0, 64)])
    });
    refused(execute, InvalidArgument, |bench| {
        let commands = bench.recording(NONE, 1);
        fill(&commands, &slot(0, 0, WHOLE_BUFFER))?;
        commands.end()?;
        bench.execute(&commands, &[bound(&bench.buffer(), 0, 6)])
    });
    // Commands that are executed once are checked as others are.
    refused(execute, OutOfRange, |bench| {
        let commands = bench.recording(CommandBufferMode::ONE_SHOT, 1);
        fill(&commands, &slot(0, 0, 8))?;
        commands.end()?;
        bench.execute(&commands, &[bound(&bench.buffer(), 60, WHOLE_BUFFER)])
    });
    let unfit = [
        (BufferUsage::TRANSFER_SOURCE, MemoryAccess::ALL),
        (BufferUsage::TRANSFER_TARGET, MemoryAccess::ALL),
        (BufferUsage::TRANSFER, MemoryAccess::READ),
    ];
    for (usage, access) in unfit {
        refused(execute, PermissionDenied, |bench| {
            with(bench, &[bound(&bench.buffer_for(usage, access), 0, 16), bound(&bench.buffer(), 0, 64)])
        });
    }
}

#[test]
fn commands_refer_to_slots_that_there_are() {
    refused(Method::CommandBufferFillBuffer, OutOfRange, |bench| fill(&bench.recording(NONE, 2), &slot(2, 0, 4)));
    refused(Method::CommandBufferAdviseBuffer, OutOfRange, |bench| {
        bench.recording(NONE, 0).advise_buffer(&slot(0, 0, 4), MemoryAdviseFlags::empty(), 0, 0)
    });
    // Without a command buffer there are none.
    refused(Method::DeviceQueueDispatch, OutOfRange, |bench| {
        let (executable, config) = (bench.executable(&bench.device), DispatchConfig::default());
        bench.operation(|signal| {
            let (function, flags) = (ExecutableFunction(0), DispatchFlags::empty());
            let bindings = [slot(0, 0, 4)];
            bench.device.queue_dispatch(ANY, &[], signal, &executable, function, &config, &[1, 2], &bindings, flags)
        })
    });
}
