//! Flags of `cuda` devices ([`CudaArguments`]).

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vireo::hal::{CudaConfig, CudaLibrary, SanitizerChecks, UseGraphs};

/// Where the devices of `cuda` are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CudaDriver {
    /// The library of the system.
    Library,
    /// The software driver.
    Software,
    /// A library, or a folder with one.
    Path(PathBuf),
}

/// When command buffers are executed as graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Graphs {
    /// Where that is faster.
    Auto,
    /// Always, where their commands can be nodes of graphs.
    Always,
    /// Never.
    Never,
}

/// Flags of `cuda` devices.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Devices of cuda")]
pub struct CudaArguments {
    /// The driver library of `cuda` devices: `library` is that of the system, `software` interprets PTX on the
    /// processor, anything else is the path of a library or of a folder with one.
    #[arg(long, value_name = "DRIVER", default_value = "library", value_parser = driver)]
    pub cuda_driver: CudaDriver,
    /// The library of collective operations of `cuda` devices, NCCL, or a folder with it. Otherwise it is that of the
    /// system, and with `--cuda_driver=software` NCCL in software.
    #[arg(long, value_name = "PATH")]
    pub cuda_nccl: Option<PathBuf>,
    /// When to execute command buffers as CUDA graphs.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Graphs::Auto)]
    pub cuda_use_graphs: Graphs,
    /// Execute command buffers by streams: `false` means `--cuda_use_graphs=always`.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub cuda_use_streams: Option<bool>,
    /// Take memory from the pools of the driver.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = true, default_missing_value = "true")]
    #[arg(require_equals = true, action = clap::ArgAction::Set)]
    pub cuda_async_allocations: bool,
    /// The device that `--device=cuda` names.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub cuda_default_index: usize,
    /// Take the device from the variables of MPI launchers, the rank among the processes of the machine, where they
    /// are set.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = true, default_missing_value = "true")]
    #[arg(require_equals = true, action = clap::ArgAction::Set)]
    pub cuda_default_index_from_mpi: bool,
    /// Write each call of the CUDA library to stderr, with its arguments and time.
    #[arg(long)]
    pub cuda_trace_calls: bool,
}

#[expect(clippy::unnecessary_wraps, reason = "parsers of values return results")]
fn driver(text: &str) -> Result<CudaDriver, String> {
    Ok(match text {
        "library" => CudaDriver::Library,
        "software" => CudaDriver::Software,
        path => CudaDriver::Path(path.into()),
    })
}

/// The variables with the rank among the processes of a machine, as launchers set them.
const LOCAL_RANKS: [&str; 2] = ["PMI_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"];

impl CudaArguments {
    /// The configuration that the driver starts from.
    pub fn config(&self, sanitize: SanitizerChecks) -> CudaConfig {
        let (library, library_paths) = match &self.cuda_driver {
            CudaDriver::Library => (CudaLibrary::System, Vec::new()),
            CudaDriver::Software => (CudaLibrary::Software, Vec::new()),
            CudaDriver::Path(path) => (CudaLibrary::System, vec![path.clone()]),
        };
        let graphs = match (self.cuda_use_graphs, self.cuda_use_streams) {
            (Graphs::Auto, Some(false)) | (Graphs::Always, _) => UseGraphs::Always,
            (Graphs::Never, _) => UseGraphs::Never,
            (Graphs::Auto, _) => UseGraphs::Auto,
        };
        let rank = || LOCAL_RANKS.iter().find_map(|name| std::env::var(name).ok()?.parse().ok());
        let of_launcher = if self.cuda_default_index_from_mpi { rank() } else { None };
        CudaConfig {
            library,
            library_paths,
            nccl_paths: self.cuda_nccl.iter().cloned().collect(),
            graphs,
            pools: self.cuda_async_allocations,
            default_index: of_launcher.unwrap_or(self.cuda_default_index),
            trace_calls: self.cuda_trace_calls,
            // Where the library is a real one, there is nothing that checks kernels.
            sanitize: if library == CudaLibrary::Software { sanitize } else { SanitizerChecks::default() },
            ..CudaConfig::default()
        }
    }
}
