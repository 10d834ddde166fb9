//! The choice of the carried register: the VM register whose value each handler passes to the next in a register of the
//! processor. The code builder asks here which one that is.
//!
//! A slot that was just written takes several cycles to be loaded again (store forwarding), longer than most ops. So
//! the value that an op writes is also carried, and an op that reads the register of the carry has a handler that takes
//! it from there. Every slot is written all the same, so code can be entered at any op: the carry is then loaded from
//! the frame.
//!
//! The carried register is known at each instruction when the code is built. Where branches meet, [`EntryCarries`]
//! decides on one, and a branch that arrives with another one loads it. In a loop it is the register that the end of
//! the body writes, so the induction variable never goes through memory.

use smallvec::SmallVec;

use super::body::{OpBody, OpVisitor, TestBody};
use crate::bytecode::{BlockId, Callee, Decoded, EdgeId, Op, Reg, VerifiedFunction};
use crate::convention::Kind;
use crate::generated::vm::interp::threaded as generated;
use crate::interp::frame::carried_register::{CarriedRegister, narrow};
use crate::interp::machine::bound_modules::BytecodeModule;

/// Most reads of a block that are looked at: for each of its edges they are, so all together would be quadratic.
const MAX_READS: usize = 16;

/// The carried register after a call of a function of the module: the result, if it is one of 32 bits.
pub(super) fn after_call(decoded: &Decoded, module: &BytecodeModule, op: Op) -> Option<CarriedRegister> {
    let Op::Call { call } = op else { return None };
    let site = decoded.call(call);
    let Callee::Function(callee) = site.callee else { return None };
    match (module.functions.get(callee.index())?.convention().results.as_slice(), decoded.list(site.results)) {
        ([Kind::I32 | Kind::F32], [result]) => Some(narrow(result.reg())),
        _ => None,
    }
}

/// The carried register at the entry of each block.
pub(super) struct EntryCarries {
    carries: Vec<Option<CarriedRegister>>,
    self_loops: Vec<bool>,
}

impl EntryCarries {
    pub fn new(function: &VerifiedFunction, module: &BytecodeModule) -> EntryCarries {
        let decoded = function.decoded();
        let blocks: Vec<BlockSummary> =
            (0..decoded.blocks.len()).map(|block| BlockSummary::new(decoded, module, block)).collect();
        let mut entry = EntryCarries { carries: vec![None; blocks.len()], self_loops: vec![false; blocks.len()] };
        // First the loop headers: the registers that back edges bring.
        for (index, block) in blocks.iter().enumerate() {
            for edge in &block.edges {
                let header = decoded.edge(*edge).target.index();
                if header > index {
                    continue;
                }
                entry.self_loops[index] |= header == index && !block.calls;
                let options = match block.at_end {
                    CarryAtEnd::Register(carry) => carry.after_copies(decoded.remaps(decoded.edge(*edge))),
                    _ => SmallVec::new(),
                };
                entry.carries[header] = blocks[header].choose(&options).or(entry.carries[header]);
                // A header that is only a test is rotated, so its successors are entered from the end of this block.
                if let (CarryAtEnd::Unchanged, 2) = (&blocks[header].at_end, decoded.blocks[header].ops.len()) {
                    for next in &blocks[header].edges {
                        let next = decoded.edge(*next);
                        let target = next.target.index();
                        entry.self_loops[index] |= target == index && !block.calls;
                        if target <= header || target > index {
                            continue;
                        }
                        let options = options.iter().flat_map(|carry| carry.after_copies(decoded.remaps(next)));
                        let options: SmallVec<[CarriedRegister; 2]> = options.collect();
                        entry.carries[target] = blocks[target].choose(&options).or(entry.carries[target]);
                    }
                }
            }
        }
        // Then the entry of the function: callers carry the first word of the arguments.
        let first =
            function.convention().args.iter().filter_map(|argument| argument.kind()).find(|kind| *kind != Kind::Ref);
        let first = matches!(first, Some(Kind::I32 | Kind::F32)).then(|| narrow(Reg(0)));
        entry.carries[0] = first.and_then(|first| blocks[0].choose(&[first]));
        // Then all other blocks: a register that every branch to the block carries.
        let mut common: Vec<Option<SmallVec<[CarriedRegister; 2]>>> = vec![None; blocks.len()];
        for (index, block) in blocks.iter().enumerate() {
            if let (None, Some(options), 1..) = (entry.carries[index], &common[index], index) {
                entry.carries[index] = block.choose(options);
            }
            let at_end = match block.at_end {
                CarryAtEnd::Register(carry) => Some(carry),
                CarryAtEnd::Unchanged => entry.carries[index],
                CarryAtEnd::Nothing => None,
            };
            for edge in block.edges.iter().map(|edge| decoded.edge(*edge)) {
                let options = at_end.map(|carry| carry.after_copies(decoded.remaps(edge))).unwrap_or_default();
                match &mut common[edge.target.index()] {
                    Some(common) => common.retain(|carry| options.contains(carry)),
                    none => *none = Some(options),
                }
            }
        }
        entry
    }

    pub fn of(&self, block: BlockId) -> Option<CarriedRegister> {
        self.carries[block.index()]
    }

    /// True if a block branches back to itself and calls nothing, so the loop header stays in a register of the
    /// processor.
    pub fn is_self_loop(&self, block: BlockId) -> bool {
        self.self_loops[block.index()]
    }
}

/// The carried register at the end of a block.
enum CarryAtEnd {
    /// The one that the block was entered with.
    Unchanged,
    Register(CarriedRegister),
    Nothing,
}

/// The facts about a block that the choice of carried registers needs.
struct BlockSummary {
    /// The registers that it reads before it writes one, at most [`MAX_READS`].
    reads: SmallVec<[CarriedRegister; 4]>,
    at_end: CarryAtEnd,
    /// True if it calls a function of the module.
    calls: bool,
    /// Its branches, as far as handlers take them.
    edges: SmallVec<[EdgeId; 2]>,
}

impl BlockSummary {
    fn new(decoded: &Decoded, module: &BytecodeModule, block: usize) -> BlockSummary {
        let ops = &decoded.blocks[block].ops;
        let ops = &decoded.ops[ops.start as usize..ops.end as usize];
        let mut summary = BlockSummary {
            reads: SmallVec::new(),
            at_end: CarryAtEnd::Unchanged,
            calls: false,
            edges: SmallVec::new(),
        };
        for (index, op) in ops.iter().enumerate() {
            match *op {
                Op::Br { target } => summary.edges.push(target),
                Op::CondBr { true_target, false_target, .. } => summary.edges.extend([true_target, false_target]),
                op => {
                    if let Some(Op::CondBr { condition, .. }) = ops.get(index + 1)
                        && generated::visit_fused_test(op, *condition, &mut summary)
                    {
                        continue;
                    }
                    if !generated::visit_op(op, &mut summary) {
                        if let Op::Call { call } = op {
                            summary.calls = true;
                            if let [word] = decoded.list(decoded.call(call).operands)
                                && !word.is_ref()
                            {
                                summary.read(&[narrow(word.reg())]);
                            }
                        }
                        summary.at_end =
                            after_call(decoded, module, op).map_or(CarryAtEnd::Nothing, CarryAtEnd::Register);
                    }
                }
            }
        }
        summary
    }

    /// The first of `options` that saves the block a load.
    fn choose(&self, options: &[CarriedRegister]) -> Option<CarriedRegister> {
        options.iter().copied().find(|carry| self.reads.iter().any(|read| carry.provides(*read)))
    }

    fn read(&mut self, reads: &[CarriedRegister]) {
        if matches!(self.at_end, CarryAtEnd::Unchanged) {
            let reads = reads.iter().filter(|_| self.reads.len() < MAX_READS);
            self.reads.extend(reads.copied().collect::<SmallVec<[_; 4]>>());
        }
    }
}

impl OpVisitor for BlockSummary {
    fn op<B: OpBody>(&mut self, _operands: B::Operands, reads: &[CarriedRegister], result: Option<CarriedRegister>) {
        self.read(reads);
        if let Some(result) = result {
            self.at_end = CarryAtEnd::Register(result);
        }
    }

    fn test<B: TestBody>(&mut self, _operands: B::Operands, reads: &[CarriedRegister]) {
        self.read(reads);
    }
}
