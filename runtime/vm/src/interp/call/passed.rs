//! Typed arguments and results: they go from Rust to the first frame, at offsets that are known at compile time, and
//! from the frame to Rust, so there is no list of [`Value`]s.

use crate::Ref;
use crate::Value;
use crate::bytecode::AnyReg;
use crate::convention::Kind;
use crate::interp::frame::argument_layout::ArgumentLayout;
use crate::interp::frame::registers::Registers;
use crate::status::Result;
use crate::status::Status;
use crate::{Obj, Object};

/// A Rust type of one argument or result: `i32`, `i64`, `f32`, `f64`, [`Ref`] and [`Obj`] for references that are not
/// null, and options of these two.
pub trait Passed: Sized {
    /// Its kind in a calling convention.
    #[doc(hidden)]
    const KIND: Kind;

    /// Its name in messages.
    #[doc(hidden)]
    const NAME: &'static str;

    /// Writes it to a register of a new frame, whose references are null.
    #[doc(hidden)]
    fn store(self, frame: &mut Registers, register: usize);

    /// Moves it out of a register that the function returns, or copies it.
    #[doc(hidden)]
    fn load(frame: &mut Registers, register: AnyReg) -> Result<Self>;
}

macro_rules! numbers {
    ($($rust:ident $kind:ident: $store:ident($to_bits:expr), $load:expr;)*) => {$(
        impl Passed for $rust {
            const KIND: Kind = Kind::$kind;
            const NAME: &'static str = stringify!($rust);

            #[inline(always)]
            fn store(self, frame: &mut Registers, register: usize) {
                frame.$store(register, $to_bits(self));
            }

            #[inline(always)]
            fn load(frame: &mut Registers, register: AnyReg) -> Result<$rust> {
                Ok($load(frame, register))
            }
        }
    )*};
}

fn word(frame: &Registers, register: AnyReg) -> u32 {
    frame.word(register.reg().index())
}

fn wide(frame: &Registers, register: AnyReg) -> u64 {
    frame.wide(register.reg())
}

numbers! {
    i32 I32: set_word(|value| value as u32), |frame: &mut Registers, register| word(frame, register) as i32;
    i64 I64: set_wide(|value| value as u64), |frame: &mut Registers, register| wide(frame, register) as i64;
    f32 F32: set_word(f32::to_bits), |frame: &mut Registers, register| f32::from_bits(word(frame, register));
    f64 F64: set_wide(f64::to_bits), |frame: &mut Registers, register| f64::from_bits(wide(frame, register));
}

macro_rules! references {
    ($([$($generic:tt)*] $rust:ty: $name:expr, $into:expr, $from:expr;)*) => {$(
        impl $($generic)* Passed for $rust {
            const KIND: Kind = Kind::Ref;
            const NAME: &'static str = $name;

            #[inline(always)]
            fn store(self, frame: &mut Registers, register: usize) {
                frame.set_null(register, $into(self));
            }

            #[inline(always)]
            fn load(frame: &mut Registers, register: AnyReg) -> Result<Self> {
                $from(frame.take(register.ref_reg()))
            }
        }
    )*};
}

references! {
    [] Option<Ref>: "a reference", |value| value, Ok;
    [] Ref: "a reference", Some, |reference: Option<Ref>| reference.ok_or_else(null::<Ref>);
    [<T: Object>] Option<Obj<T>>: T::TYPE_NAME, |value: Self| value.map(Obj::into_ref),
        |reference: Option<Ref>| reference.map(Ref::cast).transpose();
    [<T: Object>] Obj<T>: T::TYPE_NAME, |value: Self| Some(value.into_ref()),
        |reference: Option<Ref>| reference.ok_or_else(null::<Obj<T>>)?.cast();
}

/// A reference is null that is passed as a `P`.
#[cold]
fn null<P: Passed>() -> Status {
    Status::invalid_argument(format!("expected {}, found {}", P::NAME, Value::NULL.type_name()))
}

/// The arguments or the results of a typed function: one [`Passed`] type, or a tuple of up to twelve.
pub trait PassedList: Sized {
    #[doc(hidden)]
    const KINDS: &'static [Kind];

    #[doc(hidden)]
    const NAMES: &'static [&'static str];

    /// Writes them to the frame of a function with arguments of these kinds.
    #[doc(hidden)]
    fn store(self, frame: &mut Registers);

    /// As `store`, with copies whose references are not counted.
    ///
    /// # Safety
    /// The caller makes up for that: the frame is kept from releasing them, or they are counted before.
    #[doc(hidden)]
    unsafe fn lend(&self, frame: &mut Registers);

    /// Moves them out of the registers that a function with results of these kinds returns.
    #[doc(hidden)]
    fn load(frame: &mut Registers, registers: &[AnyReg]) -> Result<Self>;
}

/// The registers of arguments of these kinds.
const fn places<const COUNT: usize>(kinds: &[Kind]) -> [usize; COUNT] {
    let mut places = [0; COUNT];
    let mut layout = ArgumentLayout::EMPTY;
    let mut index = 0;
    while index < COUNT {
        places[index] = layout.place(kinds[index]);
        index += 1;
    }
    places
}

fn in_result<T>(result: Result<T>, index: usize) -> Result<T> {
    result.map_err(|status| status.context(format!("result {index}")))
}

#[cold]
fn wrong_count() -> Status {
    Status::internal("the function returned another number of results than its convention has")
}

macro_rules! tuples {
    ($($count:literal: $($type:ident $field:tt),*;)*) => {$(
        impl<$($type: Passed),*> PassedList for ($($type,)*) {
            const KINDS: &'static [Kind] = &[$($type::KIND),*];
            const NAMES: &'static [&'static str] = &[$($type::NAME),*];

            #[inline(always)]
            fn store(self, _frame: &mut Registers) {
                let _places: [usize; $count] = const { places(Self::KINDS) };
                $(self.$field.store(_frame, _places[$field]);)*
            }

            #[inline(always)]
            unsafe fn lend(&self, _frame: &mut Registers) {
                let _places: [usize; $count] = const { places(Self::KINDS) };
                // Each one by itself: the caller has just written some of them, and the processor makes a wider load
                // wait for that. SAFETY: the fields are initialised. The caller vouches for the references.
                $(unsafe { (&raw const self.$field).read_volatile() }.store(_frame, _places[$field]);)*
            }

            #[inline(always)]
            fn load(_frame: &mut Registers, registers: &[AnyReg]) -> Result<Self> {
                let Ok(_registers) = <&[AnyReg; $count]>::try_from(registers) else { return Err(wrong_count()) };
                Ok(($(in_result($type::load(_frame, _registers[$field]), $field)?,)*))
            }
        }
    )*};
}

tuples! {
    0: ;
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
    7: A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    11: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    12: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11;
}

impl<T: Passed> PassedList for T {
    const KINDS: &'static [Kind] = <(T,)>::KINDS;
    const NAMES: &'static [&'static str] = <(T,)>::NAMES;

    #[inline(always)]
    fn store(self, frame: &mut Registers) {
        (self,).store(frame);
    }

    #[inline(always)]
    unsafe fn lend(&self, frame: &mut Registers) {
        // SAFETY: the value is initialised. The caller vouches for a reference in it.
        (unsafe { std::ptr::read(self) },).store(frame);
    }

    #[inline(always)]
    fn load(frame: &mut Registers, registers: &[AnyReg]) -> Result<T> {
        <(T,)>::load(frame, registers).map(|(value,)| value)
    }
}
