//! Sets of small numbers, such as the slots of a frame: a bit for each.

use smallvec::SmallVec;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// A set of numbers below a bound.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits(SmallVec<[u64; 4]>);

impl Bits {
    /// An empty set of numbers below `count`.
    pub fn new(count: usize) -> Bits {
        Bits(SmallVec::from_elem(0, count.div_ceil(WORD)))
    }

    /// The set of all numbers below `count`.
    pub fn all(count: usize) -> Bits {
        let mut all = Bits(SmallVec::from_elem(u64::MAX, count.div_ceil(WORD)));
        if let Some(last) = all.0.last_mut().filter(|_| !count.is_multiple_of(WORD)) {
            *last = (1 << (count % WORD)) - 1;
        }
        all
    }

    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    pub fn insert(&mut self, number: usize) {
        self.0[number / WORD] |= 1 << (number % WORD);
    }

    /// Adds a number. Whether the set did not have it.
    pub fn insert_new(&mut self, number: usize) -> bool {
        let is_new = !self.contains(number);
        self.insert(number);
        is_new
    }

    pub fn remove(&mut self, number: usize) {
        self.0[number / WORD] &= !(1 << (number % WORD));
    }

    pub fn set(&mut self, number: usize, is_in: bool) {
        self.set_each([(number, is_in)].into_iter());
    }

    /// Adds and removes numbers, one after the other.
    pub fn set_each(&mut self, numbers: impl Iterator<Item = (usize, bool)>) {
        let words = &mut self.0[..];
        for (number, is_in) in numbers {
            let (word, bit) = (&mut words[number / WORD], number % WORD);
            *word = *word & !(1 << bit) | u64::from(is_in) << bit;
        }
    }

    /// Whether it has a number, which may be any.
    pub fn contains(&self, number: usize) -> bool {
        self.0.get(number / WORD).is_some_and(|word| word >> (number % WORD) & 1 != 0)
    }

    /// The numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        numbers(self.0.iter().copied())
    }

    /// Those that are in two sets, in order.
    pub fn and(&self, other: &Bits) -> impl Iterator<Item = usize> {
        numbers(self.0.iter().zip(&other.0).map(|(word, other)| word & other))
    }

    /// Those that another set does not have.
    pub fn without(&self, other: &Bits) -> Bits {
        let mut rest = self.clone();
        rest.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
        rest
    }

    /// Those that another set has, too.
    pub fn retain(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }
}

impl Clone for Bits {
    fn clone(&self) -> Bits {
        // All at once, which the clone of the vector is not.
        Bits(SmallVec::from_slice(&self.0))
    }
}

/// The numbers of the bits of words that follow each other.
pub(crate) fn numbers(words: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    words.enumerate().flat_map(|(index, word)| {
        let rest = std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)));
        rest.take_while(|rest| *rest != 0).map(move |rest| index * WORD + rest.trailing_zeros() as usize)
    })
}
