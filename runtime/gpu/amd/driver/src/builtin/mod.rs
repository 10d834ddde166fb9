//! The driver's own kernels ([`TransferKernels`]), as code objects that are part of the driver: those for the processor
//! itself or, if there are none, for its generic target. `rebuild.sh` assembles those for gfx11 from `kernels.s`, and
//! compiles the others from the LLVM IR that `kernels_ll.sh` writes.

use std::sync::Arc;

use crate::agent::GpuAgent;
use crate::command_buffer::TransferKernels;
use crate::executable::{Container, LoadedKernel};
use crate::status::{Result, Status};
use crate::symbols::LoadedCode;
use vireo_hsa::target::TargetId;

/// The code objects.
const CODE_OBJECTS: [&[u8]; 9] = [
    include_bytes!("kernels_gfx9-generic.hsaco"),
    include_bytes!("kernels_gfx908.hsaco"),
    include_bytes!("kernels_gfx90a.hsaco"),
    include_bytes!("kernels_gfx942.hsaco"),
    include_bytes!("kernels_gfx10-1-generic.hsaco"),
    include_bytes!("kernels_gfx10-3-generic.hsaco"),
    include_bytes!("kernels_gfx1100.hsaco"),
    include_bytes!("kernels_gfx11-generic.hsaco"),
    include_bytes!("kernels_gfx12-generic.hsaco"),
];

/// The kernels on a device.
#[derive(Debug)]
pub(crate) struct Builtins {
    /// Their addresses.
    pub(crate) kernels: TransferKernels,
    /// Keeps them loaded.
    _code: LoadedCode,
}

/// The code objects with their targets.
fn code_objects() -> Result<Vec<(TargetId, &'static [u8])>> {
    CODE_OBJECTS.iter().map(|bytes| Ok((Container::read(bytes)?.target, *bytes))).collect()
}

/// The code object that was made most closely for a target.
///
/// # Errors
/// UNIMPLEMENTED with the targets that there are.
pub(crate) fn select(target: &TargetId) -> Result<&'static [u8]> {
    let objects = code_objects()?;
    let fitting = objects.iter().filter(|(code, _)| code.runs_on(target));
    let best = fitting.max_by_key(|(code, _)| code.closeness(target)).map(|(_, bytes)| *bytes);
    best.ok_or_else(|| {
        let embedded: Vec<String> = objects.iter().map(|(code, _)| code.to_string()).collect();
        let generic = target.generic().map_or(String::new(), |generic| format!(" or `{generic}`"));
        Status::unimplemented(format!(
            "this build has no kernels for `{target}` (family {}): expected `{}`{generic}, it has {}",
            target.family(),
            target.processor(),
            embedded.join(", "),
        ))
    })
}

impl Builtins {
    /// Loads the kernels for an agent, or those of another code object.
    ///
    /// # Errors
    /// UNIMPLEMENTED if there are none for its target.
    pub(crate) fn load(agent: &GpuAgent, other: Option<&'static [u8]>) -> Result<Builtins> {
        let bytes = other.map_or_else(|| select(&agent.target), Ok)?;
        let container = Container::read(bytes)?;
        let code = agent.hsa().load_code(agent.agent, Arc::from(bytes))?;
        let kernel = |name: &str| {
            let export = container.exports.iter().find(|export| export.kernel.name == name);
            let export = export.ok_or_else(|| Status::internal(format!("there is no kernel `{name}`")))?;
            let (private_size, group_size) = (export.kernel.private_size, export.kernel.group_size);
            Ok::<_, Status>(LoadedKernel {
                object: code.kernel_object(&export.kernel.symbol)?,
                private_size,
                group_size,
            })
        };
        let kernels = TransferKernels {
            fill: [kernel("vireo_fill_x16")?, kernel("vireo_fill_x4")?, kernel("vireo_fill_x1")?],
            copy: [kernel("vireo_copy_x16")?, kernel("vireo_copy_x4")?, kernel("vireo_copy_x1")?],
            r#move: [kernel("vireo_move_x16")?, kernel("vireo_move_x4")?, kernel("vireo_move_x1")?],
            patch: kernel("vireo_patch_grid")?,
        };
        Ok(Builtins { kernels, _code: code })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> TargetId {
        TargetId::parse(text).expect("a target")
    }

    #[test]
    fn code_is_selected_by_how_closely_it_fits() {
        let of =
            |text: &str| Container::read(select(&target(text)).expect("there is code")).expect("well-formed").target;
        assert_eq!(of("gfx1100").to_string(), "gfx1100");
        assert_eq!(of("gfx1102").to_string(), "gfx11-generic");
        assert_eq!(of("gfx942:sramecc+:xnack-").to_string(), "gfx942");
        assert_eq!(
            [of("gfx906"), of("gfx1032"), of("gfx1201")].map(|target| target.to_string()),
            ["gfx9-generic", "gfx10-3-generic", "gfx12-generic"]
        );
        let error = select(&target("gfx950:sramecc+:xnack-")).expect_err("there is none");
        let expected = "no kernels for `gfx950:sramecc+:xnack-` (family gfx950): expected `gfx950` or `gfx9-4-generic`, it has gfx9-generic, gfx908";
        assert!(error.message().contains(expected), "{error}");
    }

    #[test]
    fn all_code_objects_have_all_kernels() {
        for bytes in CODE_OBJECTS {
            let container = Container::read(bytes).expect("well-formed");
            let names: Vec<&str> = container.exports.iter().map(|export| export.kernel.name.as_str()).collect();
            let transfers =
                ["fill", "copy", "move"].map(|name| ["x16", "x4", "x1"].map(|unit| format!("{name}_{unit}")));
            let wanted: Vec<String> = transfers.into_iter().flatten().chain(["patch_grid".to_string()]).collect();
            let wanted: Vec<String> = wanted.iter().map(|name| format!("vireo_{name}")).collect();
            let target = container.target;
            assert_eq!(names, wanted, "{target}");
            let wave = if target.processor().starts_with("gfx9") { 64 } else { 32 };
            for export in &container.exports {
                let kernel = &export.kernel;
                assert_eq!(kernel.wavefront_size, wave, "{target}");
                assert_eq!((kernel.private_size, kernel.group_size), (0, 0), "{target}");
                let arguments = if kernel.name == "vireo_patch_grid" { 40 } else { 32 };
                assert_eq!(kernel.kernarg_size, arguments, "{target}, {}", kernel.name);
            }
        }
    }
}
