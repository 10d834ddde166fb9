//! The CUDA driver library as an [`Instance`]: its names, and the targets of PTX.

use vireo_core::status::{Result, Status};
use vireo_hal::{ExecutableFormat, GpuQueryCategory};
use vireo_stream::instance::{Instance, Names};

use crate::generated::calls::{CudaCalls, LEAST_VERSION};

/// The names of the library and its driver.
pub const NAMES: Names = Names {
    driver: "cuda",
    library: "CUDA",
    format: ExecutableFormat::Cuda.name(),
    queries: GpuQueryCategory::Cuda,
    least_version: LEAST_VERSION,
};

impl Instance for CudaCalls {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn check_target(&self, module: &str, (major, minor): (i32, i32)) -> Result<()> {
        let Some(target) = target_of(module) else {
            return Err(Status::invalid_argument("the module has no line `.target sm_...`, so it is no PTX"));
        };
        let (number, suffix) = target.split_at(target.find(|c: char| !c.is_ascii_digit()).unwrap_or(target.len()));
        let device = major * 10 + minor;
        let number: i32 = number.parse().map_err(|_| Status::invalid_argument(format!("the target `sm_{target}`")))?;
        // Code with a suffix is for one architecture, or one family of them.
        let runs = match suffix.chars().next() {
            Some('a') => number == device,
            Some('f') => number / 10 == device / 10 && number <= device,
            _ => number <= device,
        };
        if runs {
            return Ok(());
        }
        Err(Status::failed_precondition(format!(
            "PTX for `sm_{target}` does not run on a device of `sm_{device}`: compile the program for that or an earlier target"
        )))
    }
}

/// The target of a PTX module, without `sm_`.
pub fn target_of(module: &str) -> Option<&str> {
    directive(module, ".target")?.strip_prefix("sm_")
}

/// The version of PTX that a module is in, such as `7.6`.
pub fn version_of(module: &str) -> Option<&str> {
    directive(module, ".version")
}

/// The first word after a directive at the beginning of a module.
fn directive<'a>(module: &'a str, name: &str) -> Option<&'a str> {
    let line = module.lines().take(200).find_map(|line| line.trim_start().strip_prefix(name))?.trim_start();
    Some(line.split(|c: char| c == ',' || c == '/' || c.is_whitespace()).next().unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_compared_with_the_device() {
        assert_eq!(target_of("//\n.version 7.6\n.target sm_80\n"), Some("80"));
        assert_eq!(target_of(".version 8.0\n.target sm_90a, debug // x\n"), Some("90a"));
        assert_eq!(target_of(".version 8.0\n"), None);
        assert_eq!(version_of("// x\n.version 8.0\n"), Some("8.0"));
    }
}
