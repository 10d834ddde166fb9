//! The JIT tier: machine code for verified functions, from the same semantics as the interpreter's handlers.
//!
//! ```text
//! Decoded --build--> graph --passes--> graph --regalloc--> locations --x64--> code --install--> module
//!                                        |
//!                                      proof
//! ```
//!
//! Each stage is a module (a *room*). A room uses those that come after it in this list and no others, so that an
//! analysis never depends on a pass, and only `x64` on how instructions are encoded:
//!
//! - `x64`: the emitter of machine code, and its listing. It uses `regalloc`, `analysis`, `processor` and `ir`.
//! - `proof`: the proof that the accesses of a final graph stay inside of their buffers. It uses `ir` alone, and no
//!   room uses it.
//! - `regalloc`: the linear scan, which gives values registers and spill slots. It uses `processor` and `ir`.
//! - `passes`: the passes over a graph, and their pipeline. They use `analysis`, `processor` and `ir`.
//! - `build`: the builder, which makes a graph of bytecode. It uses `analysis` and `ir`.
//! - `analysis`: analyses of bytecode and of graphs, and the graph verifier. It uses `processor` and `ir`.
//! - `processor`: registers and features of the processor. It uses the types of `ir`.
//! - `ir`: the graph, in SSA form.
//!
//! [`Plan`] runs the stages one after the other, and [`ModuleCode`] installs what comes out. Generated code is in none
//! of the rooms: `generated` imports for it what it uses from `build`, `ir` and `x64`, and its table of primitives is
//! used everywhere.
//!
//! `build` is called by code that `codegen` generates from the `semantics` of each op, so a new op made of known
//! primitives is compiled without an edit here. `x64/lower` has the instructions of each primitive; a primitive without
//! instructions is a call of the interpreter's function. An op that is not made of primitives is executed by the
//! runtime: machine code flushes its frame state to the slots, calls the runtime, and continues after the op. A side
//! exit is taken where an op traps or a limit is reached; the interpreter then executes the op again and finds the
//! same.
//!
//! Machine code uses the interpreter's frames, slots and references in place, so it can be entered and left at any
//! block.
//!
//! The crate stands on `vireo-core`, `vireo-module` and `vireo-vm`. `vireo-context` attaches [`ModuleCode`] to modules,
//! as the `FunctionCompiler` of the interpreter. On other processors than x86-64 the crate is empty.

#![cfg(all(target_arch = "x86_64", unix))]

mod analysis;
mod build;
mod generated;
mod install;
mod ir;
mod passes;
mod processor;
mod proof;
mod regalloc;
#[cfg(test)]
mod tests;
mod x64;

use vireo_core::{executable_memory, limits, math};
use vireo_module::{bytecode, convention};
use vireo_vm::{self as vm, interp};

use crate::bytecode::VerifiedFunction;
use crate::interp::BytecodeModule;
use crate::interp::code::listing::CompiledFunction;
use crate::interp::code::loops::LoopDecision;
use analysis::calls::{FunctionContext, callees};
use analysis::verify::{RangeChecks, Verifier};
use ir::graph::{self, BlockIndex, CompileMode, Graph, NativeKind, NativeTerminator, SideExitKind, Terminator};
use ir::hash;
use ir::text::print::Text;
use passes::{dce, folding, optimise};
use processor::features::Features;
use regalloc::Allocation;
use x64::runtime_layout::LinkTargets;
use x64::{emit, listing};

pub use analysis::verify::always as verify_always;
pub use install::ModuleCode;
#[cfg(feature = "lies")]
#[doc(hidden)]
pub use passes::lies;

/// Liveness takes a bit for each value and block. Functions whose tables would have more bits than this are compiled in
/// baseline mode.
const MAX_LIVENESS_BITS: usize = 1 << 27;
/// Most spill slots of a native frame. It must not reach beyond the page after the one that it begins on, which guards
/// the stack.
const MAX_SPILL_SLOTS: u32 = 384;

/// A function whose graph is final and whose registers are allocated, so that its resume points and side exits are
/// known.
pub struct Plan {
    graph: Graph,
    allocation: Allocation,
    /// Its accesses were not proved with guards, so it has none.
    is_checked: bool,
}

/// The reason for which a function is not compiled in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// It would take more visits than a function may, or more of something else.
    TooLarge,
    /// Not all accesses are proved to be inside of their buffers.
    Unproved,
}

/// A side exit at the end of a block, after which machine code may be resumed.
#[derive(Clone, Copy, Debug)]
struct SideExit {
    /// The block that ends there.
    pub block: BlockIndex,
    /// The op.
    pub pc: u32,
    pub kind: SideExitKind,
}

/// A point at which the interpreter enters machine code: after a side exit, or at a loop header (OSR entry).
#[derive(Clone, Copy, Debug)]
struct ResumePoint {
    /// The block that begins there.
    pub block: BlockIndex,
    /// The op at which the interpreter is.
    pub pc: u32,
    /// It is entered only after the side exit at the op before.
    pub resumes: bool,
}

/// Machine code, and the code offset of each resume point by its block.
struct MachineCode {
    pub code: Vec<u8>,
    pub entries: hash::Table<BlockIndex, usize>,
    /// The code offset at which native calls enter, if there may be some.
    pub native_entry: Option<usize>,
}

impl Plan {
    /// Builds, optimises and allocates a function, in baseline mode if it is too large for the other ones. None if it
    /// is too large for that, too.
    ///
    /// All accesses of the result are proved to be inside of their buffers. If those of an optimised function are not,
    /// it is compiled without code that leans on guards.
    pub fn new(function: &VerifiedFunction, module: &BytecodeModule) -> Option<Plan> {
        Plan::in_best_mode(FunctionContext { module, function }, false)
    }

    /// The same plan, and what was decided about the loops of the function ([`Plan::decisions`]).
    pub fn explained(function: &VerifiedFunction, module: &BytecodeModule) -> Option<Plan> {
        Plan::in_best_mode(FunctionContext { module, function }, true)
    }

    fn in_best_mode(context: FunctionContext<'_>, explains: bool) -> Option<Plan> {
        if !context.module.shape.baseline {
            match Plan::with(context, CompileMode::Optimised, explains) {
                Ok(plan) => return Some(plan),
                Err(Refused::Unproved) => {
                    if let Ok(plan) = Plan::with(context, CompileMode::Checked, explains) {
                        return Some(plan);
                    }
                }
                Err(Refused::TooLarge) => {}
            }
        }
        // A call whose time is over needs no code.
        limits::scope::check().ok()?;
        Plan::with(context, CompileMode::Baseline, explains).ok()
    }

    fn with(context: FunctionContext<'_>, mode: CompileMode, explains: bool) -> Result<Plan, Refused> {
        let mut graph = build::build(context, mode).ok_or(Refused::TooLarge)?;
        graph.decisions.are_wanted = explains;
        Verifier::built(&graph, context, mode);
        if mode == CompileMode::Baseline {
            let verifier = Verifier::begin(&graph);
            dce::remove_dead_nodes(&mut graph, false);
            verifier.after("dce", &graph, RangeChecks::Exact);
        } else {
            if graph.blocks.len().saturating_mul(graph.nodes.len()) > MAX_LIVENESS_BITS {
                return Err(Refused::TooLarge);
            }
            let features = Features::detect().with_lanes(context.module.shape.max_lanes);
            optimise::optimise(&mut graph, features, mode == CompileMode::Optimised);
        }
        #[cfg(feature = "lies")]
        let is_lie = mode == CompileMode::Optimised
            && lies::are_told()
            && proof::check(&graph).is_ok()
            && lies::tell(&mut graph);
        let proved = proof::check(&graph);
        if graph.effort.is_spent() {
            return Err(Refused::TooLarge);
        }
        #[cfg(feature = "lies")]
        let proved = if is_lie { lies::judge(proved) } else { proved };
        if let Err(unproved) = proved {
            // Without guards, each access has its check.
            debug_assert!(mode == CompileMode::Optimised, "{unproved:?} of a function without guards");
            return Err(Refused::Unproved);
        }
        folding::fold(&mut graph);
        let allocation = regalloc::allocate(&graph).filter(|allocation| allocation.spill_slots <= MAX_SPILL_SLOTS);
        let is_checked = mode == CompileMode::Checked;
        Ok(Plan { allocation: allocation.ok_or(Refused::TooLarge)?, graph, is_checked })
    }

    /// Whether the function has a loop, or at least as many computed nodes as ops that the runtime or the interpreter
    /// executes.
    fn is_worthwhile(&self) -> bool {
        let computed = |block: &graph::Block| {
            let nodes = block.nodes.iter().filter(|id| !matches!(self.graph.node(**id).kind, graph::Kind::Slot(_)));
            nodes.count()
        };
        let nodes: usize = self.graph.blocks.iter().map(computed).sum();
        self.graph.blocks.iter().any(|block| block.depth > 0) || nodes >= self.interpreted().count()
    }

    /// The side exits that lead to the interpreter, which needs a threaded instruction for each.
    fn side_exits(&self) -> impl Iterator<Item = SideExit> {
        let is_op = |block| {
            matches!(self.graph.native_terminators.get(block), Some(NativeTerminator { kind: NativeKind::Op(_), .. }))
        };
        self.exit_terminators().filter(move |side_exit| !is_op(side_exit.block))
    }

    fn exit_terminators(&self) -> impl Iterator<Item = SideExit> {
        self.graph.blocks.indexed().filter_map(|(block, content)| match content.terminator {
            Terminator::SideExit(kind, exit) => Some(SideExit { block, pc: self.graph.exit(exit).pc, kind }),
            _ => None,
        })
    }

    /// The ops that machine code does not execute.
    fn interpreted(&self) -> impl Iterator<Item = u32> {
        let has_code = |block| match self.graph.native_terminators.get(block) {
            Some(terminator) => !matches!(terminator.kind, NativeKind::Op(op) if !op.moves_refs),
            None => false,
        };
        self.exit_terminators().filter(move |side_exit| !has_code(side_exit.block)).map(|side_exit| side_exit.pc)
    }

    /// The points at which the interpreter enters the code.
    fn resume_points(&self) -> impl Iterator<Item = ResumePoint> {
        self.graph.blocks.indexed().filter_map(|(block, content)| {
            let entry = content.entry.filter(|entry| !entry.native);
            entry.map(|entry| ResumePoint { block, pc: entry.pc, resumes: entry.resumes })
        })
    }

    /// The functions that its code calls natively.
    fn calls(&self) -> impl Iterator<Item = u32> {
        self.graph.native_terminators.values().filter_map(|terminator| match &terminator.kind {
            NativeKind::Call(call) => Some(call.callee),
            NativeKind::Return { .. } | NativeKind::Op(_) => None,
        })
    }

    /// Emits the machine code.
    fn compile(&self, link_targets: &LinkTargets) -> Option<MachineCode> {
        let emitted = emit::emit(&self.graph, &self.allocation, link_targets)?;
        Some(MachineCode { code: emitted.code, entries: emitted.entries, native_entry: emitted.native_entry })
    }

    /// How many bytes of machine code the function becomes. Emits them to know.
    pub fn code_bytes(&self) -> Option<usize> {
        Some(self.compile(&LinkTargets::default())?.code.len())
    }

    /// The text of its graph after the passes (`ir/text`).
    pub fn graph(&self) -> String {
        Text(&self.graph).to_string()
    }

    /// The decisions about its loops, in the order in which they were made; none if it was not asked for them.
    pub fn decisions(&self) -> &[LoopDecision] {
        &self.graph.decisions.all
    }

    /// The listing of the machine code. It is not linked: addresses of the interpreter are zero.
    pub fn list(&self) -> Option<CompiledFunction> {
        let emitted = emit::emit(&self.graph, &self.allocation, &LinkTargets::default())?;
        let listing = listing::Listing::new(&self.graph, &self.allocation);
        let parts = emitted.code_offsets.iter().map(|(offset, origin)| listing.part(*offset, *origin)).collect();
        let (interpreted, is_checked) = (self.interpreted().collect(), self.is_checked);
        Some(CompiledFunction { code: emitted.code, parts, interpreted, is_checked })
    }
}
