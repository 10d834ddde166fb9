//! [`CodeWriter`]: encodes the ops of one function. The module parser makes one for each function, and the generated
//! parsers of ops write fields through it.

use std::collections::HashMap;

use super::error::{AsmError, Location};
use super::operands::{Edge, Global, Label, TypeName};
use super::parsed_module::{Fixup, FixupKind, ParsedModule};
use super::register::Register;
use super::statement::Symbol;
use crate::bytecode::opcode;

/// Writes the ops of a function. What the parsers of all ops call is not inlined, like the methods of
/// [`Statement`](super::Statement).
pub struct CodeWriter<'m, 't> {
    module: &'m mut ParsedModule<'t>,
    /// Ordinal of the function.
    function: usize,
    /// The statement that is being written.
    pub(super) location: Location,
    bytes: Vec<u8>,
    pub(super) slots: u32,
    pub(super) refs: u32,
    pub(super) features: u32,
    blocks: u32,
    labels: HashMap<&'t str, u32>,
    /// Branch targets to write once all labels are known.
    targets: Vec<(usize, Label<'t>)>,
}

/// The encoded function.
pub(super) struct FinishedCode {
    pub bytes: Vec<u8>,
    pub slots: u32,
    pub refs: u32,
    pub features: u32,
    pub blocks: u32,
}

impl<'m, 't> CodeWriter<'m, 't> {
    /// A writer that has written the marker of the entry block.
    pub(super) fn new(module: &'m mut ParsedModule<'t>, function: usize, location: Location) -> Self {
        CodeWriter {
            module,
            function,
            location,
            bytes: vec![opcode::core::BLOCK],
            slots: 0,
            refs: 0,
            features: 0,
            blocks: 1,
            labels: HashMap::new(),
            targets: Vec::new(),
        }
    }

    fn error(&self, message: impl Into<String>) -> AsmError {
        AsmError { location: self.location, message: message.into() }
    }

    /// Starts the block `label`. The marker of the first block has been written already.
    pub(super) fn block(&mut self, label: &Label<'t>) -> Result<(), AsmError> {
        let is_entry = self.labels.is_empty() && self.bytes.len() == 1;
        if !is_entry {
            self.bytes.push(opcode::core::BLOCK);
            self.blocks += 1;
        }
        let start = self.offset()? - 1;
        match self.labels.insert(label.name, start) {
            None => Ok(()),
            Some(_) => {
                Err(AsmError { location: label.location, message: format!("the block ^{} is there twice", label.name) })
            }
        }
    }

    /// Writes the branch targets.
    pub(super) fn finish(mut self) -> Result<FinishedCode, AsmError> {
        for (position, label) in &self.targets {
            let Some(start) = self.labels.get(label.name) else {
                return Err(AsmError {
                    location: label.location,
                    message: format!("expected a block of the function, found ^{}", label.name),
                });
            };
            self.bytes[*position..*position + 4].copy_from_slice(&start.to_le_bytes());
        }
        let CodeWriter { bytes, slots, refs, features, blocks, .. } = self;
        Ok(FinishedCode { bytes, slots, refs, features, blocks })
    }

    fn offset(&self) -> Result<u32, AsmError> {
        u32::try_from(self.bytes.len()).map_err(|_| self.error("the function is longer than 4 GiB"))
    }

    fn u16(&mut self, value: u16) {
        self.bytes.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// Padding to an even offset, and a count.
    fn count(&mut self, count: usize) -> Result<(), AsmError> {
        if !self.bytes.len().is_multiple_of(2) {
            self.bytes.push(0);
        }
        self.length(count)
    }

    fn length(&mut self, length: usize) -> Result<(), AsmError> {
        let length =
            u16::try_from(length).map_err(|_| self.error(format!("expected at most 65535, found {length}")))?;
        self.u16(length);
        Ok(())
    }

    /// An opcode with the prefix of its set, and the features of the set.
    #[inline(never)]
    pub fn opcode(&mut self, bytes: &[u8], features: u32) {
        self.bytes.extend_from_slice(bytes);
        self.features |= features;
    }

    /// Extends the frame to hold a register.
    pub(super) fn reserve(&mut self, register: Register) {
        let end = register.index() + u32::from(register.slots);
        let bank = if register.is_ref() { &mut self.refs } else { &mut self.slots };
        *bank = (*bank).max(end);
    }

    /// A register.
    #[inline(never)]
    pub fn reg(&mut self, register: Register) {
        self.reserve(register);
        self.u16(register.bits);
    }

    /// A register list.
    #[inline(never)]
    pub fn list(&mut self, registers: &[Register]) -> Result<(), AsmError> {
        self.count(registers.len())?;
        registers.iter().for_each(|register| self.reg(*register));
        Ok(())
    }

    /// The segment sizes of a variadic call.
    pub fn segments(&mut self, segments: &[u16]) -> Result<(), AsmError> {
        self.count(segments.len())?;
        segments.iter().for_each(|segment| self.u16(*segment));
        Ok(())
    }

    /// An immediate.
    #[inline(never)]
    pub fn imm_i32(&mut self, value: i32) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// An immediate.
    #[inline(never)]
    pub fn imm_i64(&mut self, value: i64) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// The bits of an immediate.
    pub fn imm_f32(&mut self, bits: u32) {
        self.u32(bits);
    }

    /// The bits of an immediate.
    pub fn imm_f64(&mut self, bits: u64) {
        self.bytes.extend(bits.to_le_bytes());
    }

    fn add_fixup(&mut self, kind: FixupKind, symbol: Symbol<'t>) {
        let fixup = Fixup { function: self.function, offset: self.bytes.len(), kind, symbol };
        self.module.fixups.push(fixup);
        self.u32(0);
    }

    /// A value global of `width` bytes.
    #[inline(never)]
    pub fn global(&mut self, global: Global<'t>, width: u32) -> Result<(), AsmError> {
        match global {
            Global::Name(symbol) => self.add_fixup(FixupKind::Global { width }, symbol),
            Global::Number(offset, location) => {
                self.module.need_globals(u64::from(offset) + u64::from(width), 0, location)?;
                self.u32(offset);
            }
        }
        Ok(())
    }

    /// A ref global.
    pub fn global_ref(&mut self, global: Global<'t>) -> Result<(), AsmError> {
        match global {
            Global::Name(symbol) => self.add_fixup(FixupKind::Global { width: 0 }, symbol),
            Global::Number(ordinal, location) => {
                self.module.need_globals(0, u64::from(ordinal) + 1, location)?;
                self.u32(ordinal);
            }
        }
        Ok(())
    }

    /// A type, which is added to the type table if it is not there.
    #[inline(never)]
    pub fn type_name(&mut self, name: TypeName<'t>) -> Result<(), AsmError> {
        let ordinal = match name {
            TypeName::Ordinal(ordinal) => ordinal,
            TypeName::Name(name) => self.module.type_ordinal(name),
        };
        self.u32(ordinal);
        Ok(())
    }

    /// A rodata segment.
    pub fn rodata(&mut self, ordinal: u32) {
        self.u32(ordinal);
    }

    /// An import.
    pub fn import(&mut self, symbol: Symbol<'t>) -> Result<(), AsmError> {
        self.add_fixup(FixupKind::Import, symbol);
        Ok(())
    }

    /// A function or an import.
    pub fn function(&mut self, symbol: Symbol<'t>) -> Result<(), AsmError> {
        self.add_fixup(FixupKind::Function, symbol);
        Ok(())
    }

    /// A string.
    pub fn string(&mut self, bytes: &[u8]) -> Result<(), AsmError> {
        self.length(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// A branch target without remap pairs.
    #[inline(never)]
    pub fn target(&mut self, label: Label<'t>) {
        self.targets.push((self.bytes.len(), label));
        self.u32(0);
    }

    /// The block that a call goes on at.
    pub fn resume(&mut self, label: Option<Label<'t>>) {
        // The grammar of a yieldable call requires a label.
        if let Some(label) = label {
            self.target(label);
        }
    }

    /// A branch target with remap pairs.
    #[inline(never)]
    pub fn edge(&mut self, edge: &Edge<'t>) -> Result<(), AsmError> {
        self.target(edge.target.clone());
        self.count(edge.remap.len())?;
        for (from, to) in &edge.remap {
            self.reg(*from);
            self.reg(*to);
        }
        Ok(())
    }

    /// A branch table.
    pub fn cases(&mut self, cases: &[Edge<'t>]) -> Result<(), AsmError> {
        self.length(cases.len())?;
        cases.iter().try_for_each(|edge| self.edge(edge))
    }
}
