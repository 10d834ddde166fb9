//! Spans: variadic arguments, which are lists of tuples, read in place from the argument streams of a call. Generated
//! shims pass them to native functions.

use std::marker::PhantomData;

use super::{in_argument, null_argument};
use crate::status::{Result, Status};
use crate::{Obj, Object, Ref};

/// The words and references of the tuples of a span, not yet checked.
#[derive(Clone, Copy, Debug)]
pub struct RawSpan<'call> {
    words: &'call [u64],
    refs: &'call [Option<Ref>],
    count: usize,
}

impl<'call> RawSpan<'call> {
    /// A span of `count` tuples with these words and references.
    #[inline]
    pub(super) fn new(words: &'call [u64], refs: &'call [Option<Ref>], count: usize) -> RawSpan<'call> {
        RawSpan { words, refs, count }
    }

    /// The reference of a span of single references that has at most one; null if it has none. `name` is the argument's
    /// name in messages.
    ///
    /// # Errors
    /// `UNIMPLEMENTED`, with the name of the argument, if there are more.
    pub fn at_most_one(&self, name: &str) -> Result<Option<Ref>> {
        match self.refs {
            [] => Ok(None),
            [one] => Ok(one.clone()),
            more => Err(Status::unimplemented(format!(
                "argument `{name}` has {} elements, at most one is supported",
                more.len()
            ))),
        }
    }

    /// The words of all tuples. In a span of single `I` they are the elements.
    #[inline]
    pub fn words(&self) -> &'call [u64] {
        self.words
    }
}

/// A list of tuples in the argument streams of a call. It owns nothing and allocates nothing; all tuples were checked
/// to be `T` when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Span<'call, T> {
    raw: RawSpan<'call>,
    tuples: PhantomData<T>,
}

impl<'call, T: Tuple<'call>> Span<'call, T> {
    /// Number of tuples.
    #[inline]
    pub fn len(&self) -> usize {
        self.raw.count
    }

    /// True if there is no tuple.
    pub fn is_empty(&self) -> bool {
        self.raw.count == 0
    }

    /// The tuples in order.
    pub fn iter(&self) -> Tuples<'call, T> {
        Tuples { raw: self.raw, tuples: PhantomData }
    }
}

impl<'call, T: Tuple<'call>> IntoIterator for Span<'call, T> {
    type Item = T;
    type IntoIter = Tuples<'call, T>;

    fn into_iter(self) -> Tuples<'call, T> {
        self.iter()
    }
}

impl<'call, T: Tuple<'call>> IntoIterator for &Span<'call, T> {
    type Item = T;
    type IntoIter = Tuples<'call, T>;

    fn into_iter(self) -> Tuples<'call, T> {
        self.iter()
    }
}

/// The tuples of a [`Span`].
#[derive(Debug)]
pub struct Tuples<'call, T> {
    raw: RawSpan<'call>,
    tuples: PhantomData<T>,
}

impl<T> Clone for Tuples<'_, T> {
    fn clone(&self) -> Self {
        Tuples { raw: self.raw, tuples: PhantomData }
    }
}

impl<'call, T: Tuple<'call>> Iterator for Tuples<'call, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        // All tuples were read once when the span was made, so reading cannot fail.
        next(&mut self.raw, "")?.ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.raw.count, Some(self.raw.count))
    }
}

impl<'call, T: Tuple<'call>> ExactSizeIterator for Tuples<'call, T> {}

#[inline]
fn next<'call, T: Tuple<'call>>(raw: &mut RawSpan<'call>, name: &str) -> Option<Result<T>> {
    raw.count = raw.count.checked_sub(1)?;
    let (words, more_words) = raw.words.split_at_checked(T::WORDS)?;
    let (refs, more_refs) = raw.refs.split_at_checked(T::REFS)?;
    (raw.words, raw.refs) = (more_words, more_refs);
    Some(T::read(words, refs, name))
}

/// Conversion of a span argument to the type of a parameter. `name` is the argument's name in messages.
pub trait FromSpan<'call>: Sized {
    /// Converts.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the name of the argument, if a reference in a tuple is null where an object is needed
    /// or of another type.
    fn from_span(span: RawSpan<'call>, name: &str) -> Result<Self>;
}

impl<'call, T: Tuple<'call>> FromSpan<'call> for Span<'call, T> {
    #[inline]
    fn from_span(raw: RawSpan<'call>, name: &str) -> Result<Self> {
        if T::CAN_FAIL {
            let mut rest = raw;
            while let Some(tuple) = next::<T>(&mut rest, name) {
                tuple?;
            }
        }
        Ok(Span { raw, tuples: PhantomData })
    }
}

impl<'call, T: Tuple<'call>> FromSpan<'call> for Vec<T> {
    fn from_span(mut raw: RawSpan<'call>, name: &str) -> Result<Self> {
        let mut tuples = Vec::with_capacity(raw.count);
        while let Some(tuple) = next(&mut raw, name) {
            tuples.push(tuple?);
        }
        Ok(tuples)
    }
}

/// An element of a span: a value, or a tuple of values.
pub trait Tuple<'call>: Sized {
    /// Number of words of one element.
    const WORDS: usize;
    /// Number of references of one element.
    const REFS: usize;
    /// True if reading can fail, because a reference may be null or of another type.
    const CAN_FAIL: bool;

    /// Reads an element from exactly that many words and references.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the name of the argument, if a reference is null where an object is needed or of
    /// another type.
    fn read(words: &[u64], refs: &'call [Option<Ref>], name: &str) -> Result<Self>;
}

macro_rules! words {
    ($($ty:ty: $word:ident => $value:expr;)*) => {$(
        impl<'call> Tuple<'call> for $ty {
            const WORDS: usize = 1;
            const REFS: usize = 0;
            const CAN_FAIL: bool = false;

            #[inline(always)]
            fn read(words: &[u64], _refs: &'call [Option<Ref>], _name: &str) -> Result<$ty> {
                let $word = words.first().copied().unwrap_or(0);
                Ok($value)
            }
        }
    )*};
}

words! {
    i32: word => word as i32;
    u32: word => word as u32;
    bool: word => word as u32 != 0;
    i64: word => word as i64;
    u64: word => word;
    f32: word => f32::from_bits(word as u32);
    f64: word => f64::from_bits(word);
}

macro_rules! references {
    ($($ty:ty { $($generics:tt)* } $can_fail:literal: $reference:ident, $name:ident => $value:expr;)*) => {$(
        impl<'call $($generics)*> Tuple<'call> for $ty {
            const WORDS: usize = 0;
            const REFS: usize = 1;
            const CAN_FAIL: bool = $can_fail;

            #[inline(always)]
            fn read(_words: &[u64], refs: &'call [Option<Ref>], $name: &str) -> Result<$ty> {
                let $reference = refs.first().and_then(Option::as_ref);
                $value
            }
        }
    )*};
}

fn cast<'call, T: Object>(reference: &'call Ref, name: &str) -> Result<&'call Obj<T>> {
    reference.cast_ref().map_err(|error| in_argument(error, name))
}

references! {
    Option<&'call Ref> {} false: reference, _name => Ok(reference);
    &'call Ref {} true: reference, name => reference.ok_or_else(|| null_argument(name));
    Option<Ref> {} false: reference, _name => Ok(reference.cloned());
    Ref {} true: reference, name => reference.cloned().ok_or_else(|| null_argument(name));
    Option<&'call Obj<T>> {, T: Object} true: reference, name => reference.map(|found| cast(found, name)).transpose();
    &'call Obj<T> {, T: Object} true: reference, name => cast(reference.ok_or_else(|| null_argument(name))?, name);
    Option<Obj<T>> {, T: Object} true: reference, name => {
        Ok(reference.map(|found| cast::<T>(found, name)).transpose()?.cloned())
    };
    Obj<T> {, T: Object} true: reference, name => Ok(cast::<T>(reference.ok_or_else(|| null_argument(name))?, name)?.clone());
}

macro_rules! tuples {
    ($($($field:ident)*;)*) => {$(
        impl<'call, $($field: Tuple<'call>),*> Tuple<'call> for ($($field,)*) {
            const WORDS: usize = 0 $(+ $field::WORDS)*;
            const REFS: usize = 0 $(+ $field::REFS)*;
            const CAN_FAIL: bool = false $(|| $field::CAN_FAIL)*;

            #[inline(always)]
            #[expect(unused_assignments, reason = "the last field leaves nothing to read")]
            fn read(mut words: &[u64], mut refs: &'call [Option<Ref>], name: &str) -> Result<Self> {
                Ok(($({
                    let (own_words, rest) = words.split_at($field::WORDS.min(words.len()));
                    words = rest;
                    let (own_refs, rest) = refs.split_at($field::REFS.min(refs.len()));
                    refs = rest;
                    $field::read(own_words, own_refs, name)?
                },)*))
            }
        }
    )*};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}
