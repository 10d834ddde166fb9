//! Lent references: the registers of a frame hold references that are not counted, because the caller keeps its own for the whole call.
//!
//! The arguments of a ready call are lent, and so are elements that machine code reads from a lent list ([`LentList`]), while
//! [`LentReferences`] says so. Only machine code runs meanwhile, and of the ops that write reference registers it executes those in
//! [`offsets`] itself. Everything else that could keep, move or release a reference is done by the runtime, which first counts all
//! references of the frame ([`LentReferences::keep`]). From then on the frame is like any other, until it is lent to again.

use super::registers::Registers;
use super::stack::header_of;
use crate::bytecode::{Callee, VerifiedFunction};
use crate::convention::Kind;
use crate::list::List;
use crate::{Obj, Ref};

/// The references that are lent to the outermost frame of a machine.
#[derive(Debug)]
pub struct LentReferences {
    list: LentList,
    /// The elements of the list that machine code may read; zero if nothing is lent, and then all references of the frame are counted.
    count: u32,
    /// The number of reference registers of the frame.
    refs: u32,
    /// The slots of the frame.
    slots: *mut u32,
}

/// A list of buffers and its elements, as long as the list is not changed.
#[derive(Clone, Copy, Debug)]
pub struct LentList {
    /// The reference to the list, as registers hold it.
    list: *const (),
    elements: *const Option<Ref>,
    count: u32,
}

/// The layout of lent references, for machine code.
///
/// It reads element `i` of a list without the runtime if the register of the list holds [`LIST`], and `i` is below [`COUNT`]; the result is lent.
/// It makes a register null, without releasing what was in it, if [`COUNT`] is not zero.
pub mod offsets {
    use super::{LentList, LentReferences};

    const LENT: usize = std::mem::offset_of!(LentReferences, list);
    /// Offset of the reference to the list.
    pub const LIST: usize = LENT + std::mem::offset_of!(LentList, list);
    /// Offset of the address of the elements.
    pub const ELEMENTS: usize = LENT + std::mem::offset_of!(LentList, elements);
    /// Offset of the number of elements, 32 bits.
    pub const COUNT: usize = std::mem::offset_of!(LentReferences, count);
}

/// Whether references may be lent to a function: it does not pass them to functions of the module, whose frames machine code builds, and it returns
/// none. Its slots need not be zeroed.
pub fn may_be_lent_to(function: &VerifiedFunction) -> bool {
    let convention = function.convention();
    let takes_any = convention.fixed_args().is_some_and(|kinds| kinds.contains(&Kind::Ref));
    let calls_any = function.decoded().calls().iter().any(|call| matches!(call.callee, Callee::Function(_)));
    takes_any && convention.results.is_empty() && !calls_any && !function.reads_unwritten_slots()
}

impl LentList {
    /// None for a list without elements, or of something else than buffers.
    pub fn new(list: &Obj<List>) -> Option<LentList> {
        let (elements, count) = list.buffers()?;
        let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
        Some(LentList { list: list.as_ref().address(), elements, count })
    }
}

impl LentReferences {
    /// Nothing is lent.
    pub const NONE: LentReferences = LentReferences {
        list: LentList { list: std::ptr::null(), elements: std::ptr::null(), count: 0 },
        count: 0,
        refs: 0,
        slots: std::ptr::null_mut(),
    };

    /// Lends a list to a frame whose reference registers are null or lent.
    ///
    /// # Safety
    /// The frame has these slots and so many references. Until nothing is lent, only machine code uses it, all objects that are lent live, and
    /// the list is not changed.
    #[inline(always)]
    pub unsafe fn begin(&mut self, list: &LentList, slots: *mut u32, refs: u32) {
        *self = LentReferences { list: *list, count: list.count, refs, slots };
    }

    /// Makes the references of the frame null, if they are still lent.
    #[inline(always)]
    pub fn end(&mut self) -> bool {
        let is_lent = self.is_lent();
        if is_lent {
            // SAFETY: `begin` got a frame with so many references, which are before its header. Nobody has counted them.
            unsafe {
                let header = header_of(self.slots).cast::<Option<Ref>>();
                for index in 1..=self.refs as usize {
                    // Not by a function that fills memory: the next call loads what it may store by a mask, which is slow.
                    header.sub(index).write_volatile(None);
                }
            }
            self.count = 0;
        }
        is_lent
    }

    /// True if the references of the frame are not counted.
    #[inline(always)]
    pub fn is_lent(&self) -> bool {
        self.count != 0
    }

    /// Counts the references of the frame, which owns them from here on.
    #[inline(always)]
    pub fn keep(&mut self) {
        if self.is_lent() {
            self.keep_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_all(&mut self) {
        // SAFETY: `begin` got a frame with so many references, which live as long as they are lent.
        let registers = unsafe { Registers::new(self.slots, 0, self.refs as usize) };
        (0..self.refs as usize).for_each(|index| std::mem::forget(registers.reference(index).clone()));
        self.count = 0;
    }
}
