//! The model of `spec/isa/ptx` and what is generated from it: an accepted mini-spec, and each rule with an entry that
//! breaks it and its message.

use vireo_codegen::model::ptx::Body;
use vireo_codegen::{generate, load};

const DECLARED: &str = "\
- instruction_set: ptx
  model: ptx
  doc: Few instructions.

- type: u32
  bits: 32
  kind: unsigned
  lane: i32
  doc: An integer.

- type: s32
  bits: 32
  kind: signed
  lane: i32
  doc: An integer with a sign.

- type: f16x2
  bits: 32
  kind: packed
  lane: i32
  doc: Two halves.

- suffix: type
  types: true
  doc: The type.

- suffix: sat
  values: [sat]
  since: {sat: {isa: 7.1, target: 61}}
  doc: The result is limited.

- suffix: matrix
  values: [a, b]
  doc: The matrix.

- suffix: shape
  values: [m4n2k2]
  doc: The sizes.

- fragment: small
  row: l0 e0
  column: l1
  tiles:
    - {matrix: a, shape: m4n2k2, types: [u32, s32], registers: 2}
  doc: A matrix.

- special_register: laneid
  bits: 32
  doc: The number of the lane.

- refused: pictures
  opcodes: [tex]
  reason: pictures are not supported
";

const PRIMITIVES: &str = "\
- primitive: wrapping_add
  used_by: [ptx]
  signature: (N, N) -> N
  doc: Sum.

- primitive: limited_add
  used_by: [ptx]
  signature: (N, N) -> N
  doc: Sum, limited.

- primitive: fadd
  used_by: [ptx]
  signature: (F, F) -> F
  doc: Sum of floats.
";

const ADD: &str = "\
- instruction: add
  doc: Sum.
  operands: d:type a:type b:type
  words:
    sat: {\"\": wrapping_add, sat: limited_add}
    type: {u32: none, s32: \"\"}
  variants:
    - {form: \"type=u32\", semantics: a.wrapping_add(b)}
    - {form: \"sat? type=u32,s32\", semantics: \"a.{sat}(b){type}\", since: {isa: 7.5, target: 80}}
    - {form: \"type=f16x2\", semantics: a.fadd(b)}

- instruction: bar
  doc: A barrier.
  variants: [{special: wait}]
";

fn files<'a>(declared: &'a str, ops: &'a str) -> [(&'static str, &'a str); 3] {
    [("spec/isa/ptx/isa.yaml", declared), ("spec/isa/ptx/ops/all.yaml", ops), ("spec/primitives/some.yaml", PRIMITIVES)]
}

#[test]
fn forms_that_compute_the_same_share_a_handler() {
    let spec = load(&files(DECLARED, ADD)).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let ptx = spec.ptx("ptx").expect("the instruction set");
    // The sum of signed and of unsigned integers is one, and the limited one and that of halves are others.
    let names: Vec<&str> = ptx.handlers.iter().map(|handler| handler.name.as_str()).collect();
    assert_eq!(names, ["add_u32", "add_sat_s32", "add_f16x2"]);
    assert!(ptx.handlers[2].parts.is_some());
    let add = ptx.instructions.iter().find(|instruction| instruction.name == "add").expect("an instruction");
    let Body::Lanes(forms) = &add.variants[1].body else { panic!("it has forms") };
    let forms: Vec<Option<&str>> = forms.iter().map(|form| form.as_ref().map(|form| form.name.as_str())).collect();
    assert_eq!(forms, [None, Some("add.s32"), None, Some("add.sat.s32")], "`none` is a form that is not there");
    assert_eq!((add.variants[1].since.isa, add.variants[1].since.target), (75, 80));
    for (form, is_there) in [
        ("add.u32", true),
        ("add.s32", true),
        ("add.sat.s32", true),
        ("add.sat.u32", false),
        ("bar", true),
        ("add", false),
    ] {
        assert_eq!(ptx.has_form(form), Ok(is_there), "{form}");
    }
    assert_eq!(ptx.has_form("tex.2d"), Err("pictures are not supported"));
    let files = generate(&spec);
    let text = |path: &str| {
        files.iter().find(|file| file.path == path).map(|file| file.text.as_str()).unwrap_or_else(|| panic!("{path}"))
    };
    assert!(text("ptx/interp/all.rs").contains("lanes::run2(warp, inst, |a: u32, b: u32| prim::limited_add(a, b))"));
    assert!(text("ptx/interp/all.rs").contains("packed::of_halves([part(a[0], b[0]), part(a[1], b[1])])"));
    assert!(text("ptx/fragments.rs").contains("row: &[Bit::Lane(0), Bit::Element(0)]"));
    assert_eq!(text("ptx/fragments.rs").matches("matrix: MatrixSuffix::A").count(), 2, "one for each type");
    assert!(text("ptx/suffixes.rs").contains("pub enum SatSuffix"));
    assert!(text("ptx/suffixes.rs").contains("Class::Sat => &[(71, 61)]"));
}

#[test]
fn what_breaks_a_rule_is_refused() {
    let refused = |declared: &str, ops: &str| match load(&files(declared, ops)) {
        Ok(_) => panic!("it was accepted"),
        Err(diagnostics) => diagnostics.to_string(),
    };
    let with = |from: &str, to: &str| refused(DECLARED, &ADD.replacen(from, to, 1));
    for (from, to, message) in [
        ("form: \"type=u32\"", "form: \"typ=u32\"", "`typ` is no class of suffixes; did you mean `type`?"),
        ("form: \"type=u32\"", "form: \"type=u31\"", "`u31` is no suffix of the class `type`"),
        ("a.wrapping_add(b)}", "a.wrapping_ad(b)}", "unknown primitive `wrapping_ad`"),
        ("a.wrapping_add(b)}", "c.wrapping_add(b)}", "unknown operand `c`"),
        ("sat: {\"\": wrapping_add, ", "sat: {", "`words` have nothing for `` of `sat`"),
        ("d:type", "d:f99", "`f99` is neither a class of types in the form nor a type"),
        ("variants: [{special: wait}]", "variants: [{form: sat}]", "a variant has either `semantics` or `special`"),
        (
            "- instruction: bar",
            "- instruction: add",
            "instruction `add` is already described at spec/isa/ptx/ops/all.yaml",
        ),
    ] {
        let text = with(from, to);
        assert!(text.contains(message), "{to}: {text}");
        assert!(text.starts_with("spec/isa/ptx/ops/all.yaml:"), "{text}");
    }
    for (from, to, message) in [
        ("lane: i32", "lane: i33", "`i33` is no type of a lane"),
        ("kind: packed", "kind: pack", "`pack` is no kind of types"),
        ("row: l0 e0", "row: l0 x0", "`x0` is no bit: expected l0 to l4 of the lane or e0 to e4 of the element"),
        ("since: {sat", "since: {sut", "`sut` is none of the suffixes of this class"),
        ("matrix: a", "matrix: c", "`c` is no suffix of the class `matrix`"),
        ("types: [u32, s32]", "types: [u31]", "`u31` is no suffix of the class `type`"),
        ("  types: true\n", "", "a class of suffixes has either `values` or `types: true`"),
        ("- special_register", "- register", "unknown kind of entry `register`"),
    ] {
        let text = refused(&DECLARED.replacen(from, to, 1), ADD);
        assert!(text.contains(message), "{to}: {text}");
    }
}
