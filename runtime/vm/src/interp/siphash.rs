//! SipHash-2-4 with the fixed key 00 01 02 ... 0f: what `buffer.hash` computes. Fast and well mixed; with a public key it resists no
//! adversary.

/// A hash in the making. Pieces may be of any number of whole words; the last piece alone may end in a part of one.
pub struct Hasher {
    state: [u64; 4],
    length: u64,
}

impl Hasher {
    /// The hash of nothing so far.
    pub fn new() -> Hasher {
        const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        // "somepseudorandomlygeneratedbytes" in ASCII.
        let state = [
            KEY[0] ^ 0x736f_6d65_7073_6575,
            KEY[1] ^ 0x646f_7261_6e64_6f6d,
            KEY[0] ^ 0x6c79_6765_6e65_7261,
            KEY[1] ^ 0x7465_6462_7974_6573,
        ];
        Hasher { state, length: 0 }
    }

    /// Adds the whole words of `bytes` and returns the rest, which is less than a word.
    pub fn update<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            absorb(&mut self.state, u64::from_le_bytes(*word));
        }
        self.length += bytes.len() as u64;
        rest
    }

    /// The hash of all pieces, of which `rest` is what the last one left over.
    pub fn finish(mut self, rest: &[u8]) -> u64 {
        // The last word holds what is left over, and the low byte of the length on top.
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        last[7] = self.length as u8;
        absorb(&mut self.state, u64::from_le_bytes(last));
        self.state[2] ^= 0xff;
        (0..4).for_each(|_| round(&mut self.state));
        self.state[0] ^ self.state[1] ^ self.state[2] ^ self.state[3]
    }
}

fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    (0..2).for_each(|_| round(state));
    state[0] ^= word;
}

fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *c = c.wrapping_add(*d);
    *b = b.rotate_left(13) ^ *a;
    *d = d.rotate_left(16) ^ *c;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*b);
    *a = a.wrapping_add(*d);
    *b = b.rotate_left(17) ^ *c;
    *d = d.rotate_left(21) ^ *a;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::Hasher;

    fn hash(bytes: &[u8]) -> u64 {
        let mut hasher = Hasher::new();
        let rest = hasher.update(bytes);
        hasher.finish(rest)
    }

    #[test]
    fn reference_vectors() {
        // From the SipHash paper's test vectors: the input is 00 01 02 ..., the key is the same.
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(hash(&[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(hash(&input[..8]), 0x93f5_f579_9a93_2462);
        assert_eq!(hash(&input), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn pieces_hash_as_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1003).collect();
        let mut hasher = Hasher::new();
        assert!(hasher.update(&bytes[..512]).is_empty());
        let rest = hasher.update(&bytes[512..]);
        assert_eq!(rest.len(), 3);
        assert_eq!(hasher.finish(rest), hash(&bytes));
    }
}
