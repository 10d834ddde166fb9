//! The model of `spec/hal` and what is generated from it: accepted mini-specs with their exact output, rejected ones
//! with their exact messages.

use std::io::Write;
use std::process::{Command, Stdio};

use vireo_codegen::diag::Diagnostics;
use vireo_codegen::entry;
use vireo_codegen::model::hal::Hal;
use vireo_codegen::{generate, load};

use crate::real;
use crate::skip::{Need, skipped};

pub fn refused(files: &[(&str, &str)]) -> String {
    let mut diagnostics = Diagnostics::default();
    let entries: Vec<_> = files.iter().flat_map(|(file, text)| entry::split(file, text, &mut diagnostics)).collect();
    let hal = Hal::load(&entries, &mut diagnostics);
    diagnostics.into_result(hal).expect_err("the spec is wrong").to_string()
}

/// The generated file `path`, without its first line.
pub fn generated(files: &[(&str, &str)], path: &str) -> String {
    let spec = load(files).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let files = generate(&spec);
    let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path} is not generated"));
    file.text.split_once('\n').expect("a banner").1.trim_start().to_string()
}

const GATE: &str = "\
- object: gate
  id: 3
  vm_type: hal.gate
  doc: A gate.
  facets:
    - {name: drawn_bridge, doc: The bridge that it is.}

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

- method: close
  doc: Closes it.
  errors: UNAVAILABLE if it is stuck.
  default: unimplemented
  args:
    - {name: speed, kind: u32}
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

pub const MINI: &[(&str, &str)] = &[("spec/hal/gate.yaml", GATE), ("spec/hal/types.yaml", TYPES)];

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
    ) -> Result<Arc<dyn Gate>>;
    /// Takes over memory.
    ///
    /// # Safety
    /// The memory must be valid.
    unsafe fn adopt(&self, memory: std::ptr::NonNull<u8>) -> Result<()>;
    /// Closes it.
    ///
    /// # Errors
    /// UNIMPLEMENTED where it is missing. UNAVAILABLE if it is stuck.
    fn close(&self, speed: u32) -> Result<()> {
        let _ = speed;
        Err(unimplemented(\"gate.close\"))
    }
    /// The bridge that it is.
    #[doc(hidden)]
    fn drawn_bridge(self: Arc<Self>) -> Option<Arc<dyn DrawnBridge>> {
        None
    }
    /// Drops a reference. An implementation may recycle the object if it was the last one.
    fn recycle(self: Arc<Self>) {}
}
impl VmType for dyn Gate {
    const TYPE_NAME: &'static str = \"hal.gate\";
    fn recycle(object: Arc<Self>) {
        object.recycle();
    }
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
        "bit_set!(GateMode, u8, 3, \"gate_mode\");\n",
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
    - {name: list, kind: owner, list: true, doc: A list of what cannot be in one.}

- colour: red
";
    let gate = "\
- method: early
  doc: Above its object.

- object: door
  id: 1
  doc: Not the name of its file.

- method: twice
  doc: Once.
  args:
    - {name: flag, kind: bool, list: true}

- method: twice
  doc: Again.
  errors: None.
  infallible: true
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
spec/hal/gate.yaml:11: `flag`: a list holds integers, numbers, handles, structs or objects, as an argument bytes, else texts
spec/hal/gate.yaml:13: `twice` is declared at spec/hal/gate.yaml:8 already
spec/hal/gate.yaml:15: nothing makes a method fail that cannot fail
spec/hal/gate.yaml:17: `result`: a result cannot be of this kind
spec/hal/gate.yaml:21: unknown key `colour`: expected one of method doc errors safety args result infallible recorded operation default
spec/hal/types.yaml:6: `a`: 0x100 does not fit u8
spec/hal/types.yaml:6: two values are called `a`
spec/hal/types.yaml:7: `c`: another value is 0x1 too
spec/hal/types.yaml:8: `d`: a bit set names bits; nothing set is `empty`
spec/hal/types.yaml:11: `u128` is not an integer type: expected u8, u16, u32, u64, i32 or i64
spec/hal/types.yaml:17: `text`: a struct borrows nothing: a field cannot be of this kind
spec/hal/types.yaml:18: `what`: there is no kind `nothing`
spec/hal/types.yaml:19: `list`: a list holds integers, numbers, handles, structs or objects, as an argument bytes, else texts
spec/hal/types.yaml:21: unknown kind of entry `colour`
"
    );
}

#[test]
fn vtables_have_their_slots_where_the_spec_says() {
    let text = generated(MINI, "hal/vtables.rs");
    for part in [
        "#[repr(C)]\n#[derive(Debug)]\npub struct GateVtable {\n    /// The header of every vtable.\n    pub header: Header,\n",
        "    pub state: unsafe extern \"C\" fn(this: *mut c_void, out: *mut u8),\n",
        "        other: RawObject,\n        modes: RawSlice<u8>,\n        plan: *const RawPlan,\n        \
         out: *mut RawObject,\n    ) -> *mut RawStatus,\n",
        "    pub close: Option<\n        unsafe extern \"C\" fn(this: *mut c_void, speed: u32) -> *mut RawStatus,\n    >,\n",
        "    assert!(size_of:: < GateVtable > () == 72);\n",
        "    assert!(offset_of!(GateVtable, state) == 40);\n",
        "    assert!(offset_of!(GateVtable, close) == 64);\n",
        "    /// The gate.\n    pub gate: RawObject,\n    /// The sizes.\n    pub sizes: [u32; 3],\n",
        "    assert!(size_of:: < RawPlan > () == 40 && align_of:: < RawPlan > () == 8);\n",
        "    assert!(offset_of!(RawPlan, sizes) == 24);\n",
        "        unsafe {\n            <Object<dyn Gate> as Abi<S>>::dispose(&raw.gate);\n        }\n",
        "number!(Colour, u32, | value | value as u32, Colour::from_number);\n",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

/// A C compiler lays out structs and vtables as the header, and with it the Rust that is generated beside it, asserts.
#[test]
fn c_compilers_agree_with_the_header() {
    let header = real::text("hal/driver.h");
    // The example of a driver in C comes with its header.
    let example = include_str!("../../../examples/c-driver/driver.c").replace("#include \"driver.h\"", header);
    for (compiler, arguments, text) in [
        ("cc", &["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-xc", "-"][..], header),
        ("c++", &["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-xc++", "-"][..], header),
        ("cc", &["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-xc", "-"][..], &example),
    ] {
        let child = Command::new(compiler).args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            skipped(Need::Tool(compiler), "there is no such compiler");
            continue;
        };
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("the compiler reads");
        let output = child.wait_with_output().expect("the compiler ends");
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn objects_are_called_from_other_libraries() {
    let text = generated(MINI, "hal/exports.rs");
    for part in [
        "    const ID: u32 = 3;\n    const NAME: &'static str = \"gate\";\n    const REQUIRED: usize = \
         offset_of!(GateVtable, adopt)\n        + size_of::<unsafe extern \"C\" fn()>();\n",
        "        adopt: gate_adopt::<S>,\n        close: Some(gate_close::<S>),\n",
        "    guard_infallible(\n        \"gate.state\",\n        || unsafe {\n            let object = object::<dyn Gate>(this);\n            \
         let value = object.state();\n            out.write(encode::<S, bool>(&value));\n            Ok(())\n",
        "            let other = decode::<S, NullObject<dyn Gate>>(&other)?;\n            \
         let modes = decode_list::<S, GateMode>(modes)?;\n            let plan = decode_at::<S, Plan>(plan)?;\n            \
         let value = object.attach(other.as_ref(), &modes, &plan)?;\n            \
         out.write(encode::<S, Object<dyn Gate>>(&value));\n",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn objects_of_other_libraries_are_called() {
    let text = generated(MINI, "hal/imports.rs");
    for part in [
        "impl<S: Side> Gate for Imported<S, GateVtable> {\n",
        "        let Some(slot) = self.vtable().close else {\n            return Err(unimplemented(\"gate.close\"));\n",
        "        let other = Lent::<S, NullObject<dyn Gate>>::new(&other.cloned());\n        \
         let modes = LentList::<S, GateMode>::new(modes);\n        let plan = Lent::<S, Plan>::new(plan);\n        \
         let mut out = MaybeUninit::<RawObject>::uninit();\n",
        "        let value = unsafe { Lent::<S, Object<dyn Gate>>::returned(out) };\n        value.decode()\n",
        "        value.decode().unwrap_or_else(|status| broken(\"gate.state\", status))\n",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn an_object_has_the_slots_of_what_it_extends() {
    let post = "- object: post\n  id: 4\n  extends: gate\n  doc: A gate with a post.\n\n- method: height\n  doc: Its height.\n  \
                result: {kind: u32}\n  infallible: true\n";
    let files = [MINI, &[("spec/hal/post.yaml", post)]].concat();
    assert!(generated(&files, "hal/traits.rs").contains("pub trait Post: Gate {\n"));
    let vtables = generated(&files, "hal/vtables.rs");
    assert!(
        vtables.contains(
            "assert!(offset_of!(PostVtable, close) == 64);\n    assert!(offset_of!(PostVtable, height) == 72);"
        )
    );
    let imports = generated(&files, "hal/imports.rs");
    assert!(imports.contains("impl<S: Side> Gate for Imported<S, PostVtable> {"));
    assert!(imports.contains("impl<S: Side> Post for Imported<S, PostVtable> {"));
}

#[test]
fn what_cannot_cross_between_libraries_is_refused() {
    let gate = "\
- object: gate
  id: 3
  doc: A gate.

- method: paint
  doc: Cannot fail, yet there are numbers that are no colour.
  infallible: true
  args:
    - {name: plan, kind: plan}

- method: close
  doc: Cannot fail, yet it does.
  infallible: true
  default: unimplemented

- method: next
  doc: There is no object that is nothing.
  default: zero
  result: {kind: gate}

- method: open
  doc: A default that there is not.
  default: open

- method: await
  doc: A point in time is always one that may be never.
  args:
    - {name: deadline, kind: deadline}
";
    let types = "\
- enum: colour
  type: u32
  doc: A colour.
  values:
    - {name: red, value: 4, doc: Red.}

- struct: plan
  doc: A plan.
  fields:
    - {name: colour, kind: colour, doc: The colour.}
";
    let door = "- object: door\n  id: 3\n  extends: wall\n  doc: A door.\n";
    let view =
        "- object: view\n  id: 5\n  concrete: true\n  doc: A view.\n  facets:\n    - {name: door, doc: A door.}\n";
    let files = [
        ("spec/hal/door.yaml", door),
        ("spec/hal/gate.yaml", gate),
        ("spec/hal/types.yaml", types),
        ("spec/hal/view.yaml", view),
    ];
    assert_eq!(
        refused(&files),
        "\
spec/hal/door.yaml:1: there is no object `wall` to extend
spec/hal/gate.yaml:1: the id 3 is that of `door` at spec/hal/door.yaml:1 already
spec/hal/gate.yaml:5: `paint` cannot fail, so it cannot exchange the enum `colour`
spec/hal/gate.yaml:14: a method that cannot fail cannot be `unimplemented`
spec/hal/gate.yaml:18: there is no object to return: expected a result that may be null
spec/hal/gate.yaml:23: `open` is no default: expected `unimplemented` or `zero`
spec/hal/gate.yaml:28: `deadline`: a deadline may be null: say so
spec/hal/view.yaml:1: a concrete object has no `id`: it never leaves the library
spec/hal/view.yaml:5: a concrete object has no trait, so it has no facets
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
spec/hal/elf.yaml:38: field `a`: its type `ptr nothing` is not declared in this file
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

- cpu_feature: c
  field: 0
  cpuid: {leaf: 1, subleaf: 0, register: ecx, bit: 2}
  doc: Half of a place.
";
    assert_eq!(
        refused(&[("spec/hal/cpu_features.yaml", spec)]),
        "\
spec/hal/cpu_features.yaml:4: expected a bit below 32 of eax, ebx, ecx or edx
spec/hal/cpu_features.yaml:9: the bit is that of spec/hal/cpu_features.yaml:1 already
spec/hal/cpu_features.yaml:11: there is no cpu_state `ymm` above
spec/hal/cpu_features.yaml:14: `field` and `bit` belong together
"
    );
}

#[test]
fn features_of_arm_processors_have_places_of_their_own() {
    let spec = "\
- arm_feature: a
  field: 8
  bit: 0
  hwcap: {word: 0, bit: 64}
  doc: Bits that are not there.

- arm_feature: b
  field: 0
  bit: 3
  hwcap: {word: 1, bit: 4}
  doc: A bit.

- arm_feature: c
  field: 0
  bit: 3
  hwcap: {word: 1, bit: 5}
  doc: The bit of another.
";
    assert_eq!(
        refused(&[("spec/hal/cpu_features.yaml", spec)]),
        "\
spec/hal/cpu_features.yaml:3: the processor data is 8 words of 64 bits
spec/hal/cpu_features.yaml:4: the capabilities are 2 words of 64 bits
spec/hal/cpu_features.yaml:15: the bit is that of spec/hal/cpu_features.yaml:7 already
"
    );
}

#[test]
fn options_of_devices_have_a_type_and_a_default_of_it() {
    let options = "\
- option: a
  field: x
  type: u32
  default: 9
  range: [0, 8]
  value: N
  doc: A number.
  guide: a number

- option: b
  field: x
  type: path
  default: here
  value: P
  doc: A path.
  guide: a path

- option: c
  field: y
  type: favour
  value: W
  doc: A word.
  guide: a word

- option: d
  field: z
  type: u32
  value: N
  doc: A number.
  guide: a number
";
    let expected = "\
spec/hal/local_task.yaml:4: expected a number from 0 to 8
spec/hal/local_task.yaml:10: `b` is already described at spec/hal/local_task.yaml:1
spec/hal/local_task.yaml:13: expected a word, or no default
spec/hal/local_task.yaml:20: no option is of type `favour`; did you mean `favor`?
spec/hal/local_task.yaml:25: `d` is a number and has no `range`
";
    assert_eq!(refused(&[("spec/hal/local_task.yaml", options)]), expected);
}

#[test]
fn floats_are_narrow_values_of_codes() {
    let types = "\
- code: number
  type: u8
  doc: Types of numbers.
  values:
    - {name: small, value: 1, float: {exponent: 5, mantissa: 2, specials: fnuz}, doc: One that is narrow.}
    - {name: wide, value: 2, float: {exponent: 8, mantissa: 23, specials: ieee}, doc: One that is not.}

- enum: colour
  type: u8
  doc: No numbers.
  values:
    - {name: red, value: 1, float: {exponent: 5, mantissa: 2, specials: fn}, doc: No number.}
";
    let what = "only values of a `code` are floats, of at most 8 bits of exponent, 16 bits in all";
    assert_eq!(
        refused(&[("spec/hal/types.yaml", types)]),
        format!("spec/hal/types.yaml:6: `wide`: {what}\nspec/hal/types.yaml:12: `red`: {what}\n")
    );
}

#[test]
fn an_operation_of_a_queue_begins_with_the_queue_and_the_points() {
    let device = "\
- object: device
  id: 1
  doc: A device.

- method: queue_rest
  doc: Without points.
  operation: rest
  args:
    - {name: queue_affinity, kind: u64}

- method: queue_go
  doc: Right.
  operation: go
  args:
    - {name: queue_affinity, kind: u64}
    - {name: wait, kind: u64, list: true}
    - {name: signal, kind: u64, list: true}

- method: queue_go_again
  doc: The same name.
  operation: go
  args:
    - {name: queue_affinity, kind: u64}
    - {name: wait, kind: u64, list: true}
    - {name: signal, kind: u64, list: true}

- method: submit
  doc: A name that generated traits have.
";
    assert_eq!(
        refused(&[("spec/hal/device.yaml", device)]),
        "\
spec/hal/device.yaml:5: `queue_rest`: an operation is a method of `device` that can fail, begins with the arguments queue_affinity, wait, \
         signal and has no result
spec/hal/device.yaml:19: the operation `go` is declared at spec/hal/device.yaml:11 already
spec/hal/device.yaml:27: `submit` is a method that generated traits add: choose another name
"
    );
}
