//! Collective operations of `cuda` devices: command buffers of all ranks of a group, over the software driver and NCCL
//! in software. The ranks are on one thread. Elements are compared with the scalar reference of the tests of
//! `vireo-collectives`, by the scenario of the tests of local devices.

mod failures;
mod groups;
mod processes;
#[path = "../../../../../collectives/tests/suite/random.rs"]
mod random;
#[path = "../../../../../local/tests/collectives/rank.rs"]
mod rank;
#[path = "../../../../../collectives/tests/suite/reference.rs"]
mod reference;
#[path = "../../../../../local/tests/collectives/scenario.rs"]
mod scenario;

use std::sync::{Arc, Mutex};

use vireo_hal::{
    BufferBinding, ChannelFlags, ChannelParams, ChannelProvider, ChannelRank, CollectiveElementType, CollectiveKind,
    CollectiveReduction, Timepoint, UpdateFlags, WHOLE_BUFFER,
};

use groups::{options, ranks};
use random::Random;
use rank::{Collective, Rank, contents};
use reference::TYPES;
use scenario::{NONE, kinds, run};

/// Whether NCCL has the operation.
fn has(reduction: CollectiveReduction, element_type: CollectiveElementType) -> bool {
    let is_short = matches!(element_type, CollectiveElementType::SINT_16 | CollectiveElementType::UINT_16);
    reduction == NONE || !is_short
}

#[test]
fn all_kinds_types_and_reductions() {
    for (count, seed) in [(1, 51), (2, 52), (3, 53), (8, 54)] {
        let (ranks, mut random) = (ranks("kinds", count), Random::new(seed));
        for (kind, reduction) in kinds() {
            for element_type in TYPES.into_iter().filter(|element_type| has(reduction, *element_type)) {
                run(&ranks, &mut random, (kind, reduction), element_type);
            }
        }
    }
}

/// The sum of one number of each rank.
pub const SUM: Collective = Collective {
    kind: CollectiveKind::ALL_REDUCE,
    reduction: CollectiveReduction::SUM,
    element_type: CollectiveElementType::UINT_32,
    param: 0,
    element_count: 1,
};

/// A binding of all of a buffer.
pub fn binding(buffer: &Arc<dyn vireo_hal::Buffer>) -> BufferBinding {
    BufferBinding { buffer: Some(buffer.clone()), offset: 0, length: WHOLE_BUFFER }
}

/// Executes a sum in place at a rank.
pub fn execute_sum(rank: &Rank, wait: &[Timepoint], buffer: &Arc<dyn vireo_hal::Buffer>) -> Timepoint {
    let commands = rank.commands(1, |commands| rank.collective(commands, &SUM, (0, 4), (0, 4)));
    rank.execute(wait, &commands, &[binding(buffer)])
}

/// Waits for a point, at most as long as tests have patience.
pub fn wait(point: &Timepoint) -> vireo_core::status::Result<()> {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(120);
    point.semaphore.wait(point.value, Some(patience))
}

#[test]
fn a_command_buffer_with_several_rounds_runs_again() {
    const TIMES: u32 = 40;
    let ranks = ranks("again", 3);
    let mut ends = Vec::new();
    for rank in &ranks {
        let total = rank.buffer(&1_u32.to_le_bytes());
        let commands = rank.commands(1, |commands| {
            rank.collective(commands, &SUM, (0, 4), (0, 4));
            rank.barrier(commands);
            rank.collective(commands, &SUM, (0, 4), (0, 4));
        });
        let mut before = Vec::new();
        for _ in 0..TIMES {
            before = vec![rank.execute(&before, &commands, &[binding(&total)])];
        }
        ends.push((before.remove(0), total));
    }
    for (end, total) in ends {
        wait(&end).expect("it runs");
        assert_eq!(contents(&total), 3_u32.wrapping_pow(2 * TIMES).to_le_bytes());
    }
}

#[test]
fn groups_are_split_and_two_channels_are_one_group_of_calls() {
    let ranks = ranks("split", 4);
    // Even and odd ranks, in the other order.
    let split = |rank: &Rank, number: i32| rank.channel.split(number % 2, -number, ChannelFlags::empty()).unwrap();
    let parts: Vec<_> = ranks.iter().zip(0..).map(|(rank, number)| split(rank, number)).collect();
    let places: Vec<_> = parts.iter().map(|part| part.rank_and_count()).collect();
    assert_eq!(places, [1, 1, 0, 0].map(|rank| ChannelRank { rank, count: 2 }));
    let mut ends = Vec::new();
    for ((rank, part), number) in ranks.iter().zip(&parts).zip([1_u32, 10, 100, 1000]) {
        let [first, second] = [number, number].map(|number| rank.buffer(&number.to_le_bytes()));
        let commands = rank.commands(2, |commands| {
            rank.collective(commands, &SUM, (0, 4), (0, 4));
            let second = rank::slot(1, 4);
            commands.collective(part, SUM.op(), 0, &second, &second, 1).unwrap();
        });
        ends.push((rank.execute(&[], &commands, &[binding(&first), binding(&second)]), first, second));
    }
    for ((end, first, second), expected) in ends.iter().zip([101_u32, 1010, 101, 1010]) {
        wait(end).expect("it runs");
        assert_eq!([contents(first), contents(second)], [1111_u32.to_le_bytes(), expected.to_le_bytes()]);
    }
    let none: Vec<_> = ranks.iter().map(|rank| rank.channel.split(-1, 0, ChannelFlags::empty()).unwrap()).collect();
    assert!(none.iter().all(|none| none.rank_and_count() == ChannelRank { rank: -1, count: 0 }));
}

#[test]
fn send_recv_without_a_sender_is_zero_and_a_count_of_zero_is_none() {
    let ranks = ranks("edges", 2);
    let exchange = |param: u32, element_count: u64| Collective {
        kind: CollectiveKind::SEND_RECV,
        reduction: NONE,
        element_type: CollectiveElementType::UINT_8,
        param,
        element_count,
    };
    // Only rank 0 sends.
    let mut ends = Vec::new();
    for (rank, param) in ranks.iter().zip([1 | 0xFFFF << 16, 0xFFFF]) {
        let (from, into) = (rank.buffer(&[7; 3]), rank.buffer(&[9; 3]));
        let commands = rank.commands(2, |commands| {
            rank.collective(commands, &exchange(param, 3), (0, 3), (1, 3));
            rank.barrier(commands);
            rank.collective(commands, &Collective { element_count: 0, ..SUM }, (0, 0), (1, 0));
        });
        ends.push((rank.execute(&[], &commands, &[binding(&from), binding(&into)]), into));
    }
    let received: Vec<_> =
        ends.iter().map(|(end, into)| wait(end).map(|()| contents(into)).expect("it runs")).collect();
    assert_eq!(received, [[0; 3], [7; 3]]);
}

/// A provider of the host, which knows the rank and passes the id of rank 0 on.
#[derive(Debug)]
struct Provider(i32, Arc<Mutex<Vec<u8>>>);

impl ChannelProvider for Provider {
    fn default_rank_and_count(&self) -> vireo_core::status::Result<ChannelRank> {
        Ok(ChannelRank { rank: self.0, count: 2 })
    }

    fn exchange_default_id(&self, id: &[u8]) -> vireo_core::status::Result<Vec<u8>> {
        let mut told = self.1.lock().expect("no panic");
        if self.0 == 0 {
            *told = id.to_vec();
        }
        Ok(told.clone())
    }
}

#[test]
fn a_provider_of_the_host_passes_the_identity_on() {
    let told = Arc::default();
    let rank = |number: i32| {
        let device = groups::device(number, options());
        let provider: Arc<dyn ChannelProvider> = Arc::new(Provider(number, Arc::clone(&told)));
        device.replace_channel_provider(&provider).expect("it is replaced");
        let params = ChannelParams { rank: -1, count: -1, ..ChannelParams::default() };
        Rank { channel: device.create_channel(rank::ANY, &params).expect("a channel"), device }
    };
    let ranks = [0, 1].map(rank);
    assert_eq!(ranks[1].channel.rank_and_count(), ChannelRank { rank: 1, count: 2 });
    let ends = ranks.each_ref().map(|rank| {
        let number = rank.buffer(&5_u32.to_le_bytes());
        (execute_sum(rank, &[], &number), number)
    });
    for (end, number) in &ends {
        wait(end).expect("it runs");
        assert_eq!(contents(number), 10_u32.to_le_bytes());
    }
    *told.lock().expect("no panic") = vec![1; 5];
    let params = ChannelParams { rank: -1, count: -1, ..ChannelParams::default() };
    let failure = ranks[1].device.create_channel(rank::ANY, &params).expect_err("a failure");
    assert!(failure.message().contains("an id of 5 bytes: NCCL has ids of 128"), "{failure}");
}

/// Commands after collective operations are after them, with and without a barrier.
#[test]
fn commands_that_follow_are_in_blocks_of_their_own() {
    let ranks = ranks("follow", 2);
    let ends = ranks.iter().map(|rank| {
        let (total, target) = (rank.buffer(&7_u32.to_le_bytes()), rank.buffer(&[0; 4]));
        let commands = rank.commands(1, |commands| {
            for number in [1_u8, 2] {
                rank.collective(commands, &SUM, (0, 4), (0, 4));
                commands.update_buffer(&[number; 4], &rank::whole(&target), UpdateFlags::empty()).unwrap();
                rank.barrier(commands);
            }
        });
        (rank.execute(&[], &commands, &[binding(&total)]), total, target)
    });
    let ends: Vec<_> = ends.collect();
    for (end, total, target) in &ends {
        wait(end).expect("it runs");
        assert_eq!((contents(total), contents(target)), (28_u32.to_le_bytes().to_vec(), vec![2; 4]));
    }
}
