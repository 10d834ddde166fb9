//! Agreement: the contributions of all ranks to a round are compared before any data move. Each rank compares all of
//! them, so that all come to the same verdict, which names two ranks and the values that differ.

use std::collections::BTreeMap;

use crate::operation::Operation;
use crate::status::{Result, Status, StatusCode};

/// A rank's contribution to a round, without its buffers: what ranks compare.
#[derive(Clone, Debug)]
pub(crate) enum Facts {
    /// Operations that may run at the same time.
    Operations(Vec<Operation>),
    /// A split of the group.
    Split { color: i32, key: i32 },
    /// The rank cannot take part.
    Failed(Status),
}

/// The kind of round that all ranks agree on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Agreed {
    Operations,
    /// The colors and keys by rank.
    Split(Vec<(i32, i32)>),
}

/// Compares the contributions of all ranks. Each rank's operations were checked with that rank.
pub(crate) fn agree(ranks: &[&Facts]) -> Result<Agreed> {
    for (rank, facts) in ranks.iter().enumerate() {
        if let Facts::Failed(cause) = facts {
            return Err(cause.clone().context(format!("rank {rank} cannot take part")));
        }
    }
    let splits: Vec<(i32, i32)> = ranks.iter().filter_map(|facts| split_of(facts)).collect();
    if splits.len() == ranks.len() && !splits.is_empty() {
        return Ok(Agreed::Split(splits));
    }
    if !splits.is_empty() {
        let splitter = ranks.iter().position(|facts| split_of(facts).is_some()).unwrap_or(0);
        let other = ranks.iter().position(|facts| split_of(facts).is_none()).unwrap_or(0);
        let message = format!("rank {splitter} splits the group, rank {other} runs collective operations");
        return Err(disagreement(message));
    }
    let operations: Vec<&[Operation]> = ranks.iter().map(|facts| operations_of(facts)).collect();
    compare_collectives(&operations)?;
    compare_transfers(&operations)?;
    Ok(Agreed::Operations)
}

fn split_of(facts: &Facts) -> Option<(i32, i32)> {
    match facts {
        Facts::Split { color, key } => Some((*color, *key)),
        _ => None,
    }
}

/// The operations; none of other contributions.
pub(crate) fn operations_of(facts: &Facts) -> &[Operation] {
    match facts {
        Facts::Operations(operations) => operations,
        _ => &[],
    }
}

#[cold]
fn disagreement(message: String) -> Status {
    Status::new(StatusCode::FailedPrecondition, format!("the ranks disagree: {message}"))
}

/// Compares the operations in which all ranks take part, which are in the same order at each rank.
fn compare_collectives(ranks: &[&[Operation]]) -> Result<()> {
    let of_all = |rank: usize| ranks[rank].iter().filter(|operation| !operation.is_transfer());
    for rank in 1..ranks.len() {
        let (mut ours, mut theirs) = (of_all(0), of_all(rank));
        for index in 0.. {
            match (ours.next(), theirs.next()) {
                (None, None) => break,
                (Some(left), Some(right)) => {
                    let Some(differing) = difference(left, right) else { continue };
                    let message = format!("rank 0 runs {left}, rank {rank} runs {right} ({differing})");
                    return Err(disagreement(message));
                }
                (left, right) => {
                    let (more, less, operation) = match (left, right) {
                        (Some(left), _) => (0, rank, left),
                        (_, Some(right)) => (rank, 0, right),
                        (None, None) => break,
                    };
                    let message =
                        format!("rank {more} runs {operation} after {index} operations, rank {less} runs {index}");
                    return Err(disagreement(message));
                }
            }
        }
    }
    Ok(())
}

/// The first property in which two operations differ, with both values.
fn difference(left: &Operation, right: &Operation) -> Option<String> {
    let (a, b) = (left.op, right.op);
    if a.kind != b.kind {
        Some(format!("kinds {:?} and {:?}", a.kind, b.kind))
    } else if a.reduction != b.reduction {
        Some(format!("reductions {:?} and {:?}", a.reduction, b.reduction))
    } else if a.element_type != b.element_type {
        Some(format!("element types {:?} and {:?}", a.element_type, b.element_type))
    } else if left.element_count != right.element_count {
        Some(format!("element counts {} and {}", left.element_count, right.element_count))
    } else if left.has_root() && left.param != right.param {
        Some(format!("roots {} and {}", left.param, right.param))
    } else {
        None
    }
}

/// Each transfer has another end, in the order of transfers between the two ranks.
fn compare_transfers(ranks: &[&[Operation]]) -> Result<()> {
    for ((from, to), (sent, received)) in transfers(ranks) {
        if sent.len() != received.len() {
            let (sends, receives) = (sent.len(), received.len());
            let message = format!("rank {from} sends {sends} times to rank {to}, which receives {receives} times");
            return Err(disagreement(message));
        }
        for (send, receive) in sent.iter().zip(&received) {
            let (left, right) = (&ranks[from as usize][*send], &ranks[to as usize][*receive]);
            let differing = if left.op.element_type != right.op.element_type {
                format!("element types {:?} and {:?}", left.op.element_type, right.op.element_type)
            } else if left.element_count != right.element_count {
                format!("element counts {} and {}", left.element_count, right.element_count)
            } else {
                continue;
            };
            return Err(disagreement(format!("rank {from} runs {left}, rank {to} runs {right} ({differing})")));
        }
    }
    Ok(())
}

/// The transfers by the ranks that send and receive: the indices of the operations at either.
type Transfers = BTreeMap<(u32, u32), (Vec<usize>, Vec<usize>)>;

/// The transfers of a round.
pub(crate) fn transfers(ranks: &[&[Operation]]) -> Transfers {
    let mut transfers = Transfers::new();
    for (rank, operations) in ranks.iter().enumerate() {
        let rank = rank as u32;
        for (index, operation) in operations.iter().enumerate() {
            let peers = operation.peers();
            if let Some(to) = peers.to {
                transfers.entry((rank, to)).or_default().0.push(index);
            }
            if let Some(from) = peers.from {
                transfers.entry((from, rank)).or_default().1.push(index);
            }
        }
    }
    transfers
}

/// The color of ranks that join no new group.
const NO_COLOR: i32 = -1;

/// The members of the new groups of a split, as ranks of the old one: by color, in the order of keys and ranks.
pub(crate) fn split_members(ranks: &[(i32, i32)]) -> BTreeMap<i32, Vec<u32>> {
    let mut groups: BTreeMap<i32, Vec<(i32, u32)>> = BTreeMap::new();
    for ((color, key), rank) in ranks.iter().zip(0..) {
        if *color != NO_COLOR {
            groups.entry(*color).or_default().push((*key, rank));
        }
    }
    let in_order = |mut members: Vec<(i32, u32)>| {
        members.sort_unstable();
        members.into_iter().map(|(_, rank)| rank).collect()
    };
    groups.into_iter().map(|(color, members)| (color, in_order(members))).collect()
}
