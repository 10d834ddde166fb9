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

const TYPES: &str = "\
- ref: hal.buffer
  doc: Memory.
";

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
    assert_eq!(hal.export("f").unwrap().convention().to_string(), "0iCIrD_F");
    assert_eq!(hal.export("g").unwrap().convention().to_string(), "0v_v");
    assert!(hal.export("g").unwrap().yields);
    assert_eq!((hal.exports[0].since, hal.exports[0].until), (6, 7));
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
         hal.yaml:8: `a` is of the unknown type `i33`: neither a letter's name nor a `ref` entry\n\
         hal.yaml:9: `b` is a number and cannot be null\n\
         hal.yaml:10: span `x`: spans stand only at the top level of `args`\n\
         z.yaml:1: an export needs a `module` entry at the top of its file\n"
    );
}
