//! Lent references: the registers of a frame hold references that are not counted, because the caller keeps its own for
//! the whole call.
//!
//! The arguments of a ready call are lent, and so are elements that machine code reads from a lent list ([`LentList`]),
//! while [`LentReferences`] says so. Only machine code runs meanwhile, and of the ops that write reference registers it
//! executes those in [`offsets`] itself. For those that make a new reference it calls the runtime. Data of the module,
//! which lives as long, it lends ([`LentReferences::lend`]), and small buffers that the function allocates, which are
//! kept for its next call ([`KeptBuffer`]). The frame owns larger ones ([`LentReferences::own`]). Everything else that
//! could keep, move or release a reference is done by the runtime, which first counts all references of the frame
//! ([`LentReferences::keep`]). From then on the frame is like any other, until it is lent to again.

use std::mem::ManuallyDrop;

use super::context_state::RodataSegment;
use crate::bytecode::{Callee, VerifiedFunction};
use crate::convention::Kind;
use crate::interp::frame::header::header_of;
use crate::interp::frame::registers::Registers;
use crate::list::List;
use crate::{Buffer, Obj, Ref};

/// The references that are lent to the outermost frame of a machine.
#[derive(Debug)]
pub struct LentReferences {
    list: LentList,
    /// The elements of the list that machine code may read; zero if nothing is lent, and then all references of the
    /// frame are counted.
    count: u32,
    /// The number of reference registers of the frame.
    refs: u32,
    /// The registers, of the first 64, whose references are counted all the same: bit by bit.
    owned: u64,
    /// The slots of the frame.
    slots: *mut u32,
    /// The buffers that are kept for allocations of the function.
    buffers: *mut Vec<KeptBuffer>,
    /// The data of the module.
    data: *const RodataSegment,
}

/// A list of buffers and its elements, as long as the list is not changed.
#[derive(Clone, Copy, Debug)]
pub struct LentList {
    /// The reference to the list, as registers hold it.
    list: *const (),
    elements: *const Option<Ref>,
    count: u32,
}

/// The objects that are lent to calls of one function after the other: a list of buffers, with its elements as long as
/// nothing can have changed them, and the buffers that the function allocates.
#[derive(Debug)]
pub struct LendableObjects {
    list: Obj<List>,
    pub(in crate::interp) known: Option<LentList>,
    pub(in crate::interp) buffers: Vec<KeptBuffer>,
}

/// A buffer that an op of a function allocates in each call. It is lent to the frame, unless the program has kept a
/// reference to it.
#[derive(Debug)]
pub struct KeptBuffer {
    pc: usize,
    length: u64,
    alignment: u32,
    buffer: Obj<Buffer>,
}

/// Most buffers that are kept for a function, and most bytes of one: what a workgroup computes in, not what it
/// computes.
const MAX_KEPT: usize = 8;
const MAX_KEPT_BYTES: u64 = 16 << 10;

/// The layout of lent references, for machine code.
///
/// It reads element `i` of a list without the runtime if the register of the list holds `LIST`, and `i` is below
/// `COUNT`; the result is lent. If `COUNT` is not zero, it makes a register null, without releasing what was in it, and
/// loads references to data of the module at `DATA`, which are lent, too. The register that it writes must not be one
/// of `OWNED`.
pub mod offsets {
    use crate::interp::machine::context_state::RodataSegment;
    use crate::interp::machine::lent_references::{LentList, LentReferences};

    const LENT: usize = std::mem::offset_of!(LentReferences, list);
    /// Offset of the reference to the list.
    pub const LIST: usize = LENT + std::mem::offset_of!(LentList, list);
    /// Offset of the address of the elements.
    pub const ELEMENTS: usize = LENT + std::mem::offset_of!(LentList, elements);
    /// Offset of the number of elements, 32 bits.
    pub const COUNT: usize = std::mem::offset_of!(LentReferences, count);
    /// Offset of the bits of registers that are counted, least significant byte first.
    pub const OWNED: usize = std::mem::offset_of!(LentReferences, owned);
    /// Offset of the address of the references to data of the module.
    pub const DATA: usize = std::mem::offset_of!(LentReferences, data);
    /// The distance between them.
    pub const DATA_STRIDE: usize = size_of::<RodataSegment>();
}

/// Whether references may be lent to a function: it does not pass them to functions of the module, whose frames machine
/// code builds, and it returns none. Its slots need not be zeroed.
pub fn may_be_lent_to(function: &VerifiedFunction) -> bool {
    let convention = function.convention();
    let takes_any = convention.fixed_args().is_some_and(|kinds| kinds.contains(&Kind::Ref));
    let calls_any = function.decoded().calls().iter().any(|call| matches!(call.callee, Callee::Function(_)));
    takes_any && convention.results.is_empty() && !calls_any && !function.reads_unwritten_slots()
}

// SAFETY: the elements that are known are those of its list, which is `Send`.
unsafe impl Send for LendableObjects {}

impl LendableObjects {
    /// A list that anything may have changed.
    pub fn new(list: Obj<List>) -> LendableObjects {
        LendableObjects { list, known: None, buffers: Vec::new() }
    }

    /// The list, if something may have changed it since it has been lent last.
    #[inline(always)]
    pub fn changed(&self) -> Option<&Obj<List>> {
        self.known.is_none().then_some(&self.list)
    }

    /// Something may have changed the list, other than the calls that it was lent to.
    pub fn forget_elements(&mut self) {
        self.known = None;
    }

    /// Looks at its elements, if something may have changed them.
    #[inline(always)]
    pub(in crate::interp) fn look_at_elements(&mut self) {
        if self.known.is_none() {
            self.known = LentList::new(&self.list);
        }
    }
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
        owned: 0,
        slots: std::ptr::null_mut(),
        buffers: std::ptr::null_mut(),
        data: std::ptr::null(),
    };

    /// Notes what [`LentReferences::begin`] lends: a list, buffers for allocations, and the data of the module, to a
    /// frame with these slots and so many references.
    #[inline(always)]
    pub fn prepare(
        &mut self,
        list: &LentList,
        buffers: &mut Vec<KeptBuffer>,
        data: &[RodataSegment],
        slots: *mut u32,
        refs: u32,
    ) {
        *self = LentReferences { list: *list, count: 0, refs, owned: 0, slots, buffers, data: data.as_ptr() };
    }

    /// Lends what `prepare` has noted to its frame, whose reference registers are null or lent.
    ///
    /// # Safety
    /// The frame has what `prepare` got. Until nothing is lent, only machine code uses it, all objects that are lent
    /// live, the list is not changed, and nothing else uses the buffers.
    #[inline(always)]
    pub unsafe fn begin(&mut self) {
        debug_assert_eq!(self.owned, 0, "what the frame owned has been released, or is counted");
        self.count = self.list.count;
    }

    /// Makes the references of the frame null, if they are still lent.
    #[inline(always)]
    pub fn end(&mut self) -> bool {
        let is_lent = self.is_lent();
        if is_lent {
            if self.owned != 0 {
                self.release_owned();
            }
            // SAFETY: `begin` got a frame with so many references, which are before its header. They are not counted
            // yet.
            unsafe {
                let mut reference = header_of(self.slots).cast::<Option<Ref>>();
                let first = reference.sub(self.refs as usize);
                while reference != first {
                    reference = reference.sub(1);
                    // Not by a function that fills memory: the next call loads what it may store by a mask, which is
                    // slow.
                    reference.write_volatile(None);
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
        for index in (0..self.refs as usize).filter(|index| !self.owns(*index)) {
            std::mem::forget(registers.reference(index).clone());
        }
        self.count = 0;
    }

    fn owns(&self, index: usize) -> bool {
        index < u64::BITS as usize && self.owned >> index & 1 == 1
    }

    /// Makes a register null, and releases its reference only if that is counted.
    pub fn discard(&mut self, index: usize) {
        // SAFETY: `begin` got a frame with so many references, and the verifier found the register in it.
        let mut registers = unsafe { Registers::new(self.slots, 0, self.refs as usize) };
        let reference = registers.reference_mut(index).take();
        if self.owns(index) {
            self.owned &= !(1 << index);
            drop(reference);
        } else {
            std::mem::forget(reference);
        }
    }

    /// Makes a register null, whose next reference will be counted. False if that cannot be noted.
    pub fn own(&mut self, index: usize) -> bool {
        let can_own = index < u64::BITS as usize;
        if can_own {
            self.discard(index);
            self.owned |= 1 << index;
        }
        can_own
    }

    /// Puts a reference to a register of the frame that is not counted, instead of what is there.
    ///
    /// # Safety
    /// The object lives until nothing is lent.
    pub unsafe fn lend(&mut self, index: usize, reference: ManuallyDrop<Ref>) {
        self.discard(index);
        // SAFETY: `begin` got a frame with so many references, and the verifier found the register in it. It is null.
        let mut registers = unsafe { Registers::new(self.slots, 0, self.refs as usize) };
        *registers.reference_mut(index) = Some(ManuallyDrop::into_inner(reference));
    }

    /// Lends the buffer that op `pc` has allocated before, with what is in it. None if there is none as long and
    /// aligned, and if the program has kept it. The op always writes to the same register, so a frame that has moved no
    /// reference has no other one to the buffer.
    pub fn lend_buffer(&mut self, pc: usize, length: u64, alignment: u32, index: usize) -> Option<&Buffer> {
        // SAFETY: `begin` got them, and only this uses them.
        let buffers = unsafe { &mut *self.buffers };
        let place = buffers.iter().position(|kept| kept.pc == pc)?;
        let kept = &mut buffers[place];
        if (kept.length, kept.alignment) != (length, alignment) || kept.buffer.get_mut().is_none() {
            // The register may hold it.
            self.discard(index);
            buffers.swap_remove(place);
            return None;
        }
        // SAFETY: the copy is lent. Buffers are kept until the function is not called any more.
        let (reference, buffer) = unsafe { (std::ptr::read(kept.buffer.as_ref()), &*kept.buffer.as_mut_ptr()) };
        // SAFETY: the copy is lent. Buffers are kept until the function is not called any more.
        unsafe { self.lend(index, ManuallyDrop::new(reference)) };
        Some(buffer)
    }

    /// Keeps the buffer in a register that the frame owns, which op `pc` has allocated, and lends it from here on.
    pub fn keep_buffer(&mut self, pc: usize, length: u64, alignment: u32, index: usize) {
        // SAFETY: `begin` got them, and only this uses them.
        let buffers = unsafe { &mut *self.buffers };
        if length > MAX_KEPT_BYTES || buffers.len() >= MAX_KEPT {
            return;
        }
        // SAFETY: `begin` got a frame with so many references, and the verifier found the register in it.
        let mut registers = unsafe { Registers::new(self.slots, 0, self.refs as usize) };
        let Some(Ok(buffer)) = registers.reference_mut(index).take().map(Ref::cast::<Buffer>) else { return };
        self.owned &= !(1 << index);
        // SAFETY: the copy is lent, as in `lend_buffer`.
        *registers.reference_mut(index) = Some(unsafe { std::ptr::read(buffer.as_ref()) });
        buffers.push(KeptBuffer { pc, length, alignment, buffer });
    }

    #[inline(never)]
    fn release_owned(&mut self) {
        (0..u64::BITS as usize).for_each(|index| {
            if self.owns(index) {
                self.discard(index);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Object;
    use crate::bytecode::CallId;
    use crate::interp::frame::descriptor::FrameDescriptor;
    use crate::interp::frame::stack::Stack;
    use crate::limits::Charge;

    struct Counted(#[expect(dead_code, reason = "held to be counted")] Arc<()>);

    impl Object for Counted {
        const TYPE_NAME: &'static str = "test.counted";
    }

    const REFS: u32 = 70;
    /// Registers that hold lent references, and those whose references the frame owns.
    const LENT: [usize; 4] = [0, 3, 63, 69];
    const OWNED: [usize; 3] = [1, 5, 62];

    /// Passes a frame with lent and owned references to `check`, and whether the caller still has its own, and the
    /// frame what it owns.
    fn with_frame(check: impl FnOnce(&mut LentReferences, &mut Registers, [&Arc<()>; 2])) {
        let (lent_count, owned_count) = (Arc::new(()), Arc::new(()));
        let ours = Ref::new(Counted(lent_count.clone()));
        let mut stack = Stack::new(1 << 14, Charge::default());
        let descriptor = FrameDescriptor { module: 0, function: 0, pc: 0, call: CallId(0), slots: 4, refs: REFS };
        let mut registers = stack.push(descriptor, true).unwrap();
        let (mut lent, mut buffers) = (LentReferences::NONE, Vec::new());
        let list = LentList { list: std::ptr::null(), elements: std::ptr::null(), count: 1 };
        lent.prepare(&list, &mut buffers, &[], registers.slots(), REFS);
        // SAFETY: the frame has so many references, and `ours` lives as long as what is lent.
        unsafe { lent.begin() };
        for index in LENT {
            // SAFETY: the copy is lent, so it is never released.
            *registers.reference_mut(index) = Some(unsafe { std::ptr::read(&raw const ours) });
        }
        for index in OWNED {
            assert!(lent.own(index));
            *registers.reference_mut(index) = Some(Ref::new(Counted(owned_count.clone())));
        }
        assert!(!lent.own(64));
        check(&mut lent, &mut registers, [&lent_count, &owned_count]);
        assert!(!lent.is_lent());
        drop(stack);
        assert_eq!((Arc::strong_count(&lent_count), Arc::strong_count(&owned_count)), (2, 1));
        drop(ours);
        assert_eq!(Arc::strong_count(&lent_count), 1);
    }

    #[test]
    fn what_is_lent_is_forgotten_and_what_is_owned_released() {
        with_frame(|lent, registers, [_, owned_count]| {
            assert_eq!(Arc::strong_count(owned_count), 4);
            assert!(lent.end() && !lent.end());
            assert_eq!(Arc::strong_count(owned_count), 1);
            assert!((0..REFS as usize).all(|index| registers.reference(index).is_none()));
        });
    }

    #[test]
    fn what_is_kept_is_counted_once() {
        with_frame(|lent, registers, _| {
            lent.keep();
            lent.keep();
            assert!(LENT.into_iter().chain(OWNED).all(|index| registers.reference(index).is_some()));
        });
    }

    #[test]
    fn registers_are_discarded_one_by_one() {
        with_frame(|lent, registers, [_, owned_count]| {
            for index in [OWNED[0], OWNED[0], LENT[0], LENT[3], 10] {
                lent.discard(index);
                assert!(registers.reference(index).is_none());
            }
            // One that is owned takes the place of one that is lent, and of another one.
            for index in [LENT[1], OWNED[1]] {
                assert!(lent.own(index) && registers.reference(index).is_none());
            }
            assert_eq!(Arc::strong_count(owned_count), 2);
            // One that is lent takes the place of one that is owned, and is counted like the others.
            let object = Ref::new(Counted(Arc::new(())));
            // SAFETY: the object lives until all are counted.
            unsafe { lent.lend(OWNED[2], ManuallyDrop::new(std::ptr::read(&raw const object))) };
            assert_eq!(Arc::strong_count(owned_count), 1);
            lent.keep();
        });
    }
}
