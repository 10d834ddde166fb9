//! Driver libraries: opens a shared library and registers a factory of its driver, for hosts. What crosses the boundary
//! afterwards is in [`plugin`](crate::plugin).

use std::fmt;
use std::mem;
use std::path::Path;
use std::sync::Arc;

use libloading::Library;

use vireo_hal::{DriverFactory, DriverInfo, DriverRegistry};

use crate::plugin::{DriverPlugin, DriverQuery};
use crate::status::{Result, Status};
use crate::{DRIVER_ABI_VERSION, DRIVER_PLUGIN_SYMBOL, Driver};

/// Loads a driver library and registers its driver, which is created when it is first used.
///
/// The library stays loaded until the process ends: its objects, their memory and the code that frees them may be in
/// use for as long. Loading it again is allowed and changes nothing.
///
/// # Errors
/// `NOT_FOUND` if there is no such file, `INVALID_ARGUMENT` if it is no library that can be loaded or no driver
/// library, `INCOMPATIBLE` if it is of another version of the driver interface, `PERMISSION_DENIED` if the policy of
/// the registry allows no machine code.
///
/// # Safety
/// The code of the library runs with all rights of the process: its initialisers now, its driver later. The caller
/// trusts it, in particular that its `vireo_driver_plugin` is a [`DriverQuery`] which follows the rules of
/// [`plugin`](crate::plugin), and that the file does not change while it is loaded.
pub unsafe fn load_driver_library(registry: &DriverRegistry, path: &Path) -> Result<DriverInfo> {
    registry.policy().allow_native_code(|| format!("driver library `{}`", path.display()))?;
    // SAFETY: the caller trusts the library, whose `vireo_driver_plugin` is a [`DriverQuery`] that follows the rules of
    // the interface.
    let plugin =
        unsafe { open(path) }.map_err(|status| status.context(format!("driver library `{}`", path.display())))?;
    let file = path.file_name().unwrap_or(path.as_os_str());
    let info = DriverInfo::new(plugin.name()?, &format!("from {}", file.display()));
    registry.register(Arc::new(PluginDriver { info: info.clone(), plugin }))?;
    Ok(info)
}

/// Opens a library, never to unload it, and queries its descriptor.
///
/// # Safety
/// As for [`load_driver_library`].
unsafe fn open(path: &Path) -> Result<&'static DriverPlugin> {
    // A name without a folder would be searched for in the system's folders, and opening a pipe may block for ever.
    let file = path.canonicalize().map_err(|error| Status::not_found("there is no such file").with_source(error))?;
    if !file.is_file() {
        return Err(Status::invalid_argument("expected a file"));
    }
    // SAFETY: the caller trusts the library.
    let library = unsafe { Library::new(&file) }
        .map_err(|error| Status::invalid_argument("it is no library that can be loaded").with_source(error))?;
    let query = {
        // SAFETY: the caller guarantees that the function of this name has this type.
        let symbol = unsafe { library.get::<DriverQuery>(DRIVER_PLUGIN_SYMBOL.as_bytes()) };
        *symbol.map_err(|error| {
            Status::invalid_argument(format!("it is no driver library: it does not export `{DRIVER_PLUGIN_SYMBOL}`"))
                .with_source(error)
        })?
    };
    // From here on objects of the library may exist, so it is never unloaded.
    mem::forget(library);
    // SAFETY: the function is that of a driver library, which is never unloaded.
    unsafe { DriverPlugin::check(query(DRIVER_ABI_VERSION)) }
}

/// The factory of a library's driver.
struct PluginDriver {
    info: DriverInfo,
    plugin: &'static DriverPlugin,
}

impl fmt::Debug for PluginDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "driver `{}` {}", self.info.name, self.info.full_name)
    }
}

impl DriverFactory for PluginDriver {
    fn drivers(&self) -> Vec<DriverInfo> {
        vec![self.info.clone()]
    }

    fn create(&self, _name: &str) -> Result<Arc<dyn Driver>> {
        self.plugin.create_driver()
    }
}
