//! A rank of a test: its channel, and rounds of it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use vireo_collectives::{
    BoundOperation, CollectiveOptions, Collectives, Contribution, GroupChannel, Meeting, Operation, Span,
};
use vireo_core::status::Result;
use vireo_hal::{
    Allocator, Buffer, BufferParams, BufferUsage, ChannelParams, CollectiveElementType, CollectiveKind, CollectiveOp,
    CollectiveReduction, HeapAllocator, MemoryAccess, MemoryType, buffer_to_vec, buffer_write,
};

/// A wait of a test that fails instead of one that goes on for ever.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The channels of a group of this process, by rank.
pub fn in_process(name: &str, count: u32, limit: Duration) -> Vec<Arc<GroupChannel>> {
    (0..count).map(|rank| join(name, rank, count, limit).unwrap()).collect()
}

/// The channel of one rank.
pub fn join(name: &str, rank: u32, count: u32, limit: Duration) -> Result<Arc<GroupChannel>> {
    let meeting = Meeting::Process(name.to_string());
    let options = CollectiveOptions { meeting, rank_and_count: Some((rank, count)), limit, shares_memory: true };
    Collectives::new(options).channel(&ChannelParams { rank: -1, count: -1, ..ChannelParams::default() })
}

/// A buffer with these bytes.
pub fn buffer(bytes: &[u8]) -> Arc<dyn Buffer> {
    let params = BufferParams {
        usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
        access: MemoryAccess::ALL,
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    };
    let buffer = HeapAllocator::without_reuse().allocate_buffer(params, bytes.len() as u64).unwrap();
    buffer_write(&*buffer, 0, bytes).unwrap();
    buffer
}

/// The whole of a buffer.
pub fn span(buffer: &Arc<dyn Buffer>) -> Option<Span> {
    Some(Span { buffer: buffer.clone(), offset: 0, length: buffer.byte_length() })
}

/// All bytes of a buffer.
pub fn bytes(buffer: &Arc<dyn Buffer>) -> Vec<u8> {
    buffer_to_vec(&**buffer, buffer.byte_length()).unwrap()
}

/// An operation.
pub fn operation(
    kind: CollectiveKind,
    reduction: CollectiveReduction,
    element_type: CollectiveElementType,
    param: u32,
    element_count: u64,
) -> Operation {
    Operation::new(CollectiveOp { kind, reduction, element_type }, param, element_count).unwrap()
}

/// Arrives at the next round with operations. The outcome comes later.
pub fn arrive(channel: &Arc<GroupChannel>, operations: Vec<BoundOperation>) -> Receiver<Result<()>> {
    let (sender, receiver) = channel_of_outcome();
    channel.ticket().arrive(Contribution::Operations(operations), sender);
    receiver
}

fn channel_of_outcome() -> (vireo_collectives::Completion, Receiver<Result<()>>) {
    let (sender, receiver) = channel();
    // The test may have stopped waiting.
    (Box::new(move |outcome| _ = sender.send(outcome.map(drop))), receiver)
}

/// The message of a failure.
pub fn failure(outcome: &Receiver<Result<()>>) -> String {
    outcome.recv_timeout(PATIENCE).expect("an outcome").expect_err("a failure").to_string()
}

/// Waits for a success.
pub fn success(outcome: &Receiver<Result<()>>) {
    outcome.recv_timeout(PATIENCE).expect("an outcome").expect("a success");
}

/// An all-reduce of `f32` without a buffer to receive into beside its own.
pub fn all_reduce(values: &[f32]) -> (BoundOperation, Arc<dyn Buffer>) {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let buffer = buffer(&data);
    let (kind, reduction) = (CollectiveKind::ALL_REDUCE, CollectiveReduction::SUM);
    let operation = operation(kind, reduction, CollectiveElementType::FLOAT_32, 0, values.len() as u64);
    (BoundOperation { operation, send: span(&buffer), recv: span(&buffer) }, buffer)
}

/// The values of a buffer of `f32`.
pub fn values(buffer: &Arc<dyn Buffer>) -> Vec<f32> {
    bytes(buffer).chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}
