//! The formation of a group ([`form`]): its ranks meet over TCP at the address of its identity and tell each other
//! their process and device. Ranks of one process go on within it.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use vireo_collectives::{
    BoundOperation, CollectiveOptions, Collectives, Contribution, GroupChannel, Meeting, Operation, Span,
};
use vireo_core::status::Result;
use vireo_hal::{
    Allocator, Buffer, BufferParams, BufferUsage, ChannelParams, CollectiveElementType, CollectiveKind, CollectiveOp,
    CollectiveReduction, HeapAllocator, MemoryAccess, MemoryType, buffer_to_vec, buffer_write,
};

use crate::identity::process_number;
use crate::status::{Failure, Outcome};

/// Bytes that a rank tells: the number of its process, and its device.
const FACTS: u64 = 20;

/// A rank that is to join a group.
pub(crate) struct Joining {
    pub(crate) id: Vec<u8>,
    pub(crate) address: String,
    pub(crate) rank: u32,
    pub(crate) count: u32,
    pub(crate) device: i32,
    pub(crate) limit: Duration,
}

/// The membership of a rank, and what keeps the connections between processes.
#[derive(Clone, Debug)]
pub(crate) struct Formed {
    pub(crate) channel: Arc<GroupChannel>,
    pub(crate) world: Option<Arc<Collectives>>,
}

impl Joining {
    fn channel(&self, meeting: Meeting) -> Outcome<Formed> {
        let options = CollectiveOptions {
            meeting,
            rank_and_count: Some((self.rank, self.count)),
            limit: self.limit,
            shares_memory: true,
        };
        let world = Collectives::new(options);
        let params = ChannelParams { id: self.id.clone(), rank: -1, count: -1, ..ChannelParams::default() };
        Ok(Formed { channel: world.channel(&params)?, world: Some(Arc::new(world)) })
    }
}

/// Joins the group, and waits until all ranks have.
///
/// # Errors
/// REMOTE_ERROR for ranks that do not come, INVALID_USAGE for ranks that disagree or are on one device.
pub(crate) fn form(joining: &Joining) -> Outcome<Formed> {
    if joining.count == 1 {
        return joining.channel(Meeting::Process("softnccl".to_string()));
    }
    let met = joining.channel(Meeting::Tcp(joining.address.clone()))?;
    let mut own = process_number().to_vec();
    own.extend_from_slice(&joining.device.to_le_bytes());
    let all = gather(&met.channel, joining.count, &own)?;
    let facts: Vec<(&[u8], &[u8])> = all.chunks_exact(FACTS as usize).map(|rank| rank.split_at(16)).collect();
    for (rank, here) in facts.iter().enumerate() {
        if let Some(other) = facts[..rank].iter().position(|other| other == here) {
            let device = here.1.first().copied().unwrap_or_default();
            let text = format!("Duplicate GPU detected : rank {other} and rank {rank} both on CUDA device {device}");
            return Err(Failure::usage(text));
        }
    }
    if facts.iter().any(|(process, _)| *process != facts[0].0) {
        return Ok(met);
    }
    joining.channel(Meeting::Process("softnccl".to_string()))
}

/// The bytes that all ranks tell, in their order.
fn gather(channel: &Arc<GroupChannel>, count: u32, own: &[u8]) -> Outcome<Vec<u8>> {
    let op = CollectiveOp {
        kind: CollectiveKind::ALL_GATHER,
        reduction: CollectiveReduction::NONE,
        element_type: CollectiveElementType::UINT_8,
    };
    let operation = Operation::new(op, 0, FACTS)?;
    let (send, recv) = (buffer(FACTS)?, buffer(FACTS * u64::from(count))?);
    buffer_write(&*send, 0, own)?;
    let span =
        |buffer: &Arc<dyn Buffer>| Some(Span { buffer: buffer.clone(), offset: 0, length: buffer.byte_length() });
    let bound = BoundOperation { operation, send: span(&send), recv: span(&recv) };
    let (sender, receiver) = mpsc::channel();
    let completion = Box::new(move |outcome: Result<_>| {
        // The receiver waits for it.
        let _ = sender.send(outcome.map(drop));
    });
    channel.ticket().arrive(Contribution::Operations(vec![bound]), completion);
    receiver.recv().map_err(|_| Failure::argument("the group ended while it was formed"))??;
    Ok(buffer_to_vec(&*recv, recv.byte_length())?)
}

fn buffer(length: u64) -> Result<Arc<dyn Buffer>> {
    let params = BufferParams {
        usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
        access: MemoryAccess::ALL,
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    };
    HeapAllocator::without_reuse().allocate_buffer(params, length)
}
