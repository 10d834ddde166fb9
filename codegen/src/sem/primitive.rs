//! The closed vocabulary of `semantics`: every primitive with its signature and its effects.
//!
//! Each row of the one table says what every artifact has to know of a primitive, so a new one does not compile until all is decided. What
//! it computes is stated in its doc comment; the interpreter's version is the definition that all tiers are compared with.

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

/// Where the interpreter's function of a primitive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In the trait of integers.
    Int,
    /// In the trait of floats.
    Float,
    /// A function.
    Free,
    /// A function on the value globals.
    Globals,
    /// A function on the value globals that changes them.
    GlobalsMut,
    /// The choice from a register list.
    Table,
}

/// How compiled code executes a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lowering {
    /// By instructions of its own.
    Instructions,
    /// By a call of the function that the interpreter calls.
    Call,
    /// By those of other primitives or by parts of checks, which the builder puts together.
    Others,
    /// Not at all: the interpreter executes the op.
    Interpreter,
}

/// How compiled code executes a primitive for several values of 32 bits at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// By instructions on vectors, of each number of lanes.
    Instructions,
    /// By a call of a function for all lanes.
    Call,
    /// Not at all: the bits stay the same.
    SameBits,
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
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident = $name:literal ($($param:ident),*) -> $result:ident, $effect:ident, $home:ident, $lowering:ident
            $(, lanes: $lanes:ident)? $(, bytes: $bytes:literal)?;
    )*) => {
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

            /// Where the interpreter's function is.
            pub fn home(self) -> Home {
                match self { $(Primitive::$variant => Home::$home,)* }
            }

            /// How compiled code executes it.
            pub fn lowering(self) -> Lowering {
                match self { $(Primitive::$variant => Lowering::$lowering,)* }
            }

            /// How compiled code executes it in several lanes of 32 bits, if it can.
            pub fn lanes(self) -> Option<Lanes> {
                match self { $(Primitive::$variant => None$(.or(Some(Lanes::$lanes)))?,)* }
            }

            /// Bytes of each element in memory that it accesses, if it accesses some.
            pub fn bytes(self) -> Option<u8> {
                match self { $(Primitive::$variant => None$(.or(Some($bytes)))?,)* }
            }

            /// What it computes, in a sentence.
            pub fn doc(self) -> &'static str {
                match self { $(Primitive::$variant => concat!($($doc),+),)* }
            }
        }
    };
}

// A row is the signature of a primitive and what it may do, where the interpreter has its function and how compiled code executes it;
// then, where there are some, how it does so in lanes, and how many bytes each element has that is accessed.
primitives! {
    /// Two's-complement sum, wraps.
    WrappingAdd = "wrapping_add" (N, N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Two's-complement difference, wraps.
    WrappingSub = "wrapping_sub" (N, N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Two's-complement product, wraps.
    WrappingMul = "wrapping_mul" (N, N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// `a * b + c`, wraps.
    WrappingMulAdd = "wrapping_mul_add" (N, N, N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Signed quotient toward zero; division by zero is `invalid_argument`, MIN / -1 is `out_of_range`.
    CheckedDivS = "checked_div_s" (N, N) -> N, Trap, Int, Instructions;
    /// Unsigned quotient; division by zero is `invalid_argument`.
    CheckedDivU = "checked_div_u" (N, N) -> N, Trap, Int, Instructions;
    /// Signed remainder with the sign of the dividend; MIN % -1 is 0; division by zero is `invalid_argument`.
    CheckedRemS = "checked_rem_s" (N, N) -> N, Trap, Int, Instructions;
    /// Unsigned remainder; division by zero is `invalid_argument`.
    CheckedRemU = "checked_rem_u" (N, N) -> N, Trap, Int, Instructions;
    /// Complement of all bits.
    Not = "not" (N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Bitwise and.
    And = "and" (N, N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Bitwise or.
    Or = "or" (N, N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Bitwise exclusive or.
    Xor = "xor" (N, N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Shift left; the amount is taken modulo the width.
    Shl = "shl" (N, I32) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Arithmetic shift right; the amount is taken modulo the width.
    ShrS = "shr_s" (N, I32) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Logical shift right; the amount is taken modulo the width.
    ShrU = "shr_u" (N, I32) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Absolute value; abs(MIN) is MIN.
    AbsWrapping = "abs_wrapping" (N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Signed minimum.
    MinS = "min_s" (N, N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Unsigned minimum.
    MinU = "min_u" (N, N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Signed maximum.
    MaxS = "max_s" (N, N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Unsigned maximum.
    MaxU = "max_u" (N, N) -> N, Pure, Int, Instructions, lanes: Instructions;
    /// Zero bits above the highest one bit; the width for 0.
    LeadingZeros = "leading_zeros" (N) -> N, Pure, Int, Instructions;
    /// The low 8 bits, zero-extended.
    Low8Zext = "low8_zext" (I32) -> I32, Pure, Free, Instructions, lanes: Instructions;
    /// The low 16 bits, zero-extended.
    Low16Zext = "low16_zext" (I32) -> I32, Pure, Free, Instructions, lanes: Instructions;
    /// The low 8 bits, sign-extended.
    Low8Sext = "low8_sext" (I32) -> I32, Pure, Free, Instructions, lanes: Instructions;
    /// The low 16 bits, sign-extended.
    Low16Sext = "low16_sext" (I32) -> I32, Pure, Free, Instructions, lanes: Instructions;
    /// The low 32 bits.
    Low32 = "low32" (I64) -> I32, Pure, Free, Instructions;
    /// Sign-extension to 64 bits.
    Sext64 = "sext64" (I32) -> I64, Pure, Free, Instructions;
    /// Zero-extension to 64 bits.
    Zext64 = "zext64" (I32) -> I64, Pure, Free, Instructions;
    /// Equality.
    Eq = "eq" (N, N) -> Bool, Pure, Int, Instructions, lanes: Instructions;
    /// Inequality.
    Ne = "ne" (N, N) -> Bool, Pure, Int, Instructions, lanes: Instructions;
    /// Signed less-than.
    LtS = "lt_s" (N, N) -> Bool, Pure, Int, Instructions, lanes: Instructions;
    /// Unsigned less-than.
    LtU = "lt_u" (N, N) -> Bool, Pure, Int, Instructions, lanes: Instructions;
    /// True unless all bits are zero.
    IsNonzero = "is_nonzero" (N) -> Bool, Pure, Int, Instructions, lanes: Instructions;
    /// The second operand if the condition holds, else the third.
    Select = "select" (Bool, T, T) -> T, Pure, Free, Instructions, lanes: Instructions;
    /// The element of the register list at a signed index, or the default out of range.
    TableSelect = "table_select" (I32, T, RegsT) -> T, Pure, Table, Others;
    /// IEEE sum.
    Fadd = "fadd" (F, F) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// IEEE difference.
    Fsub = "fsub" (F, F) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// IEEE product.
    Fmul = "fmul" (F, F) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// IEEE quotient.
    Fdiv = "fdiv" (F, F) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// `a * b + c` rounded twice; never fused.
    FmulFadd = "fmul_fadd" (F, F, F) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// Flips the sign bit.
    Fneg = "fneg" (F) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// Clears the sign bit.
    Fabs = "fabs" (F) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// Rounds up.
    Fceil = "fceil" (F) -> F, Pure, Float, Instructions;
    /// Rounds down.
    Ffloor = "ffloor" (F) -> F, Pure, Float, Instructions;
    /// Rounds to nearest, half away from zero.
    FroundAway = "fround_away" (F) -> F, Pure, Float, Instructions;
    /// Rounds to nearest, half to even; -0.5 gives +0.0.
    FroundEvenPz = "fround_even_pz" (F) -> F, Pure, Float, Instructions;
    /// `rhs < lhs ? rhs : lhs`.
    FminLhs = "fmin_lhs" (F, F) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// `lhs < rhs ? rhs : lhs`.
    FmaxLhs = "fmax_lhs" (F, F) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// Correctly rounded square root.
    Fsqrt = "fsqrt" (F) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// One divided by the square root, rounded twice.
    Frsqrt = "frsqrt" (F) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// IEEE remainder (quotient rounded to nearest even).
    Fremainder = "fremainder" (F, F) -> F, Call, Float, Call;
    /// Equal; false if unordered.
    Feq = "feq" (F, F) -> Bool, Pure, Float, Instructions, lanes: Instructions;
    /// Equal or unordered.
    FeqU = "feq_u" (F, F) -> Bool, Pure, Float, Instructions, lanes: Instructions;
    /// Not equal; true if unordered.
    Fne = "fne" (F, F) -> Bool, Pure, Float, Instructions, lanes: Instructions;
    /// Less; false if unordered.
    Flt = "flt" (F, F) -> Bool, Pure, Float, Instructions, lanes: Instructions;
    /// Less or equal; false if unordered.
    Fle = "fle" (F, F) -> Bool, Pure, Float, Instructions, lanes: Instructions;
    /// Less or unordered.
    FltU = "flt_u" (F, F) -> Bool, Pure, Float, Instructions, lanes: Instructions;
    /// Less, equal or unordered.
    FleU = "fle_u" (F, F) -> Bool, Pure, Float, Instructions, lanes: Instructions;
    /// True for a NaN.
    IsNan = "is_nan" (F) -> Bool, Pure, Float, Instructions, lanes: Instructions;
    /// The bits of a float as an integer.
    Bits = "bits" (F) -> BitsOfF, Pure, Float, Instructions, lanes: SameBits;
    /// The float with these bits.
    FromBits = "from_bits" (BitsOfF) -> F, Pure, Float, Instructions, lanes: SameBits;
    /// Narrows, rounding to nearest even.
    Fdemote = "fdemote" (F64) -> F32, Pure, Free, Instructions;
    /// Widens exactly.
    Fpromote = "fpromote" (F32) -> F64, Pure, Free, Instructions;
    /// Signed 32-bit integer to float.
    I32ToF = "i32_to_f" (I32) -> F, Pure, Float, Instructions, lanes: Instructions;
    /// Unsigned 32-bit integer to float.
    U32ToF = "u32_to_f" (I32) -> F, Pure, Float, Instructions;
    /// Signed 64-bit integer to float.
    I64ToF = "i64_to_f" (I64) -> F, Pure, Float, Instructions;
    /// Unsigned 64-bit integer to float, rounded once.
    U64ToF = "u64_to_f" (I64) -> F, Pure, Float, Instructions;
    /// Rounds half away from zero to a signed 64-bit integer; MIN for NaN and out of range.
    RoundI64 = "round_i64" (F) -> I64, Pure, Float, Instructions;
    /// Rounds half away from zero to an unsigned 64-bit integer; negative values as `round_i64`, 1 << 63 for NaN and above range.
    RoundU64F32 = "round_u64_f32" (F32) -> I64, Pure, Free, Instructions;
    /// Arc tangent.
    Atan = "atan" (F) -> F, Call, Float, Call;
    /// Angle of the point (x, y), receiver y.
    Atan2 = "atan2" (F, F) -> F, Call, Float, Call;
    /// Cosine.
    Cos = "cos" (F) -> F, Call, Float, Call;
    /// Sine.
    Sin = "sin" (F) -> F, Call, Float, Call;
    /// e to the power of the operand.
    Exp = "exp" (F) -> F, Call, Float, Call, lanes: Call;
    /// 2 to the power of the operand.
    Exp2 = "exp2" (F) -> F, Call, Float, Call;
    /// `exp(x) - 1`, accurate near 0.
    Expm1 = "expm1" (F) -> F, Call, Float, Call;
    /// Natural logarithm.
    Log = "log" (F) -> F, Call, Float, Call, lanes: Call;
    /// Logarithm to base 10.
    Log10 = "log10" (F) -> F, Call, Float, Call;
    /// `log(1 + x)`, accurate near 0.
    Log1p = "log1p" (F) -> F, Call, Float, Call;
    /// Logarithm to base 2.
    Log2 = "log2" (F) -> F, Call, Float, Call;
    /// The receiver to the power of the argument.
    Pow = "pow" (F, F) -> F, Call, Float, Call;
    /// The receiver to the power of an integer by repeated squaring, with a rounding at each product; the reciprocal of that where
    /// the exponent is negative.
    Powi = "powi" (F, I32) -> F, Call, Float, Call;
    /// Hyperbolic tangent.
    Tanh = "tanh" (F) -> F, Call, Float, Call, lanes: Call;
    /// Error function.
    Erf = "erf" (F) -> F, Call, Float, Call, lanes: Call;
    /// Same object, or both null.
    RefEq = "ref_eq" (Ref, Ref) -> Bool, Refs, Free, Interpreter;
    /// Different objects.
    RefNe = "ref_ne" (Ref, Ref) -> Bool, Refs, Free, Interpreter;
    /// Not null.
    RefNonnull = "ref_nonnull" (Ref) -> Bool, Refs, Free, Others;
    /// Byte at an element index, zero-extended.
    LoadI8u = "load_i8u" (Buffer, I64) -> I32, Load, Free, Instructions, lanes: Instructions, bytes: 1;
    /// Byte at an element index, sign-extended.
    LoadI8s = "load_i8s" (Buffer, I64) -> I32, Load, Free, Instructions, lanes: Instructions, bytes: 1;
    /// 16 bits at an element index, zero-extended.
    LoadI16u = "load_i16u" (Buffer, I64) -> I32, Load, Free, Instructions, lanes: Instructions, bytes: 2;
    /// 16 bits at an element index, sign-extended.
    LoadI16s = "load_i16s" (Buffer, I64) -> I32, Load, Free, Instructions, lanes: Instructions, bytes: 2;
    /// 32 bits at an element index.
    LoadI32 = "load_i32" (Buffer, I64) -> I32, Load, Free, Instructions, lanes: Instructions, bytes: 4;
    /// 64 bits at an element index.
    LoadI64 = "load_i64" (Buffer, I64) -> I64, Load, Free, Instructions, bytes: 8;
    /// An `f32` at an element index.
    LoadF32 = "load_f32" (Buffer, I64) -> F32, Load, Free, Instructions, lanes: Instructions, bytes: 4;
    /// An `f64` at an element index.
    LoadF64 = "load_f64" (Buffer, I64) -> F64, Load, Free, Instructions, bytes: 8;
    /// Stores the low 8 bits at an element index.
    StoreI8 = "store_i8" (Buffer, I64, I32) -> Unit, Store, Free, Instructions, bytes: 1;
    /// Stores the low 16 bits at an element index.
    StoreI16 = "store_i16" (Buffer, I64, I32) -> Unit, Store, Free, Instructions, bytes: 2;
    /// Stores 32 bits at an element index.
    StoreI32 = "store_i32" (Buffer, I64, I32) -> Unit, Store, Free, Instructions, lanes: Instructions, bytes: 4;
    /// Stores 64 bits at an element index.
    StoreI64 = "store_i64" (Buffer, I64, I64) -> Unit, Store, Free, Instructions, bytes: 8;
    /// Stores an `f32` at an element index.
    StoreF32 = "store_f32" (Buffer, I64, F32) -> Unit, Store, Free, Instructions, lanes: Instructions, bytes: 4;
    /// Stores an `f64` at an element index.
    StoreF64 = "store_f64" (Buffer, I64, F64) -> Unit, Store, Free, Instructions, bytes: 8;
    /// Fills (index, count) elements of 8 bits.
    FillI8 = "fill_i8" (Buffer, I64, I64, I32) -> Unit, Store, Free, Interpreter, bytes: 1;
    /// Fills (index, count) elements of 16 bits.
    FillI16 = "fill_i16" (Buffer, I64, I64, I32) -> Unit, Store, Free, Interpreter, bytes: 2;
    /// Fills (index, count) elements of 32 bits.
    FillI32 = "fill_i32" (Buffer, I64, I64, I32) -> Unit, Store, Free, Interpreter, bytes: 4;
    /// Fills (index, count) elements of 64 bits.
    FillI64 = "fill_i64" (Buffer, I64, I64, I64) -> Unit, Store, Free, Interpreter, bytes: 8;
    /// Fills (index, count) elements with an `f32`.
    FillF32 = "fill_f32" (Buffer, I64, I64, F32) -> Unit, Store, Free, Interpreter, bytes: 4;
    /// Fills (index, count) elements with an `f64`.
    FillF64 = "fill_f64" (Buffer, I64, I64, F64) -> Unit, Store, Free, Interpreter, bytes: 8;
    /// Length in bytes.
    BufferLen = "buffer_len" (Buffer) -> I64, Load, Free, Others;
    /// Reads a global at a proven byte offset.
    GlobalLoadI32 = "global_load_i32" (Global) -> I32, GlobalLoad, Globals, Others, bytes: 4;
    /// Reads a global at a proven byte offset.
    GlobalLoadI64 = "global_load_i64" (Global) -> I64, GlobalLoad, Globals, Others, bytes: 8;
    /// Reads a global at a proven byte offset.
    GlobalLoadF32 = "global_load_f32" (Global) -> F32, GlobalLoad, Globals, Others, bytes: 4;
    /// Reads a global at a proven byte offset.
    GlobalLoadF64 = "global_load_f64" (Global) -> F64, GlobalLoad, Globals, Others, bytes: 8;
    /// Writes a global at a proven byte offset.
    GlobalStoreI32 = "global_store_i32" (Global, I32) -> Unit, GlobalStore, GlobalsMut, Others, bytes: 4;
    /// Writes a global at a proven byte offset.
    GlobalStoreI64 = "global_store_i64" (Global, I64) -> Unit, GlobalStore, GlobalsMut, Others, bytes: 8;
    /// Writes a global at a proven byte offset.
    GlobalStoreF32 = "global_store_f32" (Global, F32) -> Unit, GlobalStore, GlobalsMut, Others, bytes: 4;
    /// Writes a global at a proven byte offset.
    GlobalStoreF64 = "global_store_f64" (Global, F64) -> Unit, GlobalStore, GlobalsMut, Others, bytes: 8;
    /// Reads a global at a computed unsigned byte offset.
    IndirectLoadI32 = "global_load_i32" (I32) -> I32, IndirectLoad, Globals, Interpreter, bytes: 4;
    /// Reads a global at a computed unsigned byte offset.
    IndirectLoadI64 = "global_load_i64" (I32) -> I64, IndirectLoad, Globals, Interpreter, bytes: 8;
    /// Reads a global at a computed unsigned byte offset.
    IndirectLoadF32 = "global_load_f32" (I32) -> F32, IndirectLoad, Globals, Interpreter, bytes: 4;
    /// Reads a global at a computed unsigned byte offset.
    IndirectLoadF64 = "global_load_f64" (I32) -> F64, IndirectLoad, Globals, Interpreter, bytes: 8;
    /// Writes a global at a computed unsigned byte offset.
    IndirectStoreI32 = "global_store_i32" (I32, I32) -> Unit, IndirectStore, GlobalsMut, Interpreter, bytes: 4;
    /// Writes a global at a computed unsigned byte offset.
    IndirectStoreI64 = "global_store_i64" (I32, I64) -> Unit, IndirectStore, GlobalsMut, Interpreter, bytes: 8;
    /// Writes a global at a computed unsigned byte offset.
    IndirectStoreF32 = "global_store_f32" (I32, F32) -> Unit, IndirectStore, GlobalsMut, Interpreter, bytes: 4;
    /// Writes a global at a computed unsigned byte offset.
    IndirectStoreF64 = "global_store_f64" (I32, F64) -> Unit, IndirectStore, GlobalsMut, Interpreter, bytes: 8;
}

impl Primitive {
    /// The primitives called `name`: none, one, or the direct and the indirect form of a global access.
    pub fn named(name: &str) -> Vec<Primitive> {
        Primitive::ALL.iter().copied().filter(|primitive| primitive.name() == name).collect()
    }
}
