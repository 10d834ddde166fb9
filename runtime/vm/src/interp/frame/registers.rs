//! Unchecked access to the registers of one frame. The machine and all handlers read and write registers through it.
//!
//! It relies on the verifier: a [`VerifiedFunction`](crate::bytecode::VerifiedFunction) names only registers that its
//! frame has, and only the verifier makes one. Debug builds check bounds all the same.

use super::header::header_of;
use crate::bytecode::{AnyReg, RefReg, Reg};
use crate::convention::Kind;
use crate::{Ref, Value};

/// A pointer to the registers of a frame. Valid until the frame is popped.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    slots: *mut u32,
    #[cfg(debug_assertions)]
    slot_count: usize,
    #[cfg(debug_assertions)]
    ref_count: usize,
}

impl Registers {
    /// The registers of the frame with these slots.
    ///
    /// # Safety
    /// The address must be that of the slots of a frame with at least so many slots and references, and nothing else
    /// may access them as long as a register is accessed through the value or a copy of it. The registers that are
    /// asked for must be below the counts.
    #[inline(always)]
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "only debug builds check bounds"))]
    pub unsafe fn new(slots: *mut u32, slot_count: usize, ref_count: usize) -> Registers {
        Registers {
            slots,
            #[cfg(debug_assertions)]
            slot_count,
            #[cfg(debug_assertions)]
            ref_count,
        }
    }

    /// Checks in debug builds that the frame has `count` slots from number `index` on.
    #[inline(always)]
    fn check_slots(&self, index: usize, count: usize) {
        #[cfg(debug_assertions)]
        assert!(index + count <= self.slot_count, "{count} slots from {index} on, of {}", self.slot_count);
        let _ = (index, count);
    }

    /// Checks in debug builds that the frame has reference `index`.
    #[inline(always)]
    fn check_reference(&self, index: usize) {
        #[cfg(debug_assertions)]
        assert!(index < self.ref_count, "reference {index} of {}", self.ref_count);
        let _ = index;
    }

    /// The address of the slots.
    pub fn slots(&self) -> *mut u32 {
        self.slots
    }

    #[inline(always)]
    fn slot(&self, index: usize) -> *mut u32 {
        self.check_slots(index, 1);
        // SAFETY: the caller of `new` promised that registers are below the counts.
        unsafe { self.slots.add(index) }
    }

    #[inline(always)]
    fn ref_slot(&self, index: usize) -> *mut Option<Ref> {
        self.check_reference(index);
        // SAFETY: the caller of `new` promised that registers are below the counts; references are before the header,
        // last one first.
        unsafe { header_of(self.slots).cast::<Option<Ref>>().sub(index + 1) }
    }

    /// The 32 bits in a slot.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u32 {
        // SAFETY: `slot` gives the address of an initialised slot.
        unsafe { self.slot(index).read() }
    }

    /// Writes a slot.
    #[inline(always)]
    pub fn set_word(&mut self, index: usize, word: u32) {
        // SAFETY: `slot` gives the address of a slot of the frame, which only this value accesses.
        unsafe { self.slot(index).write(word) }
    }

    /// The 64 bits in a pair of slots, low half first.
    #[inline(always)]
    pub fn wide(&self, reg: Reg) -> u64 {
        self.check_slots(reg.index(), 2);
        // SAFETY: the verifier proved that both halves are in the frame.
        u64::from_le(unsafe { self.slot(reg.index()).cast::<u64>().read_unaligned() })
    }

    /// Writes a pair of slots.
    #[inline(always)]
    pub fn set_wide(&mut self, index: usize, value: u64) {
        self.check_slots(index, 2);
        // SAFETY: `slot` gives the address of a slot of the frame, which has the next one as well, and only this value
        // accesses them.
        unsafe { self.slot(index).cast::<u64>().write_unaligned(value.to_le()) };
    }

    /// A register of references.
    #[inline(always)]
    pub fn reference(&self, index: usize) -> &Option<Ref> {
        // SAFETY: `ref_slot` gives the address of an initialised reference; `&self` keeps this value from writing it
        // meanwhile.
        unsafe { &*self.ref_slot(index) }
    }

    /// A register of references, by its offset from the frame header (see [`RefReg::frame_relative`]).
    #[inline(always)]
    pub fn reference_at(&self, reg: RefReg) -> &Option<Ref> {
        debug_assert!(reg.frame_offset() < 0);
        // SAFETY: `ref_slot` gives the address of an initialised reference; `&self` keeps this value from writing it
        // meanwhile; the offset leads to the same address.
        unsafe { &*header_of(self.slots).cast::<Option<Ref>>().offset(isize::from(reg.frame_offset())) }
    }

    /// A register of references by its offset from the frame header, to be changed.
    #[inline(always)]
    pub fn reference_at_mut(&mut self, reg: RefReg) -> &mut Option<Ref> {
        debug_assert!(reg.frame_offset() < 0);
        // SAFETY: the offset leads to an initialised reference of the frame; `&mut self` is exclusive.
        unsafe { &mut *header_of(self.slots).cast::<Option<Ref>>().offset(isize::from(reg.frame_offset())) }
    }

    /// A register of references, to be changed.
    #[inline(always)]
    pub fn reference_mut(&mut self, index: usize) -> &mut Option<Ref> {
        // SAFETY: `ref_slot` gives the address of an initialised reference; `&mut self` is exclusive.
        unsafe { &mut *self.ref_slot(index) }
    }

    /// The reference in a register: moved out if the register has the MOVE bit, else cloned.
    #[inline]
    pub fn take(&mut self, reg: RefReg) -> Option<Ref> {
        if reg.is_move() { self.reference_mut(reg.index()).take() } else { self.reference(reg.index()).clone() }
    }

    /// Puts a reference into a register. The old one is released after the new one is in place.
    #[inline]
    pub fn assign(&mut self, index: usize, value: Option<Ref>) {
        let old = std::mem::replace(self.reference_mut(index), value);
        drop(old);
    }

    /// Puts a reference into a register that is null: nothing is released.
    #[inline(always)]
    pub fn set_null(&mut self, index: usize, value: Option<Ref>) {
        let register = self.reference_mut(index);
        debug_assert!(register.is_none(), "references of new frames are null");
        // SAFETY: the register is a valid place. What is overwritten without being dropped is null; a reference would
        // only be lost.
        unsafe { std::ptr::write(register, value) };
    }

    /// The value in a register: a reference is moved out if the register has the MOVE bit.
    #[inline]
    pub fn value(&mut self, kind: Kind, source: AnyReg) -> Value {
        match kind {
            Kind::I32 => Value::I32(self.word(source.reg().index()) as i32),
            Kind::I64 => Value::I64(self.wide(source.reg()) as i64),
            Kind::F32 => Value::F32(f32::from_bits(self.word(source.reg().index()))),
            Kind::F64 => Value::F64(f64::from_bits(self.wide(source.reg()))),
            Kind::Ref => Value::Ref(self.take(source.ref_reg())),
        }
    }

    /// Copies a value to a register of another frame, or of the same one.
    #[inline]
    pub fn copy_to(&mut self, kind: Kind, source: AnyReg, target: &mut Registers, index: usize) {
        match kind {
            Kind::Ref => {
                let value = self.take(source.ref_reg());
                target.assign(index, value);
            }
            Kind::I32 | Kind::F32 => target.set_word(index, self.word(source.reg().index())),
            Kind::I64 | Kind::F64 => target.set_wide(index, self.wide(source.reg())),
        }
    }
}
