//! DPP, two instructions at once and packed instructions against the plain forms of the same instructions, whose
//! results `examples.rs` compares with those of other means. Lanes have different values, among them the edges of the
//! formats, and not all lanes are active.

mod common;

use common::{Bare, Buffer, Buffers, push, words_of_bytes};
use vireo_gfx::Instruction;
use vireo_gfx::isa::operands::{DPP8, DPP8_FETCH_INACTIVE, DPP16, EXEC, LITERAL, VCC};
use vireo_gfx::isa::{Encoding, Field, INSTRUCTIONS, InstructionInfo, Opcode, OperandType, Slot};

/// The values of the lanes of a register.
type Lanes = [u32; 32];

/// Registers that a test sets and reads: the sources, then the old result.
const REGISTERS: u32 = 8;
/// The register of the result.
const RESULT: u32 = 6;

/// Zeros, ones, infinities, not-a-numbers, subnormal and large numbers of f16, f32 and integers.
const EDGES: [u32; 16] = [
    0,
    0x8000_8000,
    0x3C00_BC00,
    0x3F80_0000,
    0xBF80_0001,
    0x7F80_0000,
    0xFF80_0000,
    0x7FC0_0000,
    0x0000_0001,
    0x807F_FFFF,
    0x7F7F_FFFF,
    0x7C00_FC00,
    0x0001_83FF,
    0xFFFF_FFFF,
    0x7FFF_8000,
    0x4049_0FDB,
];

/// Values for a register: edges, and others between them.
fn values(register: u32) -> Lanes {
    std::array::from_fn(|lane| {
        let mixed = (lane as u32 + 1).wrapping_mul(0x9E37_79B9).wrapping_add(register.wrapping_mul(0x85EB_CA6B));
        let mixed = mixed ^ mixed >> 15;
        if mixed & 3 == 0 { mixed.wrapping_mul(0xC2B2_AE35) } else { EDGES[(mixed >> 7) as usize % EDGES.len()] }
    })
}

/// The state of a wave.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    registers: [Lanes; REGISTERS as usize],
    vcc: u32,
    exec: u32,
}

impl State {
    fn new(exec: u32) -> Self {
        State { registers: std::array::from_fn(|register| values(register as u32)), vcc: 0x5A69_F00F, exec }
    }

    /// The state of the wave after an instruction.
    fn after(&self, instruction: &Instruction) -> State {
        let mut code = Vec::new();
        // Four bytes for each lane: v8 is the offset.
        let offset = REGISTERS;
        push(
            &mut code,
            "v_lshlrev_b32",
            Encoding::Vop2,
            &[(Field::Vdst, offset), (Field::Src0, 130), (Field::Vsrc1, 0)],
            None,
        );
        for register in 0..REGISTERS {
            let fields =
                [(Field::Offset, 128 * register), (Field::Addr, offset), (Field::Vdst, register), (Field::Saddr, 0)];
            push(&mut code, "global_load_b32", Encoding::Global, &fields, None);
        }
        let set = [(VCC, self.vcc), (EXEC, self.exec)];
        for (register, value) in set {
            push(
                &mut code,
                "s_mov_b32",
                Encoding::Sop1,
                &[(Field::Sdst, register), (Field::Ssrc0, LITERAL)],
                Some(value),
            );
        }
        code.extend_from_slice(instruction.encode());
        push(&mut code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, 4), (Field::Ssrc0, EXEC)], None);
        push(&mut code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, EXEC), (Field::Ssrc0, LITERAL)], Some(u32::MAX));
        push(&mut code, "v_mov_b32", Encoding::Vop1, &[(Field::Vdst, offset + 1), (Field::Src0, VCC)], None);
        push(&mut code, "v_mov_b32", Encoding::Vop1, &[(Field::Vdst, offset + 2), (Field::Src0, 4)], None);
        for register in (0..REGISTERS).chain([offset + 1, offset + 2]) {
            let place = if register > offset { register - 1 } else { register };
            let fields =
                [(Field::Offset, 128 * place), (Field::Addr, offset), (Field::Data0, register), (Field::Saddr, 2)];
            push(&mut code, "global_store_b32", Encoding::Global, &fields, None);
        }
        push(&mut code, "s_endpgm", Encoding::Sopp, &[], None);
        self.run(&code, instruction)
    }

    fn run(&self, code: &[u32], instruction: &Instruction) -> State {
        let bytes: Vec<u8> = self.registers.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        let memory = Buffers(vec![Buffer::new(&bytes, false), Buffer::new(&[0; 10 * 128], true)]);
        Bare::new(code, &memory).run().unwrap_or_else(|trap| panic!("{instruction}: {trap}"));
        let words = words_of_bytes(&memory.0[1].bytes());
        let lanes = |place: usize| -> Lanes { words[32 * place..][..32].try_into().expect("32 words") };
        let last = REGISTERS as usize;
        State { registers: std::array::from_fn(lanes), vcc: lanes(last)[0], exec: lanes(last + 1)[0] }
    }
}

/// The differences between two states, but for not-a-numbers.
fn differences(found: &State, expected: &State, half: bool) -> Vec<String> {
    let nan = |bits: u32| bits & 0x7FFF_FFFF > 0x7F80_0000;
    let nan_half = |bits: u32| bits & 0x7FFF > 0x7C00;
    let same = |a: u32, b: u32| {
        let halves = || {
            [0, 16].iter().all(|shift| {
                let (a, b) = (a >> shift & 0xFFFF, b >> shift & 0xFFFF);
                a == b || nan_half(a) && nan_half(b)
            })
        };
        a == b || if half { halves() } else { nan(a) && nan(b) }
    };
    let mut wrong = Vec::new();
    for (register, (found, expected)) in found.registers.iter().zip(&expected.registers).enumerate() {
        for lane in (0..32).filter(|lane| !same(found[*lane], expected[*lane])) {
            wrong.push(format!("v{register} of lane {lane} is 0x{:x}, not 0x{:x}", found[lane], expected[lane]));
        }
    }
    for (name, found, expected) in [("vcc", found.vcc, expected.vcc), ("exec", found.exec, expected.exec)] {
        if found != expected {
            wrong.push(format!("{name} is 0x{found:x}, not 0x{expected:x}"));
        }
    }
    wrong
}

/// An instruction with its sources in v0, v2 and v4 and its result in v6, or VCC, or a scalar register that nothing
/// reads.
fn plain(info: &InstructionInfo, encoding: Encoding) -> Instruction {
    let mut instruction = Instruction::new(info.opcode, encoding).expect("a form");
    for (slot, ty) in info.operands {
        let Some(field) = encoding.field_of(*slot) else { continue };
        let register = match slot {
            Slot::S0 => 0,
            Slot::S1 => 2,
            Slot::S2 => 4,
            _ => RESULT,
        };
        let source = encoding.info().field(field).is_some_and(|field| field.width == 9);
        let number = match ty {
            OperandType::Mask | OperandType::Scalar => VCC,
            _ if source => 256 + register,
            _ => register,
        };
        instruction.set(field, number);
    }
    if info.operand(Slot::K).is_some() {
        instruction.set_extra_word(0x4049_0FDB);
    }
    instruction
}

/// The lane that a lane reads by a control of DPP16, written down from the manual of the instruction set.
fn picked(control: u32, lane: i32) -> Option<i32> {
    let (row, at) = (lane & !15, lane & 15);
    let amount = (control & 15) as i32;
    let found = match control >> 4 {
        0x00..=0x0F => at & !3 | (control >> (2 * (at & 3)) & 3) as i32,
        0x10 => at + amount,
        0x11 => at - amount,
        0x12 => (at - amount) & 15,
        0x14 if amount == 0 => 15 - at,
        0x14 => at ^ 7,
        0x15 => amount,
        _ => at ^ amount,
    };
    (0..16).contains(&found).then_some(row + found)
}

/// Instructions that take DPP: those of the short encodings, whose first source is a vector register of 32 bits or a
/// half.
fn with_dpp() -> impl Iterator<Item = (&'static InstructionInfo, Encoding)> {
    INSTRUCTIONS.iter().flat_map(|info| {
        let fits = |slot: Slot| info.operand(slot).is_none_or(|ty| ty.words() == 1 && ty != OperandType::Scalar);
        let lanes = info.operand(Slot::S0).is_some() && [Slot::S0, Slot::S1, Slot::D].into_iter().all(fits);
        let encodings = [Encoding::Vop1, Encoding::Vop2, Encoding::Vopc];
        // Helpers on packed values take it, too.
        let reads = !info.reads.is_empty() || info.operand(Slot::S0) == Some(OperandType::Packed16);
        let takes = lanes && reads && info.operand(Slot::K).is_none();
        encodings
            .into_iter()
            .filter(move |encoding| takes && info.number(*encoding).is_some())
            .map(move |encoding| (info, encoding))
    })
}

/// The state after an instruction whose first source comes from the lanes that `pick` names, by the plain instruction.
fn expected(state: &State, plain: &Instruction, written: u32, pick: impl Fn(i32) -> Option<i32>) -> State {
    let mut before = state.clone();
    before.exec = written;
    before.registers[0] =
        std::array::from_fn(|lane| pick(lane as i32).map_or(0, |from| state.registers[0][from as usize]));
    let mut after = before.after(plain);
    after.registers[0] = state.registers[0];
    if !plain.info().sets_exec {
        after.exec = state.exec;
    }
    after
}

#[test]
fn dpp16_gives_what_the_instruction_gives_for_the_lanes_it_picks() {
    let controls = [0x1B, 0xE4, 0x101, 0x10F, 0x113, 0x121, 0x12F, 0x140, 0x141, 0x150, 0x15D, 0x161, 0x16F];
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (index, (info, encoding)) in with_dpp().enumerate() {
        let plain = plain(info, encoding);
        // Each instruction has some of the controls and masks, and all of them together have each control many times.
        for step in 0..3 {
            let control = controls[(index * 3 + step) % controls.len()];
            let (bound, inactive) = (index & 1 == 1, (index + step) & 2 == 2);
            let (rows, banks) = ([0xF, 0x1, 0x2][step], [0xF, 0xD, 0x6][(index + step) % 3]);
            let mut instruction = plain;
            instruction.set(Field::Src0, DPP16);
            instruction.set_extra_word(
                control << 8 | u32::from(inactive) << 18 | u32::from(bound) << 19 | banks << 24 | rows << 28,
            );
            let state = State::new(0xF7BD_5AFE);
            let pick = |lane: i32| {
                let from = picked(control, lane)?;
                (inactive || state.exec >> from & 1 == 1).then_some(from)
            };
            let lanes = (0..32).filter(|lane| {
                let masks = rows >> (lane / 16) & 1 == 1 && banks >> (lane % 16 / 4) & 1 == 1;
                masks && (bound || pick(*lane).is_some())
            });
            let written = lanes.fold(0, |mask, lane| mask | 1 << lane) & state.exec;
            let expected = expected(&state, &plain, written, pick);
            let half = info.operand(Slot::D).is_some_and(OperandType::is_half);
            let found = differences(&state.after(&instruction), &expected, half);
            count += 1;
            wrong.extend(found.first().map(|first| format!("{instruction}: {first}, and {} more", found.len() - 1)));
        }
    }
    assert!(count > 300, "{count} instructions");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn dpp8_gives_what_the_instruction_gives_for_the_lanes_it_picks() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (index, (info, encoding)) in with_dpp().enumerate() {
        let plain = plain(info, encoding);
        let lanes = [[7, 6, 5, 4, 3, 2, 1, 0], [0, 0, 3, 3, 1, 7, 2, 5]][index % 2];
        for (number, inactive) in [(DPP8, false), (DPP8_FETCH_INACTIVE, true)] {
            let mut instruction = plain;
            instruction.set(Field::Src0, number);
            instruction.set_extra_word((0..8).fold(0, |word, lane| word | lanes[lane] << (8 + 3 * lane)));
            let state = State::new(0x1FFF_6D3C);
            // Lanes that are not active read as zero.
            let pick = |lane: i32| {
                let from = lane & !7 | lanes[(lane & 7) as usize] as i32;
                (inactive || state.exec >> from & 1 == 1).then_some(from)
            };
            let expected = expected(&state, &plain, state.exec, pick);
            let half = info.operand(Slot::D).is_some_and(OperandType::is_half);
            let found = differences(&state.after(&instruction), &expected, half);
            count += 1;
            wrong.extend(found.first().map(|first| format!("{instruction}: {first}, and {} more", found.len() - 1)));
        }
    }
    assert!(count > 200, "{count} instructions");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A comparison that holds in all lanes that it reads leaves the other ones out of EXEC, and does not get them back.
#[test]
fn comparisons_with_dpp_keep_the_exec_that_they_set() {
    let info = Opcode::of_name("v_cmpx_eq_u32").expect("an instruction").info();
    let mut instruction = plain(info, Encoding::Vopc);
    instruction.set(Field::Src0, DPP16);
    // quad_perm:[0,1,2,3] row_mask:0x1 bank_mask:0xf
    instruction.set_extra_word(0xE4 << 8 | 0xF << 24 | 1 << 28);
    let mut state = State::new(0x3FFF_FFFE);
    (state.registers[0], state.registers[2]) = ([5; 32], [5; 32]);
    assert_eq!(state.after(&instruction).exec, 0x0000_FFFE);
    // Other instructions do not set it.
    let mut instruction = plain(Opcode::of_name("v_mov_b32").expect("an instruction").info(), Encoding::Vop1);
    instruction.set(Field::Src0, DPP16);
    instruction.set_extra_word(0xE4 << 8 | 0xF << 24 | 1 << 28);
    assert_eq!(state.after(&instruction).exec, state.exec);
}

/// Each pair of instructions at once, against the one and the other on the registers as they were; Y reads the result
/// of X and the reverse.
#[test]
fn two_instructions_at_once_give_what_each_gives_alone() {
    let of_both = || INSTRUCTIONS.iter().filter(|info| info.number(Encoding::Vopd).is_some());
    let short =
        |info: &InstructionInfo| if info.number(Encoding::Vop1).is_some() { Encoding::Vop1 } else { Encoding::Vop2 };
    let (mut wrong, mut count) = (Vec::new(), 0);
    for x in of_both().filter(|info| info.number(Encoding::Vopd).is_some_and(|number| number < 16)) {
        for y in of_both() {
            let literal = [x, y].iter().any(|info| info.operand(Slot::K).is_some());
            let mut both = Instruction::new(x.opcode, Encoding::Vopd).expect("a form");
            // The result of X is v2, that of Y v5 or v3: the lowest bit is not in the field.
            let fields = [
                (Field::Src0, 256),
                (Field::Vsrc1, 3),
                (Field::Vdst, 2),
                (Field::OpY, y.number(Encoding::Vopd).expect("a form")),
                (Field::Src0Y, 258),
                (Field::Vsrc1Y, 1),
                (Field::VdstY, 3 >> 1),
            ];
            fields.iter().for_each(|(field, value)| both.set(*field, *value));
            if literal {
                both.set_extra_word(0xC049_0FDB);
            }
            let state = State::new(0xBEEF_3CC3);
            let alone = |info: &InstructionInfo, fields: [(Field, u32); 3]| {
                let mut instruction = Instruction::new(info.opcode, short(info)).expect("a form");
                fields.iter().for_each(|(field, value)| instruction.set(*field, *value));
                if info.operand(Slot::K).is_some() {
                    instruction.set_extra_word(0xC049_0FDB);
                }
                state.after(&instruction)
            };
            let mut expected = state.clone();
            expected.registers[2] = alone(x, [(Field::Src0, 256), (Field::Vsrc1, 3), (Field::Vdst, 2)]).registers[2];
            expected.registers[3] = alone(y, [(Field::Src0, 258), (Field::Vsrc1, 1), (Field::Vdst, 3)]).registers[3];
            let found = differences(&state.after(&both), &expected, false);
            count += 1;
            wrong.extend(found.first().map(|first| format!("{both}: {first}, and {} more", found.len() - 1)));
        }
    }
    assert!(count > 100, "{count} pairs");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Packed instructions and the instruction that each is twice.
const PACKED: [(&str, &str); 19] = [
    ("v_pk_mul_f16", "v_mul_f16"),
    ("v_pk_add_f16", "v_add_f16"),
    ("v_pk_fma_f16", "v_fma_f16"),
    ("v_pk_min_f16", "v_min_f16"),
    ("v_pk_max_f16", "v_max_f16"),
    ("v_pk_add_u16", "v_add_nc_u16"),
    ("v_pk_sub_u16", "v_sub_nc_u16"),
    ("v_pk_add_i16", "v_add_nc_i16"),
    ("v_pk_sub_i16", "v_sub_nc_i16"),
    ("v_pk_mul_lo_u16", "v_mul_lo_u16"),
    ("v_pk_mad_u16", "v_mad_u16"),
    ("v_pk_mad_i16", "v_mad_i16"),
    ("v_pk_lshlrev_b16", "v_lshlrev_b16"),
    ("v_pk_lshrrev_b16", "v_lshrrev_b16"),
    ("v_pk_ashrrev_i16", "v_ashrrev_i16"),
    ("v_pk_min_i16", "v_min_i16"),
    ("v_pk_max_i16", "v_max_i16"),
    ("v_pk_min_u16", "v_min_u16"),
    ("v_pk_max_u16", "v_max_u16"),
];

/// Each half of a packed result is what the instruction of 16 bits gives for the halves that the modifiers pick, with
/// their signs changed.
#[test]
fn packed_instructions_give_what_the_single_ones_give_for_each_half() {
    let packed =
        INSTRUCTIONS.iter().filter(|info| info.number(Encoding::Vop3p).is_some() && info.name.starts_with("v_pk_"));
    let missing: Vec<&str> =
        packed.map(|info| info.name).filter(|name| !PACKED.iter().any(|(packed, _)| packed == name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let mut wrong = Vec::new();
    for (packed, single) in PACKED {
        let info = Opcode::of_name(packed).expect(packed).info();
        let single = Opcode::of_name(single).expect(single).info();
        let float = packed.ends_with("f16");
        let saturates = ["_add_nc_", "_sub_nc_", "v_mad_"].iter().any(|part| single.name.contains(part));
        for selection in 0..16 {
            let (clamp, selection) = (u32::from(saturates) & selection >> 3, selection & 7);
            // The halves of the low and of the high result, and the signs that change there.
            let (low, high) = (selection, 7 - selection * 3 % 8);
            let (neg_low, neg_high) = if float { (selection * 5 % 8, selection ^ 2) } else { (0, 0) };
            let mut instruction = plain(info, Encoding::Vop3p);
            instruction.set(Field::OpSel, low);
            instruction.set(Field::OpSelHi, high & 3);
            instruction.set(Field::OpSelHi2, high >> 2);
            instruction.set(Field::Neg, neg_low);
            instruction.set(Field::NegHi, neg_high);
            instruction.set(Field::Clamp, clamp);
            let state = State::new(0xFFFF_0FF7);
            let half = |picks: u32, signs: u32| -> Lanes {
                let mut before = state.clone();
                for (index, register) in [0, 2, 4].into_iter().enumerate() {
                    let (shift, sign) = (16 * (picks >> index & 1), (signs >> index & 1) << 15);
                    before.registers[register] = state.registers[register].map(|value| value >> shift & 0xFFFF ^ sign);
                }
                let mut single = plain(single, Encoding::Vop3);
                single.set(Field::Clamp, clamp);
                before.after(&single).registers[RESULT as usize]
            };
            let (first, second) = (half(low, neg_low), half(high, neg_high));
            let mut expected = state.clone();
            for lane in (0..32).filter(|lane| state.exec >> lane & 1 == 1) {
                expected.registers[RESULT as usize][lane] = first[lane] & 0xFFFF | second[lane] << 16;
            }
            let found = differences(&state.after(&instruction), &expected, float);
            wrong.extend(found.first().map(|first| format!("{instruction}: {first}, and {} more", found.len() - 1)));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
