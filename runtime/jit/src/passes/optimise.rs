//! Makes the intermediate form smaller and loops lighter: parameters that always bring the same, values that are known already, what a
//! loop computes again each time, and what nobody needs.
//!
//! A check that moves in front of a loop leaves the code there if it fails, before anything of the loop has happened. So checks may be
//! made earlier than the program makes them: the interpreter then goes on, and finds out itself what is wrong, or that nothing is.

use super::block_parameters::parameters;
use super::dce::remove_dead;
use super::gvn::{constants, number};
use super::licm::hoist;
use super::replacements::Replaced;
use super::{block_layout as layout, guard_sinking as skip, vectorise};
use crate::analysis::dominators::{Dominators, predecessors};
use crate::analysis::verify::{RangeChecks, Verifier};
use crate::ir::graph::Graph;
use crate::processor::features::Features;

/// Runs all passes, for a processor with these features.
pub(crate) fn optimise(graph: &mut Graph, features: Features) {
    let verifier = Verifier::begin(graph);
    if (0..graph.blocks.len()).all(|block| graph.branches(block).is_empty()) {
        // What each block computes once is computed once.
        remove_dead(graph, true);
        return verifier.after("remove_dead", graph, RangeChecks::Exact);
    }
    let predecessors = predecessors(graph);
    parameters(graph, &predecessors);
    verifier.after("parameters", graph, RangeChecks::Exact);
    let tree = Dominators::with_predecessors(graph, predecessors);
    number(graph, &tree, Replaced::new(graph));
    verifier.after("number", graph, RangeChecks::Exact);
    // What only looks as if it was needed would keep loops from being simple.
    remove_dead(graph, true);
    verifier.after("remove_dead", graph, RangeChecks::Exact);
    if graph.blocks.iter().all(|block| block.preheader_exit.is_none()) {
        // There are no loops.
        return;
    }
    let tree = if vectorise::widen_loops(graph, features) { Dominators::new(graph) } else { tree };
    verifier.after("widen_loops", graph, RangeChecks::Guarded);
    let hoisted = hoist(graph, &tree);
    let tree = if skip::skip_guards(graph, hoisted.guarded) { Dominators::new(graph) } else { tree };
    let mut replaced = Replaced::new(graph);
    hoisted.products.iter().for_each(|(product, sum)| replaced.0[product.index()] = *sum);
    constants(graph, &mut replaced);
    // What was moved in front of loops may be there already.
    number(graph, &tree, replaced);
    // Up to here somebody may need a product whose place a parameter takes.
    verifier.after("hoist, skip_guards and number", graph, RangeChecks::Skipped);
    remove_dead(graph, false);
    layout::lay_out(graph);
    verifier.after("lay_out", graph, RangeChecks::Skipped);
}
