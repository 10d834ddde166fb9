//! Executables: code objects that are loaded for agents, and their symbols.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vireo_core::pages::PageMapping;
use vireo_hsa::code_object::KERNEL_DESCRIPTOR_SUFFIX;
use vireo_hsa::hsa::{
    Agent as AgentHandle, CodeObjectStorage, Executable as ExecutableHandle, ExecutableSymbolInfo, HsaStatus,
    LoadedCodeObjectInfo, LoadedCodeObjectKind, SegmentDescriptor, SymbolKind, SymbolLinkage,
};
use vireo_hsa::object::{self, CodeObject, SymbolKind as ObjectSymbolKind};
use vireo_hsa::target::TargetId;
use vireo_soft::memory::backing::{Backing, copy};
use vireo_soft::memory::map::{Allocation, Kind};

use crate::agents::Agent;
use crate::api::MemoryMap;
use crate::code_object::image::Image;
use crate::code_object::storage::Storage;
use crate::code_object::{LoadError, lacking};
use crate::status::Result;
use crate::topology::Topology;

/// An executable.
#[derive(Debug, Default)]
pub(crate) struct Executable {
    frozen: AtomicBool,
    objects: Mutex<Vec<Arc<LoadedObject>>>,
    /// The handles of its symbols, which end with it.
    pub(crate) symbols: Mutex<Vec<(u64, Arc<Symbol>)>>,
}

/// A code object in an executable.
#[derive(Debug)]
pub(crate) struct LoadedObject {
    agent: AgentHandle,
    pub(crate) executable: ExecutableHandle,
    /// The code object as the program has it.
    storage: Arc<Storage>,
    /// The address of the first page, its address in the file, and the bytes.
    base: u64,
    origin: u64,
    span: u64,
    /// Where segments are in the code object, their addresses and their lengths.
    segments: Vec<(u64, u64, u64)>,
    symbols: Vec<Arc<Symbol>>,
    /// A copy of the file for reports of the sanitizer; empty where there is none.
    pub(crate) file: Vec<u8>,
}

/// A kernel or variable.
#[derive(Debug)]
pub(crate) struct Symbol {
    name: String,
    pub(crate) agent: AgentHandle,
    address: u64,
    size: u64,
    kernel: Option<KernelSizes>,
}

#[derive(Debug)]
struct KernelSizes {
    kernarg_size: u32,
    kernarg_alignment: u32,
    group_size: u32,
    private_size: u32,
    dynamic_stack: bool,
}

impl Executable {
    /// Refuses changes once it is frozen.
    pub(crate) fn freeze(&self) -> Result<()> {
        match self.frozen.swap(true, Ordering::AcqRel) {
            true => Err(HsaStatus::ERROR_FROZEN_EXECUTABLE),
            false => Ok(()),
        }
    }

    /// Whether it can be added to.
    pub(crate) fn check_not_frozen(&self) -> Result<()> {
        match self.frozen.load(Ordering::Acquire) {
            true => Err(HsaStatus::ERROR_FROZEN_EXECUTABLE),
            false => Ok(()),
        }
    }

    /// Adds a loaded code object.
    pub(crate) fn add(&self, object: Arc<LoadedObject>) {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).push(object);
    }

    /// Its code objects.
    pub(crate) fn objects(&self) -> Vec<Arc<LoadedObject>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The handle of the symbol with this name for an agent.
    pub(crate) fn symbol(&self, name: &str, agent: Option<AgentHandle>) -> Result<u64> {
        let symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let found =
            symbols.iter().find(|(_, symbol)| symbol.name == name && agent.is_none_or(|agent| symbol.agent == agent));
        found.map(|(handle, _)| *handle).ok_or(HsaStatus::ERROR_INVALID_SYMBOL_NAME)
    }

    /// Defines a variable of an agent that is memory of the program; `add` makes its handle.
    pub(crate) fn define(&self, variable: Symbol, add: impl FnOnce(Arc<Symbol>) -> u64) -> Result<()> {
        self.check_not_frozen()?;
        let mut symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        if symbols.iter().any(|(_, other)| other.name == variable.name && other.agent == variable.agent) {
            return Err(HsaStatus::ERROR_VARIABLE_ALREADY_DEFINED);
        }
        let variable = Arc::new(variable);
        symbols.push((add(variable.clone()), variable));
        Ok(())
    }

    /// The handles of the symbols of an agent.
    pub(crate) fn symbols_of(&self, agent: AgentHandle) -> Vec<u64> {
        let symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        symbols.iter().filter(|(_, symbol)| symbol.agent == agent).map(|(handle, _)| *handle).collect()
    }

    /// Frees the memory of its code.
    pub(crate) fn unload(&self, memory: &MemoryMap) {
        for object in self.objects() {
            for (_, address, _) in &object.segments {
                memory.remove(*address, |allocation| matches!(allocation.kind, Kind::Code(_)));
            }
        }
    }
}

/// Refuses code for another processor than the agent's.
fn check_processor(target: TargetId, agent: &str) -> std::result::Result<(), LoadError> {
    let fits = |agent: TargetId| {
        let processor = target.processor();
        agent.processor() == processor || agent.generic() == Some(processor)
    };
    match TargetId::parse(agent).is_ok_and(fits) {
        true => Ok(()),
        false => Err(LoadError::Processor { code: target.processor().to_string(), agent: agent.to_string() }),
    }
}

impl LoadedObject {
    /// Loads a code object for a GPU.
    ///
    /// # Errors
    /// Fails with the fault of the code object.
    pub(crate) fn load(
        bytes: &[u8],
        storage: Arc<Storage>,
        agent: &Agent,
        executable: ExecutableHandle,
        topology: &Topology,
        memory: &MemoryMap,
    ) -> std::result::Result<Self, LoadError> {
        let object = CodeObject::parse(bytes)?;
        let image = Image::of(&object)?;
        check_processor(object.target, &topology.isa)?;
        lacking::check(&object)?;
        // A file without metadata has no kernels.
        let kernels = object.metadata()?.map(|metadata| metadata.kernels).unwrap_or_default();
        let no_memory = LoadError::NoMemory(image.span);
        let Some(pages) =
            usize::try_from(image.span).ok().and_then(|span| PageMapping::reserved(span.max(1), "code").ok())
        else {
            return Err(no_memory);
        };
        let base = pages.base().as_ptr().expose_provenance() as u64;
        // `Image::of` has placed all of them.
        let offset = |address: u64| image.place(address).unwrap_or_default();
        for segment in &object.segments {
            let to = pages.base().as_ptr().wrapping_add(offset(segment.address) as usize);
            // SAFETY: `Image::of` placed the segment in the span, which the mapping has, and the reader checked that it
            // is not shorter in memory than in the file.
            unsafe { copy(to, segment.bytes.as_ptr(), segment.bytes.len()) };
        }
        let mut symbols = Vec::new();
        // By name, so that a file with many of both takes no longer than it is long.
        let mut by_symbol: HashMap<&str, &object::KernelMetadata> = HashMap::new();
        for kernel in &kernels {
            by_symbol.entry(&kernel.symbol).or_insert(kernel);
        }
        for symbol in &object.symbols {
            let kernel = match by_symbol.get(symbol.name) {
                Some(kernel) => {
                    object.descriptor(symbol)?;
                    Some(KernelSizes {
                        kernarg_size: kernel.kernarg_size,
                        kernarg_alignment: kernel.kernarg_alignment,
                        group_size: kernel.group_size,
                        private_size: kernel.private_size,
                        dynamic_stack: kernel.dynamic_stack,
                    })
                }
                // The code of a kernel has a symbol too, of which programs have no use.
                None if symbol.kind != ObjectSymbolKind::Data || symbol.name.ends_with(KERNEL_DESCRIPTOR_SUFFIX) => {
                    continue;
                }
                None => None,
            };
            symbols.push(Arc::new(Symbol {
                name: symbol.name.to_string(),
                agent: agent.handle(),
                address: base + offset(symbol.address),
                size: symbol.size,
                kernel,
            }));
        }
        let named: HashSet<&str> = symbols.iter().map(|symbol| symbol.name.as_str()).collect();
        let missing = kernels.iter().find(|kernel| !named.contains(kernel.symbol.as_str()));
        if let Some(missing) = missing {
            return Err(LoadError::NoSymbol(missing.symbol.clone()));
        }
        let pages = Arc::new(pages);
        let mut segments: Vec<(u64, u64, u64)> = Vec::new();
        for segment in &object.segments {
            let (kind, backing) = (Kind::Code(segment.execute), Backing::of(pages.clone()));
            let start = base + offset(segment.address);
            let mut allocation = Allocation::new(start, segment.length, kind, agent.index, 1 << agent.index, backing);
            if !segment.write {
                allocation.writers = 0.into();
            }
            if memory.insert(allocation).is_err() {
                segments.iter().for_each(|(_, address, _)| drop(memory.remove(*address, |_| true)));
                return Err(LoadError::InUse);
            }
            segments.push((segment.file_offset, start, segment.length));
        }
        let (agent, Image { origin, span }) = (agent.handle(), image);
        let file = if topology.sanitize.any() { bytes.to_vec() } else { Vec::new() };
        Ok(LoadedObject { agent, executable, storage, base, origin, span, segments, symbols, file })
    }

    /// The symbols.
    pub(crate) fn symbols(&self) -> &[Arc<Symbol>] {
        &self.symbols
    }

    /// Whether an address is in it.
    pub(crate) fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.base).is_some_and(|offset| offset < self.span)
    }

    /// The byte of the program's code object that was loaded to an address.
    pub(crate) fn host_address(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|(file, start, length)| {
            let offset = address.checked_sub(*start).filter(|offset| offset < length)?;
            // Bytes after those of the file are zeros without a place there.
            let (address, length) = self.storage.range;
            (file + offset < length).then(|| address + file + offset)
        })
    }

    /// The address in the file that was loaded to an address.
    pub(crate) fn file_address(&self, address: u64) -> u64 {
        address.wrapping_sub(self.base).wrapping_add(self.origin)
    }

    /// The bytes of the kept file from the one on that was loaded to an address.
    pub(crate) fn file_bytes(&self, address: u64) -> Option<&[u8]> {
        let offset = self.host_address(address)? - self.storage.range.0;
        self.file.get(usize::try_from(offset).ok()?..)
    }

    /// The name of the kernel whose descriptor is at an address.
    pub(crate) fn kernel_at(&self, address: u64) -> Option<&str> {
        self.symbols.iter().find_map(|symbol| symbol.kernel_at(address))
    }

    /// Its segments.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = SegmentDescriptor> {
        self.segments.iter().map(|(file, start, length)| SegmentDescriptor {
            agent: self.agent,
            executable: self.executable,
            code_object_storage_type: CodeObjectStorage::MEMORY,
            code_object_storage_base: self.storage.range.0,
            code_object_storage_size: self.storage.range.1,
            code_object_storage_offset: *file,
            segment_base: *start,
            segment_size: *length,
            ..SegmentDescriptor::default()
        })
    }

    /// An attribute.
    pub(crate) fn info(&self, attribute: LoadedCodeObjectInfo) -> Result<Vec<u8>> {
        let uri = || self.storage.uri();
        Ok(match attribute {
            LoadedCodeObjectInfo::EXECUTABLE => self.executable.0.to_ne_bytes().to_vec(),
            LoadedCodeObjectInfo::KIND => LoadedCodeObjectKind::AGENT.0.to_ne_bytes().to_vec(),
            LoadedCodeObjectInfo::AGENT => self.agent.0.to_ne_bytes().to_vec(),
            LoadedCodeObjectInfo::CODE_OBJECT_STORAGE_TYPE => CodeObjectStorage::MEMORY.0.to_ne_bytes().to_vec(),
            LoadedCodeObjectInfo::CODE_OBJECT_STORAGE_MEMORY_BASE => self.storage.range.0.to_ne_bytes().to_vec(),
            LoadedCodeObjectInfo::CODE_OBJECT_STORAGE_MEMORY_SIZE => self.storage.range.1.to_ne_bytes().to_vec(),
            LoadedCodeObjectInfo::LOAD_DELTA => self.base.wrapping_sub(self.origin).to_ne_bytes().to_vec(),
            LoadedCodeObjectInfo::LOAD_BASE => self.base.to_ne_bytes().to_vec(),
            LoadedCodeObjectInfo::LOAD_SIZE => self.span.to_ne_bytes().to_vec(),
            LoadedCodeObjectInfo::URI_LENGTH => (uri().len() as u32).to_ne_bytes().to_vec(),
            LoadedCodeObjectInfo::URI => uri().into_bytes(),
            _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        })
    }
}

impl Symbol {
    /// A variable at an address of the program, which does not say how long it is.
    pub(crate) fn variable(name: String, agent: AgentHandle, address: u64) -> Self {
        Symbol { name, agent, address, size: 0, kernel: None }
    }

    /// The name of the kernel whose descriptor is at an address, if this is its symbol.
    pub(crate) fn kernel_at(&self, address: u64) -> Option<&str> {
        self.kernel.as_ref().filter(|_| self.address == address)?;
        Some(self.name.strip_suffix(KERNEL_DESCRIPTOR_SUFFIX).unwrap_or(&self.name))
    }

    /// An attribute.
    pub(crate) fn info(&self, attribute: ExecutableSymbolInfo) -> Result<Vec<u8>> {
        let word = |value: u32| Ok(value.to_ne_bytes().to_vec());
        match (attribute, &self.kernel) {
            (ExecutableSymbolInfo::TYPE, kernel) => {
                word(if kernel.is_some() { SymbolKind::KERNEL.0 } else { SymbolKind::VARIABLE.0 })
            }
            // The name has no zero at its end, and the length counts none.
            (ExecutableSymbolInfo::NAME_LENGTH, _) => word(self.name.len() as u32),
            (ExecutableSymbolInfo::NAME, _) => Ok(self.name.clone().into_bytes()),
            (ExecutableSymbolInfo::MODULE_NAME_LENGTH, _) => word(0),
            (ExecutableSymbolInfo::MODULE_NAME, _) => Ok(Vec::new()),
            (ExecutableSymbolInfo::AGENT, _) => Ok(self.agent.0.to_ne_bytes().to_vec()),
            (ExecutableSymbolInfo::LINKAGE, _) => word(SymbolLinkage::PROGRAM.0),
            (ExecutableSymbolInfo::IS_DEFINITION, _) => Ok(vec![1]),
            (ExecutableSymbolInfo::KERNEL_OBJECT, Some(_)) | (ExecutableSymbolInfo::VARIABLE_ADDRESS, None) => {
                Ok(self.address.to_ne_bytes().to_vec())
            }
            (ExecutableSymbolInfo::VARIABLE_SIZE, None) => word(u32::try_from(self.size).unwrap_or(u32::MAX)),
            (ExecutableSymbolInfo::KERNEL_KERNARG_SEGMENT_SIZE, Some(kernel)) => word(kernel.kernarg_size),
            (ExecutableSymbolInfo::KERNEL_KERNARG_SEGMENT_ALIGNMENT, Some(kernel)) => word(kernel.kernarg_alignment),
            (ExecutableSymbolInfo::KERNEL_GROUP_SEGMENT_SIZE, Some(kernel)) => word(kernel.group_size),
            (ExecutableSymbolInfo::KERNEL_PRIVATE_SEGMENT_SIZE, Some(kernel)) => word(kernel.private_size),
            (ExecutableSymbolInfo::KERNEL_DYNAMIC_CALLSTACK, Some(kernel)) => Ok(vec![kernel.dynamic_stack.into()]),
            _ => Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        }
    }
}
