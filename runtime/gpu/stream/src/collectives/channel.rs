//! Channels of programs ([`StreamChannel`]) over ranks of the library. A rank is made on a thread of the channel, which
//! also splits it and ends it.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use vireo_cuda::nccl::types::{CChar, NcclUniqueId, UNIQUE_ID_BYTES};

use super::communicator::Communicator;
use super::library::CollectivesLibrary;
use crate::context::Context;
use crate::hal::{
    Allocator, Buffer, BufferParams, BufferUsage, Channel, ChannelFlags, ChannelParams, ChannelRank,
    CollectiveElementType, CollectiveKind, CollectiveOp, CollectiveReduction, HeapAllocator, MemoryAccess, MemoryType,
    buffer_to_vec, buffer_write,
};
use crate::hal_driver::collectives::{BoundOperation, Collectives, Contribution, GroupChannel, Operation, Span};
use crate::status::{Result, Status};

/// Something for the thread of a channel.
enum Request {
    /// Joins a group.
    Join(Identity),
    /// Splits the group.
    Split { color: i32, key: i32, child: Arc<Communicator> },
}

/// The identity of a group, or what brings it.
enum Identity {
    Known(NcclUniqueId),
    /// The ranks of the group, among which rank 0 tells it.
    Told(Arc<GroupChannel>, Box<Collectives>, u32),
}

/// A channel: a rank of a group, on a GPU.
pub struct StreamChannel {
    pub(super) communicator: Arc<Communicator>,
    requests: Sender<Request>,
}

impl fmt::Debug for StreamChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "channel of {:?}", self.communicator.context)
    }
}

/// Creates a channel of a GPU. It returns at once; failures of the other ranks are those of the first operation.
///
/// # Errors
/// Those of the collectives of the device and of their provider, and of the library.
pub fn create(
    library: &Arc<CollectivesLibrary>,
    context: &Arc<Context>,
    collectives: &Collectives,
    params: &ChannelParams,
) -> Result<Arc<StreamChannel>> {
    let (rank, count) = collectives.rank_and_count(params)?;
    // Both are below the limit of ranks.
    let place = ChannelRank { rank: rank.cast_signed(), count: count.cast_signed() };
    let own = || {
        // SAFETY: the result is a value.
        let id = unsafe { library.calls().unique_id() };
        id.map_err(Status::from)
    };
    let identity = match collectives.provider().filter(|_| params.id.is_empty()) {
        _ if params.id.len() as u64 == UNIQUE_ID_BYTES => Identity::Known(identity_of(&params.id)?),
        Some(provider) => {
            let own = if rank == 0 { bytes_of(&own()?) } else { vec![0; UNIQUE_ID_BYTES as usize] };
            Identity::Known(identity_of(&provider.exchange_default_id(&own)?)?)
        }
        // A rank alone tells no other one.
        None if count == 1 => Identity::Known(own()?),
        None => Identity::Told(collectives.channel(params)?, Box::new(collectives.clone()), rank),
    };
    let communicator = Communicator::new(library, context, collectives.limit(), Some(place));
    let channel = start(communicator)?;
    channel.request(Request::Join(identity));
    Ok(channel)
}

/// A channel with its thread.
fn start(communicator: Arc<Communicator>) -> Result<Arc<StreamChannel>> {
    let (requests, received) = channel();
    let of_thread = communicator.clone();
    let thread = thread::Builder::new().name("vireo-channel".into()).spawn(move || run(&of_thread, &received));
    thread.map_err(|error| Status::resource_exhausted("no thread for a channel").with_source(error))?;
    Ok(Arc::new(StreamChannel { communicator, requests }))
}

/// Runs until the channel and all programs with it are gone.
fn run(communicator: &Communicator, requests: &Receiver<Request>) {
    while let Ok(request) = requests.recv() {
        match request {
            Request::Join(Identity::Known(id)) => communicator.join(Ok(id)),
            Request::Join(Identity::Told(ranks, collectives, rank)) => {
                communicator.join(tell(communicator, &ranks, rank));
                drop((ranks, collectives));
            }
            Request::Split { color, key, child } => {
                communicator.wait_until_made();
                communicator.split(color, key, &child);
            }
        }
    }
    communicator.leave();
}

/// Tells the others the identity that this rank makes, or is told that of rank 0.
fn tell(communicator: &Communicator, ranks: &Arc<GroupChannel>, rank: u32) -> Result<NcclUniqueId> {
    let memory = memory()?;
    if rank == 0 {
        // SAFETY: the result is a value.
        let id = unsafe { communicator.library.calls().unique_id() };
        buffer_write(&*memory, 0, &bytes_of(&id?))?;
    }
    let op = CollectiveOp {
        kind: CollectiveKind::BROADCAST,
        reduction: CollectiveReduction::NONE,
        element_type: CollectiveElementType::UINT_8,
    };
    let span = || Some(Span { buffer: memory.clone(), offset: 0, length: UNIQUE_ID_BYTES });
    let bound = BoundOperation { operation: Operation::new(op, 0, UNIQUE_ID_BYTES)?, send: span(), recv: span() };
    let (sender, receiver) = channel();
    let completion = Box::new(move |outcome: Result<_>| {
        // This thread waits for it.
        let _ = sender.send(outcome.map(drop));
    });
    ranks.ticket().arrive(Contribution::Operations(vec![bound]), completion);
    receiver.recv().map_err(|_| Status::internal("a round without an end"))??;
    identity_of(&buffer_to_vec(&*memory, UNIQUE_ID_BYTES)?)
}

/// Memory of the host for an identity.
fn memory() -> Result<Arc<dyn Buffer>> {
    let params = BufferParams {
        usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
        access: MemoryAccess::ALL,
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    };
    HeapAllocator::without_reuse().allocate_buffer(params, UNIQUE_ID_BYTES)
}

fn bytes_of(id: &NcclUniqueId) -> Vec<u8> {
    id.internal.iter().map(|byte| byte.0).collect()
}

fn identity_of(bytes: &[u8]) -> Result<NcclUniqueId> {
    let bytes: [u8; UNIQUE_ID_BYTES as usize] = bytes.try_into().map_err(|_| {
        let length = bytes.len();
        Status::invalid_argument(format!("an id of {length} bytes: NCCL has ids of {UNIQUE_ID_BYTES}"))
    })?;
    Ok(NcclUniqueId { internal: bytes.map(CChar) })
}

impl StreamChannel {
    /// Lets the thread do something before operations may be given.
    fn request(&self, request: Request) {
        // The thread is there as long as this is.
        let _ = self.requests.send(request);
    }

    /// Whether it is a rank on this GPU.
    pub fn is_on(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.communicator.context, context)
    }
}

impl Channel for StreamChannel {
    /// Returns at once. The new channel is usable from then on; its rank is known once all ranks have split.
    fn split(&self, color: i32, key: i32, _flags: ChannelFlags) -> Result<Arc<dyn Channel>> {
        let Communicator { library, context, limit, .. } = &*self.communicator;
        let child = Communicator::new(library, context, *limit, None);
        let channel = start(child.clone())?;
        self.communicator.announce();
        self.request(Request::Split { color, key, child });
        Ok(channel)
    }

    /// Of a channel that was split off: blocks until all ranks have split, at most as long as ranks wait for each
    /// other. Rank -1 of 0 ranks if it joins no group, or that failed.
    fn rank_and_count(&self) -> ChannelRank {
        self.communicator.place()
    }
}
