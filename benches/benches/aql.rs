//! Benchmarks of packets for AMD GPU queues: building them, publishing them into a ring in host memory, and reading
//! them back as a packet processor would.
//!
//! `cargo bench -p vireo-benches --bench aql`. No GPU is used: the benchmark measures the host's work.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vireo::hal::hsa::packet::{BarrierAndPacket, KernelDispatchPacket, Packet};
use vireo::hal::hsa::packets::Order;
use vireo::hal::hsa::ring::{Ring, Slot};
use vireo::hal::hsa::signal::Signal;

/// Packets that one iteration of the ring benchmarks publishes.
const BATCH: usize = 64;

fn dispatch(index: u64) -> KernelDispatchPacket {
    KernelDispatchPacket::new(Order::SYSTEM, 0x7000_0040, 0x8000 + 64 * index, [64, 1, 1], [4096, 1, 1])
        .expect("the scopes fit")
}

fn build(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("aql_build");
    group.bench_function("kernel_dispatch", |bencher| bencher.iter(|| dispatch(black_box(3)).to_bytes()));
    group.bench_function("barrier_and", |bencher| {
        bencher.iter(|| {
            let signals = [Signal(black_box(64)); 5];
            BarrierAndPacket::new(Order::SYSTEM, signals).expect("the scopes fit").to_bytes()
        });
    });
    let bytes = dispatch(3).to_bytes();
    group.bench_function("decode", |bencher| bencher.iter(|| Packet::read(black_box(&bytes))));
    group.finish();
}

fn ring(criterion: &mut Criterion) {
    let slots: Vec<Slot> = (0..2 * BATCH).map(|_| Slot::invalid().expect("the type fits")).collect();
    let (write, read) = (AtomicU64::new(0), AtomicU64::new(0));
    let ring = Ring::new(&slots, &write, &read).expect("the number of slots is a power of two");
    let mut group = criterion.benchmark_group("aql_ring");
    group.throughput(Throughput::Elements(BATCH as u64));
    // The packet processor is taken to be as fast as the producer: it gives the slots back at once.
    group.bench_function("build_and_publish", |bencher| {
        bencher.iter(|| {
            for index in 0..BATCH as u64 {
                let reservation = ring.try_reserve(1).expect("the ring is empty");
                let last = ring.publish(reservation, &[dispatch(index).to_bytes()]);
                read.store(last.wrapping_add(1), Ordering::Release);
            }
        });
    });
    let batch: Vec<_> = (0..BATCH as u64).map(|index| dispatch(index).to_bytes()).collect();
    group.bench_function("publish_batch", |bencher| {
        bencher.iter(|| {
            let reservation = ring.try_reserve(BATCH as u64).expect("the ring is empty");
            let last = ring.publish(reservation, black_box(&batch));
            read.store(last.wrapping_add(1), Ordering::Release);
        });
    });
    // The packet processor below has slots of its own, without what the benchmarks above left.
    let slots: Vec<Slot> = (0..2 * BATCH).map(|_| Slot::invalid().expect("the type fits")).collect();
    let (write, read) = (AtomicU64::new(0), AtomicU64::new(0));
    let ring = Ring::new(&slots, &write, &read).expect("the number of slots is a power of two");
    group.bench_function("publish_and_consume", |bencher| {
        bencher.iter(|| {
            let reservation = ring.try_reserve(BATCH as u64).expect("the ring is empty");
            ring.publish(reservation, black_box(&batch));
            for _ in 0..BATCH {
                black_box(ring.peek(0).expect("it is published").expect("it is a dispatch"));
                ring.retire();
            }
        });
    });
    group.finish();
}

criterion_group!(benches, build, ring);
criterion_main!(benches);
