//! The reader: decodes the fields of ops from the bytes of a function into [`Decoded`]. The generated decoder calls its
//! methods, and the verifier calls [`decode`].
//!
//! Nothing is allocated for a count before the bytes of its items are known to be there, so memory stays proportional
//! to the size of the stream. Where the version of the bytecode ignores MOVE bits, they are dropped here, so nothing
//! after the reader knows of versions. Register banks are checked here, because [`Reg`] and [`RefReg`] cannot express a
//! register of the other bank; all other rules are the verifier's.

use super::decoded::{Block, CallSite, Callee, Decoded, Edge, Remap};
use super::error::VerifyError;
use super::function_info::FunctionInfo;
use super::operands::{
    AnyReg, BlockId, CallId, CasesId, EdgeId, F32Bits, F64Bits, FunctionId, GlobalOffset, GlobalRef, ImportId, ListId,
    RefReg, Reg, RodataId, SegmentsId, StringId, TypeId,
};
use crate::generated::vm::decode;
use crate::generated::vm::opcode::{self, BytecodeVersion, IMPORT_BIT, MOVE_BIT, REF_BIT};

/// A cursor over the bytes of one function, and the tables it fills.
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Offset of the current op.
    start: usize,
    function: u32,
    features: u32,
    version: &'static BytecodeVersion,
    decoded: Decoded,
    /// Offsets of the ops that branch targets are operands of, for errors: by edge, and by call.
    edge_ops: Vec<u32>,
    call_ops: Vec<u32>,
}

/// Decodes all ops of a function. Block targets are resolved; nothing else is checked beyond what reading needs.
pub(super) fn decode(bytes: &[u8], function: &FunctionInfo<'_>) -> Result<Decoded, VerifyError> {
    let mut reader = Reader {
        bytes,
        position: 0,
        start: 0,
        function: function.ordinal,
        features: function.features,
        version: function.rules.version,
        decoded: Decoded::default(),
        edge_ops: Vec::new(),
        call_ops: Vec::new(),
    };
    if u32::try_from(bytes.len()).is_err() {
        return Err(reader.error("the function is longer than 4 GiB"));
    }
    while reader.position < bytes.len() {
        reader.block()?;
    }
    if reader.decoded.blocks.is_empty() {
        return Err(reader.error("the function has no block"));
    }
    reader.resolve()?;
    Ok(reader.decoded)
}

impl Reader<'_> {
    /// An error at the current op.
    pub fn error(&self, message: impl Into<String>) -> VerifyError {
        VerifyError { function: self.function, offset: narrow(self.start), message: message.into() }
    }

    /// An error at the current op: its opcode does not exist.
    pub fn unknown_opcode(&self, set: &str, opcode: u8) -> VerifyError {
        self.error(format!("{opcode:#04x} is not an opcode of the set {set}"))
    }

    /// Reads one opcode.
    pub fn opcode(&mut self) -> Result<u8, VerifyError> {
        self.take::<1>().map(|[byte]| byte)
    }

    /// Requires that the function declares the features of an opcode set.
    pub fn require_features(&self, set: &str, features: u32) -> Result<(), VerifyError> {
        if self.features & features == features {
            return Ok(());
        }
        Err(self.error(format!(
            "the opcode set {set} needs the feature bits {features:#x}, the function declares {:#x}",
            self.features
        )))
    }

    /// Requires that the version of the bytecode has an op.
    pub fn require_version(&self, op: &str, since: u16) -> Result<(), VerifyError> {
        let BytecodeVersion { major, minor, .. } = self.version;
        if *major >= since {
            return Ok(());
        }
        Err(self.error(format!("{op} is an op since bytecode {since}.0, the module has bytecode {major}.{minor}")))
    }

    /// A register as the rest of the crate sees it: without the MOVE bit of a reference where the version ignores it.
    fn register_bits(&self, bits: u16) -> u16 {
        if bits & REF_BIT != 0 && !self.version.moves { bits & !MOVE_BIT } else { bits }
    }

    /// A block: its marker, and ops up to the first terminator.
    fn block(&mut self) -> Result<(), VerifyError> {
        self.start = self.position;
        let marker = self.opcode()?;
        if marker != opcode::core::BLOCK {
            return Err(self.error(format!("expected a block marker, found opcode {marker:#04x}")));
        }
        let offset = narrow(self.start);
        let first = narrow(self.decoded.ops.len());
        loop {
            self.start = self.position;
            if self.position == self.bytes.len() {
                return Err(self.error("the last block does not end in a terminator"));
            }
            let op = decode::decode_op(self)?;
            self.decoded.ops.push(op);
            self.decoded.offsets.push(narrow(self.start));
            if op.is_terminator() {
                break;
            }
        }
        let ops = first..narrow(self.decoded.ops.len());
        self.decoded.blocks.push(Block { offset, ops });
        Ok(())
    }

    /// Replaces branch targets, which so far are byte offsets, by blocks.
    fn resolve(&mut self) -> Result<(), VerifyError> {
        let Decoded { blocks, edges, calls, .. } = &mut self.decoded;
        let edge_targets = edges.iter_mut().map(|edge| Some(&mut edge.target)).zip(&self.edge_ops);
        let call_targets = calls.iter_mut().map(|call| call.resume.as_mut()).zip(&self.call_ops);
        let mut unknown: Option<(u32, u32)> = None;
        for (target, op) in edge_targets.chain(call_targets) {
            let Some(target) = target else { continue };
            match blocks.binary_search_by_key(&target.0, |block| block.offset) {
                Ok(block) => *target = BlockId(narrow(block)),
                Err(_) => unknown = Some(unknown.unwrap_or((*op, target.0)).min((*op, target.0))),
            }
        }
        for edge in edges {
            edge.entry = blocks.get(edge.target.index()).map_or(0, |block| block.ops.start);
        }
        let Some((op, offset)) = unknown else { return Ok(()) };
        self.start = op as usize;
        Err(self.error(format!("the branch target {offset:#06x} is not a block marker")))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], VerifyError> {
        let bytes = self.bytes.get(self.position..).and_then(|rest| rest.first_chunk::<N>());
        let bytes = *bytes.ok_or_else(|| self.error("the stream ends within the op"))?;
        self.position += N;
        Ok(bytes)
    }

    fn u16(&mut self) -> Result<u16, VerifyError> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, VerifyError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, VerifyError> {
        self.take().map(u64::from_le_bytes)
    }

    /// Skips to the next even offset from the start of the function.
    fn pad(&mut self) -> Result<(), VerifyError> {
        if !self.position.is_multiple_of(2) {
            self.take::<1>()?;
        }
        Ok(())
    }

    /// Reads a count of items of `size` bytes, and checks that the stream has that many.
    fn count(&mut self, size: usize) -> Result<usize, VerifyError> {
        let count = usize::from(self.u16()?);
        let left = self.bytes.len() - self.position;
        if count * size > left {
            return Err(self.error(format!("a list of {count} items needs {} bytes, {left} are left", count * size)));
        }
        Ok(count)
    }

    /// A slot of the value bank.
    pub fn reg(&mut self) -> Result<Reg, VerifyError> {
        let bits = self.u16()?;
        if bits & REF_BIT != 0 {
            return Err(self.error(format!("expected a value register, found reference register {bits:#06x}")));
        }
        Ok(Reg(bits))
    }

    /// A register of references.
    pub fn ref_reg(&mut self) -> Result<RefReg, VerifyError> {
        let bits = self.u16()?;
        if bits & REF_BIT == 0 {
            return Err(self.error(format!("expected a reference register, found value register {bits}")));
        }
        let bits = self.register_bits(bits);
        Ok(RefReg::new(bits & !(REF_BIT | MOVE_BIT), bits & MOVE_BIT != 0))
    }

    /// A register of either bank.
    fn any_reg(&mut self) -> Result<AnyReg, VerifyError> {
        let bits = self.u16()?;
        Ok(AnyReg(self.register_bits(bits)))
    }

    /// A 32-bit integer immediate.
    pub fn imm_i32(&mut self) -> Result<i32, VerifyError> {
        self.u32().map(u32::cast_signed)
    }

    /// A 64-bit integer immediate.
    pub fn imm_i64(&mut self) -> Result<i64, VerifyError> {
        self.u64().map(u64::cast_signed)
    }

    /// An `f32` immediate.
    pub fn imm_f32(&mut self) -> Result<F32Bits, VerifyError> {
        self.u32().map(F32Bits)
    }

    /// An `f64` immediate.
    pub fn imm_f64(&mut self) -> Result<F64Bits, VerifyError> {
        self.u64().map(F64Bits)
    }

    /// A byte offset into value globals.
    pub fn global(&mut self) -> Result<GlobalOffset, VerifyError> {
        self.u32().map(GlobalOffset)
    }

    /// A ref global.
    pub fn global_ref(&mut self) -> Result<GlobalRef, VerifyError> {
        self.u32().map(GlobalRef)
    }

    /// An entry of the type table.
    pub fn type_id(&mut self) -> Result<TypeId, VerifyError> {
        self.u32().map(TypeId)
    }

    /// A rodata segment.
    pub fn rodata(&mut self) -> Result<RodataId, VerifyError> {
        self.u32().map(RodataId)
    }

    /// A function or import, distinguished by a bit.
    pub fn function(&mut self) -> Result<Callee, VerifyError> {
        let bits = self.u32()?;
        Ok(match bits & IMPORT_BIT {
            0 => Callee::Function(FunctionId(bits)),
            _ => Callee::Import(ImportId(bits & !IMPORT_BIT)),
        })
    }

    /// An import, with or without the bit that marks one.
    pub fn import(&mut self) -> Result<ImportId, VerifyError> {
        self.u32().map(|bits| ImportId(bits & !IMPORT_BIT))
    }

    /// A string.
    pub fn string(&mut self) -> Result<StringId, VerifyError> {
        let count = self.count(1)?;
        let start = narrow(self.decoded.text.len());
        self.decoded.text.extend_from_slice(&self.bytes[self.position..self.position + count]);
        self.position += count;
        self.decoded.strings.push(start..narrow(self.decoded.text.len()));
        Ok(StringId(narrow(self.decoded.strings.len() - 1)))
    }

    /// A branch target with its remap pairs.
    pub fn edge(&mut self) -> Result<EdgeId, VerifyError> {
        let target = self.target()?;
        self.pad()?;
        let count = self.count(4)?;
        let start = narrow(self.decoded.remaps.len());
        for _ in 0..count {
            let (source, target) = (self.any_reg()?, self.any_reg()?);
            self.decoded.remaps.push(Remap { source, target });
        }
        let remap = start..narrow(self.decoded.remaps.len());
        self.decoded.edges.push(Edge { target, entry: 0, remap });
        self.edge_ops.push(narrow(self.start));
        Ok(EdgeId(narrow(self.decoded.edges.len() - 1)))
    }

    /// A branch target without remap pairs: a byte offset until all blocks are known.
    pub fn target(&mut self) -> Result<BlockId, VerifyError> {
        self.u32().map(BlockId)
    }

    /// A register list.
    pub fn list(&mut self) -> Result<ListId, VerifyError> {
        self.pad()?;
        let count = self.count(2)?;
        let start = narrow(self.decoded.registers.len());
        for _ in 0..count {
            let register = self.any_reg()?;
            self.decoded.registers.push(register);
        }
        self.decoded.lists.push(start..narrow(self.decoded.registers.len()));
        Ok(ListId(narrow(self.decoded.lists.len() - 1)))
    }

    /// The segment sizes of a variadic call.
    pub fn segments(&mut self) -> Result<SegmentsId, VerifyError> {
        self.pad()?;
        let count = self.count(2)?;
        let start = narrow(self.decoded.segment_values.len());
        for _ in 0..count {
            let size = self.u16()?;
            self.decoded.segment_values.push(size);
        }
        self.decoded.segments.push(start..narrow(self.decoded.segment_values.len()));
        Ok(SegmentsId(narrow(self.decoded.segments.len() - 1)))
    }

    /// A branch table.
    pub fn cases(&mut self) -> Result<CasesId, VerifyError> {
        // The smallest case is a target and an empty remap list.
        let count = self.count(6)?;
        let start = narrow(self.decoded.edges.len());
        for _ in 0..count {
            self.edge()?;
        }
        self.decoded.cases.push(start..narrow(self.decoded.edges.len()));
        Ok(CasesId(narrow(self.decoded.cases.len() - 1)))
    }

    /// Adds a call to the side table.
    pub fn call(&mut self, site: CallSite) -> Result<CallId, VerifyError> {
        self.decoded.calls.push(site);
        self.call_ops.push(narrow(self.start));
        Ok(CallId(narrow(self.decoded.calls.len() - 1)))
    }
}

/// Offsets and counts are below the length of the function, which was found to fit.
fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
