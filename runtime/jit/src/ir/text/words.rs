//! The words for types, and for the small fields of nodes, exits and terminators. Printer and parser share them.

use crate::ir::graph::{Interleave, Part, SideExitKind};
use crate::ir::types::{Scalar, Ty, Width};

/// A type whose values are words.
pub(super) trait Word: Copy + PartialEq + 'static {
    /// All values with their words.
    const ALL: &'static [(Self, &'static str)];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(value, _)| *value == self).map_or("", |(_, word)| word)
    }

    /// The value of a word.
    #[cfg(test)]
    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, own)| *own == word).map(|(value, _)| *value)
    }
}

/// Gives each variant a word. A variant without one does not compile.
macro_rules! words {
    ($($ty:ident { $($variant:ident $word:literal)* })*) => {
        $(impl Word for $ty {
            const ALL: &'static [($ty, &'static str)] = {
                const fn all_are_named(value: $ty) {
                    match value {
                        $($ty::$variant => {})*
                    }
                }
                $(all_are_named($ty::$variant);)*
                &[$(($ty::$variant, $word)),*]
            };
        })*
    };
}

words! {
    Scalar { I32 "i32" I64 "i64" F32 "f32" F64 "f64" }
    // Follows the type of the lanes.
    Width { Four "x4" Eight "x8" Sixteen "x16" SixteenBytes "x16b" ThirtyTwoBytes "x32b" }
    Interleave { Low "low" High "high" LowPairs "low_pairs" HighPairs "high_pairs" Even "even" Odd "odd" }
    Part { Whole "whole" Low "low" High "high" }
    SideExitKind { Op "op" Call "call" Return "return" }
}

/// The word for truth values.
pub(super) const TRUTH: &str = "truth";

/// The word for a type; none for nodes without a value.
pub(super) fn ty(ty: Ty) -> Option<String> {
    match ty {
        Ty::Scalar(of) => Some(of.word().to_string()),
        Ty::Lanes(of, width) => Some(format!("{}{}", of.word(), width.word())),
        Ty::Truth => Some(TRUTH.to_string()),
        Ty::Nothing => None,
    }
}

/// The type of a word.
#[cfg(test)]
pub(super) fn ty_of(word: &str) -> Option<Ty> {
    if word == TRUTH {
        return Some(Ty::Truth);
    }
    Scalar::ALL.iter().find_map(|(of, own)| match word.strip_prefix(own)? {
        "" => Some(Ty::Scalar(*of)),
        width => Some(Ty::Lanes(*of, Width::from_word(width)?)),
    })
}
