//! Alignment of loops: code of an innermost loop begins at an address from which the processor fetches, so that a short
//! loop is not in two pieces.

use dynasmrt::DynasmApi;

use super::super::lower::Asm;
use crate::ir::graph::{BlockIndex, Graph, Terminator};
use crate::ir::per_block::{BlockSet, PerBlock};
use crate::ir::types::Ty;

/// The alignment of innermost loops, in bytes: half a cache line, as much as a processor decodes at once. Code of a
/// function begins at a page.
const LOOP_ALIGNMENT: usize = 32;

/// Instructions that do nothing, of one to nine bytes, as the manuals of Intel and AMD recommend them.
const NOPS: [&[u8]; 9] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0F, 0x1F, 0x00],
    &[0x0F, 0x1F, 0x40, 0x00],
    &[0x0F, 0x1F, 0x44, 0x00, 0x00],
    &[0x66, 0x0F, 0x1F, 0x44, 0x00, 0x00],
    &[0x0F, 0x1F, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0F, 0x1F, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x66, 0x0F, 0x1F, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

/// The blocks that back edges of innermost loops jump to.
pub(super) fn innermost_tops(graph: &Graph) -> BlockSet {
    let mut tops = BlockSet::new(graph);
    let mut position = PerBlock::new(graph, usize::MAX);
    // The first of the blocks before this one, and next to each other, that are as deep in loops as it is.
    let (mut as_deep, mut depth_before) = (0, None);
    for (index, block) in graph.order.iter().enumerate() {
        position[*block] = index;
        let own = graph.blocks[*block].depth;
        if depth_before.replace(own) != Some(own) {
            as_deep = index;
        }
        for branch in graph.branches(*block).iter().filter(|branch| position[branch.target] <= index) {
            // Outside of loops, a branch to a block that is laid out earlier is none of a loop.
            if own > 0 && as_deep <= position[branch.target] {
                tops.insert(top(graph, *block, branch.target));
            }
        }
    }
    tops
}

/// Where the back edge of a loop jumps to: the block after the header if the test there is emitted again at the back
/// edge.
fn top(graph: &Graph, latch: BlockIndex, header: BlockIndex) -> BlockIndex {
    let content = &graph.blocks[header];
    match (&graph.blocks[latch].terminator, &content.terminator) {
        (Terminator::Jump(_), Terminator::Branch(_, [then, _]))
            if content.nodes.iter().all(|id| graph.node(*id).ty == Ty::Truth) =>
        {
            then.target
        }
        _ => header,
    }
}

/// Fills code up to where a loop may begin.
pub(super) fn align(asm: &mut Asm) {
    let mut missing = asm.ops.offset().0.wrapping_neg() % LOOP_ALIGNMENT;
    while missing > 0 {
        let nop = NOPS[missing.min(NOPS.len()) - 1];
        asm.ops.extend(nop);
        missing -= nop.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::graph::{Branch, Kind};
    use crate::processor::features::Features;

    /// A graph of blocks with these targets and depths. A block with two targets branches, and has nothing but the
    /// test.
    fn graph(blocks: &[(&[usize], u32)]) -> Graph {
        let mut graph = Graph::default();
        blocks.iter().for_each(|_| _ = graph.add_block());
        for (index, (targets, depth)) in blocks.iter().enumerate() {
            let block = BlockIndex::new(index);
            let branch = |target: &usize| Branch { target: BlockIndex::new(*target), ..Branch::default() };
            graph.blocks[block].depth = *depth;
            graph.blocks[block].terminator = match targets {
                [] => Terminator::Open,
                [target] => Terminator::Jump(branch(target)),
                [then, otherwise, ..] => {
                    let test = graph.add_node(block, Kind::Parameter, Ty::Truth, &[]);
                    Terminator::Branch(test, [branch(then), branch(otherwise)])
                }
            };
            graph.order.push(block);
        }
        graph
    }

    fn tops(blocks: &[(&[usize], u32)]) -> Vec<usize> {
        innermost_tops(&graph(blocks)).iter().map(BlockIndex::index).collect()
    }

    #[test]
    fn innermost_loops_have_a_top() {
        // A loop with the test in the header, which is emitted again at the back edge.
        assert_eq!(tops(&[(&[1], 0), (&[2, 3], 1), (&[1], 1), (&[], 0)]), [2]);
        // One with the test at the end.
        assert_eq!(tops(&[(&[1], 0), (&[1, 2], 1), (&[], 0)]), [1]);
        // Of two nested ones, the inner one.
        assert_eq!(tops(&[(&[1], 0), (&[2, 5], 1), (&[3, 4], 2), (&[2], 2), (&[1], 1), (&[], 0)]), [3]);
        // A branch to a block before it is no loop outside of them.
        assert_eq!(tops(&[(&[2, 1], 0), (&[], 0), (&[1], 0)]), Vec::<usize>::new());
    }

    #[test]
    fn code_is_filled_up() {
        for length in 0..70 {
            let mut asm = Asm::new(Features::detect());
            asm.ops.extend(vec![0x90; length]);
            align(&mut asm);
            let filled = asm.ops.offset().0;
            assert!(filled.is_multiple_of(LOOP_ALIGNMENT) && filled - length < LOOP_ALIGNMENT, "{length} bytes");
        }
    }
}
