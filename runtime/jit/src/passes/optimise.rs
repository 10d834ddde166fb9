//! Makes the intermediate form smaller and loops lighter: parameters that always bring the same, values that are known already, what a
//! loop computes again each time, and what nobody needs.
//!
//! A check that moves in front of a loop leaves the code there if it fails, before anything of the loop has happened. So checks may be
//! made earlier than the program makes them: the interpreter then goes on, and finds out itself what is wrong, or that nothing is.

use super::replacements::Replacements;
use super::{block_layout, block_parameters, dce, guard_sinking, gvn, licm, vectorise};
use crate::analysis::dominators::{Dominators, predecessors};
use crate::analysis::verify::{RangeChecks, Verifier};
use crate::ir::graph::Graph;
use crate::processor::features::Features;

/// Runs all passes, for a processor with these features.
pub(crate) fn optimise(graph: &mut Graph, features: Features) {
    let verifier = Verifier::begin(graph);
    if (0..graph.blocks.len()).all(|block| graph.branches(block).is_empty()) {
        // What each block computes once is computed once.
        dce::remove_dead_nodes(graph, true);
        return verifier.after("dce", graph, RangeChecks::Exact);
    }
    let predecessors = predecessors(graph);
    block_parameters::remove_redundant(graph, &predecessors);
    verifier.after("block_parameters", graph, RangeChecks::Exact);
    let tree = Dominators::with_predecessors(graph, predecessors);
    gvn::number_values(graph, &tree, Replacements::new(graph));
    verifier.after("gvn", graph, RangeChecks::Exact);
    // What only looks as if it was needed would keep loops from being simple.
    dce::remove_dead_nodes(graph, true);
    verifier.after("dce", graph, RangeChecks::Exact);
    if graph.blocks.iter().all(|block| block.preheader_exit.is_none()) {
        // There are no loops.
        return;
    }
    let tree = if vectorise::vectorise_loops(graph, features) { Dominators::new(graph) } else { tree };
    verifier.after("vectorise", graph, RangeChecks::Guarded);
    let hoisted = licm::hoist_invariants(graph, &tree);
    let tree = if guard_sinking::sink_guards(graph, hoisted.guarded) { Dominators::new(graph) } else { tree };
    let mut replacements = Replacements::new(graph);
    hoisted.products.iter().for_each(|(product, sum)| replacements.0[product.index()] = *sum);
    gvn::merge_constants(graph, &mut replacements);
    // What was moved in front of loops may be there already.
    gvn::number_values(graph, &tree, replacements);
    // Up to here somebody may need a product whose place a parameter takes.
    verifier.after("licm, guard_sinking and gvn", graph, RangeChecks::Skipped);
    dce::remove_dead_nodes(graph, false);
    block_layout::lay_out(graph);
    verifier.after("block_layout", graph, RangeChecks::Skipped);
}
