//! One collective operation at all ranks between other commands, compared with the scalar reference.

use vireo_hal::{BufferBinding, CollectiveElementType, CollectiveKind, CollectiveReduction, WHOLE_BUFFER};

use crate::random::Random;
use crate::rank::{Collective, Rank, contents};
use crate::reference::{self, REDUCTIONS};

/// No reduction.
pub const NONE: CollectiveReduction = CollectiveReduction::NONE;

/// Kinds with their reductions.
pub fn kinds() -> Vec<(CollectiveKind, CollectiveReduction)> {
    let of_kind = |(kind, _): &(CollectiveKind, &str)| match *kind {
        CollectiveKind::ALL_REDUCE | CollectiveKind::REDUCE | CollectiveKind::REDUCE_SCATTER => {
            REDUCTIONS.map(|reduction| (*kind, reduction)).to_vec()
        }
        // It is the other end of `send`.
        CollectiveKind::RECV => Vec::new(),
        _ => vec![(*kind, NONE)],
    };
    CollectiveKind::NAMED.iter().flat_map(of_kind).collect()
}

/// The operations of a rank, which sends to the next one and receives from the one before.
fn collectives(
    kind: CollectiveKind,
    reduction: CollectiveReduction,
    rank: usize,
    count: usize,
    root: usize,
) -> Vec<(CollectiveKind, CollectiveReduction, u32)> {
    let (next, previous) = (((rank + 1) % count) as u32, ((rank + count - 1) % count) as u32);
    match kind {
        CollectiveKind::SEND => vec![(CollectiveKind::RECV, NONE, previous), (kind, NONE, next)],
        CollectiveKind::SEND_RECV => vec![(kind, NONE, next | previous << 16)],
        _ => vec![(kind, reduction, root as u32)],
    }
}

/// Runs an operation at all ranks: what each sends is copied to where it sends from before, and what it receives is
/// copied away after.
pub fn run(
    ranks: &[Rank],
    random: &mut Random,
    (kind, reduction): (CollectiveKind, CollectiveReduction),
    element_type: CollectiveElementType,
) {
    let (count, size) = (ranks.len(), reference::size(element_type));
    let part = random.size(300);
    let all = part * count as u64;
    let (sends, receives, element_count) = match kind {
        CollectiveKind::ALL_GATHER => (part, all, part),
        CollectiveKind::ALL_TO_ALL => (all, all, all),
        CollectiveKind::REDUCE_SCATTER => (all, part, part),
        _ => (part, part, part),
    };
    let root = random.below(count as u64) as usize;
    let sent: Vec<Vec<u8>> = ranks.iter().map(|_| reference::elements(random, element_type, sends)).collect();
    let receives = receives * size as u64;
    let mut results = Vec::new();
    for (index, rank) in ranks.iter().enumerate() {
        let [given, from] = [sent[index].clone(), vec![0; sent[index].len()]].map(|bytes| rank.buffer(&bytes));
        let [into, result] = [(); 2].map(|()| rank.buffer(&vec![0xA5; receives as usize]));
        let commands = rank.commands(2, |commands| {
            rank.copy(commands, &given, &from);
            rank.barrier(commands);
            for (kind, reduction, param) in collectives(kind, reduction, index, count, root) {
                let collective = Collective { kind, reduction, element_type, param, element_count };
                rank.collective(commands, &collective, (0, sent[index].len() as u64), (1, receives));
            }
            rank.barrier(commands);
            rank.copy(commands, &into, &result);
        });
        let binding = |buffer| BufferBinding { buffer: Some(buffer), offset: 0, length: WHOLE_BUFFER };
        let done = rank.execute(&[], &commands, &[binding(from), binding(into)]);
        results.push((result, done));
    }
    for (rank, (result, done)) in results.iter().enumerate() {
        done.semaphore.wait(done.value, None).unwrap();
        let expected = reference::received(kind, element_type, reduction, root, &sent, rank);
        let expected = expected.unwrap_or_else(|| vec![0xA5; receives as usize]);
        let what = format!("{kind:?} {reduction:?} of {element_type:?} at rank {rank} of {count}");
        assert!(reference::same(element_type, &contents(result), &expected), "{what}");
    }
}
