//! Security policies: what a program may do and use, as one value for its devices and its context.
//!
//! Loaders ask a [`SecurityPolicy`] before they load native code; allocators and contexts take its limits.
//! `docs/security.md` says what each mode promises, and which tests hold it to that.

use std::time::Duration;

use crate::HeapAllocator;
use crate::limits::Limits;
use crate::limits::MemoryBudget;
use crate::status::{Result, Status};

/// The rights and limits of a program. Devices take it by `vireo::hal::BuiltinOptions`, contexts take its limits.
///
/// ```
/// use vireo::SecurityPolicy;
/// use vireo::hal::BuiltinOptions;
/// use vireo::modules::hal::HalModule;
/// use vireo::vm::{Context, Module};
///
/// # fn main() -> vireo::Result<()> {
/// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the workspace exists");
/// let policy = SecurityPolicy::untrusted();
/// let options = BuiltinOptions { policy: policy.clone(), ..BuiltinOptions::default() };
/// let device = options.registry().create_device("local-sync")?;
/// let hal = Module::native(HalModule::new(vec![device]))?;
/// // The kernels of this model are machine code.
/// let error = Context::with_limits([hal, Module::from_file("fixtures/models/abs.vmfb")?], policy.limits.clone());
/// assert!(error.is_err());
/// # Ok(())
/// # }
/// ```
///
/// A clone shares what is counted: the memory and the fuel of its limits. Sessions that are to have limits of their own
/// get a policy each.
#[derive(Clone, Debug)]
pub struct SecurityPolicy {
    /// Whether kernels may be machine code: embedded ELF files, system libraries, libraries of the program, and
    /// executable plugins.
    pub native_code: bool,
    /// Whether programs may write to parameters, where the host has opened an archive for writing. Programs never name
    /// a file.
    pub writable_parameters: bool,
    /// Whether new device memory is zero even where an earlier program has left something in it.
    pub zeroed_memory: bool,
    /// The limits of calls, and of kernels in portable bytecode. Those that do not say otherwise belong to one call.
    pub limits: Limits,
}

impl SecurityPolicy {
    /// How long a call of an untrusted program may take.
    pub const UNTRUSTED_TIMEOUT: Duration = Duration::from_secs(10);
    /// How many bytes of memory untrusted programs of one session may use together.
    pub const UNTRUSTED_MEMORY: u64 = 1 << 30;

    /// For programs that the host trusts as much as itself: kernels may be machine code, which can do all that the
    /// process can. Limits, if any, contain accidents.
    pub fn trusted() -> SecurityPolicy {
        SecurityPolicy { native_code: true, writable_parameters: true, zeroed_memory: false, limits: Limits::default() }
    }

    /// For programs that anybody may have written: only bytecode and kernels in bytecode, no files, and limits of time
    /// and memory.
    pub fn untrusted() -> SecurityPolicy {
        SecurityPolicy {
            native_code: false,
            writable_parameters: false,
            zeroed_memory: true,
            limits: Limits {
                timeout: Some(SecurityPolicy::UNTRUSTED_TIMEOUT),
                memory: Some(MemoryBudget::new(SecurityPolicy::UNTRUSTED_MEMORY)),
                ..Limits::default()
            },
        }
    }

    /// The allocator of a local device.
    pub fn allocator(&self) -> HeapAllocator {
        // With a budget no memory is used again, since free memory would have to count.
        self.limits.memory.clone().map_or_else(HeapAllocator::new, HeapAllocator::with_budget)
    }

    /// Checks that `what`, which is machine code, may be loaded.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` if the policy allows none.
    pub fn allow_native_code(&self, what: impl FnOnce() -> String) -> Result<()> {
        if self.native_code {
            return Ok(());
        }
        let what = what();
        Err(Status::permission_denied(format!("the security policy allows no machine code, which {what} would be")))
    }
}

impl Default for SecurityPolicy {
    fn default() -> SecurityPolicy {
        SecurityPolicy::trusted()
    }
}
