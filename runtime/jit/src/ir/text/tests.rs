//! Graphs of the fixtures are the same after they were written and read; texts that are no graphs are refused.

use super::parse::{parse, unused_exit, unused_node};
use super::print::Text;
use super::used::Used;
use crate::analysis::calls::FunctionContext;
use crate::build::build;
use crate::ir::graph::{CompileMode, Graph};
use crate::passes::optimise::optimise;
use crate::processor::features::Features;
use crate::tests::fixture_modules;

/// Checks that a graph is the same after it was written and read.
fn check_round_trip(name: &str, graph: &Graph) {
    let text = Text(graph).to_string();
    let read = parse(&text, 1).unwrap_or_else(|mistake| panic!("{name}:{mistake}\n{text}"));
    assert_eq!(Text(&read).to_string(), text, "{name}");
    // All fields are named, so that a new one is not forgotten.
    let Graph {
        nodes,
        blocks,
        exits,
        order,
        origins,
        terminator_ops,
        native_terminators,
        native_entry,
        inlined_entry,
        folded,
        effort: _,
        decisions: _,
    } = graph;
    let used = Used::new(graph);
    for (index, node) in read.nodes.iter().enumerate() {
        let expected = if used.nodes.contains(index) { nodes[index].clone() } else { unused_node() };
        assert_eq!(*node, expected, "{name}: v{index}");
    }
    assert_eq!(read.nodes.len(), used.nodes.iter().last().map_or(0, |last| last + 1), "{name}");
    for (index, exit) in read.exits.iter().enumerate() {
        let expected = if used.exits.contains(index) { exits[index].clone() } else { unused_exit() };
        assert_eq!(*exit, expected, "{name}: e{index}");
    }
    assert_eq!(read.exits.len(), used.exits.iter().last().map_or(0, |last| last + 1), "{name}");
    for node in used.nodes.iter() {
        assert_eq!(read.origins.get(node), origins.get(node), "{name}: v{node}");
    }
    assert_eq!((&read.blocks, &read.order), (blocks, order), "{name}");
    let sorted = |graph: &Graph| {
        let mut ops = graph.terminator_ops.clone();
        ops.sort();
        ops
    };
    assert_eq!((sorted(&read), read.terminator_ops.len()), (sorted(graph), terminator_ops.len()), "{name}");
    assert_eq!(read.native_terminators, *native_terminators, "{name}");
    assert_eq!((read.native_entry, read.inlined_entry), (*native_entry, *inlined_entry), "{name}");
    assert!(read.folded.iter().eq(folded.iter().filter(|node| used.nodes.contains(*node))), "{name}");
}

#[test]
fn graphs_are_the_same_after_writing_and_reading() {
    let features = |avx2, avx512| Features { avx: true, bmi2: true, lzcnt: true, avx2, avx512 };
    let processors = [features(false, false), features(true, false), features(true, true)];
    let mut graphs = 0;
    for (name, module) in fixture_modules() {
        for function in module.functions.iter() {
            let context = FunctionContext { module: &module, function };
            for mode in [CompileMode::Optimised, CompileMode::Baseline] {
                let Some(built) = build(context, mode) else { continue };
                check_round_trip(&format!("{name}, built"), &built);
                graphs += 1;
            }
            for processor in processors {
                let Some(mut graph) = build(context, CompileMode::Optimised) else { continue };
                optimise(&mut graph, processor, true);
                check_round_trip(&format!("{name}, optimised"), &graph);
                graphs += 1;
            }
        }
    }
    assert!(graphs > 1000, "{graphs}");
}

/// A graph with most of what a text may have.
const WHOLE: &str = "graph
native_entry b2 function 7
inlined_entry b1

v2: i32 = constant[1] @0
v5 = store_i32.i32 v0, v0, v2

b0: entry 0 preheader e0
  v0: i64 = slot[0] @0
  jump b1(v2) @0
b1(v1: i32 @1): depth 1 header e1
  v3: truth = is_nonzero.i32 v1 @2
  v4: f32x16 = load_lanes[load_f32, 2] v0, v0 exit e1 folded @2
  branch v3, b1(v2) limits e0 skips_header_test, b2 @3
b2: entry 4 resumes native
  v6: i32x8 = constant_quotients[signed negative shift 3] v4, v4
  side_exit op e1 @4
  native op continuation b3 filled moves_refs import 2 lent get 1 2 3 direct 0x10 0x20 result f32 4 passes v0 as i64 slot 2
b3: unplaced
  side_exit call e1
  native call function 1 advance 8 size 16 zeroed 8 refs 1 passes_refs continuation b0 live 1, 2 passes v2 as i32 slot 0 register 3

e0: op 0 slots 0 = v0, 2 = v0.low, 3 = v0.high references 0 = 1, 1 = null stores v5 fallback b1(v2)
e1: op 4
";

#[test]
fn texts_are_the_same_after_reading_and_writing() {
    let graph = parse(WHOLE, 1).unwrap();
    assert_eq!(Text(&graph).to_string(), WHOLE);
    check_round_trip("a whole graph", &graph);
    // Spaces, empty lines and comments mean nothing.
    let spread = WHOLE.replace('\n', "  ; a comment\n\n\t").replace(',', " , ");
    assert_eq!(Text(&parse(&spread, 1).unwrap()).to_string(), WHOLE);
}

#[test]
fn mistakes_are_told_with_line_and_column() {
    for (text, expected) in [
        ("", "1:1: expected `graph`, the text ends"),
        ("\n v0 = low", "2:2: expected `graph`, found `v0`"),
        ("graph b", "1:7: expected the end of the line, found `b`"),
        ("graph\nv0: i33 = low", "2:5: expected a type, found `i33`"),
        ("graph\nv0: i32x7 = low", "2:5: expected a type, found `i32x7`"),
        ("graph\nv0 = lowest", "2:6: there is no operation `lowest`"),
        ("graph\nv0 = wrapping_add v0", "2:19: expected `.`, found `v0`"),
        ("graph\nv0 = wrapping_add.i8 v0", "2:19: expected a type, found `i8`"),
        ("graph\nv0 = slot", "2:10: expected `[`, the line ends"),
        ("graph\nv0 = slot[65536]", "2:11: 65536 is out of range"),
        ("graph\nv0 = slot[-1]", "2:11: -1 is out of range"),
        ("graph\nv0 = slot[+1]", "2:11: expected a number, found `+`"),
        ("graph\nv0 = slot[0x-1]", "2:11: expected a number, found `0x`"),
        ("graph\nv0 = slot[1", "2:12: expected `]`, the line ends"),
        ("graph\nv0 = slot[1] é", "2:14: expected the end of the line, found `é`"),
        ("graph\né", "2:1: expected a value, a block, an exit or a terminator, found `é`"),
        ("graph\n  v0 = parameter", "2:8: parameters come after the number of their block"),
        ("graph\nv0 = low v1, v2 exit e0", "2:10: there is no v1"),
        ("graph\nv0 = low exit e0", "2:15: there is no e0"),
        ("graph\nv0 = low\nv0 = low", "3:1: there is a v0 already"),
        ("graph\nv4294967295 = low", "2:1: numbers of values are below 1048576"),
        ("graph\nv4294967296 = low", "2:1: expected a value, a block, an exit or a terminator, found `v4294967296`"),
        ("graph\nv01 = low", "2:1: expected a value, a block, an exit or a terminator, found `v01`"),
        ("graph\ne1048576: op 0", "2:1: numbers of exits are below 1048576"),
        ("graph\nv0 = low\nv1 = low @1", "2:1: v0 is from no op, and v1 is from one"),
        ("graph\nb0", "2:3: expected `:`, the line ends"),
        ("graph\nb0:", "2:1: b0 has no terminator"),
        ("graph\nb0:\nb1:\n", "3:1: b0 has no terminator"),
        ("graph\nb0:\n  open\nb0:\n open", "4:1: there is a b0 already"),
        ("graph\nb0:\n  jump b1", "3:8: there is no b1"),
        ("graph\nb4294967295:\n  open", "3:3: there is no b0, but a b4294967295"),
        ("graph\n  open", "2:3: this terminator is in no block"),
        ("graph\nb0:\n  open\n  v0 = low", "4:3: its block has ended"),
        ("graph\nb0:\n  jump b0 limits", "3:17: expected an exit such as `e0`, the line ends"),
        ("graph\nb0:\n  guarded b0", "3:13: expected `,`, the line ends"),
        ("graph\nb0(v0: i32, v0: i32):\n  open", "2:13: there is a v0 already"),
        ("graph\ne0: op 1 slots 0 = v1", "2:20: there is no v1"),
        ("graph\ne0: op 1\ne0: op 1", "3:1: there is an e0 already"),
        ("graph\nnative_entry b0 function 0", "2:14: there is no b0"),
        ("graph\nnative op", "2:8: expected no native terminator, which follows the terminator of a block, found `op`"),
        ("graph\nb0:\n  open\n  native", "4:9: expected `return`, `call` or `op`, the line ends"),
    ] {
        assert_eq!(parse(text, 1).map_err(|mistake| mistake.to_string()).err().as_deref(), Some(expected), "{text}");
    }
    // Lines are those of the file that the text is in.
    assert_eq!(parse("graph\nx", 11).unwrap_err().line, 12);
}

#[test]
fn no_text_makes_the_parser_panic() {
    // Each text without a part of it, and with a part twice.
    for start in (0..WHOLE.len()).filter(|start| WHOLE.is_char_boundary(*start)) {
        for length in [1, 2, 5, 30] {
            let end = (start + length).min(WHOLE.len());
            for text in [
                format!("{}{}", &WHOLE[..start], &WHOLE[end..]),
                format!("{}{}{}", &WHOLE[..end], &WHOLE[start..end], &WHOLE[end..]),
            ] {
                if let Ok(graph) = parse(&text, 1) {
                    // A graph that was read can be written.
                    let written = Text(&graph).to_string();
                    assert_eq!(Text(&parse(&written, 1).unwrap()).to_string(), written);
                }
            }
        }
    }
}
