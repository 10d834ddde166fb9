//! The boundary between programs and functions in Rust: reading the arguments of a call, checking them, writing the results.
//!
//! [`shims`] holds one typed function for each calling convention of the spec'd modules and [`modules`] their export tables; both are
//! generated from `spec/abi`, as are the arguments of the functions that the runtime calls itself, [`callees`]. `#[vm_module]` writes code against what is here.

use smallvec::{SmallVec, smallvec};

use crate::status::{Result, Status};
use crate::{BoxedWaitSource, Buffer, Call, Obj, Object, Ref};

mod span;

pub use crate::generated::abi::{callees, modules, shims};
pub use span::{FromSpan, RawSpan, Span, Tuple, Tuples};

/// What a function that may have to wait returns.
pub enum Step<T> {
    /// The results.
    Return(T),
    /// The caller has to wait and then to call again with the same arguments.
    Wait(BoxedWaitSource),
}

/// Reads the arguments of a call in order.
pub struct Arguments<'call> {
    words: &'call [u64],
    refs: &'call mut [Option<Ref>],
    lent: u64,
    keep: bool,
}

/// A reference argument. Whoever wants to have it gets it or, if the caller keeps it, one more count.
pub struct RefArgument<'call> {
    reference: &'call mut Option<Ref>,
    keep: bool,
}

impl<'call> RefArgument<'call> {
    /// The reference, to have.
    #[inline]
    pub fn into_owned(self) -> Option<Ref> {
        if self.keep { self.reference.clone() } else { self.reference.take() }
    }

    /// The reference for as long as the call lasts.
    #[inline]
    pub fn borrow(self) -> Option<&'call Ref> {
        self.reference.as_ref()
    }
}

impl<'call> Arguments<'call> {
    /// A reader of `call`, whose results it clears. With `keep` references are copied rather than taken, so that the call can be
    /// repeated.
    #[inline]
    pub fn new(call: &'call mut Call, keep: bool) -> Arguments<'call> {
        call.result_words.clear();
        call.result_refs.clear();
        Arguments { words: &call.words, refs: &mut call.refs, lent: call.lent, keep }
    }

    #[inline]
    fn word(&mut self) -> Result<u64> {
        let (first, rest) = self.words.split_first().ok_or_else(|| mismatch("too few values"))?;
        self.words = rest;
        Ok(*first)
    }

    /// The next `i`.
    #[inline]
    pub fn i32(&mut self) -> Result<i32> {
        Ok(self.word()? as i32)
    }

    /// The next `I`.
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        Ok(self.word()? as i64)
    }

    /// The next `f`.
    #[inline]
    pub fn f32(&mut self) -> Result<f32> {
        Ok(f32::from_bits(self.word()? as u32))
    }

    /// The next `F`.
    #[inline]
    pub fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_bits(self.word()?))
    }

    /// The next `r`.
    #[inline]
    pub fn reference(&mut self) -> Result<RefArgument<'call>> {
        let refs = std::mem::take(&mut self.refs);
        let (first, rest) = refs.split_first_mut().ok_or_else(|| mismatch("too few references"))?;
        self.refs = rest;
        let keep = self.keep || self.lent & 1 != 0;
        self.lent >>= 1;
        Ok(RefArgument { reference: first, keep })
    }

    /// The next span. Each tuple takes `words` values and `refs` references, which are known to be there for all of them.
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

    /// Checks that nothing is left.
    #[inline]
    pub fn finish(self) -> Result<()> {
        if self.words.is_empty() && self.refs.is_empty() { Ok(()) } else { Err(mismatch("too many arguments")) }
    }
}

#[cold]
fn mismatch(what: &str) -> Status {
    Status::invalid_argument(format!("the arguments do not match the calling convention: {what}"))
}

#[cold]
fn null_argument(name: &str) -> Status {
    Status::invalid_argument(format!("argument `{name}` is null"))
}

/// How a reference becomes the type a function asks for. `name` is the argument's name in messages.
pub trait FromRef<'call>: Sized {
    /// Converts, or says why not.
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

/// What a spec says that a number of a call is (`as` in `spec/abi/modules`). `N` is the value that carries it, `i32` or `i64`.
pub trait FromNumber<N>: Sized {
    /// Converts, or says why not.
    fn from_argument(number: N) -> Result<Self>;
}

/// How a result becomes the number that carries it.
pub trait IntoNumber<N> {
    /// Converts.
    fn into_result(self) -> N;
}

/// The bytes of a text in a VM buffer, which is copied to the stack if it is short: the buffer may change meanwhile.
pub struct TextArgument(SmallVec<[u8; 128]>);

impl TextArgument {
    /// The bytes of an argument that is not null.
    #[inline]
    pub fn new(argument: RefArgument<'_>, name: &str) -> Result<TextArgument> {
        TextArgument::of(<&Obj<Buffer>>::from_ref(argument, name)?)
    }

    /// The bytes of an argument that may be null.
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
    pub fn text(&self, name: &str) -> Result<&str> {
        str::from_utf8(&self.0).map_err(|_| not_text(name))
    }
}

#[cold]
fn not_text(name: &str) -> Status {
    Status::invalid_argument(format!("{name} is not UTF-8"))
}

/// How a result becomes a reference.
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

/// The state of a native module's context as the type that the module declared.
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
