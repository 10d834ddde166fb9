//! Listings of machine code: the JIT's code of functions next to their ops, for `vireo dump --jit`; and its graphs of
//! functions, for `--jit=graph`.

use std::collections::BTreeSet;
use std::fmt::Write;

use vireo::Result;
use vireo::asm::signature;
use vireo::bytecode::{Decoded, Names, disassemble_op};
use vireo::hal::Progress;
use vireo::interp::CompiledFunction;
use vireo::vm::Module;
use vireo::vmfb::Archive;

use crate::progress::Bar;

/// The forms in which the code of functions is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Machine code.
    Code,
    /// Graphs of the compiler.
    Graph,
}

/// Where the text beside instructions begins.
const BESIDE: usize = 56;

/// The functions with these ordinals. A terminal shows how far their compilation has come if it takes long.
pub fn functions(module: &Module, names: Names<'_>, ordinals: &[usize], form: Form) -> Result<Vec<String>> {
    let lengths: Vec<u64> =
        module.archive().into_iter().flat_map(Archive::functions).map(|f| f.code.len() as u64).collect();
    let length = |ordinal: usize| lengths.get(ordinal).copied().unwrap_or(0);
    let bar = Bar::on_terminal("compiling functions");
    if let Some(bar) = &bar {
        bar.scheduled(ordinals.iter().map(|ordinal| length(*ordinal)).sum());
    }
    let function = |ordinal: &usize| {
        let text = match form {
            Form::Code => function(module, names, *ordinal)?,
            Form::Graph => graph(module, names, *ordinal)?,
        };
        if let Some(bar) = &bar {
            bar.done(length(*ordinal));
        }
        Ok(text)
    };
    ordinals.iter().map(function).collect()
}

impl Form {
    /// The characters that begin a comment.
    pub fn comment(self) -> &'static str {
        match self {
            Form::Code => "//",
            Form::Graph => ";",
        }
    }
}

/// The graph of function `ordinal`, which the tests of the compiler can read.
fn graph(module: &Module, names: Names<'_>, ordinal: usize) -> Result<String> {
    let Some(function) = module.functions().get(ordinal) else { return Ok(String::new()) };
    let name = names.functions.get(ordinal).map_or("", String::as_str);
    let graph = module.compiler_graph(ordinal)?;
    let graph = graph.unwrap_or_else(|| "; no machine code: the interpreter executes it\n".to_string());
    Ok(format!("; vm.func @{name}{}\n{graph}", signature(function.convention())))
}

/// Function `ordinal`: under each op its instructions, with the values they make and where those are.
fn function(module: &Module, names: Names<'_>, ordinal: usize) -> Result<String> {
    let compiled = module.compiled(ordinal)?;
    let Some(function) = module.functions().get(ordinal) else { return Ok(String::new()) };
    let name = names.functions.get(ordinal).map_or("", String::as_str);
    let mut text = format!("vm.func @{name}{} {{\n", signature(function.convention()));
    match compiled {
        Some(compiled) => Listing::new(&compiled, function.decoded(), names, &mut text).write(),
        None => text.push_str("  // no machine code: the interpreter executes it\n"),
    }
    text.push_str("}\n");
    Ok(text)
}

struct Listing<'a> {
    compiled: &'a CompiledFunction,
    decoded: &'a Decoded,
    names: Names<'a>,
    text: &'a mut String,
    /// Ops that have code.
    with_code: BTreeSet<u32>,
    /// Ops that have been shown.
    shown: BTreeSet<u32>,
}

impl<'a> Listing<'a> {
    fn new(
        compiled: &'a CompiledFunction,
        decoded: &'a Decoded,
        names: Names<'a>,
        text: &'a mut String,
    ) -> Listing<'a> {
        let end = |index: usize| compiled.parts.get(index + 1).map_or(compiled.code.len(), |part| part.offset);
        let parts = compiled.parts.iter().enumerate();
        let with_code = parts.filter(|(index, part)| end(*index) > part.offset).filter_map(|(_, part)| part.op);
        Listing { compiled, decoded, names, text, with_code: with_code.collect(), shown: BTreeSet::new() }
    }

    // Writing to a string cannot fail.
    fn write(mut self) {
        let _ = writeln!(self.text, "  // {} bytes of machine code", self.compiled.code.len());
        if self.compiled.is_checked {
            self.text.push_str("  // without vectors and guards: they were not proved to cover its accesses\n");
        }
        let mut last = None;
        for (index, part) in self.compiled.parts.iter().enumerate() {
            let end = self.compiled.parts.get(index + 1).map_or(self.compiled.code.len(), |part| part.offset);
            let code = self.compiled.code.get(part.offset..end).unwrap_or_default();
            if part.begins_block {
                let _ = writeln!(self.text, "{}", part.text);
                last = None;
            }
            if code.is_empty() {
                continue;
            }
            if let Some(op) = part.op.filter(|op| last != Some(*op)) {
                self.op_with_those_before(op);
                last = Some(op);
            }
            let mut beside = if part.begins_block { "" } else { part.text.as_str() };
            let lines = if part.is_data { data(part.offset, code) } else { instructions(part.offset, code) };
            for (address, bytes, instruction) in lines {
                let line = format!("      {address:04x}  {bytes:<20} {instruction}");
                let line = if beside.is_empty() { line } else { format!("{line:<BESIDE$}  ; {beside}") };
                let _ = writeln!(self.text, "{line}");
                beside = "";
            }
        }
        let left = (0..self.decoded.ops.len() as u32).filter(|op| !self.shown.contains(op)).collect::<Vec<_>>();
        if !left.is_empty() {
            self.text.push_str("without code of their own:\n");
            left.into_iter().for_each(|op| self.op(op));
        }
    }

    /// An op, after the preceding ops that have no code.
    fn op_with_those_before(&mut self, op: u32) {
        if !self.shown.contains(&op) {
            let without = |other: &u32| !self.with_code.contains(other) && !self.shown.contains(other);
            let before = (0..op).rev().take_while(without).collect::<Vec<_>>();
            before.into_iter().rev().for_each(|other| self.op(other));
        }
        self.op(op);
    }

    fn op(&mut self, op: u32) {
        self.shown.insert(op);
        let text = disassemble_op(self.decoded, op as usize, self.names);
        let who = if self.compiled.interpreted.contains(&op) { "  // by the interpreter" } else { "" };
        let _ = writeln!(self.text, "  {op:>4}  {text}{who}");
    }
}

/// A constant, in the form of instructions.
fn data(offset: usize, bytes: &[u8]) -> Vec<(usize, String, String)> {
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    vec![(offset, text, "data".to_string())]
}

/// Instructions: where they are, their bytes, and how they are written.
#[cfg(target_arch = "x86_64")]
fn instructions(offset: usize, code: &[u8]) -> Vec<(usize, String, String)> {
    use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};

    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    let decoder = Decoder::with_ip(64, code, offset as u64, DecoderOptions::NONE);
    let line = |instruction: Instruction| {
        let start = instruction.ip() as usize - offset;
        let bytes = code.get(start..start + instruction.len()).unwrap_or_default();
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        (offset + start, bytes.iter().map(|byte| format!("{byte:02x}")).collect(), text)
    };
    decoder.into_iter().map(line).collect()
}

/// There is no machine code to read.
#[cfg(not(target_arch = "x86_64"))]
fn instructions(_offset: usize, _code: &[u8]) -> Vec<(usize, String, String)> {
    Vec::new()
}
