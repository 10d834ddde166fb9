//! Decisions of the compiler about loops, for people: its passes note them if they are asked to, and `vireo dump
//! --jit=why` prints them. Nothing else depends on it.
//!
//! A loop is known by the op at which it begins. For each loop there are the transformations that were considered, in
//! their order, each with its outcome; a transformation is refused for one of a fixed set of reasons.
//! Costs are those of the compiler's model (`jit/src/analysis/cost`).

use std::fmt;

/// A transformation of a loop that the compiler considered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDecision {
    /// The op at which the loop begins.
    pub op: u32,
    /// The transformation.
    pub transformation: Transformation,
    /// Whether it was made, and in which form, or the reason for which it was not.
    pub outcome: Outcome,
    /// The estimates on which that depends; none where the form of the loop rules the transformation out, and for parts
    /// of another transformation.
    pub estimate: Option<LoopEstimate>,
}

/// The transformations of loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transformation {
    /// Strip mining: pieces in which no quotient of its counter changes.
    Strips,
    /// The same, where the pieces are the rows of a rectangle.
    Rectangle,
    /// It and loops around it become one.
    Collapse,
    /// Iterations of a loop around a vectorised one are computed together.
    Jam,
    /// Its iterations become lanes of vectors.
    Vectors,
}

impl Transformation {
    /// All of them.
    pub const ALL: [Transformation; 5] = [
        Transformation::Strips,
        Transformation::Rectangle,
        Transformation::Collapse,
        Transformation::Jam,
        Transformation::Vectors,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Transformation::Strips => "strips",
            Transformation::Rectangle => "rectangle",
            Transformation::Collapse => "collapse",
            Transformation::Jam => "jam",
            Transformation::Vectors => "vectors",
        }
    }
}

/// The vector loops that a loop has got: how many of its iterations one of each makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorLoopShape {
    /// Iterations of the loop that one iteration of the vector loop makes.
    pub iterations: u64,
    /// Lanes of each of its vectors.
    pub lanes: u64,
    /// A mask leaves some of them out.
    pub is_masked: bool,
}

/// The outcome of a transformation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was split.
    Split,
    /// It and so many loops around it became one, of so many iterations; where the number of iterations of the
    /// outermost one is not known, those of one of these.
    Collapsed {
        /// Loops around it.
        loops: usize,
        /// Iterations.
        iterations: u64,
    },
    /// So many of its iterations are computed together, each with up to so many vectors of the loop inside.
    Jammed {
        /// Iterations.
        rows: u64,
        /// Vectors.
        vectors: usize,
    },
    /// It has vector loops, which run in this order. Each makes what those before have left.
    Vectorised(Vec<VectorLoopShape>),
    /// It was not made.
    Refused(Refusal),
}

macro_rules! refusals {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $reason:literal;)*) => {
        /// The reasons for which a transformation is not made.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Refusal {
            $($(#[$doc])* $variant,)*
        }

        impl Refusal {
            /// All of them.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$variant),*];

            /// Its name in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Refusal::$variant => $name,)* }
            }

            /// The reason in words, after "since".
            pub fn reason(self) -> &'static str {
                match self { $(Refusal::$variant => $reason,)* }
            }
        }
    };
}

refusals! {
    /// It is no nest of counted loops.
    NotCounted = "not_counted", "it is no nest of counted loops";
    /// It has more values than are copied.
    TooLarge = "too_large", "it has too many values";
    /// The function has more such loops than are tried.
    TooMany = "too_many", "the function has too many loops";
    /// It divides nothing by a loop-invariant number.
    NoDivisions = "no_divisions", "it divides nothing";
    /// It has too few iterations.
    TooFewIterations = "too_few_iterations", "it has too few iterations";
    /// It has iterations enough without.
    TooManyIterations = "too_many_iterations", "it has iterations enough without";
    /// Some of its values cannot be lanes of vectors.
    NotVectors = "not_vectors", "some of its values cannot be lanes";
    /// Each iteration needs the one before.
    Sequential = "sequential", "each iteration needs the one before";
    /// The loop has sums, or lanes of bytes, or stores that move, which this transformation does not make.
    OtherLanes = "other_lanes", "it has sums, bytes or stores that move as lanes";
    /// The loop is not directly in another one.
    NotNested = "not_nested", "no loop is directly around it";
    /// Its accesses do not lie as one row after the other.
    NotRows = "not_rows", "what it accesses does not lie in consecutive rows";
    /// Iterations of the loop around depend on each other.
    DependentRows = "dependent_rows", "iterations of the loop around it depend on each other";
    /// Iterations of the loop around share no vectors.
    SharesNothing = "shares_nothing", "iterations of the loop around it share no vectors";
    /// Values of several iterations do not fit the registers.
    NoRegisters = "no_registers", "values of several iterations do not fit the registers";
    /// A loop in it or around it has vectors.
    InAnother = "in_another", "a loop in it or around it has vectors";
    /// Not all of its checks have guards that stand for them.
    NotGuarded = "not_guarded", "no guards stand for all of its checks";
    /// Nothing in it would become vectors, and it has no division less.
    NoGain = "no_gain", "nothing would be faster";
    /// The model finds another transformation cheaper.
    Costlier = "costlier", "another transformation costs less";
    /// The compiler has spent the visits that a function may take.
    NoEffort = "no_effort", "compiling the function takes too long";
}

/// The estimates of a transformation of a loop. The unit is the time in which the processor issues one instruction,
/// about a quarter of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopEstimate {
    /// Iterations of the loop.
    pub iterations: u64,
    /// Whether these are known, and not assumed.
    pub is_known: bool,
    /// The cost of a thousand iterations as they are.
    pub scalar: u64,
    /// Their cost with the transformation.
    pub transformed: u64,
}

impl fmt::Display for LoopDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.transformation.name();
        match &self.outcome {
            Outcome::Split if self.transformation == Transformation::Strips => {
                write!(f, "{name}: pieces in which no quotient changes")?;
            }
            Outcome::Split => write!(f, "{name}: rows in which no quotient changes")?,
            Outcome::Vectorised(loops) => {
                write!(f, "{name}: for")?;
                for (index, one) in loops.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    let mask = if one.is_masked { " with a mask" } else { "" };
                    write!(f, "{comma} {} iterations in {} lanes{mask}", one.iterations, one.lanes)?;
                }
            }
            Outcome::Jammed { rows, vectors } => {
                write!(f, "{name}: {rows} iterations together, with up to {vectors} vectors each")?;
            }
            Outcome::Collapsed { loops, iterations } => {
                let s = if *loops == 1 { "" } else { "s" };
                write!(f, "{name}: one loop with {loops} loop{s} around it, {iterations} iterations that are known")?;
            }
            Outcome::Refused(refusal) => write!(f, "no {name}, since {} ({})", refusal.reason(), refusal.name())?,
        }
        match self.estimate {
            Some(LoopEstimate { iterations, is_known, scalar, transformed }) => {
                let known = if is_known { "" } else { "about " };
                write!(
                    f,
                    "; a thousand iterations, {known}{iterations} at a time, cost {transformed} in place of {scalar}"
                )
            }
            None => Ok(()),
        }
    }
}
