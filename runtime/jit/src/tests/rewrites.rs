//! The check of rewrites: the tests that are generated from `spec/jit` compute patterns and replacements with it.

use std::fmt::Debug;

/// How many values are drawn for each rewrite and type.
const DRAWN: usize = 4000;

/// A type of values that are tried.
pub(crate) trait Tried: Copy + Debug + 'static {
    /// Values at which arithmetic is special.
    const EDGES: &'static [Self];

    fn from_bits(bits: u64) -> Self;

    /// Values with the same bits are the same.
    fn bits(self) -> u64;
}

macro_rules! integers {
    ($($ty:ident)*) => {
        $(impl Tried for $ty {
            const EDGES: &'static [$ty] = &[0, 1, -1, 2, 7, $ty::MIN, $ty::MIN + 1, $ty::MAX, $ty::MAX - 1];

            fn from_bits(bits: u64) -> $ty {
                bits as $ty
            }

            fn bits(self) -> u64 {
                self as u64
            }
        })*
    };
}

integers!(i32 i64);

macro_rules! floats {
    ($($ty:ident $bits:ident)*) => {
        $(impl Tried for $ty {
            const EDGES: &'static [$ty] = &[
                0.0, -0.0, 1.0, -1.0, $ty::MIN, $ty::MAX, $ty::MIN_POSITIVE, $ty::INFINITY, $ty::NEG_INFINITY, $ty::NAN,
            ];

            fn from_bits(bits: u64) -> $ty {
                $ty::from_bits(bits as $bits)
            }

            fn bits(self) -> u64 {
                self.to_bits().into()
            }
        })*
    };
}

floats!(f32 u32 f64 u64);

/// Checks that pattern and replacement of a rewrite have the same bits, for all values that are tried.
pub(crate) fn holds<T: Tried>(pattern: impl Fn([T; 3], bool) -> T, replacement: impl Fn([T; 3], bool) -> T) {
    assert_eq!(difference(pattern, replacement), None);
}

/// The first variables for which pattern and replacement of a rewrite differ: three values and a truth.
fn difference<T: Tried>(
    pattern: impl Fn([T; 3], bool) -> T,
    replacement: impl Fn([T; 3], bool) -> T,
) -> Option<String> {
    let edges = T::EDGES.iter().flat_map(|a| T::EDGES.iter().flat_map(|b| T::EDGES.iter().map(|c| [*a, *b, *c])));
    // A linear congruential generator, whose upper bits are good enough, always from the same seed.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let upper = state >> 32;
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        T::from_bits(upper << 32 | state >> 32)
    };
    let drawn = (0..DRAWN).map(|_| [draw(), draw(), draw()]);
    edges.chain(drawn).flat_map(|values| [(values, false), (values, true)]).find_map(|(values, truth)| {
        let (left, right) = (pattern(values, truth), replacement(values, truth));
        (left.bits() != right.bits()).then(|| format!("{values:?}, {truth}: {left:?} is not {right:?}"))
    })
}

#[test]
fn wrong_rewrites_are_found() {
    assert_eq!(difference::<i32>(|[a, ..], _| a, |[a, ..], _| a), None);
    let found = difference::<i32>(|[a, ..], _| a.wrapping_mul(2), |[a, ..], _| a);
    assert_eq!(found.as_deref(), Some("[1, 0, 0], false: 2 is not 1"));
    // Negative zero is another value than zero.
    assert!(difference::<f32>(|[a, ..], _| a + 0.0, |[a, ..], _| a).is_some());
    // One that only drawn values find, and one that the truth finds.
    assert!(difference::<i64>(|[a, ..], _| if a % 1000 == 77 { 0 } else { a }, |[a, ..], _| a).is_some());
    assert!(difference::<f64>(|[a, b, _], t| if t { a } else { b }, |[a, ..], _| a).is_some());
}
