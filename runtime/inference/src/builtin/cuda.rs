//! The driver `cuda`: over the CUDA driver library of the system, or over the software driver that is part of this
//! build.

use std::path::PathBuf;
use std::sync::Arc;

use vireo_core::status::{Result, Status};
use vireo_cuda_driver::library;
use vireo_hal::{Driver, SecurityPolicy};
use vireo_local::Collectives;
use vireo_stream::api::Tracer;
use vireo_stream::collectives::LibrarySource;
use vireo_stream::device::DeviceOptions;
pub use vireo_stream::device::UseGraphs;
use vireo_stream::driver::StreamDriver;
use vireo_stream::instance::PrintTracer;

use super::sanitizer::SanitizerChecks;

/// Where the devices of `cuda` are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CudaLibrary {
    /// GPUs, by the CUDA driver library of the system.
    #[default]
    System,
    /// The software driver, which interprets PTX on the processor. The environment variable `VIREO_SOFTCUDA` describes
    /// its machine.
    Software,
}

/// The configuration of the driver `cuda`.
#[derive(Clone, Debug)]
pub struct CudaConfig {
    /// Where the devices are.
    pub library: CudaLibrary,
    /// Folders with the CUDA driver library, or files, in the order in which they are tried. Without any, those of the
    /// system are.
    pub library_paths: Vec<PathBuf>,
    /// Folders with NCCL, for collective operations, or files, in the order in which they are tried. Without any, those
    /// of the system are, or NCCL in software with the software driver. It is loaded when a program creates a channel.
    pub nccl_paths: Vec<PathBuf>,
    /// When command buffers are executed as graphs of the library.
    pub graphs: UseGraphs,
    /// Whether memory is taken from pools of the library, where it has such.
    pub pools: bool,
    /// Streams of each GPU, at least one. Their numbers are the bits of queue affinities.
    pub streams: usize,
    /// The device that a URI without a path names.
    pub default_index: usize,
    /// Whether each call of the library is written to stderr, with its time.
    pub trace_calls: bool,
    /// The checks of the software driver, beside those that `VIREO_SOFTCUDA` names. The first device decides for the
    /// process.
    pub sanitize: SanitizerChecks,
}

impl Default for CudaConfig {
    fn default() -> CudaConfig {
        CudaConfig {
            library: CudaLibrary::System,
            library_paths: Vec::new(),
            nccl_paths: Vec::new(),
            graphs: UseGraphs::Auto,
            pools: true,
            streams: 1,
            default_index: 0,
            trace_calls: false,
            sanitize: SanitizerChecks::default(),
        }
    }
}

/// Creates the driver for programs under a policy, whose channels find other ranks as `collectives` say.
pub(super) fn create(
    config: &CudaConfig,
    policy: &SecurityPolicy,
    collectives: &Collectives,
) -> Result<Arc<dyn Driver>> {
    let tracer = || config.trace_calls.then(|| Box::new(PrintTracer) as Box<dyn Tracer>);
    let library = match config.library {
        CudaLibrary::System if config.sanitize.any() => {
            return Err(Status::invalid_argument("the sanitizer checks kernels on the software driver, not on GPUs"));
        }
        // SAFETY: the library is that of the system, or one that the user named for this; either is trusted like the
        // kernel driver.
        CudaLibrary::System => unsafe { library::load(&config.library_paths, tracer()) }?,
        #[cfg(feature = "software-agents")]
        CudaLibrary::Software => {
            check_kernels(config.sanitize)?;
            // SAFETY: it finds the functions of one library, which is part of the program.
            unsafe { library::start_found(vireo_softcuda::entries::cuGetProcAddress_v2, tracer()) }?
        }
        #[cfg(not(feature = "software-agents"))]
        CudaLibrary::Software => {
            return Err(Status::unimplemented(
                "this build has no software driver: use one with the feature `software-agents`, or the library that `cargo xtask soft` builds",
            ));
        }
    };
    #[cfg(feature = "software-agents")]
    let follows_memory = config.library == CudaLibrary::Software
        && vireo_softcuda::active_checks().is_some_and(|checks| checks.memory || checks.init);
    #[cfg(not(feature = "software-agents"))]
    let follows_memory = false;
    let options = DeviceOptions {
        streams: config.streams.max(1),
        graphs: config.graphs,
        pools: config.pools,
        native_code: policy.native_code,
        zeroed_transients: policy.zeroed_memory,
        // Memory that the driver zeroes is written, and memory that it uses again is not freed.
        new_memory: follows_memory,
        memory: policy.limits.memory.clone(),
        collectives: collectives.clone(),
        collectives_library: nccl(config),
        trace_collectives: config.trace_calls,
    };
    Ok(Arc::new(StreamDriver::new(library, config.default_index, options)?))
}

/// Where NCCL is.
fn nccl(config: &CudaConfig) -> LibrarySource {
    #[cfg(feature = "software-agents")]
    if config.library == CudaLibrary::Software && config.nccl_paths.is_empty() {
        // SAFETY: it finds the functions of one library, which is part of the program.
        unsafe { vireo_softnccl::use_driver(vireo_softcuda::entries::cuGetProcAddress_v2) };
        return LibrarySource::Functions(vireo_softnccl::functions());
    }
    LibrarySource::Paths(config.nccl_paths.clone())
}

/// Starts the software driver with these checks, besides what the environment says.
#[cfg(feature = "software-agents")]
fn check_kernels(wanted: SanitizerChecks) -> Result<()> {
    use vireo_softcuda::{Options, VARIABLE, sanitize::Checks};
    if !wanted.any() {
        return Ok(());
    }
    let SanitizerChecks { memory, race, race_same_value, init } = wanted;
    let wanted = Checks { memory, race: race || race_same_value, same_value: race_same_value, init };
    let options: std::result::Result<Options, _> = std::env::var(VARIABLE).unwrap_or_default().parse();
    let mut options = options.map_err(|error| Status::invalid_argument(format!("{VARIABLE}: {error}")))?;
    options.sanitize = options.sanitize.or(wanted);
    if vireo_softcuda::configure(options).is_ok() {
        return Ok(());
    }
    match vireo_softcuda::active_checks() {
        Some(active) if active.or(wanted) == active => Ok(()),
        _ => {
            Err(Status::failed_precondition("the software driver runs already, without these checks of the sanitizer"))
        }
    }
}
