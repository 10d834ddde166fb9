//! The machine that the software agent pretends to be ([`Topology`]): its GPUs and their limits, features that it
//! lacks, and how late the writes of the host reach a GPU. Read from the text of flags and of the environment variable
//! [`VARIABLE`].

use std::path::PathBuf;
use std::str::FromStr;

use vireo_gfx::HalfSums;
use vireo_hsa::targets::PROCESSORS;
use vireo_simt::sanitize::Checks;
use vireo_soft::options::{OptionError, settings};

/// The environment variable that configures the library.
pub const VARIABLE: &str = "VIREO_SOFTHSA";

/// GPUs at most: each has a bit of a mask, of which the processor takes one.
const MAX_AGENTS: u32 = 32;

/// When the writes of the host to memory that GPUs keep in caches become visible to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostWrites {
    /// At once.
    #[default]
    Visible,
    /// When a packet acquires at system scope, for coarse-grained memory. The writes of a GPU are hidden from the host
    /// in the same way, until a packet releases at system scope.
    UntilAcquire,
    /// When the host writes to the register that flushes the host data path (HDP), for all memory of GPUs.
    UntilFlush,
}

/// The order of kernels whose packets have no barrier bit. Hardware overlaps them, so programs that need an order and
/// do not ask for it fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketOrder {
    /// That of the queue.
    #[default]
    Queue,
    /// The opposite one, as far as they are published.
    Reversed,
    /// None: they run at the same time, each on a thread of its own.
    Overlapped,
}

/// The links between GPUs. The host is at the other end of PCI Express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerLinks {
    /// PCI Express.
    #[default]
    Pcie,
    /// xGMI, whose GPUs are closer to each other than to the host.
    Xgmi,
}

/// A feature that the agent may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Fine-grained memory of GPUs.
    FineGrained,
    /// Access of the host to the memory of GPUs.
    LargeBar,
    /// Access of GPUs to the memory of each other.
    Peers,
    /// Atomic operations across links.
    Atomics,
    /// Coherency across links.
    Coherency,
    /// The register that flushes the host data path: there is no such path.
    Hdp,
    /// The interface for shared virtual memory.
    Svm,
    /// The interface for virtual memory: addresses apart from memory.
    VirtualMemory,
    /// The extension for loaded code objects.
    Loader,
}

impl Feature {
    /// Every feature with the name that texts have for it.
    const NAMED: [(&'static str, Feature); 9] = [
        ("fine-grained", Feature::FineGrained),
        ("large-bar", Feature::LargeBar),
        ("peers", Feature::Peers),
        ("atomics", Feature::Atomics),
        ("coherency", Feature::Coherency),
        ("hdp", Feature::Hdp),
        ("svm", Feature::Svm),
        ("virtual-memory", Feature::VirtualMemory),
        ("loader", Feature::Loader),
    ];
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Number of GPUs.
    pub agents: u32,
    /// Queues of a GPU at most.
    pub queues: u32,
    /// Packets of a queue at most, a power of two.
    pub queue_size: u32,
    /// Bytes of memory of a GPU.
    pub memory: u64,
    /// Bytes of memory of the host.
    pub host_memory: u64,
    /// The processor that GPUs say they are, such as `gfx1100`.
    pub isa: String,
    /// Compute units of a GPU.
    pub compute_units: u32,
    /// The links between GPUs.
    pub peer_links: PeerLinks,
    /// When writes of the host become visible.
    pub host_writes: HostWrites,
    /// The order of kernels whose packets have no barrier bit.
    pub order: PacketOrder,
    /// How products of matrices whose results have 16 bits add up.
    pub half_sums: HalfSums,
    /// The checks of accesses of kernels. A kernel runs on one thread then, so that reports are the same each time.
    pub sanitize: Checks,
    /// Features that the machine lacks.
    pub without: Vec<Feature>,
    /// The file that a trace of packets is written to, unless the host observes them itself: JSON that Perfetto opens
    /// if its name ends in `.json`, else text.
    pub trace: Option<PathBuf>,
}

impl Default for Topology {
    fn default() -> Self {
        Topology {
            agents: 1,
            queues: 128,
            queue_size: 1 << 17,
            memory: 16 << 30,
            host_memory: 32 << 30,
            isa: "gfx1100".to_string(),
            compute_units: 4,
            peer_links: PeerLinks::Pcie,
            host_writes: HostWrites::Visible,
            order: PacketOrder::default(),
            half_sums: HalfSums::default(),
            sanitize: Checks::default(),
            without: Vec::new(),
            trace: None,
        }
    }
}

/// The error for a text that is no topology, or a machine that there cannot be.
pub type TopologyError = OptionError;

impl Topology {
    /// True unless the machine lacks it.
    pub fn has(&self, feature: Feature) -> bool {
        !self.without.contains(&feature)
    }

    /// Lanes of a wave of the processor.
    pub(crate) fn wave_size(&self) -> u32 {
        // A topology whose processor has no row is refused before.
        PROCESSORS.iter().find(|processor| processor.name == self.isa).map_or(1, |processor| processor.wave_size)
    }

    /// Refuses numbers that no machine has.
    pub(crate) fn check(&self) -> Result<(), TopologyError> {
        let wrong = |name: &str, why: String| Err(OptionError::Refused { name: name.to_string(), why });
        if self.agents > MAX_AGENTS {
            return wrong("agents", format!("{} is more than {MAX_AGENTS}", self.agents));
        }
        if !self.queue_size.is_power_of_two() || self.queue_size > 1 << 20 {
            return wrong("queue-size", format!("{} is not a power of two up to {}", self.queue_size, 1 << 20));
        }
        if self.compute_units == 0 || self.compute_units > 1 << 16 {
            return wrong("compute-units", format!("{} is not between 1 and {}", self.compute_units, 1 << 16));
        }
        if !PROCESSORS.iter().any(|processor| processor.name == self.isa) {
            return wrong("isa", format!("`{}` is not the name of a processor", self.isa));
        }
        if self.host_writes == HostWrites::UntilFlush && !self.has(Feature::Hdp) {
            return wrong("without", "writes of the host wait until a flush, which needs hdp".to_string());
        }
        Ok(())
    }
}

impl FromStr for Topology {
    type Err = TopologyError;

    /// Reads what [`VARIABLE`] may hold, such as `agents=2,queues=4,queue-size=1024,memory=1GiB,host-memory=4GiB`,
    /// `isa=gfx1100,compute-units=8,peer-links=xgmi,host-writes=until-acquire,order=overlapped` or
    /// `sanitize=memory+race+init,without=svm+peers,trace=packets.json`; each name that is absent has its default.
    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let mut topology = Topology::default();
        for setting in settings(text) {
            let setting = setting?;
            match setting.name {
                "agents" => topology.agents = setting.number()?,
                "queues" => topology.queues = setting.number()?,
                "queue-size" => topology.queue_size = setting.number()?,
                "memory" => topology.memory = setting.bytes()?,
                "host-memory" => topology.host_memory = setting.bytes()?,
                "isa" => topology.isa = setting.value.to_string(),
                "compute-units" => topology.compute_units = setting.number()?,
                "peer-links" => {
                    topology.peer_links = setting.choice(&[("pcie", PeerLinks::Pcie), ("xgmi", PeerLinks::Xgmi)])?;
                }
                "host-writes" => {
                    topology.host_writes = setting.choice(&[
                        ("visible", HostWrites::Visible),
                        ("until-acquire", HostWrites::UntilAcquire),
                        ("until-flush", HostWrites::UntilFlush),
                    ])?;
                }
                "order" => {
                    topology.order = setting.choice(&[
                        ("queue", PacketOrder::Queue),
                        ("reversed", PacketOrder::Reversed),
                        ("overlapped", PacketOrder::Overlapped),
                    ])?;
                }
                "half-sums" => {
                    topology.half_sums = setting.choice(&[("pairs", HalfSums::Pairs), ("once", HalfSums::Once)])?;
                }
                "sanitize" => topology.sanitize = setting.parsed()?,
                "without" => topology.without.extend(setting.several(&Feature::NAMED)?),
                "trace" => topology.trace = Some(PathBuf::from(setting.value)),
                _ => return Err(setting.unknown()),
            }
        }
        topology.check()?;
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let text = "agents=2, queues=4,queue-size=1024,memory=1GiB,host-memory=2GiB,isa=gfx1201,compute-units=8,\
                    peer-links=xgmi,host-writes=until-flush,order=reversed,half-sums=once,sanitize=memory+init,without=svm+peers,trace=a.json";
        let expected = Topology {
            agents: 2,
            queues: 4,
            queue_size: 1024,
            memory: 1 << 30,
            host_memory: 2 << 30,
            isa: "gfx1201".to_string(),
            compute_units: 8,
            peer_links: PeerLinks::Xgmi,
            host_writes: HostWrites::UntilFlush,
            order: PacketOrder::Reversed,
            half_sums: HalfSums::Once,
            sanitize: Checks { memory: true, init: true, ..Checks::default() },
            without: vec![Feature::Svm, Feature::Peers],
            trace: Some(PathBuf::from("a.json")),
        };
        assert_eq!(text.parse(), Ok(expected));
        assert_eq!("".parse(), Ok(Topology::default()));
    }

    #[test]
    fn wrong_options_are_refused() {
        let cases = [
            ("agents", "`agents` has no `=`"),
            ("agent=1", "there is no option `agent`"),
            ("agents=-1", "agents: `-1` is not a number"),
            ("agents=33", "agents: 33 is more than 32"),
            ("queue-size=3", "queue-size: 3 is not a power of two up to 1048576"),
            ("compute-units=0", "compute-units: 0 is not between 1 and 65536"),
            ("memory=much", "memory: `much` is not a number of bytes"),
            ("isa=", "isa: `` is not the name of a processor"),
            ("peer-links=rope", "peer-links: `rope` is not pcie or xgmi"),
            ("host-writes=until-flush,without=hdp", "without: writes of the host wait until a flush, which needs hdp"),
            ("host-writes=late", "host-writes: `late` is not visible, until-acquire or until-flush"),
            ("sanitize=all", "sanitize: `all` is not one of memory, race, race-same-value, init"),
            ("half-sums=all", "half-sums: `all` is not pairs or once"),
            ("order=any", "order: `any` is not queue, reversed or overlapped"),
            (
                "without=fine",
                "without: `fine` is not one of fine-grained, large-bar, peers, atomics, coherency, hdp, svm, virtual-memory, loader",
            ),
        ];
        for (text, error) in cases {
            let refused = text.parse::<Topology>().expect_err(text);
            assert_eq!(refused.to_string(), error, "{text}");
        }
    }
}
