//! The ABI between libraries: size, alignment and C name of each kind on a 64-bit machine. The emitters of vtables and
//! of the C header use it.

use super::kind::{Kind, Shape};
use super::types::{Hal, Method, Object, Struct, type_name};
use crate::model::int::Int;

/// Bytes of the header of every vtable: version, object, size, library, retain, release.
pub const HEADER_SIZE: u64 = 40;

/// Bytes of a slot.
pub const SLOT_SIZE: u64 = 8;

/// Size and alignment in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of bytes, a multiple of the alignment.
    pub size: u64,
    /// The alignment.
    pub align: u64,
}

impl Extent {
    const fn of(size: u64, align: u64) -> Extent {
        Extent { size, align }
    }

    fn int(int: Int) -> Extent {
        Extent::of(int.size(), int.size())
    }
}

impl Hal {
    /// The integer that represents values of `kind`, if one does.
    pub fn integer(&self, kind: &Kind) -> Option<Int> {
        match kind {
            Kind::Bool => Some(Int::U8),
            Kind::Int(int) => Some(*int),
            Kind::Numbers(name) => self.numbers(name).map(|numbers| numbers.int),
            Kind::Handle(name) => self.handle(name).map(|handle| handle.int),
            _ => None,
        }
    }

    /// The extent of a field.
    pub fn extent(&self, shape: &Shape) -> Extent {
        if shape.list {
            return Extent::of(24, 8);
        }
        let one = match &shape.kind {
            Kind::Object(_) | Kind::String | Kind::Bytes => Extent::of(16, 8),
            Kind::Text | Kind::Owner | Kind::Callback => Extent::of(24, 8),
            Kind::Pointer | Kind::Status | Kind::Deadline | Kind::Layout { .. } => Extent::of(8, 8),
            Kind::Struct(name) => {
                self.structure(name).map_or(Extent::of(0, 1), |structure| self.layout_of(structure).1)
            }
            kind => self.integer(kind).map_or(Extent::of(0, 1), Extent::int),
        };
        Extent { size: one.size * u64::from(shape.count.unwrap_or(1)), ..one }
    }

    /// The offsets of the fields of a struct, and its extent, as C lays it out.
    pub fn layout_of(&self, structure: &Struct) -> (Vec<u64>, Extent) {
        let (mut offsets, mut whole) = (Vec::new(), Extent::of(0, 1));
        for field in &structure.fields {
            let extent = self.extent(&field.shape);
            whole.size = whole.size.next_multiple_of(extent.align);
            offsets.push(whole.size);
            whole.size += extent.size;
            whole.align = whole.align.max(extent.align);
        }
        whole.size = whole.size.next_multiple_of(whole.align);
        (offsets, whole)
    }

    /// The offset of each slot in the vtable of an object, and the size of the vtable.
    pub fn slot_offsets(&self, object: &Object) -> (Vec<u64>, u64) {
        let count = self.slots(object).len() as u64;
        ((0..count).map(|slot| HEADER_SIZE + slot * SLOT_SIZE).collect(), HEADER_SIZE + count * SLOT_SIZE)
    }

    /// How a value looks as an argument, as `repr(C)` types.
    pub fn argument_text(&self, shape: &Shape) -> String {
        match &shape.kind {
            Kind::Bytes if shape.list => "RawSlice<RawSlice<u8>>".to_string(),
            _ if shape.list => format!("RawSlice<{}>", self.one_text(&shape.kind)),
            Kind::Struct(_) => format!("*const {}", self.one_text(&shape.kind)),
            kind => self.one_text(kind),
        }
    }

    /// How a value looks as a result or field, as `repr(C)` types.
    pub fn value_text(&self, shape: &Shape) -> String {
        match shape.count {
            _ if shape.list => format!("RawList<{}>", self.one_text(&shape.kind)),
            Some(count) => format!("[{}; {count}]", self.one_text(&shape.kind)),
            None => self.one_text(&shape.kind),
        }
    }

    fn one_text(&self, kind: &Kind) -> String {
        match kind {
            Kind::Object(_) => "RawObject".to_string(),
            Kind::String | Kind::Bytes => "RawSlice<u8>".to_string(),
            Kind::Text => "RawList<u8>".to_string(),
            Kind::Owner => "RawOwner".to_string(),
            Kind::Callback => "RawCallback".to_string(),
            Kind::Pointer => "*mut u8".to_string(),
            Kind::Status => "*mut RawStatus".to_string(),
            Kind::Deadline => "u64".to_string(),
            Kind::Struct(name) => format!("Raw{}", type_name(name)),
            Kind::Layout { name, .. } => format!("*const {}", type_name(name)),
            kind => self.integer(kind).map_or("u8", Int::name).to_string(),
        }
    }

    /// The type of a slot without its name: `fn(this, value: u64, out: *mut u64) -> *mut RawStatus`.
    pub fn slot_text(&self, method: &Method) -> String {
        let mut args = vec!["this: *mut c_void".to_string()];
        args.extend(method.args.iter().map(|arg| format!("{}: {}", arg.name, self.argument_text(&arg.shape))));
        args.extend(method.result.iter().map(|shape| format!("out: *mut {}", self.value_text(shape))));
        let result = if method.infallible { "" } else { " -> *mut RawStatus" };
        format!("fn({}){result}", args.join(", "))
    }
}
