//! The decisions about loops of the fixtures are those of the graphs that the vectoriser makes of them.

use super::vectorise_loops;
use crate::analysis::calls::FunctionContext;
use crate::analysis::loop_nest::{LoopNest, increment, op_of};
use crate::build::build;
use crate::interp::code::loops::{LoopDecision, Outcome, Refusal, Transformation};
use crate::ir::graph::{BlockIndex, Branch, CompileMode, Graph, NodeId, Terminator};
use crate::ir::types::Ty;
use crate::passes::optimise::prepare;
use crate::processor::features::Features;
use crate::tests::fixture_modules;

const AVX2: Features = Features { avx: true, bmi2: true, lzcnt: true, avx2: true, avx512: false };
const AVX512: Features = Features { avx512: true, ..AVX2 };

/// Most iterations that one of a vector loop makes: the steps of other loops in the fixtures are one.
const MOST: u64 = 64;

/// The preheaders of loops.
fn preheaders(graph: &Graph) -> Vec<BlockIndex> {
    graph.order.iter().copied().filter(|block| graph.blocks[*block].preheader_exit.is_some()).collect()
}

/// A loop whose test is in its header.
struct Loop {
    header: BlockIndex,
    /// By how much the tested parameter grows, if that is constant.
    step: Option<u64>,
    /// Its other blocks.
    blocks: Vec<BlockIndex>,
}

impl Loop {
    /// The loop of a preheader, if its test is that of a counted one.
    fn new(graph: &Graph, preheader: BlockIndex) -> Option<Loop> {
        let Terminator::Jump(Branch { target: header, .. }) = graph.blocks[preheader].terminator else { return None };
        let Terminator::Branch(test, [into, _]) = &graph.blocks[header].terminator else { return None };
        let tested = *graph.node(*test).args.first()?;
        let index = graph.blocks[header].parameters.iter().position(|parameter| *parameter == tested)?;
        let (mut blocks, mut next) = (vec![into.target], None);
        let mut at = 0;
        while let Some(block) = blocks.get(at) {
            for branch in graph.branches(*block) {
                if branch.target == header {
                    next = branch.args.get(index).copied();
                }
            }
            let targets: Vec<BlockIndex> = graph.branches(*block).iter().map(|branch| branch.target).collect();
            let new = targets.into_iter().filter(|target| *target != header && !blocks.contains(target));
            blocks.extend(new.collect::<Vec<_>>());
            at += 1;
        }
        Some(Loop { header, step: increment(graph, tested, next?), blocks })
    }

    /// Whether there are vectors in it; in loops inside of it, or only beside them.
    fn has_lanes(&self, graph: &Graph, inside: bool) -> bool {
        let mut own = self.blocks.clone();
        if !inside {
            let preheaders = self.blocks.iter().filter(|block| graph.blocks[**block].preheader_exit.is_some());
            for inner in preheaders.filter_map(|preheader| Loop::new(graph, *preheader)) {
                own.retain(|block| *block != inner.header && !inner.blocks.contains(block));
            }
        }
        let is_vector = |id: &NodeId| matches!(graph.node(*id).ty, Ty::Lanes(..));
        own.iter().any(|block| graph.blocks[*block].nodes.iter().any(is_vector))
    }
}

/// The numbers of decisions that have not been found in the graph.
#[derive(Debug, Default, PartialEq, Eq)]
struct Decided {
    vectors: Vec<u64>,
    rows: Vec<u64>,
}

/// Checks that a form that was refused for its cost was no cheaper than another one of the same loop, by more than the
/// estimates err.
fn check_costs(all: &[LoopDecision]) {
    for costly in all.iter().filter(|one| one.outcome == Outcome::Refused(Refusal::Costlier)) {
        let cost = |one: &LoopDecision| one.estimate.map_or(u64::MAX, |estimate| estimate.transformed);
        let is_made = |one: &&LoopDecision| !matches!(one.outcome, Outcome::Refused(_)) && one.estimate.is_some();
        let made = all.iter().filter(is_made).map(cost);
        assert!(made.into_iter().any(|made| made <= cost(costly).saturating_mul(2)), "{costly}");
    }
}

fn take(from: &mut Vec<u64>, step: u64) -> bool {
    let at = from.iter().position(|own| *own == step);
    at.map(|at| from.swap_remove(at)).is_some()
}

#[test]
fn decisions_are_those_of_the_graphs() {
    let (mut loops, mut made, mut refusals) = (0, 0, Vec::new());
    for (name, module) in fixture_modules() {
        for (ordinal, function) in module.functions.iter().enumerate() {
            for features in [AVX2, AVX512] {
                let context = FunctionContext { module: &module, function };
                let Some(mut graph) = build(context, CompileMode::Optimised) else { continue };
                graph.decisions.are_wanted = true;
                prepare(&mut graph, features, true);
                let before: Vec<u32> = preheaders(&graph).into_iter().map(|block| op_of(&graph, block)).collect();
                let parsed = preheaders(&graph).into_iter().filter_map(|block| LoopNest::parse(&graph, block));
                let are_single = parsed.into_iter().all(|nest| nest.step == 1);
                vectorise_loops(&mut graph, features);
                for op in before {
                    let is_own = |decision: &&_| {
                        let LoopDecision { op: own, transformation, .. } = *decision;
                        (*own, *transformation) == (op, Transformation::Vectors)
                    };
                    let count = graph.decisions.all.iter().filter(is_own).count();
                    assert!(count > 0, "{name}, function {ordinal}: no decision about the loop at op {op}");
                    loops += 1;
                }
                let mut decided = Decided::default();
                for decision in &graph.decisions.all {
                    match &decision.outcome {
                        Outcome::Vectorised(all) => {
                            let whole = all.iter().filter(|one| !one.is_masked).map(|one| one.iterations);
                            decided.vectors.extend(whole);
                            assert!(all.iter().all(|one| one.iterations <= MOST && one.iterations % one.lanes == 0));
                            made += 1;
                        }
                        Outcome::Jammed { rows, .. } => decided.rows.push(*rows),
                        Outcome::Refused(refusal) => refusals.push(*refusal),
                        Outcome::Split | Outcome::Collapsed { .. } => {}
                    }
                }
                if !are_single {
                    continue;
                }
                check_costs(&graph.decisions.all);
                let mut inside: Vec<BlockIndex> = Vec::new();
                for preheader in preheaders(&graph) {
                    let Some(found) = Loop::new(&graph, preheader) else { continue };
                    let Some(step) = found.step.filter(|step| *step > 1) else { continue };
                    if inside.contains(&found.header) || !found.has_lanes(&graph, true) {
                        continue;
                    }
                    // A jammed loop has vectors in the loops inside of it.
                    let is_jammed = !found.has_lanes(&graph, false) && take(&mut decided.rows, step);
                    if !is_jammed {
                        let is_decided = take(&mut decided.vectors, step);
                        assert!(is_decided, "{name}, function {ordinal}: a step of {step} is not decided");
                        // Loops in a vector loop, which may be unrolled, are parts of it.
                        inside.extend(&found.blocks);
                    }
                }
                assert_eq!(decided, Decided::default(), "{name}, function {ordinal}: not in the graph");
            }
        }
    }
    refusals.sort();
    refusals.dedup();
    assert!(loops > 400 && made > 100, "{loops} loops, {made} with vectors");
    // Others need loops that the fixtures do not have.
    let expected = [Refusal::NotCounted, Refusal::TooFewIterations, Refusal::NotVectors, Refusal::InAnother];
    assert!(expected.iter().all(|one| refusals.contains(one)), "{refusals:?}");
}
