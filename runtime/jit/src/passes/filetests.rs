//! Runs the file tests of passes: `filetests/PASS/*.graph` has a graph, and the graph that the pass makes of it.
//!
//! ```text
//! ; Why the case is there.
//! graph
//! ...
//! --- dce
//! graph
//! ...
//! ```
//!
//! A pass that changes nothing has the line `--- dce: unchanged` at the end. A line `; features: avx2` before the graph
//! is for passes that ask for features of the processor. The verifier of graphs looks at both graphs.
//! `INSTA_UPDATE=always` rewrites the second graph of each file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::replacements::Replacements;
use super::{
    block_layout, block_parameters, call_pairing, dce, folding, guard_sinking, gvn, if_conversion, licm, splats,
    strip_mining, vectorise,
};
use crate::analysis::dominators::{Dominators, predecessors};
use crate::analysis::verify::{RangeChecks, Verifier};
use crate::ir::graph::Graph;
use crate::ir::text::parse::parse;
use crate::ir::text::print::Text;
use crate::processor::features::Features;

/// A pass with the range checks that graphs have before and after it in the pipeline.
struct Pass {
    name: &'static str,
    before: RangeChecks,
    after: RangeChecks,
    run: fn(&mut Graph, Features),
}

const fn pass(name: &'static str, before: RangeChecks, after: RangeChecks, run: fn(&mut Graph, Features)) -> Pass {
    Pass { name, before, after, run }
}

use RangeChecks::{Exact, Guarded, Skipped};

/// The passes. Those that LICM runs for each loop are run by it here, too.
const PASSES: &[Pass] = &[
    pass("block_parameters", Exact, Exact, |graph, _| {
        let predecessors = predecessors(graph);
        block_parameters::remove_redundant(graph, &predecessors);
    }),
    pass("simplify", Skipped, Skipped, |graph, _| number_values(graph, gvn::Loads::Kept)),
    pass("gvn", Exact, Exact, |graph, _| number_values(graph, gvn::Loads::Numbered)),
    pass("dce", Exact, Exact, |graph, _| dce::remove_dead_nodes(graph, true)),
    pass("if_conversion", Exact, Exact, |graph, _| _ = if_conversion::convert_branches(graph)),
    pass("strip_mining", Exact, Exact, |graph, features| _ = strip_mining::split_loops(graph, features)),
    pass("vectorise", Exact, Guarded, |graph, features| _ = vectorise::vectorise_loops(graph, features)),
    pass("licm", Guarded, Skipped, hoist),
    pass("range_check_hoisting", Guarded, Skipped, hoist),
    pass("scalar_promotion", Guarded, Skipped, hoist),
    pass("strength_reduction", Guarded, Skipped, hoist),
    pass("index_reduction", Guarded, Skipped, hoist),
    pass("guard_sinking", Guarded, Skipped, |graph, _| {
        let hoisted = hoist_invariants(graph);
        guard_sinking::sink_guards(graph, hoisted.guarded);
    }),
    pass("splats", Skipped, Skipped, |graph, _| {
        splats::fold_loads(graph);
        dce::remove_dead_nodes(graph, false);
        splats::fold_into_users(graph);
    }),
    pass("call_pairing", Skipped, Skipped, |graph, _| call_pairing::pair_calls(graph)),
    pass("block_layout", Skipped, Skipped, |graph, _| block_layout::lay_out(graph)),
    pass("folding", Skipped, Skipped, |graph, _| folding::fold(graph)),
];

fn number_values(graph: &mut Graph, loads: gvn::Loads) {
    let mut replacements = Replacements::new(graph);
    let constants = gvn::merge_constants(graph, &mut replacements);
    gvn::number_values(graph, &Dominators::new(graph), replacements, constants, loads);
}

fn hoist(graph: &mut Graph, _: Features) {
    hoist_invariants(graph);
}

/// LICM, after which the parameters that it has made replace their products.
fn hoist_invariants(graph: &mut Graph) -> licm::Hoisted {
    let tree = Dominators::new(graph);
    let hoisted = licm::hoist_invariants(graph, &tree, true);
    let mut replacements = Replacements::new(graph);
    hoisted.products.iter().for_each(|(product, sum)| replacements.0[product.index()] = *sum);
    replacements.apply(graph);
    hoisted
}

/// A file, taken apart.
struct Case<'t> {
    /// Everything before the line with the pass.
    before: &'t str,
    /// Everything from there on.
    rest: &'t str,
    features: Features,
}

impl<'t> Case<'t> {
    fn new(text: &'t str) -> Result<Case<'t>, String> {
        let end = if text.starts_with("--- ") { Some(0) } else { text.find("\n--- ").map(|end| end + 1) };
        let (before, rest) = text.split_at(end.unwrap_or(text.len()));
        let mut features = Features::default();
        let names = before.lines().filter_map(|line| line.strip_prefix("; features: "));
        for name in names.flat_map(str::split_whitespace) {
            match name {
                "avx2" => (features.avx, features.avx2) = (true, true),
                "avx512" => features = Features { avx: true, avx2: true, avx512: true, ..features },
                _ => return Err(format!("there is no feature `{name}`")),
            }
        }
        if !before.starts_with("; ") || before.starts_with("; features") {
            return Err("the first line has to say why the case is there".to_string());
        }
        Ok(Case { before, rest, features })
    }

    /// The lines from that with the pass on, as they have to be, and whether the pass changes the graph.
    fn run(&self, pass: &Pass) -> Result<(String, bool), String> {
        let mut graph = parse(self.before, 1).map_err(|mistake| mistake.to_string())?;
        let before = Text(&graph).to_string();
        let verifier = Verifier::remember(&graph);
        verifier.verify(&graph, pass.before).map_err(|problem| format!("before the pass: {problem:?}"))?;
        (pass.run)(&mut graph, self.features);
        let after = Text(&graph).to_string();
        verifier.verify(&graph, pass.after).map_err(|problem| format!("after the pass: {problem:?}\n{after}"))?;
        let changes = after != before;
        let title = format!("--- {}", pass.name);
        Ok((if changes { format!("{title}\n{after}") } else { format!("{title}: unchanged\n") }, changes))
    }
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

#[test]
fn passes_make_of_graphs_as_files_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let updates = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    let mut failures = Vec::new();
    for folder in sorted(&root) {
        let name = stem(&folder);
        let Some(pass) = PASSES.iter().find(|pass| pass.name == name) else {
            failures.push(format!("there is no pass `{name}`"));
            continue;
        };
        if pass.name == "call_pairing" && !Features::detect().avx2 {
            println!("skipped: {name}, whose functions this processor has no code for");
            continue;
        }
        let (mut outcomes, mut cases) = (BTreeSet::new(), 0);
        for path in sorted(&folder) {
            cases += 1;
            let text = fs::read_to_string(&path).unwrap();
            let mut fail = |problem: &str| failures.push(format!("{}:{problem}", path.display()));
            match Case::new(&text).and_then(|case| Ok((case.run(pass)?, case))) {
                Err(problem) => fail(&problem),
                Ok(((expected, changes), case)) => {
                    outcomes.insert(changes);
                    if case.rest != expected && updates {
                        fs::write(&path, format!("{}{expected}", case.before)).unwrap();
                    } else if case.rest != expected {
                        fail(&difference(case.rest, &expected, case.before.lines().count()));
                    }
                }
            }
        }
        // LICM moves checks in graphs that its other passes leave alone.
        let is_left_alone = outcomes.contains(&false) || pass.before == Guarded;
        if cases < 2 || !outcomes.contains(&true) || !is_left_alone {
            failures.push(format!("{name}: it needs a case that the pass changes, and one that it leaves alone"));
        }
    }
    assert!(failures.is_empty(), "{}\nINSTA_UPDATE=always accepts what passes do", failures.join("\n"));
}

/// The first line that differs.
fn difference(found: &str, expected: &str, lines_before: usize) -> String {
    let (mut old, mut new) = (found.lines(), expected.lines());
    let mut line = lines_before;
    loop {
        line += 1;
        match (old.next(), new.next()) {
            (None, None) => return format!("{line}: the lines end in another way"),
            (old, new) if old == new => {}
            (old, new) => {
                let or_end = |line: Option<&str>| line.unwrap_or("the end").to_string();
                return format!("{line}: the file has\n    {}\nwhere the pass makes\n    {}", or_end(old), or_end(new));
            }
        }
    }
}

#[test]
fn each_pass_has_file_tests() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    // These are no passes.
    let others = ["filetests", "lies", "mod", "optimise", "replacements"];
    let names = |folder: &str| sorted(&manifest.join(folder)).iter().map(|path| stem(path)).collect::<BTreeSet<_>>();
    let passes = names("src/passes").into_iter().filter(|name| !others.contains(&name.as_str()));
    assert_eq!(passes.collect::<BTreeSet<_>>(), names("filetests"));
}

#[test]
fn malformed_files_are_refused() {
    let pass = PASSES.iter().find(|pass| pass.name == "dce").unwrap();
    let problem = |text: &str| Case::new(text).and_then(|case| case.run(pass)).unwrap_err();
    assert_eq!(problem("graph\n--- dce\n"), "the first line has to say why the case is there");
    assert_eq!(problem("; a\n; features: mmx\ngraph\n"), "there is no feature `mmx`");
    assert_eq!(problem("; a\ngraph\nb0:\n  jump b1\n"), "4:8: there is no b1");
    assert_eq!(problem("--- dce\n"), "the first line has to say why the case is there");
    let found = problem("; a\ngraph\nb0: entry 0\n  open\n");
    assert!(found.starts_with("before the pass: ") && found.contains("it has no end"), "{found}");
}
