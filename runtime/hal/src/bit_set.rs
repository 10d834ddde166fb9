//! The methods, operators and text form of bit sets. Generated types call `bit_set!` with the bits of `spec/hal/`.

/// Gives the generated type `$name(int)` its methods and operators. `$all` has every bit that exists, `$spec_name` is
/// shown in errors.
macro_rules! bit_set {
    ($name:ident, $int:ty, $all:expr, $spec_name:literal) => {
        impl $name {
            /// No bits.
            pub const fn empty() -> Self {
                Self(0)
            }

            /// Every bit that exists.
            pub const fn all() -> Self {
                Self($all)
            }

            /// The bits as a number.
            pub const fn bits(self) -> $int {
                self.0
            }

            /// The set with these bits.
            ///
            /// # Errors
            /// `INVALID_ARGUMENT` if one of them does not exist.
            pub fn from_number(number: $int) -> crate::Result<Self> {
                Self::from_bits(number).ok_or_else(|| {
                    let unknown = number & !Self::all().0;
                    crate::Status::invalid_argument(format!("{} has unknown bits {unknown:#x}", $spec_name))
                })
            }

            /// The set with these bits; none if one of them does not exist.
            pub const fn from_bits(bits: $int) -> Option<Self> {
                if bits & !Self::all().0 == 0 { Some(Self(bits)) } else { None }
            }

            /// The set with these bits; those that do not exist are dropped.
            pub const fn from_bits_truncate(bits: $int) -> Self {
                Self(bits & Self::all().0)
            }

            /// The set with these bits; those that do not exist are kept.
            pub const fn from_bits_retain(bits: $int) -> Self {
                Self(bits)
            }

            /// True if no bit is set.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// True if all bits of `other` are set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// True if a bit of `other` is set.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The named sets it contains, in the order of the spec. A set is left out if those before it have all its
            /// bits.
            pub fn iter_names(self) -> impl Iterator<Item = (&'static str, Self)> {
                let mut left = self.0;
                Self::NAMED.iter().filter_map(move |(set, name)| {
                    let adds = self.contains(*set) && left & set.0 != 0;
                    left &= if adds { !set.0 } else { !0 };
                    adds.then_some((*name, *set))
                })
            }

            /// The bits of both.
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Sets the bits of `other`.
            pub fn insert(&mut self, other: Self) {
                self.0 |= other.0;
            }

            /// Clears the bits of `other`.
            pub fn remove(&mut self, other: Self) {
                self.0 &= !other.0;
            }

            /// Sets or clears the bits of `other`.
            pub fn set(&mut self, other: Self, value: bool) {
                if value { self.insert(other) } else { self.remove(other) }
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = Self;

            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        impl std::ops::Sub for $name {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl std::ops::Not for $name {
            type Output = Self;

            fn not(self) -> Self {
                Self(!self.0 & Self::all().0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let named = Self::NAMED.iter().map(|(set, name)| (u64::from(set.0), *name));
                crate::bit_set::write_names(f, u64::from(self.0), named)
            }
        }
    };
}

pub(crate) use bit_set;

/// Writes the names of single bits, joined by `|`, and unnamed bits as a number. A name of several bits stands for them
/// if none of them has a name of its own.
///
/// # Errors
/// Those of the formatter.
pub fn write_names(
    f: &mut std::fmt::Formatter<'_>,
    bits: u64,
    named: impl Iterator<Item = (u64, &'static str)>,
) -> std::fmt::Result {
    let mut sets: Vec<(u64, &'static str)> = named.collect();
    sets.sort_by_key(|(set, _)| (set.count_ones(), *set));
    let (mut left, mut separator) = (bits, "");
    for (set, name) in sets {
        // Bits already written may be part of the set, as long as it adds one.
        if bits & set == set && left & set != 0 {
            write!(f, "{separator}{name}")?;
            separator = "|";
            left &= !set;
        }
    }
    match (left, separator) {
        (0, "") => f.write_str("none"),
        (0, _) => Ok(()),
        (left, separator) => write!(f, "{separator}{left:#x}"),
    }
}
