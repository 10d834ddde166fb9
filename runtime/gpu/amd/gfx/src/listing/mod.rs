//! Listings of code objects ([`Listing`]): each function with its instructions, their addresses and bytes, labels where
//! branches go, and lines of the source where the file has debug information ([`SourceLines`]). `vireo disasm --gfx`
//! shows them, and reports of the sanitizer name lines.
//!
//! The file may be any bytes: whatever does not fit is an error, and bytes that are no instruction are listed as they
//! are.

mod lines;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use vireo_core::visible_text::visible;

use vireo_hsa::code_object::{GFX11_PREFIX, KERNEL_DESCRIPTOR_SUFFIX};
use vireo_hsa::kernel_descriptor::KernelDescriptor;
use vireo_hsa::object::{CodeObject, CodeObjectError, SymbolKind};

use crate::instruction::{DecodeError, Instruction};
use crate::isa::operands::VECTOR_REGISTERS;
use crate::program::Program;
pub use lines::{SourceLines, source_line};

/// The error for a code object that cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListingError {
    /// It is malformed.
    Object(CodeObjectError),
    /// It is for a processor with other instructions.
    Processor(&'static str),
    /// No symbol is in its code.
    NoCode,
}

impl fmt::Display for ListingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListingError::Object(error) => error.fmt(f),
            ListingError::Processor(name) => {
                write!(f, "code object: it is for {name}, and instructions of gfx11 are known")
            }
            ListingError::NoCode => f.write_str("code object: there is no symbol of a function or kernel in its code"),
        }
    }
}

impl std::error::Error for ListingError {}

impl From<CodeObjectError> for ListingError {
    fn from(error: CodeObjectError) -> Self {
        ListingError::Object(error)
    }
}

/// An instruction, or bytes that are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The address in the code object.
    pub address: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The text, as an assembler reads it.
    pub text: String,
    /// The label before it, if a branch goes to it.
    pub label: Option<String>,
    /// `file:line` of the source, where that is known.
    pub source: Option<String>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its symbol; that of the descriptor without its suffix for a kernel without a symbol of its own.
    pub name: String,
    /// The address of its first instruction.
    pub address: u64,
    /// The address of the descriptor, if it is a kernel.
    pub descriptor: Option<u64>,
    /// Its instructions.
    pub lines: Vec<Line>,
}

/// The code of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The processor that it is for.
    pub processor: &'static str,
    /// Its functions in the order of their addresses.
    pub functions: Vec<Function>,
}

/// A function that begins at an address.
#[derive(Default)]
struct Start {
    name: String,
    descriptor: Option<(u64, KernelDescriptor)>,
    /// Bytes by the symbol; zero if that does not say.
    size: u64,
}

/// The code of a function.
struct Code<'a> {
    name: String,
    address: u64,
    /// The address and the content of the descriptor, if it is a kernel.
    descriptor: Option<(u64, KernelDescriptor)>,
    bytes: &'a [u8],
}

/// The instructions of a kernel or function that the interpreter lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The name of the kernel or function.
    pub function: String,
    /// The mnemonic and what is lacking of it, or a property of the kernel.
    pub what: String,
    /// The offset of the first such instruction from the start of the function; none for a property.
    pub offset: Option<u64>,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} at 0x{offset:x} of `{}`", self.what, self.function),
            None => write!(f, "{} of `{}`", self.what, self.function),
        }
    }
}

/// The instructions of the kernels and functions of a code object for gfx11 that the interpreter lacks, each mnemonic
/// once for a function.
///
/// # Errors
/// If the bytes are not such a file.
pub fn lacking(bytes: &[u8]) -> Result<Vec<Lacking>, ListingError> {
    lacking_in(&CodeObject::parse(bytes)?)
}

/// The same of a code object that has been parsed.
///
/// # Errors
/// If it is for another processor, or has no code.
pub fn lacking_in(object: &CodeObject<'_>) -> Result<Vec<Lacking>, ListingError> {
    let mut lacking = Vec::new();
    for function in functions(object)? {
        let words: Vec<u32> = function.bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let name = &function.name;
        let waves_of_64 =
            |(_, descriptor): (u64, KernelDescriptor)| !descriptor.kernel_code_properties.enable_wavefront_size32();
        if function.descriptor.is_some_and(waves_of_64) {
            lacking.push(Lacking { function: name.clone(), what: "waves of 64 lanes".into(), offset: None });
        }
        let mut seen = BTreeSet::new();
        for missing in Program::decode(&words, function.address, VECTOR_REGISTERS).missing() {
            let what = match missing.what {
                Some(what) => format!("{} ({what})", missing.mnemonic),
                None => missing.mnemonic,
            };
            if seen.insert(what.clone()) {
                let offset = Some(missing.address - function.address);
                lacking.push(Lacking { function: name.clone(), what, offset });
            }
        }
    }
    Ok(lacking)
}

impl Listing {
    /// Lists a code object for a processor of gfx11.
    ///
    /// # Errors
    /// If the bytes are not such a file.
    pub fn of(bytes: &[u8]) -> Result<Listing, ListingError> {
        let object = CodeObject::parse(bytes)?;
        let lines = SourceLines::of(&object);
        let functions = functions(&object)?.into_iter().map(|function| Function {
            lines: list(function.bytes, function.address, &lines),
            name: function.name,
            address: function.address,
            descriptor: function.descriptor.map(|(address, _)| address),
        });
        Ok(Listing { processor: object.target.processor(), functions: functions.collect() })
    }
}

/// The code of the functions of a code object, in the order of their addresses.
fn functions<'a>(object: &CodeObject<'a>) -> Result<Vec<Code<'a>>, ListingError> {
    let processor = object.target.processor();
    if !processor.starts_with(GFX11_PREFIX) {
        return Err(ListingError::Processor(processor));
    }
    let mut starts: BTreeMap<u64, Start> = BTreeMap::new();
    for symbol in object.all_symbols()?.iter().chain(&object.symbols) {
        if let Some(name) = symbol.name.strip_suffix(KERNEL_DESCRIPTOR_SUFFIX) {
            // A listing shows what is there, so a kernel without code is none, and no error.
            let Ok((descriptor, entry)) = object.descriptor(symbol) else { continue };
            let start = starts.entry(entry).or_default();
            start.descriptor = Some((symbol.address, descriptor));
            if start.name.is_empty() {
                start.name = visible(name);
            }
        } else if symbol.kind == SymbolKind::Code {
            let start = starts.entry(symbol.address).or_default();
            (start.name, start.size) = (visible(symbol.name), symbol.size);
        }
    }
    let mut functions = Vec::new();
    for segment in object.segments.iter().filter(|segment| segment.execute) {
        let data = segment.bytes;
        let (first, end) = (segment.address, segment.address.saturating_add(data.len() as u64));
        let mut inside = starts.range(first..end).peekable();
        while let Some((address, start)) = inside.next() {
            let next = inside.peek().map_or(end, |(next, _)| **next);
            let size = if start.size == 0 { u64::MAX } else { start.size };
            let last = address.saturating_add(size).min(next);
            // Both are in the segment.
            let code = &data[(address - first) as usize..(last - first) as usize];
            functions.push(Code {
                name: start.name.clone(),
                address: *address,
                descriptor: start.descriptor,
                bytes: code,
            });
        }
    }
    if functions.is_empty() {
        return Err(ListingError::NoCode);
    }
    Ok(functions)
}

/// The address that a branch at `address` goes to.
fn target(instruction: &Instruction, address: u64) -> Option<u64> {
    instruction.branch_words().map(|words| address.wrapping_add_signed(4 * words))
}

/// The text of the instruction that begins `code`, and its bytes; none if there is none.
pub fn instruction_text(code: &[u8]) -> Option<(String, usize)> {
    let words: Vec<u32> = code.as_chunks::<4>().0.iter().take(3).map(|word| u32::from_le_bytes(*word)).collect();
    let instruction = Instruction::decode(&words).ok()?;
    Some((instruction.to_string(), 4 * instruction.encode().len()))
}

fn list(code: &[u8], address: u64, source: &SourceLines<'_>) -> Vec<Line> {
    let words: Vec<u32> = code.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let mut decoded = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let instruction = Instruction::decode(&words[at..]);
        let length = match &instruction {
            Ok(instruction) => instruction.encode().len(),
            Err(error) => error.words().min(words.len() - at),
        };
        decoded.push((at, length, instruction));
        at += length;
    }
    let address_of = |word: usize| address + 4 * word as u64;
    let starts: BTreeSet<u64> = decoded.iter().map(|(word, ..)| address_of(*word)).collect();
    let targets: BTreeSet<u64> = decoded
        .iter()
        .filter_map(|(word, _, instruction)| target(instruction.as_ref().ok()?, address_of(*word)))
        .filter(|target| starts.contains(target))
        .collect();
    let labels: BTreeMap<u64, String> =
        targets.into_iter().enumerate().map(|(number, target)| (target, format!("L{number}"))).collect();
    let line = |(word, length, instruction): &(usize, usize, Result<Instruction, DecodeError>)| {
        let address = address_of(*word);
        let text = match instruction {
            Err(error) => {
                let longs = words[*word..word + length].iter().map(|word| format!("0x{word:08x}"));
                let longs = longs.collect::<Vec<_>>().join(", ");
                match error.mnemonic() {
                    Some(name) => format!(".long {longs} ; {name}"),
                    None => format!(".long {longs}"),
                }
            }
            Ok(instruction) => match target(instruction, address) {
                // A branch to somewhere else keeps its number.
                Some(target) => match labels.get(&target) {
                    Some(label) => format!("{} {label}", instruction.info().name),
                    None => instruction.to_string(),
                },
                None => instruction.to_string(),
            },
        };
        Line {
            address,
            bytes: words[*word..word + length].iter().flat_map(|word| word.to_le_bytes()).collect(),
            text,
            label: labels.get(&address).cloned(),
            source: source.at(address),
        }
    };
    decoded.iter().map(line).collect()
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "// code object for {}", self.processor)?;
        for function in &self.functions {
            let kind = match function.descriptor {
                Some(descriptor) => format!("kernel, descriptor at 0x{descriptor:x}"),
                None => "function".to_string(),
            };
            writeln!(f, "\n{}:  // {kind}", function.name)?;
            let mut last = None;
            for line in &function.lines {
                if let Some(label) = &line.label {
                    writeln!(f, "{label}:")?;
                }
                if line.source.is_some() && line.source != last {
                    writeln!(f, "  // {}", line.source.as_deref().unwrap_or_default())?;
                }
                last.clone_from(&line.source);
                let (words, _) = line.bytes.as_chunks::<4>();
                let words: Vec<String> =
                    words.iter().map(|word| format!("{:08X}", u32::from_le_bytes(*word))).collect();
                writeln!(f, "  {:<60}  // {:06x}: {}", line.text, line.address, words.join(" "))?;
            }
        }
        Ok(())
    }
}
