//! The model of `spec/isa/gfx11` and what is generated from it: an accepted mini-spec, and each rule with an entry that
//! breaks it and the exact message.

use vireo_codegen::{generate, load};

const ENCODINGS: &str = "\
- encoding: one
  words: 1
  doc: One source.
  fixed: [{bit: 25, width: 7, value: 0x3F}]
  fields:
    - {name: src0, bit: 0, width: 9, kind: source}
    - {name: op, bit: 9, width: 8, kind: opcode}
    - {name: vdst, bit: 17, width: 8, kind: vector}
  operands: {d: vdst, s0: src0}

- instruction_set: gfx11
  model: gfx
  doc: Few instructions.
";

const PRIMITIVES: &str = "\
- primitive: not
  used_by: [gfx11]
  signature: (L) -> L
  doc: Complement.
";

const OPS: &str = "\
- instruction: v_not_b32
  forms: {one: 0x37}
  operands: {d: b32, s0: b32}
  doc: Complement.
  semantics: s0.not()
  examples:
    - {s0: 0, d: 0xffffffff}
";

const OPERANDS: &str = "\
- registers: s
  numbers: [0, 105]
  bank: scalar
  text: numbered
  doc: Scalar registers.

- registers: vcc
  numbers: [106, 107]
  bank: scalar
  text: halves
  doc: A mask.

- reserved: traps
  numbers: [128, 239]
  doc: Not used.

- float: \"-0.5\"
  number: 240
  f16: 0xB800
  f32: 0xBF000000
  f64: 0xBFE0000000000000
  doc: Minus one half.

- integers: few
  numbers: [241, 250]
  first: -1
  step: -1
  doc: Integers.

- special: src_scc
  number: 251
  doc: SCC.

- reserved: end
  numbers: [252, 254]
  doc: Not used.

- extra_word: literal
  number: 255
  doc: A literal.

- registers: m
  numbers: [108, 127]
  bank: scalar
  text: numbered
  doc: More registers.

- registers: v
  numbers: [256, 511]
  bank: vector
  text: numbered
  doc: Vector registers.
";

const WORDS: &str = "\
- word: waits
  width: 8
  doc: Counters.
  fields:
    - {name: loads, bit: 4, width: 3, doc: Loads.}
    - {name: what, bit: 0, width: 2, kind: unit, doc: A unit.}
    - {name: flag, bit: 2, width: 1, doc: A flag.}

- word: picks
  width: 16
  doc: Picks.
  fields:
    - {name: lane, bit: 4, width: 3, count: 4, doc: A lane.}

- choice: unit
  width: 2
  doc: A unit.
  cases:
    - {name: none, numbers: [0, 0], text: \"\", doc: None.}
    - {name: near, numbers: [2, 3], amount: 1, doc: Near ones.}
";

const COUNTERS: &str = "\
- counter: SQ_WAVES
  doc: Waves.

- counter: SQ_INSTS_ONE
  encodings: [one]
  returns: true
  doc: Instructions.
";

/// The files with `wrong` in place of `right`.
fn files(right: &str, wrong: &str) -> Vec<(&'static str, String)> {
    let texts = [
        ("spec/isa/gfx11/counters.yaml", COUNTERS),
        ("spec/isa/gfx11/encodings.yaml", ENCODINGS),
        ("spec/isa/gfx11/immediates.yaml", WORDS),
        ("spec/isa/gfx11/operands.yaml", OPERANDS),
        ("spec/isa/gfx11/ops/few.yaml", OPS),
        ("spec/primitives/few.yaml", PRIMITIVES),
    ];
    let found = texts.iter().filter(|(_, text)| text.contains(right)).count();
    assert!(right.is_empty() || found == 1, "`{right}` is in {found} files");
    texts.map(|(path, text)| (path, text.replacen(right, wrong, 1))).to_vec()
}

/// The errors for the files with `wrong` in place of `right`, without the folder.
fn refused(right: &str, wrong: &str) -> String {
    let files = files(right, wrong);
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let Err(found) = load(&files) else { panic!("`{wrong}` is accepted") };
    found.to_string().replace("spec/isa/gfx11/", "")
}

#[test]
fn a_mini_spec_is_generated() {
    let files = files("", "");
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let spec = load(&files).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let files = generate(&spec);
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    for (path, lines) in [
        (
            "gfx/operands.rs",
            &[
                "    Mask,",
                "            OperandType::B512 => 16,",
                "pub const LITERAL: u32 = 255;",
                "pub const VCC: u32 = 106;",
                "pub const SCALAR_REGISTERS: u32 = 128;",
                "        last: 105,",
                "        last: 255,",
                "        value: -1,",
                "        text_f64: \"-0.5\",",
                "pub static SPECIALS: [(u32, &str); 1usize] = [(251, \"src_scc\")];",
            ][..],
        ),
        (
            "gfx/immediates.rs",
            &[
                "        self.0 >> 4 & 7",
                "        Unit::of(self.what_bits())",
                "    pub const fn flag(self) -> bool {",
                "        self.0 >> (4 + 3 * index) & 7",
                "    pub const RESERVED: u32 = 136;",
                "            2..=3 => Some(Self::Near(number & 1)),",
                "            Self::None => \"\",",
                "            Self::Near(_) => \"near\",",
            ][..],
        ),
        (
            "gfx/counters.rs",
            &[
                "pub static COUNTERS: [CounterInfo; 2usize] = [",
                "        name: \"SQ_WAVES\",",
                "        encodings: &[Encoding::One],",
                "        returns: Some(true),",
                "        without: &[],",
            ][..],
        ),
        ("gfx/instructions.rs", &["#[path = \"instructions/few.rs\"]", " = joined(&[of_few::INSTRUCTIONS]);"][..]),
        ("gfx/instructions/few.rs", &["        name: \"v_not_b32\",", "        forms: &[(Encoding::One, 55u32)],"][..]),
        ("gfx/interp/few.rs", &["    lanes::run1(wave, inst, |s0: u32| prim::not(s0))"][..]),
    ] {
        for line in lines {
            assert!(text(path).contains(line), "{line} is not in {path}:\n{}", text(path));
        }
    }
}

#[test]
fn wrong_encodings_are_refused() {
    for (right, wrong, error) in [
        ("bit: 17, width: 8", "bit: 16, width: 8", "encodings.yaml:1: `vdst` overlaps other bits\n"),
        (
            "bit: 17, width: 8",
            "bit: 28, width: 8",
            "encodings.yaml:1: `vdst` does not lie in one word of the encoding\n",
        ),
        ("bit: 17, width: 8", "bit: 17, width: 7", "encodings.yaml:1: `vdst` has 7 bits: expected 8\n"),
        (
            "bit: 0, width: 9, kind: source",
            "bit: 0, width: 7, kind: scalar_pair",
            "encodings.yaml:1: `src0` has 7 bits: expected 6\n",
        ),
        (
            "bit: 0, width: 9, kind: source",
            "bit: 0, width: 7, kind: scalar_quad",
            "encodings.yaml:1: `src0` has 7 bits: expected 5\n",
        ),
        (
            "bit: 0, width: 9, kind: source",
            "bit: 0, width: 8, kind: scalar",
            "encodings.yaml:1: `src0` has 8 bits: expected 7\n",
        ),
        (
            "name: vdst, bit: 17",
            "name: src0, bit: 17",
            "encodings.yaml:1: `d`: there is no field `vdst`\nencodings.yaml:1: two fields are called `src0`\n",
        ),
        ("value: 0x3F", "value: 0xFF", "encodings.yaml:1: the value 0xFF at bit 25 does not fit 7 bits\n"),
        ("words: 1", "words: 3", "encodings.yaml:1: 3 words: expected 1 or 2\n"),
        ("kind: opcode", "kind: number", "encodings.yaml:1: expected one field of the kind `opcode`\n"),
        ("kind: opcode", "kind: opcod", "encodings.yaml:7: `opcod` is not a kind of field; did you mean `opcode`?\n"),
        ("s0: src0}", "s0: scr0}", "encodings.yaml:1: `s0`: there is no field `scr0`; did you mean `src0`?\n"),
        ("doc: One source.", "doc: \"\"", "encodings.yaml:1: encoding has no doc\n"),
        (
            "- instruction_set: gfx11\n",
            "- encodin: two\n- instruction_set: gfx11\n",
            "encodings.yaml:11: unknown kind of entry `encodin`; did you mean `encoding`?\n",
        ),
    ] {
        let found = refused(right, wrong);
        assert!(found.contains(error), "{wrong}: {error} is not in\n{found}");
    }
}

#[test]
fn wrong_counters_are_refused() {
    let without = |name: &str| format!("returns: true\n  without: [{name}]");
    let (unknown, elsewhere) = (without("v_nto_b32"), without("v_not_b32").replace("returns: true", "encodings: []"));
    for (right, wrong, error) in [
        ("encodings: [one]", "encodings: [oen]", "counters.yaml:4: there is no encoding `oen`; did you mean `one`?\n"),
        (
            "returns: true",
            &unknown,
            "counters.yaml:4: there is no instruction `v_nto_b32`; did you mean `v_not_b32`?\n",
        ),
        ("encodings: [one]", &elsewhere, "counters.yaml:4: `v_not_b32` is in none of the encodings\n"),
        ("encodings: [one]", "encodings: []", "counters.yaml:4: `returns` is for counters of instructions\n"),
        ("SQ_INSTS_ONE", "SQ_WAVES", "counters.yaml:4: `SQ_WAVES` is declared at counters.yaml:1 already\n"),
        ("doc: Waves.", "doc: \"\"", "counters.yaml:1: counter has no doc\n"),
    ] {
        let found = refused(right, wrong);
        assert!(found.contains(error), "{wrong}: {error} is not in\n{found}");
    }
}

#[test]
fn wrong_instructions_are_refused() {
    let second = "- instruction: v_other_b32\n  forms: {one: 0x37}\n  doc: Another.\n  control: other\n\n- instruction: v_not_b32";
    for (right, wrong, error) in [
        ("- instruction: v_not_b32", second, "few.yaml:6: opcode 0x37 of `one` is taken at ops/few.yaml:1\n"),
        ("v_not_b32", "one", "few.yaml:1: `one` is declared at encodings.yaml:1 already\n"),
        ("{one: 0x37}", "{oen: 0x37}", "few.yaml:1: there is no encoding `oen`; did you mean `one`?\n"),
        ("{one: 0x37}", "{one: 0x137}", "few.yaml:1: opcode 0x137 does not fit 8 bits of `one`\n"),
        ("{one: 0x37}", "{}", "few.yaml:1: expected at least one form\n"),
        ("s0: b32}", "s0: b33}", "few.yaml:3: `s0`: unexpected value\n"),
        ("s0: b32}", "s0: b32, s1: b32}", "few.yaml:1: `one` has no field for the operand `s1`\n"),
        (
            "s0.not()",
            "s1.not()",
            "few.yaml:5: `d`: unknown operand `s1`: expected one of d s0 scc vcc exec exec64 pc; did you mean `s0`?\n",
        ),
        ("s0.not()", "s0.nt()", "few.yaml:5: `d`: unknown primitive `nt`; did you mean `not`?\n"),
        ("s0.not()", "s0.not(d)", "few.yaml:5: `d`: `not` takes 1 operands, 2 are given\n"),
        (
            "s0.not()",
            "s0 + 1",
            "few.yaml:5: `d`: the operator `+` is not allowed: semantics are method calls of primitives only\n",
        ),
        ("s0.not()", "s0.not(", "few.yaml:5: `d`: this `(` is not closed\n"),
        ("d: b32, s0: b32", "d: b64, s0: b32", "few.yaml:5: `d`: the value is i32, expected i64\n"),
        ("s0: b32}", "s0: f32}", "few.yaml:5: `d`: operand 1 of `not` is f32, expected i16, i32, i64 or bool\n"),
        ("semantics: s0.not()", "semantics: {e: s0.not()}", "few.yaml:5: there is no result `e`"),
        (
            "  semantics: s0.not()\n",
            "",
            "few.yaml:1: expected exactly one of `semantics`, `helper`, `control` and `access`\n",
        ),
        (
            "{s0: 0, d:",
            "{s1: 0, d:",
            "few.yaml:1: an example gives `s1`, which the instruction does not have; did you mean `s0`?\n",
        ),
        ("{s0: 0, d:", "{s0: -1, d:", "few.yaml:7: `s0`: unexpected value\n"),
        ("doc: Complement.\n  sem", "doc: \" \"\n  sem", "few.yaml:1: instruction has no doc\n"),
    ] {
        let found = refused(right, wrong);
        assert!(found.contains(error), "{wrong}: {error} is not in\n{found}");
    }
    let access = |access: &str| refused("semantics: s0.not()", &format!("access: {access}"));
    assert_eq!(
        access("{op: load, space: globl, value: b33, part: hihg}"),
        "ops/few.yaml:5: `globl` is not a space of an access; did you mean `global`?\n\
         ops/few.yaml:5: `b33` is not a value of an access; did you mean `b32`?\n\
         ops/few.yaml:5: `hihg` is not a part of an access; did you mean `high`?\n"
    );
}

/// Encodings with the same fixed bits share their opcodes, and others do not.
#[test]
fn encodings_that_a_decoder_cannot_distinguish_share_opcodes() {
    let ops = |fixed: &str| {
        format!(
            "{OPS}\n- encoding: two\n  words: 2\n  doc: Two.\n  fixed: [{fixed}]\n  fields:\n    \
             - {{name: op, bit: 9, width: 8, kind: opcode}}\n  operands: {{}}\n\n- instruction: v_two\n  \
             forms: {{two: 0x37}}\n  doc: Two.\n  control: two\n"
        )
    };
    let load = |ops: &str| {
        load(&[
            ("spec/isa/gfx11/encodings.yaml", ENCODINGS),
            ("spec/isa/gfx11/ops/x.yaml", ops),
            ("spec/primitives/few.yaml", PRIMITIVES),
        ])
    };
    assert!(load(&ops("{bit: 25, width: 7, value: 0x3E}")).is_ok());
    let found = load(&ops("{bit: 25, width: 7, value: 0x3F}")).expect_err("the same opcode").to_string();
    assert!(found.contains("opcode 0x37 of `one` is taken at spec/isa/gfx11/ops/x.yaml:1"), "{found}");
}

/// Each mnemonic of an assembler is an instruction, or left out for a reason, and nothing else.
#[test]
fn mnemonics_are_instructions_or_left_out() {
    let with = |text: &str| {
        let ops = format!("{OPS}\n{text}");
        let found = load(&[
            ("spec/isa/gfx11/encodings.yaml", ENCODINGS),
            ("spec/isa/gfx11/ops/x.yaml", &ops),
            ("spec/primitives/few.yaml", PRIMITIVES),
        ]);
        found.err().map(|found| found.to_string().replace("spec/isa/gfx11/ops/", "")).unwrap_or_default()
    };
    let table = |names: &str| format!("- assembler: one\n  names: {{{names}}}\n");
    let left_out = "- left_out: of_others\n  names: [v_exp]\n  reason: No reason.\n";
    assert_eq!(with(&table("0x37: v_not_b32")), "");
    assert_eq!(with(&format!("{}{left_out}", table("0x37: v_not_b32, 2: v_exp"))), "");
    for (text, error) in [
        (
            table("0x37: v_not_b32, 2: v_exp"),
            "x.yaml:9: `v_exp`, 0x02 of `one`, is neither an instruction nor left out\n",
        ),
        (table("0x37: v_not_b16"), "x.yaml:9: `v_not_b16`, 0x37 of `one`, is the instruction `v_not_b32`\n"),
        (table(""), "x.yaml:1: the assembler has no 0x37 of `one`\n"),
        (
            format!("{}{left_out}", table("0x37: v_exp")),
            "x.yaml:9: `v_exp`, 0x37 of `one`, is left out by `of_others` and an instruction\n",
        ),
        (format!("{}{left_out}", table("0x37: v_not_b32")), "x.yaml:11: `v_exp`: the assembler has no such mnemonic\n"),
        (table("0x37: v_not_b32").replace("one", "two"), "x.yaml:9: there is no encoding `two`\n"),
        (left_out.replace(" No reason.", " \" \""), "x.yaml:9: left_out has no doc\n"),
    ] {
        let found = with(&text);
        assert!(found.contains(error), "{error} is not in\n{found}");
    }
}

#[test]
fn wrong_sources_are_refused() {
    for (right, wrong, error) in [
        (
            "numbers: [0, 105]",
            "numbers: [0, 106]",
            "operands.yaml:7: the number 106 is that of `s` at operands.yaml:1 already\n",
        ),
        (
            "numbers: [0, 105]",
            "numbers: [0, 104]",
            "operands.yaml:7: the numbers 105 to 105 are not declared; `reserved` says so\n",
        ),
        (
            "numbers: [256, 511]",
            "numbers: [256, 510]",
            "operands.yaml:48: the numbers 511 to 511 are not declared; `reserved` says so\n",
        ),
        (
            "numbers: [256, 511]",
            "numbers: [256, 512]",
            "operands.yaml:49: 256 to 512 is not a range of numbers of 9 bits\n",
        ),
        (
            "numbers: [256, 511]",
            "numbers: [511, 256]",
            "operands.yaml:49: 511 to 256 is not a range of numbers of 9 bits\n",
        ),
        (
            "numbers: [108, 127]",
            "numbers: [108, 128]",
            "operands.yaml:42: 108 to 128 is not within 0 to 127, the numbers of entries of this kind\n",
        ),
        (
            "bank: vector",
            "bank: scalar",
            "operands.yaml:48: 256 to 511 is not within 0 to 127, the numbers of entries of this kind\n",
        ),
        (
            "bank: vector",
            "bank: vecto",
            "operands.yaml:50: `vecto` is not a bank of registers; did you mean `vector`?\n",
        ),
        ("text: halves", "text: halfs", "operands.yaml:10: `halfs` is not a form of text; did you mean `halves`?\n"),
        ("text: halves", "text: single", "operands.yaml:10: 2 registers cannot be written as `single`: expected 1\n"),
        (
            "numbers: [106, 107]",
            "numbers: [105, 107]",
            "operands.yaml:10: 3 registers cannot be written as `halves`: expected 2\n",
        ),
        ("f16: 0xB800", "f16: 0x3800", "operands.yaml:19: `-0.5`: f16 is 0x3800, which is 0.5, but f64 is -0.5\n"),
        (
            "f32: 0xBF000000",
            "f32: 0xBF000001",
            "operands.yaml:20: `-0.5`: f32 is 0xBF000001, but f64 rounds to 0xBF000000\n",
        ),
        ("float: \"-0.5\"", "float: \"-0.6\"", "operands.yaml:17: `-0.6` is not the text of f32, -0.5\n"),
        ("f16: 0xB800", "f16: 0x1B800", "operands.yaml:19: "),
        ("step: -1", "step: 0", "operands.yaml:24: `few`: steps of 0 give no integers\n"),
        ("step: -1", "step: -2000000000", "operands.yaml:24: `few`: steps of -2000000000 give no integers\n"),
        ("special: src_scc", "special: vcc", "operands.yaml:30: `vcc` is declared at operands.yaml:7 already\n"),
        ("doc: SCC.", "doc: \"\"", "operands.yaml:30: special has no doc\n"),
        ("doc: SCC.", "dok: SCC.", "operands.yaml:32: unknown key `dok`; did you mean `doc`?\n"),
    ] {
        let found = refused(right, wrong);
        assert!(found.contains(error), "{wrong}: {error} is not in\n{found}");
    }
}

#[test]
fn wrong_words_are_refused() {
    for (right, wrong, error) in [
        (
            "bit: 4, width: 3, doc",
            "bit: 1, width: 3, doc",
            "immediates.yaml:6: `what` overlaps `loads`\nimmediates.yaml:7: `flag` overlaps `loads`\n",
        ),
        (
            "bit: 4, width: 3, doc",
            "bit: 6, width: 3, doc",
            "immediates.yaml:5: `loads`: 3 bits from bit 6 on do not lie in 8 bits\n",
        ),
        (
            "bit: 4, width: 3, doc",
            "bit: 4, width: 0, doc",
            "immediates.yaml:5: `loads`: 0 bits from bit 4 on do not lie in 8 bits\n",
        ),
        ("count: 4", "count: 5", "immediates.yaml:13: `lane`: 15 bits from bit 4 on do not lie in 16 bits\n"),
        ("name: flag", "name: what", "immediates.yaml:7: two fields are called `what`\n"),
        ("kind: unit", "kind: unti", "immediates.yaml:6: `what`: there is no choice `unti`; did you mean `unit`?\n"),
        ("width: 2, kind: unit", "width: 1, kind: unit", "immediates.yaml:6: `what` has 1 bits, and `unit` has 2\n"),
        ("doc: Loads.", "doc: \"\"", "immediates.yaml:5: `loads`: the doc is empty\n"),
        ("  width: 8", "  width: 33", "immediates.yaml:2: 33 bits: expected 1 to 32\n"),
        ("numbers: [0, 0]", "numbers: [2, 2]", "immediates.yaml:20: `near` has numbers of `none`\n"),
        ("numbers: [2, 3]", "numbers: [2, 4]", "immediates.yaml:20: `near`: 2 to 4 is not a range of 2 bits\n"),
        (
            "numbers: [2, 3]",
            "numbers: [1, 2]",
            "immediates.yaml:20: `near`: 1 and 2 differ in more than the 1 bits of the amount\n",
        ),
        ("name: near", "name: none", "immediates.yaml:20: two cases are called `none`\n"),
        ("doc: Near ones.", "doc: \"\"", "immediates.yaml:20: `near`: the doc is empty\n"),
        ("choice: unit", "choice: waits", "immediates.yaml:15: `waits` is declared at immediates.yaml:1 already\n"),
    ] {
        let found = refused(right, wrong);
        assert!(found.contains(error), "{wrong}: {error} is not in\n{found}");
    }
}
