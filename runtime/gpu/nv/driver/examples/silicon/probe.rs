//! The library and its first device as the library describes them, against the table of a device of that capability.

use serde_json::{Map, Value, json};
use vireo_core::status::Result;
use vireo_cuda::attributes::DeviceAttribute;
use vireo_cuda::devices::TABLES;
use vireo_stream::context::version_text;

use crate::Request;
use crate::gpu::Gpu;

/// Attributes, memory and missing functions. What differs from the table is no failure: cards of a capability differ.
pub fn probe(request: &Request) -> Result<Value> {
    let library = request.real()?;
    let gpu = Gpu::open(&library)?;
    let (context, device) = (&gpu.context, &gpu.context.description);
    let mut attributes = Map::new();
    let mut refused = Vec::new();
    for (attribute, name) in DeviceAttribute::NAMED {
        // SAFETY: the device is one of the library.
        match unsafe { library.instance.device_attribute(*attribute, device.device) } {
            Ok(value) => drop(attributes.insert(name.to_string(), json!(value))),
            Err(error) => refused.push(json!({"attribute": name, "status": error.code})),
        }
    }
    let table_name = format!("sm_{}", gpu.capability());
    let table = TABLES.iter().find(|(name, ..)| *name == table_name);
    let differs = table.map(|(_, _, rows)| {
        let rows = rows.iter().filter_map(|(attribute, expected)| {
            let name = attribute.name()?;
            let found = attributes.get(name)?.as_i64()?;
            (found != i64::from(*expected)).then(|| json!({"attribute": name, "found": found, "table": expected}))
        });
        rows.collect::<Vec<Value>>()
    });
    let peers = (0..library.device_count()?).map(|other| {
        let other = library.describe(other)?;
        Ok(json!({"device": other.ordinal, "name": other.name, "reached": context.reaches(&other).ok()}))
    });
    Ok(json!({
        "outcome": "passed",
        "version": version_text(library.version()?),
        "device": device.name,
        "capability": table_name,
        "bus": context.bus_id(),
        "memory": device.memory,
        "free_memory": context.free_memory()?,
        "devices": peers.collect::<Result<Vec<Value>>>()?,
        "missing_functions": library.instance.missing(),
        "attributes": attributes,
        "attributes_refused": refused,
        "attributes_that_differ": differs,
        "has_table": table.is_some(),
    }))
}
