//! Features of the processor, as kernels and programs query them. The bits and their `cpuid` sources are in
//! `spec/hal/cpu_features.yaml`.

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::cpuid::Leaves;
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

/// Linux reports features in the auxiliary vector of the process. Other systems have calls of their own, which are not
/// made: kernels that test for a feature take the version without it.
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

/// Whether the processor has a feature.
#[cfg(target_arch = "x86_64")]
pub fn is_present(feature: &CpuFeature) -> bool {
    static LEAVES: OnceLock<Leaves> = OnceLock::new();
    LEAVES.get_or_init(Leaves::query).have(feature)
}
