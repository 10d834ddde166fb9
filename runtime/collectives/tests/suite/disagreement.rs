//! Ranks that disagree: all of them fail, with both values, and the channel goes on.

use std::sync::Arc;
use std::time::Duration;

use vireo_collectives::{BoundOperation, GroupChannel, Operation};
use vireo_hal::{Channel, ChannelFlags, CollectiveElementType, CollectiveKind, CollectiveOp, CollectiveReduction};

use crate::rank::{all_reduce, arrive, buffer, failure, in_process, operation, span, success, values};

const LIMIT: Duration = Duration::from_secs(60);

fn bound(operation: Operation) -> BoundOperation {
    let memory = buffer(&[0; 4096]);
    BoundOperation { operation, send: span(&memory), recv: span(&memory) }
}

/// Pairs of operations that disagree, and what the failure says.
pub fn cases() -> Vec<(Vec<BoundOperation>, Vec<BoundOperation>, &'static str)> {
    use CollectiveElementType as Type;
    use CollectiveKind as Kind;
    use CollectiveReduction as Reduction;
    let sum = |element_type, count| operation(Kind::ALL_REDUCE, Reduction::SUM, element_type, 0, count);
    let plain = |kind, param, count| operation(kind, Reduction::NONE, Type::UINT_8, param, count);
    let one = |operation| vec![bound(operation)];
    vec![
        (
            one(sum(Type::FLOAT_32, 16)),
            one(sum(Type::FLOAT_32, 12)),
            "rank 0 runs all_reduce sum of 16 float_32, rank 1 runs all_reduce sum of 12 float_32 (element counts 16 \
             and 12)",
        ),
        (one(sum(Type::FLOAT_32, 16)), one(sum(Type::SINT_32, 16)), "(element types float_32 and sint_32)"),
        (
            one(sum(Type::FLOAT_32, 16)),
            one(operation(Kind::ALL_REDUCE, Reduction::AVERAGE, Type::FLOAT_32, 0, 16)),
            "(reductions sum and average)",
        ),
        (one(plain(Kind::ALL_GATHER, 0, 8)), one(plain(Kind::BROADCAST, 0, 8)), "(kinds all_gather and broadcast)"),
        (one(plain(Kind::BROADCAST, 0, 8)), one(plain(Kind::BROADCAST, 1, 8)), "(roots 0 and 1)"),
        (
            [one(plain(Kind::ALL_GATHER, 0, 8)), one(plain(Kind::ALL_GATHER, 0, 4))].concat(),
            one(plain(Kind::ALL_GATHER, 0, 8)),
            "rank 0 runs all_gather of 4 uint_8 after 1 operations, rank 1 runs 1",
        ),
        (
            vec![],
            one(plain(Kind::ALL_GATHER, 0, 8)),
            "rank 1 runs all_gather of 8 uint_8 after 0 operations, rank 0 runs 0",
        ),
        (
            one(plain(Kind::SEND, 1, 8)),
            one(plain(Kind::SEND, 0, 8)),
            "rank 0 sends 1 times to rank 1, which receives 0 times",
        ),
        (
            one(plain(Kind::SEND, 1, 8)),
            one(plain(Kind::RECV, 0, 9)),
            "rank 0 runs send of 8 uint_8 to rank 1, rank 1 runs recv of 9 uint_8 from rank 0 (element counts 8 and 9)",
        ),
        (one(plain(Kind::BROADCAST, 2, 8)), one(plain(Kind::BROADCAST, 2, 8)), "root 2 of 2 ranks"),
        (
            one(plain(Kind::ALL_TO_ALL, 0, 8)),
            one(plain(Kind::ALL_TO_ALL, 0, 7)),
            "rank 1 cannot take part: all_to_all of 7 uint_8: expected a multiple of the 2 ranks",
        ),
        (
            one(plain(Kind::ALL_GATHER, 0, 2048)),
            one(plain(Kind::ALL_GATHER, 0, 2049)),
            "rank 1 cannot take part: all_gather of 2049 uint_8: 4096 bytes to receive, expected 4098",
        ),
    ]
}

/// Runs the cases, and after each of them one in which the ranks agree.
pub fn run_all(channels: &[Arc<GroupChannel>]) {
    for (first, second, expected) in cases() {
        let outcomes = [arrive(&channels[0], first), arrive(&channels[1], second)];
        for outcome in &outcomes {
            let message = failure(outcome);
            assert!(message.contains(expected), "{message}\nexpected: {expected}");
        }
        let (operations, buffers): (Vec<_>, Vec<_>) =
            [all_reduce(&[1.0, 2.0]), all_reduce(&[3.0, 5.0])].into_iter().unzip();
        let outcomes: Vec<_> =
            channels.iter().zip(operations).map(|(channel, operation)| arrive(channel, vec![operation])).collect();
        outcomes.iter().for_each(success);
        assert!(buffers.iter().all(|buffer| values(buffer) == [4.0, 7.0]));
    }
}

#[test]
fn all_ranks_fail_with_both_values() {
    run_all(&in_process("disagree", 2, LIMIT));
}

#[test]
fn a_split_is_no_operation() {
    let channels = in_process("split or not", 2, LIMIT);
    let _split = channels[0].split(0, 0, ChannelFlags::empty()).unwrap();
    let outcome = arrive(&channels[1], vec![all_reduce(&[1.0]).0]);
    assert!(failure(&outcome).contains("rank 0 splits the group, rank 1 runs collective operations"));
}

#[test]
fn operations_that_are_none() {
    let op = |kind, reduction, element_type| CollectiveOp {
        kind: CollectiveKind(kind),
        reduction: CollectiveReduction(reduction),
        element_type: CollectiveElementType(element_type),
    };
    let error = |op, count| Operation::new(op, 0, count).expect_err("a failure").to_string();
    assert!(error(op(9, 0, 0), 1).contains("there is no collective operation 9"));
    assert!(error(op(0, 0, 12), 1).contains("no element type 12"));
    assert!(error(op(1, 0, 0), 1).contains("all_reduce with reduction none: expected one that reduces"));
    assert!(error(op(1, 6, 0), 1).contains("reduction"));
    assert!(error(op(0, 0, 6), u64::MAX).contains("elements of 8 bytes"));
}
