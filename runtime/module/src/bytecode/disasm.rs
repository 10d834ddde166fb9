//! The disassembler: prints decoded functions in the VM assembly of the reference runtime. The assembler's printer,
//! traces, tests and tools call it.
//!
//! The form of each op is generated from `spec/isa/vm`; this file prints operands. Names come from the module through
//! [`Names`]; where it has none, ordinals are printed.

use std::fmt::Write as _;

use super::decoded::{Callee, Decoded};
use super::operands::{
    AnyReg, BlockId, CallId, CasesId, EdgeId, F32Bits, F64Bits, FunctionId, GlobalOffset, GlobalRef, ImportId, ListId,
    RefReg, Reg, RodataId, StringId, TypeId,
};
use crate::generated::vm::disasm;
use crate::number_text::general;

/// Bits of floats: the sign, and the quiet NaN that is printed as `nan`.
const SIGN_F32: u32 = 1 << 31;
const QUIET_F32: u32 = 0x7FC0_0000;
const SIGN_F64: u64 = 1 << 63;
const QUIET_F64: u64 = 0x7FF8_0000_0000_0000;

/// The names in a module of what ops refer to by ordinal. Missing entries are printed as ordinals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// The module's own name: functions without a name are called `@module:3`.
    pub module: &'a str,
    /// Full names of types, such as `!vm.buffer`.
    pub types: &'a [String],
    /// Full names of imports.
    pub imports: &'a [String],
    /// Names of functions; empty where there is none.
    pub functions: &'a [String],
    /// Sizes of rodata segments in bytes.
    pub rodata: &'a [usize],
}

/// The registers of a frame, for the text of an op that is about to be executed.
pub trait RegisterValues {
    /// The 32 bits in a register.
    fn word(&self, reg: Reg) -> u32;

    /// The 64 bits in a pair of registers.
    fn wide(&self, reg: Reg) -> u64;

    /// The name of the type of the object that a register refers to; none if it is null.
    fn object_type(&self, reg: RefReg) -> Option<&str>;
}

/// The text being written, and the tables that operands refer to. What the printers of all ops call is not inlined:
/// copies in 260 of them take more room than the printers.
pub struct Printer<'a> {
    text: String,
    decoded: &'a Decoded,
    names: Names<'a>,
    /// The values that are printed in parentheses after operands, in traces.
    values: Option<&'a dyn RegisterValues>,
}

/// The blocks of a function as text: `^bb0:` lines, and ops indented by two spaces.
pub fn disassemble(decoded: &Decoded, names: Names<'_>) -> String {
    let mut printer = Printer { text: String::new(), decoded, names, values: None };
    for (index, block) in decoded.blocks.iter().enumerate() {
        printer.write(format_args!("^bb{index}:\n"));
        for op in &decoded.ops[block.ops.start as usize..block.ops.end as usize] {
            printer.text("  ");
            disasm::print_op(*op, &mut printer);
            printer.text("\n");
        }
    }
    printer.text
}

/// The text of one op; empty if the function has no op of this index.
pub fn disassemble_op(decoded: &Decoded, op: usize, names: Names<'_>) -> String {
    op_text(decoded, op, names, None)
}

/// The same with the value of each operand after it: `%i2 = vm.add.i32 %i0(5), %i1(6)`.
pub fn disassemble_op_with_values(
    decoded: &Decoded,
    op: usize,
    names: Names<'_>,
    values: &dyn RegisterValues,
) -> String {
    op_text(decoded, op, names, Some(values))
}

fn op_text<'a>(decoded: &'a Decoded, op: usize, names: Names<'a>, values: Option<&'a dyn RegisterValues>) -> String {
    let mut printer = Printer { text: String::new(), decoded, names, values };
    if let Some(op) = decoded.ops.get(op) {
        disasm::print_op(*op, &mut printer);
    }
    printer.text
}

impl Printer<'_> {
    fn write(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(arguments);
    }

    /// Text as it is.
    #[inline(never)]
    pub fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// `%i3`
    #[inline(never)]
    pub fn reg(&mut self, reg: Reg) {
        self.write(format_args!("%i{}", reg.0));
    }

    /// `%i4:5`
    #[inline(never)]
    pub fn reg_pair(&mut self, reg: Reg) {
        self.write(format_args!("%i{}:{}", reg.0, u32::from(reg.0) + 1));
    }

    /// `%r1`, or `%R1` with the MOVE bit.
    #[inline(never)]
    pub fn ref_reg(&mut self, reg: RefReg) {
        self.write(format_args!("%{}{}", if reg.is_move() { 'R' } else { 'r' }, reg.index()));
    }

    fn any_reg(&mut self, reg: AnyReg) {
        if reg.is_ref() { self.ref_reg(reg.ref_reg()) } else { self.reg(reg.reg()) }
    }

    /// `%i3`, or `%i3(5)` with values.
    #[inline(never)]
    pub fn operand_i32(&mut self, reg: Reg) {
        self.reg(reg);
        if let Some(values) = self.values {
            self.write(format_args!("({})", values.word(reg) as i32));
        }
    }

    /// `%i4:5`, or `%i4:5(6)` with values.
    #[inline(never)]
    pub fn operand_i64(&mut self, reg: Reg) {
        self.reg_pair(reg);
        if let Some(values) = self.values {
            self.write(format_args!("({})", values.wide(reg) as i64));
        }
    }

    /// `%i3`, or `%i3(0.500000)` with values.
    #[inline(never)]
    pub fn operand_f32(&mut self, reg: Reg) {
        self.reg(reg);
        if let Some(values) = self.values {
            self.float(f64::from(f32::from_bits(values.word(reg))));
        }
    }

    /// `%i4:5`, or `%i4:5(0.500000)` with values.
    #[inline(never)]
    pub fn operand_f64(&mut self, reg: Reg) {
        self.reg_pair(reg);
        if let Some(values) = self.values {
            self.float(f64::from_bits(values.wide(reg)));
        }
    }

    /// `%r1`, or `%r1(!vm.buffer)` or `%r1(null)` with values.
    #[inline(never)]
    pub fn operand_ref(&mut self, reg: RefReg) {
        self.ref_reg(reg);
        match self.values.map(|values| values.object_type(reg)) {
            Some(Some(name)) => self.write(format_args!("(!{name})")),
            Some(None) => self.text("(null)"),
            None => {}
        }
    }

    /// A register with a value of unknown kind: 32 bits are printed as an unsigned number.
    fn operand(&mut self, reg: AnyReg) {
        if reg.is_ref() {
            return self.operand_ref(reg.ref_reg());
        }
        self.reg(reg.reg());
        if let Some(values) = self.values {
            self.write(format_args!("({})", values.word(reg.reg())));
        }
    }

    /// As `%f` of C writes it.
    fn float(&mut self, value: f64) {
        match value.is_nan() {
            true => self.text(if value.is_sign_negative() { "(-nan)" } else { "(nan)" }),
            false => self.write(format_args!("({value:.6})")),
        }
    }

    /// The value, and its bits as a comment.
    pub fn imm_i32(&mut self, value: i32) {
        self.write(format_args!("{value}  // {value:#010X}"));
    }

    /// The value, and its bits as a comment.
    pub fn imm_i64(&mut self, value: i64) {
        self.write(format_args!("{value}  // {value:#018X}"));
    }

    /// Nine significant digits, which name every `f32`.
    pub fn imm_f32(&mut self, value: F32Bits) {
        match value.value() {
            // Other NaNs would lose their payload.
            nan if nan.is_nan() && value.0 & !SIGN_F32 != QUIET_F32 => {
                self.write(format_args!("f32:{:#010x}", value.0))
            }
            number => self.text(&general(f64::from(number), 9)),
        }
    }

    /// Seventeen significant digits, which name every `f64`.
    pub fn imm_f64(&mut self, value: F64Bits) {
        match value.value() {
            nan if nan.is_nan() && value.0 & !SIGN_F64 != QUIET_F64 => {
                self.write(format_args!("f64:{:#018x}", value.0))
            }
            number => self.text(&general(number, 17)),
        }
    }

    /// The byte offset of a global.
    pub fn global(&mut self, offset: GlobalOffset) {
        self.write(format_args!("{}", offset.0));
    }

    /// The ordinal of a ref global.
    pub fn global_ref(&mut self, global: GlobalRef) {
        self.write(format_args!("{}", global.0));
    }

    /// `!hal.device`
    pub fn type_id(&mut self, ty: TypeId) {
        match self.names.types.get(ty.index()) {
            Some(name) => self.text(name),
            None => self.write(format_args!("type {}", ty.0)),
        }
    }

    /// The ordinal of a rodata segment, and its size as a comment.
    pub fn rodata(&mut self, rodata: RodataId) {
        self.write(format_args!("{}", rodata.0));
        if let Some(size) = self.names.rodata.get(rodata.index()) {
            self.write(format_args!("  // {size}b"));
        }
    }

    /// `@hal.fence.create`
    pub fn import(&mut self, import: ImportId) {
        match self.names.imports.get(import.index()) {
            Some(name) => self.write(format_args!("@{name}")),
            None => self.write(format_args!("@import:{}", import.0)),
        }
    }

    fn function(&mut self, function: FunctionId) {
        let Names { module, functions, .. } = self.names;
        match functions.get(function.index()).filter(|name| !name.is_empty()) {
            Some(name) => self.write(format_args!("@{name}")),
            None => self.write(format_args!("@{module}:{}", function.0)),
        }
    }

    /// A string in quotes; characters that are not printable and bytes that are not UTF-8 are escaped.
    pub fn string(&mut self, string: StringId) {
        self.text("\"");
        for chunk in self.decoded.string(string).utf8_chunks() {
            self.write(format_args!("{}", chunk.valid().escape_debug()));
            chunk.invalid().iter().for_each(|byte| self.write(format_args!("\\x{byte:02x}")));
        }
        self.text("\"");
    }

    /// `^bb2`
    pub fn target(&mut self, block: BlockId) {
        self.write(format_args!("^bb{}", block.0));
    }

    /// `^bb2(%i0->%i1)`
    #[inline(never)]
    pub fn edge(&mut self, edge: EdgeId) {
        let decoded = self.decoded;
        let edge = decoded.edge(edge);
        self.target(edge.target);
        self.text("(");
        for (index, remap) in decoded.remaps(edge).iter().enumerate() {
            self.separator(index);
            self.operand(remap.source);
            self.text("->");
            self.any_reg(remap.target);
        }
        self.text(")");
    }

    /// `, 0: ^bb1(), 1: ^bb2()`
    pub fn cases(&mut self, cases: CasesId) {
        for (index, edge) in self.decoded.case_edges(cases).enumerate() {
            self.write(format_args!(", {index}: "));
            self.edge(edge);
        }
    }

    /// `%i0, %r1`, operands.
    #[inline(never)]
    pub fn list(&mut self, list: ListId) {
        let decoded = self.decoded;
        for (index, register) in decoded.list(list).iter().enumerate() {
            self.separator(index);
            self.operand(*register);
        }
    }

    /// `%i0, %r1`, results.
    fn results(&mut self, list: ListId) {
        let decoded = self.decoded;
        for (index, register) in decoded.list(list).iter().enumerate() {
            self.separator(index);
            self.any_reg(*register);
        }
    }

    /// A space and a list, or nothing.
    pub fn trailing_list(&mut self, list: ListId) {
        if !self.decoded.list(list).is_empty() {
            self.text(" ");
            self.list(list);
        }
    }

    /// `, %i0, %r1` after other operands, or nothing.
    pub fn more(&mut self, list: ListId) {
        if !self.decoded.list(list).is_empty() {
            self.text(", ");
            self.list(list);
        }
    }

    fn separator(&mut self, index: usize) {
        if index > 0 {
            self.text(", ");
        }
    }

    /// `%r0 = vm.call @callee(%i0)`, with `segments[...]` and with ` -> ^bb1(%r0)` where the form has them.
    pub fn call(&mut self, mnemonic: &str, call: CallId) {
        let decoded = self.decoded;
        let site = decoded.call(call);
        if site.resume.is_none() && !decoded.list(site.results).is_empty() {
            self.results(site.results);
            self.text(" = ");
        }
        self.text(mnemonic);
        self.text(" ");
        match site.callee {
            Callee::Import(id) => self.import(id),
            Callee::Function(id) => self.function(id),
        }
        if let Some(segments) = site.segments {
            let sizes: Vec<String> = decoded.segments(segments).iter().map(ToString::to_string).collect();
            self.write(format_args!(" segments[{}]", sizes.join(", ")));
        }
        self.text("(");
        self.list(site.operands);
        self.text(")");
        if let Some(block) = site.resume {
            self.text(" -> ");
            self.target(block);
            self.text("(");
            self.results(site.results);
            self.text(")");
        }
    }
}
