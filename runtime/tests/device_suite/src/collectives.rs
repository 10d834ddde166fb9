//! Channels and collective operations, of devices that have them. All ranks are on one thread: a device waits for the
//! other ranks on no thread. They are on one device too, which libraries of GPUs refuse; tests of such drivers have
//! several.

use std::sync::Arc;

use vireo::hal::*;
use vireo::{Result, StatusCode};

use super::skip::{Need, skipped};
use super::*;

const SUM: CollectiveOp = CollectiveOp {
    kind: CollectiveKind::ALL_REDUCE,
    reduction: CollectiveReduction::SUM,
    element_type: CollectiveElementType::UINT_8,
};

fn has_channels(device: &dyn Device) -> bool {
    device.supports("device.create_channel")
}

/// Whether several ranks may be on one device.
fn has_ranks(backend: &Backend, device: &dyn Device) -> bool {
    has_channels(device) && !backend.is_gpu
}

/// A rank of the group with this id.
fn channel(device: &dyn Device, id: &str, rank: i32, count: i32) -> Arc<dyn Channel> {
    // Backends run at the same time, and each has groups of its own.
    let id = format!("{id} of {device:p}").into_bytes();
    device.create_channel(ANY, &ChannelParams { id, rank, count, ..ChannelParams::default() }).unwrap()
}

/// Submits a sum of a buffer over the ranks, and returns the timeline that it signals.
fn submit(device: &dyn Device, channel: &Arc<dyn Channel>, buffer: &Arc<dyn Buffer>, count: u64) -> Arc<dyn Semaphore> {
    let commands = record(device, CommandBufferMode::ONE_SHOT, 0);
    commands.fill_buffer(&range(buffer, 0, 1), &[10], FillFlags::empty()).unwrap();
    barrier(&*commands).unwrap();
    commands.collective(channel, SUM, 0, &whole(buffer), &whole(buffer), count).unwrap();
    barrier(&*commands).unwrap();
    commands.copy_buffer(&range(buffer, 0, 1), &range(buffer, 2, 1), CopyFlags::empty()).unwrap();
    commands.end().unwrap();
    let done = timeline(device);
    device.queue_execute(ANY, &[], &[point(&done, 1)], &commands, &[], ExecuteFlags::empty()).unwrap();
    done
}

pub fn ranks_meet_on_one_thread(backend: &Backend) {
    let device = backend.device();
    if !has_ranks(backend, &*device) {
        return;
    }
    let channels: Vec<_> = (0..3).map(|rank| channel(&*device, "meet", rank, 3)).collect();
    let buffers: Vec<_> = (0..3_u8).map(|rank| buffer_of(&*device, &[0, rank, 0])).collect();
    let mut ends = Vec::new();
    for (rank, (channel, buffer)) in channels.iter().zip(&buffers).enumerate() {
        assert_eq!(channel.rank_and_count(), ChannelRank { rank: rank as i32, count: 3 });
        ends.push(submit(&*device, channel, buffer, 3));
    }
    for (end, buffer) in ends.iter().zip(&buffers) {
        end.wait(1, None).unwrap();
        assert_eq!(bytes_of(&**buffer), [30, 3, 30]);
    }
    let ends = [submit(&*device, &channels[0], &buffers[0], 3), submit(&*device, &channels[1], &buffers[1], 2)];
    let third = submit(&*device, &channels[2], &buffers[2], 3);
    for end in ends.iter().chain([&third]) {
        let failure = end.wait(1, None).unwrap_err();
        assert_eq!(failure.code(), StatusCode::FailedPrecondition);
        assert!(failure.message().contains("(element counts 3 and 2)"), "{failure}");
    }
}

pub fn channels_are_split(backend: &Backend) {
    let device = backend.device();
    if !has_ranks(backend, &*device) {
        return;
    }
    let channels: Vec<_> = (0..3).map(|rank| channel(&*device, "split", rank, 3)).collect();
    let split = |(channel, color): (&Arc<dyn Channel>, i32)| channel.split(color, 0, ChannelFlags::empty()).unwrap();
    let parts: Vec<_> = channels.iter().zip([5, 6, 5]).map(split).collect();
    let ranks: Vec<_> = parts.iter().map(|part| part.rank_and_count()).collect();
    let expected = [(0, 2), (0, 1), (1, 2)].map(|(rank, count)| ChannelRank { rank, count });
    assert_eq!(ranks, expected);
    let buffers = [buffer_of(&*device, &[0, 1, 0]), buffer_of(&*device, &[0, 2, 0])];
    let ends = [submit(&*device, &parts[0], &buffers[0], 3), submit(&*device, &parts[2], &buffers[1], 3)];
    for (end, buffer) in ends.iter().zip(&buffers) {
        end.wait(1, None).unwrap();
        assert_eq!(bytes_of(&**buffer), [20, 3, 20]);
    }
}

/// A host that knows the ranks.
#[derive(Debug)]
struct Second;

impl ChannelProvider for Second {
    fn default_rank_and_count(&self) -> Result<ChannelRank> {
        Ok(ChannelRank { rank: 1, count: 2 })
    }

    fn exchange_default_id(&self, _id: &[u8]) -> Result<Vec<u8>> {
        // As many bytes as NCCL has.
        Ok(vec![7; 128])
    }
}

pub fn hosts_know_the_ranks(backend: &Backend) {
    let device = backend.device();
    if !has_channels(&*device) {
        return;
    }
    let unknown = ChannelParams { rank: -1, count: -1, ..ChannelParams::default() };
    let refused = code(device.create_channel(ANY, &unknown));
    if refused == StatusCode::Unavailable {
        return skipped(Need::Package("libnccl2"), format_args!("{}: its library of ranks is not here", backend.name));
    }
    assert_eq!(refused, StatusCode::FailedPrecondition);
    let provider: Arc<dyn ChannelProvider> = Arc::new(Second);
    device.replace_channel_provider(&provider).unwrap();
    let channel = device.create_channel(ANY, &unknown).unwrap();
    assert_eq!(channel.rank_and_count(), ChannelRank { rank: 1, count: 2 });
    let wrong = ChannelParams { rank: 2, count: 2, ..ChannelParams::default() };
    assert_eq!(code(device.create_channel(ANY, &wrong)), StatusCode::InvalidArgument);
}
