//! The model of `spec/hal` and what is generated from it: accepted mini-specs with their exact output, rejected ones with their exact
//! messages.

use vireo_codegen::diag::Diagnostics;
use vireo_codegen::entry;
use vireo_codegen::model::hal::Hal;
use vireo_codegen::{generate, load};

fn refused(files: &[(&str, &str)]) -> String {
    let mut diagnostics = Diagnostics::default();
    let entries: Vec<_> = files.iter().flat_map(|(file, text)| entry::split(file, text, &mut diagnostics)).collect();
    let hal = Hal::load(&entries, &mut diagnostics);
    diagnostics.into_result(hal).expect_err("the spec is wrong").to_string()
}

/// The generated file `path`, without its first line.
fn generated(files: &[(&str, &str)], path: &str) -> String {
    let spec = load(files).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let files = generate(&spec);
    let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path} is not generated"));
    file.text.split_once('\n').expect("a banner").1.trim_start().to_string()
}

const GATE: &str = "\
- object: gate
  vm_type: hal.gate
  doc: A gate.

- method: state
  doc: Whether it is open.
  result: {kind: bool}
  infallible: true

- method: attach
  doc: Attaches another gate.
  args:
    - {name: other, kind: gate, \"null\": true}
    - {name: modes, kind: gate_mode, list: true}
    - {name: plan, kind: plan, doc: How.}
  result: {kind: gate}

- method: adopt
  doc: Takes over memory.
  safety: The memory must be valid.
  args:
    - {name: memory, kind: pointer}
";

const TYPES: &str = "\
- constant: forever
  type: u64
  value: 0xffffffffffffffff
  doc: No end.

- bits: gate_mode
  type: u8
  doc: How a gate opens.
  values:
    - {name: slow, value: 1, doc: Slowly.}
    - {name: wide, value: 2, doc: Widely.}

- enum: colour
  type: u32
  doc: A colour.
  values:
    - {name: deep_red, value: 4, doc: Red.}

- struct: plan
  doc: A plan.
  fields:
    - {name: mode, kind: gate_mode, doc: The mode.}
    - {name: gate, kind: gate, doc: The gate.}
    - {name: sizes, kind: u32, count: 3, doc: The sizes.}
";

const MINI: &[(&str, &str)] = &[("spec/hal/gate.yaml", GATE), ("spec/hal/types.yaml", TYPES)];

#[test]
fn traits_follow_the_spec() {
    assert_eq!(
        generated(MINI, "hal/traits.rs"),
        "\
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use super::types::*;

// spec/hal/gate.yaml:1
/// A gate.
pub trait Gate: Any + Debug + Send + Sync {
    /// Whether it is open.
    fn state(&self) -> bool;
    /// Attaches another gate.
    ///
    /// * `plan`: How.
    fn attach(
        &self,
        other: Option<&Arc<dyn Gate>>,
        modes: &[GateMode],
        plan: &Plan,
    ) -> crate::Result<Arc<dyn Gate>>;
    /// Takes over memory.
    ///
    /// # Safety
    /// The memory must be valid.
    unsafe fn adopt(&self, memory: std::ptr::NonNull<u8>) -> crate::Result<()>;
}
impl crate::hal::VmType for dyn Gate {
    const TYPE_NAME: &'static str = \"hal.gate\";
}
"
    );
}

#[test]
fn types_follow_the_spec() {
    let text = generated(MINI, "hal/types.rs");
    for part in [
        "/// No end.\npub const FOREVER: u64 = 0xffffffffffffffff;\n",
        "    /// Widely.\n    pub const WIDE: Self = Self(2);\n",
        "    pub const NAMED: &'static [(Self, &'static str)] = &[\n        (Self::SLOW, \"slow\"),\n        (Self::WIDE, \"wide\"),\n",
        "crate::hal::bits::bit_set!(GateMode, u8, 3, \"gate_mode\");\n",
        "#[repr(u32)]\npub enum Colour {\n    /// Red.\n    DeepRed = 4,\n}\n",
        "            4 => Ok(Self::DeepRed),\n",
        "#[derive(Clone, Debug)]\npub struct Plan {\n    /// The mode.\n    pub mode: GateMode,\n    /// The gate.\n    \
         pub gate: Arc<dyn Gate>,\n    /// The sizes.\n    pub sizes: [u32; 3],\n}\n",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn layouts_are_asserted() {
    let spec = "\
- layout: header
  size: 16
  align: 8
  readable: true
  doc: A header.
  fields:
    - {name: magic, offset: 0, type: u32, doc: The magic number.}
    - {name: kinds, offset: 4, type: u16, count: 2, doc: The kinds.}
    - {name: length, offset: 8, type: u64, doc: The length.}
";
    let text = generated(&[("spec/hal/elf.yaml", spec)], "hal/elf.rs");
    for part in [
        "#[repr(C)]\npub struct Header {\n    /// The magic number.\n    pub magic: u32,\n",
        "    assert!(size_of:: < Header > () == 16);\n",
        "    assert!(std::mem::offset_of!(Header, kinds) == 4);\n",
        "u16::from_le_bytes([bytes[6], bytes[7]])",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn all_errors_are_reported_with_their_place() {
    let types = "\
- bits: mode
  type: u8
  doc: Modes.
  values:
    - {name: a, value: 1, doc: One.}
    - {name: a, value: 0x100, doc: Two.}
    - {name: c, value: 1, doc: Three.}
    - {name: d, value: 0, doc: Four.}

- enum: mode
  type: u128
  doc: The name twice, and no such type.

- struct: plan
  doc: A plan.
  fields:
    - {name: text, kind: string, doc: A borrow.}
    - {name: what, kind: nothing, doc: No such kind.}
    - {name: list, kind: u32, list: true, doc: A list.}

- colour: red
";
    let gate = "\
- method: early
  doc: Above its object.

- object: door
  doc: Not the name of its file.

- method: twice
  doc: Once.
  args:
    - {name: flag, kind: bool, list: true}

- method: twice
  doc: Again.
  result: {kind: bytes}

- method: unknown
  doc: An unknown key.
  colour: red
";
    let text = refused(&[("spec/hal/gate.yaml", gate), ("spec/hal/types.yaml", types)]);
    assert_eq!(
        text,
        "\
spec/hal/gate.yaml:1: a method stands below the object it belongs to
spec/hal/gate.yaml:4: object `door` belongs in door.yaml, one file for each object
spec/hal/gate.yaml:10: `flag`: a list holds integers, numbers, handles, structs or objects
spec/hal/gate.yaml:12: `twice` is declared at spec/hal/gate.yaml:7 already
spec/hal/gate.yaml:14: `result`: a result cannot be of this kind
spec/hal/gate.yaml:18: unknown field `colour`, expected one of `method`, `doc`, `safety`, `args`, `result`, `infallible`
spec/hal/types.yaml:6: `a`: 0x100 does not fit u8
spec/hal/types.yaml:6: two values are called `a`
spec/hal/types.yaml:7: `c`: another value is 0x1 too
spec/hal/types.yaml:8: `d`: a bit set names bits; nothing set is `empty`
spec/hal/types.yaml:11: `u128` is not an integer type: expected u8, u16, u32, u64, i32 or i64
spec/hal/types.yaml:17: `text`: a struct borrows nothing: a field cannot be of this kind
spec/hal/types.yaml:18: `what`: there is no kind `nothing`
spec/hal/types.yaml:19: `list`: a struct has no lists
spec/hal/types.yaml:21: unknown kind of entry `colour`
"
    );
}

#[test]
fn wrong_layouts_are_refused() {
    let spec = "\
- layout: overlapping
  size: 8
  align: 4
  doc: Two fields at one place.
  fields:
    - {name: a, offset: 0, type: u32, doc: First.}
    - {name: b, offset: 2, type: u16, doc: Second.}

- layout: gap
  size: 16
  align: 8
  doc: Something undeclared between fields.
  fields:
    - {name: a, offset: 0, type: u32, doc: First.}
    - {name: b, offset: 12, type: u32, doc: Second.}

- layout: short
  size: 12
  align: 4
  doc: A wrong size.
  fields:
    - {name: a, offset: 0, type: u64, doc: First.}
    - {name: b, offset: 8, type: u32, doc: Second.}

- layout: pointing
  size: 8
  align: 8
  readable: true
  doc: Read from a file, but it has a pointer.
  fields:
    - {name: a, offset: 0, type: ptr void, doc: A pointer.}

- layout: unknown
  size: 8
  align: 8
  doc: Types that do not exist.
  fields:
    - {name: a, offset: 0, type: ptr nothing, doc: A pointer.}
";
    assert_eq!(
        refused(&[("spec/hal/elf.yaml", spec)]),
        "\
spec/hal/elf.yaml:7: field `b` at 2 overlaps the field before it, which ends at 4
spec/hal/elf.yaml:15: field `b` at 12: expected 4; declare what lies between
spec/hal/elf.yaml:17: size 12 and alignment 4: the fields make 16 and 8
spec/hal/elf.yaml:31: field `a`: a readable layout has only integers
spec/hal/elf.yaml:38: field `a`: its type is not declared in this file
"
    );
}

#[test]
fn processor_features_have_bits_of_their_own() {
    let spec = "\
- cpu_feature: a
  field: 0
  bit: 3
  cpuid: {leaf: 1, subleaf: 0, register: ecx, bit: 32}
  doc: A bit that is not there.

- cpu_feature: b
  field: 0
  bit: 3
  cpuid: {leaf: 1, subleaf: 0, register: ecx, bit: 1}
  needs: ymm
  doc: The bit of another, and an unknown state.
";
    assert_eq!(
        refused(&[("spec/hal/cpu_features.yaml", spec)]),
        "\
spec/hal/cpu_features.yaml:4: expected a bit below 32 of eax, ebx, ecx or edx
spec/hal/cpu_features.yaml:9: the bit is that of spec/hal/cpu_features.yaml:1 already
spec/hal/cpu_features.yaml:11: there is no cpu_state `ymm` above
"
    );
}
