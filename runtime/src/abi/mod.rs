//! The boundary between programs and functions in Rust: reading the arguments of a call, checking them, writing the results.
//!
//! [`shims`] holds one typed function for each calling convention of the spec'd modules and [`modules`] their export tables; both are
//! generated from `spec/abi`. `#[vm_module]` writes code against what is here.

use crate::status::{Result, Status};
use crate::vm::{Call, Obj, Object, Ref, Wait};

pub use crate::generated::abi::{modules, shims};

/// What a function that may have to wait returns.
pub enum Step<T> {
    /// The results.
    Return(T),
    /// The caller has to wait and then to call again with the same arguments.
    Wait(Box<dyn Wait>),
}

/// Reads the arguments of a call in order.
pub struct Arguments<'call> {
    words: &'call [u64],
    refs: &'call mut [Option<Ref>],
    keep: bool,
}

impl<'call> Arguments<'call> {
    /// A reader of `call`, whose results it clears. With `keep` references are copied rather than taken, so that the call can be
    /// repeated.
    pub fn new(call: &'call mut Call, keep: bool) -> Arguments<'call> {
        call.result_words.clear();
        call.result_refs.clear();
        Arguments { words: &call.words, refs: &mut call.refs, keep }
    }

    fn word(&mut self) -> Result<u64> {
        let (first, rest) = self.words.split_first().ok_or_else(|| mismatch("too few values"))?;
        self.words = rest;
        Ok(*first)
    }

    /// The next `i`.
    pub fn i32(&mut self) -> Result<i32> {
        Ok(self.word()? as i32)
    }

    /// The next `I`.
    pub fn i64(&mut self) -> Result<i64> {
        Ok(self.word()? as i64)
    }

    /// The next `f`.
    pub fn f32(&mut self) -> Result<f32> {
        Ok(f32::from_bits(self.word()? as u32))
    }

    /// The next `F`.
    pub fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_bits(self.word()?))
    }

    /// The next `r`.
    pub fn reference(&mut self) -> Result<Option<Ref>> {
        let refs = std::mem::take(&mut self.refs);
        let (first, rest) = refs.split_first_mut().ok_or_else(|| mismatch("too few references"))?;
        self.refs = rest;
        Ok(if self.keep { first.clone() } else { first.take() })
    }

    /// The number of tuples of the next span. Each tuple takes `words` values and `refs` references, which are known to be there
    /// for that many tuples.
    pub fn span(&mut self, words: usize, refs: usize) -> Result<usize> {
        let count = usize::try_from(self.word()?).map_err(|_| mismatch("span too long"))?;
        let fits = |size: usize, available: usize| count.checked_mul(size).is_some_and(|total| total <= available);
        // A tuple has at least one field, so one of the two bounds the count.
        if (words == 0 && refs == 0) || !fits(words, self.words.len()) || !fits(refs, self.refs.len()) {
            return Err(mismatch("span longer than the call"));
        }
        Ok(count)
    }

    /// Checks that nothing is left.
    pub fn finish(self) -> Result<()> {
        if self.words.is_empty() && self.refs.is_empty() { Ok(()) } else { Err(mismatch("too many arguments")) }
    }
}

#[cold]
fn mismatch(what: &str) -> Status {
    Status::invalid_argument(format!("the arguments do not match the calling convention: {what}"))
}

#[cold]
fn null(name: &str) -> Status {
    Status::invalid_argument(format!("argument `{name}` is null"))
}

/// How a reference becomes the type a function asks for. `name` is the argument's name in messages.
pub trait FromRef: Sized {
    /// Converts, or says why not.
    fn from_ref(reference: Option<Ref>, name: &str) -> Result<Self>;
}

impl FromRef for Ref {
    fn from_ref(reference: Option<Ref>, name: &str) -> Result<Ref> {
        reference.ok_or_else(|| null(name))
    }
}

impl FromRef for Option<Ref> {
    fn from_ref(reference: Option<Ref>, _name: &str) -> Result<Option<Ref>> {
        Ok(reference)
    }
}

impl<T: Object> FromRef for Obj<T> {
    fn from_ref(reference: Option<Ref>, name: &str) -> Result<Obj<T>> {
        Ref::from_ref(reference, name)?.cast().map_err(|error| error.context(format_args!("argument `{name}`")))
    }
}

impl<T: Object> FromRef for Option<Obj<T>> {
    fn from_ref(reference: Option<Ref>, name: &str) -> Result<Option<Obj<T>>> {
        reference.map(|reference| Obj::from_ref(Some(reference), name)).transpose()
    }
}

/// How a result becomes a reference.
pub trait IntoRef {
    /// Converts.
    fn into_optional_ref(self) -> Option<Ref>;
}

impl IntoRef for Ref {
    fn into_optional_ref(self) -> Option<Ref> {
        Some(self)
    }
}

impl<T: Object> IntoRef for Obj<T> {
    fn into_optional_ref(self) -> Option<Ref> {
        Some(self.into_ref())
    }
}

impl<T: IntoRef> IntoRef for Option<T> {
    fn into_optional_ref(self) -> Option<Ref> {
        self.and_then(IntoRef::into_optional_ref)
    }
}

/// The state of a native module's context as the type that the module declared.
pub fn state<T: 'static>(state: &mut dyn std::any::Any) -> Result<&mut T> {
    state.downcast_mut().ok_or_else(|| Status::internal("the state of a native module is not of the module's type"))
}

/// True if two type names are the same; usable in constants.
pub const fn same_name(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}
