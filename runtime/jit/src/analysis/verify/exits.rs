//! Exits against the bytecode: every slot that the interpreter may read after an exit, and that machine code has
//! written by then, must be in the exit's frame state. The verifier of graphs calls it once, on the graph as it was
//! built; passes are then held to those exits.
//!
//! Two analyses over the ops of the function, which share nothing with the builder but what ops read and write:
//! liveness, backward, and *stale* slots, forward. A slot is stale if on some path machine code has computed its value
//! since the frame was last written: an op that is compiled makes the slots that it writes stale, and an exit at the
//! end of a block writes those of its frame state.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::problem::{Problem, problem};
use crate::analysis::calls::FunctionContext;
use crate::analysis::edges::native_edges;
use crate::analysis::typed_liveness::TypedLiveness;
use crate::bytecode::{BlockId, Decoded, EdgeId};
use crate::ir::bits::Bits;
use crate::ir::graph::{
    BlockIndex, CompileMode, Exit, Graph, Kind, NativeKind, NativeTerminator, Part, PassedIn, SlotValue, Terminator,
};

/// Most entries of the tables of a function.
const MAX_ENTRIES: usize = 1 << 22;

/// Finds an exit that forgets a slot. Functions whose tables would be too large are not verified.
pub(super) fn check(graph: &Graph, context: FunctionContext<'_>, mode: CompileMode) -> Result<(), Problem> {
    let (function, decoded) = (context.function, context.function.decoded());
    let slots = function.slots();
    if decoded.ops.len().saturating_mul(slots) > MAX_ENTRIES {
        return Ok(());
    }
    let Some(liveness) = TypedLiveness::of_ops(function, context.module) else { return Ok(()) };
    let flow = Flow {
        mode,
        decoded,
        liveness,
        slots,
        ends: ends(graph, decoded),
        moved: moved(graph, decoded),
        built: graph.terminator_ops.iter().map(|(_, pc)| *pc).collect(),
    };
    let live = flow.live();
    let stale = flow.stale(&passed(graph, context));
    for (block, exit, all) in demands(graph, decoded) {
        let pc = exit.pc as usize;
        let mut needed = stale[pc].clone();
        flow.flushed_before(exit.pc).for_each(|slot| needed.remove(slot));
        if all {
            needed.retain(&live[pc]);
        } else {
            let mut reads = Bits::new(slots);
            flow.liveness.reads(exit.pc).for_each(|slot| reads.insert(slot));
            needed.retain(&reads);
        }
        exit.frame_state.iter().flat_map(|slot_value| written(graph, slot_value)).for_each(|slot| needed.remove(slot));
        if let Some(slot) = needed.iter().next() {
            return problem(block, None, format!("the exit at op {pc} forgets slot {slot}"));
        }
    }
    flow.reads_of_slots(graph, &stale)
}

/// Exits with their blocks, and whether the interpreter continues from there, or only executes the op.
fn demands<'g>(graph: &'g Graph, decoded: &Decoded) -> Vec<(BlockIndex, &'g Exit, bool)> {
    let mut demands = Vec::new();
    for (block, content) in graph.blocks.indexed() {
        let exits = content.nodes.iter().map(|id| graph.node(*id)).filter(|node| node.kind != Kind::FlushToSlots);
        demands.extend(exits.filter_map(|node| node.exit).map(|exit| (block, graph.exit(exit), false)));
        demands.extend(
            content.preheader_exit.into_iter().chain(content.header_exit).map(|exit| (block, graph.exit(exit), true)),
        );
        // Code continues after moves, and is held to the slots that it loads there.
        if let Terminator::SideExit(_, exit) = &content.terminator
            && moves_of(graph, decoded, block) == Moves::No
        {
            let exit = graph.exit(*exit);
            demands.push((block, exit, !comes_back(graph, block, exit)));
        }
    }
    demands
}

/// Moves of references at the end of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moves {
    /// Nothing.
    No,
    /// It moves them before an op that the runtime or the interpreter executes.
    BeforeOp,
    /// On an edge.
    OnEdge,
    /// When the interpreter has entered.
    AtEntry,
}

fn moves_of(graph: &Graph, decoded: &Decoded, block: BlockIndex) -> Moves {
    let Terminator::SideExit(_, exit) = graph.blocks[block].terminator else { return Moves::No };
    match graph.native_terminators.get(block) {
        Some(NativeTerminator { kind: NativeKind::Op(op), .. }) if op.moves_refs => {}
        _ => return Moves::No,
    }
    if graph.blocks[block].entry.is_some_and(|entry| !entry.native) {
        Moves::AtEntry
    } else if native_edges(decoded.ops[graph.exit(exit).pc as usize]).is_empty() {
        Moves::BeforeOp
    } else {
        Moves::OnEdge
    }
}

/// The slots that are written where references move on an edge, by the op of the branch and the first op of the target.
fn moved(graph: &Graph, decoded: &Decoded) -> HashMap<(u32, u32), HashSet<usize>> {
    let mut moved: HashMap<(u32, u32), HashSet<usize>> = HashMap::new();
    for block in graph.blocks.indices().filter(|block| moves_of(graph, decoded, *block) == Moves::OnEdge) {
        let (Terminator::SideExit(_, exit), Some(terminator)) =
            (&graph.blocks[block].terminator, graph.native_terminators.get(block))
        else {
            continue;
        };
        let NativeKind::Op(op) = terminator.kind else { continue };
        let (exit, Some(entry)) = (graph.exit(*exit), graph.blocks[op.continuation].entry) else { continue };
        let slots: HashSet<usize> = exit.frame_state.iter().flat_map(|slot_value| written(graph, slot_value)).collect();
        // Two edges may lead to one block.
        let both = moved.entry((exit.pc, entry.pc)).or_insert_with(|| slots.clone());
        both.retain(|slot| slots.contains(slot));
    }
    moved
}

/// Whether a block ends with a native call.
fn is_native_call(graph: &Graph, block: BlockIndex) -> bool {
    graph.native_terminators.get(block).is_some_and(|terminator| matches!(terminator.kind, NativeKind::Call(_)))
}

/// Whether machine code continues after the op at the end of a block, and loads its values from the slots.
fn comes_back(graph: &Graph, block: BlockIndex, exit: &Exit) -> bool {
    !is_native_call(graph, block) && !graph.terminator_ops.contains(&(block, exit.pc))
}

fn slots_of(slot: u16, is_wide: bool) -> Range<usize> {
    usize::from(slot)..usize::from(slot) + 1 + usize::from(is_wide)
}

/// The slots that an exit writes for an entry of its frame state.
fn written(graph: &Graph, slot_value: &SlotValue) -> Range<usize> {
    slots_of(slot_value.slot, slot_value.part == Part::Whole && graph.node(slot_value.node).scalar().is_wide())
}

/// The exits and runtime calls at an op, besides its own effects.
#[derive(Default)]
struct AtOp {
    /// Slots that are written to the frame before the op: in baseline mode, at the end of a piece.
    flushed_before: Vec<usize>,
    /// Slots that its exits write.
    flushed: Vec<usize>,
    /// The runtime or the interpreter executes it, with operands and results in slots.
    executed: bool,
}

fn ends(graph: &Graph, decoded: &Decoded) -> HashMap<u32, AtOp> {
    let mut ends: HashMap<u32, AtOp> = HashMap::new();
    let slots =
        |exit: &Exit| exit.frame_state.iter().flat_map(|slot_value| written(graph, slot_value)).collect::<Vec<usize>>();
    for (block, content) in graph.blocks.indexed() {
        let nodes = content.nodes.iter().map(|id| graph.node(*id)).filter(|node| node.kind == Kind::FlushToSlots);
        for exit in nodes.filter_map(|node| node.exit).map(|exit| graph.exit(exit)) {
            ends.entry(exit.pc).or_default().flushed_before.extend(slots(exit));
        }
        if let Terminator::SideExit(_, exit) = &content.terminator
            && !is_native_call(graph, block)
        {
            let exit = graph.exit(*exit);
            let moves = moves_of(graph, decoded, block);
            if moves == Moves::BeforeOp {
                ends.entry(exit.pc).or_default().flushed_before.extend(slots(exit));
            }
            if moves != Moves::No {
                continue;
            }
            let at = ends.entry(exit.pc).or_default();
            at.flushed.extend(slots(exit));
            at.executed = true;
        }
    }
    ends
}

/// The slots of arguments that native calls pass in registers.
fn passed(graph: &Graph, context: FunctionContext<'_>) -> Vec<usize> {
    let arguments = graph.native_entry.and_then(|_| context.arguments()).unwrap_or_default();
    let in_registers = arguments.iter().filter(|passed| passed.passed_in != PassedIn::Slot);
    in_registers.flat_map(|passed| slots_of(passed.slot, passed.of.is_wide())).collect()
}

struct Flow<'a> {
    mode: CompileMode,
    decoded: &'a Decoded,
    liveness: TypedLiveness<'a>,
    slots: usize,
    ends: HashMap<u32, AtOp>,
    /// The slots that are written where references move on an edge.
    moved: HashMap<(u32, u32), HashSet<usize>>,
    /// The last ops of the blocks that have blocks of the graph: those that no path leads to have none.
    built: HashSet<u32>,
}

impl Flow<'_> {
    /// The slots that are read at each op or after it before they are written.
    fn live(&self) -> Vec<Bits> {
        let mut live = vec![Bits::new(self.slots); self.decoded.ops.len()];
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for block in self.decoded.blocks.iter().rev() {
                for pc in block.ops.clone().rev() {
                    let mut here = Bits::new(self.slots);
                    if pc + 1 < block.ops.end {
                        here = live[pc as usize + 1].clone();
                    }
                    for (target, edge) in self.liveness.targets(pc) {
                        let mut there = live[self.first(target)].clone();
                        self.copies(edge).rev().for_each(|(to, from)| {
                            if there.contains(to) {
                                there.remove(to);
                                there.insert(from);
                            }
                        });
                        there.iter().for_each(|slot| here.insert(slot));
                    }
                    self.liveness.writes(pc).for_each(|slot| here.remove(slot));
                    self.liveness.reads(pc).for_each(|slot| here.insert(slot));
                    changed |= add(&mut live[pc as usize], &here);
                }
            }
        }
        live
    }

    /// The stale slots before each op.
    fn stale(&self, passed: &[usize]) -> Vec<Bits> {
        let mut stale = vec![Bits::new(self.slots); self.decoded.ops.len()];
        passed.iter().for_each(|slot| stale[0].insert(*slot));
        let none = AtOp::default();
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for block in self.decoded.blocks.iter().filter(|block| self.built.contains(&(block.ops.end - 1))) {
                for pc in block.ops.clone() {
                    let AtOp { flushed_before, flushed, executed } = self.ends.get(&pc).unwrap_or(&none);
                    let written = || flushed_before.iter().chain(flushed);
                    let mut after = stale[pc as usize].clone();
                    written().for_each(|slot| after.remove(*slot));
                    self.liveness.writes(pc).for_each(|slot| after.set(slot, !executed));
                    if pc + 1 < block.ops.end {
                        changed |= add(&mut stale[pc as usize + 1], &after);
                        continue;
                    }
                    // Where the interpreter takes a branch, it enters machine code anew.
                    for (target, edge) in self.liveness.targets(pc).filter(|_| !executed) {
                        let mut there = after.clone();
                        self.copies(edge).for_each(|(to, _)| there.insert(to));
                        written().for_each(|slot| there.remove(*slot));
                        let moved = self.moved.get(&(pc, self.first(target) as u32));
                        moved.into_iter().flatten().for_each(|slot| there.remove(*slot));
                        changed |= add(&mut stale[self.first(target)], &there);
                    }
                }
            }
        }
        stale
    }

    /// Finds a node that loads a stale slot. Between blocks, the builder decides which values are in slots, so this is
    /// known at the first op of blocks with an entry, and at each op in baseline mode.
    fn reads_of_slots(&self, graph: &Graph, stale: &[Bits]) -> Result<(), Problem> {
        for (block, content) in graph.blocks.indexed() {
            for id in &content.nodes {
                let Kind::Slot(slot) = graph.node(*id).kind else { continue };
                let is_written = |pc: u32| {
                    let at = self.ends.get(&pc);
                    at.is_some_and(|at| {
                        at.flushed_before.iter().chain(&at.flushed).any(|written| *written == slot.into())
                    })
                };
                let pc = match content.entry {
                    Some(entry) if self.is_after_executed(entry.pc) => entry.pc,
                    None if self.mode == CompileMode::Baseline && !is_written(graph.origins[id.index()]) => {
                        graph.origins[id.index()]
                    }
                    _ => continue,
                };
                if stale[pc as usize].contains(slot.into())
                    && self.flushed_before(pc).all(|flushed| flushed != usize::from(slot))
                {
                    return problem(block, *id, format!("nobody wrote slot {slot} before"));
                }
            }
        }
        Ok(())
    }

    /// Whether machine code that is entered at an op continues after one that the runtime or the interpreter has
    /// executed.
    fn is_after_executed(&self, pc: u32) -> bool {
        let begins_block = self.decoded.blocks.iter().any(|block| block.ops.start == pc);
        !begins_block && pc > 0 && self.ends.get(&(pc - 1)).is_some_and(|at| at.executed)
    }

    /// The slots that are written to the frame before an op.
    fn flushed_before(&self, pc: u32) -> impl Iterator<Item = usize> {
        self.ends.get(&pc).into_iter().flat_map(|at| at.flushed_before.iter().copied())
    }

    fn first(&self, block: BlockId) -> usize {
        self.decoded.blocks[block.index()].ops.start as usize
    }

    /// The slots that an edge copies: to, and from.
    fn copies(&self, edge: Option<EdgeId>) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        let remaps = edge.map_or(&[][..], |edge| self.decoded.remaps(self.decoded.edge(edge)));
        let values = remaps.iter().filter(|remap| !remap.source.is_ref());
        values.map(|remap| (remap.target.reg().index(), remap.source.reg().index()))
    }
}

/// Adds what another set has. Whether that was anything new.
fn add(set: &mut Bits, other: &Bits) -> bool {
    other.iter().fold(false, |changed, slot| set.insert_new(slot) | changed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::build::build;
    use crate::interp::BytecodeModule;
    use crate::tests::functions;

    /// The module of a text that has functions alone.
    fn module(text: &str) -> BytecodeModule {
        BytecodeModule::new("module".to_string(), functions(text))
    }

    /// Takes each slot out of each exit, one at a time. Gives those whose loss is found, as the op and the slot, and
    /// those where it is not.
    fn losses(module: &BytecodeModule, ordinal: usize, mode: CompileMode) -> [BTreeSet<(u32, u16)>; 2] {
        let context = FunctionContext { module, function: &module.functions[ordinal] };
        let mut graph = build(context, mode).unwrap();
        assert_eq!(check(&graph, context, mode), Ok(()));
        let mut losses = [BTreeSet::new(), BTreeSet::new()];
        for index in 0..graph.exits.len() {
            let exit = graph.exits[index].clone();
            for position in 0..exit.frame_state.len() {
                if graph.is_in_slot(&exit.frame_state[position]) {
                    continue;
                }
                graph.exits[index].frame_state.remove(position);
                let is_missed = check(&graph, context, mode).is_ok();
                graph.exits[index] = exit.clone();
                losses[usize::from(is_missed)].insert((exit.pc, exit.frame_state[position].slot));
            }
        }
        losses
    }

    #[test]
    fn lost_slots_are_found() {
        let module = module(include_str!("../../../../../fixtures/bench/vm.vmasm"));
        // `loop`: the argument in slot 0 is never written. Slot 3 is the condition, which is dead after the branch.
        let [found, missed] = losses(&module, 1, CompileMode::Optimised);
        assert_eq!(found, BTreeSet::from([(3, 1), (3, 2), (6, 1)]));
        assert_eq!(missed, BTreeSet::from([(3, 0)]));
        let [found, missed] = losses(&module, 1, CompileMode::Baseline);
        assert_eq!(found, BTreeSet::from([(2, 1), (2, 2), (5, 1)]));
        assert_eq!(missed, BTreeSet::from([(5, 3)]));
        let found =
            (0..module.functions.len()).map(|ordinal| losses(&module, ordinal, CompileMode::Optimised)[0].len());
        assert_eq!(found.collect::<Vec<_>>(), [0, 3, 7, 2, 1, 9, 24, 15]);
    }

    #[test]
    fn pieces_of_baseline_mode_end_with_a_flush() {
        // The first op of the second piece is executed by the runtime: its exit has nothing to write any more.
        let fill = "  %i0 = vm.add.i32 %i0, %i0\n".repeat(62);
        let text = format!(
            "vm.module @test version 0\nvm.type !vm.buffer\n\nvm.func @alloc(%i0: i32) -> (i32) {{\n^bb0:\n  \
             %i2:3 = vm.const.i64 8\n  %i4 = vm.const.i32 16\n{fill}  %r0 = vm.buffer.alloc %i2:3, %i4\n  \
             vm.discard.refs %r0\n  vm.return %i0\n}}\n"
        );
        let [found, missed] = losses(&module(&text), 0, CompileMode::Baseline);
        assert_eq!((found, missed), (BTreeSet::from([(64, 2), (64, 4), (64, 0)]), BTreeSet::new()));
    }
}
