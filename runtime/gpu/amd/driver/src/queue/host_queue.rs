//! The queues of a device ([`HostQueue`]): each is a queue of an agent, and another one after it has been ended.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::hardware::{PacketQueue, Sizes, queue_of_agent};
use crate::agent::GpuAgent;
use crate::command_buffer::KernelSource;
use crate::hal::TimesObserver;
use crate::hal_driver::device_queue::{Core, Owner};
use crate::status::{Result, Status};

/// Packets that a ring holds at least: the largest part of a submission fits it.
const LEAST_PACKETS: u32 = 256;

/// Packets that a ring holds by default.
const DEFAULT_PACKETS: u32 = 1024;

/// The sizes of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Packets of the ring, a power of two. Without it the ring has 1024, or as many as the agent allows.
    pub packets: Option<u32>,
    /// Bytes of memory for arguments.
    pub kernarg_bytes: u64,
    /// Whether that is memory of the GPU, which kernels read faster and the host writes through its link.
    pub kernargs_on_device: bool,
    /// How long a kernel may run without an end after its device is gone.
    pub drop_patience: Duration,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions {
            packets: None,
            kernarg_bytes: 1 << 20,
            kernargs_on_device: false,
            drop_patience: Duration::from_secs(10),
        }
    }
}

/// A queue of an agent.
pub(crate) type QueueCore = Core<PacketQueue>;

/// The parts of which a queue is made, and made anew.
struct Recipe {
    agent: Arc<GpuAgent>,
    sizes: Sizes,
    ordinal: u32,
    source: Arc<dyn KernelSource>,
}

impl Recipe {
    fn start(&self) -> Result<Owner<PacketQueue>> {
        Owner::start(queue_of_agent(&self.agent, self.sizes, self.ordinal, self.source.clone())?)
    }
}

/// The queue in place of one that was ended.
#[derive(Default)]
struct Later {
    owner: Option<Owner<PacketQueue>>,
    observer: Option<Arc<dyn TimesObserver>>,
}

/// A queue of a device. If the driver ends it, because a call was over before its kernel was, the next one who submits
/// gets a new one.
pub struct HostQueue {
    /// The first queue. It stays, so that nothing is locked to submit to it.
    first: Owner<PacketQueue>,
    later: Mutex<Later>,
    recipe: Recipe,
}

impl fmt::Debug for HostQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.first, f)
    }
}

/// A queue to submit to.
pub(crate) enum CoreRef<'a> {
    First(&'a Arc<QueueCore>),
    Later(Arc<QueueCore>),
}

impl Deref for CoreRef<'_> {
    type Target = Arc<QueueCore>;

    fn deref(&self) -> &Arc<QueueCore> {
        match self {
            CoreRef::First(core) => core,
            CoreRef::Later(core) => core,
        }
    }
}

impl HostQueue {
    /// A queue of an agent, the one at a place among those of its device. It keeps `source`, which its packets are
    /// recorded for.
    ///
    /// # Errors
    /// Those of the HSA library.
    pub(crate) fn new(
        agent: &Arc<GpuAgent>,
        options: QueueOptions,
        ordinal: u32,
        source: Arc<dyn KernelSource>,
    ) -> Result<HostQueue> {
        let QueueOptions { kernarg_bytes, kernargs_on_device, drop_patience: patience, .. } = options;
        let packets = ring_size(agent, options.packets)?;
        let sizes = Sizes { packets, kernarg_bytes, kernargs_on_device, patience };
        let recipe = Recipe { agent: agent.clone(), sizes, ordinal, source };
        let first = recipe.start()?;
        Ok(HostQueue { first, later: Mutex::default(), recipe })
    }

    /// Tells an observer of the times of submissions from here on; none ends that.
    pub(crate) fn observe(&self, observer: Option<Arc<dyn TimesObserver>>) {
        let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        later.observer.clone_from(&observer);
        observe(later.owner.as_ref().unwrap_or(&self.first), observer);
    }

    /// The queue, or the one that took its place.
    #[inline]
    pub(crate) fn core(&self) -> CoreRef<'_> {
        if self.first.core().is_ended() { self.later_core() } else { CoreRef::First(self.first.core()) }
    }

    #[cold]
    fn later_core(&self) -> CoreRef<'_> {
        let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = &later.owner
            && !owner.core().is_ended()
        {
            return CoreRef::Later(owner.core().clone());
        }
        let Ok(owner) = self.recipe.start() else {
            // Submissions to it fail, and say why it ended.
            return CoreRef::First(self.first.core());
        };
        if let Some(observer) = &later.observer {
            observe(&owner, Some(observer.clone()));
        }
        let core = owner.core().clone();
        let ended = later.owner.replace(owner);
        drop(later);
        // Its threads end by themselves, and this may wait for them.
        drop(ended);
        CoreRef::Later(core)
    }

    /// Whether it waits for other queues by packets.
    pub(crate) fn waits_on_device(&self) -> bool {
        self.first.core().hardware.waits_on_device()
    }
}

fn observe(owner: &Owner<PacketQueue>, observer: Option<Arc<dyn TimesObserver>>) {
    if let Some((times, queue)) = owner.core().hardware.times() {
        times.observe(queue, observer);
    }
}

/// Packets of the ring of a queue.
fn ring_size(agent: &GpuAgent, wanted: Option<u32>) -> Result<u32> {
    let most = agent.queue_max_size;
    if most < LEAST_PACKETS {
        let message = format!("{agent:?} has queues of at most {most} packets, expected at least {LEAST_PACKETS}");
        return Err(Status::failed_precondition(message));
    }
    let Some(packets) = wanted else {
        // The largest power of two that the agent allows, which is at least one.
        return Ok(1 << most.min(DEFAULT_PACKETS).ilog2());
    };
    if packets > most {
        let message = format!("queues of {packets} packets: {agent:?} has queues of at most {most}");
        return Err(Status::invalid_argument(message));
    }
    if packets < LEAST_PACKETS || !packets.is_power_of_two() {
        let message = format!("queues of {packets} packets: expected a power of two from {LEAST_PACKETS}");
        return Err(Status::invalid_argument(message));
    }
    Ok(packets)
}
