//! Features of the processor, as kernels and programs query them. The bits and their `cpuid` sources are in `spec/hal/cpu_features.yaml`.

use std::sync::OnceLock;

#[cfg(target_arch = "aarch64")]
use crate::cpu_features::ARM_FEATURES;
#[cfg(target_arch = "x86_64")]
use crate::cpu_features::{CPU_FEATURES, CpuFeature};

/// Words of processor data, as kernels see them.
pub type ProcessorData = [u64; 8];

/// The features of this processor. All zero where none are known.
pub fn processor_data() -> &'static ProcessorData {
    static DATA: OnceLock<ProcessorData> = OnceLock::new();
    DATA.get_or_init(detect)
}

/// Whether the processor has the feature called `name`; none if programs cannot query such a feature.
pub fn feature(name: &str) -> Option<bool> {
    let (field, bit) = place(name)?;
    Some(processor_data()[field] >> bit & 1 != 0)
}

/// The word of the processor data and the bit in it of the feature called `name`.
#[cfg(target_arch = "x86_64")]
fn place(name: &str) -> Option<(usize, u32)> {
    CPU_FEATURES.iter().find(|feature| feature.name == name)?.place
}

#[cfg(target_arch = "aarch64")]
fn place(name: &str) -> Option<(usize, u32)> {
    Some(ARM_FEATURES.iter().find(|feature| feature.name == name)?.place)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn place(_name: &str) -> Option<(usize, u32)> {
    None
}

/// Linux reports features in the auxiliary vector of the process. Other systems have calls of their own, which are not made: kernels
/// that test for a feature take the version without it.
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
fn detect() -> ProcessorData {
    let (first, second) = rustix::param::linux_hwcap();
    let capabilities = [first as u64, second as u64];
    let mut data = ProcessorData::default();
    for feature in ARM_FEATURES {
        let ((field, bit), (word, reported)) = (feature.place, feature.hwcap);
        data[field] |= (capabilities[word] >> reported & 1) << bit;
    }
    data
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux"))))]
fn detect() -> ProcessorData {
    ProcessorData::default()
}

#[cfg(target_arch = "x86_64")]
fn detect() -> ProcessorData {
    let mut data = ProcessorData::default();
    for feature in CPU_FEATURES {
        if let Some((field, bit)) = feature.place {
            data[field] |= u64::from(is_present(feature)) << bit;
        }
    }
    data
}

/// Asks the processor for a feature.
#[cfg(target_arch = "x86_64")]
pub fn is_present(feature: &CpuFeature) -> bool {
    use crate::cpu_features::{CPU_STATE_LEAF, CpuidRegister};

    static LEAVES: OnceLock<Leaves> = OnceLock::new();
    let leaves = LEAVES.get_or_init(Leaves::query);
    let state = leaves.registers(CPU_STATE_LEAF, 0)[0];
    let registers = leaves.registers(feature.leaf, feature.subleaf);
    let register = match feature.register {
        CpuidRegister::Eax => registers[0],
        CpuidRegister::Ebx => registers[1],
        CpuidRegister::Ecx => registers[2],
        CpuidRegister::Edx => registers[3],
    };
    register >> feature.cpuid_bit & 1 != 0 && state & feature.state_mask == feature.state_mask
}

/// What `cpuid` reports, each leaf asked for once: a virtual machine leaves to its host for each `cpuid`, which takes microseconds.
#[cfg(target_arch = "x86_64")]
struct Leaves {
    /// Leaf, subleaf, then `eax`, `ebx`, `ecx` and `edx`.
    known: Vec<(u32, u32, [u32; 4])>,
}

#[cfg(target_arch = "x86_64")]
impl Leaves {
    /// Asks for the leaves of all features.
    fn query() -> Leaves {
        use std::arch::x86_64::{__cpuid, __cpuid_count};

        // The first leaf of each range reports the last one; the first subleaf of a leaf with subleaves reports the last of those.
        const EXTENDED: u32 = 0x8000_0000;
        const WITH_SUBLEAVES: u32 = 7;
        let last = [__cpuid(0).eax, __cpuid(EXTENDED).eax];
        let mut wanted: Vec<_> = CPU_FEATURES.iter().map(|feature| (feature.leaf, feature.subleaf)).collect();
        wanted.push((crate::cpu_features::CPU_STATE_LEAF, 0));
        wanted.sort_unstable();
        wanted.dedup();
        let mut leaves = Leaves { known: Vec::with_capacity(wanted.len()) };
        for (leaf, subleaf) in wanted {
            let last_subleaf = if leaf == WITH_SUBLEAVES { leaves.registers(leaf, 0)[0] } else { 0 };
            if leaf <= last[usize::from(leaf >= EXTENDED)] && subleaf <= last_subleaf {
                let found = __cpuid_count(leaf, subleaf);
                leaves.known.push((leaf, subleaf, [found.eax, found.ebx, found.ecx, found.edx]));
            }
        }
        leaves
    }

    /// The registers of a leaf; zeros if the processor has no such leaf.
    fn registers(&self, leaf: u32, subleaf: u32) -> [u32; 4] {
        let found = self.known.iter().find(|known| (known.0, known.1) == (leaf, subleaf));
        found.map_or([0; 4], |known| known.2)
    }
}
