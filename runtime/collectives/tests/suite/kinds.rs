//! All kinds of operations, element types and reductions for 2, 3 and 8 ranks, with drawn sizes.

use std::sync::Arc;
use std::time::Duration;

use vireo_collectives::{BoundOperation, GroupChannel};
use vireo_hal::{Buffer, CollectiveElementType, CollectiveKind, CollectiveReduction};

use crate::random::Random;
use crate::rank::{arrive, buffer, bytes, failure, in_process, operation, span, success};
use crate::reference::{self, REDUCTIONS, TYPES};

/// The most elements that a rank sends or receives, in about so many bytes that there are several chunks.
const MOST: u64 = 16_000;

/// Kinds with their reductions.
pub fn kinds() -> Vec<(CollectiveKind, CollectiveReduction)> {
    let mut kinds = Vec::new();
    for (kind, _) in CollectiveKind::NAMED {
        match *kind {
            CollectiveKind::ALL_REDUCE | CollectiveKind::REDUCE | CollectiveKind::REDUCE_SCATTER => {
                kinds.extend(REDUCTIONS.iter().map(|reduction| (*kind, *reduction)));
            }
            // It is the other end of `send`.
            CollectiveKind::RECV => {}
            _ => kinds.push((*kind, CollectiveReduction::NONE)),
        }
    }
    kinds
}

/// A round of one operation at every rank: what each sends, and the buffers that they receive into.
struct Case {
    kind: CollectiveKind,
    reduction: CollectiveReduction,
    element_type: CollectiveElementType,
    root: usize,
    sent: Vec<Vec<u8>>,
    targets: Vec<Arc<dyn Buffer>>,
}

impl Case {
    /// A case with `count` elements, and the operations of its ranks.
    fn new(
        random: &mut Random,
        (kind, reduction): (CollectiveKind, CollectiveReduction),
        element_type: CollectiveElementType,
        ranks: usize,
        most: u64,
    ) -> (Case, Vec<Vec<BoundOperation>>) {
        let size = reference::size(element_type);
        // Elements of a part, of what is sent and received, and the count that the operation says.
        let part = random.size(most.div_ceil(ranks as u64));
        let all = part * ranks as u64;
        let (sends, receives, count) = match kind {
            CollectiveKind::ALL_GATHER => (part, all, part),
            CollectiveKind::ALL_TO_ALL => (all, all, all),
            CollectiveKind::REDUCE_SCATTER => (all, part, part),
            _ => (part, part, part),
        };
        let root = random.below(ranks as u64) as usize;
        let sent: Vec<Vec<u8>> = (0..ranks).map(|_| reference::elements(random, element_type, sends)).collect();
        let targets: Vec<_> = (0..ranks).map(|_| buffer(&vec![0xA5; receives as usize * size])).collect();
        let of_rank = |rank: usize| {
            let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            let bound = |kind, param: usize, sends: bool, receives: bool| BoundOperation {
                operation: operation(kind, reduction, element_type, param as u32, count),
                send: if sends { span(&buffer(&sent[rank])) } else { None },
                recv: if receives { span(&targets[rank]) } else { None },
            };
            match kind {
                // The operations of one round run at the same time, so their order does not matter.
                CollectiveKind::SEND if rank.is_multiple_of(2) => {
                    vec![bound(kind, next, true, false), bound(CollectiveKind::RECV, previous, false, true)]
                }
                CollectiveKind::SEND => {
                    vec![bound(CollectiveKind::RECV, previous, false, true), bound(kind, next, true, false)]
                }
                CollectiveKind::SEND_RECV => vec![bound(kind, next | previous << 16, true, true)],
                CollectiveKind::BROADCAST => vec![bound(kind, root, rank == root, true)],
                CollectiveKind::REDUCE => vec![bound(kind, root, true, rank == root)],
                _ => vec![bound(kind, 0, true, true)],
            }
        };
        let operations = (0..ranks).map(of_rank).collect();
        (Case { kind, reduction, element_type, root, sent, targets }, operations)
    }

    fn check(&self) {
        for (rank, target) in self.targets.iter().enumerate() {
            let (kind, reduction, element_type) = (self.kind, self.reduction, self.element_type);
            let found = bytes(target);
            let expected = reference::received(kind, element_type, reduction, self.root, &self.sent, rank);
            let expected = expected.unwrap_or_else(|| vec![0xA5; found.len()]);
            let what = format!("{kind:?} {reduction:?} of {element_type:?} at rank {rank} of {}", self.sent.len());
            assert!(reference::same(element_type, &found, &expected), "{what}");
        }
    }
}

/// Runs every kind of operation with every type and reduction.
pub fn run_all(channels: &[Arc<GroupChannel>], seed: u64, most: u64) {
    let mut random = Random::new(seed);
    for kind in kinds() {
        for element_type in TYPES {
            let (case, operations) = Case::new(&mut random, kind, element_type, channels.len(), most);
            let outcomes: Vec<_> =
                channels.iter().zip(operations).map(|(channel, operations)| arrive(channel, operations)).collect();
            outcomes.iter().for_each(success);
            case.check();
        }
    }
}

#[test]
fn all_kinds_types_and_reductions() {
    for (count, seed) in [(2, 11), (3, 12), (8, 13)] {
        run_all(&in_process("kinds", count, Duration::from_secs(60)), seed, MOST);
    }
}

#[test]
fn one_rank_gets_its_own_data() {
    run_all(&in_process("alone", 1, Duration::from_secs(60)), 14, 100);
}

#[test]
fn several_operations_are_one_round() {
    let channels = in_process("rounds", 3, Duration::from_secs(60));
    let mut random = Random::new(15);
    let mut cases = Vec::new();
    let mut of_ranks = vec![Vec::new(); 3];
    for kind in kinds() {
        let (case, operations) = Case::new(&mut random, kind, CollectiveElementType::SINT_32, 3, 100);
        of_ranks.iter_mut().zip(operations).for_each(|(all, more)| all.extend(more));
        cases.push(case);
    }
    let outcomes: Vec<_> = channels.iter().zip(of_ranks).map(|(channel, all)| arrive(channel, all)).collect();
    outcomes.iter().for_each(success);
    cases.iter().for_each(Case::check);
}

#[test]
fn a_gather_that_counts_what_it_writes() {
    let channels = in_process("counts", 2, Duration::from_secs(60));
    let gather = |number: u8, length: usize| {
        let (send, recv) = (buffer(&[number; 2]), buffer(&vec![0; length]));
        let (kind, element_type) = (CollectiveKind::ALL_GATHER, CollectiveElementType::UINT_8);
        let operation = operation(kind, CollectiveReduction::NONE, element_type, 0, 4);
        (BoundOperation { operation, send: span(&send), recv: span(&recv) }, recv)
    };
    let (operations, targets): (Vec<_>, Vec<_>) = [gather(1, 4), gather(2, 4)].into_iter().unzip();
    let outcomes: Vec<_> =
        channels.iter().zip(operations).map(|(channel, operation)| arrive(channel, vec![operation])).collect();
    outcomes.iter().for_each(success);
    assert!(targets.iter().all(|target| bytes(target) == [1, 1, 2, 2]));
    // Other sizes are a mistake.
    let outcomes = [5, 4].map(|length| gather(1, length).0).into_iter().zip(&channels);
    let outcomes: Vec<_> = outcomes.map(|(operation, channel)| arrive(channel, vec![operation])).collect();
    let message = failure(&outcomes[1]);
    assert!(
        message.contains("rank 0 cannot take part: all_gather of 4 uint_8: 2 bytes to send, expected 4"),
        "{message}"
    );
}

#[test]
fn ranges_that_overlap_are_read_first() {
    let channels = in_process("in place", 2, Duration::from_secs(60));
    let memory = [buffer(&[1, 2, 3, 4, 0, 0]), buffer(&[5, 6, 7, 8, 0, 0])];
    let run = |kind, count, recv_offset: u64, param: [u32; 2]| {
        let outcomes: Vec<_> = (channels.iter().zip(&memory).zip(param))
            .map(|((channel, memory), param)| {
                let operation = operation(kind, CollectiveReduction::NONE, CollectiveElementType::UINT_8, param, count);
                let send = span(memory);
                let recv = send.clone().map(|span| vireo_collectives::Span {
                    offset: recv_offset,
                    length: span.length - recv_offset,
                    ..span
                });
                arrive(channel, vec![BoundOperation { operation, send, recv }])
            })
            .collect();
        outcomes.iter().for_each(success);
        [bytes(&memory[0]), bytes(&memory[1])]
    };
    assert_eq!(run(CollectiveKind::ALL_TO_ALL, 4, 0, [0, 0]), [vec![1, 2, 5, 6, 0, 0], vec![3, 4, 7, 8, 0, 0]]);
    assert_eq!(run(CollectiveKind::ALL_GATHER, 2, 1, [0, 0]), [vec![1, 1, 2, 3, 4, 0], vec![3, 1, 2, 3, 4, 0]]);
    // Each sends to the other and receives from it, then only rank 0 sends.
    let both = [1 | 1 << 16, 0];
    assert_eq!(run(CollectiveKind::SEND_RECV, 3, 0, both), [vec![3, 1, 2, 3, 4, 0], vec![1, 1, 2, 3, 4, 0]]);
    let one = [1 | 0xFFFF << 16, 0xFFFF];
    assert_eq!(run(CollectiveKind::SEND_RECV, 2, 0, one), [vec![0, 0, 2, 3, 4, 0], vec![3, 1, 2, 3, 4, 0]]);
}
