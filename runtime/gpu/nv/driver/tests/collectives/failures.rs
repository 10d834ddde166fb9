//! Ranks that disagree, leave or do not come, libraries that are not there, and what NCCL does not have.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use vireo_collectives::Meeting;
use vireo_core::status::{Status, StatusCode};
use vireo_hal::{ChannelParams, CollectiveElementType};
use vireo_stream::collectives::LibrarySource;
use vireo_stream::device::DeviceOptions;

use crate::groups::{collectives, device, options, rank_of, ranks};
use crate::rank::{ANY, Collective, Rank, whole};
use crate::{SUM, binding, execute_sum, wait};

fn execute(rank: &Rank, collective: &Collective) -> vireo_hal::Timepoint {
    let number = rank.buffer(&[0; 8]);
    let commands = rank.commands(1, |commands| rank.collective(commands, collective, (0, 8), (0, 8)));
    rank.execute(&[], &commands, &[binding(&number)])
}

fn failure(end: &vireo_hal::Timepoint) -> Status {
    wait(end).expect_err("a failure")
}

#[test]
fn ranks_that_disagree_fail_with_both_values() {
    let ranks = ranks("disagree", 2);
    let ends = [execute(&ranks[0], &SUM), execute(&ranks[1], &Collective { element_count: 2, ..SUM })];
    for end in &ends {
        let text = failure(end).to_string();
        assert!(text.contains("the ranks disagree") && text.contains("element counts 1 and 2"), "{text}");
    }
    // The group has ended, and says why.
    let later = failure(&execute(&ranks[0], &SUM)).to_string();
    assert!(later.contains("the ranks disagree"), "{later}");
    // The devices go on.
    let number = ranks[0].buffer(&[1; 4]);
    let target = ranks[0].buffer(&[0; 4]);
    let commands = ranks[0].commands(0, |commands| ranks[0].copy(commands, &number, &target));
    wait(&ranks[0].execute(&[], &commands, &[])).expect("it runs");
}

#[test]
fn a_rank_that_leaves_fails_the_others() {
    let mut ranks = ranks("leaves", 2);
    let [first, second] = [0, 1].map(|rank: usize| ranks[rank].buffer(&[1; 4]));
    let ends = [execute_sum(&ranks[0], &[], &first), execute_sum(&ranks[1], &[], &second)];
    ends.iter().for_each(|end| wait(end).expect("it runs"));
    let end = execute_sum(&ranks[0], &[], &first);
    drop(ranks.pop());
    let failure = failure(&end);
    assert_eq!(failure.code(), StatusCode::Aborted);
    assert!(failure.to_string().contains("rank 1 of 2 ranks has left the group"), "{failure}");
}

#[test]
fn a_failure_before_fails_the_other_rank() {
    let ranks = ranks("before", 2);
    let numbers = [0, 1].map(|rank: usize| ranks[rank].buffer(&[1; 4]));
    // The first command of rank 0 has a binding that is too short.
    let commands = ranks[0].commands(1, |commands| ranks[0].collective(commands, &SUM, (0, 8), (0, 8)));
    let ends = [ranks[0].execute(&[], &commands, &[binding(&numbers[0])]), execute_sum(&ranks[1], &[], &numbers[1])];
    assert_eq!(failure(&ends[0]).code(), StatusCode::OutOfRange);
    let other = failure(&ends[1]).to_string();
    assert!(other.contains("rank 0 of 2 ranks has left the group"), "{other}");
}

#[test]
fn ranks_that_do_not_come_end_the_wait() {
    let limited = || DeviceOptions {
        collectives: collectives(Meeting::Process("late".into()), None, Duration::from_millis(600)),
        ..options()
    };
    // It never creates its channel.
    let alone = rank_of("channel", 0, 2, limited());
    let began = Instant::now();
    let text = failure(&execute(&alone, &SUM)).to_string();
    assert!(text.contains("waited 600ms for rank 1 of 2 ranks"), "{text}");
    // It never executes.
    let both = [0, 1].map(|rank| rank_of("execution", rank, 2, limited()));
    let text = failure(&execute(&both[0], &SUM)).to_string();
    assert!(text.contains("waited 600ms for other ranks"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_library_that_is_not_there_names_what_was_looked_for() {
    let missing = DeviceOptions {
        collectives_library: LibrarySource::Paths(vec![PathBuf::from("/no/such/libnccl.so.2")]),
        ..DeviceOptions::default()
    };
    let device = device(0, missing);
    let params = ChannelParams { rank: 0, count: 1, ..ChannelParams::default() };
    let failure = device.create_channel(ANY, &params).expect_err("there is no library");
    assert_eq!(failure.code(), StatusCode::Unavailable);
    assert!(failure.message().contains("/no/such/libnccl.so.2"), "{failure}");
    for method in ["device.create_channel", "device.replace_channel_provider", "command_buffer.collective"] {
        assert!(device.supports(method), "{method}");
    }
}

#[test]
fn what_is_refused_while_it_is_recorded() {
    let ranks = ranks("refused", 2);
    let number = ranks[0].buffer(&[0; 4]);
    let commands = ranks[0].begin(0);
    let range = whole(&number);
    let record =
        |channel, op| commands.collective(channel, op, 0, &range, &range, 1).expect_err("a failure").to_string();
    let short = Collective { element_type: CollectiveElementType::SINT_16, ..SUM };
    let text = record(&ranks[0].channel, short.op());
    assert!(text.contains("NCCL does not reduce integers of 16 bits"), "{text}");
    let text = record(&ranks[1].channel, SUM.op());
    assert!(text.contains("channel of device 1") && text.contains("commands for device 0"), "{text}");
    let unknown = ranks[0].device.create_channel(ANY, &ChannelParams { rank: -1, count: -1, ..Default::default() });
    assert_eq!(unknown.expect_err("a failure").code(), StatusCode::FailedPrecondition);
}

#[test]
fn two_ranks_on_one_device_are_refused_as_nccl_does() {
    let one = device(7, options());
    let channel = |rank| {
        let params = ChannelParams { id: b"one".to_vec(), rank, count: 2, ..ChannelParams::default() };
        Rank { device: one.clone(), channel: one.create_channel(ANY, &params).expect("a channel") }
    };
    let ranks = [0, 1].map(channel);
    let text = failure(&execute(&ranks[0], &SUM)).to_string();
    assert!(text.contains("Duplicate GPU detected"), "{text}");
}
