//! Contexts that run kernels ([`KernelContext`]): one for each thread that runs workgroups, with the objects of the
//! kernels' arguments.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::hal::host_kernels::{Arguments, FloatState};
use crate::limits::{Limits, StepCounter, scope};
use crate::status::{Result, Status};
use crate::vm::list::ListType;
use crate::vm::{Buffer, Context, List, Obj, Object};
use vireo_vm::abi::callees::{KernelArgumentList, KernelArguments, SetConstantsArgumentList, SetConstantsArguments};
use vireo_vm::buffer::Loan;
use vireo_vm::interp::TypedTarget;
use vireo_vm::interp::machine::lent_references::LendableObjects;

/// Workgroups between two checks of the limits.
const LIMITS_INTERVAL: u32 = 256;

/// A context in which one thread at a time runs kernels. Its objects are made once, so running a kernel allocates
/// nothing.
pub(super) struct KernelContext {
    lent: LentBuffers,
    /// The kernels that have run, by their ordinals.
    kernels: Vec<Option<PreparedKernel>>,
    /// How often a kernel may have kept references to its arguments, or changed lists that an earlier one has kept.
    changes: u64,
    /// The limits of the last run, if it had some.
    last_limits: Option<Arc<Limits>>,
    // Dropped last: its de-initialisers may use buffers that the program kept, which are empty by then.
    context: Context,
}

/// A kernel that has run, with its arguments.
struct PreparedKernel {
    target: TypedTarget<KernelArgumentList, ()>,
    arguments: KernelArguments,
    list: LendableObjects,
    /// The number of bindings in the list, and the number of changes when it was made.
    bindings: usize,
    changes: u64,
}

/// The buffers that kernels get. Only code in this context can have references to them.
struct LentBuffers {
    local_memory: Loan,
    constants: Loan,
    bindings: Vec<Loan>,
}

/// Workgroups of a dispatch.
pub(super) struct Workgroups<'a> {
    pub arguments: &'a Arguments<'a>,
    /// Numbers of workgroups; x varies fastest.
    pub range: Range<u64>,
    pub local_memory: *mut u8,
    pub local_memory_size: u32,
}

// SAFETY: the buffers are empty whenever the context is not borrowed for a run, which stays on one thread.
unsafe impl Send for LentBuffers {}

impl LentBuffers {
    /// Lends the memory of a dispatch.
    ///
    /// # Safety
    /// All of it must be valid until [`LentBuffers::end`], for writes too where the bindings say so.
    unsafe fn begin(&mut self, workgroups: &Workgroups<'_>) {
        let Arguments { constants, bindings, .. } = workgroups.arguments;
        self.bindings.resize_with(bindings.pointers().len().max(self.bindings.len()), Loan::default);
        // SAFETY: the caller guarantees that the memory is valid until [`LentBuffers::end`], for writes too where the
        // bindings say so. The program does not run, so nothing else uses the buffers, and constants are not mutable.
        unsafe {
            self.local_memory.begin(workgroups.local_memory, workgroups.local_memory_size as usize, true);
            self.constants.begin(constants.as_ptr().cast_mut().cast(), size_of_val(*constants), false);
            let memory = bindings.pointers().iter().zip(bindings.lengths()).enumerate();
            for (loan, (index, (data, length))) in self.bindings.iter_mut().zip(memory) {
                // Mapped memory fits the address space.
                loan.begin(data.cast(), *length as usize, bindings.is_writable(index));
            }
        }
    }

    /// Ends all loans.
    fn end(&mut self) {
        // SAFETY: the program does not run, so nothing uses the buffers.
        unsafe {
            self.local_memory.end();
            self.constants.end();
            self.bindings.iter_mut().for_each(|loan| loan.end());
        }
    }
}

/// Ends the loans when it is dropped, also by an early return or unwinding.
struct LoanGuard<'a>(&'a mut LentBuffers);

impl Drop for LoanGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl KernelContext {
    /// Takes a context in which nothing else runs.
    pub fn new(context: Context) -> Result<KernelContext> {
        let lent = LentBuffers { local_memory: Loan::default(), constants: Loan::default(), bindings: Vec::new() };
        Ok(KernelContext { lent, kernels: Vec::new(), changes: 0, last_limits: None, context })
    }

    fn kernel(&self, module: usize, kernel: usize) -> Result<PreparedKernel> {
        let target = self.context.typed_at(module, kernel)?;
        let list = Obj::new(List::new(ListType::Ref(Buffer::TYPE_NAME.to_string()), 0)?);
        let (memory, constants) = (self.lent.local_memory.object().clone(), self.lent.constants.object().clone());
        let arguments = KernelArguments::new(memory, constants, list.clone());
        Ok(PreparedKernel { target, arguments, list: LendableObjects::new(list), bindings: 0, changes: self.changes })
    }

    /// Calls the function that takes the constants of the executable.
    pub fn set_constants(&mut self, module: usize, setter: usize, values: &[u32]) -> Result<()> {
        // SAFETY: the values outlive the call, after which the loan ends, and they are not mutable.
        unsafe { self.lent.constants.begin(values.as_ptr().cast_mut().cast(), size_of_val(values), false) };
        let arguments = SetConstantsArguments::new(self.lent.constants.object().clone());
        let loan_guard = LoanGuard(&mut self.lent);
        let result = self.context.typed_at::<SetConstantsArgumentList, ()>(module, setter).and_then(|setter| {
            let started = scope::start(self.context.limits());
            let limits = started.as_ref().map_or(self.context.limits(), |started| &started.limits);
            self.context.call_within(&setter, limits, arguments.list())
        });
        drop(loan_guard);
        result
    }

    /// Runs workgroups of a kernel in order.
    ///
    /// # Safety
    /// The workgroup memory must have its size and be used by nothing else.
    pub unsafe fn run(&mut self, module: usize, kernel: usize, workgroups: Workgroups<'_>) -> Result<()> {
        if self.kernels.get(kernel).is_none_or(Option::is_none) {
            let first = self.kernel(module, kernel)?;
            self.kernels.resize_with(self.kernels.len().max(kernel + 1), || None);
            self.kernels[kernel] = Some(first);
        }
        let KernelContext { lent, kernels, changes, last_limits, context } = self;
        let Some(PreparedKernel { target, arguments, list, bindings: listed, changes: known }) = &mut kernels[kernel]
        else {
            unreachable!("it was made above");
        };
        let grid = workgroups.arguments.grid;
        let count = workgroups.arguments.bindings.pointers().len();
        // SAFETY: bindings and constants live as long as the arguments of the dispatch, and so does the workgroup
        // memory.
        unsafe { lent.begin(&workgroups) };
        let loan_guard = LoanGuard(lent);
        arguments.set_workgroup_size(grid.size.map(|size| size.max(1) as i32));
        arguments.set_workgroup_count(grid.count.map(|count| count as i32));
        let _float_state = FloatState::for_kernels();
        let started = scope::start_again(context.limits(), last_limits);
        let limits = started.as_ref().map(|started| &*started.limits);
        // A workgroup without loops checks no limits itself.
        let mut counter = limits.map(|limits| StepCounter::new(limits, LIMITS_INTERVAL));
        let end = workgroups.range.end.max(workgroups.range.start);
        // A workgroup computes a few elements, so what is stored for each is what cannot be had otherwise: the one that
        // fails is known by the number of those that are left.
        let (mut left, mut is_counting) = (end - workgroups.range.start, false);
        let mut position = grid.position(workgroups.range.start);
        let bindings = &loan_guard.0.bindings[..count];
        // A kernel that kept the list may have passed it to another one, which changed it.
        if *listed != count || known != changes {
            list.forget_elements();
        }
        let first = left;
        let next = |arguments: &mut KernelArguments, changed: Option<&Obj<List>>| {
            if changed.is_some() && left != first {
                *changes += 1;
            }
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            if let Some(counter) = &mut counter {
                is_counting = true;
                counter.count()?;
                is_counting = false;
            }
            // Each number by itself: what has just been written in parts is slow to read as a whole.
            let [x, y, z] = position;
            arguments.set_workgroup_id([x as i32, y as i32, z as i32]);
            position = grid.next(position);
            if let Some(list) = changed {
                list.assign(bindings.iter().map(|loan| loan.object().as_ref()));
            }
            Ok(true)
        };
        // SAFETY: the list belongs to this context, whose program runs on this thread only; `next` changes it if it
        // gets it. The elements are known only if no kernel has done anything since that could have changed them.
        let called = unsafe { context.call_each(target, limits, list, arguments, next) };
        // That includes what a kernel has done before it failed.
        *changes += u64::from(list.changed().is_some());
        (*listed, *known) = (count, *changes);
        // Counting and running workgroups stop at an error.
        called.map_err(|status| match left == first || is_counting {
            true => status,
            false => in_workgroup(status, grid.position(end - left - 1)),
        })?;
        drop(counter);
        *last_limits = started.map(|started| started.limits);
        Ok(())
    }
}

#[cold]
fn in_workgroup(status: Status, [x, y, z]: [u32; 3]) -> Status {
    status.context(format!("workgroup {x},{y},{z}"))
}

impl fmt::Debug for KernelContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session of {:?}", self.context)
    }
}
