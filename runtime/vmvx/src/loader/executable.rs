//! The executable in portable bytecode ([`VmvxExecutable`]): its kernels, and contexts to run them in. The loader makes
//! it, and devices run it.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::kernel_context::{KernelContext, Workgroups};
use crate::bytecode::opcode::{DEINITIALIZER, INITIALIZER};
use crate::hal::executable_library::WORKGROUP_LOCAL_MEMORY_PAGE_SIZE;
use crate::hal::host_kernels::{Arguments, HostKernels, KernelTiming, WorkgroupMemory};
use crate::hal::vmvx_format::{BINDING_COUNT_ATTRIBUTE, CONSTANT_COUNT_ATTRIBUTE, LOCAL_MEMORY_ATTRIBUTE};
use crate::hal::{
    Executable, ExecutableFunction, ExecutableFunctionFlags, ExecutableFunctionInfo, Progress, report_count,
};
use crate::limits::Charge;
use crate::limits::{DispatchMode, Limits, Tier};
use crate::status::{Result, Status};
use crate::vm::{Context, ExportInfo, LinkedModules, MachineCode, Module};
use vireo_core::shard::{Padded, SHARDS, own_shard};
use vireo_vm::abi::callees::{KernelArguments, SetConstantsArguments};

const ENTRY_CONVENTION: &str = KernelArguments::CONVENTION;
const SET_CONSTANTS: &str = SetConstantsArguments::SYMBOL;
const SET_CONSTANTS_CONVENTION: &str = SetConstantsArguments::CONVENTION;

/// Index of the executable's own module in its contexts, after the `vmvx` module.
const OWN_MODULE: usize = 1;

/// A kernel.
#[derive(Debug)]
struct BytecodeKernel {
    name: String,
    ordinal: usize,
    local_memory: u32,
    /// Numbers of constants and bindings, if its attributes state them. The VM checks all actual accesses.
    constants: Option<u16>,
    bindings: Option<u16>,
    timing: KernelTiming,
}

/// An executable in portable bytecode.
#[derive(Debug)]
pub struct VmvxExecutable {
    name: String,
    kernels: Vec<BytecodeKernel>,
    constants: Constants,
    /// The kernels' module, linked.
    linked: LinkedModules,
    limits: Limits,
    /// Contexts, one for a shard of threads. A thread holds the lock of the one that it uses, rather that of its own
    /// shard. There are as many as threads ever ran workgroups at once.
    contexts: [Slot; SHARDS],
    /// Idle contexts of threads that found all slots in use.
    spare: Mutex<Vec<KernelContext>>,
    /// The charge for the memory of the module.
    _charge: Charge,
}

/// The context of a shard, once one of its threads or of another shard has needed it.
type Slot = Padded<Mutex<Option<KernelContext>>>;

/// The constants of the executable and the function that takes them.
#[derive(Debug)]
struct Constants {
    values: Box<[u32]>,
    setter: Option<usize>,
}

impl VmvxExecutable {
    /// Prepares the kernels of a module that imports `vmvx`, after which it is linked.
    pub(super) fn new(
        linked: LinkedModules,
        constants: &[u32],
        limits: Limits,
        progress: Option<&dyn Progress>,
        charge: Charge,
    ) -> Result<VmvxExecutable> {
        let module = linked.modules().get(OWN_MODULE).ok_or_else(|| Status::internal("no kernels are linked"))?;
        let name = module.name().to_string();
        // All exports but those that the runtime itself calls; kernels may have other reserved names.
        let is_kernel = |export: &ExportInfo<'_>| ![INITIALIZER, DEINITIALIZER, SET_CONSTANTS].contains(&export.name);
        let exports = module.all_exports().filter(is_kernel);
        let kernels = exports.map(|export| kernel(module, &export)).collect::<Result<_>>()?;
        let setter = module.exports_named(SET_CONSTANTS).next();
        if let Some(setter) = setter.as_ref().filter(|setter| setter.convention.to_string() != SET_CONSTANTS_CONVENTION)
        {
            return Err(Status::invalid_argument(format!(
                "`{SET_CONSTANTS}` has the calling convention `{}`: expected `{SET_CONSTANTS_CONVENTION}`",
                setter.convention
            )));
        }
        if setter.is_some() == constants.is_empty() {
            let takes = if setter.is_some() { "takes" } else { "does not take" };
            let given = constants.len();
            return Err(Status::invalid_argument(format!("the executable {takes} constants, {given} are given")));
        }
        let constants = Constants { values: constants.into(), setter: setter.map(|setter| setter.ordinal) };
        let compiles = limits.tier == Tier::Compiled;
        let first = linked.context(limits.clone())?;
        if compiles {
            match progress {
                Some(progress) => first.compile_with(OWN_MODULE, report_count(progress)),
                None => first.compile(OWN_MODULE),
            }
        } else if limits.dispatch == DispatchMode::Kernels {
            first.compile_in_background(OWN_MODULE);
        }
        // Errors of the constants should show now, not at the first dispatch.
        let mut contexts: [Slot; SHARDS] = Default::default();
        contexts[own_shard()] = Padded(Mutex::new(Some(constants.kernel_context(first)?)));
        let spare = Mutex::default();
        Ok(VmvxExecutable { name, kernels, constants, linked, limits, contexts, spare, _charge: charge })
    }

    /// The modules that are linked.
    pub(super) fn linked(&self) -> &LinkedModules {
        &self.linked
    }

    /// The bytes that it was made of.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        Some(self.linked.modules().get(OWN_MODULE)?.archive()?.bytes())
    }

    /// The machine code that its functions have so far, and which ones the interpreter runs.
    pub(super) fn machine_code(&self) -> MachineCode {
        self.linked.machine_code(OWN_MODULE)
    }

    fn kernel(&self, function: ExecutableFunction) -> Result<&BytecodeKernel> {
        let index = usize::try_from(function.0).ok();
        index.and_then(|index| self.kernels.get(index)).ok_or_else(|| {
            let count = self.kernels.len();
            Status::out_of_range(format!(
                "function {}: the executable `{}` has {count} functions",
                function.0, self.name
            ))
        })
    }

    /// Calls `run` with an idle context, rather with one that this thread has used: it need not be fetched from another
    /// processor.
    fn with_kernel_context<R>(&self, run: impl FnOnce(&mut KernelContext) -> Result<R>) -> Result<R> {
        let (before, from_own) = self.contexts.split_at(own_shard());
        let free = || from_own.iter().chain(before).filter_map(lock);
        let Some(mut slot) = free().find(|slot| slot.is_some()).or_else(|| free().next()) else {
            return self.with_spare_context(run);
        };
        match &mut *slot {
            Some(kernel_context) => run(kernel_context),
            none => run(none.insert(self.kernel_context()?)),
        }
    }

    #[cold]
    fn with_spare_context<R>(&self, run: impl FnOnce(&mut KernelContext) -> Result<R>) -> Result<R> {
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let found = spare().pop();
        let mut kernel_context = found.map_or_else(|| self.kernel_context(), Ok)?;
        let result = run(&mut kernel_context);
        spare().push(kernel_context);
        result
    }

    #[cold]
    fn kernel_context(&self) -> Result<KernelContext> {
        self.constants.kernel_context(self.linked.context(self.limits.clone())?)
    }
}

/// Locks a slot, if no thread uses it.
fn lock(Padded(slot): &Slot) -> Option<MutexGuard<'_, Option<KernelContext>>> {
    match slot.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(poisoned)) => {
            // The context is not used again after a panic.
            slot.clear_poison();
            let mut guard = poisoned.into_inner();
            *guard = None;
            Some(guard)
        }
    }
}

impl Constants {
    /// Prepares a context: sets its constants.
    fn kernel_context(&self, context: Context) -> Result<KernelContext> {
        let mut kernel_context = KernelContext::new(context)?;
        if let Some(setter) = self.setter {
            kernel_context.set_constants(OWN_MODULE, setter, &self.values)?;
        }
        Ok(kernel_context)
    }
}

fn kernel(module: &Module, export: &ExportInfo<'_>) -> Result<BytecodeKernel> {
    let name = export.name.to_string();
    if export.convention.to_string() != ENTRY_CONVENTION {
        let message = format!(
            "kernel `{name}` has the calling convention `{}`: expected `{ENTRY_CONVENTION}`",
            export.convention
        );
        return Err(Status::invalid_argument(message));
    }
    let function = module.archive().and_then(|archive| archive.function(export.ordinal));
    let attribute = |key: &str| -> Result<Option<u32>> {
        let value = function.as_ref().and_then(|function| function.attrs().find(|(name, _)| *name == key));
        let number = |(_, text): (&str, &str)| {
            text.parse().map_err(|_| {
                let text = text.escape_debug();
                Status::invalid_argument(format!("kernel `{name}`: attribute {key} is \"{text}\", expected a number"))
            })
        };
        value.map(number).transpose()
    };
    let count = |key: &str| -> Result<Option<u16>> {
        attribute(key)?
            .map(u16::try_from)
            .transpose()
            .map_err(|_| Status::out_of_range(format!("kernel `{name}`: attribute {key} is above {}", u16::MAX)))
    };
    let (constants, bindings) = (count(CONSTANT_COUNT_ATTRIBUTE)?, count(BINDING_COUNT_ATTRIBUTE)?);
    // Compilers do not write a count of zero; without either attribute, it may be a compiler that writes none of them.
    let known = constants.is_some() || bindings.is_some();
    let or_zero = |count: Option<u16>| if known { Some(count.unwrap_or(0)) } else { None };
    let local_memory = attribute(LOCAL_MEMORY_ATTRIBUTE)?.unwrap_or(0);
    let local_memory = local_memory.checked_next_multiple_of(WORKGROUP_LOCAL_MEMORY_PAGE_SIZE).ok_or_else(|| {
        Status::out_of_range(format!("kernel `{name}`: {local_memory} bytes of workgroup memory do not fit 32 bits"))
    })?;
    let (constants, bindings, ordinal) = (or_zero(constants), or_zero(bindings), export.ordinal);
    Ok(BytecodeKernel { name, ordinal, local_memory, constants, bindings, timing: KernelTiming::default() })
}

impl Executable for VmvxExecutable {
    fn function_count(&self) -> u32 {
        self.kernels.len() as u32
    }

    fn function_info(&self, function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        let kernel = self.kernel(function)?;
        Ok(ExecutableFunctionInfo {
            name: kernel.name.clone(),
            flags: ExecutableFunctionFlags::empty(),
            constant_count: kernel.constants.unwrap_or(0),
            binding_count: kernel.bindings.unwrap_or(0),
            parameter_count: 0,
            workgroup_size: [0; 3],
        })
    }

    fn lookup_function(&self, name: &str) -> Result<ExecutableFunction> {
        let index = self.kernels.iter().position(|kernel| kernel.name == name);
        index.map(|index| ExecutableFunction(index as u64)).ok_or_else(|| {
            let names: Vec<&str> = self.kernels.iter().take(8).map(|kernel| kernel.name.as_str()).collect();
            Status::not_found(format!("the executable has no function `{name}`; it has {}", names.join(", ")))
        })
    }

    fn host_kernels(self: Arc<Self>) -> Option<Arc<dyn HostKernels>> {
        Some(self)
    }
}

impl HostKernels for VmvxExecutable {
    fn name(&self, function: ExecutableFunction) -> &str {
        self.kernel(function).map_or("an unknown function", |kernel| &kernel.name)
    }

    fn check_arguments(&self, function: ExecutableFunction, constants: usize, bindings: usize) -> Result<()> {
        let kernel = self.kernel(function)?;
        for (what, given, expected) in
            [("constants", constants, kernel.constants), ("bindings", bindings, kernel.bindings)]
        {
            if let Some(expected) = expected.filter(|expected| usize::from(*expected) != given) {
                let message = format!("kernel `{}` takes {expected} {what}, {given} are given", kernel.name);
                return Err(Status::invalid_argument(message));
            }
        }
        Ok(())
    }

    fn limits(&self) -> Option<&Limits> {
        Some(&self.limits).filter(|limits| limits.is_armed())
    }

    fn timing(&self, function: ExecutableFunction) -> Option<&KernelTiming> {
        self.kernel(function).ok().map(|kernel| &kernel.timing)
    }

    unsafe fn run(
        &self,
        function: ExecutableFunction,
        arguments: &Arguments<'_>,
        workgroups: Range<u64>,
        workgroup_memory: &mut WorkgroupMemory,
    ) -> Result<()> {
        let kernel = self.kernel(function)?;
        let local_memory_size = kernel
            .local_memory
            .checked_add(arguments.grid.local_memory)
            .ok_or_else(|| Status::resource_exhausted("workgroup memory does not fit 32 bits"))?;
        let _charge = Charge::of_call(local_memory_size.into(), "memory of a workgroup")?;
        // Zeroed, since kernels of other programs may have left data there.
        let local_memory = arguments.zeroed_local_memory(workgroup_memory, local_memory_size)?;
        let workgroups = Workgroups { arguments, range: workgroups, local_memory, local_memory_size };
        self.with_kernel_context(|kernel_context| {
            // SAFETY: the thread's memory is not lent again until this returns, and it has as many bytes.
            unsafe { kernel_context.run(OWN_MODULE, kernel.ordinal, workgroups) }
        })
        .map_err(|status| status.context(format!("kernel `{}`", kernel.name)))
    }
}
