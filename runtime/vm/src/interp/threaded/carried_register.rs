//! The carried register: the VM register whose value each handler passes to the next in a register of the processor.
//! The code builder asks here which one that is.
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

use super::{OpBody, OpVisitor, TestBody};
use crate::bytecode::{BlockId, Callee, Decoded, EdgeId, Op, Reg, Remap, VerifiedFunction};
use crate::convention::Kind;
use crate::generated::vm::interp::threaded as generated;
use crate::interp::frame::registers::Registers;
use crate::interp::machine::bound_modules::BytecodeModule;

/// At most so many registers are tracked that hold one value after the copies of a branch.
const MAX_ALIASES: usize = 8;
/// Most reads of a block that are looked at: for each of its edges they are, so all together would be quadratic.
const MAX_READS: usize = 16;

/// A register, or a pair of them, whose value is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedRegister {
    /// The register, of a pair the first.
    pub reg: Reg,
    /// Whether it is a pair.
    pub wide: bool,
}

/// A value of 32 bits.
pub fn narrow(reg: Reg) -> CarriedRegister {
    CarriedRegister { reg, wide: false }
}

/// A value of 64 bits.
pub fn wide(reg: Reg) -> CarriedRegister {
    CarriedRegister { reg, wide: true }
}

impl CarriedRegister {
    /// The value of the register.
    #[inline(always)]
    pub fn value(self, registers: Registers) -> u64 {
        if self.wide { registers.wide(self.reg) } else { u64::from(registers.word(self.reg.index())) }
    }

    /// True if the carry of this register also holds the operand `read`.
    pub fn provides(self, read: CarriedRegister) -> bool {
        self.reg == read.reg && (self.wide || !read.wide)
    }

    /// True if the two have a slot in common.
    pub fn overlaps(self, other: CarriedRegister) -> bool {
        let end = |register: CarriedRegister| u32::from(register.reg.0) + 1 + u32::from(register.wide);
        u32::from(self.reg.0) < end(other) && u32::from(other.reg.0) < end(self)
    }

    /// The registers that hold the carried value after the copies of a branch.
    pub fn after_copies(self, copies: &[Remap]) -> SmallVec<[CarriedRegister; 2]> {
        let (mut low, mut high) = (SmallVec::<[u16; MAX_ALIASES]>::new(), SmallVec::<[u16; MAX_ALIASES]>::new());
        low.push(self.reg.0);
        high.extend(self.wide.then_some(self.reg.0 + 1));
        for copy in copies.iter().filter(|copy| !copy.source.is_ref()) {
            let (source, target) = (copy.source.reg().0, copy.target.reg().0);
            for half in [&mut low, &mut high] {
                let copied = half.contains(&source);
                half.retain(|slot| *slot != target);
                if copied && half.len() < MAX_ALIASES {
                    half.push(target);
                }
            }
        }
        low.iter().map(|slot| CarriedRegister { reg: Reg(*slot), wide: high.contains(&(slot + 1)) }).collect()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::AnyReg;

    fn copies(pairs: &[(u16, u16)]) -> Vec<Remap> {
        let any = AnyReg::from_bits;
        pairs.iter().map(|(source, target)| Remap { source: any(*source), target: any(*target) }).collect()
    }

    #[test]
    fn copies_rename_what_is_carried() {
        let after = |carry: CarriedRegister, pairs| carry.after_copies(&copies(pairs)).to_vec();
        assert_eq!(after(narrow(Reg(3)), &[(3, 1)]), [narrow(Reg(3)), narrow(Reg(1))]);
        assert_eq!(after(narrow(Reg(3)), &[(3, 1), (0, 3)]), [narrow(Reg(1))]);
        assert_eq!(after(narrow(Reg(3)), &[(0, 3)]), []);
        assert_eq!(after(wide(Reg(4)), &[(4, 6), (5, 7)]), [wide(Reg(4)), wide(Reg(6))]);
        // The halves go different ways, or one of them is lost.
        assert_eq!(after(wide(Reg(4)), &[(4, 6), (5, 8)]), [wide(Reg(4)), narrow(Reg(6))]);
        assert_eq!(after(wide(Reg(4)), &[(0, 5)]), [narrow(Reg(4))]);
        // In order: the second copy reads what the first wrote.
        assert_eq!(after(wide(Reg(4)), &[(4, 5), (5, 6)]), [narrow(Reg(4)), narrow(Reg(5)), narrow(Reg(6))]);
    }

    #[test]
    fn registers_overlap_where_they_share_a_slot() {
        let overlap = |one: CarriedRegister, other: CarriedRegister| {
            assert_eq!(one.overlaps(other), other.overlaps(one));
            one.overlaps(other)
        };
        assert!(overlap(narrow(Reg(4)), narrow(Reg(4))) && !overlap(narrow(Reg(4)), narrow(Reg(5))));
        assert!(overlap(wide(Reg(4)), narrow(Reg(5))) && !overlap(wide(Reg(4)), narrow(Reg(6))));
        assert!(overlap(wide(Reg(4)), wide(Reg(5))) && !overlap(wide(Reg(4)), wide(Reg(6))));
        assert!(!overlap(narrow(Reg(u16::MAX)), narrow(Reg(0))));
    }

    #[test]
    fn a_pair_serves_its_lower_half() {
        assert!(wide(Reg(4)).provides(narrow(Reg(4))));
        assert!(!narrow(Reg(4)).provides(wide(Reg(4))));
        assert!(!wide(Reg(4)).provides(narrow(Reg(5))));
    }
}
