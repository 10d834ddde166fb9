//! Types of the tensors that a function takes and returns ([`TensorTypes`]), read from its code: host code checks each
//! argument by `buffer_view.assert`, and makes each result by `buffer_view.create`. Signatures use them where a
//! compiler left no declaration, as it does for models that come from ONNX.
//!
//! Nothing is executed: the code is followed from the entry of the function as long as there is one way to go, into
//! functions of the module that it calls, and over branches and resumption points. So an assertion that is found is one
//! that each call reaches, unless it fails before. The program still checks its arguments itself: what is read here
//! only words a refusal earlier and better, and no check relies on it.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytecode::{AnyReg, CallForm, CallId, CasesId, Decoded, EdgeId, ListId, Op, OperandVisitor, RefReg, Reg};
use crate::bytecode::{BlockId, Callee, RodataId, VerifiedFunction};
use crate::convention::{Convention, Kind};
use crate::declaration::DeclaredType;
use crate::generated::hal::element_texts::element_text;
use crate::verify::visit_operands;
use crate::vmfb::Archive;

/// Ops that are followed for all exports of a module together, each of which gets an equal part: a module with many
/// exports of one long function must not take longer than its size says.
const MAX_OPS: usize = 1 << 20;
/// Ops that are followed for an export at least.
const MIN_OPS: usize = 64;
/// Calls that are followed into each other at most.
const MAX_DEPTH: usize = 8;
/// Most dimensions of a tensor, as in declarations.
const MAX_RANK: usize = 128;
/// Longest text that is taken for the name of an argument.
const MAX_NAME: usize = 64;
/// The text that compilers pass to assertions of arguments without a name.
const UNNAMED: &str = "tensor";

/// The tensors of a function, by position; none for a number, and for a reference of which nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorTypes {
    /// Of the arguments.
    pub arguments: Vec<Option<CheckedTensor>>,
    /// Of the results; empty if the code could not be followed to its end.
    pub results: Vec<Option<CheckedTensor>>,
}

/// A tensor that code checks or makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedTensor {
    /// The name that the assertion has for messages, if it is one.
    pub name: Option<String>,
    /// The element type, as the HAL encodes it.
    pub element_type: u32,
    /// The sizes of its dimensions, outermost first; none for those that are no constants.
    pub shape: Vec<Option<u64>>,
}

impl CheckedTensor {
    /// The type as a declaration would have it; none for elements without a text.
    pub fn declared(&self) -> Option<DeclaredType> {
        let element = element_text(self.element_type)?.to_string();
        Some(DeclaredType::Tensor { shape: self.shape.clone(), element })
    }
}

impl TensorTypes {
    /// The tensors of the function with this ordinal, of a module with the file `archive` and the verified functions
    /// `functions`.
    pub fn of(archive: &Archive, functions: &[VerifiedFunction], ordinal: usize) -> TensorTypes {
        let Some(function) = functions.get(ordinal) else { return TensorTypes::default() };
        let Some(kinds) = function.convention().fixed_args() else { return TensorTypes::default() };
        let ops = (MAX_OPS / archive.exports().len().max(1)).max(MIN_OPS);
        // Each export looks at all imports, which counts like ops.
        if archive.imports().len() > ops {
            return TensorTypes::default();
        }
        let imports = archive.imports().map(|import| Check::of(import.full_name)).collect();
        let mut walk = Walk { archive, functions, imports, ops, asserted: BTreeMap::new(), created: Vec::new() };
        let arguments = (0..kinds.len()).map(RegisterValue::Argument).collect::<Vec<_>>();
        let results = walk.follow(ordinal, &arguments, 0).unwrap_or_default();
        let results = results.iter().map(|known| match known {
            RegisterValue::Argument(index) => walk.asserted.get(index).cloned(),
            RegisterValue::Created(index) => walk.created.get(*index).cloned(),
            _ => None,
        });
        let results = results.collect();
        let mut arguments: Vec<_> = (0..kinds.len()).map(|index| walk.asserted.get(&index).cloned()).collect();
        // One name for several arguments tells none of them from another.
        let names: Vec<Option<String>> =
            arguments.iter().map(|tensor: &Option<CheckedTensor>| tensor.as_ref()?.name.clone()).collect();
        let is_shared = |name: &String| names.iter().flatten().filter(|other| *other == name).count() > 1;
        for tensor in arguments.iter_mut().flatten() {
            tensor.name = tensor.name.take().filter(|name| !is_shared(name));
        }
        TensorTypes { arguments, results }
    }
}

/// The imports that say what a tensor is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    Assert,
    Create,
    Other,
}

impl Check {
    fn of(import: &str) -> Check {
        match import {
            // fact: the analysis recognises calls of these exports, and calls none.
            "hal.buffer_view.assert" | "hal_inline.buffer_view.assert" => Check::Assert,
            // fact: as above.
            "hal.buffer_view.create" | "hal_inline.buffer_view.create" => Check::Create,
            _ => Check::Other,
        }
    }
}

/// The value of a register, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegisterValue {
    /// An argument of the function that is asked for.
    Argument(usize),
    /// A tensor that was made, by its index in `Walk::created`.
    Created(usize),
    /// A read-only segment.
    Rodata(RodataId),
    /// A constant.
    Word(u32),
    /// Anything else.
    Nothing,
}

struct Walk<'a> {
    archive: &'a Archive,
    functions: &'a [VerifiedFunction],
    imports: Vec<Check>,
    /// How many ops may still be followed.
    ops: usize,
    asserted: BTreeMap<usize, CheckedTensor>,
    created: Vec<CheckedTensor>,
}

/// The known registers of a frame. A 64-bit value is two words.
#[derive(Default)]
struct Frame {
    words: BTreeMap<usize, RegisterValue>,
    refs: BTreeMap<usize, RegisterValue>,
}

impl Frame {
    fn get(&self, reg: AnyReg) -> RegisterValue {
        let known = match reg.is_ref() {
            true => self.refs.get(&reg.ref_reg().index()),
            false => self.words.get(&reg.reg().index()),
        };
        known.copied().unwrap_or(RegisterValue::Nothing)
    }

    fn set(&mut self, reg: AnyReg, known: RegisterValue) {
        match reg.is_ref() {
            true => self.refs.insert(reg.ref_reg().index(), known),
            false => self.words.insert(reg.reg().index(), known),
        };
    }

    fn word(&self, reg: AnyReg) -> Option<u32> {
        match self.get(reg) {
            RegisterValue::Word(word) => Some(word),
            _ => None,
        }
    }

    fn wide(&self, reg: AnyReg) -> Option<u64> {
        let low = reg.reg().index();
        match (reg.is_ref(), self.words.get(&low), self.words.get(&(low + 1))) {
            (false, Some(RegisterValue::Word(low)), Some(RegisterValue::Word(high))) => {
                Some(u64::from(*high) << 32 | u64::from(*low))
            }
            _ => None,
        }
    }

    fn set_wide(&mut self, reg: Reg, value: u64) {
        self.words.insert(reg.index(), RegisterValue::Word(value as u32));
        self.words.insert(reg.index() + 1, RegisterValue::Word((value >> 32) as u32));
    }

    /// Forgets the slots of a value.
    fn forget(&mut self, reg: Reg, kind: Kind) {
        self.words.remove(&reg.index());
        if matches!(kind, Kind::I64 | Kind::F64) {
            self.words.remove(&(reg.index() + 1));
        }
    }

    /// Forgets the references that a list moves.
    fn move_out(&mut self, list: &[AnyReg]) {
        for reg in list.iter().filter(|reg| reg.is_ref() && reg.ref_reg().is_move()) {
            self.refs.remove(&reg.ref_reg().index());
        }
    }
}

impl Walk<'_> {
    /// Follows a function from its entry. The values that it returns, if its only way leads to a return.
    fn follow(&mut self, ordinal: usize, arguments: &[RegisterValue], depth: usize) -> Option<Vec<RegisterValue>> {
        let functions = self.functions;
        let function = functions.get(ordinal)?;
        let decoded = function.decoded();
        let mut frame = Frame::default();
        enter(&mut frame, function.convention(), arguments)?;
        let mut seen = BTreeSet::new();
        let mut block = BlockId(0);
        loop {
            // A way that comes back says nothing new, and may never end.
            if !seen.insert(block) {
                return None;
            }
            let ops = decoded.blocks.get(block.index())?.ops.clone();
            let mut next = None;
            for op in decoded.ops.get(ops.start as usize..ops.end as usize)? {
                self.ops = self.ops.checked_sub(1)?;
                match *op {
                    Op::ConstI32Zero { result } => frame.set(of_reg(result), RegisterValue::Word(0)),
                    Op::ConstI32 { value, result } => frame.set(of_reg(result), RegisterValue::Word(value as u32)),
                    Op::ConstI64Zero { result } => frame.set_wide(result, 0),
                    Op::ConstI64 { value, result } => frame.set_wide(result, value as u64),
                    Op::ConstRefRodata { rodata, result } => {
                        frame.refs.insert(result.index(), RegisterValue::Rodata(rodata));
                    }
                    Op::Call { call } | Op::CallVariadic { call } => {
                        self.call(decoded, call, &mut frame, depth);
                    }
                    Op::CallYieldable { call } | Op::CallVariadicYieldable { call } => {
                        self.call(decoded, call, &mut frame, depth);
                        next = decoded.call(call).resume;
                    }
                    Op::Br { target } => {
                        let edge = decoded.edge(target);
                        for remap in decoded.remaps(edge) {
                            let known = frame.get(remap.source);
                            frame.move_out(&[remap.source]);
                            frame.set(remap.target, known);
                        }
                        next = Some(edge.target);
                    }
                    Op::Return { operands } => {
                        return Some(decoded.list(operands).iter().map(|reg| frame.get(*reg)).collect());
                    }
                    Op::DiscardRefs { refs } => {
                        for reg in decoded.list(refs) {
                            frame.refs.remove(&reg.ref_reg().index());
                        }
                    }
                    other => {
                        let mut effects = Effects { decoded, frame: &mut frame };
                        // The visitor has no errors.
                        let _ = visit_operands(other, &mut effects);
                    }
                }
            }
            block = next?;
        }
    }

    fn call(&mut self, decoded: &Decoded, call: CallId, frame: &mut Frame, depth: usize) {
        let site = decoded.call(call);
        let operands = decoded.list(site.operands);
        let results = decoded.list(site.results);
        let mut known = None;
        let mut wide_results = Vec::new();
        match site.callee {
            Callee::Function(function) => {
                if let Some(callee) = self.functions.get(function.index()) {
                    wide_results = callee.convention().results.to_vec();
                    if depth < MAX_DEPTH && site.segments.is_none() {
                        let arguments = operands.iter().map(|reg| frame.get(*reg)).collect::<Vec<_>>();
                        known = self.follow(function.index(), &arguments, depth + 1);
                    }
                }
            }
            Callee::Import(import) => match self.imports.get(import.index()) {
                Some(Check::Assert) => self.assert(operands, frame),
                Some(Check::Create) => known = self.create(operands, frame).map(|tensor| vec![tensor]),
                _ => {}
            },
        }
        frame.move_out(operands);
        for (index, reg) in results.iter().enumerate() {
            let known = known.as_ref().and_then(|known| known.get(index)).copied();
            match known.filter(|_| reg.is_ref()) {
                Some(known) => frame.set(*reg, known),
                // The kinds of results of imports are in their conventions; two slots are forgotten for each.
                None if reg.is_ref() => frame.set(*reg, RegisterValue::Nothing),
                None => {
                    let kind = wide_results.get(index).copied().unwrap_or(Kind::I64);
                    frame.forget(reg.reg(), kind);
                }
            }
        }
    }

    /// `buffer_view.assert(view, message, element type, encoding, sizes...)`
    fn assert(&mut self, operands: &[AnyReg], frame: &Frame) {
        let [view, message, element_type, _, sizes @ ..] = operands else { return };
        let (RegisterValue::Argument(index), Some(element_type)) = (frame.get(*view), frame.word(*element_type)) else {
            return;
        };
        if !view.is_ref() || self.asserted.contains_key(&index) || self.pay_for(sizes).is_none() {
            return;
        }
        let name = match frame.get(*message) {
            RegisterValue::Rodata(rodata) => self.name(rodata),
            _ => None,
        };
        let shape = sizes.iter().map(|size| frame.wide(*size)).collect();
        self.asserted.insert(index, CheckedTensor { name, element_type, shape });
    }

    /// Counts sizes that are kept like ops, so that memory is bounded as well. None for a tensor of too many
    /// dimensions.
    fn pay_for(&mut self, sizes: &[AnyReg]) -> Option<()> {
        self.ops = self.ops.checked_sub(sizes.len()).filter(|_| sizes.len() <= MAX_RANK)?;
        Some(())
    }

    /// `buffer_view.create(buffer, offset, length, element type, encoding, sizes...)`
    fn create(&mut self, operands: &[AnyReg], frame: &Frame) -> Option<RegisterValue> {
        let [_, _, _, element_type, _, sizes @ ..] = operands else { return None };
        let element_type = frame.word(*element_type)?;
        self.pay_for(sizes)?;
        let shape = sizes.iter().map(|size| frame.wide(*size)).collect();
        self.created.push(CheckedTensor { name: None, element_type, shape });
        Some(RegisterValue::Created(self.created.len() - 1))
    }

    /// The text of a segment, if it can be a name.
    fn name(&mut self, rodata: RodataId) -> Option<String> {
        // The table is walked up to the segment.
        self.ops = self.ops.checked_sub(rodata.index())?;
        let range = self.archive.rodata().nth(rodata.index())?.range;
        let bytes = self.archive.bytes().get(range).filter(|bytes| bytes.len() <= MAX_NAME)?;
        let text = std::str::from_utf8(bytes).ok()?;
        let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (is_name && text != UNNAMED).then(|| text.to_string())
    }
}

/// A slot as a register of either bank.
fn of_reg(reg: Reg) -> AnyReg {
    AnyReg::from_bits(reg.0)
}

/// Puts the arguments of a function into its registers: references and numbers are counted apart, and 64-bit numbers
/// take an even pair.
fn enter(frame: &mut Frame, convention: &Convention, arguments: &[RegisterValue]) -> Option<()> {
    let kinds = convention.fixed_args()?;
    if kinds.len() != arguments.len() {
        return None;
    }
    // Numbers of the caller are not followed: what is checked are references.
    let refs = kinds.iter().zip(arguments).filter(|(kind, _)| **kind == Kind::Ref);
    for (position, (_, known)) in refs.enumerate() {
        if *known != RegisterValue::Nothing {
            frame.refs.insert(position, *known);
        }
    }
    Some(())
}

/// Effects of an op on the registers: reads may move references out, and whatever is written is no longer known.
struct Effects<'a> {
    decoded: &'a Decoded,
    frame: &'a mut Frame,
}

impl OperandVisitor for Effects<'_> {
    type Error = std::convert::Infallible;

    fn read(&mut self, _reg: Reg, _kind: Kind) -> Result<(), Self::Error> {
        Ok(())
    }

    fn write(&mut self, reg: Reg, kind: Kind) -> Result<(), Self::Error> {
        self.frame.forget(reg, kind);
        Ok(())
    }

    fn read_ref(&mut self, reg: RefReg, _movable: bool) -> Result<(), Self::Error> {
        if reg.is_move() {
            self.frame.refs.remove(&reg.index());
        }
        Ok(())
    }

    fn write_ref(&mut self, reg: RefReg) -> Result<(), Self::Error> {
        self.frame.refs.remove(&reg.index());
        Ok(())
    }

    fn read_list(&mut self, list: ListId, _kind: Kind, _movable: bool) -> Result<(), Self::Error> {
        self.read_any(list)
    }

    fn read_any(&mut self, list: ListId) -> Result<(), Self::Error> {
        self.frame.move_out(self.decoded.list(list));
        Ok(())
    }

    fn return_values(&mut self, list: ListId) -> Result<(), Self::Error> {
        self.read_any(list)
    }

    fn edge(&mut self, _edge: EdgeId) -> Result<(), Self::Error> {
        Ok(())
    }

    fn target(&mut self, _block: BlockId) -> Result<(), Self::Error> {
        Ok(())
    }

    fn cases(&mut self, _cases: CasesId) -> Result<(), Self::Error> {
        Ok(())
    }

    fn call(&mut self, _call: CallId, _form: CallForm) -> Result<(), Self::Error> {
        Ok(())
    }
}
