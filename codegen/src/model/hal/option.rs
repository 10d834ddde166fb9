//! The reader of `option` entries: options of a device that hosts, flags and URIs can set, each with its type and
//! default.

use serde::Deserialize;

use crate::diag::Diagnostics;
use crate::diag::Origin;
use crate::entry::Entry;

/// An option of a device.
#[derive(Clone, Debug)]
pub struct DeviceOption {
    /// `task_topology_mode`: the parameter of a URI and the flag of a command.
    pub name: String,
    /// `mode`: the field.
    pub field: String,
    /// Its type.
    pub ty: OptionType,
    /// The default as users write it; empty if it is the empty value.
    pub default: String,
    /// `MODE`: the placeholder of the value in the help.
    pub value: String,
    /// Its documentation, for the help and for the field.
    pub doc: String,
    /// Its row in the table of `docs/devices.md`.
    pub guide: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// The type of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionType {
    /// A number from the first to the second.
    Number(u32, u32),
    /// A path of the host.
    Path,
    /// Lists of processors, with semicolons between them.
    ProcessorLists,
    /// A type of the runtime or of `spec/names` that is read from text.
    Named(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOption {
    option: String,
    field: String,
    #[serde(rename = "type")]
    ty: String,
    default: Option<serde_yaml::Value>,
    range: Option<(u32, u32)>,
    value: String,
    doc: String,
    guide: String,
}

/// The types that are neither numbers nor built from other values.
const NAMED: [&str; 5] = ["topology_mode", "nodes", "performance_level", "distribution", "favor"];

/// Reads an entry.
pub(super) fn read(entry: &Entry, known: &[DeviceOption], diagnostics: &mut Diagnostics) -> Option<DeviceOption> {
    let raw: RawOption = entry.parse(diagnostics)?;
    for other in known {
        if other.name == raw.option || other.field == raw.field {
            diagnostics.error(&entry.origin, format!("`{}` is already described at {}", raw.option, other.origin));
        }
    }
    for (key, text) in [("doc", &raw.doc), ("guide", &raw.guide)] {
        if text.trim().is_empty() {
            diagnostics.error(&entry.origin_of(key), format!("the {key} is empty"));
        }
    }
    let ty = match (raw.ty.as_str(), raw.range) {
        ("u32", Some((least, most))) => OptionType::Number(least, most),
        ("u32", None) => {
            diagnostics.error(&entry.origin, format!("`{}` is a number and has no `range`", raw.option));
            return None;
        }
        (_, Some(_)) => {
            diagnostics.error(&entry.origin_of("range"), "only numbers have a range");
            return None;
        }
        ("path", None) => OptionType::Path,
        ("processor_lists", None) => OptionType::ProcessorLists,
        (name, None) if NAMED.contains(&name) => OptionType::Named(name.to_string()),
        (name, None) => {
            let known = NAMED.into_iter().chain(["u32", "path", "processor_lists"]);
            diagnostics.unknown(&entry.origin_of("type"), name, format!("no option is of type `{name}`"), known);
            return None;
        }
    };
    let default = match (&ty, raw.default) {
        (OptionType::Number(least, most), Some(serde_yaml::Value::Number(number))) => {
            let inside = number.as_u64().is_some_and(|value| (u64::from(*least)..=u64::from(*most)).contains(&value));
            if !inside {
                diagnostics.error(&entry.origin_of("default"), format!("expected a number from {least} to {most}"));
            }
            number.to_string()
        }
        (OptionType::Number(..), _) => {
            diagnostics.error(&entry.origin, format!("`{}` is a number: expected a number as `default`", raw.option));
            return None;
        }
        (OptionType::Named(_), Some(serde_yaml::Value::String(text))) => text,
        (_, None) => String::new(),
        (_, Some(_)) => {
            diagnostics.error(&entry.origin_of("default"), "expected a word, or no default");
            return None;
        }
    };
    Some(DeviceOption {
        name: raw.option,
        field: raw.field,
        ty,
        default,
        value: raw.value,
        doc: raw.doc,
        guide: raw.guide,
        origin: entry.origin.clone(),
    })
}
