//! Operand types of decoded ops: registers of the two banks, ordinals, and indices into the side tables of
//! [`Decoded`](super::Decoded). The reader makes them, and everything that works on ops uses them.

use std::fmt;

use crate::generated::vm::opcode::{MOVE_BIT, REF_BIT};

macro_rules! index {
    ($($(#[doc = $doc:literal])+ $name:ident;)*) => {
        $($(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into its table.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        })*
    };
}

index! {
    /// A block of the function.
    BlockId;
    /// A branch target with its remap pairs.
    EdgeId;
    /// A register list.
    ListId;
    /// The segment sizes of a variadic call.
    SegmentsId;
    /// A branch table.
    CasesId;
    /// A string of the function.
    StringId;
    /// A call with its operands and results.
    CallId;
    /// A byte offset into value globals; the verifier proves that the access is in range.
    GlobalOffset;
    /// A ref global.
    GlobalRef;
    /// An entry of the module's type table.
    TypeId;
    /// A rodata segment.
    RodataId;
    /// A function of the module.
    FunctionId;
    /// An import of the module, without the bit that marks imports.
    ImportId;
}

/// A 32-bit slot; the lower one of an even pair for 64-bit values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub u16);

impl Reg {
    /// As an index into the frame's slots.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A register of references, and whether the op moves the reference out of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RefReg(u16);

impl RefReg {
    /// The register `ordinal`.
    pub fn new(ordinal: u16, moved: bool) -> Self {
        RefReg((ordinal & !(REF_BIT | MOVE_BIT)) | if moved { MOVE_BIT } else { 0 })
    }

    /// As an index into the frame's references.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0 & !MOVE_BIT)
    }

    /// True if the MOVE bit is set: the register is left null.
    #[inline]
    pub fn is_move(self) -> bool {
        self.0 & MOVE_BIT != 0
    }
}

impl RefReg {
    /// The register as an operand of a threaded instruction: its offset from the frame header, in references, without
    /// the MOVE bit. A handler then needs no subtraction to find it.
    pub fn frame_relative(self) -> RefReg {
        RefReg(!(self.index() as u16))
    }

    /// The offset of a register from [`frame_relative`](Self::frame_relative). It is negative.
    #[inline(always)]
    pub fn frame_offset(self) -> i16 {
        self.0 as i16
    }
}

impl fmt::Debug for RefReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RefReg({}{})", self.index(), if self.is_move() { "!" } else { "" })
    }
}

/// A register of either bank, as in register lists and remap pairs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnyReg(pub(super) u16);

impl AnyReg {
    /// The register as encoded, with the bits that mark a reference and a move.
    pub fn from_bits(bits: u16) -> Self {
        AnyReg(bits)
    }

    /// True if it is in the bank of references.
    #[inline]
    pub fn is_ref(self) -> bool {
        self.0 & REF_BIT != 0
    }

    /// As a slot of the value bank; meaningful unless [`is_ref`](Self::is_ref).
    #[inline]
    pub fn reg(self) -> Reg {
        Reg(self.0 & !REF_BIT)
    }

    /// As a register of references; meaningful if [`is_ref`](Self::is_ref).
    #[inline]
    pub fn ref_reg(self) -> RefReg {
        RefReg(self.0 & !REF_BIT)
    }
}

impl From<Reg> for AnyReg {
    fn from(reg: Reg) -> AnyReg {
        AnyReg(reg.0)
    }
}

impl From<RefReg> for AnyReg {
    fn from(reg: RefReg) -> AnyReg {
        AnyReg(reg.0 | REF_BIT)
    }
}

impl fmt::Debug for AnyReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ref() { self.ref_reg().fmt(f) } else { self.reg().fmt(f) }
    }
}

/// The bits of an `f32` immediate; a signalling NaN survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct F32Bits(pub u32);

/// The bits of an `f64` immediate; a signalling NaN survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct F64Bits(pub u64);

impl F32Bits {
    /// The value.
    #[inline]
    pub fn value(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl F64Bits {
    /// The value.
    #[inline]
    pub fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}
