//! Redundant block parameters: a parameter that gets the same argument from all branches, or itself, is replaced by
//! that value. The builder gives each loop header a parameter for each live-in, so most parameters are redundant. It is
//! the first pass.

use smallvec::SmallVec;

use super::replacements::Replacements;
use crate::analysis::dominators::Predecessors;
use crate::ir::graph::Graph;
use crate::ir::per_block::PerBlock;

/// Removes parameters for which all branches have one argument.
pub(super) fn remove_redundant(graph: &mut Graph, predecessors: &PerBlock<Predecessors>) {
    if graph.blocks.iter().all(|block| block.parameters.is_empty()) {
        return;
    }
    let mut replacements = Replacements::new(graph);
    // Forwards for loops one after the other, and then backwards for loops inside of each other.
    let mut order = graph.order.clone();
    loop {
        let mut changed = false;
        for block in order.iter().copied() {
            // Parameters that are left are no mistake.
            if !graph.effort.spend(graph.blocks[block].parameters.len() * predecessors[block].len()) {
                break;
            }
            for (index, parameter) in graph.blocks[block].parameters.iter().copied().enumerate() {
                if replacements.find(parameter) != parameter {
                    continue;
                }
                let mut values = predecessors[block].iter().filter_map(|(from, which)| {
                    let value = replacements.find(graph.branches(*from)[*which].args[index]);
                    (value != parameter).then_some(value)
                });
                if let Some(only) = values.next()
                    && values.all(|value| value == only)
                {
                    replacements.0[parameter.index()] = only;
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
        order.reverse();
    }
    for (block, predecessors) in predecessors.indexed() {
        if graph.blocks[block].parameters.iter().all(|parameter| replacements.get(*parameter) == *parameter) {
            continue;
        }
        let kept: SmallVec<[bool; 16]> =
            graph.blocks[block].parameters.iter().map(|parameter| replacements.get(*parameter) == *parameter).collect();
        for (from, which) in predecessors {
            let mut index = 0;
            graph.branches_mut(*from)[*which].args.retain(|_| {
                index += 1;
                kept[index - 1]
            });
        }
        let mut index = 0;
        graph.blocks[block].parameters.retain(|_| {
            index += 1;
            kept[index - 1]
        });
    }
    replacements.apply(graph);
}
