//! The native ABI: typed reading of the arguments of native calls, their checks, and writing of the results. Generated
//! shims and the code that `#[vm_module]` writes call it.
//!
//! [`shims`] has one typed function for each calling convention of the modules in `spec/abi`, [`modules`] their export
//! tables, and [`callees`] the arguments of functions of programs that the runtime calls itself. All three are
//! generated.

use smallvec::{SmallVec, smallvec};

use crate::status::{Result, Status};
use crate::{BoxedWaitSource, Buffer, Call, Obj, Object, Ref};

mod span;

pub use crate::generated::abi::{callees, modules, shims};
pub use span::{FromSpan, RawSpan, Span, Tuple, Tuples};

/// The return value of a native function that may have to wait.
pub enum Step<T> {
    /// The results.
    Return(T),
    /// The caller has to wait for this source and then to call again with the same arguments.
    Wait(BoxedWaitSource),
}

/// Reads the arguments of a call in order.
pub struct Arguments<'call> {
    words: &'call [u64],
    refs: &'call mut [Option<Ref>],
    lent: u64,
    keep: bool,
}

/// A reference argument. Taking ownership moves it out of the call, or clones it if the caller keeps it.
pub struct RefArgument<'call> {
    reference: &'call mut Option<Ref>,
    keep: bool,
}

impl<'call> RefArgument<'call> {
    /// An argument that is not in the call itself.
    #[inline]
    pub fn held(reference: &'call mut Option<Ref>) -> RefArgument<'call> {
        RefArgument { reference, keep: false }
    }

    /// The owned reference.
    #[inline]
    pub fn into_owned(self) -> Option<Ref> {
        if self.keep { self.reference.clone() } else { self.reference.take() }
    }

    /// The reference, borrowed for the duration of the call.
    #[inline]
    pub fn borrow(self) -> Option<&'call Ref> {
        self.reference.as_ref()
    }
}

impl<'call> Arguments<'call> {
    /// A reader of the arguments of `call`; clears its results. With `keep` references are cloned rather than taken, so
    /// that the call can be repeated.
    #[inline]
    pub fn new(call: &'call mut Call, keep: bool) -> Arguments<'call> {
        call.result_words.clear();
        if !call.result_refs.is_empty() {
            clear_results(call);
        }
        Arguments { words: &call.words, refs: &mut call.refs, lent: call.lent, keep }
    }

    #[inline]
    fn word(&mut self) -> Result<u64> {
        let (first, rest) = self.words.split_first().ok_or_else(|| mismatch("too few values"))?;
        self.words = rest;
        Ok(*first)
    }

    /// The next `i`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if no value is left.
    #[inline]
    pub fn i32(&mut self) -> Result<i32> {
        Ok(self.word()? as i32)
    }

    /// The next `I`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if no value is left.
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        Ok(self.word()? as i64)
    }

    /// The next `f`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if no value is left.
    #[inline]
    pub fn f32(&mut self) -> Result<f32> {
        Ok(f32::from_bits(self.word()? as u32))
    }

    /// The next `F`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if no value is left.
    #[inline]
    pub fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_bits(self.word()?))
    }

    /// The next `r`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if no reference is left.
    #[inline]
    pub fn reference(&mut self) -> Result<RefArgument<'call>> {
        let refs = std::mem::take(&mut self.refs);
        let (first, rest) = refs.split_first_mut().ok_or_else(|| mismatch("too few references"))?;
        self.refs = rest;
        let keep = self.keep || self.lent & 1 != 0;
        self.lent >>= 1;
        Ok(RefArgument { reference: first, keep })
    }

    /// The next span, whose tuples have `words` values and `refs` references each.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the call has fewer values or references than its count of tuples needs.
    #[inline]
    pub fn span(&mut self, words: usize, refs: usize) -> Result<RawSpan<'call>> {
        let count = usize::try_from(self.word()?).map_err(|_| mismatch("span too long"))?;
        let of = |size: usize, available: usize| count.checked_mul(size).filter(|total| *total <= available);
        // A tuple has at least one field, so one of the two bounds the count.
        let sizes = of(words, self.words.len()).zip(of(refs, self.refs.len()));
        let Some((words, refs)) = sizes.filter(|_| words != 0 || refs != 0) else {
            return Err(mismatch("span longer than the call"));
        };
        let (own_words, rest) = self.words.split_at(words);
        self.words = rest;
        let (own_refs, rest) = std::mem::take(&mut self.refs).split_at_mut(refs);
        self.refs = rest;
        self.lent = u32::try_from(refs).ok().and_then(|refs| self.lent.checked_shr(refs)).unwrap_or(0);
        Ok(RawSpan::new(own_words, own_refs, count))
    }

    /// Checks that all arguments have been read.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if some are left.
    #[inline]
    pub fn finish(self) -> Result<()> {
        if self.words.is_empty() && self.refs.is_empty() { Ok(()) } else { Err(mismatch("too many arguments")) }
    }
}

/// Releases results of the last call, of which interpreters leave none.
#[cold]
fn clear_results(call: &mut Call) {
    call.result_refs.clear();
}

#[cold]
fn mismatch(what: &str) -> Status {
    Status::invalid_argument(format!("the arguments do not match the calling convention: {what}"))
}

#[cold]
fn null_argument(name: &str) -> Status {
    Status::invalid_argument(format!("argument `{name}` is null"))
}

/// Conversion of a reference argument to the type of a parameter. `name` is the argument's name in messages.
pub trait FromRef<'call>: Sized {
    /// Converts.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the name of the argument, for null where an object is needed and for an object of
    /// another type.
    fn from_ref(argument: RefArgument<'call>, name: &str) -> Result<Self>;
}

#[cold]
fn in_argument(error: Status, name: &str) -> Status {
    error.context(format_args!("argument `{name}`"))
}

impl<'call> FromRef<'call> for Option<Ref> {
    #[inline]
    fn from_ref(argument: RefArgument<'call>, _name: &str) -> Result<Self> {
        Ok(argument.into_owned())
    }
}

impl<'call> FromRef<'call> for Option<&'call Ref> {
    #[inline]
    fn from_ref(argument: RefArgument<'call>, _name: &str) -> Result<Self> {
        Ok(argument.borrow())
    }
}

impl<'call, T: Object> FromRef<'call> for Option<Obj<T>> {
    #[inline]
    fn from_ref(argument: RefArgument<'call>, name: &str) -> Result<Self> {
        argument.into_owned().map(|reference| reference.cast().map_err(|error| in_argument(error, name))).transpose()
    }
}

impl<'call, T: Object> FromRef<'call> for Option<&'call Obj<T>> {
    #[inline]
    fn from_ref(argument: RefArgument<'call>, name: &str) -> Result<Self> {
        argument.borrow().map(|reference| reference.cast_ref().map_err(|error| in_argument(error, name))).transpose()
    }
}

impl<'call> FromRef<'call> for Ref {
    #[inline]
    fn from_ref(argument: RefArgument<'call>, name: &str) -> Result<Self> {
        argument.into_owned().ok_or_else(|| null_argument(name))
    }
}

impl<'call> FromRef<'call> for &'call Ref {
    #[inline]
    fn from_ref(argument: RefArgument<'call>, name: &str) -> Result<Self> {
        argument.borrow().ok_or_else(|| null_argument(name))
    }
}

impl<'call, T: Object> FromRef<'call> for Obj<T> {
    #[inline]
    fn from_ref(argument: RefArgument<'call>, name: &str) -> Result<Self> {
        Option::<Obj<T>>::from_ref(argument, name)?.ok_or_else(|| null_argument(name))
    }
}

impl<'call, T: Object> FromRef<'call> for &'call Obj<T> {
    #[inline]
    fn from_ref(argument: RefArgument<'call>, name: &str) -> Result<Self> {
        Option::<&'call Obj<T>>::from_ref(argument, name)?.ok_or_else(|| null_argument(name))
    }
}

/// Conversion of a number argument to the type that `as` in `spec/abi/modules` gives it. `N` is the type in the call,
/// `i32` or `i64`.
pub trait FromNumber<N>: Sized {
    /// Converts.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a number that is no value of the type.
    fn from_argument(number: N) -> Result<Self>;
}

/// Conversion of a result to the number that the call returns.
pub trait IntoNumber<N> {
    /// Converts.
    fn into_result(self) -> N;
}

/// The bytes of a text argument, copied from its VM buffer, which may change during the call. Short texts are on the
/// stack.
pub struct TextArgument(SmallVec<[u8; 128]>);

impl TextArgument {
    /// The bytes of an argument that is not null.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the name, if it is null or no buffer.
    #[inline]
    pub fn new(argument: RefArgument<'_>, name: &str) -> Result<TextArgument> {
        TextArgument::of(<&Obj<Buffer>>::from_ref(argument, name)?)
    }

    /// The bytes of an argument that may be null.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the name, if it is an object other than a buffer.
    #[inline]
    pub fn optional(argument: RefArgument<'_>, name: &str) -> Result<Option<TextArgument>> {
        Option::<&Obj<Buffer>>::from_ref(argument, name)?.map(|buffer| TextArgument::of(buffer)).transpose()
    }

    fn of(buffer: &Buffer) -> Result<TextArgument> {
        let mut bytes = smallvec![0; buffer.len()];
        buffer.read(0, &mut bytes)?;
        Ok(TextArgument(bytes))
    }

    /// The text; `name` is the argument's name in messages.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the name, if it is no UTF-8.
    pub fn text(&self, name: &str) -> Result<&str> {
        str::from_utf8(&self.0).map_err(|_| not_text(name))
    }
}

#[cold]
fn not_text(name: &str) -> Status {
    Status::invalid_argument(format!("{name} is not UTF-8"))
}

/// Conversion of a result to a reference.
pub trait IntoRef {
    /// Converts.
    fn into_optional_ref(self) -> Option<Ref>;
}

impl IntoRef for Ref {
    #[inline]
    fn into_optional_ref(self) -> Option<Ref> {
        Some(self)
    }
}

impl<T: Object> IntoRef for Obj<T> {
    #[inline]
    fn into_optional_ref(self) -> Option<Ref> {
        Some(self.into_ref())
    }
}

impl<T: IntoRef> IntoRef for Option<T> {
    #[inline]
    fn into_optional_ref(self) -> Option<Ref> {
        self.and_then(IntoRef::into_optional_ref)
    }
}

/// The state of a native module, downcast to the type that the module declared.
///
/// # Errors
/// `INTERNAL` if it is of another type.
#[inline]
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
