//! The metadata of a module as JSON, for other programs. Called by `dump`.

use serde_json::{Map, Value, json};

use super::summary::{Function, Summary, signature};

/// One object. Keys are added over time, never renamed.
pub fn metadata(summary: &Summary) -> String {
    let object = json!({
        "name": summary.name,
        "version": summary.version,
        "bytecode_version": summary.bytecode_version,
        "requirements": summary.requirements,
        "attributes": attributes(&summary.attributes),
        "dependencies": summary.dependencies.iter().map(|dependency| json!({
            "name": dependency.name,
            "minimum_version": dependency.minimum_version,
            "optional": dependency.optional,
        })).collect::<Vec<_>>(),
        "types": summary.types,
        "imports": summary.imports.iter().map(|import| json!({
            "name": import.name,
            "convention": import.convention,
            "signature": signature(&import.convention),
            "optional": import.optional,
        })).collect::<Vec<_>>(),
        "exports": summary.exports.iter().map(|export| json!({
            "name": export.name,
            "function": export.ordinal,
            "convention": export.convention,
            "signature": signature(&export.convention),
            "attributes": attributes(&export.attributes),
        })).collect::<Vec<_>>(),
        "rodata": summary.rodata.iter().map(|rodata| json!({
            "bytes": rodata.bytes,
            "external": rodata.external,
            "text": rodata.text,
        })).collect::<Vec<_>>(),
        "globals": {"bytes": summary.global_bytes, "refs": summary.global_refs},
        "code_bytes": summary.code_bytes,
        "functions": summary.functions.iter().map(function).collect::<Vec<_>>(),
        "has_source_map": summary.has_source_map,
    });
    format!("{object:#}\n")
}

fn function(function: &Function) -> Value {
    json!({
        "offset": function.offset,
        "bytes": function.length,
        "blocks": function.blocks,
        "value_registers": function.value_registers,
        "ref_registers": function.ref_registers,
        "requirements": function.requirements,
        "convention": function.convention,
        "signature": signature(&function.convention),
        "names": function.names,
        "exported": function.exported,
    })
}

/// Attributes as an object. Where a hostile module repeats a key, the last one counts.
fn attributes(attributes: &[(String, String)]) -> Value {
    let pairs = attributes.iter().map(|(key, value)| (key.clone(), Value::String(value.clone())));
    Value::Object(pairs.collect::<Map<_, _>>())
}
