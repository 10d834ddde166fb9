//! `vireo cpuinfo`: the features of the processor that kernels and programs can ask for, as `iree-cpuinfo` lists them.

use std::fmt::Write;

use vireo::hal::cpu_features::CPU_FEATURES;
use vireo::hal::local::feature;

/// A line for each feature that programs can query on this processor: its name, and 1 if the processor has it.
pub fn cpu_info() -> String {
    let mut text = String::new();
    for known in CPU_FEATURES {
        if let Some(has) = feature(known.name) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:<20} {}", known.name, u8::from(has));
        }
    }
    text
}
