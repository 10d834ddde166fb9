//! Findings of the sanitizer of software GPUs, at the end of a command that ran a program (`--sanitize`).

use vireo::hal::{Buffer, DeviceUri};

use crate::arguments::ProgramArguments;
use crate::exit::Exit;
use crate::failure::Failure;

/// Refuses the flag where no device has kernels that can be checked: nothing would be found.
pub fn check(program: &ProgramArguments) -> Result<(), Failure> {
    use crate::arguments::CudaDriver;
    let is_software = program.devices.cuda.cuda_driver == CudaDriver::Software;
    let is_checked = |uri: &String| {
        DeviceUri::parse(uri).is_ok_and(|uri| uri.driver == "amdgpu" || (uri.driver == "cuda" && is_software))
    };
    if program.devices.amdgpu.sanitize.is_empty() || program.device.iter().any(is_checked) {
        return Ok(());
    }
    let message = "--sanitize checks kernels on the software agent and the software CUDA driver; expected --device=amdgpu --amdgpu_agent=software, or --device=cuda --cuda_driver=software";
    Err(Failure::new(Exit::Usage, message))
}

/// A result leaves the device under this name, if it is one.
pub fn leaves(buffer: &dyn Buffer, name: Option<&str>) {
    #[cfg(feature = "software-agents")]
    if let Some(name) = name {
        vireo::gpu::check_result(buffer, name);
    }
    #[cfg(not(feature = "software-agents"))]
    let _ = (buffer, name);
}

/// Writes what was found to stderr, and to the file that the flags name. The exit code for that; none if there is
/// nothing. That the sanitizer reached a limit is a warning, which changes no exit code: the program is not to blame.
/// Neither do races that change nothing.
#[cfg(feature = "software-agents")]
pub fn finish(program: Option<&ProgramArguments>) -> Option<Exit> {
    use std::fmt::Write as _;

    use crate::print::print_aside;
    use std::io::{self, Write as _};

    let flags = &program?.devices.amdgpu;
    if flags.sanitize.is_empty() {
        return None;
    }
    let (reports, warnings) = (vireo::gpu::take_reports(), vireo::gpu::take_warnings());
    let mut text = String::new();
    for warning in &warnings {
        let _ = writeln!(text, "sanitizer: {warning}");
    }
    for report in &reports {
        let _ = writeln!(text, "sanitizer: {report}");
    }
    if !reports.is_empty() {
        let _ = writeln!(text, "sanitizer: {} found", reports.len());
    }
    // The exit code says it, too, where stderr is closed.
    print_aside(&text);
    if let Some(path) = &flags.sanitize_report
        && let Err(error) = std::fs::write(path, json(&reports, &warnings))
    {
        let _ = writeln!(io::stderr(), "error: cannot write `{}`: {error}", path.display());
        return Some(Exit::RunFailure);
    }
    reports.iter().any(|report| report.finding.is_harmful()).then_some(Exit::Findings)
}

/// Without the software agent, its devices cannot be created.
#[cfg(not(feature = "software-agents"))]
pub fn finish(_program: Option<&ProgramArguments>) -> Option<Exit> {
    None
}

#[cfg(feature = "software-agents")]
fn json(reports: &[vireo::gpu::Report], warnings: &[vireo::gpu::Warning]) -> String {
    use serde_json::{Value, json};
    use vireo::gpu::Site;

    let site = |site: &Site| {
        json!({
            "kernel": site.kernel,
            "address": site.place.address,
            "offset": site.place.offset,
            "instruction": site.place.instruction,
            "source": site.place.source,
            "work_group": site.group,
            "wave": site.wave,
            "lane": site.lane,
            "queue": site.queue,
            "packet": site.packet,
        })
    };
    let reports: Vec<Value> = reports
        .iter()
        .map(|report| {
            json!({
                "finding": report.finding.name(),
                "access": report.access.to_string(),
                "bytes": report.length,
                "address": report.address,
                "site": report.site.as_ref().map(site),
                "allocation": report.allocation.as_ref().map(|allocation| json!({
                    "what": allocation.what,
                    "start": allocation.start,
                    "bytes": allocation.length,
                    "offset": allocation.offset,
                    "freed_by": allocation.freed_by,
                })),
                "group_bytes": report.group_bytes,
                "other": report.other.as_ref().map(|other| json!({
                    "access": other.access.to_string(),
                    "site": site(&other.site),
                })),
                "exit": report.exit.as_ref().map(|exit| json!({
                    "name": exit.name,
                    "bytes": exit.bytes,
                    "unwritten": exit.unwritten,
                    "offset": exit.offset,
                })),
                "count": report.count,
            })
        })
        .collect();
    let warnings: Vec<Value> = warnings
        .iter()
        .map(|warning| {
            json!({
                "unchecked": warning.unchecked.name(),
                "kernel": warning.kernel,
                "limit": warning.limit,
            })
        })
        .collect();
    format!("{:#}\n", json!({"findings": reports, "warnings": warnings}))
}
