//! The printer: writes a whole module as text that assembles to the same code. `vireo disasm` and the tests call it.
//!
//! The language of the reference runtime has no form for attributes, dependencies, frames larger than their code needs,
//! and features that do not follow from the ops. They are written only where a module has them, so the reference
//! assembler reads the text of a module that it has made.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt::Write as _;

use super::statement::is_symbol_char;
use super::{Directive, Keyword};
use crate::bytecode::{
    BlockId, CallForm, CallId, CasesId, Decoded, EdgeId, GlobalOffset, GlobalRef, ListId, Names, OperandVisitor,
    RefReg, Reg, VerifiedFunction, disassemble as blocks, opcode,
};
use crate::convention::{Argument, Convention, Kind};
use crate::generated::vm::verify::visit_operands;
use crate::vmfb::{Archive, DebugDatabase, RodataLocation};

/// The text of a module whose functions have been verified. [`assemble`](super::assemble) makes the same code of it,
/// and the same tables but for source locations.
pub fn disassemble(archive: &Archive, functions: &[VerifiedFunction]) -> String {
    let def = archive.def();
    let types = type_names(archive);
    let imports: Vec<String> = archive.imports().map(|import| symbol(import.full_name)).collect();
    let names = function_names(archive);
    let shown: Vec<String> = names.iter().map(|name| symbol(name)).collect();
    let sizes: Vec<usize> = archive.rodata().map(|segment| segment.range.len()).collect();
    let module = symbol(archive.name());
    let context = Names { module: &module, types: &types, imports: &imports, functions: &shown, rodata: &sizes };
    let needs: Vec<InferredFrame> = functions.iter().map(InferredFrame::of).collect();

    let mut text = format!("{} @{module} {} {}", Directive::Module, Keyword::Version, archive.version());
    let stated = archive.functions().fold(0, |all, function| all | function.requirements.0);
    if def.requirements().0 != stated {
        requires(&mut text, def.requirements().0);
    }
    text.push('\n');
    attributes(&mut text, "", archive.attrs());
    for name in archive.types() {
        let shown = if is_plain_type(name) { name.to_string() } else { quoted(name) };
        line(&mut text, format_args!("{} {shown}", Directive::Type));
    }
    for dependency in archive.dependencies() {
        let (optional, name) = (optional(dependency.optional), symbol(dependency.name));
        let version = dependency.minimum_version;
        line(&mut text, format_args!("{} {optional}@{name} {} {version}", Directive::Dependency, Keyword::Version));
    }
    let signatures = def.imported_functions().unwrap_or_default();
    for ((import, name), table) in archive.imports().zip(&imports).zip(signatures.iter()) {
        let optional = optional(import.optional);
        let convention = match table.signature() {
            Some(_) => format!(" {} {}", Keyword::Cconv, quoted(import.convention)),
            None => String::new(),
        };
        line(&mut text, format_args!("{} {optional}@{name}{convention}", Directive::Import));
    }
    rodata(&mut text, archive);
    globals(&mut text, archive, &needs);
    let exports: Vec<(usize, String)> = archive
        .exports()
        .map(|export| {
            let name = symbol(export.name);
            let function = shown.get(export.ordinal).filter(|function| **function != name);
            let target = function.map(|function| format!(" = @{function}")).unwrap_or_default();
            (export.ordinal, format!("{} @{name}{target}", Directive::Export))
        })
        .collect();
    // Exports are written with their functions where that keeps their order.
    let is_sorted = exports.is_sorted_by_key(|(ordinal, _)| *ordinal);
    if !is_sorted {
        text.push('\n');
        exports.iter().for_each(|(_, export)| line(&mut text, format_args!("{export}")));
    }
    for (ordinal, ((function, described), needs)) in functions.iter().zip(archive.functions()).zip(&needs).enumerate() {
        text.push('\n');
        for (_, export) in exports.iter().filter(|(target, _)| is_sorted && *target == ordinal) {
            line(&mut text, format_args!("{export}"));
        }
        let name = shown.get(ordinal).map(String::as_str).unwrap_or_default();
        let _ = write!(text, "{} @{name}{}", Directive::Func, signature(function.convention()));
        if derived(function.convention()) != described.convention() {
            let _ = write!(text, " {} {}", Keyword::Cconv, quoted(described.convention()));
        }
        if (needs.slots, needs.refs) != (described.slots, described.refs) {
            let _ = write!(text, " {}({}, {})", Keyword::Registers, described.slots, described.refs);
        }
        if needs.features != described.requirements.0 {
            requires(&mut text, described.requirements.0);
        }
        text.push_str(" {\n");
        attributes(&mut text, "  ", described.attrs());
        text.push_str(&blocks(function.decoded(), context));
        text.push_str("}\n");
    }
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
    text.push('\n');
}

/// `optional `, if it is.
fn optional(is_optional: bool) -> String {
    if is_optional { format!("{} ", Keyword::Optional) } else { String::new() }
}

fn attributes<'a>(text: &mut String, indent: &str, attrs: impl Iterator<Item = (&'a str, &'a str)>) {
    for (key, value) in attrs {
        line(text, format_args!("{indent}{} {} = {}", Directive::Attr, quoted(key), quoted(value)));
    }
}

fn requires(text: &mut String, features: u32) {
    let names: Vec<&str> =
        opcode::FEATURES.iter().filter(|(_, bit)| features & bit != 0).map(|(name, _)| *name).collect();
    let _ = write!(text, " {}({})", Keyword::Requires, names.join(", "));
}

fn rodata(text: &mut String, archive: &Archive) {
    for (ordinal, segment) in archive.rodata().enumerate() {
        let _ = write!(text, "{}[{ordinal}]", Directive::Rodata);
        if segment.location == RodataLocation::External {
            let _ = write!(text, " {}", Keyword::External);
        }
        text.push_str(" = ");
        let bytes = archive.bytes().get(segment.range).unwrap_or_default();
        text.reserve(bytes.len().saturating_mul(2));
        for byte in bytes {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
            }
        }
        text.push('\n');
    }
}

fn globals(text: &mut String, archive: &Archive, needs: &[InferredFrame]) {
    let (bytes, refs) = archive.globals();
    let used_bytes = needs.iter().map(|needs| needs.global_bytes).max().unwrap_or(0);
    let used_refs = needs.iter().map(|needs| needs.global_refs).max().unwrap_or(0);
    if (bytes as u64, refs as u64) != (u64::from(used_bytes), u64::from(used_refs)) {
        line(text, format_args!("{} {} {bytes} {} {refs}", Directive::State, Keyword::Bytes, Keyword::Refs));
    }
}

/// A name after `@`, in quotes if necessary.
fn symbol(name: &str) -> String {
    if !name.is_empty() && name.chars().all(is_symbol_char) { name.to_string() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}

/// True if an op can name the type without quotes.
fn is_plain_type(name: &str) -> bool {
    let mut depth = 0;
    let nests = name.chars().all(|c| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        (0..8).contains(&depth)
    });
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '!' | '<' | '>' | '?');
    nests && depth == 0 && !name.is_empty() && !name.starts_with("type") && name.chars().all(plain)
}

/// How ops refer to types: by name, or as `type 3` where the name would be parsed as another type.
fn type_names(archive: &Archive) -> Vec<String> {
    let mut seen = HashSet::new();
    let name = |(ordinal, name)| {
        // Without `!` a name may stand for another type.
        let unique = seen.insert(name) && !str::starts_with(name, "vm.");
        if unique && is_plain_type(name) { name.to_string() } else { format!("type {ordinal}") }
    };
    archive.types().enumerate().map(name).collect()
}

/// A name for each function: that of its first export, that of its source, or `fn3`; none occurs twice.
fn function_names(archive: &Archive) -> Vec<String> {
    let debug = DebugDatabase::of(archive);
    let imports = archive.imports().map(|import| import.full_name);
    let mut taken: HashSet<String> =
        imports.chain(archive.exports().map(|export| export.name)).map(str::to_string).collect();
    let mut names = vec![String::new(); archive.functions().len()];
    for export in archive.exports() {
        if let Some(name) = names.get_mut(export.ordinal).filter(|name| name.is_empty()) {
            *name = export.name.to_string();
        }
    }
    let mut used = HashSet::new();
    for (ordinal, name) in names.iter_mut().enumerate() {
        // A damaged file may export two functions under one name.
        if !name.is_empty() && used.insert(name.clone()) {
            continue;
        }
        let source = debug.as_ref().and_then(|debug| debug.function_name(ordinal)).filter(|name| !name.is_empty());
        let base = source.map_or_else(|| format!("fn{ordinal}"), str::to_string);
        // The ordinal makes it unique, unless another function has such a name; then one more `_` does.
        let mut candidate = base.clone();
        while !taken.insert(candidate.clone()) {
            candidate = if candidate == base { format!("{base}_{ordinal}") } else { format!("{candidate}_") };
        }
        *name = candidate;
    }
    names
}

/// `(%i0: i32, %r0: !vm.ref<?>) -> (i32)`, with the registers that the arguments are in.
pub fn signature(convention: &Convention) -> String {
    let (mut slots, mut refs) = (0, 0);
    let mut arguments = Vec::new();
    for argument in &convention.args {
        let Argument::One(kind) = argument else {
            // The verifier refuses functions with variadic arguments; only imports have them.
            continue;
        };
        // Pairs begin at even slots.
        slots += slots % kind.slots().max(1);
        arguments.push(match kind {
            Kind::Ref => format!("%r{refs}: {}", type_name(*kind)),
            Kind::I32 | Kind::F32 => format!("%i{slots}: {}", type_name(*kind)),
            Kind::I64 | Kind::F64 => format!("%i{slots}:{}: {}", slots + 1, type_name(*kind)),
        });
        slots += kind.slots();
        refs += u32::from(*kind == Kind::Ref);
    }
    let results = convention.results.iter().map(|kind| type_name(*kind)).collect::<Vec<_>>();
    format!("({}) -> ({})", arguments.join(", "), results.join(", "))
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::I32 => "i32",
        Kind::I64 => "i64",
        Kind::F32 => "f32",
        Kind::F64 => "f64",
        Kind::Ref => "!vm.ref<?>",
    }
}

/// The convention that the assembler derives from the signature.
fn derived(convention: &Convention) -> String {
    let is_one = |argument: &&Argument| matches!(argument, Argument::One(_));
    let args = convention.args.iter().filter(is_one).cloned().collect();
    Convention { args, results: convention.results.clone() }.to_string()
}

/// The frame and the features that the assembler will infer for a function from its arguments and ops. Only differences
/// from them are printed.
struct InferredFrame<'d> {
    decoded: &'d Decoded,
    slots: u32,
    refs: u32,
    features: u32,
    global_bytes: u32,
    global_refs: u32,
}

impl<'d> InferredFrame<'d> {
    fn of(function: &'d VerifiedFunction) -> Self {
        let decoded = function.decoded();
        let mut needs = InferredFrame { decoded, slots: 0, refs: 0, features: 0, global_bytes: 0, global_refs: 0 };
        for kind in function.convention().fixed_args().unwrap_or_default() {
            match kind.slots() {
                0 => needs.refs += 1,
                count => needs.slots = needs.slots.next_multiple_of(count) + count,
            }
        }
        for op in &decoded.ops {
            needs.features |= op.features();
            // The visitor cannot fail.
            let Ok(()) = visit_operands(*op, &mut needs);
        }
        needs
    }

    fn value(&mut self, reg: Reg, slots: u32) {
        self.slots = self.slots.max(u32::from(reg.0) + slots);
    }

    fn reference(&mut self, reg: RefReg) {
        self.refs = self.refs.max(reg.index() as u32 + 1);
    }

    /// Lists of any type name pairs by their lower half, and the assembler counts that half alone.
    fn any(&mut self, list: ListId) {
        for register in self.decoded.list(list) {
            if register.is_ref() { self.reference(register.ref_reg()) } else { self.value(register.reg(), 1) }
        }
    }
}

impl OperandVisitor for InferredFrame<'_> {
    type Error = Infallible;

    fn read(&mut self, reg: Reg, kind: Kind) -> Result<(), Infallible> {
        self.value(reg, kind.slots());
        Ok(())
    }

    fn write(&mut self, reg: Reg, kind: Kind) -> Result<(), Infallible> {
        self.read(reg, kind)
    }

    fn read_ref(&mut self, reg: RefReg, _: bool) -> Result<(), Infallible> {
        self.reference(reg);
        Ok(())
    }

    fn write_ref(&mut self, reg: RefReg) -> Result<(), Infallible> {
        self.reference(reg);
        Ok(())
    }

    fn read_list(&mut self, list: ListId, kind: Kind, _: bool) -> Result<(), Infallible> {
        for register in self.decoded.list(list) {
            if register.is_ref() {
                self.reference(register.ref_reg())
            } else {
                self.value(register.reg(), kind.slots())
            }
        }
        Ok(())
    }

    fn read_any(&mut self, list: ListId) -> Result<(), Infallible> {
        self.any(list);
        Ok(())
    }

    fn return_values(&mut self, list: ListId) -> Result<(), Infallible> {
        self.any(list);
        Ok(())
    }

    fn global(&mut self, offset: GlobalOffset, width: u32) -> Result<(), Infallible> {
        self.global_bytes = self.global_bytes.max(offset.0.saturating_add(width));
        Ok(())
    }

    fn global_ref(&mut self, global: GlobalRef) -> Result<(), Infallible> {
        self.global_refs = self.global_refs.max(global.0.saturating_add(1));
        Ok(())
    }

    fn edge(&mut self, edge: EdgeId) -> Result<(), Infallible> {
        let decoded = self.decoded;
        for remap in decoded.remaps(decoded.edge(edge)) {
            for register in [remap.source, remap.target] {
                if register.is_ref() { self.reference(register.ref_reg()) } else { self.value(register.reg(), 1) }
            }
        }
        Ok(())
    }

    fn target(&mut self, _: BlockId) -> Result<(), Infallible> {
        Ok(())
    }

    fn cases(&mut self, cases: CasesId) -> Result<(), Infallible> {
        self.decoded.case_edges(cases).try_for_each(|edge| self.edge(edge))
    }

    fn call(&mut self, call: CallId, _: CallForm) -> Result<(), Infallible> {
        let site = self.decoded.call(call);
        self.any(site.operands);
        self.any(site.results);
        Ok(())
    }
}
