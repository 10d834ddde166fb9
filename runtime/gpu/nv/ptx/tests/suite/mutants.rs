//! Texts that are not right: loading any of them ends, and what is loaded runs until its limit.

use crate::support::{Buffers, run_with};
use vireo_ptx::{Module, Options};

struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound.max(1)
    }
}

const SEED_TEXT: &str = include_str!("../seed.ptx");

/// Replacements of parts of a text.
const PIECES: [&str; 24] = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    ":",
    "<",
    ">",
    "@",
    "!",
    "|",
    "\"",
    "/*",
    "//",
    "-",
    "+",
    "99999999999999999999",
    "0f",
    ".reg .b32 %q<4294967295>;",
    ".shared .b8 x[18446744073709551615];",
    "%r1",
];

fn mutant(draw: &mut Draw) -> Vec<u8> {
    let mut text = SEED_TEXT.as_bytes().to_vec();
    for _ in 0..=draw.below(4) {
        let at = draw.below(text.len());
        match draw.below(7) {
            0 => text.truncate(at),
            1 => text[at] = draw.below(256) as u8,
            2 => {
                let length = draw.below(40).min(text.len() - at);
                text.drain(at..at + length);
            }
            3 => {
                let piece = PIECES[draw.below(PIECES.len())];
                text.splice(at..at, piece.bytes());
            }
            4 => {
                // A line is there twice, or in another place.
                let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
                let (line, place) = (lines[draw.below(lines.len())].to_vec(), draw.below(lines.len()));
                let mut lines: Vec<Vec<u8>> = lines.into_iter().map(<[u8]>::to_vec).collect();
                lines.insert(place, line);
                text = lines.join(&b'\n');
            }
            5 => {
                // One word instead of another one.
                let words: Vec<&[u8]> = text.split(|byte| !byte.is_ascii_alphanumeric()).collect();
                let word = words[draw.below(words.len())].to_vec();
                let length = draw.below(8).min(text.len() - at);
                text.splice(at..at + length, word);
            }
            _ => {
                let digits: Vec<usize> = (0..text.len()).filter(|at| text[*at].is_ascii_digit()).collect();
                if !digits.is_empty() {
                    text[digits[draw.below(digits.len())]] = b'0' + draw.below(10) as u8;
                }
            }
        }
        if text.is_empty() {
            break;
        }
    }
    text
}

#[test]
fn mutants_are_refused_or_run() {
    let mut draw = Draw(0x5EED_0003);
    let (mut loaded, mut ended) = (0, 0);
    for _ in 0..4000 {
        let text = mutant(&mut draw);
        let Ok(module) = Module::load(&text, &Options::default()) else { continue };
        loaded += 1;
        for kernel in module.kernels().iter().take(2) {
            let mut buffers = Buffers::new();
            let addresses: Vec<u64> = (0..4).map(|_| buffers.add_words(&[7; 256])).collect();
            let globals: Vec<u64> = module.globals().iter().map(|_| buffers.add(&[0; 4096])).collect();
            let mut params = addresses.repeat(8);
            params.resize(params.len().max(kernel.parameter_bytes() as usize / 8 + 1), 0);
            let block = kernel.required_threads().unwrap_or([32, 2, 1]);
            let result = run_with(kernel, &buffers, [1, 1, 1], block, &params, &globals, 20_000);
            ended += usize::from(result.is_ok());
        }
    }
    // Most mutants are wrong, but not all of them.
    assert!(loaded > 200 && ended > 50, "{loaded} {ended}");
}
