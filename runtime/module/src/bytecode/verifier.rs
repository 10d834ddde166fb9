//! The verifier: decodes a function and proves that executing it cannot leave its frame, its module's tables or its
//! code. Sessions call [`verify_function`] for each function of a module.
//!
//! It proves, so that no later stage checks it again: registers are below the frame's counts and of the right bank,
//! 64-bit values are on even pairs, MOVE bits stand only where they are allowed, globals are in range with the width of
//! the access, ordinals name what exists, calls and returns match their conventions value by value, branches lead to
//! block markers with copies within one bank, every block ends in a terminator, and opcode sets are used only under
//! their feature bits.

use std::cell::Cell;

use smallvec::SmallVec;

use super::decoded::{CallSite, Callee, Decoded};
use super::entry;
use super::error::VerifyError;
use super::function_info::{FunctionInfo, ModuleInfo};
use super::liveness::{CallKinds, Liveness};
use super::marshal::Marshal;
use super::operands::{
    AnyReg, BlockId, CallId, CasesId, EdgeId, GlobalOffset, GlobalRef, ImportId, ListId, RefReg, Reg, RodataId, TypeId,
};
use super::placement::{self, Placement};
use super::reader;
use super::visit::{CallForm, OperandVisitor};
use crate::convention::{Argument, Convention, Kind};
use crate::generated::vm::opcode::{self, BytecodeVersion};
use crate::generated::vm::verify;

/// Frames hold at most this many 32-bit slots: the bit above them marks a reference.
const MAX_SLOTS: u32 = opcode::REF_BIT as u32;
/// Frames hold at most this many references: the bit above them is the MOVE bit.
const MAX_REFS: u32 = opcode::MOVE_BIT as u32;

/// The number of registers of a bank that code may name if the function declares this many. The reference runtime
/// rounds the counts of both banks up like this, and its assembler declares too few for arguments that the code does
/// not name.
pub fn nameable(declared: u32) -> u32 {
    declared.max(1).next_power_of_two()
}

/// A function that has been verified. Only [`verify_function`] makes one.
#[derive(Clone, Debug)]
pub struct VerifiedFunction {
    ordinal: u32,
    decoded: Decoded,
    convention: Convention,
    slots: u16,
    refs: u16,
    liveness: Option<Liveness>,
    reads_unwritten: bool,
    marshals: Box<[Marshal]>,
}

impl VerifiedFunction {
    /// Its ordinal in the module.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Its ops and tables; every index in them is in range.
    pub fn decoded(&self) -> &Decoded {
        &self.decoded
    }

    /// Its calling convention.
    pub fn convention(&self) -> &Convention {
        &self.convention
    }

    /// Number of 32-bit slots of its frame.
    pub fn slots(&self) -> usize {
        usize::from(self.slots)
    }

    /// Number of reference registers of its frame.
    pub fn refs(&self) -> usize {
        usize::from(self.refs)
    }

    /// The live registers of each block; none for functions out of proportion, where every register counts as live.
    pub fn liveness(&self) -> Option<&Liveness> {
        self.liveness.as_ref()
    }

    /// The plan of a call of an import.
    #[inline]
    pub fn marshal(&self, call: CallId) -> &Marshal {
        &self.marshals[call.index()]
    }

    /// True if a value slot that is no argument may be read before it is written, and so must start as zero.
    pub fn reads_unwritten_slots(&self) -> bool {
        self.reads_unwritten
    }
}

/// Decodes and verifies the function in `bytes`.
///
/// # Errors
/// The first rule that is broken, with the offset of the op.
pub fn verify_function(
    bytes: &[u8],
    function: &FunctionInfo<'_>,
    module: &ModuleInfo<'_>,
) -> Result<VerifiedFunction, VerifyError> {
    let frame = check_frame(function).map_err(|message| function.error(message))?;
    let mut decoded = decode(bytes, function)?;
    entry::enter(&mut decoded, function);
    let FrameFacts { slots, refs, liveness, reads_unwritten } = check(&decoded, function, module, frame)?;
    let convention = function.convention.clone();
    let marshals = decoded.calls.iter().map(|site| match site.callee {
        Callee::Import(id) => {
            let import = module.imports.get(id.index());
            import.map(|convention| Marshal::new(&decoded, site, convention)).unwrap_or_default()
        }
        Callee::Function(_) => Marshal::default(),
    });
    let marshals = marshals.collect();
    let ordinal = function.ordinal;
    Ok(VerifiedFunction { ordinal, decoded, convention, slots, refs, liveness, reads_unwritten, marshals })
}

/// The first step of [`verify_function`].
///
/// # Errors
/// The bytes are no ops, or not as many blocks as declared.
pub fn decode(bytes: &[u8], function: &FunctionInfo<'_>) -> Result<Decoded, VerifyError> {
    let decoded = reader::decode(bytes, function)?;
    if decoded.blocks.len() != function.blocks as usize {
        let message = format!("the function declares {} blocks and has {}", function.blocks, decoded.blocks.len());
        return Err(function.error(message));
    }
    Ok(decoded)
}

/// The second step of [`verify_function`], once more.
///
/// # Errors
/// The function or the module is not what it was when `verified` was made.
pub fn verify_again(
    verified: &VerifiedFunction,
    function: &FunctionInfo<'_>,
    module: &ModuleInfo<'_>,
) -> Result<(), VerifyError> {
    let frame = check_frame(function).map_err(|message| function.error(message))?;
    check(&verified.decoded, function, module, frame).map(|_| ())
}

/// For each slot of the frame, whether it may be read before it is written, wherever the arguments are; none for
/// functions out of proportion.
///
/// # Errors
/// As [`verify_function`].
pub(super) fn live_at_entry(
    bytes: &[u8],
    function: &FunctionInfo<'_>,
    module: &ModuleInfo<'_>,
) -> Result<Option<Vec<bool>>, VerifyError> {
    let decoded = decode(bytes, function)?;
    let FrameFacts { slots, liveness, .. } = check(&decoded, function, module, (function.slots, function.refs))?;
    Ok(liveness.map(|liveness| (0..slots).map(|slot| liveness.is_slot_live(BlockId(0), Reg(slot))).collect()))
}

/// The facts about a frame that [`check`] finds.
struct FrameFacts {
    /// Registers that the frame needs.
    slots: u16,
    refs: u16,
    liveness: Option<Liveness>,
    /// A slot may be read before it is written.
    reads_unwritten: bool,
}

/// Checks all rules on a decoded function. `frame` is the least number of registers of either bank.
fn check(
    decoded: &Decoded,
    function: &FunctionInfo<'_>,
    module: &ModuleInfo<'_>,
    frame: (u32, u32),
) -> Result<FrameFacts, VerifyError> {
    let nameable_slots = nameable(function.slots).max(frame.0);
    let (slots, refs) = (Cell::new(frame.0), Cell::new(frame.1));
    let mut checker = Checker { function, module, decoded, nameable_slots, slots, refs };
    for (op, offset) in decoded.ops.iter().zip(&decoded.offsets) {
        verify::visit_operands(*op, &mut checker).map_err(|message| VerifyError {
            function: function.ordinal,
            offset: *offset,
            message: format!("{}: {message}", op.mnemonic()),
        })?;
    }
    // Operands can name no more registers than fit 16 bits.
    let narrow = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
    let (slots, refs) = (narrow(checker.slots.get()), narrow(checker.refs.get()));
    let liveness = Liveness::new(decoded, usize::from(slots), usize::from(refs), &checker);
    let reads_unwritten = liveness.as_ref().is_none_or(|liveness| {
        let is_argument = placement::argument_slots(function.convention, slots);
        (0..slots).any(|slot| !is_argument[usize::from(slot)] && liveness.is_slot_live(BlockId(0), Reg(slot)))
    });
    Ok(FrameFacts { slots, refs, liveness, reads_unwritten })
}

/// Checks that the frame has room for the arguments and that register operands can name its registers. Returns the
/// least number of registers of either bank.
fn check_frame(function: &FunctionInfo<'_>) -> Result<(u32, u32), String> {
    if function.slots > MAX_SLOTS || function.refs > MAX_REFS {
        return Err(format!(
            "{} value and {} reference registers are declared, at most {MAX_SLOTS} and {MAX_REFS} can be named",
            function.slots, function.refs
        ));
    }
    let unknown = function.features & !function.rules.version.features;
    if unknown != 0 {
        let BytecodeVersion { major, minor, .. } = function.rules.version;
        return Err(format!("the feature bits {unknown:#x} have no meaning in bytecode {major}.{minor}"));
    }
    let Some(arguments) = function.convention.fixed_args() else {
        return Err(format!("the convention {} has a variadic span; only imports may", function.convention));
    };
    let refs = arguments.iter().filter(|kind| kind.slots() == 0).count() as u32;
    let slots = function.rules.placement.needed_slots(function.convention);
    if slots > nameable(function.slots) || refs > nameable(function.refs) {
        return Err(format!(
            "the arguments of {} need {slots} value and {refs} reference registers, {} and {} are declared",
            function.convention, function.slots, function.refs
        ));
    }
    // Callers write arguments in order, whatever the rule of the function is.
    let written = Placement::InOrder.needed_slots(function.convention);
    if written > MAX_SLOTS {
        return Err(format!(
            "the arguments of {} need {written} value registers, {MAX_SLOTS} can be named",
            function.convention
        ));
    }
    Ok((written.max(function.slots), refs.max(function.refs)))
}

struct Checker<'a> {
    function: &'a FunctionInfo<'a>,
    module: &'a ModuleInfo<'a>,
    decoded: &'a Decoded,
    /// Number of slots that code may name.
    nameable_slots: u32,
    /// Number of registers: those declared, or more if the code names more.
    slots: Cell<u32>,
    refs: Cell<u32>,
}

/// Checks that `index` is below `count`.
fn in_range(what: &str, index: u32, count: usize) -> Result<(), String> {
    if (index as usize) < count {
        return Ok(());
    }
    Err(format!("{what} {index} is out of range: there are {count}"))
}

impl Checker<'_> {
    fn value_register(&self, reg: Reg, kind: Kind) -> Result<(), String> {
        let index = u32::from(reg.0);
        if kind.slots() == 2 && !index.is_multiple_of(2) {
            return Err(format!("register i{index} starts a 64-bit value and is odd"));
        }
        let end = index + kind.slots();
        if end > self.nameable_slots {
            return Err(format!(
                "register i{index} of a value of {} slots is out of range: there are {}",
                kind.slots(),
                self.function.slots
            ));
        }
        self.slots.set(self.slots.get().max(end));
        Ok(())
    }

    fn ref_register(&self, reg: RefReg) -> Result<(), String> {
        let end = reg.index() as u32 + 1;
        if end > nameable(self.function.refs) {
            return Err(format!("register r{} is out of range: there are {}", reg.index(), self.function.refs));
        }
        self.refs.set(self.refs.get().max(end));
        Ok(())
    }

    /// Checks a register of a list or remap pair, which must be of the bank of `kind`.
    fn register(&self, reg: AnyReg, kind: Kind) -> Result<(), String> {
        match (kind, reg.is_ref()) {
            (Kind::Ref, true) => self.ref_register(reg.ref_reg()),
            (Kind::Ref, false) => Err(format!("expected a reference register, found i{}", reg.reg().0)),
            (_, true) => Err(format!("expected a value register, found r{}", reg.ref_reg().index())),
            (kind, false) => self.value_register(reg.reg(), kind),
        }
    }

    /// Checks a register of either bank; a value is one slot.
    fn any_register(&self, reg: AnyReg) -> Result<(), String> {
        self.register(reg, if reg.is_ref() { Kind::Ref } else { Kind::I32 })
    }

    /// Checks that a register list has exactly one register for each of `kinds`.
    fn values(&self, what: &str, list: ListId, kinds: &[Kind]) -> Result<(), String> {
        let registers = self.decoded.list(list);
        if registers.len() != kinds.len() {
            return Err(format!("{} {what} are given, the convention has {}", registers.len(), kinds.len()));
        }
        for (register, kind) in registers.iter().zip(kinds) {
            self.register(*register, *kind)?;
        }
        Ok(())
    }

    fn convention(&self, callee: Callee) -> Result<&Convention, String> {
        let (what, table, index) = match callee {
            Callee::Function(id) => ("function", self.module.functions, id.0),
            Callee::Import(id) => ("import", self.module.imports, id.0),
        };
        in_range(what, index, table.len())?;
        Ok(&table[index as usize])
    }

    /// The kinds of all operands of a call: spans are repeated as its segments say.
    fn operand_kinds(&self, site: &CallSite, convention: &Convention) -> Result<SmallVec<[Kind; 16]>, String> {
        let mut kinds = SmallVec::new();
        let Some(segments) = site.segments else {
            let fixed = convention.fixed_args();
            kinds.extend(fixed.ok_or_else(|| format!("{convention} is variadic, the call has no segments"))?);
            return Ok(kinds);
        };
        let sizes = self.decoded.segments(segments);
        if sizes.len() != convention.args.len() {
            return Err(format!(
                "{} segments are given, {convention} has {} arguments",
                sizes.len(),
                convention.args.len()
            ));
        }
        let given = self.decoded.list(site.operands).len();
        for (argument, size) in convention.args.iter().zip(sizes) {
            match argument {
                // The reference runtime reads only the sizes of spans.
                Argument::One(kind) => kinds.push(*kind),
                // A span without a size would be 65535 tuples, more than a list of registers can hold beside anything
                // else.
                Argument::Span(_) if *size == opcode::NOT_A_SPAN => {
                    return Err("a span has no segment size".to_string());
                }
                Argument::Span(tuple) => {
                    let count = usize::from(*size) * tuple.len();
                    if kinds.len() + count > given {
                        return Err(format!("the segments need more than the {given} operands that are given"));
                    }
                    (0..*size).for_each(|_| kinds.extend_from_slice(tuple));
                }
            }
        }
        Ok(kinds)
    }
}

impl CallKinds for Checker<'_> {
    fn of_call(&self, call: CallId) -> (SmallVec<[Kind; 16]>, SmallVec<[Kind; 4]>) {
        let site = self.decoded.call(call);
        // The call has been checked, so both lookups succeed.
        let convention = self.convention(site.callee).cloned().unwrap_or_default();
        let operands = self.operand_kinds(site, &convention).unwrap_or_default();
        (operands, convention.results)
    }

    fn of_return(&self) -> &[Kind] {
        &self.function.convention.results
    }
}

impl OperandVisitor for Checker<'_> {
    type Error = String;

    fn read(&mut self, reg: Reg, kind: Kind) -> Result<(), String> {
        self.value_register(reg, kind)
    }

    fn write(&mut self, reg: Reg, kind: Kind) -> Result<(), String> {
        self.value_register(reg, kind)
    }

    fn read_ref(&mut self, reg: RefReg, movable: bool) -> Result<(), String> {
        if reg.is_move() && !movable {
            return Err(format!("register r{} has the MOVE bit, which is not allowed here", reg.index()));
        }
        self.ref_register(reg)
    }

    fn write_ref(&mut self, reg: RefReg) -> Result<(), String> {
        self.ref_register(reg)
    }

    fn read_list(&mut self, list: ListId, kind: Kind, movable: bool) -> Result<(), String> {
        for register in self.decoded.list(list) {
            self.register(*register, kind)?;
            if kind == Kind::Ref {
                self.read_ref(register.ref_reg(), movable)?;
            }
        }
        Ok(())
    }

    fn read_any(&mut self, list: ListId) -> Result<(), String> {
        self.decoded.list(list).iter().try_for_each(|register| self.any_register(*register))
    }

    fn return_values(&mut self, list: ListId) -> Result<(), String> {
        self.values("results", list, &self.function.convention.results)
    }

    fn global(&mut self, offset: GlobalOffset, width: u32) -> Result<(), String> {
        let end = u64::from(offset.0) + u64::from(width);
        if end <= self.module.global_bytes {
            return Ok(());
        }
        let bytes = self.module.global_bytes;
        Err(format!("{width} bytes of globals at {} are out of range: there are {bytes}", offset.0))
    }

    fn global_ref(&mut self, global: GlobalRef) -> Result<(), String> {
        in_range("ref global", global.0, self.module.global_refs as usize)
    }

    fn type_id(&mut self, ty: TypeId) -> Result<(), String> {
        in_range("type", ty.0, self.module.types as usize)
    }

    fn rodata(&mut self, rodata: RodataId) -> Result<(), String> {
        in_range("rodata segment", rodata.0, self.module.rodata as usize)
    }

    fn import(&mut self, import: ImportId) -> Result<(), String> {
        in_range("import", import.0, self.module.imports.len())
    }

    fn edge(&mut self, edge: EdgeId) -> Result<(), String> {
        let edge = self.decoded.edge(edge);
        self.target(edge.target)?;
        for remap in self.decoded.remaps(edge) {
            self.any_register(remap.source)?;
            self.any_register(remap.target)?;
            if remap.source.is_ref() != remap.target.is_ref() {
                return Err(format!("a remap pair crosses register banks: {:?} to {:?}", remap.source, remap.target));
            }
        }
        Ok(())
    }

    fn target(&mut self, block: BlockId) -> Result<(), String> {
        in_range("block", block.0, self.decoded.blocks.len())
    }

    fn cases(&mut self, cases: CasesId) -> Result<(), String> {
        self.decoded.case_edges(cases).try_for_each(|edge| self.edge(edge))
    }

    fn call(&mut self, call: CallId, form: CallForm) -> Result<(), String> {
        let site = self.decoded.call(call);
        let convention = self.convention(site.callee)?;
        if form.variadic && matches!(site.callee, Callee::Function(_)) {
            return Err("the callee of a variadic call is not an import".to_string());
        }
        let kinds = self.operand_kinds(site, convention)?;
        self.values("operands", site.operands, &kinds)?;
        self.values("results", site.results, &convention.results)?;
        match (form.yieldable, site.resume) {
            (true, Some(block)) => self.target(block),
            _ => Ok(()),
        }
    }
}
