//! Options of devices ([`DeviceOptions`]): what the driver was made with, and parameters of URIs.

use crate::collectives::LibrarySource;
use crate::hal::StringPair;
use crate::hal_driver::collectives::Collectives;
use crate::limits::MemoryBudget;
use crate::status::{Result, Status};

/// Most streams of a device.
const MAX_STREAMS: u64 = 64;

/// When command buffers are executed as graphs of the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UseGraphs {
    /// From the second execution of a command buffer on, if it has enough commands.
    #[default]
    Auto,
    /// From the first execution on, where the commands can be nodes of a graph.
    Always,
    /// Never.
    Never,
}

/// The options that devices are made with.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Streams of each GPU.
    pub streams: usize,
    /// When command buffers are executed as graphs.
    pub graphs: UseGraphs,
    /// Whether memory is taken from pools of the library, where it has such.
    pub pools: bool,
    /// Whether programs may bring code for the device.
    pub native_code: bool,
    /// Whether the memory of transient buffers is zeroed.
    pub zeroed_transients: bool,
    /// Whether each buffer is an allocation of its own that the driver does not write to, so that a sanitizer of the
    /// library sees what programs do with it. Otherwise buffers that are not transient begin as zeros, and memory is
    /// used again.
    pub new_memory: bool,
    /// The budget that memory is charged to.
    pub memory: Option<MemoryBudget>,
    /// How channels find the other ranks of a program.
    pub collectives: Collectives,
    /// Where the library of collective operations is from. It is loaded with the first channel.
    pub collectives_library: LibrarySource,
    /// Whether each call of that library is written to stderr.
    pub trace_collectives: bool,
}

impl Default for DeviceOptions {
    fn default() -> DeviceOptions {
        DeviceOptions {
            streams: 1,
            graphs: UseGraphs::Auto,
            pools: true,
            native_code: true,
            zeroed_transients: false,
            new_memory: false,
            memory: None,
            collectives: Collectives::default(),
            collectives_library: LibrarySource::default(),
            trace_collectives: false,
        }
    }
}

impl DeviceOptions {
    /// The options with those of a URI.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a key or value that there is not.
    pub fn with_params(mut self, params: &[StringPair]) -> Result<DeviceOptions> {
        for StringPair { key, value } in params {
            let wrong = |expected: &str| Status::invalid_argument(format!("`{key}={value}`: expected {expected}"));
            match key.as_str() {
                "streams" => {
                    let streams = value.parse().ok().filter(|streams| (1..=MAX_STREAMS).contains(streams));
                    self.streams = streams.ok_or_else(|| wrong("a number from 1 to 64"))? as usize;
                }
                "graphs" => {
                    self.graphs = match value.as_str() {
                        "auto" => UseGraphs::Auto,
                        "always" => UseGraphs::Always,
                        "never" => UseGraphs::Never,
                        _ => return Err(wrong("`auto`, `always` or `never`")),
                    };
                }
                "pools" => {
                    self.pools = match value.as_str() {
                        "on" => true,
                        "off" => false,
                        _ => return Err(wrong("`on` or `off`")),
                    };
                }
                _ => {
                    let message = format!("the driver has no option `{key}`: it has `streams`, `graphs` and `pools`");
                    return Err(Status::invalid_argument(message));
                }
            }
        }
        Ok(self)
    }
}
