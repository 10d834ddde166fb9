//! [`DirectImport`]: an import that machine code calls directly. `call/direct_import.rs` has the functions that it
//! calls.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::NativeModule;
use crate::interp::code::import_site::ImportTarget;
use crate::native::DirectFunction;

/// An import that is bound to an export with a direct entry. Machine code has its address.
pub struct DirectImport {
    function: DirectFunction,
    pub(in crate::interp) module: Arc<dyn NativeModule>,
    pub(in crate::interp) target: ImportTarget,
}

impl DirectImport {
    /// None if the export has no direct entry, or one of another module.
    pub fn new(module: &Arc<dyn NativeModule>, target: ImportTarget) -> Option<DirectImport> {
        let entry = module.direct_entry(target.function)?;
        let of: &dyn Any = &**module;
        (of.type_id() == entry.module).then(|| DirectImport {
            function: entry.function,
            module: Arc::clone(module),
            target,
        })
    }

    /// The address of the function that machine code calls, with the machine and the address of this value.
    pub fn function(&self) -> usize {
        self.function as usize
    }
}

impl fmt::Debug for DirectImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirectImport").field(&self.target).finish()
    }
}
