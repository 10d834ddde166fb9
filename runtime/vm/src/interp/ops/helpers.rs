//! The helpers: ops that are not made of primitives. The machine implements the generated trait [`Helpers`], with one
//! method for each, which the generated handlers call.
//!
//! A helper takes value operands as values and references as registers, because the effect of the MOVE bit is part of
//! the op. It checks everything before it changes a register, so a trapping helper changes none.

use super::siphash::{self, Hasher};
use crate::buffer::BufferLayout;
use crate::bytecode::{AnyReg, GlobalRef, RefReg, RodataId, TypeId};
use crate::interp::frame::Frame;
use crate::interp::machine::Machine;

pub use crate::generated::vm::interp::Helpers;
use crate::limits::Charge;
use crate::limits::work::{self, WorkCount};
use crate::list::{Element, ElementType, ListType};
use crate::status::{Result, Status};
use crate::{Buffer, List, Ref};

/// Ops that process at least so many bytes check the limits first.
const BULK_BYTES: u64 = 64 << 10;
/// The time that a piece of 4 KiB takes at most to be compared or hashed, in nanoseconds, if it is copied first.
const PIECE_TIME: u64 = 1 << 14;

impl Helpers for Machine<'_> {
    fn buffer_alloc(&mut self, length: i64, alignment: i32, result: RefReg) -> Result<()> {
        let (layout, charge) = self.layout(size(length, "a buffer")?, alignment)?;
        // SAFETY: machine code elides zeroing only for a buffer that it fills next.
        let buffer = if self.elides_zeroing { unsafe { Buffer::uninit(layout) } } else { Buffer::zeroed(layout) }?;
        self.assign(result, Some(Ref::new(buffer.with_charge(charge))));
        Ok(())
    }

    fn buffer_clone(&mut self, source: RefReg, offset: i64, length: i64, alignment: i32, result: RefReg) -> Result<()> {
        let (offset, length) = (offset as u64, length as u64);
        self.check_bulk(length)?;
        self.buffer(source)?.range(offset, length)?;
        let (layout, charge) = self.layout(length, alignment)?;
        // SAFETY: the copy writes all of it, since the range was found to be inside the source.
        let target = unsafe { Buffer::uninit(layout) }?;
        copy(self.buffer(source)?, offset, &target, 0, length)?;
        self.assign(result, Some(Ref::new(target.with_charge(charge))));
        Ok(())
    }

    fn buffer_copy(
        &mut self,
        source: RefReg,
        source_offset: i64,
        target: RefReg,
        target_offset: i64,
        length: i64,
    ) -> Result<()> {
        self.check_bulk(length as u64)?;
        let (source, target) = (self.buffer(source)?, self.buffer(target)?);
        copy(source, source_offset as u64, target, target_offset as u64, length as u64)
    }

    fn buffer_compare(
        &mut self,
        lhs: RefReg,
        lhs_offset: i64,
        rhs: RefReg,
        rhs_offset: i64,
        length: i64,
    ) -> Result<i32> {
        self.check_bulk(length as u64)?;
        let (lhs, rhs) = (self.buffer(lhs)?, self.buffer(rhs)?);
        lhs.range(lhs_offset as u64, length as u64)?;
        rhs.range(rhs_offset as u64, length as u64)?;
        // Compared through copies of pieces, because no reference may exist to bytes that another context may write.
        let mut pieces = [[0; 4096]; 2];
        let (mut done, mut work) = (0, WorkCount::default());
        while done < length as u64 {
            let size = pieces[0].len().min((length as u64 - done) as usize);
            work.add(PIECE_TIME)?;
            let [left, right] = pieces.each_mut().map(|piece| &mut piece[..size]);
            lhs.read(lhs_offset as u64 + done, left)?;
            rhs.read(rhs_offset as u64 + done, right)?;
            if left != right {
                return Ok(0);
            }
            done += size as u64;
        }
        Ok(1)
    }

    fn buffer_hash(&mut self, source: RefReg, offset: i64, length: i64) -> Result<i64> {
        self.check_bulk(length as u64)?;
        let source = self.buffer(source)?;
        source.range(offset as u64, length as u64)?;
        // In pieces, as in `buffer_compare`.
        let mut hasher = siphash::hasher();
        let mut piece = [0; 4096];
        let (mut done, mut work) = (0, WorkCount::default());
        while done < length as u64 {
            let size = piece.len().min((length as u64 - done) as usize);
            work.add(PIECE_TIME)?;
            source.read(offset as u64 + done, &mut piece[..size])?;
            hasher.write(&piece[..size]);
            done += size as u64;
        }
        Ok(hasher.finish() as i64)
    }

    fn global_load_ref(&mut self, global: GlobalRef, ref_type: TypeId, result: RefReg) -> Result<()> {
        let value = self.global_ref(global)?;
        self.expect_type(value.as_ref(), ref_type)?;
        let value = if result.is_move() {
            self.global_refs_mut().get_mut(global.index()).and_then(Option::take)
        } else {
            value.clone()
        };
        self.assign(result, value);
        Ok(())
    }

    fn global_store_ref(&mut self, global: GlobalRef, ref_type: TypeId, value: RefReg) -> Result<()> {
        self.global_ref(global)?;
        self.expect_type(self.reference(value), ref_type)?;
        let value = self.take(value);
        if let Some(place) = self.global_refs_mut().get_mut(global.index()) {
            let old = std::mem::replace(place, value);
            drop(old);
        }
        Ok(())
    }

    fn global_load_indirect_ref(&mut self, global: i32, ref_type: TypeId, result: RefReg) -> Result<()> {
        self.global_load_ref(GlobalRef(global as u32), ref_type, result)
    }

    fn global_store_indirect_ref(&mut self, global: i32, ref_type: TypeId, value: RefReg) -> Result<()> {
        self.global_store_ref(GlobalRef(global as u32), ref_type, value)
    }

    fn list_alloc(&mut self, element_type: TypeId, capacity: i32, result: RefReg) -> Result<()> {
        let element_type = self.type_of(element_type)?.clone();
        let capacity = self.check_list(&element_type, capacity)?;
        let list = List::with_budget(element_type, capacity, self.limits.memory.as_ref())?;
        self.assign(result, Some(Ref::new(list)));
        Ok(())
    }

    fn list_reserve(&mut self, list: RefReg, capacity: i32) -> Result<()> {
        let list = self.list(list)?;
        let capacity = self.check_list(list.element_type(), capacity)?;
        list.charge_to(self.limits.memory.as_ref());
        list.reserve(capacity)
    }

    fn list_size(&mut self, list: RefReg) -> Result<i32> {
        Ok(self.list(list)?.len() as i32)
    }

    fn list_resize(&mut self, list: RefReg, size: i32) -> Result<()> {
        let list = self.list(list)?;
        let size = self.check_list(list.element_type(), size)?;
        list.charge_to(self.limits.memory.as_ref());
        list.resize(size)
    }

    fn list_get_i32(&mut self, list: RefReg, index: i32) -> Result<i32> {
        let (list, index) = self.list_at(list, index)?;
        match list.get_value(index, ElementType::I32)? {
            Element::I32(value) => Ok(value),
            _ => Err(unconverted()),
        }
    }

    fn list_set_i32(&mut self, list: RefReg, index: i32, value: i32) -> Result<()> {
        let (list, index) = self.list_at(list, index)?;
        list.set(index, Element::I32(value))
    }

    fn list_get_i64(&mut self, list: RefReg, index: i32) -> Result<i64> {
        let (list, index) = self.list_at(list, index)?;
        match list.get_value(index, ElementType::I64)? {
            Element::I64(value) => Ok(value),
            _ => Err(unconverted()),
        }
    }

    fn list_set_i64(&mut self, list: RefReg, index: i32, value: i64) -> Result<()> {
        let (list, index) = self.list_at(list, index)?;
        list.set(index, Element::I64(value))
    }

    fn list_get_f32(&mut self, list: RefReg, index: i32) -> Result<f32> {
        let (list, index) = self.list_at(list, index)?;
        match list.get_value(index, ElementType::F32)? {
            Element::F32(value) => Ok(value),
            _ => Err(unconverted()),
        }
    }

    fn list_set_f32(&mut self, list: RefReg, index: i32, value: f32) -> Result<()> {
        let (list, index) = self.list_at(list, index)?;
        list.set(index, Element::F32(value))
    }

    fn list_get_f64(&mut self, list: RefReg, index: i32) -> Result<f64> {
        let (list, index) = self.list_at(list, index)?;
        match list.get_value(index, ElementType::F64)? {
            Element::F64(value) => Ok(value),
            _ => Err(unconverted()),
        }
    }

    fn list_set_f64(&mut self, list: RefReg, index: i32, value: f64) -> Result<()> {
        let (list, index) = self.list_at(list, index)?;
        list.set(index, Element::F64(value))
    }

    fn list_get_ref(&mut self, list: RefReg, index: i32, ref_type: TypeId, result: RefReg) -> Result<()> {
        let (list, index) = self.list_at(list, index)?;
        let value = list.get_ref(index, result.is_move())?;
        // A reference of another type reads as null; with MOVE it leaves the list all the same.
        let value = value.filter(|value| type_matches(value, self.module.types.get(ref_type.index())));
        self.assign(result, value);
        Ok(())
    }

    fn list_set_ref(&mut self, list: RefReg, index: i32, value: RefReg) -> Result<()> {
        let reference = self.reference(value).cloned();
        let (list, index) = self.list_at(list, index)?;
        list.set(index, Element::Ref(reference))?;
        if value.is_move() {
            self.assign(value, None);
        }
        Ok(())
    }

    fn const_ref_zero(&mut self, result: RefReg) -> Result<()> {
        self.assign(result, None);
        Ok(())
    }

    fn const_ref_rodata(&mut self, rodata: RodataId, result: RefReg) -> Result<()> {
        let missing = || Status::internal(format!("rodata segment {} does not exist", rodata.0));
        let segment = self.rodata(rodata).ok_or_else(missing)?.load();
        self.assign(result, Some(segment));
        Ok(())
    }

    fn select_ref(
        &mut self,
        condition: i32,
        ref_type: TypeId,
        true_value: RefReg,
        false_value: RefReg,
        result: RefReg,
    ) -> Result<()> {
        let (chosen, other) = if condition != 0 { (true_value, false_value) } else { (false_value, true_value) };
        self.assign_checked(chosen, ref_type, result)?;
        if other.is_move() && other.index() != result.index() {
            self.assign(other, None);
        }
        Ok(())
    }

    fn switch_ref(
        &mut self,
        index: i32,
        ref_type: TypeId,
        default_value: RefReg,
        values: &[AnyReg],
        result: RefReg,
    ) -> Result<()> {
        let chosen = usize::try_from(index).ok().and_then(|index| values.get(index)).map(|reg| reg.ref_reg());
        self.assign_checked(chosen.unwrap_or(default_value), ref_type, result)
    }

    fn cast_any_ref(&mut self, operand: RefReg, ref_type: TypeId, result: RefReg) -> Result<()> {
        self.assign_checked(operand, ref_type, result)
    }

    fn discard_refs(&mut self, refs: &[AnyReg]) -> Result<()> {
        refs.iter().for_each(|reg| self.assign(reg.ref_reg(), None));
        Ok(())
    }

    fn assign_ref(&mut self, source: RefReg, result: RefReg) -> Result<()> {
        let value = self.take(source);
        self.assign(result, value);
        Ok(())
    }
}

impl Machine<'_> {
    /// The layout of a new buffer and the charge for its memory, if both are within the limits.
    #[inline]
    fn layout(&self, length: u64, alignment: i32) -> Result<(BufferLayout, Charge)> {
        let alignment = alignment as u32 as usize;
        self.limits.check_allocation(length, "buffer")?;
        let layout = BufferLayout::new(length as usize, alignment)?;
        // Most calls have no budget, and no need to know what the buffer takes.
        let memory = self.limits.memory.as_ref();
        Ok((layout, memory.map_or(Ok(Charge::default()), |memory| memory.charge(layout.bytes(), "a buffer"))?))
    }

    /// Checks the limits before an op on many bytes: the countdown counts it as one of a thousand steps, but it takes
    /// as long as many of them.
    #[inline]
    fn check_bulk(&self, bytes: u64) -> Result<()> {
        if bytes >= BULK_BYTES { self.limits.check_time() } else { Ok(()) }
    }

    /// The number of elements that a list is to hold, if the limits allow it.
    fn check_list(&self, element_type: &ListType, elements: i32) -> Result<usize> {
        let elements = size(elements.into(), "a list")?;
        self.limits.check_allocation(elements.saturating_mul(element_type.element_bytes() as u64), "list")?;
        usize::try_from(elements).map_err(|_| Status::resource_exhausted(format!("a list of {elements} elements")))
    }

    /// A list, and an index of it that is no negative number. Whether the list has such an element is left to the
    /// access.
    fn list_at(&self, list: RefReg, index: i32) -> Result<(&List, usize)> {
        let list = self.list(list)?;
        match usize::try_from(index) {
            Ok(index) => Ok((list, index)),
            Err(_) => Err(Status::out_of_range(format!("list index {index} is negative"))),
        }
    }

    fn global_ref(&self, global: GlobalRef) -> Result<&Option<Ref>> {
        self.global_refs().get(global.index()).ok_or_else(|| {
            Status::out_of_range(format!(
                "ref global {} does not exist: there are {}",
                global.0.cast_signed(),
                self.global_refs().len()
            ))
        })
    }

    /// Fails unless the reference is of the type. Null passes, and so does any reference if the type is `any`.
    fn expect_type(&self, value: Option<&Ref>, ref_type: TypeId) -> Result<()> {
        let expected = self.type_of(ref_type)?;
        match value {
            Some(value) if !type_matches(value, Some(expected)) => Err(Status::invalid_argument(format!(
                "expected a reference of type {expected}, got !{}",
                value.type_name()
            ))),
            _ => Ok(()),
        }
    }

    fn assign_checked(&mut self, source: RefReg, ref_type: TypeId, result: RefReg) -> Result<()> {
        self.expect_type(self.reference(source), ref_type)?;
        let value = self.take(source);
        self.assign(result, value);
        Ok(())
    }
}

fn type_matches(value: &Ref, expected: Option<&ListType>) -> bool {
    match expected {
        Some(ListType::Ref(name)) => value.type_name() == name,
        Some(ListType::Variant) => true,
        Some(ListType::Value(_)) | None => false,
    }
}

/// Copies bytes; ranges of one buffer may overlap.
fn copy(source: &Buffer, source_offset: u64, target: &Buffer, target_offset: u64, length: u64) -> Result<()> {
    let from = source.range(source_offset, length)?;
    let to = target.range_mut(target_offset, length)?;
    // SAFETY: both ranges were checked, both buffers are alive, and ranges may overlap.
    unsafe { work::copy_bytes(from, to, length as usize) }
}

#[cold]
fn unconverted() -> Status {
    Status::internal("a list element was not converted to the type that was asked for")
}

/// The size that a program asks for, which is a signed number: a negative one is a mistake of the program, not a want
/// of memory.
#[inline]
fn size(size: i64, of: &str) -> Result<u64> {
    u64::try_from(size).map_err(|_| negative(size, of))
}

#[cold]
fn negative(size: i64, of: &str) -> Status {
    Status::invalid_argument(format!("the size of {of} is {size}, a negative number"))
}
