//! Fixtures with kernels in machine code, for the machine that the tests run on.

use std::path::{Path, PathBuf};

/// The machine, as formats of executables spell it.
pub const MACHINE: &str = if cfg!(target_arch = "aarch64") { "arm_64" } else { "x86_64" };

/// The format of embedded libraries for the machine.
pub const EMBEDDED: &str = if cfg!(target_arch = "aarch64") { "embedded-elf-arm_64" } else { "embedded-elf-x86_64" };

/// A machine that the tests do not run on: its name, and the number in the header of an ELF file.
pub const OTHER: (&str, u8) = if cfg!(target_arch = "aarch64") { ("x86_64", 0x3E) } else { ("arm_64", 0xB7) };

/// Whether there are fixtures for the machine, and the system lets it execute them.
pub const HAS_KERNELS: bool =
    cfg!(all(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")), any(unix, windows)));

/// A file of the fixtures.
fn fixture(file: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("fixtures"));
    let fixtures = folders.into_iter().find(|folder| folder.join("elf").is_dir()).expect("the fixtures are there");
    fixtures.join(file)
}

/// A library of `fixtures/elf`: `kernels` or `system`.
pub fn library(name: &str) -> PathBuf {
    let machine = if MACHINE == "x86_64" { String::new() } else { format!("_{MACHINE}") };
    fixture(&format!("elf/{name}{machine}.so"))
}

/// A model of `fixtures/models`: with kernels for the machine, if it was compiled for several.
pub fn model(name: &str) -> PathBuf {
    let plain = fixture(&format!("models/{name}.vmfb"));
    let arm = fixture(&format!("models/aarch64_{name}.vmfb"));
    if MACHINE == "arm_64" && arm.exists() { arm } else { plain }
}
