//! Ranks in processes of their own, which meet over TCP: the test starts itself again for the second rank.

use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::Duration;

use vireo_collectives::Meeting;
use vireo_core::status::StatusCode;
use vireo_stream::device::DeviceOptions;

use crate::groups::{collectives, options, rank_of};
use crate::random::Random;
use crate::rank::{Rank, contents};
use crate::{execute_sum, wait};

/// The meeting and the role of a process that a test started.
const VARIABLE: &str = "CUDA_COLLECTIVES_TEST_MEETING";

/// The meeting of the second rank, in a process of it.
fn role() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

fn start(test: &str, meeting: &str) -> Child {
    let own = std::env::current_exe().expect("its own path");
    Command::new(own).args([test, "--exact", "--nocapture"]).env(VARIABLE, meeting).spawn().expect("it starts")
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn rank(meeting: &str, number: u32) -> Rank {
    let meeting = Meeting::Tcp(meeting.to_string());
    let collectives = collectives(meeting, Some((number, 2)), Duration::from_secs(60));
    rank_of("processes", number.cast_signed(), 2, DeviceOptions { collectives, ..options() })
}

/// Sums of drawn numbers, which both ranks know.
fn sums(rank: &Rank, number: usize) {
    let mut random = Random::new(61);
    for _ in 0..20 {
        let numbers = [random.next() as u32, random.next() as u32];
        let buffer = rank.buffer(&numbers[number].to_le_bytes());
        wait(&execute_sum(rank, &[], &buffer)).expect("it runs");
        assert_eq!(contents(&buffer), numbers[0].wrapping_add(numbers[1]).to_le_bytes());
    }
}

#[test]
fn two_processes() {
    if let Some(meeting) = role() {
        return sums(&rank(&meeting, 1), 1);
    }
    let meeting = free_address();
    let mut other = start("processes::two_processes", &meeting);
    sums(&rank(&meeting, 0), 0);
    assert!(other.wait().expect("it ends").success());
}

#[test]
fn a_process_that_dies_fails_the_other() {
    if let Some(meeting) = role() {
        let rank = rank(&meeting, 1);
        sums(&rank, 1);
        // Without a farewell.
        std::process::abort();
    }
    let meeting = free_address();
    let mut other = start("processes::a_process_that_dies_fails_the_other", &meeting);
    let rank = rank(&meeting, 0);
    sums(&rank, 0);
    let failure = wait(&execute_sum(&rank, &[], &rank.buffer(&[0; 4]))).expect_err("a failure");
    assert_eq!(failure.code(), StatusCode::Aborted);
    assert!(failure.to_string().contains("rank 1 of 2 ranks has left the group"), "{failure}");
    assert!(!other.wait().expect("it ends").success());
}
