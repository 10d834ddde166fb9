//! The driver `amdgpu`: over the HSA library of the system, or over the software agent that is part of this build.

use std::path::PathBuf;
use std::sync::Arc;

use super::sanitizer::SanitizerChecks;
use vireo_amdgpu::agent::System;
use vireo_amdgpu::device::DeviceOptions;
use vireo_amdgpu::driver::AmdDriver;
#[cfg(feature = "software-agents")]
use vireo_amdgpu::symbols::{CompletionSignal, PacketCounters};
use vireo_amdgpu::symbols::{Hsa, load_library};
use vireo_core::status::{Result, Status};
#[cfg(feature = "software-agents")]
use vireo_hal::{Buffer, DeviceCounter, MappingMode, MemoryAccess, WHOLE_BUFFER};
use vireo_hal::{Driver, SecurityPolicy};
#[cfg(feature = "software-agents")]
use vireo_softhsa::{PacketObserver, PacketTrace};

/// Where the agents of `amdgpu` devices are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AmdgpuAgent {
    /// GPUs, by the HSA library of the system.
    #[default]
    Library,
    /// The software agent, which interprets the code of GPUs on the processor. The environment variable `VIREO_SOFTHSA`
    /// describes its machine.
    Software,
}

/// The configuration of the driver `amdgpu`.
#[derive(Clone, Debug, Default)]
pub struct AmdgpuConfig {
    /// Where the agents are.
    pub agent: AmdgpuAgent,
    /// Folders with the HSA library, or files, in the order in which they are tried. Without any, those of the
    /// environment variable `IREE_HAL_AMDGPU_LIBHSA_PATH` are, or those of the system.
    pub library_paths: Vec<PathBuf>,
    /// A trace of the packets that the software agent runs.
    #[cfg(feature = "software-agents")]
    pub packet_trace: Option<Arc<PacketTrace>>,
    /// The checks of the software agent, beside those that `VIREO_SOFTHSA` names. The first device decides for the
    /// process.
    pub sanitize: SanitizerChecks,
}

/// Creates the driver for programs under a policy.
pub(super) fn create(config: &AmdgpuConfig, policy: &SecurityPolicy) -> Result<Arc<dyn Driver>> {
    let hsa = match config.agent {
        AmdgpuAgent::Library if config.sanitize.any() => {
            let message = "the sanitizer checks kernels on the software agent, not on GPUs";
            return Err(Status::invalid_argument(message));
        }
        AmdgpuAgent::Library => {
            // SAFETY: the library is that of the system, or one that the user named for this; either is trusted like
            // the kernel driver.
            let (functions, library) = unsafe { load_library(&config.library_paths) }?;
            // SAFETY: the functions are those of the library, which is held with them.
            unsafe { Hsa::start(functions, Some(library)) }?
        }
        #[cfg(feature = "software-agents")]
        AmdgpuAgent::Software => {
            check_kernels(config.sanitize)?;
            trace(config)?;
            // SAFETY: the functions are those of one library, which is part of the program.
            let hsa = unsafe { Hsa::start(vireo_softhsa::functions(), None) }?;
            hsa.set_counters(Arc::new(KernelCounters));
            hsa
        }
        #[cfg(not(feature = "software-agents"))]
        AmdgpuAgent::Software => {
            return Err(Status::unimplemented(
                "this build has no software agent: use one with the feature `software-agents`, or the library that `cargo xtask soft` builds",
            ));
        }
    };
    #[cfg(feature = "software-agents")]
    let follows_memory = config.agent == AmdgpuAgent::Software
        && vireo_softhsa::active_checks().is_some_and(|checks| checks.memory || checks.init);
    #[cfg(not(feature = "software-agents"))]
    let follows_memory = false;
    let options = DeviceOptions {
        native_code: policy.native_code,
        zeroed_transients: policy.zeroed_memory,
        // Memory that the driver zeroes is written, and memory that it uses again is not freed.
        new_memory: follows_memory,
        memory: policy.limits.memory.clone(),
        ..DeviceOptions::default()
    };
    Ok(Arc::new(AmdDriver::new(System::discover(&hsa)?, options)))
}

/// The counters of the software agent.
#[cfg(feature = "software-agents")]
struct KernelCounters;

#[cfg(feature = "software-agents")]
impl PacketCounters for KernelCounters {
    fn counters(&self) -> Vec<DeviceCounter> {
        let counter = |counter: &vireo_softhsa::CounterInfo| DeviceCounter {
            block: "SQ",
            name: counter.name,
            description: counter.description,
        };
        vireo_softhsa::COUNTERS.iter().map(counter).collect()
    }

    fn enable(&self, enabled: bool) {
        vireo_softhsa::count_kernels(enabled);
    }

    fn take(&self, signal: CompletionSignal) -> Option<Box<[u64]>> {
        vireo_softhsa::take_counts(signal).map(|counts| counts.0.into())
    }
}

/// Sets the trace of the software agent before it starts.
#[cfg(feature = "software-agents")]
fn trace(config: &AmdgpuConfig) -> Result<()> {
    let observer = config.packet_trace.clone().map(|trace| trace as Arc<dyn PacketObserver>);
    match vireo_softhsa::trace_packets(observer) {
        // The trace that goes on was asked for by another device.
        Err(_) if config.packet_trace.is_none() => Ok(()),
        traced => traced.map_err(|_| {
            Status::failed_precondition(
                "the software agent runs already, and a trace of its packets begins when it starts",
            )
        }),
    }
}

/// Starts the software agent with these checks, besides what the environment says.
#[cfg(feature = "software-agents")]
fn check_kernels(wanted: SanitizerChecks) -> Result<()> {
    use vireo_softhsa::{Topology, VARIABLE, sanitize::Checks};
    if !wanted.any() {
        return Ok(());
    }
    let SanitizerChecks { memory, race, race_same_value, init } = wanted;
    let wanted = Checks { memory, race: race || race_same_value, same_value: race_same_value, init };
    let topology: std::result::Result<Topology, _> = std::env::var(VARIABLE).unwrap_or_default().parse();
    let mut topology = topology.map_err(|error| Status::invalid_argument(format!("{VARIABLE}: {error}")))?;
    topology.sanitize = topology.sanitize.or(wanted);
    if vireo_softhsa::configure(topology, None).is_ok() {
        return Ok(());
    }
    match vireo_softhsa::active_checks() {
        Some(active) if active.or(wanted) == active => Ok(()),
        _ => Err(Status::failed_precondition("the software agent runs already, without these checks of the sanitizer")),
    }
}

/// A buffer leaves the device for the host, under a name for reports: the check `init` of the software agent finds its
/// unwritten bytes, in memory that the host reaches. Where it does not, results are copied to where it does, and that
/// copy is checked as a kernel is.
#[cfg(feature = "software-agents")]
pub fn check_result(buffer: &dyn Buffer, name: &str) {
    if !vireo_softhsa::active_checks().is_some_and(|checks| checks.init) {
        return;
    }
    // The addresses of GPUs are those of the host.
    if let Ok(mapping) = buffer.map_range(MappingMode::SCOPED, MemoryAccess::READ, 0, WHOLE_BUFFER) {
        vireo_softhsa::check_result(mapping.data.addr().get() as u64, mapping.length, name);
    }
}

/// The code objects of an executable for AMD GPUs; none if the bytes are something else.
///
/// # Errors
/// If they begin as such an executable does, and are malformed.
#[cfg(feature = "software-agents")]
pub fn code_objects(bytes: &[u8]) -> Result<Vec<&[u8]>> {
    use vireo_amdgpu::executable::{Container, ContainerError};
    use vireo_hal::elf_format::{ELF_MAGIC, ElfMachine, FileHeader};
    let header = bytes.first_chunk::<{ FileHeader::SIZE }>().map(FileHeader::read);
    if header.is_some_and(|header| header.magic == ELF_MAGIC && header.machine != ElfMachine::AMDGPU.0) {
        return Ok(Vec::new());
    }
    match Container::read(bytes) {
        Ok(container) => Ok(container.modules),
        Err(ContainerError::Unknown(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
