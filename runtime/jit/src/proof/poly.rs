//! Polynomials with integer coefficients over atoms: values of a function of which nothing is computed here. The prover
//! of accesses computes with them, and knows what atoms are. What would not fit is not computed: then nothing is
//! proved.

use smallvec::SmallVec;

/// A value that is taken as it is, by its number in the table of the prover, from one on.
pub(super) type Atom = u16;

/// A product of up to four atoms: their numbers from the largest on, in the upper bits first. That of none is zero,
/// which stands for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Product(u64);

impl Product {
    const BITS: u32 = 16;

    #[inline]
    pub fn of(atom: Atom) -> Product {
        Product(u64::from(atom) << 48)
    }

    pub fn is_one(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub fn atoms(self) -> Atoms {
        Atoms(self.0)
    }

    #[inline]
    pub fn contains(self, atom: Atom) -> bool {
        self.atoms().any(|own| own == atom)
    }

    /// The only atom of it.
    pub fn as_atom(self) -> Option<Atom> {
        (self.0 << Product::BITS == 0 && self.0 != 0).then_some((self.0 >> 48) as Atom)
    }

    fn times(self, other: Product) -> Option<Product> {
        let (mut a, mut b, mut both) = (self.0, other.0, 0_u64);
        while a != 0 || b != 0 {
            if both >> 48 != 0 {
                return None;
            }
            let from = if a >= b { &mut a } else { &mut b };
            both = both << Product::BITS | *from >> 48;
            *from <<= Product::BITS;
        }
        while both != 0 && both >> 48 == 0 {
            both <<= Product::BITS;
        }
        Some(Product(both))
    }

    /// The factor by which another one has to be multiplied to be this one.
    pub fn quotient(self, by: Product) -> Option<Product> {
        let (mut rest, mut place) = (0_u64, 48);
        let mut left = by.0;
        for atom in self.atoms() {
            if left >> 48 == u64::from(atom) {
                left <<= Product::BITS;
            } else {
                rest |= u64::from(atom) << place;
                place -= 16_i32;
            }
        }
        (left == 0).then_some(Product(rest))
    }
}

/// The atoms of a product that are left.
pub(super) struct Atoms(u64);

impl Iterator for Atoms {
    type Item = Atom;

    #[inline]
    fn next(&mut self) -> Option<Atom> {
        let atom = (self.0 >> 48) as Atom;
        self.0 <<= Product::BITS;
        (atom != 0).then_some(atom)
    }
}

/// Most terms. A value that needs more is an atom itself.
const MAX_TERMS: usize = 32;

/// A sum of products with coefficients that are not zero, in the order of the products.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Poly(pub SmallVec<[(Product, i64); 6]>);

impl Clone for Poly {
    fn clone(&self) -> Poly {
        // All terms at once.
        Poly(SmallVec::from_slice(&self.0))
    }
}

impl Poly {
    pub fn constant(value: i64) -> Poly {
        Poly(if value == 0 { SmallVec::new() } else { SmallVec::from_slice(&[(Product::default(), value)]) })
    }

    pub fn atom(atom: Atom) -> Poly {
        Poly::term(Product::of(atom), 1)
    }

    pub fn term(product: Product, value: i64) -> Poly {
        Poly(SmallVec::from_slice(&[(product, value)]))
    }

    /// Its value, if it has no atoms.
    pub fn as_constant(&self) -> Option<i64> {
        match self.0.as_slice() {
            [] => Some(0),
            [(product, value)] if product.is_one() => Some(*value),
            _ => None,
        }
    }

    pub fn constant_term(&self) -> i64 {
        self.0.first().filter(|(product, _)| product.is_one()).map_or(0, |(_, value)| *value)
    }

    /// The same with so much more.
    pub fn and(&self, more: i64) -> Option<Poly> {
        let mut sum = self.clone();
        match sum.0.first_mut().filter(|(product, _)| product.is_one()) {
            Some((_, value)) => {
                *value = value.checked_add(more)?;
                if *value == 0 {
                    sum.0.remove(0);
                }
            }
            None if more != 0 => sum.0.insert(0, (Product::default(), more)),
            None => {}
        }
        Some(sum)
    }

    /// `self + factor * other`.
    pub fn plus(&self, factor: i64, other: &Poly) -> Option<Poly> {
        let (mut a, mut b) = (self.0.as_slice(), other.0.as_slice());
        let mut sum = SmallVec::new();
        loop {
            let (product, value) = match (a.first(), b.first()) {
                (None, None) => break,
                (Some((one, value)), other) if other.is_none_or(|(other, _)| one < other) => {
                    a = &a[1..];
                    (*one, *value)
                }
                (one, Some((other, value))) => {
                    b = &b[1..];
                    let own = one.filter(|(one, _)| one == other).map(|(_, value)| *value);
                    a = if own.is_some() { &a[1..] } else { a };
                    (*other, own.unwrap_or(0).checked_add(value.checked_mul(factor)?)?)
                }
                (Some((one, value)), None) => {
                    a = &a[1..];
                    (*one, *value)
                }
            };
            if value != 0 {
                sum.push((product, value));
            }
        }
        (sum.len() <= MAX_TERMS).then_some(Poly(sum))
    }

    pub fn times(&self, other: &Poly) -> Option<Poly> {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        let mut all = Poly::default();
        for (product, value) in &few.0 {
            let mut row = Poly::default();
            for (another, factor) in &many.0 {
                row.0.push((product.times(*another)?, value.checked_mul(*factor)?));
            }
            row.0.sort_unstable();
            all = if all.0.is_empty() { row } else { all.plus(1, &row)? };
        }
        Some(all)
    }

    /// Whether all coefficients are numbers of so many bits, with a sign.
    pub fn fits(&self, bits: u32) -> bool {
        self.0.iter().all(|(_, value)| wrapped((*value).into(), bits) == i128::from(*value))
    }

    #[inline]
    pub fn atoms(&self) -> impl Iterator<Item = Atom> {
        self.0.iter().flat_map(|(product, _)| product.atoms())
    }

    /// The polynomials `a` and `b` of `a * atom + b`, if it is of this form.
    pub fn split(&self, atom: Atom) -> Option<(Poly, Poly)> {
        let (mut a, mut b) = (Poly::default(), Poly::default());
        for (product, value) in &self.0 {
            match product.quotient(Product::of(atom)) {
                None => b.0.push((*product, *value)),
                Some(rest) if rest.contains(atom) => return None,
                Some(rest) => a.0.push((rest, *value)),
            }
        }
        a.0.sort_unstable();
        Some((a, b))
    }

    /// The same with another polynomial in place of an atom.
    pub fn with(&self, atom: Atom, value: &Poly) -> Option<Poly> {
        let (a, b) = self.split(atom)?;
        a.times(value)?.plus(1, &b)
    }
}

/// The number between `-2^(bits-1)` and `2^(bits-1)` that is congruent to a value modulo `2^bits`.
pub(super) fn wrapped(value: i128, bits: u32) -> i128 {
    (value << (128 - bits)) >> (128 - bits)
}
