//! `vireo cpuinfo`: the features of the processor that kernels and programs can ask for, as `iree-cpuinfo` lists them.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use vireo::hal::cpu_features::CPU_FEATURES;
use vireo::hal::local::feature;

use crate::arguments::Format;

/// The features that programs can query on this processor. As text, a line for each: its name, and 1 if the processor
/// has it.
pub fn cpu_info(format: Format) -> String {
    let known = CPU_FEATURES.iter().filter_map(|known| Some((known.name, feature(known.name)?)));
    match format {
        Format::Text => known.fold(String::new(), |mut text, (name, has)| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<20} {}", u8::from(has));
            text
        }),
        Format::Json => {
            let features = known.map(|(name, has)| (name.to_string(), Value::Bool(has))).collect::<Map<_, _>>();
            format!("{:#}\n", json!({"features": features}))
        }
    }
}
