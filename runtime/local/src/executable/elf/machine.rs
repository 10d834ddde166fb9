//! Machines ([`HOST`], [`name`]): which one the host is, and how executable formats spell them. `parse` compares a file
//! with the host's, and the loaders compare formats. What relocations mean on each machine is in `relocate`.

use crate::executable_memory::CAN_EXECUTE;
use crate::hal::elf_format::ElfMachine;

/// The machines whose libraries the loader relocates. Each is loaded where the host is that machine, and lets the
/// loader make memory executable.
pub const MACHINES: [ElfMachine; 2] = [ElfMachine::X86_64, ElfMachine::ARM_64];

/// The one of [`MACHINES`] that the host is, if any and if code can be executed. The file format is 64-bit and
/// little-endian on all.
pub(super) const HOST: Option<ElfMachine> = if !CAN_EXECUTE {
    None
} else if cfg!(target_arch = "x86_64") {
    Some(ElfMachine::X86_64)
} else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
    Some(ElfMachine::ARM_64)
} else {
    None
};

/// The name of a machine as executable formats spell it.
pub(super) fn name(machine: ElfMachine) -> String {
    machine.name().map_or_else(|| format!("machine_{:#x}", machine.0), str::to_string)
}

/// The name of the host's machine, in the same spelling where the loader knows the machine.
pub(super) fn host_name() -> String {
    HOST.map_or_else(|| std::env::consts::ARCH.to_string(), name)
}
