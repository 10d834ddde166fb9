//! Operations on the values of one lane, of which interpreters make the semantics of instructions: integers of 16, 32
//! and 64 bits, floats of these widths, and conversions between them.
//!
//! They know no instruction set: if a name says nothing else, floats are rounded to nearest, nothing is flushed, and
//! shifts take the amount modulo the width. All of them are without branches where that pays, and `inline(always)`,
//! since a handler that is compiled for a newer processor has to contain them.

#![expect(missing_docs, reason = "the vocabulary of an instruction set says what each function of its name computes")]

mod brain;
mod bytes;
mod convert;
mod directed;
mod float;
mod half;
mod integer;
mod words;

pub use brain::*;
pub use bytes::*;
pub use convert::*;
pub use directed::*;
pub use float::*;
pub use half::{F16, to_odd_f32};
pub use integer::*;
pub use words::*;

/// The first value if the bit is set, else the second.
#[inline(always)]
pub fn select<T>(bit: bool, yes: T, no: T) -> T {
    if bit { yes } else { no }
}
