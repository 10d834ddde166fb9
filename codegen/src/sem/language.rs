//! The languages of semantics: they differ by instruction set in the types that a signature leaves open, and in how
//! literals and truths are read. Models of instruction sets declare theirs; `infer` reads by it.

use super::types::{Scalar, Sig, Ty};

/// The language of semantics of one model of instruction sets.
#[derive(Debug)]
pub struct Language {
    /// The types that `N` stands for.
    pub integers: &'static [Scalar],
    /// The types that `F` stands for.
    pub floats: &'static [Scalar],
    /// Whether `L` and `T` stand for one bit, too.
    pub has_bits: bool,
    /// Whether literals are bits, without a sign.
    pub unsigned: bool,
    /// Whether an `i32` is a truth where one is expected, and a truth is an `i32`.
    pub converts_truths: bool,
}

impl Language {
    /// How the semantics of instructions on lanes of GPUs are written. Operands have the types of encodings (`b32`),
    /// values those of semantics (`i32`).
    pub(crate) const LANES: Language = Language {
        integers: &[Scalar::I16, Scalar::I32, Scalar::I64],
        floats: &[Scalar::F16, Scalar::F32, Scalar::F64],
        has_bits: true,
        unsigned: true,
        converts_truths: false,
    };

    /// The types that `sig` may stand for; for `regs[T]` and `bits(F)` those of `T` and `F`.
    pub(super) fn choices(&self, sig: Sig) -> Vec<Scalar> {
        let bit = [Scalar::Bool].into_iter().filter(|_| self.has_bits);
        let (integers, floats) = (self.integers.iter().copied(), self.floats.iter().copied());
        match sig {
            Sig::Is(_) => Vec::new(),
            Sig::N => integers.collect(),
            Sig::L => integers.chain(bit).collect(),
            Sig::F | Sig::BitsOfF => floats.collect(),
            Sig::T | Sig::RegsT => integers.chain(floats).chain(bit).collect(),
        }
    }

    /// The open type that an operand of type `ty` at `sig` fixes.
    pub(super) fn fix(&self, sig: Sig, ty: Ty) -> Option<Scalar> {
        self.choices(sig).into_iter().find(|scalar| resolve(sig, Some(*scalar)) == Some(ty))
    }

    /// The types that may stand at `sig`, for messages: `i32 or i64`.
    pub(super) fn describe(&self, sig: Sig) -> String {
        let names: Vec<String> = match sig {
            Sig::Is(ty) => vec![ty.to_string()],
            Sig::RegsT => vec!["a register list".to_string()],
            _ => self.choices(sig).into_iter().filter_map(|of| Some(resolve(sig, Some(of))?.to_string())).collect(),
        };
        match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

/// The type that a signature's parameter has, once the open type is known.
pub(super) fn resolve(sig: Sig, of: Option<Scalar>) -> Option<Ty> {
    match sig {
        Sig::Is(ty) => Some(ty),
        Sig::N | Sig::L | Sig::F | Sig::T => of.map(Scalar::ty),
        Sig::RegsT => of.map(Ty::Regs),
        Sig::BitsOfF => of?.bits_of_float(),
    }
}
