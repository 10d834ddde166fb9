//! `vm.list`: a growable list of values of one type, of references, or of anything (a variant list).
//!
//! Ops, native modules and hosts use it. Programs share lists, so every access takes the list's lock; the interpreter
//! holds it for one op at a time.

mod element;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::element::{Element, ElementType, ListType};
use super::object::{Object, Ref};
use super::value::Value;
use crate::generated::abi::refs;
use crate::limits::{Charge, MemoryBudget, OBJECT_BYTES, scope, work};
use crate::status::{Result, Status};

/// Most bytes that the elements of one list may take.
pub const MAX_LIST_BYTES: usize = 1 << 30;
/// Elements that are appended between two looks at the limits.
const ELEMENTS_BETWEEN_LOOKS: usize = work::BYTES_BETWEEN_LOOKS / size_of::<Element>();

#[derive(Clone)]
enum Storage {
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Ref(Vec<Option<Ref>>),
    Variant(Vec<Element>),
}

macro_rules! each {
    ($storage:expr, $items:ident => $body:expr) => {
        match $storage {
            Storage::I8($items) => $body,
            Storage::I16($items) => $body,
            Storage::I32($items) => $body,
            Storage::I64($items) => $body,
            Storage::F32($items) => $body,
            Storage::F64($items) => $body,
            Storage::Ref($items) => $body,
            Storage::Variant($items) => $body,
        }
    };
}

impl Storage {
    fn len(&self) -> usize {
        each!(self, items => items.len())
    }

    fn get(&self, index: usize) -> Option<Element> {
        Some(match self {
            Storage::I8(items) => Element::I8(*items.get(index)?),
            Storage::I16(items) => Element::I16(*items.get(index)?),
            Storage::I32(items) => Element::I32(*items.get(index)?),
            Storage::I64(items) => Element::I64(*items.get(index)?),
            Storage::F32(items) => Element::F32(*items.get(index)?),
            Storage::F64(items) => Element::F64(*items.get(index)?),
            Storage::Ref(items) => Element::Ref(items.get(index)?.clone()),
            Storage::Variant(items) => items.get(index)?.clone(),
        })
    }
}

fn reserve<T>(items: &mut Vec<T>, capacity: usize) -> Result<()> {
    let Some(additional) = capacity.checked_sub(items.capacity()).filter(|additional| *additional > 0) else {
        return Ok(());
    };
    let exhausted = || Status::resource_exhausted(format!("list of {capacity} elements: over the limit of memory"));
    if capacity.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > MAX_LIST_BYTES) {
        return Err(exhausted());
    }
    // The excess of the capacity over the length has to be reserved as well.
    let excess = items.capacity() - items.len();
    items.try_reserve(additional + excess).map_err(|_| exhausted())
}

/// A list. All indices and sizes are in elements.
pub struct List {
    element_type: ListType,
    storage: Mutex<CountedStorage>,
}

/// The elements, and the charge for their memory.
struct CountedStorage {
    storage: Storage,
    charge: Charge,
}

impl Object for List {
    const TYPE_NAME: &'static str = refs::VM_LIST;
}

impl CountedStorage {
    /// Bytes that a list with this capacity is charged for.
    fn bytes(&self, capacity: usize) -> u64 {
        let element = each!(&self.storage, items => size_of_element(items));
        (capacity as u64).saturating_mul(element).saturating_add(OBJECT_BYTES)
    }

    fn reserve(&mut self, capacity: usize) -> Result<()> {
        if capacity <= each!(&self.storage, items => items.capacity()) {
            return Ok(());
        }
        self.charge.resize(self.bytes(capacity), "a list")?;
        let reserved = each!(&mut self.storage, items => reserve(items, capacity));
        // The allocation may be larger than what was asked for, or have failed.
        let bytes = self.bytes(each!(&self.storage, items => items.capacity()));
        self.charge.correct(bytes);
        reserved
    }
}

fn size_of_element<T>(_items: &[T]) -> u64 {
    size_of::<T>() as u64
}

fn out_of_range(index: usize, length: usize) -> Status {
    Status::out_of_range(format!("list index {index} is out of range: the list has {length} elements"))
}

impl List {
    /// An empty list with room for `capacity` elements.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if the elements would take more than [`MAX_LIST_BYTES`], or if there is no memory.
    pub fn new(element_type: ListType, capacity: usize) -> Result<List> {
        List::with_budget(element_type, capacity, None)
    }

    /// As [`List::new`], with its memory charged to a budget.
    ///
    /// # Errors
    /// As [`List::new`], and `RESOURCE_EXHAUSTED` if the budget has not as much left.
    #[doc(hidden)]
    pub fn with_budget(element_type: ListType, capacity: usize, budget: Option<&MemoryBudget>) -> Result<List> {
        let storage = match &element_type {
            ListType::Value(ElementType::I8) => Storage::I8(Vec::new()),
            ListType::Value(ElementType::I16) => Storage::I16(Vec::new()),
            ListType::Value(ElementType::I32) => Storage::I32(Vec::new()),
            ListType::Value(ElementType::I64) => Storage::I64(Vec::new()),
            ListType::Value(ElementType::F32) => Storage::F32(Vec::new()),
            ListType::Value(ElementType::F64) => Storage::F64(Vec::new()),
            ListType::Ref(_) => Storage::Ref(Vec::new()),
            ListType::Variant => Storage::Variant(Vec::new()),
        };
        let mut counted = CountedStorage { storage, charge: Charge::new(budget, OBJECT_BYTES, "a list")? };
        counted.reserve(capacity)?;
        Ok(List { element_type, storage: Mutex::new(counted) })
    }

    /// Charges a list to a budget from here on, if it was made without one, as those of hosts are.
    #[doc(hidden)]
    pub fn charge_to(&self, budget: Option<&MemoryBudget>) {
        let Some(budget) = budget else { return };
        let mut counted = self.lock();
        if !counted.charge.is_counted() {
            let bytes = counted.bytes(each!(&counted.storage, items => items.capacity()));
            counted.charge = budget.charge_anyway(bytes);
        }
    }

    /// A variant list of `values`.
    pub fn variant(values: impl IntoIterator<Item = Value>) -> List {
        let items = values.into_iter().map(Element::from).collect();
        let counted = CountedStorage { storage: Storage::Variant(items), charge: Charge::default() };
        List { element_type: ListType::Variant, storage: Mutex::new(counted) }
    }

    fn lock(&self) -> MutexGuard<'_, CountedStorage> {
        // No code that holds the lock can panic half-way through a change, so a poisoned list is still whole.
        self.storage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The type of its elements.
    pub fn element_type(&self) -> &ListType {
        &self.element_type
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.lock().storage.len()
    }

    /// True if the list has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reserves memory for `capacity` elements in total.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if the elements would take more than [`MAX_LIST_BYTES`], if there is no memory, or if the
    /// budget of the list has not as much left.
    pub fn reserve(&self, capacity: usize) -> Result<()> {
        self.lock().reserve(capacity)
    }

    /// Cuts the list to `length` elements, or extends it by zeros, nulls or unset elements.
    ///
    /// # Errors
    /// As [`List::reserve`], and those of limits, which leave a part of the new elements.
    pub fn resize(&self, length: usize) -> Result<()> {
        // References that are cut off are released after the lock, because that can run any destructor.
        let mut released = Storage::Ref(Vec::new());
        let mut counted = self.lock();
        match &mut counted.storage {
            Storage::Ref(items) if length < items.len() => released = Storage::Ref(items.split_off(length)),
            Storage::Variant(items) if length < items.len() => released = Storage::Variant(items.split_off(length)),
            _ => {
                counted.reserve(length)?;
                // Elements take up to 16 bytes, which may be pages that the system has yet to provide.
                each!(&mut counted.storage, items => {
                    items.truncate(length);
                    while items.len() < length {
                        items.resize(length.min(items.len() + ELEMENTS_BETWEEN_LOOKS), Default::default());
                        if items.len() < length {
                            scope::check()?;
                        }
                    }
                });
            }
        }
        drop(counted);
        drop(released);
        Ok(())
    }

    /// A copy of element `index`.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if there is no such element.
    pub fn get(&self, index: usize) -> Result<Element> {
        let counted = self.lock();
        let storage = &counted.storage;
        storage.get(index).ok_or_else(|| out_of_range(index, storage.len()))
    }

    /// Element `index` as a value of type `target`, see [`Element::convert`].
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if the element is not a value.
    pub fn get_value(&self, index: usize, target: ElementType) -> Result<Element> {
        let element = self.get(index)?;
        element.convert(target).ok_or_else(|| {
            Status::failed_precondition(format!("element {index} of a list of {} is not a value", self.element_type))
        })
    }

    /// The reference at `index`; an element that was never set is null. With `take` it is moved out of the list.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if the element is a value.
    pub fn get_ref(&self, index: usize, take: bool) -> Result<Option<Ref>> {
        let mut counted = self.lock();
        let length = counted.storage.len();
        match &mut counted.storage {
            Storage::Ref(items) => {
                let item = items.get_mut(index).ok_or_else(|| out_of_range(index, length))?;
                return Ok(if take { item.take() } else { item.clone() });
            }
            Storage::Variant(items) => {
                let item = items.get_mut(index).ok_or_else(|| out_of_range(index, length))?;
                match item {
                    Element::None => return Ok(None),
                    Element::Ref(_) if take => match std::mem::take(item) {
                        Element::Ref(reference) => return Ok(reference),
                        _ => return Ok(None),
                    },
                    Element::Ref(reference) => return Ok(reference.clone()),
                    _ => {}
                }
            }
            _ if index >= length => return Err(out_of_range(index, length)),
            _ => {}
        }
        let message = format!("element {index} of a list of {} is not a reference", self.element_type);
        Err(Status::failed_precondition(message))
    }

    /// Replaces the contents by these references. The list must be one of references of their type. If it holds the
    /// same ones already, no reference is counted.
    #[doc(hidden)]
    pub fn assign<'r>(&self, references: impl ExactSizeIterator<Item = &'r Ref> + Clone) {
        let mut old = Vec::new();
        if let Storage::Ref(items) = &mut self.lock().storage {
            let same = |(item, reference): (&Option<Ref>, &Ref)| {
                item.as_ref().is_some_and(|item| item.is_same_object(reference))
            };
            if items.len() == references.len() && items.iter().zip(references.clone()).all(same) {
                return;
            }
            old = std::mem::take(items);
            items.extend(references.cloned().map(Some));
        }
        // The old references are released after the lock, because that can run any destructor.
        drop(old);
    }

    /// The address and the number of the elements, until the list is changed. None unless it is a list of buffers.
    pub(crate) fn buffers(&self) -> Option<(*const Option<Ref>, usize)> {
        let counted = self.lock();
        match (&self.element_type, &counted.storage) {
            (ListType::Ref(name), Storage::Ref(items)) if name == refs::VM_BUFFER => {
                Some((items.as_ptr(), items.len()))
            }
            _ => None,
        }
    }

    /// Replaces element `index`. Values convert to the type of the list as [`Element::convert`] says; a variant list
    /// takes what it is given.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if there is no such element, else `FAILED_PRECONDITION` for a value in a list of references or
    /// the reverse, `INVALID_ARGUMENT` for a reference of another type than the list's.
    pub fn set(&self, index: usize, element: impl Into<Element>) -> Result<()> {
        let element = self.convert_for_storage(element.into()).map_err(|status| {
            // The index is the first thing that can be wrong.
            let length = self.len();
            if index < length { status } else { out_of_range(index, length) }
        })?;
        let mut counted = self.lock();
        let length = counted.storage.len();
        if index >= length {
            return Err(out_of_range(index, length));
        }
        let old = match (&mut counted.storage, element) {
            (Storage::Variant(items), element) => std::mem::replace(&mut items[index], element),
            (Storage::Ref(items), Element::Ref(reference)) => {
                Element::Ref(std::mem::replace(&mut items[index], reference))
            }
            (Storage::I8(items), Element::I8(value)) => store(&mut items[index], value),
            (Storage::I16(items), Element::I16(value)) => store(&mut items[index], value),
            (Storage::I32(items), Element::I32(value)) => store(&mut items[index], value),
            (Storage::I64(items), Element::I64(value)) => store(&mut items[index], value),
            (Storage::F32(items), Element::F32(value)) => store(&mut items[index], value),
            (Storage::F64(items), Element::F64(value)) => store(&mut items[index], value),
            _ => return Err(Status::internal("list element was not converted to the type of the list")),
        };
        // The old references are released after the lock, because that can run any destructor.
        drop(counted);
        drop(old);
        Ok(())
    }

    /// Appends an element.
    ///
    /// # Errors
    /// As [`List::set`], and `RESOURCE_EXHAUSTED` if the list is full.
    pub fn push(&self, element: impl Into<Element>) -> Result<()> {
        let element = self.convert_for_storage(element.into())?;
        let mut counted = self.lock();
        let (length, capacity) = each!(&counted.storage, items => (items.len(), items.capacity()));
        if length == capacity {
            counted.reserve(length.saturating_mul(2).max(4))?;
        }
        match (&mut counted.storage, element) {
            (Storage::Variant(items), element) => items.push(element),
            (Storage::Ref(items), Element::Ref(reference)) => items.push(reference),
            (Storage::I8(items), Element::I8(value)) => items.push(value),
            (Storage::I16(items), Element::I16(value)) => items.push(value),
            (Storage::I32(items), Element::I32(value)) => items.push(value),
            (Storage::I64(items), Element::I64(value)) => items.push(value),
            (Storage::F32(items), Element::F32(value)) => items.push(value),
            (Storage::F64(items), Element::F64(value)) => items.push(value),
            _ => return Err(Status::internal("list element was not converted to the type of the list")),
        }
        Ok(())
    }

    /// Converts `element` to the type that the list stores, or fails if it cannot.
    fn convert_for_storage(&self, element: Element) -> Result<Element> {
        match (&self.element_type, &element) {
            (ListType::Variant, _) => Ok(element),
            (ListType::Value(target), _) => element.convert(*target).ok_or_else(|| {
                Status::failed_precondition(format!("a list of {} cannot store references", self.element_type))
            }),
            (ListType::Ref(_), Element::Ref(None)) => Ok(element),
            (ListType::Ref(name), Element::Ref(Some(reference))) if reference.type_name() == name => Ok(element),
            (ListType::Ref(name), Element::Ref(Some(reference))) => Err(Status::invalid_argument(format!(
                "a list of !{name} cannot store a reference to !{}",
                reference.type_name()
            ))),
            (ListType::Ref(_), _) => {
                Err(Status::failed_precondition(format!("a list of {} cannot store values", self.element_type)))
            }
        }
    }

    /// Copies `count` elements of `source` from `source_index` over those of `target` from `target_index`.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if either range is; `INVALID_ARGUMENT` if the ranges overlap in one list or the element types do
    /// not match. The target is unchanged then.
    pub fn copy(source: &List, source_index: usize, target: &List, target_index: usize, count: usize) -> Result<()> {
        let range = |what: &str, index: usize, length: usize| match index.checked_add(count) {
            Some(end) if end <= length => Ok(index..end),
            _ => Err(Status::out_of_range(format!(
                "{what} range of {count} elements at {index} exceeds the list of {length} elements"
            ))),
        };
        // The elements are copied out before the target is locked, so that two lists are never locked at once.
        let elements: Vec<Element> = {
            let counted = source.lock();
            let storage = &counted.storage;
            let from = range("source", source_index, storage.len())?;
            if std::ptr::eq(source, target) {
                let to = range("target", target_index, storage.len())?;
                if from.start < to.end && to.start < from.end {
                    return Err(Status::invalid_argument(format!(
                        "copy of {count} elements at {source_index} to {target_index} of the same list overlaps"
                    )));
                }
            }
            // The allocation below is bounded by the range, which exists.
            from.filter_map(|index| storage.get(index)).collect()
        };
        range("target", target_index, target.len())?;
        if target.element_type != ListType::Variant {
            if source.element_type != ListType::Variant && source.element_type != target.element_type {
                return Err(Status::invalid_argument(format!(
                    "cannot copy elements of a list of {} to a list of {}",
                    source.element_type, target.element_type
                )));
            }
            for (offset, element) in elements.iter().enumerate() {
                let matches = match (&target.element_type, element) {
                    (ListType::Value(expected), element) => element.value_type() == Some(*expected),
                    (ListType::Ref(_), Element::Ref(None)) => true,
                    (ListType::Ref(name), Element::Ref(Some(reference))) => reference.type_name() == name,
                    _ => false,
                };
                if !matches {
                    return Err(Status::invalid_argument(format!(
                        "element {} is no {} and cannot be copied to a list of such",
                        source_index + offset,
                        target.element_type
                    )));
                }
            }
        }
        elements.into_iter().enumerate().try_for_each(|(offset, element)| target.set(target_index + offset, element))
    }
}

fn store<T>(place: &mut T, value: T) -> Element {
    *place = value;
    Element::None
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The elements are not printed: a list may hold itself.
        write!(f, "vm.list<{}>({} elements)", self.element_type, self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::Buffer;
    use crate::status::StatusCode;

    #[test]
    fn values_convert_within_their_class() {
        let list = List::new(ListType::Value(ElementType::I8), 0).unwrap();
        list.push(Value::I32(-1 + 0x100)).unwrap();
        list.push(Value::F32(1.5)).unwrap();
        assert_eq!(list.get_value(0, ElementType::I64).unwrap(), Element::I64(-1));
        assert_eq!(list.get_value(1, ElementType::I32).unwrap(), Element::I32(0));
        assert_eq!(list.get_value(0, ElementType::F64).unwrap(), Element::F64(0.0));
        assert_eq!(list.get_value(2, ElementType::I32).unwrap_err().code(), StatusCode::OutOfRange);
        assert_eq!(list.set(0, Value::NULL).unwrap_err().code(), StatusCode::FailedPrecondition);
    }

    #[test]
    fn references_are_checked_and_can_be_taken() {
        let list = List::new(ListType::Ref("vm.buffer".into()), 4).unwrap();
        list.resize(1).unwrap();
        let buffer = Ref::new(Buffer::copy_of(b"x").unwrap());
        list.set(0, Value::from(buffer.clone())).unwrap();
        let other = Ref::new(List::variant([]));
        assert_eq!(list.set(0, Value::from(other)).unwrap_err().code(), StatusCode::InvalidArgument);
        assert_eq!(list.get_ref(0, true).unwrap(), Some(buffer));
        assert_eq!(list.get_ref(0, false).unwrap(), None);
    }

    #[test]
    fn variants_keep_their_types() {
        let list = List::variant([Value::I32(7), Value::NULL]);
        list.resize(3).unwrap();
        assert_eq!(list.get(2).unwrap(), Element::None);
        assert_eq!(list.get_ref(0, false).unwrap_err().code(), StatusCode::FailedPrecondition);
        assert_eq!(list.get_value(2, ElementType::I32).unwrap_err().code(), StatusCode::FailedPrecondition);
        assert_eq!(list.get_ref(2, false).unwrap(), None);
        let typed = List::new(ListType::Value(ElementType::I32), 0).unwrap();
        typed.resize(1).unwrap();
        List::copy(&list, 0, &typed, 0, 1).unwrap();
        assert_eq!(typed.get(0).unwrap(), Element::I32(7));
        assert_eq!(List::copy(&list, 1, &typed, 0, 1).unwrap_err().code(), StatusCode::InvalidArgument);
        assert_eq!(List::copy(&list, 0, &list, 1, 2).unwrap_err().code(), StatusCode::InvalidArgument);
        assert_eq!(List::copy(&list, 2, &list, 0, usize::MAX).unwrap_err().code(), StatusCode::OutOfRange);
    }

    #[test]
    fn sizes_are_limited() {
        let list = List::new(ListType::Value(ElementType::I64), 0).unwrap();
        assert_eq!(list.resize(usize::MAX).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert_eq!(list.resize(MAX_LIST_BYTES / 8 + 1).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert_eq!(list.len(), 0);
    }

    #[test]
    fn lists_may_outlive_what_else_a_thread_keeps() {
        thread_local! {
            static LAST: RefCell<Option<List>> = const { RefCell::new(None) };
        }
        let thread = std::thread::spawn(|| {
            let nested = || List::variant([Value::from(Ref::new(List::variant([])))]);
            LAST.set(Some(nested()));
            drop(nested());
        });
        thread.join().unwrap();
    }

    #[test]
    fn deep_nesting_is_released_without_recursion() {
        let mut head = Ref::new(List::variant([]));
        for _ in 0..200_000 {
            head = Ref::new(List::variant([Value::from(head)]));
        }
        drop(head);
    }
}
