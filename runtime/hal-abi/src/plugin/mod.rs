//! The interface between libraries: the objects of `spec/hal/` as `#[repr(C)]` vtables, in both directions. Hosts of
//! driver libraries and the libraries use it.
//!
//! Two libraries in a process share no Rust: each has its own copy of this crate, perhaps another version of it from
//! another compiler. So an object crosses as a [`RawObject`], a vtable and a pointer, and the methods of the vtable
//! take and return `#[repr(C)]` values. Vtables, mirrors of structs and the code on both sides are generated from the
//! specs; this module has their building blocks. The interface is described in `docs/driver-abi.md`.
//!
//! # A driver
//! A driver library is a `cdylib` that depends on this crate, implements [`Driver`] and exports it:
//!
//! ```
//! use std::sync::Arc;
//! use vireo::hal::Driver;
//!
//! fn create() -> vireo::Result<Arc<dyn Driver>> {
//!     Err(vireo::Status::unimplemented("this driver finds no devices"))
//! }
//!
//! vireo::export_driver!("example", create);
//! ```
//!
//! # A host
//! A host opens the library, looks up [`DRIVER_PLUGIN_SYMBOL`](crate::DRIVER_PLUGIN_SYMBOL) as a [`DriverQuery`], calls
//! it with [`DRIVER_ABI_VERSION`] and gives what it returns to [`DriverPlugin::check`]; [`DriverPlugin::create_driver`]
//! then makes an `Arc<dyn Driver>` as any other. The library must never be unloaded: its objects, and the code that
//! frees them, may be in use for ever.
//!
//! # Trust
//! A driver library is native code and trusted as such. Only accidental mistakes are checked: versions, kinds of
//! objects, null pointers, text that is not UTF-8. A panic never leaves the library it happened in: it becomes an
//! INTERNAL failure, or ends the process if the method cannot fail.

use std::fmt;
use std::sync::Arc;

pub mod convert;
#[doc(hidden)]
pub mod loopback;
pub mod object;
pub mod raw;
pub mod slice;
pub mod status;

use crate::status::{Result, Status};
use crate::{DRIVER_ABI_VERSION, DRIVER_PLUGIN_MAGIC, Driver};
pub use convert::{Abi, List, NullObject, NullOwner, Object, Owner};
pub use object::{Imported, Interface, Side, ThisLibrary};
pub use raw::{Header, RawCallback, RawList, RawObject, RawOwner};
pub use slice::RawSlice;
pub use status::RawStatus;

/// The type of the function that a driver library exports. It takes the [`DRIVER_ABI_VERSION`] of the host and returns
/// the descriptor, which is static.
pub type DriverQuery = unsafe extern "C" fn(host_abi_version: u32) -> *const DriverPlugin;

/// The descriptor of a driver library. Later versions may add fields at the end, and never change these.
#[repr(C)]
pub struct DriverPlugin {
    /// [`DRIVER_PLUGIN_MAGIC`].
    pub magic: u64,
    /// [`DRIVER_ABI_VERSION`] of the library.
    pub abi_version: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes of this struct.
    pub size: u64,
    /// Name of the driver, which is the scheme of the URIs of its devices.
    pub name: RawSlice<u8>,
    /// Creates the driver.
    pub create_driver: unsafe extern "C" fn(out: *mut RawObject) -> *mut RawStatus,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<DriverPlugin>() == 48);
    assert!(std::mem::offset_of!(DriverPlugin, name) == 24);
    assert!(std::mem::offset_of!(DriverPlugin, create_driver) == 40);
    assert!(size_of::<Header>() == 40);
    assert!(size_of::<RawStatus>() == 40);
    assert!(size_of::<RawCallback>() == 24 && size_of::<RawOwner>() == 24 && size_of::<RawList<u8>>() == 24);
    assert!(size_of::<RawObject>() == 16 && size_of::<RawSlice<u8>>() == 16);
};

// SAFETY: a descriptor is never written, and what it points to is static.
unsafe impl Sync for DriverPlugin {}
// SAFETY: a descriptor is never written, and what it points to is static.
unsafe impl Send for DriverPlugin {}

impl DriverPlugin {
    /// A descriptor of this version of the interface.
    pub const fn new(
        name: &'static str,
        create_driver: unsafe extern "C" fn(out: *mut RawObject) -> *mut RawStatus,
    ) -> DriverPlugin {
        DriverPlugin {
            magic: DRIVER_PLUGIN_MAGIC,
            abi_version: DRIVER_ABI_VERSION,
            reserved: 0,
            size: size_of::<DriverPlugin>() as u64,
            name: RawSlice { data: name.as_ptr(), length: name.len() },
            create_driver,
        }
    }

    /// The descriptor that a driver library returned.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is null or no descriptor, `INCOMPATIBLE` if it is of another version of the interface.
    ///
    /// # Safety
    /// `plugin` is null or points to memory that starts with a word and, if that is the magic number, to a descriptor.
    /// The library is never unloaded.
    pub unsafe fn check(plugin: *const DriverPlugin) -> Result<&'static DriverPlugin> {
        if plugin.is_null() {
            return Err(Status::invalid_argument("the library has no driver"));
        }
        // SAFETY: the caller guarantees that `plugin` is null or points to a word and, if that is the magic number, to
        // a descriptor, and the magic number is the first word.
        let magic = unsafe { plugin.cast::<u64>().read() };
        if magic != DRIVER_PLUGIN_MAGIC {
            let message =
                format!("the descriptor of the driver starts with {magic:#x}: expected {DRIVER_PLUGIN_MAGIC:#x}");
            return Err(Status::invalid_argument(message));
        }
        // SAFETY: these three are at the same place in all versions.
        let (abi_version, size) = unsafe { ((*plugin).abi_version, (*plugin).size) };
        if abi_version != DRIVER_ABI_VERSION {
            return Err(Status::incompatible(format!(
                "the driver has version {abi_version} of the driver interface: expected version {DRIVER_ABI_VERSION}"
            )));
        }
        if size < size_of::<DriverPlugin>() as u64 {
            let message = format!("the descriptor of the driver has {size} bytes: expected {}", size_of::<Self>());
            return Err(Status::incompatible(message));
        }
        // SAFETY: it is a whole descriptor of this version, which is static in a library that stays.
        Ok(unsafe { &*plugin })
    }

    /// The name of the driver.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the library gives null or no UTF-8.
    pub fn name(&self) -> Result<&str> {
        // SAFETY: the name is as static as the descriptor.
        unsafe { self.name.text() }.map_err(|status| status.context("the name of a driver"))
    }

    /// Creates the driver.
    ///
    /// # Errors
    /// Those of the library; `INVALID_ARGUMENT` or `INCOMPATIBLE` if what it creates is no driver of this version of
    /// the interface.
    pub fn create_driver(&self) -> Result<Arc<dyn Driver>> {
        let mut out = RawObject::NULL;
        // SAFETY: it is a function of this type, which writes an object unless it fails.
        unsafe { status::take((self.create_driver)(&raw mut out)) }?;
        // SAFETY: the object is ours.
        unsafe { import_object(out) }
    }
}

impl fmt::Debug for DriverPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DriverPlugin({}, version {})", self.name().unwrap_or("?"), self.abi_version)
    }
}

/// A reference to `object` for another library, which has to release it.
pub fn export_object<T: ?Sized + Interface<ThisLibrary>>(object: &Arc<T>) -> RawObject {
    object::export::<ThisLibrary, T>(object)
}

/// Takes over a reference to an object of another library.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is null or another kind of object, `INCOMPATIBLE` if it is of another version of the
/// interface.
///
/// # Safety
/// `raw` is null, or a valid reference that the caller owns and does not use again.
pub unsafe fn import_object<T: ?Sized + Interface<ThisLibrary>>(raw: RawObject) -> Result<Arc<T>> {
    // SAFETY: the caller guarantees that `raw` is null or a reference that it owns and does not use again.
    let object = unsafe { object::import::<ThisLibrary, T>(raw) };
    // SAFETY: the caller guarantees that `raw` is null or a reference that it owns and does not use again; `import`
    // took a reference of its own.
    unsafe { object::release_object(raw) };
    object
}

/// The body of the function that [`export_driver!`](crate::export_driver) exports for creating the driver.
///
/// # Safety
/// `out` points to memory for a [`RawObject`].
#[doc(hidden)]
pub unsafe fn write_driver(create: impl FnOnce() -> Result<Arc<dyn Driver>>, out: *mut RawObject) -> *mut RawStatus {
    object::guard("create_driver", || {
        let driver = create()?;
        // SAFETY: the caller guarantees that `out` points to memory for a [`RawObject`].
        unsafe { out.write(export_object(&driver)) };
        Ok(())
    })
}

/// Makes the crate a driver library: `export_driver!("name", create)` exports the driver that the function `create`, of
/// type `FnOnce() -> Result<Arc<dyn Driver>>`, creates. It may be used once in a library.
#[macro_export]
macro_rules! export_driver {
    ($name:expr, $create:expr) => {
        /// Describes the driver of this library.
        #[unsafe(no_mangle)]
        pub extern "C" fn vireo_driver_plugin(_host_abi_version: u32) -> *const $crate::plugin::DriverPlugin {
            unsafe extern "C" fn create_driver(out: *mut $crate::plugin::RawObject) -> *mut $crate::plugin::RawStatus {
                // SAFETY: the host passes memory for the object.
                unsafe { $crate::plugin::write_driver($create, out) }
            }
            static PLUGIN: $crate::plugin::DriverPlugin = $crate::plugin::DriverPlugin::new($name, create_driver);
            &raw const PLUGIN
        }
    };
}
