//! Ranks that meet over TCP: the same rounds as in one process, peers that leave, are late or hostile, and ranks in
//! processes of their own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use vireo_collectives::{CollectiveOptions, Collectives, GroupChannel, Meeting};
use vireo_core::status::Result;
use vireo_hal::{Channel, ChannelParams, ChannelRank};

use crate::rank::{PATIENCE, all_reduce, arrive, failure, success, values};
use crate::{disagreement, kinds, split};

const LIMIT: Duration = Duration::from_secs(60);

/// An address of this host that is free now.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn collectives(address: &str, rank: u32, count: u32, limit: Duration) -> Collectives {
    sharing(address, rank, count, limit, true)
}

fn sharing(address: &str, rank: u32, count: u32, limit: Duration, shares_memory: bool) -> Collectives {
    let meeting = Meeting::Tcp(address.to_string());
    Collectives::new(CollectiveOptions { meeting, rank_and_count: Some((rank, count)), limit, shares_memory })
}

fn channel(collectives: &Collectives) -> Arc<GroupChannel> {
    try_channel(collectives, &ChannelParams { rank: -1, count: -1, ..ChannelParams::default() }).unwrap()
}

fn try_channel(collectives: &Collectives, params: &ChannelParams) -> Result<Arc<GroupChannel>> {
    collectives.channel(params)
}

/// Ranks that meet at an address, each as if in a process of its own.
fn meet(count: u32, limit: Duration) -> (Vec<Collectives>, Vec<Arc<GroupChannel>>) {
    let address = free_address();
    let all: Vec<_> = (0..count).map(|rank| collectives(&address, rank, count, limit)).collect();
    let channels = all.iter().map(channel).collect();
    (all, channels)
}

#[test]
fn all_kinds_types_and_reductions() {
    // Some are larger than what is sent before anything is received, and than a frame.
    for (count, seed, most) in [(1, 41, 100), (2, 42, 16_000), (3, 43, 2_000), (8, 44, 500)] {
        let (_processes, channels) = meet(count, LIMIT);
        assert_eq!(channels[0].rank_and_count(), ChannelRank { rank: 0, count: count.cast_signed() });
        kinds::run_all(&channels, seed, most);
    }
}

#[test]
fn large_data_of_three_ranks() {
    let (_processes, channels) = meet(3, LIMIT);
    let data: Vec<f32> = (0..300_000_u32).map(|index| index as f32).collect();
    let (operations, buffers): (Vec<_>, Vec<_>) = channels.iter().map(|_| all_reduce(&data)).unzip();
    let outcomes: Vec<_> =
        channels.iter().zip(operations).map(|(channel, operation)| arrive(channel, vec![operation])).collect();
    outcomes.iter().for_each(success);
    let expected: Vec<f32> = data.iter().map(|value| 3.0 * value).collect();
    assert!(buffers.iter().all(|buffer| values(buffer) == expected));
}

#[test]
fn large_data_go_through_memory_if_both_ranks_want_that() {
    // Without and with memory, and a rank that does not want it beside two that do.
    for (wants, shared) in [([false; 3], [0; 3]), ([true; 3], [2; 3]), ([true, false, true], [1, 0, 1])] {
        let address = free_address();
        let ranks = (0..).zip(wants);
        let processes: Vec<_> = ranks.map(|(rank, wants)| sharing(&address, rank, 3, LIMIT, wants)).collect();
        let channels: Vec<_> = processes.iter().map(channel).collect();
        // Of up to 128 KB for each rank, so of several frames.
        kinds::run_all(&channels, 45, 16_000);
        for (channel, shared) in channels.iter().zip(shared) {
            let shared = if cfg!(target_os = "linux") { shared } else { 0 };
            let text = format!("{channel:?}");
            assert!(text.contains(&format!("with memory shared by {shared} of the others")), "{text}");
        }
    }
}

#[test]
fn all_ranks_fail_with_both_values() {
    let (_processes, channels) = meet(2, LIMIT);
    disagreement::run_all(&channels);
}

#[test]
fn groups_are_split() {
    let (_processes, channels) = meet(4, LIMIT);
    split::run_all(&channels);
}

#[test]
fn channels_of_one_process_are_groups_of_their_own() {
    let (processes, channels) = meet(2, LIMIT);
    let named = |processes: &Collectives, group: &str| {
        let params =
            ChannelParams { group: group.into(), id: b"id".to_vec(), rank: -1, count: -1, ..Default::default() };
        try_channel(processes, &params).unwrap()
    };
    // The ranks join the groups, and use them, in different orders.
    let others =
        [named(&processes[0], "a"), named(&processes[0], "b"), named(&processes[1], "b"), named(&processes[1], "a")];
    let numbers = [1.0, 10.0, 20.0, 2.0, 100.0, 200.0];
    let all = [&others[0], &others[1], &others[2], &others[3], &channels[0], &channels[1]];
    let (outcomes, buffers): (Vec<_>, Vec<_>) = (all.iter().zip(numbers))
        .map(|(channel, number)| {
            let (operation, buffer) = all_reduce(&[number]);
            (arrive(channel, vec![operation]), buffer)
        })
        .unzip();
    outcomes.iter().for_each(success);
    let sums: Vec<f32> = buffers.iter().map(|buffer| values(buffer)[0]).collect();
    assert_eq!(sums, [3.0, 30.0, 30.0, 3.0, 300.0, 300.0]);
    let wrong = ChannelParams { rank: 1, count: 2, ..ChannelParams::default() };
    let failure = try_channel(&processes[0], &wrong).expect_err("a failure");
    assert_eq!(failure.message(), "a channel of rank 1 of 2 in the process of rank 0 of 2");
    let long = ChannelParams { rank: -1, count: -1, id: vec![0; 2000], ..ChannelParams::default() };
    assert!(try_channel(&processes[0], &long).expect_err("a failure").message().contains("an id of 2000"));
}

#[test]
fn a_rank_that_leaves_fails_the_others() {
    let (_processes, mut channels) = meet(3, LIMIT);
    let outcomes: Vec<_> = channels.iter().map(|channel| arrive(channel, vec![all_reduce(&[1.0]).0])).collect();
    outcomes.iter().for_each(success);
    let begun = Instant::now();
    let outcomes = [0, 2].map(|rank: usize| arrive(&channels[rank], vec![all_reduce(&[1.0]).0]));
    drop(channels.remove(1));
    for outcome in &outcomes {
        let message = failure(outcome);
        assert!(message.contains("rank 1 of 3 ranks has left the group"), "{message}");
    }
    assert!(begun.elapsed() < LIMIT);
    // The group does not go on.
    let message = failure(&arrive(&channels[0], vec![all_reduce(&[1.0]).0]));
    assert!(message.contains("rank 1 of 3 ranks has left the group"), "{message}");
}

#[test]
fn the_wait_for_a_rank_ends() {
    let (_processes, channels) = meet(3, Duration::from_secs(2));
    let outcomes: Vec<_> = channels.iter().map(|channel| arrive(channel, vec![all_reduce(&[1.0]).0])).collect();
    outcomes.iter().for_each(success);
    let message = failure(&arrive(&channels[1], vec![all_reduce(&[1.0]).0]));
    assert!(message.contains("collective operations waited 2s for rank 0, 2 of 3 ranks"), "{message}");
    // The others get to know of it when they come.
    let message = failure(&arrive(&channels[2], vec![all_reduce(&[1.0]).0]));
    assert!(message.contains("waited 2s for rank 0, 2 of 3 ranks"), "{message}");
}

#[test]
fn meetings_that_fail() {
    let address = free_address();
    let short = Duration::from_millis(300);
    let alone = collectives(&address, 0, 3, short);
    let second = collectives(&address, 1, 3, short);
    let outcomes = [&alone, &second].map(|process| arrive(&channel(process), vec![]));
    for outcome in &outcomes {
        let message = failure(outcome);
        assert!(
            message.contains(&format!("the meeting at tcp://{address}: collective operations waited")),
            "{message}"
        );
    }
    // No rank 0.
    let message = failure(&arrive(&channel(&collectives(&free_address(), 1, 2, short)), vec![]));
    assert!(message.contains("waited 300ms for rank 0"), "{message}");
    // An address that is in use.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let used = listener.local_addr().expect("an address").to_string();
    let message = failure(&arrive(&channel(&collectives(&used, 0, 2, short)), vec![]));
    assert!(message.contains("it cannot be listened at"), "{message}");
}

#[test]
fn ranks_that_disagree_about_their_number() {
    let address = free_address();
    let processes = [collectives(&address, 0, 3, LIMIT), collectives(&address, 1, 2, LIMIT)];
    let outcomes = [0, 1].map(|rank: usize| arrive(&channel(&processes[rank]), vec![]));
    for outcome in &outcomes {
        let message = failure(outcome);
        let expected = "rank 0 meets as one of 3 ranks, a rank at 127.0.0.1 as rank 1 of 2 ranks";
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_rank_that_comes_twice_is_refused() {
    let address = free_address();
    let processes = [(0, 3), (1, 3)].map(|(rank, count)| collectives(&address, rank, count, LIMIT));
    let outcomes = [0, 1].map(|rank: usize| arrive(&channel(&processes[rank]), vec![]));
    // Whichever of the two came first goes on.
    let again = collectives(&address, 1, 3, LIMIT);
    let outcome = arrive(&channel(&again), vec![]);
    let both = [&outcomes[1], &outcome];
    let refused = loop {
        match both.iter().position(|outcome| outcome.try_recv().is_ok_and(|outcome| outcome.is_err())) {
            Some(refused) => break refused,
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    let last = collectives(&address, 2, 3, LIMIT);
    success(&arrive(&channel(&last), vec![]));
    success(&outcomes[0]);
    success(both[1 - refused]);
}

/// A connection to rank 0, as soon as it listens.
fn call(address: &str) -> TcpStream {
    let begun = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                return stream;
            }
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A frame of a kind, with any length in its header.
fn frame(kind: u8, length: u64, bytes: &[u8]) -> Vec<u8> {
    [&b"VCOL\x02"[..], &[kind, 0, 0], &length.to_le_bytes(), bytes].concat()
}

#[test]
fn callers_that_are_no_rank_do_not_hold_up_the_meeting() {
    let address = free_address();
    let first = collectives(&address, 0, 2, LIMIT);
    let outcome = arrive(&channel(&first), vec![]);
    let mut open = Vec::new();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        frame(1, u64::MAX, &[]),
        // Port 4294967295.
        frame(1, 12, &[0xFF; 12]),
        frame(1, 3, &[0; 3]),
        frame(9, 0, &[]),
        frame(4, 9, &[0; 9]),
        frame(3, 20, &[1; 20]),
        frame(3, 68, &[1; 68]),
        frame(7, 20, &[1; 20]),
        frame(7, 21, &[1; 21]),
        Vec::new(),
    ] {
        let mut stream = call(&address);
        stream.write_all(&bytes).expect("is sent");
        open.push(stream);
    }
    let second = collectives(&address, 1, 2, LIMIT);
    success(&arrive(&channel(&second), vec![]));
    success(&outcome);
}

/// Rank 1 of two ranks, by hand: it meets rank 0, and answers its first round with bytes of its own.
fn hostile(answer: &[u8]) -> String {
    let mut rank = by_hand(&[]);
    rank.contribution();
    rank.stream.write_all(answer).expect("is sent");
    failure(&rank.outcome)
}

/// Rank 1 of two ranks, and the outcome of the first round at rank 0.
struct ByHand {
    _first: Collectives,
    outcome: std::sync::mpsc::Receiver<Result<()>>,
    stream: TcpStream,
}

impl ByHand {
    /// Reads the contribution of rank 0.
    fn contribution(&mut self) {
        let length = self.header(4);
        self.stream.read_exact(&mut vec![0; length]).expect("its bytes");
    }

    /// Reads the header of a frame of a kind, and returns its length.
    fn header(&mut self, kind: u8) -> usize {
        let mut header = [0; 16];
        self.stream.read_exact(&mut header).expect("a header");
        assert_eq!(header[5], kind);
        u64::from_le_bytes(header[8..].try_into().expect("eight bytes")) as usize
    }
}

/// Rank 1 of two ranks, which joins with an offer of memory.
fn by_hand(offer: &[u8]) -> ByHand {
    let address = free_address();
    let first = collectives(&address, 0, 2, Duration::from_secs(3));
    let outcome = arrive(&channel(&first), vec![all_reduce(&[1.0; 8]).0]);
    let own = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = u32::from(own.local_addr().expect("an address").port());
    let mut meeting = call(&address);
    let greeting: Vec<u8> = [1, 2, port].iter().flat_map(|number: &u32| number.to_le_bytes()).collect();
    meeting.write_all(&frame(1, 12, &greeting)).expect("is sent");
    meeting.read_exact(&mut [0; 16 + 2 * 18]).expect("the addresses");
    let mut stream = call(&address);
    let greeting = [&default_group()[..], &1_u32.to_le_bytes(), offer].concat();
    stream.write_all(&frame(3, greeting.len() as u64, &greeting)).expect("is sent");
    ByHand { _first: first, outcome, stream }
}

#[test]
#[cfg(target_os = "linux")]
fn offers_of_memory_that_is_not_there_are_refused() {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("has one");
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16).expect("a number").to_be_bytes();
    let offer = |boot: [u8; 16], process: u32, descriptor: u32| {
        let parts = [&boot[..], &process.to_le_bytes(), &descriptor.to_le_bytes(), &[0; 8], &[0; 16]];
        parts.concat()
    };
    let own = std::process::id();
    // Another host, no process, no descriptor, and one of this test that is another file.
    for offer in [offer([0; 16], own, 0), offer(boot, u32::MAX, 0), offer(boot, own, u32::MAX), offer(boot, own, 1)] {
        let mut rank = by_hand(&offer);
        assert_eq!(rank.header(8), 0, "the offer is refused");
        // The group goes on without it.
        rank.contribution();
        rank.stream.write_all(&frame(6, 8, b"\x09because")).expect("is sent");
        assert!(failure(&rank.outcome).contains("because"));
    }
}

/// The identity of the first group without id and name, by the arithmetic of FNV-1a.
fn default_group() -> [u8; 16] {
    let hash = |parts: &[&[u8]]| {
        let mut hash = 0x6C62_272E_07BB_0142_62B8_2175_6295_C58D_u128;
        for part in parts {
            for byte in (part.len() as u64).to_le_bytes().iter().chain(*part) {
                hash = (hash ^ u128::from(*byte)).wrapping_mul((1 << 88) + (1 << 8) + 0x3B);
            }
        }
        hash.to_le_bytes()
    };
    hash(&[&hash(&[b"", b""]), &1_u64.to_le_bytes()])
}

#[test]
fn hostile_peers_are_refused() {
    let contribution = |kind: u8, element_type: u8, count: u64| {
        let operation = [&[kind, 1, element_type, 0][..], &[0; 4], &count.to_le_bytes()].concat();
        frame(4, 25, &[&[0; 9][..], &operation].concat())
    };
    let agreed = contribution(1, 9, 8);
    let cases: [(Vec<u8>, &str); 11] = [
        (contribution(1, 9, 7), "(element counts 8 and 7)"),
        (contribution(1, 9, u64::MAX), "rank 1 cannot take part: all_reduce of 18446744073709551615 elements"),
        (contribution(99, 9, 8), "rank 1 cannot take part: there is no collective operation 99"),
        (frame(4, 1 << 40, &[]), "rank 1 of 2 ranks: a Facts frame of 1099511627776 bytes, expected at most"),
        (frame(4, 9, &[7; 9]), "rank 1 of 2 ranks: a contribution to round"),
        (frame(5, 4, &[0; 4]), "rank 1 of 2 ranks: a Data frame, expected Facts"),
        (b"nonsense, nonsense".to_vec(), "is no header of a frame"),
        ([&agreed[..], &frame(5, 1 << 50, &[])].concat(), "1125899906842624 bytes of data, expected 16"),
        ([&agreed[..], &frame(6, 8, b"\x09because")].concat(), "because"),
        ([&agreed[..], &frame(9, 16, &[])].concat(), "rank 1 of 2 ranks: a Shared frame, expected Data"),
        (agreed[..20].to_vec(), "rank 1 of 2 ranks"),
    ];
    for (answer, expected) in cases {
        let message = hostile(&answer);
        assert!(message.contains(expected), "{message}\nexpected: {expected}");
    }
}

/// The variables by which a test process is told which rank it is, and when to die.
const ADDRESS: &str = "VIREO_TEST_ADDRESS";
const RANK: &str = "VIREO_TEST_RANK";
const DIES: &str = "VIREO_TEST_DIES";
/// So much that it goes through memory of the processes.
static LARGE: [f32; 50_000] = [0.0; 50_000];

/// This test as another process, which is a rank of three.
fn process(address: &str, rank: u32, dies: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("the test"));
    command.args(["--exact", "tcp::a_rank_in_a_process_of_its_own", "--nocapture"]);
    command.env(ADDRESS, address).env(RANK, rank.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
    if dies {
        command.env(DIES, "1");
    }
    command.spawn().expect("starts")
}

/// Does nothing, unless another test starts it as a process of its own.
#[test]
fn a_rank_in_a_process_of_its_own() {
    let (Ok(address), Ok(rank)) = (std::env::var(ADDRESS), std::env::var(RANK)) else { return };
    let rank = rank.parse().expect("a rank");
    let process = collectives(&address, rank, 3, LIMIT);
    let channel = channel(&process);
    let (operation, buffer) = all_reduce(&LARGE.map(|value| rank as f32 + value));
    success(&arrive(&channel, vec![operation]));
    assert_eq!(values(&buffer), [3.0; LARGE.len()]);
    if std::env::var(DIES).is_ok() {
        std::process::abort();
    }
    let outcome = arrive(&channel, vec![all_reduce(&[1.0]).0]);
    let message = failure(&outcome);
    assert!(message.contains("rank 2 of 3 ranks has left the group"), "{message}");
}

#[test]
fn a_process_that_dies_fails_the_others() {
    let address = free_address();
    let begun = Instant::now();
    let processes = [process(&address, 1, false), process(&address, 2, true)];
    let first = collectives(&address, 0, 3, LIMIT);
    let channel = channel(&first);
    let (operation, buffer) = all_reduce(&LARGE);
    success(&arrive(&channel, vec![operation]));
    assert_eq!(values(&buffer), [3.0; LARGE.len()]);
    let message = failure(&arrive(&channel, vec![all_reduce(&[1.0]).0]));
    assert!(message.contains("rank 2 of 3 ranks has left the group"), "{message}");
    let [second, third] = processes.map(|process| process.wait_with_output().expect("it ends"));
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    assert!(!third.status.success());
    assert!(begun.elapsed() < LIMIT);
}
