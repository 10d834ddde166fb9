//! The pass pipeline: redundant block parameters, GVN, DCE; then for functions with loops if-conversion, strip mining,
//! vectorisation, LICM with the passes for each loop, guard sinking, GVN again, splats of loads, DCE, call pairing and
//! block layout. The plan of a function calls it. The verifier looks at the graph after each pass.

use super::replacements::Replacements;
use super::{
    block_layout, block_parameters, call_pairing, dce, guard_sinking, gvn, if_conversion, licm, splats, strip_mining,
    vectorise,
};
use crate::analysis::dominators::{Dominators, predecessors};
use crate::analysis::verify::{RangeChecks, Verifier};
use crate::ir::graph::Graph;
use crate::processor::features::Features;

/// Runs all passes, for a processor with these features. Without `guards`, those are left out that replace the checks
/// of accesses by guards.
pub(crate) fn optimise(graph: &mut Graph, features: Features, guards: bool) {
    let Some(Prepared { verifier, tree, is_split }) = prepare(graph, features, guards) else { return };
    let is_vectorised = guards && vectorise::vectorise_loops(graph, features);
    let tree = if is_split || is_vectorised { Dominators::new(graph) } else { tree };
    verifier.after("vectorise", graph, RangeChecks::Guarded);
    let hoisted = licm::hoist_invariants(graph, &tree, guards);
    let tree = if guard_sinking::sink_guards(graph, hoisted.guarded) { Dominators::new(graph) } else { tree };
    let mut replacements = Replacements::new(graph);
    hoisted.products.iter().for_each(|(product, sum)| replacements.0[product.index()] = *sum);
    let constants = gvn::merge_constants(graph, &mut replacements);
    // Nodes that were hoisted to a preheader may be available there already.
    gvn::number_values(graph, &tree, replacements, constants, gvn::Loads::Kept);
    // The replacements of products by loop parameters are applied now, so the graph is whole again.
    verifier.after("licm, guard_sinking and gvn", graph, RangeChecks::Skipped);
    if is_vectorised {
        splats::fold_loads(graph);
        verifier.after("splats", graph, RangeChecks::Skipped);
    }
    dce::remove_dead_nodes(graph, false);
    if is_vectorised {
        call_pairing::pair_calls(graph);
        splats::fold_into_users(graph);
    }
    block_layout::lay_out(graph);
    verifier.after("block_layout", graph, RangeChecks::Skipped);
}

/// A graph before its loops become vectors.
pub(super) struct Prepared {
    verifier: Verifier,
    tree: Dominators,
    is_split: bool,
}

/// Runs the passes before vectorisation. None if there are no loops, and nothing is left to do then.
pub(super) fn prepare(graph: &mut Graph, features: Features, guards: bool) -> Option<Prepared> {
    let verifier = Verifier::begin(graph);
    if graph.blocks.indices().all(|block| graph.branches(block).is_empty()) {
        // Without branches there is nothing that local value numbering has not found.
        dce::remove_dead_nodes(graph, true);
        verifier.after("dce", graph, RangeChecks::Exact);
        return None;
    }
    let predecessors = predecessors(graph);
    block_parameters::remove_redundant(graph, &predecessors);
    verifier.after("block_parameters", graph, RangeChecks::Exact);
    let tree = Dominators::with_predecessors(graph, predecessors);
    gvn::number_values(graph, &tree, Replacements::new(graph), gvn::Constants::default(), gvn::Loads::Numbered);
    verifier.after("gvn", graph, RangeChecks::Exact);
    // Dead nodes would keep loops from being recognised as simple.
    dce::remove_dead_nodes(graph, true);
    verifier.after("dce", graph, RangeChecks::Exact);
    if graph.blocks.iter().all(|block| block.preheader_exit.is_none()) {
        // Without preheaders there are no loops.
        return None;
    }
    let tree = if if_conversion::convert_branches(graph) { Dominators::new(graph) } else { tree };
    verifier.after("if_conversion", graph, RangeChecks::Exact);
    let is_split = guards && strip_mining::split_loops(graph, features);
    verifier.after("strip_mining", graph, RangeChecks::Exact);
    Some(Prepared { verifier, tree, is_split })
}
