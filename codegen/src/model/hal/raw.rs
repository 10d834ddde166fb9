//! Entries of `spec/hal/` as they are written: the keys of each kind. `read` makes the model of them.

use serde::Deserialize;

use super::rules::Rules;
use super::types::NarrowFloat;
use crate::diag::Origin;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNumbers {
    #[serde(alias = "enum", alias = "bits", alias = "code")]
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) ty: String,
    #[serde(default)]
    pub(super) open: bool,
    pub(super) doc: String,
    #[serde(default)]
    pub(super) values: Vec<RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawValue {
    pub(super) name: String,
    pub(super) value: u64,
    pub(super) text: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) message: Option<String>,
    pub(super) float: Option<NarrowFloat>,
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHandle {
    pub(super) handle: String,
    #[serde(rename = "type")]
    pub(super) ty: String,
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStruct {
    #[serde(rename = "struct")]
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) fields: Vec<RawField>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawField {
    pub(super) name: String,
    pub(super) kind: String,
    #[serde(default)]
    pub(super) null: bool,
    #[serde(default)]
    pub(super) list: bool,
    pub(super) count: Option<u32>,
    #[serde(default)]
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawResult {
    pub(super) kind: String,
    #[serde(default)]
    pub(super) null: bool,
    #[serde(default)]
    pub(super) list: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawObject {
    pub(super) object: String,
    #[serde(default)]
    pub(super) id: u32,
    pub(super) vm_type: Option<String>,
    #[serde(default)]
    pub(super) concrete: bool,
    pub(super) extends: Option<String>,
    #[serde(default)]
    pub(super) facets: Vec<RawFacet>,
    #[serde(default)]
    pub(super) bare: bool,
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFacet {
    pub(super) name: String,
    #[serde(default)]
    pub(super) part: bool,
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMethod {
    pub(super) method: String,
    pub(super) doc: String,
    pub(super) errors: Option<String>,
    pub(super) safety: Option<String>,
    #[serde(default)]
    pub(super) args: Vec<RawArgument>,
    pub(super) result: Option<RawResult>,
    #[serde(default)]
    pub(super) infallible: bool,
    pub(super) recorded: Option<Vec<String>>,
    pub(super) operation: Option<String>,
    pub(super) default: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLayout {
    pub(super) layout: String,
    pub(super) size: u64,
    pub(super) align: u64,
    #[serde(default)]
    pub(super) readable: bool,
    #[serde(default)]
    pub(super) writable: bool,
    #[serde(default)]
    pub(super) over_aligned: bool,
    pub(super) doc: String,
    pub(super) fields: Vec<RawLayoutField>,
    #[serde(default)]
    pub(super) then: Vec<RawTrailing>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTrailing {
    pub(super) name: String,
    pub(super) part: Option<String>,
    pub(super) count: Option<String>,
    pub(super) bytes: Option<String>,
    pub(super) holds: Option<String>,
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLayoutField {
    pub(super) name: String,
    pub(super) offset: u64,
    #[serde(rename = "type")]
    pub(super) ty: String,
    pub(super) count: Option<u64>,
    #[serde(default)]
    pub(super) hex: bool,
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFunction {
    pub(super) function: String,
    pub(super) doc: String,
    #[serde(default)]
    pub(super) args: Vec<RawFunctionArg>,
    pub(super) result: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawFunctionArg {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) ty: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCpuState {
    pub(super) cpu_state: String,
    pub(super) mask: u32,
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCpuFeature {
    pub(super) cpu_feature: String,
    pub(super) field: Option<u8>,
    pub(super) bit: Option<u8>,
    pub(super) cpuid: RawCpuid,
    pub(super) needs: Option<String>,
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArmFeature {
    pub(super) arm_feature: String,
    pub(super) field: u8,
    pub(super) bit: u8,
    pub(super) hwcap: RawHwcap,
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHwcap {
    pub(super) word: u8,
    pub(super) bit: u8,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCpuid {
    pub(super) leaf: u32,
    pub(super) subleaf: u32,
    pub(super) register: String,
    pub(super) bit: u8,
}

/// An argument as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArgument {
    name: String,
    kind: String,
    #[serde(default)]
    null: bool,
    #[serde(default)]
    list: bool,
    count: Option<u32>,
    #[serde(default)]
    doc: String,
    #[serde(default)]
    usage: Vec<String>,
    #[serde(default)]
    any_usage: Vec<String>,
    #[serde(default)]
    access: Vec<String>,
    #[serde(default)]
    accesses: Vec<String>,
    #[serde(default)]
    in_range: bool,
    range: Option<[String; 2]>,
    multiple_of: Option<String>,
    same_length: Option<String>,
    #[serde(default)]
    lengths: Vec<u64>,
    at_most: Option<String>,
    #[serde(default)]
    same_device: bool,
}

impl RawArgument {
    /// The argument alone, its rules if it has some, and what operations do to its memory.
    pub(super) fn split(self, origin: Origin) -> (RawField, Option<Rules>, Vec<String>) {
        let RawArgument { name, kind, null, list, count, doc, accesses, .. } = self;
        let rules = Rules {
            usage: self.usage,
            any_usage: self.any_usage,
            access: self.access,
            in_range: self.in_range,
            range: self.range.map(|[offset, length]| (offset, length)),
            multiple_of: self.multiple_of,
            same_length: self.same_length,
            lengths: self.lengths,
            at_most: self.at_most,
            same_device: self.same_device,
            origin,
        };
        let rules = Some(rules).filter(|rules| *rules != Rules::none(rules.origin.clone()));
        (RawField { name, kind, null, list, count, doc }, rules, accesses)
    }
}
