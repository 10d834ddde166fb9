//! Atomic accesses of all kinds: what is in memory after the lanes of a wave, and what each of them gets, by the
//! pseudocode of the manual of the instruction set.

mod common;

use std::sync::Mutex;

use common::{Bare, Buffer, Buffers, push, words_of_bytes};
use vireo_gfx::isa::operands::LITERAL;
use vireo_gfx::isa::{Field, INSTRUCTIONS, InstructionInfo, Slot};
use vireo_gfx::{Encoding, Opcode};
use vireo_simt::{Access, AccessHook, GroupHook, Mask, RowAccess, Space};

/// The value that replaces the old one, for the data and what is compared with; all of `bits` bits.
fn replaced(info: &InstructionInfo, bits: u32, old: u64, data: u64, compared: u64) -> u64 {
    let name = info.name.replace("_rtn", "").replace("global_atomic_", "").replace("buffer_atomic_", "");
    let name = name.replace("flat_atomic_", "");
    let name = name.trim_start_matches("ds_");
    let (operation, ty) = name.rsplit_once('_').expect("a type");
    let float = |value: u64| if bits == 64 { f64::from_bits(value) } else { f64::from(f32::from_bits(value as u32)) };
    let signed = |value: u64| (value << (64 - bits)) as i64 >> (64 - bits);
    let new = match (operation, &ty[..1]) {
        ("swap" | "storexchg", _) => data,
        ("mskor", _) => old & !data | compared,
        ("wrap", _) if old >= data => old - data,
        ("wrap", _) => old.wrapping_add(compared),
        ("csub", _) => old.saturating_sub(data),
        ("condxchg32", _) => [0, 32].into_iter().fold(0, |all, shift| {
            let (old, data) = ((old >> shift) as u32, (data >> shift) as u32);
            all | u64::from(if data >> 31 == 1 { data & 0x7FFF_FFFF } else { old }) << shift
        }),
        ("cmpswap" | "cmpstore", "f") => {
            if float(old) == float(compared) {
                data
            } else {
                old
            }
        }
        ("cmpswap" | "cmpstore", _) => {
            if old == compared {
                data
            } else {
                old
            }
        }
        // The sum of two f32 is rounded once: as f64 it is exact enough.
        ("add", "f") => u64::from(((float(old) + float(data)) as f32).to_bits()),
        ("add", _) => old.wrapping_add(data),
        ("sub", _) => old.wrapping_sub(data),
        ("rsub", _) => data.wrapping_sub(old),
        ("min", "f") => {
            if float(data) < float(old) {
                data
            } else {
                old
            }
        }
        ("max", "f") => {
            if float(data) > float(old) {
                data
            } else {
                old
            }
        }
        ("min", "i") => {
            if signed(data) < signed(old) {
                data
            } else {
                old
            }
        }
        ("max", "i") => {
            if signed(data) > signed(old) {
                data
            } else {
                old
            }
        }
        ("min", _) => old.min(data),
        ("max", _) => old.max(data),
        ("and", _) => old & data,
        ("or", _) => old | data,
        ("xor", _) => old ^ data,
        ("inc", _) => {
            if old >= data {
                0
            } else {
                old + 1
            }
        }
        ("dec", _) => {
            if old == 0 || old > data {
                data
            } else {
                old - 1
            }
        }
        _ => panic!("{}", info.name),
    };
    new & (u64::MAX >> (64 - bits))
}

/// The instruction and the number of bits, for each atomic access.
fn atomics() -> impl Iterator<Item = (&'static InstructionInfo, u32)> {
    INSTRUCTIONS.iter().filter_map(|info| {
        let changes = [
            "add",
            "sub",
            "rsub",
            "min",
            "max",
            "and",
            "or",
            "xor",
            "inc",
            "dec",
            "cmpstore",
            "storexchg",
            "mskor",
            "wrap",
            "condxchg32",
        ];
        // Those of two values, and of a word that lanes share, have tests of their own.
        if info.name.contains("2addr") || info.name.contains("addtid") {
            return None;
        }
        let operation = info.name.strip_prefix("ds_").and_then(|rest| rest.split('_').next());
        let atomic = info.name.contains("_atomic_") || operation.is_some_and(|name| changes.contains(&name));
        atomic.then_some((info, if info.name.ends_with("64") { 64 } else { 32 }))
    })
}

/// Values among which some are equal, for integers and floats.
fn value(seed: usize, bits: u32) -> u64 {
    let words = [5, 0, 0xFFFF_FFFF, 7, 0x3F80_0000, 0xC000_0000, 6, 0x8000_0000, 5];
    let low = words[seed % words.len()];
    if bits == 64 { low | words[seed * 5 % words.len()] << 32 } else { low }
}

const SLOTS: usize = 4;

fn run_code(code: &[u32], memory: &Buffers) {
    Bare { local_bytes: 64, ..Bare::new(code, memory) }.run().unwrap_or_else(|trap| panic!("{trap}"));
}

/// Runs an instruction with lane `n` at slot `n % 4`, where EXEC has some lanes: the memory after it, and what the
/// lanes get.
fn execute(info: &InstructionInfo, bits: u32, exec: u32, glc: bool) -> (Vec<u64>, Vec<u64>) {
    let words = (bits / 32) as usize;
    let (encoding, _) = info.forms[0];
    let mut input = Vec::new();
    // Each register as a row: the data in v4 and on, then what is compared with, then the old result in v12.
    for lane in 0..32 {
        input.push([value(lane, bits), value(lane / 2, bits)]);
    }
    let mut bytes: Vec<u8> =
        (0..SLOTS).flat_map(|slot| value(slot + 2, bits).to_le_bytes()[..4 * words].to_vec()).collect();
    bytes.resize(64, 0xAA);
    for operand in 0..2 {
        for word in 0..words {
            bytes.extend(input.iter().flat_map(|row| ((row[operand] >> (32 * word)) as u32).to_le_bytes()));
        }
    }
    let memory = Buffers(vec![Buffer::new(&bytes, true), Buffer::new(&[0x77; 64 + 256], true)]);
    let mut code = Vec::new();
    let vop2 = |code: &mut Vec<u32>, name, d, source, second| {
        push(code, name, Encoding::Vop2, &[(Field::Vdst, d), (Field::Src0, source), (Field::Vsrc1, second)], None);
    };
    let set = |code: &mut Vec<u32>, register, source, literal| {
        push(code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, register), (Field::Ssrc0, source)], literal);
    };
    vop2(&mut code, "v_lshlrev_b32", 1, 130, 0);
    // v2 is where the slot of the lane is.
    vop2(&mut code, "v_and_b32", 2, 131, 0);
    vop2(&mut code, "v_lshlrev_b32", 2, 128 + 1 + words as u32, 2);
    for register in 0..2 * words as u32 {
        let fields =
            [(Field::Offset, 64 + 128 * register), (Field::Addr, 1), (Field::Vdst, 4 + register), (Field::Saddr, 0)];
        push(&mut code, "global_load_b32", Encoding::Global, &fields, None);
    }
    for (register, source, literal) in
        [(4, 0, None), (5, 1, None), (6, LITERAL, Some(64)), (7, LITERAL, Some(0x3102_7000))]
    {
        set(&mut code, register, source, literal);
    }
    // The memory of the work-group gets the slots.
    for word in 0..words as u32 {
        let fields = [(Field::Offset, 4 * word), (Field::Addr, 2), (Field::Vdst, 10), (Field::Saddr, 0)];
        push(&mut code, "global_load_b32", Encoding::Global, &fields, None);
        let fields = [(Field::Offset0, 4 * word), (Field::Addr, 2), (Field::Data0, 10)];
        push(&mut code, "ds_store_b32", Encoding::Ds, &fields, None);
    }
    for word in 0..words as u32 {
        push(&mut code, "v_mov_b32", Encoding::Vop1, &[(Field::Vdst, 12 + word), (Field::Src0, 133)], None);
    }
    // v[20:21] is the same place as an address of 64 bits.
    push(&mut code, "v_mov_b32", Encoding::Vop1, &[(Field::Vdst, 22), (Field::Src0, 128)], None);
    let fields = [(Field::Vdst, 20), (Field::Sdst, 106), (Field::Src0, 0), (Field::Src1, 258)];
    push(&mut code, "v_add_co_u32", Encoding::Vop3sd, &fields, None);
    vop2(&mut code, "v_add_co_ci_u32", 21, 1, 22);
    set(&mut code, 126, LITERAL, Some(exec));
    let data1 = 4 + words as u32;
    let fields = match encoding {
        Encoding::Global => vec![(Field::Addr, 2), (Field::Data0, 4), (Field::Saddr, 0), (Field::Vdst, 12)],
        Encoding::Flat => vec![(Field::Addr, 20), (Field::Data0, 4), (Field::Vdst, 12)],
        Encoding::Mubuf => {
            vec![(Field::Vaddr, 2), (Field::Offen, 1), (Field::Vdata, 4), (Field::Srsrc, 1), (Field::Soffset, 128)]
        }
        _ => vec![(Field::Addr, 2), (Field::Data0, 4), (Field::Data1, data1), (Field::Vdst, 12)],
    };
    push(&mut code, info.name, encoding, &[&fields[..], &[(Field::Glc, glc.into())]].concat(), None);
    set(&mut code, 126, 193, None);
    let result = if encoding == Encoding::Mubuf { 4 } else { 12 };
    for word in 0..words as u32 {
        if encoding == Encoding::Ds {
            let fields = [(Field::Offset0, 4 * word), (Field::Addr, 2), (Field::Vdst, 10)];
            push(&mut code, "ds_load_b32", Encoding::Ds, &fields, None);
            let fields = [(Field::Offset, 4 * word), (Field::Addr, 2), (Field::Data0, 10), (Field::Saddr, 0)];
            push(&mut code, "global_store_b32", Encoding::Global, &fields, None);
        }
        let fields =
            [(Field::Offset, 64 + 128 * word), (Field::Addr, 1), (Field::Data0, result + word), (Field::Saddr, 2)];
        push(&mut code, "global_store_b32", Encoding::Global, &fields, None);
    }
    push(&mut code, "s_endpgm", Encoding::Sopp, &[], None);
    run_code(&code, &memory);
    let slots = words_of_bytes(&memory.0[0].bytes()[..4 * words * SLOTS]);
    let slots = slots.chunks(words).map(|words| words.iter().rev().fold(0, |all, word| all << 32 | u64::from(*word)));
    let results = words_of_bytes(&memory.0[1].bytes()[64..]);
    let result = |lane: usize| (0..words).rev().fold(0, |all, word| all << 32 | u64::from(results[32 * word + lane]));
    (slots.collect(), (0..32).map(result).collect())
}

#[test]
fn atomic_accesses_change_memory_lane_by_lane() {
    let (mut count, exec) = (0, 0xF7FE_BDF3);
    for (info, bits) in atomics() {
        let has_glc = !info.name.starts_with("ds_");
        for glc in [false, true].into_iter().filter(|glc| has_glc || !glc) {
            let mut slots: Vec<u64> = (0..SLOTS).map(|slot| value(slot + 2, bits)).collect();
            let returns = if has_glc { glc } else { info.operand(Slot::D).is_some() };
            let kept = |lane| match info.forms[0].0 {
                Encoding::Mubuf => value(lane, bits),
                _ if bits == 64 => 5 << 32 | 5,
                _ => 5,
            };
            let mut results: Vec<u64> = (0..32).map(kept).collect();
            for lane in (0..32).filter(|lane| exec >> lane & 1 == 1) {
                let slot = &mut slots[lane % SLOTS];
                let old = *slot;
                *slot = replaced(info, bits, old, value(lane, bits), value(lane / 2, bits));
                if returns {
                    results[lane] = old;
                }
            }
            let (found, got) = execute(info, bits, exec, glc);
            assert_eq!(found, slots, "memory after {}", info.name);
            assert_eq!(got, results, "results of {}, glc {glc}", info.name);
            count += 1;
        }
    }
    assert_eq!(count, 258);
}

#[test]
fn atomic_accesses_trap_outside_of_memory_and_where_they_are_not_aligned() {
    let memory = Buffers(vec![Buffer::new(&[0; 64], true)]);
    let text = |name: &str, encoding, fields: &[(Field, u32)]| {
        let mut code = Vec::new();
        push(&mut code, "v_mov_b32", Encoding::Vop1, &[(Field::Vdst, 1), (Field::Src0, 128)], None);
        push(&mut code, name, encoding, fields, None);
        push(&mut code, "s_endpgm", Encoding::Sopp, &[], None);
        let result = Bare { local_bytes: 64, ..Bare::new(&code, &memory) }.run();
        result.map_or_else(|trap| trap.to_string(), |_| "no trap".to_string())
    };
    let global =
        |name, offset| text(name, Encoding::Global, &[(Field::Addr, 1), (Field::Saddr, 0), (Field::Offset, offset)]);
    let place = ", work-group (0, 0, 0), wave 0, lane 0";
    let base = memory.0[0].address();
    assert_eq!(
        global("global_atomic_add_u32", 2),
        format!(
            "atomic access of 4 bytes at 0x{:x}: it is not aligned, in global_atomic_add_u32 at 0x1004{place}",
            base + 2
        )
    );
    assert!(
        global("global_atomic_add_u64", 4).contains("8 bytes at")
            && global("global_atomic_add_u64", 4).contains("not aligned")
    );
    assert!(global("global_atomic_add_u32", 64).contains("no allocation, in global_atomic_add_u32 at 0x1004"));
    let local = |offset| text("ds_add_u32", Encoding::Ds, &[(Field::Addr, 1), (Field::Offset0, offset)]);
    assert!(local(2).starts_with("atomic access of 4 bytes at 0x2: it is not aligned, in ds_add_u32 at 0x1004"));
    // Outside of the memory of the work-group there is nothing.
    assert_eq!((local(60), local(64)), ("no trap".to_string(), "no trap".to_string()));
    let any = Opcode::of_name("global_atomic_add_u32").expect("an opcode").info();
    assert!(any.returns_by_glc && !Opcode::of_name("ds_add_u32").expect("an opcode").info().returns_by_glc);
}

/// An access that the sanitizer saw: its kind, whether others may rely on it, its space, the bytes of each lane, and
/// the lanes.
type Seen = (Access, bool, Space, u32, Mask);

/// A sanitizer that refuses lane 1 and notes all atomic accesses.
#[derive(Default)]
struct Refuses(Mutex<Vec<Seen>>);

struct Group<'a>(&'a Refuses);

impl AccessHook for Refuses {
    fn start_group(&self, _: [u32; 3], _: u32) -> Box<dyn GroupHook + '_> {
        Box::new(Group(self))
    }
}

impl GroupHook for Group<'_> {
    fn access(&mut self, access: &RowAccess<'_>, _: &[u8]) -> Mask {
        if access.access != Access::Atomic {
            return access.mask;
        }
        let seen = (access.access, access.atomic, access.space, access.length, access.mask);
        self.0.0.lock().expect("no panic").push(seen);
        access.mask & !2
    }

    fn barrier(&mut self, _: u32, _: &[u8]) {}

    fn end(&mut self, _: &[u8]) {}
}

#[test]
fn a_sanitizer_sees_atomic_accesses_and_may_refuse_lanes() {
    let mut code = Vec::new();
    push(&mut code, "v_lshlrev_b32", Encoding::Vop2, &[(Field::Vdst, 1), (Field::Src0, 131), (Field::Vsrc1, 0)], None);
    push(&mut code, "v_mov_b32", Encoding::Vop1, &[(Field::Vdst, 2), (Field::Src0, 133)], None);
    push(&mut code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, 126), (Field::Ssrc0, 135)], None);
    let fields = [(Field::Addr, 1), (Field::Data0, 2), (Field::Saddr, 0), (Field::Vdst, 4), (Field::Glc, 1)];
    push(&mut code, "global_atomic_add_u32", Encoding::Global, &fields, None);
    push(&mut code, "ds_add_u64", Encoding::Ds, &[(Field::Addr, 1), (Field::Data0, 2)], None);
    let fields = [(Field::Addr, 1), (Field::Data0, 4), (Field::Saddr, 0), (Field::Offset, 4)];
    push(&mut code, "global_store_b32", Encoding::Global, &fields, None);
    push(&mut code, "s_endpgm", Encoding::Sopp, &[], None);
    let memory = Buffers(vec![Buffer::new(&[1; 32], true)]);
    let hook = Refuses::default();
    let kernel = Bare { local_bytes: 64, hook: Some(&hook), ..Bare::new(&code, &memory) };
    kernel.run().unwrap_or_else(|trap| panic!("{trap}"));
    let seen = hook.0.into_inner().expect("no panic");
    assert_eq!(seen, [(Access::Atomic, true, Space::Global, 4, 7), (Access::Atomic, true, Space::Group, 8, 7)]);
    let words = words_of_bytes(&memory.0[0].bytes());
    assert_eq!(words[..6], [0x0101_0106, 0x0101_0101, 0x0101_0101, 0, 0x0101_0106, 0x0101_0101]);
}
