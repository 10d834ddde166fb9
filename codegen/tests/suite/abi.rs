//! The model of `spec/abi`: what it accepts, what it refuses, and the conventions it derives.

use vireo_codegen::diag::Diagnostics;
use vireo_codegen::entry;
use vireo_codegen::model::abi::Abi;

fn load(files: &[(&str, &str)]) -> Result<Abi, String> {
    let mut diagnostics = Diagnostics::default();
    let entries: Vec<_> = files.iter().flat_map(|(file, text)| entry::split(file, text, &mut diagnostics)).collect();
    let abi = Abi::load(&entries, &mut diagnostics);
    diagnostics.into_result(abi).map_err(|diagnostics| diagnostics.to_string())
}

/// Letters and reference types as they are: modules cannot do without the letters.
const TYPES: &str = include_str!("../../../spec/abi/types.yaml");

#[test]
fn conventions_are_derived() {
    let module = "\
- module: hal
  version: 7
  minimum_version: 6
  doc: Devices.

- export: f
  doc: A function.
  args:
    - {name: a, type: i32}
    - name: s
      span:
        - {name: x, type: i64}
        - {name: y, type: hal.buffer, \"null\": true}
  results:
    - {name: r, type: f64}

- export: g
  doc: Nothing in, nothing out.
  yields: true
";
    let abi = load(&[("a/types.yaml", TYPES), ("a/hal.yaml", module)]).unwrap();
    let hal = &abi.modules["hal"];
    assert_eq!(abi.grammar.text(&hal.export("f").unwrap().convention()), "0iCIrD_F");
    assert_eq!(abi.grammar.text(&hal.export("g").unwrap().convention()), "0v_v");
    assert!(hal.export("g").unwrap().yields);
    assert_eq!((hal.exports[0].since, hal.exports[0].until), (6, 7));
}

#[test]
fn earlier_conventions_follow_from_what_differs() {
    let module = "\
- module: hal
  version: 7
  minimum_version: 5
  doc: Devices.

- export: f
  doc: A function.
  args:
    - {name: a, type: i64}
    - {name: b, type: hal.buffer, \"null\": true}
    - {name: c, type: f32}
    - {name: d, type: i32}
  results:
    - {name: r, type: f64}

- adaptor: f
  until: 5
  doc: It had none but narrow values.
  narrow: [a]
  gather: [b]
  fill: {c: 0.5, d: -1}
";
    let abi = load(&[("a/types.yaml", TYPES), ("a/hal.yaml", module)]).unwrap();
    let hal = &abi.modules["hal"];
    let conventions = hal.functions().map(|(export, adaptor)| {
        abi.grammar.text(&adaptor.map_or_else(|| export.convention(), |adaptor| adaptor.convention.clone()))
    });
    assert_eq!(conventions.collect::<Vec<_>>(), ["0Irfi_F", "0iCrD_F"]);

    let wrong = module.to_string()
        + "
- adaptor: g
  until: 5
  doc: No such export.

- adaptor: f
  until: 8
  doc: Everything is wrong.
  narrow: [d, x]

- adaptor: f
  until: 5
  doc: This one too.
  fill: {b: 0}

- adaptor: f
  until: 5
  doc: Nothing differs.
";
    assert_eq!(
        load(&[("types.yaml", TYPES), ("hal.yaml", &wrong), ("z.yaml", "- adaptor: lost\n  until: 1\n  doc: Lost.\n")])
            .unwrap_err(),
        "hal.yaml:23: module `hal` has no export `g` above; did you mean `f`?\n\
         hal.yaml:28: `until` is 8, but the module has version 7\n\
         hal.yaml:30: `d` is not an i64\n\
         hal.yaml:30: export `f` has no argument `x`; did you mean `a`, `b` or `c`?\n\
         hal.yaml:35: `b` cannot be filled with this value\n\
         hal.yaml:37: export `f` has this calling convention already\n\
         z.yaml:1: an adaptor needs a `module` entry at the top of its file\n"
    );
}

#[test]
fn letters_stand_for_one_thing_each_and_are_all_there() {
    let types = "\
- convention: \"00\"
  results: \"_\"
  doc: How conventions are written.

- convention: \"1\"
  results: \"_\"
  doc: How else they are written.

- type: f
  name: f32
  doc: In no slot.

- type: I
  name: i64
  slots: 2
  doc: The first letter.

- type: I
  name: f64
  slots: 2
  doc: The letter of another one.

- type: l
  name: i64
  slots: 2
  doc: Another letter of the same.

- type: x
  name: i31
  doc: No such type.

- type: C
  opens: tuple
  doc: Nothing else is opened.
";
    let errors = load(&[("types.yaml", types)]).unwrap_err();
    let expected = "\
types.yaml:1: `00` is not one character
types.yaml:5: the notation is already described at types.yaml:1
types.yaml:9: `slots` are those of a number: references are not in slots
types.yaml:18: the letter `I` is already described at types.yaml:13
types.yaml:23: the letter `I` at types.yaml:13 stands for the same
types.yaml:29: no emitter knows values of type `i31`; did you mean `i32`?
types.yaml:32: expected `opens: span` or `closes: span`
";
    assert_eq!(errors, expected);
    let module = "- module: hal\n  version: 1\n  minimum_version: 1\n  doc: Devices.\n";
    let without = TYPES.replace("- type: F", "- ref: F").replace("  name: f64\n  slots: 2\n", "");
    assert_eq!(
        load(&[("types.yaml", &without), ("hal.yaml", module)]).unwrap_err(),
        "hal.yaml:1: conventions cannot be written: no entry of spec/abi says which letter a value of type `f64` has\n"
    );
}

#[test]
fn status_codes_have_names_and_numbers_of_their_own() {
    let statuses = "\
- status: lost
  number: 1
  doc: Nobody has it.

- status: lost
  number: 1
  doc: Nor has anybody this.

- status: ok
  number: 0
  doc: Nothing is wrong.
";
    let errors = load(&[("spec/abi/status.yaml", statuses)]).unwrap_err();
    let expected = "\
spec/abi/status.yaml:5: status `lost` is already described at spec/abi/status.yaml:1
spec/abi/status.yaml:6: 1 is the number of `lost` at spec/abi/status.yaml:1
spec/abi/status.yaml:10: 0 is success, which is no code: expected 1 or more
";
    assert_eq!(errors, expected);
}

#[test]
fn wrong_entries_are_refused_with_their_places() {
    let module = "\
- module: hal
  version: 7
  minimum_version: 8
  doc: Devices.

- export: f
  args:
    - {name: a, type: i33}
    - {name: b, type: i32, \"null\": true}
    - name: s
      span:
        - {name: x, span: []}
  since: 9
";
    let errors = load(&[("types.yaml", TYPES), ("hal.yaml", module), ("z.yaml", "- export: lost\n  doc: Lost.\n")]);
    assert_eq!(
        errors.unwrap_err(),
        "hal.yaml:3: minimum version 8 is above the version 7\n\
         hal.yaml:6: export `f` is of versions 9 to 7, but the module has 8 to 7\n\
         hal.yaml:6: export has no doc\n\
         hal.yaml:8: `a` is of the unknown type `i33`: neither a letter's name nor a `ref` entry; did you mean `i32`?\n\
         hal.yaml:9: `b` is a number and cannot be null\n\
         hal.yaml:10: span `x`: spans stand only at the top level of `args`\n\
         z.yaml:1: an export needs a `module` entry at the top of its file\n"
    );
}

#[test]
fn values_are_read_as_what_they_can_be() {
    let module = "\
- module: m
  version: 1
  minimum_version: 1
  doc: A module.

- export: f
  doc: A function.
  args:
    - {name: a, type: i64, as: bool}
    - {name: b, type: hal.buffer, as: text}
    - {name: c, type: hal.fence, as: timepoints}
    - {name: d, type: f32, as: flag}
    - name: s
      as: text
      span:
        - {name: e, type: i32}
    - name: t
      span:
        - {name: g, type: i32, as: bool}
";
    assert_eq!(
        load(&[("types.yaml", TYPES), ("m.yaml", module)]).unwrap_err(),
        "m.yaml:9: `a`: a value of type `i64` cannot be read as `bool`\n\
         m.yaml:10: `b`: a value of type `hal.buffer` cannot be read as `text`\n\
         m.yaml:11: `c`: timepoints are those of a fence that may be null\n\
         m.yaml:12: `d`: a value of type `f32` cannot be read as `flag`\n\
         m.yaml:13: span `s` has neither `type` nor `null` nor `as`\n\
         m.yaml:17: `g`: fields of spans are plain values, without `as`\n"
    );
}

/// Numbers of the HAL that exports name.
const NUMBERS: &str = "\
- bits: flags
  type: u64
  doc: None is defined.

- enum: colour
  type: u16
  doc: A colour.
  values:
    - {name: red, value: 1, doc: Red.}

- handle: thing
  type: u64
  doc: A thing.
";

/// A module with an export that has these arguments and results, with the numbers above.
fn with_numbers(export: &str) -> Result<vireo_codegen::Spec, Diagnostics> {
    let module = format!("- module: m\n  version: 1\n  minimum_version: 1\n  doc: A module.\n\n{export}");
    vireo_codegen::load(&[
        ("spec/abi/modules/m.yaml", &module),
        ("spec/abi/types.yaml", TYPES),
        ("spec/hal/types.yaml", NUMBERS),
        ("spec/isa/vm/isa.yaml", include_str!("../specs/isa.yaml")),
    ])
}

#[test]
fn numbers_are_those_of_the_hal_and_as_wide() {
    let export = "\
- export: f
  doc: A function.
  args:
    - {name: a, type: i32, as: flags}
    - {name: b, type: i64, as: colour}
    - {name: c, type: i64, as: flag}
";
    assert_eq!(
        with_numbers(export).unwrap_err().to_string(),
        "spec/abi/modules/m.yaml:6: `a`: `flags` has 64 bits and cannot be read from a value of type `i32`\n\
         spec/abi/modules/m.yaml:6: `b`: `colour` has 16 bits and cannot be read from a value of type `i64`\n\
         spec/abi/modules/m.yaml:6: `c`: spec/hal has no number `flag`; did you mean `flags`?\n"
    );
}

#[test]
fn numbers_that_exports_name_are_converted() {
    let export = "\
- export: f
  doc: A function.
  args:
    - {name: a, type: i32, as: colour}
  results:
    - {name: b, type: i64, as: thing}
";
    let spec = with_numbers(export).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let files = vireo_codegen::generate(&spec);
    let text = &files.iter().find(|file| file.path == "hal/arguments.rs").unwrap().text;
    let expected = "\
// Generated by vireo-codegen from spec/abi/modules; do not edit.

use super::types::*;
impl FromNumber<i32> for Colour {
    #[inline]
    fn from_argument(number: i32) -> Result<Self> {
        let number = u16::try_from(number as u32)
            .map_err(|_| Status::invalid_argument(
                format!(\"there is no colour {number:#x}\"),
            ))?;
        Self::from_number(number)
    }
}
impl IntoNumber<i64> for Thing {
    #[inline]
    fn into_result(self) -> i64 {
        self.0 as i64
    }
}
";
    assert_eq!(text.trim_end(), expected.trim_end());
}

#[test]
fn callees_are_refused_with_their_places() {
    let callees = "\
- callee: kernel
  doc: A kernel.
  args:
    - {name: a, type: vm.buffer, count: 2, doc: Memory.}
    - {name: a, type: i33, doc: A number.}
    - {name: b, type: i32, count: 0, doc: None.}

- callee: kernel
  doc: Another one.
  args: []
";
    assert_eq!(
        load(&[("callees.yaml", callees), ("types.yaml", TYPES)]).unwrap_err(),
        "callees.yaml:4: `a`: only numbers have a `count`\n\
         callees.yaml:5: `a` is of the unknown type `i33`: neither a letter's name nor a `ref` entry; did you mean `i32`?\n\
         callees.yaml:6: there is no `b`: `count` is 0\n\
         callees.yaml:8: callee `kernel` is already described at callees.yaml:1\n"
    );
}

#[test]
fn a_callee_holds_its_arguments_in_order() {
    let callee = "\
- callee: kernel
  symbol: run
  doc: A kernel.
  args:
    - {name: count, type: i64, doc: How many.}
    - {name: memory, type: vm.buffer, doc: Memory.}
    - {name: id, type: i32, count: 2, doc: Which one.}
";
    let expected = "\
// Generated by vireo-codegen from spec/abi/callees.yaml; do not edit.

// spec/abi/modules/m.yaml:1
/// Arguments of a call. A kernel.
#[derive(Clone, Debug)]
pub struct KernelArguments(KernelArgumentList);
/// Their types in order.
pub type KernelArgumentList = (i64, Obj<Buffer>, i32, i32);
impl KernelArguments {
    /// The name that programs export the function by.
    pub const SYMBOL: &'static str = \"run\";
    /// The calling convention of the function.
    pub const CONVENTION: &'static str = \"0Irii_v\";
    /// The arguments with these references. Numbers are zero.
    pub fn new(memory: Obj<Buffer>) -> Self {
        Self((Default::default(), memory, Default::default(), Default::default()))
    }
    /// How many.
    #[inline]
    pub fn set_count(&mut self, count: i64) {
        self.0.0 = count;
    }
    /// Which one.
    #[inline]
    pub fn set_id(&mut self, id: [i32; 2]) {
        self.0.2 = id[0];
        self.0.3 = id[1];
    }
    /// All of them, for one call.
    #[inline]
    pub fn list(&self) -> KernelArgumentList {
        self.0.clone()
    }
}
impl AsRef<KernelArgumentList> for KernelArguments {
    #[inline]
    fn as_ref(&self) -> &KernelArgumentList {
        &self.0
    }
}
";
    assert_eq!(generated(callee, "abi/callees.rs").trim_end(), expected.trim_end());
}

/// A spec of one export, and the file `path` generated from it.
fn generated(module: &str, path: &str) -> String {
    let files = [
        ("spec/abi/modules/m.yaml", module),
        ("spec/abi/types.yaml", TYPES),
        ("spec/isa/vm/isa.yaml", include_str!("../specs/isa.yaml")),
    ];
    let spec = vireo_codegen::load(&files).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    vireo_codegen::generate(&spec).into_iter().find(|file| file.path == path).unwrap().text
}

#[test]
fn a_shim_decodes_arguments_and_encodes_results() {
    let module = "\
- module: m
  version: 2
  minimum_version: 1
  doc: A module.

- export: f
  doc: A function.
  args:
    - {name: x, type: f32}
    - name: s
      span:
        - {name: y, type: i64}
        - {name: z, type: hal.buffer}
  results:
    - {name: r, type: ref}
    - {name: q, type: i32}
";
    let shim = "\
// Generated by vireo-codegen from spec/abi; do not edit.

// spec/abi/modules/m.yaml:6
/// `0fCIrD_ri`: `m.f`.
pub fn fCIrD_ri(
    call: &mut vm::Call,
    keep: bool,
    function: impl FnOnce(
        f32,
        abi::RawSpan<'_>,
    ) -> Result<abi::Step<(Option<vm::Ref>, i32)>>,
) -> Result<vm::Outcome> {
    let mut arguments = abi::Arguments::new(call, keep);
    let a0 = arguments.f32()?;
    let a1 = arguments.span(1usize, 1usize)?;
    arguments.finish()?;
    match function(a0, a1)? {
        abi::Step::Return((r0, r1)) => {
            call.result_refs.push(r0);
            call.result_words.push(u64::from(r1 as u32));
            Ok(vm::Outcome::Return)
        }
        abi::Step::Wait(wait) => Ok(vm::Outcome::Wait(wait)),
    }
}
";
    assert_eq!(generated(module, "abi/shims.rs").trim_end(), shim.trim_end());
    let table = generated(module, "abi/modules.rs");
    let export =
        "        NativeExport {\n            name: \"f\",\n            convention: \"0fCIrD_ri\",\n        },\n";
    assert!(table.contains(export), "{table}");
}
