//! The model of `spec/api/amdgpu` and what is generated from it: accepted mini-specs, rejected ones with their exact
//! messages, and the comparison with C headers where a C compiler and the headers are installed.

use std::path::Path;
use std::process::Command;

use vireo_codegen::{generate, load};

use crate::skip::{Need, skipped};

const WORDS: &str = "\
- code: colour
  type: u8
  doc: A colour.
  values:
    - {name: red, value: 1, doc: Red.}
    - {name: blue, value: 2, doc: Blue.}

- handle: lamp
  type: u64
  doc: A lamp.

- word: head
  type: u16
  doc: The head.
  fields:
    - {name: kind, bit: 0, width: 4, kind: colour, doc: Which.}
    - {name: lit, bit: 8, doc: Whether.}
";

const LAYOUTS: &str = "\
- layout: red_thing
  size: 16
  align: 8
  readable: true
  writable: true
  doc: A red thing.
  fields:
    - {name: head, offset: 0, type: head, doc: Its head.}
    - {name: reserved, offset: 2, type: u16, count: 3, doc: Zero.}
    - {name: lamp, offset: 8, type: lamp, doc: Its lamp.}

- family: thing
  doc: A thing.
  variants:
    - {name: red, layout: red_thing, when: {head.kind: red}, sets: {head.lit: 1}}

- c_header: red_thing
  header: hsa
  type: red_thing_t

- headers: hsa
  includes: [things.h]
  doc: Of things.
";

fn refused(text: &str) -> String {
    let files = [
        ("spec/api/amdgpu/things.yaml", LAYOUTS),
        ("spec/api/amdgpu/words.yaml", WORDS),
        ("spec/api/amdgpu/x.yaml", text),
    ];
    load(&files).expect_err("the spec is wrong").to_string()
}

#[test]
fn a_mini_spec_is_generated() {
    let spec = load(&[("spec/api/amdgpu/things.yaml", LAYOUTS), ("spec/api/amdgpu/words.yaml", WORDS)])
        .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let files = generate(&spec);
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    let things = text("amdgpu/things.rs");
    for line in [
        "    pub head: super::words::Head,",
        "    assert!(std::mem::offset_of!(RedThing, lamp) == 8);",
        "            head: super::words::Head(u16::from_le_bytes([bytes[0], bytes[1]])),",
        "        ] = self.lamp.0.to_le_bytes();",
        "        if tag(bytes, 0, 2, 0, 4) == Some(1) {",
        "        bytes[1] = 1;",
    ] {
        assert!(things.contains(line), "{line} is not in\n{things}");
    }
    let words = text("amdgpu/words.rs");
    for line in
        ["        self.0 >> 8 & 1 != 0", "        Colour((self.0 & 15) as u8)", "    pub const RESERVED: u16 = 0xfef0;"]
    {
        assert!(words.contains(line), "{line} is not in\n{words}");
    }
    assert!(text("amdgpu/compare_hsa.c").contains("SAME(offsetof(red_thing_t, lamp), 0x8ull);"));
}

/// Layouts, families and header names refer to the word, and would each say that it is not there.
#[test]
fn one_bad_bit_field_is_one_error() {
    for (right, wrong, error) in [
        ("lit, bit: 8", "lit, bits: 8", "fields: unknown key `bits`; did you mean `bit`?"),
        ("lit, bit: 8", "lit, bit: 20", "`lit`: bit 20 and width 1 do not lie in 16 bits"),
    ] {
        let words = WORDS.replace(right, wrong);
        let files = [("spec/api/amdgpu/things.yaml", LAYOUTS), ("spec/api/amdgpu/words.yaml", words.as_str())];
        let found = load(&files).expect_err("the spec is wrong").to_string();
        assert_eq!(found, format!("spec/api/amdgpu/words.yaml:17: {error}\n"));
    }
}

#[test]
fn misspelt_names_are_named() {
    let layouts = LAYOUTS.replace("type: head,", "type: haed,");
    let files = [("spec/api/amdgpu/things.yaml", layouts.as_str()), ("spec/api/amdgpu/words.yaml", WORDS)];
    let found = load(&files).expect_err("the spec is wrong").to_string();
    let expected = "\
spec/api/amdgpu/things.yaml:8: field `head`: its type `haed` is not declared in spec/api/amdgpu; did you mean `head`?
";
    assert_eq!(found, expected);
}

#[test]
fn wrong_words_are_refused() {
    assert_eq!(
        refused(
            "- word: tail\n  type: u8\n  doc: A tail.\n  fields:\n    - {name: a, bit: 0, width: 3, doc: A.}\n    \
             - {name: a, bit: 2, doc: B.}\n    - {name: c, bit: 4, kind: colour, doc: C.}\n    \
             - {name: d, bit: 6, width: 2, kind: lamp, doc: D.}\n"
        ),
        "spec/api/amdgpu/x.yaml:6: `a` at bit 2 overlaps the field before it, which ends at 3\n\
         spec/api/amdgpu/x.yaml:6: two fields are called `a`\n\
         spec/api/amdgpu/x.yaml:7: `c`: `blue` of `colour` does not fit 1 bits\n\
         spec/api/amdgpu/x.yaml:8: `d`: there is no code `lamp`\n"
    );
    assert_eq!(
        refused("- word: tail\n  type: u64\n  doc: A tail.\n  fields: []\n"),
        "spec/api/amdgpu/x.yaml:2: `u64` cannot hold a word: expected u8, u16 or u32\n"
    );
    assert_eq!(
        refused("- word: tail\n  type: u8\n  doc: A tail.\n  fields:\n    - {name: a, bit: 7, width: 2, doc: A.}\n"),
        "spec/api/amdgpu/x.yaml:5: `a`: bit 7 and width 2 do not lie in 8 bits\n"
    );
}

#[test]
fn wrong_families_are_refused() {
    let family = |variants: &str| refused(&format!("- family: other\n  doc: Others.\n  variants:\n{variants}"));
    assert_eq!(
        family("    - {name: a, layout: head, when: {head.kind: red}}\n"),
        "spec/api/amdgpu/x.yaml:4: `a`: there is no writable layout `head`\n"
    );
    assert_eq!(
        family("    - {name: a, layout: red_thing, when: {head.kind: green}}\n"),
        "spec/api/amdgpu/x.yaml:4: `a`: `head.kind` expects a value of `colour`, which has no `green`\n"
    );
    assert_eq!(
        family("    - {name: a, layout: red_thing, when: {head.hat: 1}, sets: {head.lit: 2}}\n"),
        "spec/api/amdgpu/x.yaml:4: `a`: `head.hat` does not name a field of the word `head`\n\
         spec/api/amdgpu/x.yaml:4: `a`: `head.lit` cannot be 2: it has 1 bits\n"
    );
    assert_eq!(
        family("    - {name: a, layout: red_thing, when: {reserved: 1}}\n"),
        "spec/api/amdgpu/x.yaml:4: `a`: `reserved` is not in `red_thing`: it has no single field `reserved`\n"
    );
    assert_eq!(
        family(
            "    - {name: a, layout: red_thing, when: {head.kind: red}}\n    \
             - {name: b, layout: red_thing, when: {head.kind: red, head.lit: 1}}\n"
        ),
        "spec/api/amdgpu/x.yaml:5: `b`: nothing tells it from `a`\n"
    );
}

#[test]
fn wrong_layouts_and_functions_are_refused() {
    let layout = |size: u32, fields: &str| {
        refused(&format!(
            "- layout: y\n  size: {size}\n  align: 4\n  readable: true\n  writable: true\n  doc: Y.\n  fields:\n{fields}"
        ))
    };
    assert_eq!(
        layout(4, "    - {name: a, offset: 0, type: nothing, doc: A.}\n"),
        "spec/api/amdgpu/x.yaml:8: field `a`: its type `nothing` is not declared in spec/api/amdgpu\n"
    );
    assert_eq!(
        layout(12, "    - {name: a, offset: 0, type: head, doc: A.}\n    - {name: b, offset: 8, type: u32, doc: B.}\n"),
        "spec/api/amdgpu/x.yaml:9: field `b` at 8: expected 4; declare what lies between\n"
    );
    assert_eq!(
        refused(
            "- library: x\n  title: X\n  names: [x.so]\n  finder: dlsym\n  doc: X.\n\n- symbol: f\n  args:\n    \
             - {name: a, type: red_thing}\n    - {name: b, type: mut nothing}\n  doc: F.\n"
        ),
        "spec/api/amdgpu/x.yaml:7: `b` is `mut nothing`: expected an integer, a pointer or the name of a code or handle\n"
    );
    // Functions of libraries may take structs by value, callbacks may not.
    assert_eq!(
        refused("- function: f\n  args:\n    - {name: a, type: red_thing}\n  doc: F.\n"),
        "spec/api/amdgpu/x.yaml:1: `a` is `red_thing`: expected an integer, a pointer or the name of a code or handle\n"
    );
}

#[test]
fn wrong_names_are_refused() {
    assert_eq!(
        refused("- handle: lamp\n  type: u64\n  doc: Another lamp.\n\n- object: thing\n  doc: A thing.\n"),
        "spec/api/amdgpu/x.yaml:1: `lamp` is declared at spec/api/amdgpu/words.yaml:8 already\n\
         spec/api/amdgpu/x.yaml:5: unknown kind of entry `object`\n"
    );
    assert_eq!(
        refused(
            "- c_header: head\n  header: hsa\n  absent: [hat]\n\n- c_header: hat\n  header: hsa\n\n- c_header: lamp\n  header: cuda\n"
        ),
        "spec/api/amdgpu/x.yaml:3: `head` has no `hat`\n\
         spec/api/amdgpu/x.yaml:5: nothing is called `hat`\n\
         spec/api/amdgpu/x.yaml:9: there are no headers `cuda`\n"
    );
}

/// Sizes, offsets, values and signatures are those of the installed HSA headers.
#[test]
fn the_specs_agree_with_c_headers() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/amdgpu/compare_headers.sh");
    let output = match Command::new("bash").arg(&script).output() {
        Ok(output) => output,
        Err(error) => {
            skipped(Need::Tool("bash"), format_args!("bash does not start: {error}"));
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    for why in text.lines().filter_map(|line| line.strip_prefix("skipped: ")) {
        let need = match why {
            _ if why.contains("C compiler") => Need::Tool("cc"),
            _ if why.contains("IREE_RUNTIME_SOURCE") => Need::Variable("IREE_RUNTIME_SOURCE"),
            _ => Need::Package("libhsa-runtime-dev"),
        };
        skipped(need, why);
    }
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}
