//! Executables for NVIDIA GPUs as data ([`CudaExecutable`]): the targets of their modules and what their kernels need.
//! `requirements` and the command line show them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use vireo_core::byte_size;
use vireo_core::status::{Result, Status};
use vireo_core::visible_text::visible;
use vireo_cuda_driver::{NAMES, target_of, version_of};
use vireo_hal::Device;
use vireo_stream::device::StreamDevice;
use vireo_stream::executable::{Container, KernelResources};

/// An executable for NVIDIA GPUs. Nothing of it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaExecutable {
    /// Its modules.
    pub modules: Vec<CudaModule>,
    /// Its kernels, in the order of their ordinals.
    pub kernels: Vec<CudaKernel>,
    /// How devices of the host take it, if there are any.
    pub devices: Vec<CudaDevice>,
}

/// A module of PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaModule {
    /// The target of its code, `sm_80`; empty for a module that names none.
    pub target: String,
    /// The version of PTX, `7.6`; empty for a module that names none.
    pub version: String,
    /// Bytes of its text.
    pub bytes: u64,
}

/// A kernel of an executable for NVIDIA GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaKernel {
    /// Its name.
    pub name: String,
    /// The number of its module.
    pub module: usize,
    /// Bytes of its arguments: addresses of bindings, then constants.
    pub argument_bytes: usize,
    /// Its bindings.
    pub bindings: usize,
    /// Its constants of 32 bits.
    pub constants: u32,
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
}

/// How a device of the host takes an executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaDevice {
    /// The GPU.
    pub name: String,
    /// The resources of each kernel there, or why the device does not take the executable.
    pub kernels: std::result::Result<Vec<CudaResources>, String>,
}

/// The resources of a kernel on a device, as its library says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaResources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory of a block that the kernel itself has.
    pub shared_bytes: u32,
    /// Bytes of memory that a thread has to itself.
    pub local_bytes: u32,
    /// Threads of a block at most.
    pub block_threads: u32,
}

impl CudaExecutable {
    /// The driver whose devices run them. Programs look for a device of this name.
    pub const DRIVER: &str = NAMES.driver;

    /// The name of the format.
    pub const FORMAT: &str = NAMES.format;

    /// Reads an executable.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is none or is malformed.
    pub fn read(data: &[u8]) -> Result<CudaExecutable> {
        let Container { modules, exports } = Container::read(data)?;
        let module = |text: &&str| CudaModule {
            target: target_of(text).map_or_else(String::new, |target| format!("sm_{target}")),
            version: version_of(text).unwrap_or_default().to_string(),
            bytes: text.len() as u64,
        };
        let kernels = exports.into_iter().map(|export| CudaKernel {
            argument_bytes: export.argument_bytes(),
            name: export.name,
            module: export.module,
            bindings: export.bindings.len(),
            constants: export.constants,
            block: export.block,
            shared_bytes: export.shared,
        });
        Ok(CudaExecutable {
            modules: modules.iter().map(module).collect(),
            kernels: kernels.collect(),
            devices: Vec::new(),
        })
    }

    /// The text of each module.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is no executable or is malformed.
    pub fn texts(data: &[u8]) -> Result<Vec<&str>> {
        Ok(Container::read(data)?.modules)
    }

    /// Asks those of the devices that run such executables what its kernels take there. Each loads the code to find
    /// out, and runs none of it.
    pub(crate) fn ask(&mut self, devices: &[Arc<dyn Device>], data: &[u8]) {
        let streams = devices.iter().filter_map(|device| {
            let any: &dyn Any = &**device;
            any.downcast_ref::<StreamDevice>()
        });
        for (name, outcome) in streams.flat_map(|device| device.resources(data)) {
            let resources = |kernel: KernelResources| CudaResources {
                registers: kernel.registers,
                shared_bytes: kernel.static_shared,
                local_bytes: kernel.local,
                block_threads: kernel.block_threads,
            };
            let kernels = outcome.map(|kernels| kernels.into_iter().map(resources).collect());
            self.devices.push(CudaDevice { name, kernels: kernels.map_err(|status: Status| status.to_string()) });
        }
    }

    /// Why no device of the host takes it, if there are devices and none does.
    pub(crate) fn refusal(&self) -> Option<&str> {
        let all_refuse = self.devices.iter().all(|device| device.kernels.is_err());
        let first = self.devices.first().filter(|_| all_refuse)?;
        first.kernels.as_ref().err().map(String::as_str)
    }
}

/// A line for each module and kernel, below that of the format.
impl fmt::Display for CudaExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for CudaModule { target, version, bytes } in &self.modules {
            let bytes = byte_size::text(*bytes);
            writeln!(f, "    PTX {} for {}, {bytes}", visible(version), visible(target))?;
        }
        for (index, kernel) in self.kernels.iter().enumerate() {
            let CudaKernel { name, argument_bytes, block: [x, y, z], shared_bytes, .. } = kernel;
            let memory = |bytes: u32| byte_size::text(bytes.into());
            let shared = match shared_bytes {
                0 => String::new(),
                bytes => format!(" with {} of dynamic shared memory", memory(*bytes)),
            };
            let name = name.escape_debug();
            writeln!(f, "    {name}: {argument_bytes} bytes of arguments, blocks of {x} x {y} x {z}{shared}")?;
            for CudaDevice { name, kernels } in &self.devices {
                let Some(of) = kernels.as_ref().ok().and_then(|kernels| kernels.get(index)) else { continue };
                writeln!(
                    f,
                    "      {}: {} registers, {} of shared and {} of local memory, blocks of at most {} threads",
                    visible(name),
                    of.registers,
                    memory(of.shared_bytes),
                    memory(of.local_bytes),
                    of.block_threads
                )?;
            }
        }
        for CudaDevice { name, kernels } in &self.devices {
            if let Err(why) = kernels {
                writeln!(f, "    {} refuses it: {}", visible(name), visible(why))?;
            }
        }
        Ok(())
    }
}
