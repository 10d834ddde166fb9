//! Where the arguments of a call come from and where its results go: typed values of Rust, or lists of values. The core
//! in `callee_call.rs` is instantiated with both. Arguments that are lent are written by `ready_call.rs`, whose frame
//! must not release them; those of a direct import stay in registers of the processor (`direct_import.rs`).

use std::marker::PhantomData;

use super::passed::PassedList;
use crate::Value;
use crate::bytecode::AnyReg;
use crate::convention::{Convention, Kind};
use crate::interp::frame::argument_layout::ArgumentLayout;
use crate::interp::frame::registers::Registers;
use crate::status::{Result, Status};

/// The arguments of a call, which are those of the function's convention.
pub trait Arguments: Sized {
    /// Writes them to the first frame. The verifier has proven that it has room for them.
    fn store(self, frame: &mut Registers);
}

/// The place where the results of a call go.
pub trait Results: Sized {
    /// The value that the caller gets.
    type Output;

    /// True if the function is known to have none.
    const IS_EMPTY: bool;

    /// Moves results of these kinds out of the registers that the function returns.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if one is not of the type that the caller wants.
    fn load(&mut self, kinds: &[Kind], frame: &mut Registers, registers: &[AnyReg]) -> Result<Self::Output>;
}

/// Arguments of known types.
pub struct Typed<P>(pub P);

impl<P: PassedList> Arguments for Typed<P> {
    #[inline(always)]
    fn store(self, frame: &mut Registers) {
        self.0.store(frame);
    }
}

impl Arguments for &[Value] {
    #[inline(always)]
    fn store(self, frame: &mut Registers) {
        let mut layout = ArgumentLayout::default();
        for value in self {
            let index = layout.place(kind_of(value));
            match value {
                Value::I32(value) => frame.set_word(index, *value as u32),
                Value::I64(value) => frame.set_wide(index, *value as u64),
                Value::F32(value) => frame.set_word(index, value.to_bits()),
                Value::F64(value) => frame.set_wide(index, value.to_bits()),
                Value::Ref(value) => frame.assign(index, value.clone()),
            }
        }
    }
}

/// Results of known types.
pub struct TypedResults<R>(PhantomData<fn() -> R>);

impl<R> TypedResults<R> {
    /// Results of these types.
    #[inline(always)]
    pub fn sink() -> TypedResults<R> {
        TypedResults(PhantomData)
    }
}

impl<R: PassedList> Results for TypedResults<R> {
    type Output = R;
    const IS_EMPTY: bool = R::KINDS.is_empty();

    #[inline(always)]
    fn load(&mut self, _kinds: &[Kind], frame: &mut Registers, registers: &[AnyReg]) -> Result<R> {
        R::load(frame, registers)
    }
}

/// Results that are added to a list.
impl Results for Vec<Value> {
    type Output = ();
    const IS_EMPTY: bool = false;

    #[inline(always)]
    fn load(&mut self, kinds: &[Kind], frame: &mut Registers, registers: &[AnyReg]) -> Result<()> {
        // Not `extend`, which is a function of its own and takes the iterator in memory: 2 ns of 20.
        self.reserve(registers.len());
        for index in 0..kinds.len().min(registers.len()) {
            self.push(frame.value(kinds[index], registers[index]));
        }
        Ok(())
    }
}

/// Fails if `args` are not those of `convention`.
#[inline]
pub(in crate::interp) fn check_arguments(convention: &Convention, args: &[Value]) -> Result<()> {
    // By index: two iterators at a time are a function of their own in some builds, at each call.
    let arguments = &convention.args[..];
    let is_taken = |index: usize| arguments[index].kind() == Some(kind_of(&args[index]));
    if arguments.len() == args.len() && (0..args.len()).all(is_taken) {
        return Ok(());
    }
    check_argument_kinds(convention, args.iter().map(|value| (kind_of(value), value.type_name())))
}

/// Fails unless the convention has arguments of these kinds, which messages name so.
#[cold]
pub fn check_argument_kinds<'a>(
    convention: &Convention,
    given: impl ExactSizeIterator<Item = (Kind, &'a str)>,
) -> Result<()> {
    let Some(expected) = convention.fixed_args() else {
        return Err(Status::unimplemented(format!(
            "a call of a variadic function `{convention}` from outside of a program"
        )));
    };
    check_kinds("argument", convention, &expected, given)
}

/// Fails unless arguments or results, `what`, are of the kinds that the convention has.
#[cold]
pub fn check_kinds<'a>(
    what: &str,
    convention: &Convention,
    expected: &[Kind],
    given: impl ExactSizeIterator<Item = (Kind, &'a str)>,
) -> Result<()> {
    if given.len() != expected.len() {
        return Err(Status::invalid_argument(format!(
            "the function has {} {what}s (`{convention}`), {} are given",
            expected.len(),
            given.len()
        )));
    }
    for (index, ((kind, name), expected)) in given.zip(expected).enumerate() {
        if kind != *expected {
            let letter = expected.letter();
            let message = format!("{what} {index} is {name}, expected `{letter}` of `{convention}`");
            return Err(Status::invalid_argument(message));
        }
    }
    Ok(())
}

#[inline(always)]
fn kind_of(value: &Value) -> Kind {
    match value {
        Value::I32(_) => Kind::I32,
        Value::I64(_) => Kind::I64,
        Value::F32(_) => Kind::F32,
        Value::F64(_) => Kind::F64,
        Value::Ref(_) => Kind::Ref,
    }
}
