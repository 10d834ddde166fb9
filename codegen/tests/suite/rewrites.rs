//! Rewrites of the JIT's graph: the matcher that is generated of them, and what is refused.

use vireo_codegen::generate;

use crate::mini;

fn rewrite(rest: &str) -> String {
    format!("- rewrite: test\n  doc: A rewrite.\n{rest}")
}

#[test]
fn rewrites_become_a_matcher_and_tests() {
    let text = rewrite("  types: [i32, i64]\n  pattern: a.wrapping_add(-1)\n  replacement: a\n")
        + "\n- rewrite: other\n  doc: Another one.\n  types: [i32]\n  pattern: t.select(b, b)\n  replacement: 7\n";
    let spec = mini::load(&[("spec/jit/rewrites.yaml", &text)]).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let files = generate(&spec);
    let text_of = |path: &str| &files.iter().find(|file| file.path == path).expect("it is generated").text;
    let words = |path: &str| text_of(path).split_whitespace().collect::<Vec<_>>().join(" ");
    let matcher = words("jit/rewrites.rs");
    for expected in [
        "if matches!(of, Scalar::I32) && is_constant(graph, *operand_1, 4294967295) => { \
         // spec/jit/rewrites.yaml:1 Simpler::Operand(*operand_0) }",
        "if matches!(of, Scalar::I64) && is_constant(graph, *operand_1, 18446744073709551615) => {",
        "Primitive::Select, [_, operand_1, operand_2, ], ) if matches!(of, Scalar::I32) \
         && is_same(graph, *operand_1, *operand_2) => { // spec/jit/rewrites.yaml:7 Simpler::Constant(of, 7) }",
    ] {
        assert!(matcher.contains(expected), "{expected}: {matcher}");
    }
    let tests = words("jit/rewrite_tests.rs");
    for expected in [
        "holds::<i64>(|[a, _, _], _| <i64 as Int>::wrapping_add(a, -1), |[a, _, _], _| a);",
        "holds::<i32>(|[_, b, _], t| prim::select(t, b, b), |[_, _, _], _| 7);",
    ] {
        assert!(tests.contains(expected), "{expected}: {tests}");
    }
}

#[test]
fn rewrites_that_make_no_sense_are_refused() {
    let refused = |rest: &str| {
        let diagnostics = mini::load(&[("spec/jit/rewrites.yaml", &rewrite(rest))]).expect_err(rest);
        diagnostics.report()
    };
    let of = |types: &str, pattern: &str, replacement: &str| {
        refused(&format!("  types: [{types}]\n  pattern: {pattern}\n  replacement: {replacement}\n"))
    };
    for (report, expected) in [
        (of("i32", "a.wrapping_add(b)", "a"), "the pattern has no constant, and no variable twice: it fits every node"),
        (of("i32", "a.wrapping_add(0)", "b"), "the pattern has no variable `b`"),
        (of("i32", "a.wrapping_add(0)", "d"), "unknown operand `d`"),
        (of("i32", "a.wrapping_add(0)", "a.wrapping_add(a)"), "a rewrite makes no nodes"),
        (of("i32", "a.wrapping_sum(0)", "a"), "unknown primitive `wrapping_sum`"),
        (of("i32", "a", "a"), "a pattern is a primitive on its operands"),
        (of("i32", "a.wrapping_add(0).wrapping_add(0)", "a"), "is neither a variable nor a constant"),
        (of("i32", "a.checked_div_s(1)?", "a"), "no node of `checked_div_s` is rewritten"),
        (of("f32", "a.wrapping_add(0)", "a"), "expected"),
        (of("i32, i32", "a.wrapping_add(0)", "a"), "`i32` is listed twice"),
        (of("i8", "a.wrapping_add(0)", "a"), "`i8` is no type"),
        (of("", "a.wrapping_add(0)", "a"), "a rewrite is for at least one type"),
        (refused("  types: [i32]\n  pattern: a.wrapping_add(0)\n"), "replacement"),
    ] {
        assert!(report.contains(expected), "{expected}: {report}");
    }
    let entry = "  types: [i32]\n  pattern: a.wrapping_add(0)\n  replacement: a\n\n";
    let twice = rewrite(entry) + &rewrite(entry);
    let report = mini::load(&[("spec/jit/rewrites.yaml", &twice)]).expect_err("it is there twice").report();
    assert!(report.contains("`test` is already declared at spec/jit/rewrites.yaml:1"), "{report}");
    let report = mini::load(&[("spec/jit/rewrites.yaml", "- rule: x\n  doc: A rule.\n")]).expect_err("a rule").report();
    assert!(report.contains("unknown kind of entry `rule`"), "{report}");
}
