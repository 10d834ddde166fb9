//! Damaged copies of files, which follow from a seed alone.

/// A source of mutants.
pub struct Mutants(u64);

impl Mutants {
    /// Mutants of a seed, which is not zero.
    pub fn new(seed: u64) -> Mutants {
        Mutants(seed)
    }

    fn random(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as usize
    }

    /// A copy with one to four damages: a byte or a bit is another one, eight bytes are all ones, or the end is
    /// missing.
    pub fn of(&mut self, good: &[u8]) -> Vec<u8> {
        let mut bytes = good.to_vec();
        for _ in 0..=self.random() % 4 {
            let place = self.random() % bytes.len();
            match self.random() % 4 {
                0 => bytes[place] = self.random() as u8,
                1 => bytes[place] ^= 1 << (self.random() % 8),
                2 => {
                    let end = (place + 8).min(bytes.len());
                    bytes[place..end].fill(0xff);
                }
                _ => bytes.truncate(place.max(1)),
            }
        }
        bytes
    }
}
