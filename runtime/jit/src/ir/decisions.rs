//! The decisions of the vectoriser about loops, for `vireo dump --jit=why`. Nothing depends on it.

use std::fmt;

use smallvec::SmallVec;

/// The fate of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Vector loops, in this order: how many iterations one of each makes, and whether a mask leaves out some.
    Vectors(SmallVec<[(u64, bool); 4]>),
    /// So many iterations are computed together, each with up to so many vectors of the loop inside.
    Rows { rows: u64, vectors: usize },
    /// It and loops around it became one.
    Collapsed { loops: usize, iterations: u64 },
    /// It stays as it is.
    Scalar(Refusal),
}

/// The reason for which a loop has no vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotCounted,
    TooLarge,
    TooFewIterations,
    NotVectors,
    Sequential,
    InAnother,
    NotGuarded,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::Vectors(loops) => {
                f.write_str("vectors for")?;
                for (index, (iterations, is_masked)) in loops.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    let mask = if *is_masked { " with a mask" } else { "" };
                    write!(f, "{comma} {iterations} iterations{mask}")?;
                }
                Ok(())
            }
            Decision::Rows { rows, vectors } => {
                write!(f, "{rows} iterations together, with up to {vectors} vectors each")
            }
            Decision::Collapsed { loops, iterations } => {
                let s = if *loops == 1 { "" } else { "s" };
                write!(f, "one loop with {loops} loop{s} around it, {iterations} iterations where these are known")
            }
            Decision::Scalar(refusal) => {
                let reason = match refusal {
                    Refusal::NotCounted => "it is no nest of counted loops",
                    Refusal::TooLarge => "it has too many values",
                    Refusal::TooFewIterations => "it has too few iterations for a vector",
                    Refusal::NotVectors => "some of its values cannot be lanes",
                    Refusal::Sequential => "each iteration needs the one before",
                    Refusal::InAnother => "a loop in it or around it has vectors",
                    Refusal::NotGuarded => "no guards stand for all of its checks",
                };
                write!(f, "scalar, since {reason}")
            }
        }
    }
}
