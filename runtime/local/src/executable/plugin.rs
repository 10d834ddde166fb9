//! Executable plugins: native libraries with functions that kernels import. Hosts load them and add them to the import
//! providers.
//!
//! The interface is that of the reference runtime, so its plugins work here: `spec/hal/executable_plugin.yaml` has the
//! structs. A plugin writes to the arrays of imports that kernels use, and may replace its entries later; the arrays do
//! not move. A plugin is used from any thread, and stays loaded as long as an executable may call it.

use std::borrow::Cow;
use std::ffi::{CStr, CString, OsStr, c_void};
use std::fmt;
use std::mem;
use std::path::Path;
use std::ptr;

#[cfg(any(unix, windows))]
use libloading::Library;

use super::elf::ElfImage;
use super::library_metadata::check_sanitizer;
use crate::hal::executable_plugin::{
    self as abi, EXECUTABLE_PLUGIN_QUERY_SYMBOL, EXECUTABLE_PLUGIN_VERSION, ExecutablePluginFeatures,
    ExecutablePluginQuery, PLUGIN_STATUS_CODE_MASK, PluginAllocation, PluginAllocator, PluginAllocatorCommand,
    PluginEnvironment, PluginResolveParams, PluginString, PluginStringPair,
};
use crate::hal::host_kernels::{Function, Import, ImportProvider, ImportTable};
use crate::status::{Result, Status, StatusCode};

/// File extension of plugins that are embedded libraries, which do not depend on others.
const EMBEDDED_EXTENSION: &str = "sos";
/// A prefix of their paths, for files with another extension.
const EMBEDDED_PREFIX: &str = "embedded:";

/// A loaded plugin.
///
/// Kernels find its functions when it is among the [`ImportProviders`](crate::hal::host_kernels::ImportProviders) of
/// their loader.
pub struct ExecutablePlugin {
    name: String,
    plugin: abi::ExecutablePlugin,
    /// The plugin's own state, which is passed to each of its functions.
    this: *mut c_void,
    // The code of the plugin; it is dropped last.
    _code: PluginCode,
}

/// The owner of a plugin's code.
enum PluginCode {
    /// A library that the system's loader opened.
    #[cfg(any(unix, windows))]
    System(#[expect(dead_code, reason = "held to keep the code")] Library),
    /// An embedded library.
    Embedded(#[expect(dead_code, reason = "held to keep the code")] Box<ElfImage>),
    /// Code that is linked into the host program.
    Linked,
}

// SAFETY: the interface asks that plugins may be used from any thread, and on several at a time; the caller of `load`
// vouches for it.
unsafe impl Send for ExecutablePlugin {}
// SAFETY: the interface asks that plugins may be used from any thread, and on several at a time; the caller of `load`
// vouches for it.
unsafe impl Sync for ExecutablePlugin {}

impl fmt::Debug for ExecutablePlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "executable plugin `{}`", self.name)
    }
}

impl ExecutablePlugin {
    /// Loads the plugin in a file: a shared library, or, if the name ends in `.sos` or begins with `embedded:`, an
    /// embedded one. `params` are names and values for the plugin.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is no such file, `INVALID_ARGUMENT` if it is no plugin, `INCOMPATIBLE` if it has another
    /// version or needs features that this host does not have, and failures of the plugin itself.
    ///
    /// # Safety
    /// The code in the file runs with all rights of the process: its initialisers now, its functions later. The caller
    /// trusts it to follow the interface, from any thread, and that the file does not change while it is loaded.
    pub unsafe fn load(path: &Path, params: &[(&str, &str)]) -> Result<ExecutablePlugin> {
        // SAFETY: the caller trusts the code in the file to follow the interface, and guarantees that the file does not
        // change.
        let plugin = unsafe { open(path) }.and_then(|(query, code)| unsafe { Self::start(query, code, params) });
        plugin.map_err(|status| status.context(format!("executable plugin `{}`", path.display())))
    }

    /// Makes an instance of a plugin that is part of the program, from its query function.
    ///
    /// # Errors
    /// As for [`ExecutablePlugin::load`].
    ///
    /// # Safety
    /// The function must be the query function of a plugin that keeps to the interface, from any thread, and what it
    /// returns must be valid as long as the program runs.
    pub unsafe fn from_query(query: ExecutablePluginQuery, params: &[(&str, &str)]) -> Result<ExecutablePlugin> {
        // SAFETY: the caller guarantees that the function is the query function of a plugin that keeps to the
        // interface.
        unsafe { Self::start(query, PluginCode::Linked, params) }
    }

    /// The name in the plugin's header.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// # Safety
    /// As for [`ExecutablePlugin::from_query`], for as long as `code` lives.
    unsafe fn start(
        query: ExecutablePluginQuery,
        code: PluginCode,
        params: &[(&str, &str)],
    ) -> Result<ExecutablePlugin> {
        // SAFETY: the caller guarantees that the function has this type.
        let plugin = unsafe { query(EXECUTABLE_PLUGIN_VERSION, ptr::null_mut()) };
        if plugin.is_null() {
            let message = format!("it does not support version {EXECUTABLE_PLUGIN_VERSION} of the plugin interface");
            return Err(Status::incompatible(message));
        }
        // SAFETY: what it returns points to a header, in all versions.
        let header = unsafe { plugin.cast::<*const abi::ExecutablePluginHeader>().read() };
        if header.is_null() {
            return Err(Status::failed_precondition("it has no header"));
        }
        // SAFETY: what it returns points to a header, in all versions. All versions have these fields.
        let header = unsafe { header.read() };
        if header.version != EXECUTABLE_PLUGIN_VERSION {
            return Err(Status::incompatible(format!(
                "version {} of the plugin interface: expected {EXECUTABLE_PLUGIN_VERSION}",
                header.version
            )));
        }
        check_features(header.features, &code)?;
        check_sanitizer("it", header.sanitizer)?;
        // SAFETY: names are null or end with a zero.
        let name = unsafe { text(header.name) }.into_owned();
        // SAFETY: the version is the one whose structs these are.
        let plugin = unsafe { plugin.read() };
        let (Some(load), Some(_)) = (plugin.load, plugin.resolve) else {
            return Err(Status::failed_precondition(format!("plugin `{name}` has no functions to load or resolve")));
        };
        let string = |text: &str| PluginString { data: text.as_ptr(), size: text.len() as u64 };
        let params = params.iter().map(|(key, value)| PluginStringPair { key: string(key), value: string(value) });
        let params: Vec<PluginStringPair> = params.collect();
        let mut this = ptr::null_mut();
        let allocator = PluginAllocator { this: ptr::null_mut(), control: Some(control_allocator) };
        let environment = PluginEnvironment { host_allocator: allocator };
        // SAFETY: everything is valid until it returns, and the allocator, which has no state, for good.
        let result = unsafe { load(&raw const environment, params.len() as u64, params.as_ptr(), &raw mut this) };
        check_status(result).map_err(|status| status.context(format!("loading plugin `{name}`")))?;
        Ok(ExecutablePlugin { name, plugin, this, _code: code })
    }
}

impl Drop for ExecutablePlugin {
    fn drop(&mut self) {
        if let Some(unload) = self.plugin.unload {
            // SAFETY: the instance was made by this plugin and is not used again.
            unsafe { unload(self.this) };
        }
    }
}

// SAFETY: the caller of `load` guarantees it of the functions of the plugin; they live as long as the instance.
unsafe impl ImportProvider for ExecutablePlugin {
    fn resolve(&self, name: &str) -> Option<Import> {
        let name = CString::new(name).ok()?;
        let (mut function, mut context) = (ptr::null_mut(), ptr::null_mut());
        self.resolve_all(&[name.as_ptr().cast()], &raw mut function, &raw mut context).ok()?;
        // SAFETY: the plugin stores a function of this type, or leaves the null, which is none.
        let function = unsafe { mem::transmute::<*mut c_void, Option<Function>>(function) };
        function.map(|function| Import { function, context })
    }

    fn fill(&self, imports: &mut ImportTable) -> Result<()> {
        let names: Vec<*const u8> = imports.names().map(|name| name.as_ptr().cast()).collect();
        let result = self.resolve_all(&names, imports.functions().cast(), imports.contexts());
        result.map_err(|status| status.context(format!("resolving imports with plugin `{}`", self.name)))
    }
}

impl ExecutablePlugin {
    /// Lets the plugin set the functions that it provides; missing ones are no failure.
    fn resolve_all(&self, names: &[*const u8], functions: *mut *mut c_void, contexts: *mut *mut c_void) -> Result<()> {
        let Some(resolve) = self.plugin.resolve else { return Ok(()) };
        let params =
            PluginResolveParams { count: names.len() as u64, symbol_names: names.as_ptr(), functions, contexts };
        let mut resolution = 0;
        // SAFETY: the arrays are as long as the count says; the names end with zeros.
        match check_status(unsafe { resolve(self.this, &raw const params, &raw mut resolution) }) {
            // Another provider may have them; `ImportTable::resolve` reports what is missing in the end.
            Err(status) if status.code() == StatusCode::NotFound => Ok(()),
            result => result,
        }
    }
}

/// Opens the file of a plugin and finds its query function.
///
/// # Safety
/// As for [`ExecutablePlugin::load`].
unsafe fn open(path: &Path) -> Result<(ExecutablePluginQuery, PluginCode)> {
    let marked = path.to_str().and_then(|path| path.strip_prefix(EMBEDDED_PREFIX)).map(Path::new);
    let path = marked.unwrap_or(path);
    // A name without a folder would be searched for in the system's folders, and opening a pipe may block for ever.
    let file = path.canonicalize().map_err(|error| Status::not_found("there is no such file").with_source(error))?;
    if !file.is_file() {
        return Err(Status::invalid_argument("expected a file"));
    }
    let no_plugin = || {
        let symbol = EXECUTABLE_PLUGIN_QUERY_SYMBOL;
        Status::invalid_argument(format!("it is no executable plugin: it does not export `{symbol}`"))
    };
    if marked.is_some() || path.extension() == Some(OsStr::new(EMBEDDED_EXTENSION)) {
        let bytes = std::fs::read(&file).map_err(|error| Status::not_found("it cannot be read").with_source(error))?;
        let image = Box::new(ElfImage::load(&bytes)?);
        let query = image.function(EXECUTABLE_PLUGIN_QUERY_SYMBOL).ok_or_else(no_plugin)?;
        // SAFETY: the caller trusts the code.
        unsafe { image.initialize() };
        // SAFETY: the address is code of the module, and the caller guarantees that the function of this name has this
        // type.
        let query = unsafe { mem::transmute::<*const (), ExecutablePluginQuery>(query as *const ()) };
        return Ok((query, PluginCode::Embedded(image)));
    }
    // SAFETY: the caller trusts the code in the file to follow the interface, and guarantees that the file does not
    // change.
    unsafe { open_with_system(&file, no_plugin) }
}

/// Opens a plugin with the system's loader.
///
/// # Safety
/// As for [`ExecutablePlugin::load`].
#[cfg(any(unix, windows))]
unsafe fn open_with_system(file: &Path, no_plugin: impl Fn() -> Status) -> Result<(ExecutablePluginQuery, PluginCode)> {
    // SAFETY: the caller trusts the library.
    let library = unsafe { Library::new(file) }
        .map_err(|error| Status::invalid_argument("it is no library that can be loaded").with_source(error))?;
    // SAFETY: the caller guarantees that the function of this name has this type.
    let query = unsafe { library.get::<ExecutablePluginQuery>(EXECUTABLE_PLUGIN_QUERY_SYMBOL.as_bytes()) };
    let query = *query.map_err(|error| no_plugin().with_source(error))?;
    Ok((query, PluginCode::System(library)))
}

/// # Safety
/// None; nothing is loaded.
#[cfg(not(any(unix, windows)))]
unsafe fn open_with_system(
    _file: &Path,
    _no_plugin: impl Fn() -> Status,
) -> Result<(ExecutablePluginQuery, PluginCode)> {
    Err(Status::unimplemented(format!("loading libraries on {}", std::env::consts::OS)))
}

fn check_features(features: u32, code: &PluginCode) -> Result<()> {
    let features = ExecutablePluginFeatures::from_bits_retain(features);
    if features.contains(ExecutablePluginFeatures::FULL_STATUS) {
        let message = "a plugin that fails with objects of the reference runtime; build it to return status codes";
        return Err(Status::unimplemented(message));
    }
    let unknown = features.bits() & !ExecutablePluginFeatures::STANDALONE.bits();
    if unknown != 0 {
        return Err(Status::incompatible(format!("it needs features {unknown:#x} that this host does not know")));
    }
    if matches!(code, PluginCode::Embedded(_)) && !features.contains(ExecutablePluginFeatures::STANDALONE) {
        return Err(Status::incompatible("an embedded plugin must be standalone, and it does not say that it is"));
    }
    Ok(())
}

/// Converts the status of a plugin.
fn check_status(status: u64) -> Result<()> {
    match status & PLUGIN_STATUS_CODE_MASK {
        0 if status == 0 => Ok(()),
        // More than a code would be an object, which plugins without `full_status` cannot make.
        code => {
            let code = StatusCode::from_number(code as u32).unwrap_or(StatusCode::Unknown);
            Err(Status::new(code, format!("the plugin failed with {}", code.name())))
        }
    }
}

/// # Safety
/// The pointer is null or that of text that ends with a zero.
unsafe fn text<'a>(pointer: *const u8) -> Cow<'a, str> {
    if pointer.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: the caller guarantees that the text ends with a zero.
    unsafe { CStr::from_ptr(pointer.cast()) }.to_string_lossy()
}

vireo_hal::kernel_functions! {
    /// The host allocator of plugins: that of C, which knows the sizes of its allocations.
    ///
    /// # Safety
    /// `params` is valid for commands that have some, `inout_pointer` always; what it refers to was allocated here, or
    /// is null.
    unsafe fn control_allocator(
        _this: *mut c_void,
        command: u32,
        params: *const PluginAllocation,
        inout_pointer: *mut *mut c_void,
    ) -> u64 {
        let length = || {
            // SAFETY: the commands that ask for it have params. No allocation is empty, so that none is null.
            usize::try_from(unsafe { (*params).byte_length }).unwrap_or(usize::MAX).max(1)
        };
        // SAFETY: the caller guarantees that the pointer is valid.
        let old = unsafe { *inout_pointer };
        let new = match PluginAllocatorCommand(command) {
            // SAFETY: any size may be asked for.
            PluginAllocatorCommand::MALLOC => unsafe { libc::malloc(length()) },
            // SAFETY: any size may be asked for.
            PluginAllocatorCommand::CALLOC => unsafe { libc::calloc(1, length()) },
            // SAFETY: the caller guarantees that the old allocation is one of ours, or null.
            PluginAllocatorCommand::REALLOC => unsafe { libc::realloc(old, length()) },
            PluginAllocatorCommand::FREE => {
                // SAFETY: the caller guarantees that the old allocation is one of ours, or null.
                unsafe { libc::free(old) };
                return 0;
            }
            _ => return StatusCode::Unimplemented as u64,
        };
        if new.is_null() {
            return StatusCode::ResourceExhausted as u64;
        }
        // SAFETY: the caller passes a pointer to its own pointer, which may be written.
        unsafe { *inout_pointer = new };
        0
    }
}
