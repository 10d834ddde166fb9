//! Each primitive with the interpreter's function for it.

use crate::generated::vm::primitive::Primitive;
use crate::interp::prim::{self, Float, Int, Trap};
use crate::ir::types::Scalar;

/// A value as the word that registers hold.
pub(super) trait Word {
    const SCALAR: Scalar;
    fn from_word(word: u64) -> Self;
    fn word(self) -> u64;
}

macro_rules! words {
    ($($ty:ty: $scalar:ident, $word:ident => $from:expr, $value:ident => $to:expr;)*) => {$(
        impl Word for $ty {
            const SCALAR: Scalar = Scalar::$scalar;
            fn from_word($word: u64) -> Self {
                $from
            }
            fn word(self) -> u64 {
                let $value = self;
                $to
            }
        }
    )*};
}

words! {
    i32: I32, word => word as i32, value => u64::from(value as u32);
    i64: I64, word => word as i64, value => value as u64;
    f32: F32, word => f32::from_bits(word as u32), value => u64::from(value.to_bits());
    f64: F64, word => f64::from_bits(word), value => value.to_bits();
    bool: I32, word => word != 0, value => u64::from(value);
}

/// The result of the interpreter's function: none for a trap.
pub(super) trait Answer {
    fn answer(self) -> (Scalar, Option<u64>);
}

impl<T: Word> Answer for T {
    fn answer(self) -> (Scalar, Option<u64>) {
        (T::SCALAR, Some(self.word()))
    }
}

impl<T: Word> Answer for Result<T, Trap> {
    fn answer(self) -> (Scalar, Option<u64>) {
        (T::SCALAR, self.ok().map(Word::word))
    }
}

pub(super) struct Case {
    pub(super) primitive: Primitive,
    pub(super) of: Scalar,
    pub(super) params: Vec<Scalar>,
    pub(super) expect: fn(&[u64]) -> (Scalar, Option<u64>),
}

/// One case for each primitive and type that it works on.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    macro_rules! case {
        ($primitive:ident $of:ident ($($name:ident: $ty:ty),*) $value:expr) => {
            cases.push(Case {
                primitive: Primitive::$primitive,
                of: Scalar::$of,
                params: vec![$(<$ty as Word>::SCALAR),*],
                expect: |words| {
                    let mut words = words.iter();
                    $(let $name = <$ty as Word>::from_word(*words.next().unwrap());)*
                    Answer::answer($value)
                },
            })
        };
    }
    macro_rules! ints {
        ($of:ident $ty:ty; $($primitive:ident $function:ident ($($name:ident: $param:ty),*);)*) => {
            $(case!($primitive $of ($($name: $param),*) <$ty as Int>::$function($($name),*));)*
        };
    }
    macro_rules! all_ints {
        ($of:ident $t:ty) => {
            ints! { $of $t;
                WrappingAdd wrapping_add (a: $t, b: $t);
                WrappingSub wrapping_sub (a: $t, b: $t);
                WrappingMul wrapping_mul (a: $t, b: $t);
                WrappingMulAdd wrapping_mul_add (a: $t, b: $t, c: $t);
                CheckedDivS checked_div_s (a: $t, b: $t);
                CheckedDivU checked_div_u (a: $t, b: $t);
                CheckedRemS checked_rem_s (a: $t, b: $t);
                CheckedRemU checked_rem_u (a: $t, b: $t);
                Not not (a: $t);
                And and (a: $t, b: $t);
                Or or (a: $t, b: $t);
                Xor xor (a: $t, b: $t);
                Shl shl (a: $t, b: i32);
                ShrS shr_s (a: $t, b: i32);
                ShrU shr_u (a: $t, b: i32);
                AbsWrapping abs_wrapping (a: $t);
                MinS min_s (a: $t, b: $t);
                MinU min_u (a: $t, b: $t);
                MaxS max_s (a: $t, b: $t);
                MaxU max_u (a: $t, b: $t);
                LeadingZeros leading_zeros (a: $t);
                Eq eq (a: $t, b: $t);
                Ne ne (a: $t, b: $t);
                LtS lt_s (a: $t, b: $t);
                LtU lt_u (a: $t, b: $t);
                IsNonzero is_nonzero (a: $t);
            }
        };
    }
    macro_rules! floats {
        ($of:ident $ty:ty; $($primitive:ident $function:ident ($($name:ident: $param:ty),*);)*) => {
            $(case!($primitive $of ($($name: $param),*) <$ty as Float>::$function($($name),*));)*
        };
    }
    macro_rules! all_floats {
        ($of:ident $t:ty, $bits:ty) => {
            floats! { $of $t;
                Fadd fadd (a: $t, b: $t);
                Fsub fsub (a: $t, b: $t);
                Fmul fmul (a: $t, b: $t);
                Fdiv fdiv (a: $t, b: $t);
                FmulFadd fmul_fadd (a: $t, b: $t, c: $t);
                Fneg fneg (a: $t);
                Fabs fabs (a: $t);
                FminLhs fmin_lhs (a: $t, b: $t);
                FmaxLhs fmax_lhs (a: $t, b: $t);
                Fsqrt fsqrt (a: $t);
                Frsqrt frsqrt (a: $t);
                Feq feq (a: $t, b: $t);
                FeqU feq_u (a: $t, b: $t);
                Fne fne (a: $t, b: $t);
                Flt flt (a: $t, b: $t);
                Fle fle (a: $t, b: $t);
                FltU flt_u (a: $t, b: $t);
                FleU fle_u (a: $t, b: $t);
                IsNan is_nan (a: $t);
                Bits bits (a: $t);
                FromBits from_bits (a: $bits);
                I32ToF i32_to_f (a: i32);
                U32ToF u32_to_f (a: i32);
                I64ToF i64_to_f (a: i64);
                U64ToF u64_to_f (a: i64);
                Fceil fceil (a: $t);
                Ffloor ffloor (a: $t);
                FroundAway fround_away (a: $t);
                FroundEvenPz fround_even_pz (a: $t);
                RoundI64 round_i64 (a: $t);
                RoundI32 round_i32 (a: $t);
            }
        };
    }
    all_ints!(I32 i32);
    all_ints!(I64 i64);
    all_floats!(F32 f32, i32);
    all_floats!(F64 f64, i64);
    case!(Low8Zext I32 (a: i32) prim::low8_zext(a));
    case!(Low16Zext I32 (a: i32) prim::low16_zext(a));
    case!(Low8Sext I32 (a: i32) prim::low8_sext(a));
    case!(Low16Sext I32 (a: i32) prim::low16_sext(a));
    case!(Low32 I32 (a: i64) prim::low32(a));
    case!(Sext64 I64 (a: i32) prim::sext64(a));
    case!(Zext64 I64 (a: i32) prim::zext64(a));
    case!(RoundU64F32 I64 (a: f32) prim::round_u64_f32(a));
    case!(Fdemote F32 (a: f64) prim::fdemote(a));
    case!(Fpromote F64 (a: f32) prim::fpromote(a));
    cases
}
