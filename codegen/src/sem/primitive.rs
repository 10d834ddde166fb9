//! The closed vocabulary of `semantics`: every primitive with its signature and its effects.
//!
//! Emitters match [`Primitive`] exhaustively, so a new primitive does not compile until every artifact knows it. What each one
//! computes is stated in its doc comment; the interpreter's version is the definition that all tiers are compared with.

use std::fmt;

/// The type of an operand or of the value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ty {
    /// A 32-bit integer; signedness belongs to the primitive.
    I32,
    /// A 64-bit integer.
    I64,
    /// An IEEE single.
    F32,
    /// An IEEE double.
    F64,
    /// A truth value; becomes 0 or 1 where an `i32` is wanted.
    Bool,
    /// Any reference, possibly null.
    Ref,
    /// A reference that must hold a buffer.
    Buffer,
    /// A reference that must hold a list.
    List,
    /// A byte offset into the value globals, proven by the verifier.
    Global,
    /// A list of registers that hold values of one type.
    Regs(Scalar),
    /// No value: a store.
    Unit,
}

/// The value types that registers of the 32-bit bank hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `f32`
    F32,
    /// `f64`
    F64,
}

impl Scalar {
    /// The type of a value of it.
    pub fn ty(self) -> Ty {
        match self {
            Scalar::I32 => Ty::I32,
            Scalar::I64 => Ty::I64,
            Scalar::F32 => Ty::F32,
            Scalar::F64 => Ty::F64,
        }
    }

    /// Its name in specs and in Rust.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }

    /// Bytes of a value.
    pub fn size(self) -> u32 {
        match self {
            Scalar::I32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::F64 => 8,
        }
    }
}

impl Ty {
    /// The scalar type, if it is one.
    pub fn scalar(self) -> Option<Scalar> {
        match self {
            Ty::I32 => Some(Scalar::I32),
            Ty::I64 => Some(Scalar::I64),
            Ty::F32 => Some(Scalar::F32),
            Ty::F64 => Some(Scalar::F64),
            _ => None,
        }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ty::I32 => "i32",
            Ty::I64 => "i64",
            Ty::F32 => "f32",
            Ty::F64 => "f64",
            Ty::Bool => "bool",
            Ty::Ref => "ref",
            Ty::Buffer => "buffer",
            Ty::List => "list",
            Ty::Global => "global",
            Ty::Regs(scalar) => return write!(f, "regs[{}]", scalar.name()),
            Ty::Unit => "nothing",
        })
    }
}

/// A parameter or result type of a signature; `N`, `F` and `T` stand for one type per use of the primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sig {
    /// This very type.
    Is(Ty),
    /// The integer type of this use: `i32` or `i64`.
    N,
    /// The float type of this use: `f32` or `f64`.
    F,
    /// The scalar type of this use.
    T,
    /// A register list of `T`.
    RegsT,
    /// The integer type as wide as `F`.
    BitsOfF,
}

/// What evaluating a primitive may do besides computing its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: value in, value out.
    Pure,
    /// Nothing, and it is an out-of-line function shared by all tiers.
    Call,
    /// Stops with a trap, or computes.
    Trap,
    /// Looks at references.
    Refs,
    /// Reads a buffer, or traps.
    Load,
    /// Writes a buffer, or traps.
    Store,
    /// Reads value globals at a proven offset.
    GlobalLoad,
    /// Writes value globals at a proven offset.
    GlobalStore,
    /// Reads value globals at a computed offset, or traps.
    IndirectLoad,
    /// Writes value globals at a computed offset, or traps.
    IndirectStore,
}

impl Effect {
    /// True if `?` must follow.
    pub fn traps(self) -> bool {
        matches!(self, Effect::Trap | Effect::Load | Effect::Store | Effect::IndirectLoad | Effect::IndirectStore)
    }
}

macro_rules! sig {
    (N) => {
        Sig::N
    };
    (F) => {
        Sig::F
    };
    (T) => {
        Sig::T
    };
    (RegsT) => {
        Sig::RegsT
    };
    (BitsOfF) => {
        Sig::BitsOfF
    };
    ($ty:ident) => {
        Sig::Is(Ty::$ty)
    };
}

macro_rules! primitives {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal ($($param:ident),*) -> $result:ident, $effect:ident;)*) => {
        /// A primitive of the vocabulary.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Primitive { $($(#[doc = $doc])+ $variant,)* }

        impl Primitive {
            /// Every primitive, in the order of declaration.
            pub const ALL: &[Primitive] = &[$(Primitive::$variant),*];

            /// Its name in `semantics`. Direct and indirect global accesses share names: the receiver tells them apart.
            pub fn name(self) -> &'static str {
                match self { $(Primitive::$variant => $name,)* }
            }

            /// Parameter types; the first is the receiver.
            pub fn params(self) -> &'static [Sig] {
                match self { $(Primitive::$variant => &[$(sig!($param)),*],)* }
            }

            /// Result type.
            pub fn result(self) -> Sig {
                match self { $(Primitive::$variant => sig!($result),)* }
            }

            /// What it may do.
            pub fn effect(self) -> Effect {
                match self { $(Primitive::$variant => Effect::$effect,)* }
            }

            /// What it computes, in a sentence.
            pub fn doc(self) -> &'static str {
                match self { $(Primitive::$variant => concat!($($doc),+),)* }
            }
        }
    };
}

primitives! {
    /// Two's-complement sum, wraps.
    WrappingAdd = "wrapping_add" (N, N) -> N, Pure;
    /// Two's-complement difference, wraps.
    WrappingSub = "wrapping_sub" (N, N) -> N, Pure;
    /// Two's-complement product, wraps.
    WrappingMul = "wrapping_mul" (N, N) -> N, Pure;
    /// `a * b + c`, wraps.
    WrappingMulAdd = "wrapping_mul_add" (N, N, N) -> N, Pure;
    /// Signed quotient toward zero; division by zero is `invalid_argument`, MIN / -1 is `out_of_range`.
    CheckedDivS = "checked_div_s" (N, N) -> N, Trap;
    /// Unsigned quotient; division by zero is `invalid_argument`.
    CheckedDivU = "checked_div_u" (N, N) -> N, Trap;
    /// Signed remainder with the sign of the dividend; MIN % -1 is 0; division by zero is `invalid_argument`.
    CheckedRemS = "checked_rem_s" (N, N) -> N, Trap;
    /// Unsigned remainder; division by zero is `invalid_argument`.
    CheckedRemU = "checked_rem_u" (N, N) -> N, Trap;
    /// Complement of all bits.
    Not = "not" (N) -> N, Pure;
    /// Bitwise and.
    And = "and" (N, N) -> N, Pure;
    /// Bitwise or.
    Or = "or" (N, N) -> N, Pure;
    /// Bitwise exclusive or.
    Xor = "xor" (N, N) -> N, Pure;
    /// Shift left; the amount is taken modulo the width.
    Shl = "shl" (N, I32) -> N, Pure;
    /// Arithmetic shift right; the amount is taken modulo the width.
    ShrS = "shr_s" (N, I32) -> N, Pure;
    /// Logical shift right; the amount is taken modulo the width.
    ShrU = "shr_u" (N, I32) -> N, Pure;
    /// Absolute value; abs(MIN) is MIN.
    AbsWrapping = "abs_wrapping" (N) -> N, Pure;
    /// Signed minimum.
    MinS = "min_s" (N, N) -> N, Pure;
    /// Unsigned minimum.
    MinU = "min_u" (N, N) -> N, Pure;
    /// Signed maximum.
    MaxS = "max_s" (N, N) -> N, Pure;
    /// Unsigned maximum.
    MaxU = "max_u" (N, N) -> N, Pure;
    /// Zero bits above the highest one bit; the width for 0.
    LeadingZeros = "leading_zeros" (N) -> N, Pure;
    /// The low 8 bits, zero-extended.
    Low8Zext = "low8_zext" (I32) -> I32, Pure;
    /// The low 16 bits, zero-extended.
    Low16Zext = "low16_zext" (I32) -> I32, Pure;
    /// The low 8 bits, sign-extended.
    Low8Sext = "low8_sext" (I32) -> I32, Pure;
    /// The low 16 bits, sign-extended.
    Low16Sext = "low16_sext" (I32) -> I32, Pure;
    /// The low 32 bits.
    Low32 = "low32" (I64) -> I32, Pure;
    /// Sign-extension to 64 bits.
    Sext64 = "sext64" (I32) -> I64, Pure;
    /// Zero-extension to 64 bits.
    Zext64 = "zext64" (I32) -> I64, Pure;
    /// Equality.
    Eq = "eq" (N, N) -> Bool, Pure;
    /// Inequality.
    Ne = "ne" (N, N) -> Bool, Pure;
    /// Signed less-than.
    LtS = "lt_s" (N, N) -> Bool, Pure;
    /// Unsigned less-than.
    LtU = "lt_u" (N, N) -> Bool, Pure;
    /// True unless all bits are zero.
    IsNonzero = "is_nonzero" (N) -> Bool, Pure;
    /// The second operand if the condition holds, else the third.
    Select = "select" (Bool, T, T) -> T, Pure;
    /// The element of the register list at a signed index, or the default out of range.
    TableSelect = "table_select" (I32, T, RegsT) -> T, Pure;
    /// IEEE sum.
    Fadd = "fadd" (F, F) -> F, Pure;
    /// IEEE difference.
    Fsub = "fsub" (F, F) -> F, Pure;
    /// IEEE product.
    Fmul = "fmul" (F, F) -> F, Pure;
    /// IEEE quotient.
    Fdiv = "fdiv" (F, F) -> F, Pure;
    /// `a * b + c` rounded twice; never fused.
    FmulFadd = "fmul_fadd" (F, F, F) -> F, Pure;
    /// Flips the sign bit.
    Fneg = "fneg" (F) -> F, Pure;
    /// Clears the sign bit.
    Fabs = "fabs" (F) -> F, Pure;
    /// Rounds up.
    Fceil = "fceil" (F) -> F, Pure;
    /// Rounds down.
    Ffloor = "ffloor" (F) -> F, Pure;
    /// Rounds to nearest, half away from zero.
    FroundAway = "fround_away" (F) -> F, Pure;
    /// Rounds to nearest, half to even; -0.5 gives +0.0.
    FroundEvenPz = "fround_even_pz" (F) -> F, Pure;
    /// `rhs < lhs ? rhs : lhs`.
    FminLhs = "fmin_lhs" (F, F) -> F, Pure;
    /// `lhs < rhs ? rhs : lhs`.
    FmaxLhs = "fmax_lhs" (F, F) -> F, Pure;
    /// Correctly rounded square root.
    Fsqrt = "fsqrt" (F) -> F, Pure;
    /// One divided by the square root, rounded twice.
    Frsqrt = "frsqrt" (F) -> F, Pure;
    /// IEEE remainder (quotient rounded to nearest even).
    Fremainder = "fremainder" (F, F) -> F, Call;
    /// Equal; false if unordered.
    Feq = "feq" (F, F) -> Bool, Pure;
    /// Equal or unordered.
    FeqU = "feq_u" (F, F) -> Bool, Pure;
    /// Not equal; true if unordered.
    Fne = "fne" (F, F) -> Bool, Pure;
    /// Less; false if unordered.
    Flt = "flt" (F, F) -> Bool, Pure;
    /// Less or equal; false if unordered.
    Fle = "fle" (F, F) -> Bool, Pure;
    /// Less or unordered.
    FltU = "flt_u" (F, F) -> Bool, Pure;
    /// Less, equal or unordered.
    FleU = "fle_u" (F, F) -> Bool, Pure;
    /// True for a NaN.
    IsNan = "is_nan" (F) -> Bool, Pure;
    /// The bits of a float as an integer.
    Bits = "bits" (F) -> BitsOfF, Pure;
    /// The float with these bits.
    FromBits = "from_bits" (BitsOfF) -> F, Pure;
    /// Narrows, rounding to nearest even.
    Fdemote = "fdemote" (F64) -> F32, Pure;
    /// Widens exactly.
    Fpromote = "fpromote" (F32) -> F64, Pure;
    /// Signed 32-bit integer to float.
    I32ToF = "i32_to_f" (I32) -> F, Pure;
    /// Unsigned 32-bit integer to float.
    U32ToF = "u32_to_f" (I32) -> F, Pure;
    /// Signed 64-bit integer to float.
    I64ToF = "i64_to_f" (I64) -> F, Pure;
    /// Unsigned 64-bit integer to float, rounded once.
    U64ToF = "u64_to_f" (I64) -> F, Pure;
    /// Rounds half away from zero to a signed 64-bit integer; MIN for NaN and out of range.
    RoundI64 = "round_i64" (F) -> I64, Pure;
    /// Rounds half away from zero to an unsigned 64-bit integer; negative values as `round_i64`, 1 << 63 for NaN and above range.
    RoundU64F32 = "round_u64_f32" (F32) -> I64, Pure;
    /// Arc tangent.
    Atan = "atan" (F) -> F, Call;
    /// Angle of the point (x, y), receiver y.
    Atan2 = "atan2" (F, F) -> F, Call;
    /// Cosine.
    Cos = "cos" (F) -> F, Call;
    /// Sine.
    Sin = "sin" (F) -> F, Call;
    /// e to the power of the operand.
    Exp = "exp" (F) -> F, Call;
    /// 2 to the power of the operand.
    Exp2 = "exp2" (F) -> F, Call;
    /// `exp(x) - 1`, accurate near 0.
    Expm1 = "expm1" (F) -> F, Call;
    /// Natural logarithm.
    Log = "log" (F) -> F, Call;
    /// Logarithm to base 10.
    Log10 = "log10" (F) -> F, Call;
    /// `log(1 + x)`, accurate near 0.
    Log1p = "log1p" (F) -> F, Call;
    /// Logarithm to base 2.
    Log2 = "log2" (F) -> F, Call;
    /// The receiver to the power of the argument.
    Pow = "pow" (F, F) -> F, Call;
    /// The receiver to the power of an integer by repeated squaring, with a rounding at each product; the reciprocal of that where
    /// the exponent is negative.
    Powi = "powi" (F, I32) -> F, Call;
    /// Hyperbolic tangent.
    Tanh = "tanh" (F) -> F, Call;
    /// Error function.
    Erf = "erf" (F) -> F, Call;
    /// Same object, or both null.
    RefEq = "ref_eq" (Ref, Ref) -> Bool, Refs;
    /// Different objects.
    RefNe = "ref_ne" (Ref, Ref) -> Bool, Refs;
    /// Not null.
    RefNonnull = "ref_nonnull" (Ref) -> Bool, Refs;
    /// Byte at an element index, zero-extended.
    LoadI8u = "load_i8u" (Buffer, I64) -> I32, Load;
    /// Byte at an element index, sign-extended.
    LoadI8s = "load_i8s" (Buffer, I64) -> I32, Load;
    /// 16 bits at an element index, zero-extended.
    LoadI16u = "load_i16u" (Buffer, I64) -> I32, Load;
    /// 16 bits at an element index, sign-extended.
    LoadI16s = "load_i16s" (Buffer, I64) -> I32, Load;
    /// 32 bits at an element index.
    LoadI32 = "load_i32" (Buffer, I64) -> I32, Load;
    /// 64 bits at an element index.
    LoadI64 = "load_i64" (Buffer, I64) -> I64, Load;
    /// An `f32` at an element index.
    LoadF32 = "load_f32" (Buffer, I64) -> F32, Load;
    /// An `f64` at an element index.
    LoadF64 = "load_f64" (Buffer, I64) -> F64, Load;
    /// Stores the low 8 bits at an element index.
    StoreI8 = "store_i8" (Buffer, I64, I32) -> Unit, Store;
    /// Stores the low 16 bits at an element index.
    StoreI16 = "store_i16" (Buffer, I64, I32) -> Unit, Store;
    /// Stores 32 bits at an element index.
    StoreI32 = "store_i32" (Buffer, I64, I32) -> Unit, Store;
    /// Stores 64 bits at an element index.
    StoreI64 = "store_i64" (Buffer, I64, I64) -> Unit, Store;
    /// Stores an `f32` at an element index.
    StoreF32 = "store_f32" (Buffer, I64, F32) -> Unit, Store;
    /// Stores an `f64` at an element index.
    StoreF64 = "store_f64" (Buffer, I64, F64) -> Unit, Store;
    /// Fills (index, count) elements of 8 bits.
    FillI8 = "fill_i8" (Buffer, I64, I64, I32) -> Unit, Store;
    /// Fills (index, count) elements of 16 bits.
    FillI16 = "fill_i16" (Buffer, I64, I64, I32) -> Unit, Store;
    /// Fills (index, count) elements of 32 bits.
    FillI32 = "fill_i32" (Buffer, I64, I64, I32) -> Unit, Store;
    /// Fills (index, count) elements of 64 bits.
    FillI64 = "fill_i64" (Buffer, I64, I64, I64) -> Unit, Store;
    /// Fills (index, count) elements with an `f32`.
    FillF32 = "fill_f32" (Buffer, I64, I64, F32) -> Unit, Store;
    /// Fills (index, count) elements with an `f64`.
    FillF64 = "fill_f64" (Buffer, I64, I64, F64) -> Unit, Store;
    /// Length in bytes.
    BufferLen = "buffer_len" (Buffer) -> I64, Load;
    /// Reads a global at a proven byte offset.
    GlobalLoadI32 = "global_load_i32" (Global) -> I32, GlobalLoad;
    /// Reads a global at a proven byte offset.
    GlobalLoadI64 = "global_load_i64" (Global) -> I64, GlobalLoad;
    /// Reads a global at a proven byte offset.
    GlobalLoadF32 = "global_load_f32" (Global) -> F32, GlobalLoad;
    /// Reads a global at a proven byte offset.
    GlobalLoadF64 = "global_load_f64" (Global) -> F64, GlobalLoad;
    /// Writes a global at a proven byte offset.
    GlobalStoreI32 = "global_store_i32" (Global, I32) -> Unit, GlobalStore;
    /// Writes a global at a proven byte offset.
    GlobalStoreI64 = "global_store_i64" (Global, I64) -> Unit, GlobalStore;
    /// Writes a global at a proven byte offset.
    GlobalStoreF32 = "global_store_f32" (Global, F32) -> Unit, GlobalStore;
    /// Writes a global at a proven byte offset.
    GlobalStoreF64 = "global_store_f64" (Global, F64) -> Unit, GlobalStore;
    /// Reads a global at a computed unsigned byte offset.
    IndirectLoadI32 = "global_load_i32" (I32) -> I32, IndirectLoad;
    /// Reads a global at a computed unsigned byte offset.
    IndirectLoadI64 = "global_load_i64" (I32) -> I64, IndirectLoad;
    /// Reads a global at a computed unsigned byte offset.
    IndirectLoadF32 = "global_load_f32" (I32) -> F32, IndirectLoad;
    /// Reads a global at a computed unsigned byte offset.
    IndirectLoadF64 = "global_load_f64" (I32) -> F64, IndirectLoad;
    /// Writes a global at a computed unsigned byte offset.
    IndirectStoreI32 = "global_store_i32" (I32, I32) -> Unit, IndirectStore;
    /// Writes a global at a computed unsigned byte offset.
    IndirectStoreI64 = "global_store_i64" (I32, I64) -> Unit, IndirectStore;
    /// Writes a global at a computed unsigned byte offset.
    IndirectStoreF32 = "global_store_f32" (I32, F32) -> Unit, IndirectStore;
    /// Writes a global at a computed unsigned byte offset.
    IndirectStoreF64 = "global_store_f64" (I32, F64) -> Unit, IndirectStore;
}

impl Primitive {
    /// The primitives called `name`: none, one, or the direct and the indirect form of a global access.
    pub fn named(name: &str) -> Vec<Primitive> {
        Primitive::ALL.iter().copied().filter(|primitive| primitive.name() == name).collect()
    }
}
