//! Ranks that leave, do not arrive, or cannot take part: the others fail, with the rank's name.

use std::time::{Duration, Instant};

use vireo_core::status::Status;

use crate::rank::{all_reduce, arrive, failure, in_process, join, success, values};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_rank_that_leaves_fails_the_others() {
    let mut channels = in_process("leaves", 3, LIMIT);
    let outcome = arrive(&channels[0], vec![all_reduce(&[1.0]).0]);
    drop(channels.remove(1));
    assert!(failure(&outcome).contains("rank 1 of 3 ranks has left the group"));
    // Also rounds that begin later.
    let outcome = arrive(&channels[1], vec![all_reduce(&[1.0]).0]);
    assert!(failure(&outcome).contains("rank 1 of 3 ranks has left the group"));
}

#[test]
fn a_rank_may_leave_after_it_arrived() {
    let channels = in_process("arrives and leaves", 2, LIMIT);
    let (first, buffer) = all_reduce(&[1.0]);
    let outcomes = [arrive(&channels[0], vec![first])];
    let second = channels[1].clone();
    drop(channels);
    let outcome = arrive(&second, vec![all_reduce(&[2.0]).0]);
    success(&outcomes[0]);
    success(&outcome);
    assert_eq!(values(&buffer), [3.0]);
}

#[test]
fn the_wait_for_a_rank_ends() {
    let channels = in_process("late", 3, Duration::from_millis(50));
    let begun = Instant::now();
    let outcome = arrive(&channels[1], vec![all_reduce(&[1.0]).0]);
    assert!(failure(&outcome).contains("collective operations waited 50ms for rank 0, 2 of 3 ranks"));
    assert!(begun.elapsed() >= Duration::from_millis(50));
    let outcome = arrive(&channels[0], vec![all_reduce(&[1.0]).0]);
    assert!(failure(&outcome).contains("waited 50ms for rank 0, 2"));
}

#[test]
fn a_rank_that_fails_tells_the_others_why() {
    let channels = in_process("fails", 2, LIMIT);
    let outcome = arrive(&channels[0], vec![all_reduce(&[1.0]).0]);
    channels[1].ticket().fail(Status::resource_exhausted("no memory left"));
    assert!(failure(&outcome).contains("rank 1 cannot take part: no memory left"));
    let outcome = arrive(&channels[0], vec![all_reduce(&[1.0]).0]);
    drop(channels[1].ticket());
    assert!(failure(&outcome).contains("rank 1 cannot take part: its operation was dropped before it ran"));
}

#[test]
fn groups_with_the_same_id_follow_each_other() {
    // Each rank joins twice; the first of one rank belongs to the first of the other.
    let first = join("again", 0, 2, LIMIT).unwrap();
    let second = join("again", 0, 2, LIMIT).unwrap();
    let others = [join("again", 1, 2, LIMIT).unwrap(), join("again", 1, 2, LIMIT).unwrap()];
    let (operation, buffer) = all_reduce(&[1.0]);
    let outcome = arrive(&second, vec![operation]);
    let waits = arrive(&first, vec![all_reduce(&[8.0]).0]);
    success(&{
        let outcome_of_other = arrive(&others[1], vec![all_reduce(&[2.0]).0]);
        success(&outcome);
        outcome_of_other
    });
    assert_eq!(values(&buffer), [3.0]);
    drop(others);
    assert!(failure(&waits).contains("rank 1 of 2 ranks has left the group"));
    // A group that was never complete is forgotten with its members.
    drop(join("again", 0, 2, LIMIT).unwrap());
    let failure = join("again", 2, 3, LIMIT).and_then(|_three| join("again", 0, 2, LIMIT)).expect_err("a failure");
    assert_eq!(failure.message(), "rank 0 joins a group of 2 ranks, which rank 2 joined as one of 3 ranks");
}
