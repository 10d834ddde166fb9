//! [`Value`]: a value of the VM with its type, as hosts pass it to functions, get it back, and find it in lists.

use super::object::{Obj, Object, Ref};

/// One value of the VM.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A 32-bit integer; also booleans, 8-bit and 16-bit integers.
    I32(i32),
    /// A 64-bit integer; also indices.
    I64(i64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// A reference, or null.
    Ref(Option<Ref>),
}

impl Value {
    /// The null reference.
    pub const NULL: Value = Value::Ref(None);

    /// Name of the type: `i32`, `vm.buffer`, ...; `null` for the null reference.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::I32(_) => "i32",
            Value::I64(_) => "i64",
            Value::F32(_) => "f32",
            Value::F64(_) => "f64",
            Value::Ref(Some(reference)) => reference.type_name(),
            Value::Ref(None) => "null",
        }
    }

    /// The object, if this is a reference to a `T`.
    pub fn object<T: Object>(&self) -> Option<&T> {
        match self {
            Value::Ref(Some(reference)) => reference.get(),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($rust:ty => $variant:ident),*) => {$(
        impl From<$rust> for Value {
            #[inline]
            fn from(value: $rust) -> Value {
                Value::$variant(value)
            }
        }
    )*};
}

from!(i32 => I32, i64 => I64, f32 => F32, f64 => F64, Option<Ref> => Ref);

impl From<Ref> for Value {
    #[inline]
    fn from(value: Ref) -> Value {
        Value::Ref(Some(value))
    }
}

impl<T: Object> From<Obj<T>> for Value {
    #[inline]
    fn from(value: Obj<T>) -> Value {
        Value::Ref(Some(value.into_ref()))
    }
}
