//! The examples of the spec, each executed in every form of its instruction. Their results were computed by other means
//! than the interpreter's: exact fractions for floats, and integers of any size (`corpus/reference.py`).

mod common;

use common::{Bare, Buffer, Buffers, push, words_of_bytes};
use vireo_codegen::model::gfx::{Body, Instruction as Described};
use vireo_gfx::Instruction;
use vireo_gfx::isa::{Encoding, Field, FieldKind, Opcode, OperandType, Slot};

/// Registers of operands: scalar ones; those of vectors are 12 less, and 2 for the first source.
const SCALARS: [(Slot, &str, u32); 6] = [
    (Slot::S0, "s0", 16),
    (Slot::S1, "s1", 18),
    (Slot::S2, "s2", 20),
    (Slot::D, "d_in", 22),
    (Slot::C, "c", 26),
    (Slot::K, "k", 28),
];

fn vector(scalar: u32) -> u32 {
    scalar - 14
}

struct Code(Vec<u32>);

impl Code {
    fn push(&mut self, name: &str, encoding: Encoding, fields: &[(Field, u32)], literal: Option<u32>) {
        push(&mut self.0, name, encoding, fields, literal);
    }

    fn set_scalar(&mut self, register: u32, value: u32) {
        self.push("s_mov_b32", Encoding::Sop1, &[(Field::Sdst, register), (Field::Ssrc0, 255)], Some(value));
    }

    fn set_vector(&mut self, register: u32, value: u32) {
        self.push("v_mov_b32", Encoding::Vop1, &[(Field::Vdst, register), (Field::Src0, 255)], Some(value));
    }

    /// Stores a source to the words of result `index`.
    fn store(&mut self, source: u32, index: u32) {
        self.push("v_mov_b32", Encoding::Vop1, &[(Field::Vdst, 24), (Field::Src0, source)], None);
        let fields = [(Field::Offset, 128 * index), (Field::Addr, 1), (Field::Data0, 24), (Field::Saddr, 0)];
        self.push("global_store_b32", Encoding::Global, &fields, None);
    }
}

fn is_scalar_operand(instruction: &Instruction, slot: Slot) -> bool {
    let ty = instruction.info().operand(slot);
    instruction.info().is_scalar() || matches!(ty, Some(OperandType::Mask | OperandType::Scalar))
}

/// The results in all lanes: d, its high word, SCC, EXEC, c.
fn execute(opcode: Opcode, encoding: Encoding, example: &[(String, u64)]) -> Vec<Vec<u32>> {
    let value = |name: &str| example.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
    let mut instruction = Instruction::new(opcode, encoding).expect("a form");
    let mut code = Code(Vec::new());
    code.push("v_lshlrev_b32", Encoding::Vop2, &[(Field::Vdst, 1), (Field::Src0, 130), (Field::Vsrc1, 0)], None);
    for (slot, name, register) in SCALARS {
        let half = instruction.info().operand(slot).is_some_and(OperandType::is_half);
        // Halves that are not read or written keep this.
        let value = value(name).unwrap_or(0) | if half { 0xA5A5_0000 } else { 0 };
        for (word, value) in [value as u32, (value >> 32) as u32].into_iter().enumerate() {
            code.set_scalar(register + word as u32, value);
            code.set_vector(vector(register) + word as u32, value);
        }
        let Some(field) = encoding.field_of(slot) else { continue };
        let scalar = is_scalar_operand(&instruction, slot);
        let source = encoding.info().field(field).is_some_and(|info| info.kind == FieldKind::Source);
        let number = match (scalar, source) {
            (true, _) => register,
            (false, true) => 256 + vector(register),
            (false, false) => vector(register),
        };
        if instruction.info().operand(slot).is_some() {
            instruction.set(field, number);
        }
    }
    instruction.set(Field::Clamp, value("clamp").unwrap_or(0) as u32);
    instruction.set(Field::Simm16, value("imm").unwrap_or(0) as u32);
    if let Some(literal) = value("k") {
        instruction.set_extra_word(literal as u32);
    }
    // Masks without a field are VCC.
    code.set_scalar(106, value("vcc").or(value("s2")).unwrap_or(0) as u32);
    let scc = 128 + value("scc_in").unwrap_or(0) as u32;
    code.push("s_cmp_lg_u32", Encoding::Sopc, &[(Field::Ssrc0, scc), (Field::Ssrc1, 128)], None);
    code.0.extend(instruction.encode());
    code.push("s_cselect_b32", Encoding::Sop2, &[(Field::Sdst, 30), (Field::Ssrc0, 129), (Field::Ssrc1, 128)], None);
    code.push("s_mov_b32", Encoding::Sop1, &[(Field::Sdst, 31), (Field::Ssrc0, 126)], None);
    code.push("s_mov_b32", Encoding::Sop1, &[(Field::Sdst, 126), (Field::Ssrc0, 193)], None);
    let implied = |slot: Slot| instruction.info().operand(slot).is_some() && encoding.field_of(slot).is_none();
    let d = match is_scalar_operand(&instruction, Slot::D) {
        _ if implied(Slot::D) => 106,
        true => 22,
        false => 256 + vector(22),
    };
    code.store(d, 0);
    code.store(if d == 106 { 128 } else { d + 1 }, 1);
    code.store(30, 2);
    code.store(31, 3);
    code.store(if implied(Slot::C) { 106 } else { 26 }, 4);
    code.push("s_endpgm", Encoding::Sopp, &[], None);

    let memory = Buffers(vec![Buffer::new(&[0; 5 * 128], true)]);
    Bare::new(&code.0, &memory).run().unwrap_or_else(|trap| panic!("{instruction}: {trap}"));
    words_of_bytes(&memory.0[0].bytes()).chunks(32).map(<[u32]>::to_vec).collect()
}

fn is_nan(ty: OperandType, bits: u64) -> bool {
    match ty {
        OperandType::F16 => bits & 0x7FFF > 0x7C00,
        OperandType::F32 => bits & 0x7FFF_FFFF > 0x7F80_0000,
        OperandType::F64 => f64::from_bits(bits).is_nan(),
        _ => false,
    }
}

/// The first wrong result of an example.
fn wrong(described: &Described, encoding: Encoding, example: &[(String, u64)]) -> Option<String> {
    let opcode = Opcode::of_name(&described.name).expect("an opcode");
    let rows = execute(opcode, encoding, example);
    let value = |name: &str| example.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
    let ty = opcode.info().operand(Slot::D).unwrap_or(OperandType::B32);
    for (lane, (low, high)) in rows[0].iter().zip(&rows[1]).enumerate() {
        let low = u64::from(*low);
        let d = match ty {
            OperandType::B64 | OperandType::F64 | OperandType::I64 => low | u64::from(*high) << 32,
            _ if ty.is_half() && low >> 16 != 0xA5A5 => return Some(format!("the other half is 0x{:x}", low >> 16)),
            _ if ty.is_half() => low & 0xFFFF,
            _ => low,
        };
        let results =
            [("d", d), ("scc", rows[2][lane].into()), ("exec", rows[3][lane].into()), ("c", rows[4][lane].into())];
        for (name, result) in results {
            let Some(expected) = value(name) else { continue };
            let near = result.abs_diff(expected) <= value("ulp").unwrap_or(0);
            let nan = name == "d" && is_nan(ty, expected) && is_nan(ty, result);
            if !near && !nan {
                return Some(format!("lane {lane}: {name} is 0x{result:x}, not 0x{expected:x}"));
            }
        }
    }
    None
}

#[test]
fn examples_have_their_results_in_every_form() {
    let spec = vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let (mut failures, mut count) = (Vec::new(), 0);
    for described in &spec.gfx("gfx11").expect("gfx11").instructions {
        let opcode = Opcode::of_name(&described.name).expect("an opcode");
        // Its result depends on where the code is.
        let needs = matches!(described.body, Body::Semantics(_)) && described.name != "s_getpc_b64";
        assert_eq!(!described.examples.is_empty(), needs, "examples of {}", described.name);
        for (encoding, _) in opcode.info().forms.iter().filter(|(encoding, _)| *encoding != Encoding::Vopd) {
            let clamps = encoding.info().field(Field::Clamp).is_some();
            let takes = |example: &&Vec<(String, u64)>| clamps || !example.iter().any(|(name, _)| name == "clamp");
            for example in described.examples.iter().filter(takes) {
                count += 1;
                if let Some(problem) = wrong(described, *encoding, example) {
                    failures.push(format!("{} as {}: {problem} {example:x?}", described.name, encoding.info().name));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}
