//! Executables for AMD GPUs as data ([`GpuExecutable`]): their target and what their kernels need. `requirements` and
//! the command line show them.

use std::fmt;

use vireo_amdgpu::TargetId;
use vireo_amdgpu::driver::DRIVER_NAME;
use vireo_amdgpu::executable::Container;
use vireo_core::byte_size;
use vireo_core::status::Result;
use vireo_core::visible_text::visible;

/// An executable for AMD GPUs. Nothing of it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuExecutable {
    /// The processor that its code is for, with the state of its features: `gfx1100`, `gfx942:xnack-`. It is the format
    /// of the executable, too.
    pub target: String,
    /// Its kernels, in the order of their ordinals.
    pub kernels: Vec<GpuKernel>,
    /// The instructions that the software agent does not execute: mnemonics with their offsets and kernels. The agent
    /// refuses to load such an executable; GPUs run it. Empty in builds without the agent.
    pub software_agent_lacks: Vec<String>,
}

/// A kernel of an executable for AMD GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuKernel {
    /// Its name.
    pub name: String,
    /// Bytes of its arguments.
    pub kernarg_bytes: u32,
    /// Work-items of a work-group.
    pub workgroup_size: [u16; 3],
    /// Bytes of memory that a work-group has.
    pub group_bytes: u32,
    /// Bytes of memory that a work-item has to itself.
    pub private_bytes: u32,
}

impl GpuExecutable {
    /// The driver whose devices run them. Programs look for a device of this name.
    pub const DRIVER: &str = DRIVER_NAME;

    /// Reads an executable: IREE's file for AMD GPUs, or a code object.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is neither or is malformed.
    pub fn read(data: &[u8]) -> Result<GpuExecutable> {
        let found = Container::read(data)?;
        let kernels = found.exports.into_iter().map(|export| GpuKernel {
            name: export.kernel.name,
            kernarg_bytes: export.kernel.kernarg_size,
            workgroup_size: export.workgroup_size,
            group_bytes: export.kernel.group_size,
            private_bytes: export.kernel.private_size,
        });
        Ok(GpuExecutable {
            target: found.target.to_string(),
            kernels: kernels.collect(),
            software_agent_lacks: found.modules.iter().flat_map(|module| software_agent_lacks(module)).collect(),
        })
    }

    /// True if executables of this format are for AMD GPUs: it is the name of a target.
    pub(crate) fn is_format(format: &str) -> bool {
        TargetId::parse(format).is_ok()
    }
}

/// The instructions of a code object that the software agent does not execute; none of one for processors that it does
/// not run at all.
#[cfg(feature = "software-agents")]
fn software_agent_lacks(code_object: &[u8]) -> Vec<String> {
    let lacking = vireo_softhsa::listing::lacking(code_object).unwrap_or_default();
    lacking.iter().map(ToString::to_string).collect()
}

#[cfg(not(feature = "software-agents"))]
fn software_agent_lacks(_code_object: &[u8]) -> Vec<String> {
    Vec::new()
}

/// A line for each kernel, below that of the format.
impl fmt::Display for GpuExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for GpuKernel { name, kernarg_bytes, workgroup_size: [x, y, z], group_bytes, .. } in &self.kernels {
            let name = name.escape_debug();
            write!(f, "    {name}: {kernarg_bytes} bytes of arguments, work-groups of {x} x {y} x {z}")?;
            let memory = |bytes: u32| byte_size::text(bytes.into());
            writeln!(
                f,
                "{}",
                if *group_bytes > 0 { format!(" with {}", memory(*group_bytes)) } else { String::new() }
            )?;
        }
        match self.software_agent_lacks.as_slice() {
            [] => Ok(()),
            lacking => writeln!(f, "    the software agent does not execute {}", visible(&lacking.join(", "))),
        }
    }
}
