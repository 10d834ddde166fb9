//! The decoder compared with iced: on all machine code of `fixtures/`, on every opcode in every encoding, and on random
//! bytes.
//!
//! Instructions that iced finds valid have the same length, flow and features here. Others may be valid here only where
//! iced without its checks of reserved fields agrees, and then everything is the same again. The fields that the
//! decoder does not check are
//! - LOCK before an instruction that cannot be locked;
//! - `vvvv` of an instruction without that operand, and operands that must be different registers;
//! - in EVEX zeroing without a mask, masks that must be there or must not, and broadcasts of instructions without one;
//! - operands in memory that must have an SIB byte, and instructions with one size of addresses.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction as Iced, OpKind};

use super::super::elf::ElfImage;
use super::*;

/// Length, flow, and names of features.
type Outcome = (usize, Flow, Vec<&'static str>);

/// The features of iced, by its numbers, with the name of each here, or none for those of all processors.
fn names() -> Vec<Option<&'static str>> {
    fn plain(name: &str) -> String {
        name.chars().filter(|letter| !"_.-".contains(*letter)).collect::<String>().to_lowercase()
    }
    let named = |feature| {
        let wanted = plain(&format!("{feature:?}"));
        NAMES.split(' ').find(|name| plain(name) == wanted)
    };
    CpuidFeature::values().map(named).collect()
}

struct Comparison {
    names: Vec<Option<&'static str>>,
    /// How many instructions iced found valid, and how many only without its checks.
    valid: usize,
    unchecked: usize,
    /// The features of valid ones.
    features: BTreeSet<&'static str>,
}

impl Comparison {
    fn new() -> Comparison {
        Comparison { names: names(), valid: 0, unchecked: 0, features: BTreeSet::new() }
    }

    /// The properties of the first instruction, according to iced.
    fn iced(&self, code: &[u8], options: u32) -> Option<Outcome> {
        let mut decoder = Decoder::with_ip(64, code, 0, options);
        let mut instruction = Iced::default();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        let near = instruction.op_count() > 0
            && matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
        let distance = || {
            let target = instruction.near_branch_target().wrapping_sub(instruction.next_ip());
            i32::try_from(target as i64).expect("a distance of 32 bits")
        };
        let flow = match instruction.flow_control() {
            FlowControl::ConditionalBranch | FlowControl::Call | FlowControl::XbeginXabortXend if near => {
                Flow::Branch(distance())
            }
            FlowControl::Next | FlowControl::IndirectCall | FlowControl::Call | FlowControl::XbeginXabortXend => {
                Flow::Next
            }
            FlowControl::UnconditionalBranch => Flow::Jump(distance()),
            FlowControl::IndirectBranch => Flow::IndirectJump { ip_relative: instruction.is_ip_rel_memory_operand() },
            FlowControl::Return | FlowControl::Interrupt | FlowControl::Exception => Flow::End,
            other => panic!("{other:?} without a target: {code:02x?}"),
        };
        let features = instruction.cpuid_features().iter().filter_map(|feature| self.names[*feature as usize]);
        Some((instruction.len(), flow, features.collect()))
    }

    /// Compares the first instruction and returns its length if iced finds it valid.
    fn compare(&mut self, code: &[u8]) -> Option<usize> {
        let ours = decode(code).map(|Instruction { length, flow, features }| {
            (length, flow, features.iter().map(|feature| feature_name(*feature)).collect())
        });
        let checked = self.iced(code, DecoderOptions::NONE);
        let shown = &code[..code.len().min(LONGEST)];
        if let Some((_, _, features)) = &checked {
            assert_eq!(ours, checked, "{shown:02x?}");
            self.valid += 1;
            self.features.extend(features);
        } else if ours.is_some() {
            assert_eq!(ours, self.iced(code, DecoderOptions::NO_INVALID_CHECK), "{shown:02x?} is not valid");
            self.unchecked += 1;
        }
        checked.map(|(length, ..)| length)
    }
}

/// Pseudo-random numbers, the same in each run (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[(self.next() % values.len() as u64) as usize]
    }

    fn bytes(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next().to_le_bytes());
        bytes[8..].copy_from_slice(&self.next().to_le_bytes());
        bytes
    }
}

fn modules(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of fixtures") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            modules(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "vmfb") {
            found.push(path);
        }
    }
}

#[test]
fn code_of_the_compiler_is_decoded_as_iced_does() {
    let mut files = Vec::new();
    modules(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")), &mut files);
    let (mut comparison, mut libraries) = (Comparison::new(), 0);
    for file in files {
        let module = std::fs::read(&file).expect("a module");
        for (start, _) in module.windows(4).enumerate().filter(|(_, window)| window == b"\x7fELF") {
            // Libraries for other machines are refused.
            let Ok(image) = ElfImage::load(&module[start..]) else { continue };
            libraries += 1;
            for (_, code) in image.all_code() {
                let mut offset = 0;
                while offset < code.len() {
                    offset += comparison.compare(&code[offset..]).unwrap_or(1);
                }
            }
        }
    }
    println!("{libraries} libraries, {} instructions", comparison.valid);
    assert!(libraries >= 90 && comparison.valid >= 20_000, "{libraries} libraries, {} instructions", comparison.valid);
}

/// Completes an instruction whose first bytes are `head` in some random ways, and compares each, some but the first
/// truncated or after a prefix.
fn compare_completed(comparison: &mut Comparison, random: &mut Random, head: &[u8], ways: usize) {
    for way in 0..ways {
        let mut code = [0; 24];
        let prefixes = usize::from(way > 0 && random.one_in(8));
        code[0] = random.of(&[0x2E, 0x64, 0x66, 0x67, 0xF0, 0xF2, 0xF3, 0x40, 0x48]);
        code[prefixes..][..head.len()].copy_from_slice(head);
        let tail = prefixes + head.len();
        code[tail..].copy_from_slice(&[random.bytes(), random.bytes()].concat()[..24 - tail]);
        // Forms of ModRM that some instructions are only valid with.
        if random.one_in(4) {
            code[tail] = random.of(&[0x04, 0xC0, 0xC1, 0xCA]);
        }
        let cut = way > 0 && random.one_in(8);
        comparison.compare(&code[..if cut { 1 + (random.next() % 16) as usize } else { code.len() }]);
    }
}

#[test]
fn every_opcode_in_every_encoding_is_decoded_as_iced_does() {
    let (mut comparison, mut random) = (Comparison::new(), Random(1));
    // Instructions with operands that are rare at random: `tdpfp16ps tmm1, tmm2, tmm3`, `vp2intersectd k0, zmm1, zmm2`,
    // `vgatherpf0dps [rax + zmm0] {k1}`, `montmul` with addresses of 32 bits.
    for code in [
        &[0xC4, 0xE2, 0x63, 0x5C, 0xCA][..],
        &[0x62, 0xF2, 0x77, 0x48, 0x68, 0xC2],
        &[0x62, 0xF2, 0x7D, 0x49, 0xC6, 0x0C, 0x00],
        &[0x67, 0xF3, 0x0F, 0xA6, 0xC0],
    ] {
        assert_eq!(comparison.compare(code), Some(code.len()));
    }
    for opcode in 0..=u8::MAX {
        // Each mandatory prefix with each ModRM byte, on which most instructions of this map depend.
        for (prefix, modrm) in (0..4).flat_map(|prefix| (0..=u8::MAX).map(move |modrm| (prefix, modrm))) {
            let rex = random.of(&[0x40, 0x48, 0x4F]);
            let head = [0x66, 0xF3, 0xF2].get(prefix).into_iter().copied().chain([rex, 0x0F, opcode, modrm]);
            compare_completed(&mut comparison, &mut random, &head.collect::<Vec<_>>(), 1);
        }
        for map in [&[][..], &[0x0F, 0x38], &[0x0F, 0x3A]] {
            for prefix in [&[][..], &[0x66], &[0xF3], &[0xF2], &[0x66, 0xF3], &[0xF2, 0x66], &[0x67]] {
                for rex in [&[][..], &[0x48], &[0x41]] {
                    compare_completed(&mut comparison, &mut random, &[prefix, rex, map, &[opcode]].concat(), 4);
                }
            }
        }
        compare_completed(&mut comparison, &mut random, &[0x0F, 0x0F, 0xC1, opcode], 1);
        // All maps, with the mandatory prefix, W and the length. Other bits are random, often those of no operand in
        // `vvvv` and of registers below 8.
        for (map, fields) in (0..32).flat_map(|map| (0..32u8).map(move |fields| (map, fields))) {
            let (low, wide, length) = (fields & 3, (fields & 4) << 5, fields >> 3);
            let vvvv = if random.one_in(2) { random.byte() & 0x78 } else { 0x78 };
            let (vex, evex) = (if map <= 4 { 6 } else { 0 }, if map <= 8 { 4 } else { 0 });
            let xop = if (8..=11).contains(&map) { 1 } else { 0 };
            let registers = if random.one_in(2) { 0xE0 } else { random.byte() & 0xE0 };
            let payload = wide | vvvv | (length & 1) << 2 | low;
            compare_completed(&mut comparison, &mut random, &[0xC4, registers | map, payload, opcode], vex);
            compare_completed(&mut comparison, &mut random, &[0x8F, registers | map, payload, opcode], xop);
            if map == 1 {
                let payload = payload & 0x7F | random.byte() & 0x80;
                compare_completed(&mut comparison, &mut random, &[0xC5, payload, opcode], 1);
            }
            let third = if random.one_in(2) { random.byte() & 0x9F } else { random.byte() & 7 | 8 };
            let first = random.byte() & 0xF0 | map & 0xF;
            let fixed = if random.one_in(16) { 0 } else { 4 };
            let second = wide | vvvv | fixed | low;
            compare_completed(&mut comparison, &mut random, &[0x62, first, second, third | length << 5, opcode], evex);
        }
    }
    println!("{} valid, {} without checks", comparison.valid, comparison.unchecked);
    let unseen: Vec<&str> = NAMES.split(' ').filter(|name| !comparison.features.contains(name)).collect();
    assert!(comparison.valid >= 100_000 && unseen.is_empty(), "{} valid, no {unseen:?}", comparison.valid);
}

#[test]
fn random_bytes_are_decoded_as_iced_does() {
    let (mut comparison, mut random) = (Comparison::new(), Random(2));
    for _ in 0..200_000 {
        let mut code = random.bytes();
        let mut at = 0;
        while at < 6 && random.one_in(3) {
            code[at] = random.of(&[0x66, 0xF2, 0xF3, 0x67, 0x2E, 0x65, 0xF0, 0x40, 0x48, 0x4F]);
            at += 1;
        }
        if random.one_in(2) {
            code[at] = random.of(&[0x0F, 0xC4, 0xC5, 0x62, 0x8F, 0x0F, 0xD5, 0xFF, 0xC7]);
        }
        if code[at] == 0x62 {
            code[at + 1] &= random.of(&[0xF1, 0xF2, 0xF3, 0xF5, 0xF6, 0xFF]);
            code[at + 2] |= 4;
        }
        let length = if random.one_in(8) { (random.next() % 16) as usize } else { code.len() };
        comparison.compare(&code[..length]);
    }
    println!("{} valid, {} without checks", comparison.valid, comparison.unchecked);
    assert!(comparison.valid >= 60_000, "{}", comparison.valid);
}

#[test]
fn instructions_have_fifteen_bytes_at_most() {
    let mut code = [0x66; 16];
    code[14] = 0x90;
    assert_eq!(decode(&code).map(|instruction| instruction.length), Some(15));
    assert_eq!(decode(&code[..14]), None);
    code[14..].copy_from_slice(&[0x66, 0x90]);
    assert_eq!(decode(&code), None);
    assert_eq!(decode(&[]), None);
}

#[test]
fn extensions_without_a_table_are_not_known() {
    // `add rax, r16` with REX2, and `add rax, rbx, rcx` in the map of APX.
    assert_eq!(decode(&[0xD5, 0x48, 0x01, 0xC0, 0, 0]), None);
    assert_eq!(decode(&[0x62, 0xF4, 0xFC, 0x18, 0x01, 0xCB]), None);
}

/// The table is mapped with the library, and what of it a process touches is read from the file.
#[test]
fn the_table_is_a_few_pages() {
    let cells = size_of_val(&CELLS) + size_of_val(&NODES) + size_of_val(&SETS) + size_of_val(&SET_STARTS);
    let maps = size_of_val(&table::LEGACY) + size_of_val(&table::VEX) + size_of_val(&table::EVEX);
    let maps = maps + size_of_val(&table::XOP) + size_of_val(&table::AMD_3DNOW);
    println!("{cells} and {maps} bytes, {} of names", NAMES.len());
    assert!(cells + maps + NAMES.len() <= 20 << 10);
}
