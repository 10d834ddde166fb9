//! Collective operations of local devices: command buffers of all ranks of a group, run on one thread by `local-sync`
//! and by the workers of `local-task`. Elements are compared with the scalar reference of the tests of
//! `vireo-collectives`.

mod groups;
#[path = "../../../collectives/tests/suite/random.rs"]
mod random;
mod rank;
#[path = "../../../collectives/tests/suite/reference.rs"]
mod reference;
mod scenario;

use std::sync::Arc;

use vireo_core::status::{Status, StatusCode};
use vireo_hal::{
    BufferBinding, BufferUsage, ChannelFlags, ChannelParams, ChannelRank, CollectiveElementType, CollectiveKind,
    CollectiveReduction, ExecuteFlags, QueueAffinity, WHOLE_BUFFER, require_usage,
};

use groups::ranks;
use random::Random;
use rank::{ANY, Collective, Rank, buffer, contents, timeline};
use reference::TYPES;
use scenario::{NONE, kinds, run};

/// The drivers, and how many devices the ranks are on.
const DRIVERS: [&str; 3] =
    ["local-sync", "local-task://?task_topology_group_count=1", "local-task://?task_topology_group_count=3"];

#[test]
fn all_kinds_types_and_reductions() {
    for (driver, seed) in DRIVERS.into_iter().zip(21..) {
        for count in [2, 3, 8] {
            let (ranks, mut random) = (ranks(&[driver], "kinds", count), Random::new(seed));
            for kind in kinds() {
                TYPES.into_iter().for_each(|element_type| run(&ranks, &mut random, kind, element_type));
            }
        }
    }
}

#[test]
fn ranks_of_different_devices() {
    let ranks = ranks(&["local-sync", DRIVERS[1], "local-sync", "null"], "devices", 6);
    let mut random = Random::new(31);
    for kind in kinds() {
        run(&ranks, &mut random, kind, CollectiveElementType::FLOAT_16);
    }
}

/// The sum of one number of each rank.
const SUM: Collective = Collective {
    kind: CollectiveKind::ALL_REDUCE,
    reduction: CollectiveReduction::SUM,
    element_type: CollectiveElementType::UINT_32,
    param: 0,
    element_count: 1,
};

#[test]
fn a_command_buffer_runs_again_and_chains_need_no_stack() {
    const ROUNDS: u32 = 3000;
    for driver in DRIVERS {
        let ranks = ranks(&[driver], "chains", 3);
        let start = timeline();
        let wait = [rank::at(&start, 1)];
        let mut ends = Vec::new();
        for rank in &ranks {
            let total = rank.buffer(&1_u32.to_le_bytes());
            let commands = rank.commands(1, |commands| rank.collective(commands, &SUM, (0, 4), (0, 4)));
            let table = [BufferBinding { buffer: Some(total.clone()), offset: 0, length: WHOLE_BUFFER }];
            let mut before = wait.to_vec();
            for _ in 0..ROUNDS {
                before = vec![rank.execute(&before, &commands, &table)];
            }
            ends.push((before.remove(0), total));
        }
        start.signal(1).unwrap();
        for (end, total) in ends {
            end.semaphore.wait(end.value, None).unwrap();
            let expected = 3_u32.wrapping_pow(ROUNDS);
            assert_eq!(contents(&total), expected.to_le_bytes(), "{driver}");
        }
    }
}

#[test]
fn submissions_order_the_rounds_of_a_channel() {
    for driver in DRIVERS {
        let ranks = ranks(&[driver], "order", 2);
        let gate = timeline();
        let mut ends = Vec::new();
        for (rank, number) in ranks.iter().zip([1_u32, 10]) {
            let [first, second] = [number, 100 * number].map(|number| rank.buffer(&number.to_le_bytes()));
            let commands = rank.commands(1, |commands| rank.collective(commands, &SUM, (0, 4), (0, 4)));
            for (buffer, waits) in [(first, number == 1), (second, number != 1)] {
                let table = [BufferBinding { buffer: Some(buffer.clone()), offset: 0, length: WHOLE_BUFFER }];
                let wait = if waits { vec![rank::at(&gate, 1)] } else { Vec::new() };
                ends.push((rank.execute(&wait, &commands, &table), buffer));
            }
        }
        gate.signal(1).unwrap();
        for ((end, buffer), expected) in ends.iter().zip([11_u32, 1100, 11, 1100]) {
            end.semaphore.wait(end.value, None).unwrap();
            assert_eq!(contents(buffer), expected.to_le_bytes(), "{driver}");
        }
    }
}

#[test]
fn two_channels_between_barriers() {
    let ranks = ranks(&["local-sync"], "two channels", 2);
    let others: Vec<_> = ranks.iter().map(|rank| rank.channel.split(0, 0, ChannelFlags::empty()).unwrap()).collect();
    let mut ends = Vec::new();
    for (rank, other) in ranks.iter().zip(&others) {
        let [first, second] = [3_u32, 5].map(|number| rank.buffer(&number.to_le_bytes()));
        let commands = rank.commands(2, |commands| {
            rank.collective(commands, &SUM, (0, 4), (0, 4));
            let second = rank::slot(1, 4);
            commands.collective(other, SUM.op(), 0, &second, &second, 1).unwrap();
        });
        let table = [&first, &second].map(|buffer| BufferBinding {
            buffer: Some(buffer.clone()),
            offset: 0,
            length: WHOLE_BUFFER,
        });
        ends.push((rank.execute(&[], &commands, &table), first, second));
    }
    for (end, first, second) in ends {
        end.semaphore.wait(end.value, None).unwrap();
        assert_eq!([contents(&first), contents(&second)], [6_u32.to_le_bytes(), 10_u32.to_le_bytes()]);
    }
}

/// Executes the sum at two ranks, the first of which waits for a timeline that fails.
#[test]
fn a_failure_before_fails_all_ranks() {
    for driver in DRIVERS {
        let ranks = ranks(&[driver], "fails", 2);
        let gate = timeline();
        let mut ends = Vec::new();
        for (rank, waits) in ranks.iter().zip([true, false]) {
            let number = rank.buffer(&[0; 4]);
            let commands = rank.commands(1, |commands| {
                rank.barrier(commands);
                rank.collective(commands, &SUM, (0, 4), (0, 4));
            });
            let table = [BufferBinding { buffer: Some(number), offset: 0, length: WHOLE_BUFFER }];
            let wait = if waits { vec![rank::at(&gate, 1)] } else { Vec::new() };
            ends.push(rank.execute(&wait, &commands, &table));
        }
        gate.fail(Status::new(StatusCode::DataLoss, "the input is gone"));
        let failures: Vec<Status> =
            ends.iter().map(|end| end.semaphore.wait(end.value, None).expect_err("a failure")).collect();
        assert_eq!(failures[0].to_string(), "DATA_LOSS: the input is gone", "{driver}");
        assert_eq!(failures[1].to_string(), "DATA_LOSS: rank 0 cannot take part: the input is gone", "{driver}");
    }
}

#[test]
fn mistakes_in_bindings_fail_all_ranks() {
    for driver in DRIVERS {
        let ranks = ranks(&[driver], "bindings", 2);
        let run = |tables: [BufferBinding; 2]| {
            let mut ends = Vec::new();
            for (rank, binding) in ranks.iter().zip(tables) {
                let commands = rank.commands(1, |commands| rank.collective(commands, &SUM, (0, 4), (0, 4)));
                ends.push(rank.execute(&[], &commands, &[binding]));
            }
            let failure = |end: &vireo_hal::Timepoint| {
                end.semaphore.wait(end.value, None).expect_err("a failure").message().to_string()
            };
            ends.iter().map(failure).collect::<Vec<_>>()
        };
        let binding = |length: usize| BufferBinding {
            buffer: Some(ranks[0].buffer(&vec![0; length])),
            offset: 0,
            length: WHOLE_BUFFER,
        };
        let messages = run([binding(4), binding(2)]);
        let all = "all_reduce sum of 1 uint_32";
        assert!(messages[0].starts_with(&format!("rank 1 cannot take part: {all}: range at offset 0")), "{messages:?}");
        assert!(messages[1].starts_with(&format!("{all}: range at offset 0 of length 4")), "{messages:?}");
        let messages = run([BufferBinding { buffer: None, offset: 0, length: 4 }, binding(4)]);
        assert_eq!(messages[1], format!("rank 0 cannot take part: {all}: slot 0 of the binding table is null"));
    }
}

#[test]
fn refused_while_it_is_recorded() {
    let ranks = ranks(&["local-sync"], "refused", 1);
    let rank = &ranks[0];
    let number = rank.buffer(&[0; 4]);
    let commands = rank.begin(1);
    let whole = rank::whole(&number);
    let record = |op, range: &vireo_hal::BufferRef| {
        commands.collective(&rank.channel, op, 0, range, range, 1).expect_err("a failure").to_string()
    };
    let mut op = SUM.op();
    assert_eq!(record(op, &rank::slot(1, 4)), "OUT_OF_RANGE: slot 1: the command buffer has 1");
    op.reduction = NONE;
    assert!(record(op, &whole).contains("all_reduce with reduction none: expected one that reduces"));
    op.kind = CollectiveKind(77);
    assert!(record(op, &whole).contains("there is no collective operation 77"));
    commands.end().unwrap();
    assert!(record(SUM.op(), &whole).contains("cannot record into a command buffer that is recorded already"));
    require_usage(&*number, BufferUsage::TRANSFER_SOURCE).unwrap();
}

#[test]
fn ranks_that_disagree_and_devices_that_go() {
    let mut ranks = ranks(&["local-sync"], "disagree", 2);
    let execute = |rank: &Rank, collective: &Collective| {
        let number = rank.buffer(&[0; 8]);
        let commands = rank.commands(1, |commands| rank.collective(commands, collective, (0, 8), (0, 8)));
        let table = [BufferBinding { buffer: Some(number), offset: 0, length: WHOLE_BUFFER }];
        rank.execute(&[], &commands, &table)
    };
    let message = |end: &vireo_hal::Timepoint| end.semaphore.wait(end.value, None).expect_err("a failure").to_string();
    let ends = [execute(&ranks[0], &SUM), execute(&ranks[1], &Collective { element_count: 2, ..SUM })];
    for end in &ends {
        assert_eq!(
            message(end),
            "FAILED_PRECONDITION: the ranks disagree: rank 0 runs all_reduce sum of 1 uint_32, rank 1 runs all_reduce \
             sum of 2 uint_32 (element counts 1 and 2)"
        );
    }
    let end = execute(&ranks[0], &SUM);
    drop(ranks.pop());
    assert_eq!(message(&end), "ABORTED: rank 1 of 2 ranks has left the group");
}

#[test]
fn channels_of_a_device() {
    let rank = ranks(&["local-sync"], "channels", 1).remove(0);
    let params = |rank, count| ChannelParams { rank, count, ..ChannelParams::default() };
    let channel = rank.device.create_channel(ANY, &params(2, 5)).unwrap();
    assert_eq!(channel.rank_and_count(), ChannelRank { rank: 2, count: 5 });
    let failure = rank.device.create_channel(QueueAffinity::ANY, &params(-1, -1)).expect_err("a failure");
    assert_eq!(failure.code(), StatusCode::FailedPrecondition);
    for method in ["device.create_channel", "device.replace_channel_provider", "command_buffer.collective"] {
        assert!(rank.device.supports(method), "{method}");
    }
    // Without points a failure that comes later goes nowhere, and the ranks still run.
    let ranks = ranks(&["local-sync"], "no points", 2);
    let totals: Vec<_> = ranks.iter().map(|rank| rank.buffer(&7_u32.to_le_bytes())).collect();
    for (rank, total) in ranks.iter().zip(&totals) {
        let commands = rank.commands(1, |commands| rank.collective(commands, &SUM, (0, 4), (0, 4)));
        let table = [BufferBinding { buffer: Some(total.clone()), offset: 0, length: WHOLE_BUFFER }];
        rank.device.queue_execute(ANY, &[], &[], &commands, &table, ExecuteFlags::empty()).unwrap();
    }
    assert!(totals.iter().all(|total| contents(total) == 14_u32.to_le_bytes()));
    let _of_the_device: Arc<dyn vireo_hal::Buffer> = buffer(&*rank.device, &[]);
}
