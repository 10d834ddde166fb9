//! SipHash-2-4 with the fixed key 00 01 02 ... 0f: what `buffer.hash` computes. Fast and well mixed; with a public key it resists no
//! adversary.

/// The hash of `bytes`.
pub fn hash(bytes: &[u8]) -> u64 {
    const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
    // "somepseudorandomlygeneratedbytes" in ASCII.
    let mut state = [
        KEY[0] ^ 0x736f_6d65_7073_6575,
        KEY[1] ^ 0x646f_7261_6e64_6f6d,
        KEY[0] ^ 0x6c79_6765_6e65_7261,
        KEY[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        absorb(&mut state, u64::from_le_bytes(*word));
    }
    // The last word holds what is left over, and the low byte of the length on top.
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    absorb(&mut state, u64::from_le_bytes(last));
    state[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut state));
    state[0] ^ state[1] ^ state[2] ^ state[3]
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
    use super::hash;

    #[test]
    fn reference_vectors() {
        // From the SipHash paper's test vectors: the input is 00 01 02 ..., the key is the same.
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(hash(&[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(hash(&input[..8]), 0x93f5_f579_9a93_2462);
        assert_eq!(hash(&input), 0xa129_ca61_49be_45e5);
    }
}
