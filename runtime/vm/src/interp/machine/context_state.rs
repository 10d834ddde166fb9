//! [`ContextState`]: the state of the modules of a context. A context makes it, and it is borrowed exclusively while an
//! invocation is polled. Indices of modules are those of the module list.

use std::any::Any;
use std::mem::ManuallyDrop;

use super::bound_modules::{BoundModule, ModuleList};
use crate::Buffer;
use crate::Call;
use crate::Ref;
use crate::limits::Charge;
use crate::status::Result;
use crate::status::Status;

/// The state of all modules of a module list.
#[derive(Default)]
pub struct ContextState {
    /// By module index.
    pub modules: Vec<ModuleState>,
    /// The call object of the native call that runs, or of the last one, which the next one reuses.
    pub recycled_call: Option<Box<Call>>,
}

/// The state of one module.
pub enum ModuleState {
    /// Globals and constants of a bytecode module.
    Bytecode {
        /// Value globals.
        globals: Vec<u8>,
        /// Ref globals.
        refs: Vec<Option<Ref>>,
        /// The rodata segments, each an object of this context: threads that count the references of one object wait
        /// for each other.
        rodata: Vec<RodataSegment>,
        /// Charges their memory to the call that created the context.
        _charge: Charge,
    },
    /// The state of a native module, of a type of its own.
    Native(Box<dyn Any + Send>),
}

/// A rodata segment in the state of a context. It has a cache line of its own, because calls take and give back the
/// spare reference.
#[repr(C, align(64))]
pub struct RodataSegment {
    /// The first field: machine code loads it from there.
    segment: Ref,
    /// A reference for the next load of the segment: most are passed to native functions that only read them, and
    /// counting a reference takes as long as twenty other instructions.
    spare: Option<Ref>,
}

impl RodataSegment {
    fn new(segment: Ref) -> RodataSegment {
        RodataSegment { segment, spare: None }
    }

    /// A reference to the segment.
    #[inline]
    pub fn load(&mut self) -> Ref {
        self.spare.take().unwrap_or_else(|| self.segment.clone())
    }

    /// A copy of the reference to the segment that is not counted. It is good for as long as the state lives.
    #[inline]
    pub fn lend(&self) -> ManuallyDrop<Ref> {
        // SAFETY: the copy is not dropped.
        ManuallyDrop::new(unsafe { std::ptr::read(&self.segment) })
    }

    /// Takes a reference that is not needed any more, if it is one to the segment; else it is dropped.
    #[inline]
    pub fn give_back(&mut self, reference: Ref) {
        if self.spare.is_none() && reference.is_same_object(&self.segment) {
            self.spare = Some(reference);
        }
    }
}

impl ContextState {
    /// New state for the modules of `module_list`: zero globals, null references, new native states. No initialiser
    /// runs.
    ///
    /// # Errors
    /// As [`ModuleState::new`].
    pub fn new(module_list: &ModuleList) -> Result<ContextState> {
        let modules = module_list.modules.iter().map(ModuleState::new).collect::<Result<_>>()?;
        Ok(ContextState { modules, ..ContextState::default() })
    }
}

impl ModuleState {
    /// New state for one module.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory for the globals or the budget of the call has not as much left, and
    /// those of [`NativeModule::create_state`](crate::NativeModule::create_state).
    pub fn new(module: &BoundModule) -> Result<ModuleState> {
        match module {
            BoundModule::Bytecode(module) => {
                let mut globals = Vec::new();
                let mut refs = Vec::new();
                let exhausted = |what: &str, count: usize| {
                    Status::resource_exhausted(format!("module `{}`: cannot allocate {count} {what}", module.name))
                };
                let bytes = module.global_bytes as u64 + (module.global_refs * size_of::<Option<Ref>>()) as u64;
                let charge = Charge::of_call(bytes, "globals")?;
                globals
                    .try_reserve_exact(module.global_bytes)
                    .map_err(|_| exhausted("bytes of globals", module.global_bytes))?;
                refs.try_reserve_exact(module.global_refs).map_err(|_| exhausted("ref globals", module.global_refs))?;
                globals.resize(module.global_bytes, 0);
                refs.resize(module.global_refs, None);
                let rodata = module.rodata.iter().map(Buffer::over_same_bytes).map(RodataSegment::new).collect();
                Ok(ModuleState::Bytecode { globals, refs, rodata, _charge: charge })
            }
            BoundModule::Native(module, _) => Ok(ModuleState::Native(module.create_state()?)),
        }
    }
}
