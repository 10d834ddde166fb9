//! The time of an all-reduce by size, ranks and transport: `cargo bench -p vireo-collectives`. Ranks are as if in
//! processes of their own, each with a thread. The transports take turns, so that each has the same share of the
//! machine.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use vireo_collectives::{
    BoundOperation, CollectiveOptions, Collectives, Contribution, GroupChannel, Meeting, Operation, Span,
};
use vireo_hal::{
    Allocator, Buffer, BufferParams, BufferUsage, ChannelParams, CollectiveElementType, CollectiveKind, CollectiveOp,
    CollectiveReduction, HeapAllocator,
};

const LIMIT: Duration = Duration::from_secs(60);
/// For each figure, at least so many rounds and so long.
const ROUNDS: usize = 15;
const TIME: Duration = Duration::from_millis(400);

/// A way from rank to rank.
#[derive(Clone, Copy)]
enum Way {
    Process,
    Memory,
    Connection,
}

/// The channels of ranks, with what keeps them.
fn channels(way: Way, count: u32) -> Vec<(Collectives, Arc<GroupChannel>)> {
    let meeting = match way {
        Way::Process => Meeting::Process("ranks".to_string()),
        _ => {
            let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            Meeting::Tcp(port.expect("a port").to_string())
        }
    };
    let one = |rank| {
        let (meeting, rank_and_count) = (meeting.clone(), Some((rank, count)));
        let shares_memory = matches!(way, Way::Memory);
        let collectives = Collectives::new(CollectiveOptions { meeting, rank_and_count, limit: LIMIT, shares_memory });
        let params = ChannelParams { rank: -1, count: -1, ..ChannelParams::default() };
        let channel = collectives.channel(&params).expect("a channel");
        (collectives, channel)
    };
    (0..count).map(one).collect()
}

/// The time of a round of all ranks.
fn round(channels: &[(Collectives, Arc<GroupChannel>)], operations: &[BoundOperation]) -> Duration {
    let (sender, receiver) = channel();
    let begun = Instant::now();
    for ((_, channel), operation) in channels.iter().zip(operations) {
        let sender = sender.clone();
        let completion = Box::new(move |outcome: Result<_, _>| {
            let _ = sender.send(outcome.map(drop));
        });
        channel.ticket().arrive(Contribution::Operations(vec![operation.clone()]), completion);
    }
    for _ in operations {
        receiver.recv().expect("all complete").expect("succeeds");
    }
    begun.elapsed()
}

fn operation(allocator: &HeapAllocator, bytes: u64) -> BoundOperation {
    let span = || {
        let params = BufferParams { usage: BufferUsage::DEFAULT | BufferUsage::MAPPING, ..BufferParams::default() };
        let buffer: Arc<dyn Buffer> = allocator.allocate_buffer(params, bytes).expect("memory");
        Some(Span { buffer, offset: 0, length: bytes })
    };
    let op = CollectiveOp {
        kind: CollectiveKind::ALL_REDUCE,
        reduction: CollectiveReduction::SUM,
        element_type: CollectiveElementType::FLOAT_32,
    };
    BoundOperation { operation: Operation::new(op, 0, bytes / 4).expect("an operation"), send: span(), recv: span() }
}

fn main() {
    let allocator = HeapAllocator::default();
    let ways = [
        (Way::Process, "one process"),
        (Way::Memory, "processes that share memory"),
        (Way::Connection, "processes, loopback interface"),
    ];
    println!("all-reduce of f32, median and worst of rounds");
    for count in [2, 8] {
        let groups = ways.map(|(way, name)| (channels(way, count), name));
        for bytes in [4, 4 << 10, 64 << 10, 1 << 20, 64 << 20_u64] {
            let operations: Vec<BoundOperation> = (0..count).map(|_| operation(&allocator, bytes)).collect();
            let mut times: [Vec<Duration>; 3] = Default::default();
            let begun = Instant::now();
            while times[0].len() < ROUNDS || begun.elapsed() < TIME {
                for ((channels, _), times) in groups.iter().zip(&mut times) {
                    times.push(round(channels, &operations));
                }
            }
            for ((_, name), times) in groups.iter().zip(&mut times) {
                // The first one connects.
                times.remove(0);
                times.sort();
                let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
                println!("{count} ranks, {bytes:>8} bytes, {name:<30} {median:>10.1?} {worst:>10.1?}");
            }
        }
    }
}
