//! The model of `spec/schema`: what is refused, and with which place.

use vireo_codegen::diag::Diagnostics;
use vireo_codegen::entry;
use vireo_codegen::model::schema::Schema;

fn errors(text: &str) -> String {
    let mut diagnostics = Diagnostics::default();
    let entries = entry::split("s.yaml", text, &mut diagnostics);
    let schema = Schema::load(&entries, &mut diagnostics);
    diagnostics.into_result(schema).map_or_else(|errors| errors.to_string(), |_| String::new())
}

#[test]
fn the_schemas_of_the_workspace_load() {
    let mut diagnostics = Diagnostics::default();
    let files = vireo_spec::FILES.iter().filter(|(path, _)| path.starts_with("spec/schema/"));
    let entries: Vec<_> = files.flat_map(|(path, text)| entry::split(path, text, &mut diagnostics)).collect();
    let schema = Schema::load(&entries, &mut diagnostics);
    assert!(diagnostics.into_result(()).is_ok());
    assert!(schema.files["bytecode_module_def"].item("BytecodeModuleDef").is_some());
}

#[test]
fn wrong_entries_are_refused_with_their_places() {
    let text = "\
- table: A
  doc: A table.
  fields:
    - {name: x, type: b, doc: No type.}
    - {name: y, type: Missing, doc: Unknown name.}

- struct: B
  doc: A struct.
  fields:
    - {name: x, type: string, doc: Not fixed.}
    - {name: y, type: u8, default: 1, doc: Defaults are for tables.}

- constant: C
  type: u8
  value: 256
  doc: Too large.

- table: A
  doc: Twice.
  fields: []

- root: R
  identifier: ABC
  limits: {depth: 1, tables: 1, expansion: 1}
  doc: No such table.

- union: U
  doc: A union.
  variants: [B]

- thing: T
";
    assert_eq!(
        errors(text),
        "s.yaml:1: `A.y` is of a type that cannot stand there or is unknown\n\
         s.yaml:4: `x`: `b` is not a type\n\
         s.yaml:7: `B.x` is of a type that cannot stand there or is unknown\n\
         s.yaml:11: `y`: only table fields can be absent\n\
         s.yaml:15: 0x100 does not fit u8\n\
         s.yaml:18: `A` is already described at s.yaml:1\n\
         s.yaml:22: root `R` is not a table of this file\n\
         s.yaml:23: a file identifier has four bytes\n\
         s.yaml:27: `U`: variant `B` is not a table of this file\n\
         s.yaml:31: unknown kind of entry `thing`: expected root, table, struct, enum, union, layout or constant\n"
    );
}
