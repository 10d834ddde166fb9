//! Visits of what is recorded: the kinds of values that there are, one method each. An encoder implements [`Visitor`].

use std::fmt::Debug;

use super::keep::{RecordedBuffer, Unseen};
use crate::observe::ObjectId;
use crate::status::Status;

/// Gets the values of a call or a reply in the order of the spec.
pub trait Visitor {
    /// A struct, or the arguments of a call. Its fields follow, each after its name.
    fn begin_fields(&mut self);
    /// The name of the value that follows.
    fn field(&mut self, name: &'static str);
    /// The struct has no more fields.
    fn end_fields(&mut self);
    /// A list of so many values, which follow.
    fn begin_list(&mut self, length: usize);
    /// The list is over.
    fn end_list(&mut self);
    /// A value that may be absent is there, and follows.
    fn present(&mut self);
    /// A value is absent, or there is none.
    fn absent(&mut self);
    /// Yes or no.
    fn flag(&mut self, value: bool);
    /// A number.
    fn unsigned(&mut self, value: u64);
    /// A number with a sign.
    fn signed(&mut self, value: i64);
    /// A number of a set, or bits, or a handle. `value` has the text.
    fn symbol(&mut self, number: u64, value: &dyn Debug);
    /// A text.
    fn text(&mut self, value: &str);
    /// Bytes.
    fn bytes(&mut self, value: &[u8]);
    /// An object.
    fn object(&mut self, id: ObjectId);
    /// Visits a value that is not in the recording.
    fn unseen(&mut self, what: Unseen);
    /// An error.
    fn status(&mut self, status: &Status);
}

/// A value that can be visited.
pub trait Visit {
    /// Shows itself to the visitor.
    fn visit(&self, visitor: &mut dyn Visitor);

    /// The same for each of a list.
    fn visit_list(list: &[Self], visitor: &mut dyn Visitor)
    where
        Self: Sized,
    {
        visitor.begin_list(list.len());
        list.iter().for_each(|value| value.visit(visitor));
        visitor.end_list();
    }
}

macro_rules! numbers {
    ($($number:ident: $method:ident),*) => {
        $(impl Visit for $number {
            fn visit(&self, visitor: &mut dyn Visitor) {
                visitor.$method((*self).into());
            }
        })*
    };
}

numbers!(bool: flag, u16: unsigned, u32: unsigned, u64: unsigned, i32: signed, i64: signed);

impl Visit for u8 {
    fn visit(&self, visitor: &mut dyn Visitor) {
        visitor.unsigned((*self).into());
    }

    fn visit_list(list: &[u8], visitor: &mut dyn Visitor) {
        visitor.bytes(list);
    }
}

impl Visit for String {
    fn visit(&self, visitor: &mut dyn Visitor) {
        visitor.text(self);
    }
}

impl Visit for Status {
    fn visit(&self, visitor: &mut dyn Visitor) {
        visitor.status(self);
    }
}

impl Visit for ObjectId {
    fn visit(&self, visitor: &mut dyn Visitor) {
        visitor.object(*self);
    }
}

impl Visit for Unseen {
    fn visit(&self, visitor: &mut dyn Visitor) {
        visitor.unseen(*self);
    }
}

impl Visit for RecordedBuffer {
    fn visit(&self, visitor: &mut dyn Visitor) {
        visitor.begin_fields();
        visitor.field("allocation");
        visitor.object(self.allocation);
        visitor.field("offset");
        visitor.unsigned(self.offset);
        visitor.field("length");
        visitor.unsigned(self.length);
        visitor.end_fields();
    }
}

impl<V: Visit> Visit for Option<V> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        match self {
            Some(value) => {
                visitor.present();
                value.visit(visitor);
            }
            None => visitor.absent(),
        }
    }
}

impl<V: Visit> Visit for Vec<V> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        V::visit_list(self, visitor);
    }
}

impl<V: Visit, const COUNT: usize> Visit for [V; COUNT] {
    fn visit(&self, visitor: &mut dyn Visitor) {
        V::visit_list(self, visitor);
    }
}
