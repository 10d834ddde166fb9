//! Splits of groups.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use vireo_collectives::GroupChannel;
use vireo_hal::{Channel, ChannelFlags, ChannelRank};

use crate::rank::{all_reduce, arrive, failure, in_process, success, values};

/// Splits at every rank, on one thread.
fn split(channels: &[Arc<GroupChannel>], colors: &[(i32, i32)]) -> Vec<Arc<GroupChannel>> {
    let split = |(channel, (color, key)): (&Arc<GroupChannel>, &(i32, i32))| {
        let channel: Arc<dyn std::any::Any + Send + Sync> = channel.split(*color, *key, ChannelFlags::empty()).unwrap();
        channel.downcast::<GroupChannel>().expect("a channel of a group")
    };
    channels.iter().zip(colors).map(split).collect()
}

/// Splits groups of four ranks, which may be in other processes than each other.
pub fn run_all(channels: &[Arc<GroupChannel>]) {
    // The keys reverse the order of the first two.
    let parts = split(channels, &[(7, 1), (7, 0), (-1, 0), (-3, 5)]);
    let ranks: Vec<(i32, i32)> = parts
        .iter()
        .map(|part| {
            let ChannelRank { rank, count } = part.rank_and_count();
            (rank, count)
        })
        .collect();
    assert_eq!(ranks, [(1, 2), (0, 2), (-1, 0), (0, 1)]);
    let (first, buffer) = all_reduce(&[1.0]);
    let outcomes = [
        arrive(&parts[0], vec![first]),
        arrive(&parts[1], vec![all_reduce(&[10.0]).0]),
        arrive(&parts[3], vec![all_reduce(&[100.0]).0]),
    ];
    outcomes.iter().for_each(success);
    assert_eq!(values(&buffer), [11.0]);
    let none = arrive(&parts[2], vec![all_reduce(&[1.0]).0]);
    assert!(failure(&none).contains("split off with color -1"));
    // A part of a part, and the whole again.
    let again = split(&parts[..2], &[(0, 0), (1, 0)]);
    assert_eq!(again[0].rank_and_count(), ChannelRank { rank: 0, count: 1 });
    let outcomes: Vec<_> = channels.iter().map(|channel| arrive(channel, vec![all_reduce(&[1.0]).0])).collect();
    outcomes.iter().for_each(success);
}

#[test]
fn colors_and_keys() {
    run_all(&in_process("split", 4, Duration::from_secs(60)));
}

#[test]
fn rounds_of_a_part_wait_until_all_have_split() {
    let channels = in_process("part", 2, Duration::from_secs(60));
    let first = split(&channels[..1], &[(0, 0)]);
    let (operation, buffer) = all_reduce(&[1.0]);
    let outcome = arrive(&first[0], vec![operation]);
    let asked = {
        let channel = first[0].clone();
        thread::spawn(move || channel.rank_and_count())
    };
    let second = split(&channels[1..], &[(0, 0)]);
    success(&arrive(&second[0], vec![all_reduce(&[2.0]).0]));
    success(&outcome);
    assert_eq!(asked.join().unwrap(), ChannelRank { rank: 0, count: 2 });
    assert_eq!(values(&buffer), [3.0]);
}

#[test]
fn a_split_that_fails() {
    let mut channels = in_process("no split", 2, Duration::from_secs(60));
    let part = split(&channels[..1], &[(0, 0)]).remove(0);
    drop(channels.pop());
    assert_eq!(part.rank_and_count(), ChannelRank { rank: -1, count: 0 });
    assert!(failure(&arrive(&part, vec![])).contains("rank 1 of 2 ranks has left the group"));
}
