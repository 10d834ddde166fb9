//! [`Archive`]: a module file whose tables have been verified. Sessions and the disassembler read modules through it.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::bytes::{Bytes, OwnedBytes, PrivateMemory};
use super::file_kind::{FileKind, OtherKind};
use super::metadata::{Dependency, Export, Function, Import, Rodata, RodataLocation};
use super::schema::bytecode_module_def::{
    self, BytecodeModuleDef, CompressionTypeDef, ExportFunctionDef, FunctionDescriptor, FunctionSignatureDef,
    ImportFlagBits, ModuleDependencyFlagBits,
};
use super::schema::module_file::{
    BYTECODE_MAJOR_SHIFT, MINIMUM_FLATBUFFER_SIZE, SEGMENT_ALIGNMENT, SizePrefix, ZIP_LOCAL_HEADER_SIGNATURE,
    ZipLocalHeader,
};
use crate::generated::vm::opcode::{BYTECODE_VERSIONS, BytecodeVersion, FEATURES, NEWEST_BYTECODE};
use crate::status::{Result, Status, StatusCode};

/// Most bytes of value globals that a module may ask for.
pub const MAX_GLOBAL_BYTES: usize = 1 << 26;
/// Most reference globals that a module may ask for.
pub const MAX_GLOBAL_REFS: usize = 1 << 20;

/// Code that functions share counts for each of them; altogether it may be this many times the code that is there...
const MAX_CODE_SHARING: u64 = 16;
/// ...or this many bytes, if that is more.
const MIN_SHARED_CODE: u64 = 1 << 16;

/// A module file whose structure has been verified. Cheap to clone.
///
/// Verified data is the archive's own: the FlatBuffer, with names, code and embedded segments, is in memory that
/// nothing else can write to, whatever happens to the file. External read-only segments of large files are not copied:
/// they are read where they are in the file, which stays mapped as long as an archive or a buffer over one of them
/// lives.
#[derive(Clone)]
pub struct Archive(Arc<Inner>);

struct Inner {
    /// The file's name, or a description of where the bytes came from; the prefix of every message.
    name: String,
    bytes: Bytes,
    /// A copy of the FlatBuffer with its size prefix, unless the bytes are owned.
    tables: Option<FlatBufferCopy>,
    /// Its range in the file. The offsets in it count from the prefix.
    prefixed: Range<usize>,
    /// Offset from which those of external segments count.
    segments: usize,
}

/// A copy of a FlatBuffer.
struct FlatBufferCopy {
    bytes: OwnedBytes,
    /// Bytes before it, so that it is aligned as in the file.
    lead: usize,
}

impl FlatBufferCopy {
    fn copy(file: &[u8], range: &Range<usize>) -> Result<FlatBufferCopy> {
        let lead = range.start % SEGMENT_ALIGNMENT as usize;
        let mut bytes = OwnedBytes::zeroed(lead + range.len())?;
        bytes.as_mut_slice()[lead..].copy_from_slice(&file[range.clone()]);
        Ok(FlatBufferCopy { bytes, lead })
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes.as_slice()[self.lead..]
    }
}

impl Inner {
    /// The FlatBuffer with its size prefix, as it was verified.
    fn tables(&self) -> &[u8] {
        match &self.tables {
            Some(tables) => tables.as_slice(),
            None => &self.bytes.as_slice()[self.prefixed.clone()],
        }
    }

    /// A range of the file: of the FlatBuffer as it was verified, of everything else as it is in the file.
    fn slice(&self, range: Range<usize>) -> Option<&[u8]> {
        match range.start.checked_sub(self.prefixed.start) {
            Some(start) if range.end <= self.prefixed.end => self.tables().get(start..start + range.len()),
            _ => self.bytes.as_slice().get(range),
        }
    }
}

/// A range of a module file, which keeps the archive alive.
pub struct Segment {
    archive: Arc<Inner>,
    range: Range<usize>,
}

impl Segment {
    /// Its bytes, which nothing writes to and which stay in place as long as this lives.
    pub fn bytes(&self) -> &[u8] {
        self.archive.slice(self.range.clone()).unwrap_or_default()
    }

    /// A private, writable copy of a range of the segment.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if the range is not inside, `RESOURCE_EXHAUSTED` if there is no memory for the copy.
    pub fn writable(&self, offset: u64, length: u64) -> Result<PrivateMemory> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.range.len() as u64);
        if !inside {
            let message = format!("{length} bytes at {offset} of a segment of {} bytes", self.range.len());
            return Err(Status::out_of_range(message));
        }
        let start = self.range.start + offset as usize;
        let range = start..start + length as usize;
        match self.archive.slice(range.clone()) {
            Some(bytes) if range.end <= self.archive.prefixed.end => PrivateMemory::copy(bytes),
            _ => self.archive.bytes.writable(range),
        }
    }
}

impl Archive {
    /// Opens and verifies the file at `path`.
    ///
    /// A file of up to 1 MiB is read. A larger one is mapped, and only its tables and code are copied. A change of a
    /// mapped file while it is in use changes constants of the program, and nothing else. But the operating system ends
    /// the process, with `SIGBUS` on Unix, when it reads a constant that is no longer in the file because that was
    /// **truncated**. For files that others may truncate there is [`Archive::read`].
    ///
    /// # Errors
    /// `NOT_FOUND` and the like if the file cannot be read, `INVALID_ARGUMENT` if it is not a module file or is
    /// damaged, and `INCOMPATIBLE` if its bytecode is of another version or needs features that this runtime does not
    /// have.
    pub fn open(path: impl AsRef<Path>) -> Result<Archive> {
        let path = path.as_ref();
        Archive::new(path.display().to_string(), Bytes::open(path)?)
    }

    /// Reads and verifies the file at `path`, of whatever size. Nothing that happens to the file afterwards matters.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn read(path: impl AsRef<Path>) -> Result<Archive> {
        let path = path.as_ref();
        Archive::new(path.display().to_string(), Bytes::read(path)?)
    }

    /// Copies and verifies `bytes`. Prefer [`Archive::open`], [`Archive::read`] or [`Archive::from_static`], which copy
    /// less.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Archive> {
        Archive::new("module".to_string(), Bytes::copy(bytes)?)
    }

    /// Verifies `bytes`, such as those of `include_bytes!`. They need no alignment. Only tables and code are copied,
    /// and constants when a device imports them: kernels may write to those in place.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn from_static(bytes: &'static [u8]) -> Result<Archive> {
        Archive::new("module".to_string(), Bytes::Static(bytes))
    }

    fn new(name: String, bytes: Bytes) -> Result<Archive> {
        let result = locate(bytes.as_slice()).and_then(|(prefixed, segments)| {
            // The bytes that are verified are those that are used from here on.
            let tables =
                if bytes.are_owned() { None } else { Some(FlatBufferCopy::copy(bytes.as_slice(), &prefixed)?) };
            let slice = match &tables {
                Some(tables) => tables.as_slice(),
                None => &bytes.as_slice()[prefixed.clone()],
            };
            let root = bytecode_module_def::root(slice).map_err(|error| {
                let at = prefixed.start;
                // The message of the crate lists the path to the table over several lines.
                let text = error.to_string().replace("\n\t", ", ").replace('\n', "");
                refuse(at, format!("the FlatBuffer is damaged (offsets count from here): {text}"))
            })?;
            check(&root, bytes.as_slice(), prefixed.start, segments)?;
            Ok((tables, prefixed, segments))
        });
        match result {
            Ok((tables, prefixed, segments)) => {
                Ok(Archive(Arc::new(Inner { name, bytes, tables, prefixed, segments })))
            }
            Err(status) => Err(match FileKind::of(bytes.as_slice()) {
                Some(kind) if status.code() == StatusCode::InvalidArgument && !is_damaged_module(bytes.as_slice()) => {
                    let advice = kind.advice().map_or(String::new(), |advice| format!("; {advice}"));
                    let message = format!("the file is {kind}, not a module{advice}");
                    Status::invalid_argument(message).with_source(OtherKind(kind)).context(name)
                }
                _ => status.context(name),
            }),
        }
    }

    /// The file's name.
    pub fn file_name(&self) -> &str {
        &self.0.name
    }

    /// The whole file, as it is now: not what was verified, if the file is mapped and has been changed.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes.as_slice()
    }

    /// Range of the FlatBuffer in the file, without its size prefix.
    pub fn flatbuffer(&self) -> Range<usize> {
        self.0.prefixed.start + SizePrefix::SIZE..self.0.prefixed.end
    }

    /// Offset in the file from which the offsets of external segments count.
    pub fn segments_offset(&self) -> usize {
        self.0.segments
    }

    /// The module's table.
    pub fn def(&self) -> BytecodeModuleDef<'_> {
        // SAFETY: `new` verified these bytes, and nothing can write to them: they are static or in memory that the
        // archive owns, which gives out read-only buffers over them, and copies where writing is allowed.
        unsafe { bytecode_module_def::root_unchecked(self.0.tables()) }
    }

    /// The module's name; not empty.
    pub fn name(&self) -> &str {
        self.def().name()
    }

    /// The module's own version.
    pub fn version(&self) -> u32 {
        self.def().version()
    }

    /// Major and minor version of the bytecode.
    pub fn bytecode_version(&self) -> (u32, u32) {
        split_version(self.def().bytecode_version())
    }

    /// The releases of the compiler that write this version of the bytecode, such as `IREE 3.1 to 3.9`.
    pub fn compiler_releases(&self) -> &'static str {
        self.bytecode_rules().releases
    }

    /// The version of the bytecode, with what distinguishes it from others.
    #[doc(hidden)]
    pub fn bytecode_rules(&self) -> &'static BytecodeVersion {
        // `check` has refused all versions that are not listed.
        known_version(self.def().bytecode_version()).unwrap_or(NEWEST_BYTECODE)
    }

    /// Reflection attributes of the module.
    pub fn attrs(&self) -> impl Iterator<Item = (&str, &str)> {
        let attrs = self.def().attrs().unwrap_or_default();
        attrs.iter().map(|attr| (attr.key().unwrap_or_default(), attr.value().unwrap_or_default()))
    }

    /// Names in the type table; none is empty.
    pub fn types(&self) -> impl ExactSizeIterator<Item = &str> {
        self.def().types().unwrap_or_default().iter().map(|ty| ty.full_name().unwrap_or_default())
    }

    /// The modules this one imports from.
    pub fn dependencies(&self) -> impl ExactSizeIterator<Item = Dependency<'_>> {
        self.def().dependencies().unwrap_or_default().iter().map(|dependency| Dependency {
            name: dependency.name().unwrap_or_default(),
            minimum_version: dependency.minimum_version(),
            optional: dependency.flags().contains(ModuleDependencyFlagBits::OPTIONAL),
        })
    }

    /// The imports by ordinal.
    pub fn imports(&self) -> impl ExactSizeIterator<Item = Import<'_>> {
        self.def().imported_functions().unwrap_or_default().iter().map(|import| Import {
            full_name: import.full_name().unwrap_or_default(),
            convention: import.signature().and_then(|s| s.calling_convention()).unwrap_or_default(),
            optional: import.flags().contains(ImportFlagBits::OPTIONAL),
        })
    }

    /// Whether it imports something from the module called `name`.
    pub fn imports_from(&self, name: &str) -> bool {
        self.imports().any(|import| import.split().is_some_and(|(module, _)| module == name))
    }

    /// The exports in order. Those whose names start with `__` are for the runtime.
    pub fn exports(&self) -> impl ExactSizeIterator<Item = Export<'_>> {
        self.def().exported_functions().unwrap_or_default().iter().map(export_of)
    }

    /// The export at `position`.
    pub fn export(&self, position: usize) -> Option<Export<'_>> {
        let exports = self.def().exported_functions().unwrap_or_default();
        (position < exports.len()).then(|| export_of(exports.get(position)))
    }

    /// The functions by ordinal.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = Function<'_>> {
        let def = self.def();
        let signatures = def.function_signatures().unwrap_or_default();
        let descriptors = def.function_descriptors().unwrap_or_default();
        // `check` proved that both vectors are equally long.
        descriptors.iter().zip(signatures.iter()).map(function_of)
    }

    /// Function `ordinal`.
    pub fn function(&self, ordinal: usize) -> Option<Function<'_>> {
        let def = self.def();
        let signatures = def.function_signatures().unwrap_or_default();
        let descriptors = def.function_descriptors().unwrap_or_default();
        let exists = ordinal < descriptors.len().min(signatures.len());
        exists.then(|| function_of((descriptors.get(ordinal), signatures.get(ordinal))))
    }

    /// The code of all functions.
    pub fn bytecode(&self) -> &[u8] {
        self.def().bytecode_data().unwrap_or_default().bytes()
    }

    /// Offset of that in the file.
    pub fn bytecode_offset(&self) -> usize {
        self.offset_of(self.bytecode())
    }

    /// Offset in the file of a part of the FlatBuffer.
    fn offset_of(&self, part: &[u8]) -> usize {
        let offset = part.as_ptr().addr().wrapping_sub(self.0.tables().as_ptr().addr());
        // The empty slice, which represents an absent part, may be anywhere.
        if offset <= self.0.prefixed.len() { self.0.prefixed.start + offset } else { self.0.prefixed.end }
    }

    /// Bytes of value globals and number of reference globals.
    pub fn globals(&self) -> (usize, usize) {
        let state = self.def().module_state();
        state.map_or((0, 0), |state| (state.global_bytes_capacity() as usize, state.global_ref_count() as usize))
    }

    /// The read-only segments by ordinal, each with its range in the file.
    pub fn rodata(&self) -> impl ExactSizeIterator<Item = Rodata> {
        self.def().rodata_segments().unwrap_or_default().iter().map(move |segment| match segment.embedded_data() {
            Some(data) => {
                let start = self.offset_of(data.bytes());
                Rodata { location: RodataLocation::Embedded, range: start..start + data.len() }
            }
            None => {
                let start = self.0.segments + segment.external_data_offset() as usize;
                let range = start..start + segment.external_data_length() as usize;
                Rodata { location: RodataLocation::External, range }
            }
        })
    }

    /// A range of the file, which keeps the archive alive.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if the range is not inside.
    #[doc(hidden)]
    pub fn segment(&self, range: Range<usize>) -> Result<Segment> {
        if self.0.slice(range.clone()).is_none() {
            let message = format!("bytes {range:?} of a file of {} bytes", self.bytes().len());
            return Err(Status::out_of_range(message));
        }
        Ok(Segment { archive: self.0.clone(), range })
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Archive({}: module `{}`)", self.0.name, self.name())
    }
}

/// A function of its two records. `check` proved that no number is negative.
fn function_of((descriptor, signature): (FunctionDescriptor, FunctionSignatureDef<'_>)) -> Function<'_> {
    let start = descriptor.bytecode_offset as usize;
    Function {
        code: start..start + descriptor.bytecode_length as usize,
        requirements: descriptor.requirements,
        blocks: u32::from(descriptor.block_count as u16),
        slots: u32::from(descriptor.i32_register_count as u16),
        refs: u32::from(descriptor.ref_register_count as u16),
        signature,
    }
}

fn export_of(export: ExportFunctionDef<'_>) -> Export<'_> {
    Export { name: export.local_name().unwrap_or_default(), ordinal: export.internal_ordinal() as usize }
}

fn split_version(version: u32) -> (u32, u32) {
    (version >> BYTECODE_MAJOR_SHIFT, version & ((1 << BYTECODE_MAJOR_SHIFT) - 1))
}

/// The version of the bytecode of a module, if it is one of those that can be read.
fn known_version(version: u32) -> Result<&'static BytecodeVersion> {
    let (major, minor) = split_version(version);
    let known = |known: &&BytecodeVersion| (u32::from(known.major), u32::from(known.minor)) == (major, minor);
    BYTECODE_VERSIONS.iter().find(known).ok_or_else(|| {
        let readable: Vec<String> = BYTECODE_VERSIONS
            .iter()
            .map(|known| format!("{}.{} ({})", known.major, known.minor, known.releases))
            .collect();
        Status::incompatible(format!(
            "the module has bytecode version {major}.{minor}, this runtime reads {}; compile it with one of these releases",
            readable.join(", ")
        ))
    })
}

/// Refuses features that the version of the bytecode does not have.
fn check_features(what: impl fmt::Display, features: u32, version: &BytecodeVersion) -> Result<()> {
    let unknown = features & !version.features;
    if unknown == 0 {
        return Ok(());
    }
    let known = FEATURES.iter().filter(|(_, bit)| version.features & bit != 0);
    let known: Vec<String> = known.map(|(name, bit)| format!("{name} ({bit:#x})")).collect();
    let BytecodeVersion { major, minor, .. } = version;
    Err(Status::incompatible(format!(
        "{what} requires features {unknown:#x} that bytecode {major}.{minor} does not have; it has {}",
        known.join(", ")
    )))
}

/// Whether the bytes have the identifier of a module's FlatBuffer where it belongs, so that they are a module and
/// nothing else.
fn is_damaged_module(bytes: &[u8]) -> bool {
    let start = match ZipLocalHeader::read(bytes) {
        Some(header) if header.signature == ZIP_LOCAL_HEADER_SIGNATURE => {
            ZipLocalHeader::SIZE + usize::from(header.name_length) + usize::from(header.extra_length)
        }
        _ => 0,
    };
    let identifier = bytes.get(start + SizePrefix::SIZE + 4..).and_then(|rest| rest.get(..4));
    identifier.is_some_and(|identifier| identifier == bytecode_module_def::IDENTIFIER)
}

#[cold]
fn refuse(offset: usize, message: impl fmt::Display) -> Status {
    Status::invalid_argument(format!("at {offset:#x}: {message}"))
}

/// The range of the FlatBuffer with its size prefix in a module file, and the offset from which those of external
/// segments count.
fn locate(bytes: &[u8]) -> Result<(Range<usize>, usize)> {
    let mut start = 0;
    if let Some(header) = ZipLocalHeader::read(bytes)
        && header.signature == ZIP_LOCAL_HEADER_SIGNATURE
    {
        start = ZipLocalHeader::SIZE + usize::from(header.name_length) + usize::from(header.extra_length);
    }
    let module = bytes.get(start..).unwrap_or_default();
    let prefix = SizePrefix::read(module).ok_or_else(|| {
        refuse(start, format!("the file ends after {} bytes: expected the size of a module's FlatBuffer", bytes.len()))
    })?;
    let start = start + SizePrefix::SIZE;
    let size = prefix.size as usize;
    let end = start.checked_add(size).filter(|end| *end <= bytes.len()).ok_or_else(|| {
        let available = bytes.len() - start;
        let message = format!(
            "expected a FlatBuffer of {size} bytes, but only {available} bytes follow: not a module file, or cut short"
        );
        refuse(start - SizePrefix::SIZE, message)
    })?;
    if (size as u64) < MINIMUM_FLATBUFFER_SIZE {
        return Err(refuse(start, format!("a FlatBuffer of {size} bytes is too small for a module")));
    }
    let identifier = &bytes[start + 4..start + 8];
    if identifier != bytecode_module_def::IDENTIFIER {
        let message = format!(
            "expected the file identifier \"{}\", found \"{}\"",
            bytecode_module_def::IDENTIFIER.escape_ascii(),
            identifier.escape_ascii()
        );
        return Err(refuse(start + 4, message));
    }
    let segments = (end as u64).checked_next_multiple_of(SEGMENT_ALIGNMENT).and_then(|end| usize::try_from(end).ok());
    let segments = segments.ok_or_else(|| refuse(start, "the FlatBuffer ends at the end of the address space"))?;
    Ok((start - SizePrefix::SIZE..end, segments))
}

/// Checks the rules of a module that are not part of the FlatBuffer format. Accessors rely on them.
fn check(def: &BytecodeModuleDef<'_>, file: &[u8], base: usize, segments: usize) -> Result<()> {
    let at = |place: usize| base + place;
    // The version is checked first, because other versions may break the rules below.
    let version = known_version(def.bytecode_version())?;
    check_features("the module", def.requirements().0, version)?;
    if def.name().is_empty() {
        return Err(refuse(at(def.place()), "the module has no name"));
    }
    for (index, ty) in def.types().unwrap_or_default().iter().enumerate() {
        if ty.full_name().unwrap_or_default().is_empty() {
            return Err(refuse(at(ty.place()), format!("type {index} has no name")));
        }
    }
    for (index, dependency) in def.dependencies().unwrap_or_default().iter().enumerate() {
        if dependency.name().unwrap_or_default().is_empty() {
            return Err(refuse(at(dependency.place()), format!("dependency {index} has no module name")));
        }
    }
    for (index, import) in def.imported_functions().unwrap_or_default().iter().enumerate() {
        let name = import.full_name().unwrap_or_default();
        if !name.split_once('.').is_some_and(|(module, function)| !module.is_empty() && !function.is_empty()) {
            let message = format!("import {index} is named \"{}\", expected module.function", name.escape_debug());
            return Err(refuse(at(import.place()), message));
        }
    }
    check_rodata(def, file, base, segments)?;
    if def.rwdata_segments().is_some_and(|segments| !segments.is_empty()) {
        return Err(Status::unimplemented("writable data segments of modules"));
    }
    check_functions(def, base, version)?;
    if let Some(state) = def.module_state() {
        let (bytes, refs) = (state.global_bytes_capacity(), state.global_ref_count());
        let fits = |value: i32, limit: usize| usize::try_from(value).is_ok_and(|value| value <= limit);
        if !fits(bytes, MAX_GLOBAL_BYTES) || !fits(refs, MAX_GLOBAL_REFS) {
            let message = format!(
                "the module asks for {bytes} bytes of globals and {refs} references, at most {MAX_GLOBAL_BYTES} and \
                 {MAX_GLOBAL_REFS} are allowed"
            );
            return Err(refuse(at(state.place()), message));
        }
    }
    Ok(())
}

fn check_rodata(def: &BytecodeModuleDef<'_>, file: &[u8], base: usize, segments: usize) -> Result<()> {
    for (index, segment) in def.rodata_segments().unwrap_or_default().iter().enumerate() {
        match segment.compression_type() {
            None | Some(CompressionTypeDef::UncompressedDataDef(_)) => {}
            Some(CompressionTypeDef::Unknown(tag)) => {
                let message = format!("compression {tag} of read-only segment {index}");
                return Err(Status::unimplemented(message));
            }
        }
        if segment.embedded_data().is_some() {
            continue;
        }
        let (offset, length) = (segment.external_data_offset(), segment.external_data_length());
        let end = (segments as u64).checked_add(offset).and_then(|start| start.checked_add(length));
        if end.is_none_or(|end| end > file.len() as u64) {
            let message = format!(
                "read-only segment {index} has {length} bytes at {offset} from {segments:#x}, but the file ends at {:#x}",
                file.len()
            );
            return Err(refuse(base + segment.place(), message));
        }
    }
    Ok(())
}

fn check_functions(def: &BytecodeModuleDef<'_>, base: usize, version: &BytecodeVersion) -> Result<()> {
    let signatures = def.function_signatures().map_or(0, |signatures| signatures.len());
    let descriptors = def.function_descriptors().unwrap_or_default();
    if signatures != descriptors.len() {
        let message = format!("{} functions have {signatures} signatures", descriptors.len());
        return Err(refuse(base + def.place(), message));
    }
    let size = def.bytecode_data().map_or(0, |data| data.len());
    let mut ranges = Vec::new();
    for (index, descriptor) in descriptors.iter().enumerate() {
        let (start, length) = (descriptor.bytecode_offset, descriptor.bytecode_length);
        let range = usize::try_from(start).ok().zip(usize::try_from(length).ok().filter(|length| *length > 0));
        let range = range.and_then(|(start, length)| Some(start..start.checked_add(length)?));
        let Some(range) = range.filter(|range| range.end <= size) else {
            let message = format!(
                "function {index} has {length} bytes of code at {start}, expected a part of the {size} bytes of the module"
            );
            return Err(refuse(base + def.place(), message));
        };
        if descriptor.block_count == 0 {
            return Err(refuse(base + def.place(), format!("function {index} has no blocks")));
        }
        check_features(format_args!("function {index}"), descriptor.requirements.0, version)?;
        ranges.push((range.start, range.end, index));
    }
    // Every function is decoded by itself, so sharing must not multiply the code.
    let total = ranges.iter().fold(0u64, |total, (start, end, _)| total.saturating_add((end - start) as u64));
    if total > (size as u64).saturating_mul(MAX_CODE_SHARING).max(MIN_SHARED_CODE) {
        let message = format!("the functions have {total} bytes of code in total, but the module has {size}");
        return Err(refuse(base + def.place(), message));
    }
    // Functions may share all of their code; if they share a part of it one of them is wrong.
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let ((start, end, first), (other_start, other_end, second)) = (pair[0], pair[1]);
        if other_start < end && (start, end) != (other_start, other_end) {
            let message = format!(
                "the code of function {second} ({other_start}..{other_end}) overlaps that of function {first} ({start}..{end})"
            );
            return Err(refuse(base + def.place(), message));
        }
    }
    for (index, export) in def.exported_functions().unwrap_or_default().iter().enumerate() {
        if export.local_name().unwrap_or_default().is_empty() {
            return Err(refuse(base + export.place(), format!("export {index} has no name")));
        }
        let ordinal = export.internal_ordinal();
        if usize::try_from(ordinal).is_ok_and(|ordinal| ordinal < descriptors.len()) {
            continue;
        }
        let message = format!("export {index} is function {ordinal}, but there are {}", descriptors.len());
        return Err(refuse(base + export.place(), message));
    }
    Ok(())
}
