//! Streams that verify, and streams that must be refused without panic, without much memory and at the right offset.

use super::*;
use crate::convention::Convention;

/// Writes ops byte by byte.
#[derive(Clone, Default)]
struct Stream(Vec<u8>);

impl Stream {
    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn u16(mut self, values: &[u16]) -> Self {
        values.iter().for_each(|value| self.0.extend_from_slice(&value.to_le_bytes()));
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn pad(mut self) -> Self {
        if !self.0.len().is_multiple_of(2) {
            self.0.push(0);
        }
        self
    }

    /// A register list.
    fn list(self, registers: &[u16]) -> Self {
        let count = u16::try_from(registers.len()).unwrap();
        self.pad().u16(&[count]).u16(registers)
    }

    fn block(self) -> Self {
        self.u8(opcode::core::BLOCK)
    }

    fn add(self, registers: &[u16; 3]) -> Self {
        self.u8(opcode::core::ADD_I32).u16(registers)
    }

    /// `return` of these registers.
    fn ret(self, registers: &[u16]) -> Self {
        self.u8(opcode::core::RETURN).list(registers)
    }

    /// `br` with remap pairs, flat.
    fn br(self, target: u32, pairs: &[u16]) -> Self {
        let count = u16::try_from(pairs.len() / 2).unwrap();
        self.u8(opcode::core::BR).u32(target).pad().u16(&[count]).u16(pairs)
    }
}

fn start() -> Stream {
    Stream::default().block()
}

/// The parts of a module that a test varies; the rest is a module with a little of everything.
struct Setting {
    convention: &'static str,
    slots: u32,
    refs: u32,
    blocks: u32,
    features: u32,
    global_bytes: u64,
    rules: Rules,
}

const SETTING: Setting = Setting {
    convention: "0v_v",
    slots: 4,
    refs: 2,
    blocks: 1,
    features: 0,
    global_bytes: 16,
    rules: Rules { version: &opcode::BYTECODE_VERSIONS[2], placement: Placement::InOrder },
};

fn verify(setting: &Setting, stream: &Stream) -> Result<VerifiedFunction, VerifyError> {
    let convention: Convention = setting.convention.parse().unwrap();
    let imports = ["0ii_i", "0iCiID_I", "0v_r"].map(|text| text.parse::<Convention>().unwrap());
    let functions = [convention.clone(), "0iI_r".parse().unwrap()];
    let function = FunctionInfo {
        ordinal: 7,
        convention: &convention,
        slots: setting.slots,
        refs: setting.refs,
        blocks: setting.blocks,
        features: setting.features,
        rules: setting.rules,
    };
    let module = ModuleInfo {
        global_bytes: setting.global_bytes,
        global_refs: 2,
        types: 3,
        rodata: 1,
        imports: &imports,
        functions: &functions,
    };
    verify_function(&stream.0, &function, &module)
}

#[track_caller]
fn accepted(setting: &Setting, stream: &Stream) -> VerifiedFunction {
    verify(setting, stream).unwrap_or_else(|error| panic!("refused: {error}"))
}

#[track_caller]
fn refused(setting: &Setting, stream: &Stream, offset: u32, message: &str) {
    let error = verify(setting, stream).expect_err("the stream is accepted");
    assert!(error.message.contains(message), "{error}\nexpected: {message}");
    assert_eq!((error.function, error.offset), (7, offset), "{error}");
}

const REF: u16 = opcode::REF_BIT;
const MOVE: u16 = REF | opcode::MOVE_BIT;

#[test]
fn a_function_is_decoded() {
    let stream = start().add(&[0, 1, 2]).br(24, &[2, 0, MOVE, REF + 1]).block().ret(&[]);
    let setting = Setting { blocks: 2, ..SETTING };
    let function = accepted(&setting, &stream);
    let decoded = function.decoded();
    assert_eq!(decoded.ops[0], Op::AddI32 { lhs: Reg(0), rhs: Reg(1), result: Reg(2) });
    assert_eq!(decoded.offsets, [1, 8, 25]);
    assert_eq!(decoded.blocks.len(), 2);
    assert_eq!(decoded.blocks[1], Block { offset: 24, ops: 2..3 });
    let Op::Br { target } = decoded.ops[1] else { panic!("expected br, found {:?}", decoded.ops[1]) };
    let edge = decoded.edge(target);
    assert_eq!(edge.target, BlockId(1));
    let moved = AnyReg::from_bits(MOVE).ref_reg();
    assert!(moved.is_move() && moved.index() == 0);
    let text = disassemble(decoded, Names::default());
    assert_eq!(text, "^bb0:\n  %i2 = vm.add.i32 %i0, %i1\n  vm.br ^bb1(%i2->%i0, %R0->%r1)\n^bb1:\n  vm.return\n");
}

/// The rules of bytecode 15.0.
fn oldest(placement: Placement) -> Rules {
    Rules { version: &opcode::BYTECODE_VERSIONS[0], placement }
}

#[test]
fn the_oldest_version_ignores_moves() {
    let stream = start().br(12, &[MOVE, REF + 1]).block().u8(opcode::core::CMP_NZ_REF).u16(&[MOVE, 0]).ret(&[]);
    let setting = Setting { blocks: 2, ..SETTING };
    refused(&setting, &stream, 13, "cmp.nz.ref: register r0 has the MOVE bit, which is not allowed here");
    let function = accepted(&Setting { rules: oldest(Placement::InOrder), ..setting }, &stream);
    let text = disassemble(function.decoded(), Names::default());
    assert_eq!(text, "^bb0:\n  vm.br ^bb1(%r0->%r1)\n^bb1:\n  %i0 = vm.cmp.nz.ref %r0\n  vm.return\n");
}

#[test]
fn ops_are_of_the_version_that_has_them() {
    let stream = start().u8(opcode::core::DISCARD_REFS).list(&[REF]).ret(&[]);
    accepted(&SETTING, &stream);
    let setting = Setting { rules: oldest(Placement::InOrder), ..SETTING };
    refused(&setting, &stream, 1, "discard.refs is an op since bytecode 16.0, the module has bytecode 15.0");
    refused(
        &Setting { features: 4, ..setting },
        &start().ret(&[]),
        0,
        "feature bits 0x4 have no meaning in bytecode 15.0",
    );
}

/// A loop whose first block is also branched to, of a function whose third argument is in the gap before the second
/// one.
#[test]
fn arguments_are_copied_to_where_the_function_expects_them() {
    let stream = start().br(12, &[1, 0]).block().br(0, &[4, 2, 5, 3]);
    let rules = oldest(Placement::GapFill);
    let setting = Setting { convention: "0iIiI_v", slots: 6, blocks: 2, rules, ..SETTING };
    let function = accepted(&setting, &stream);
    let text = disassemble(function.decoded(), Names::default());
    assert_eq!(
        text,
        "^bb0:\n  vm.br ^bb1(%i4->%i1, %i6->%i4, %i7->%i5)\n^bb1:\n  vm.br ^bb2(%i1->%i0)\n^bb2:\n  vm.br ^bb1(%i4->%i2, %i5->%i3)\n"
    );
    assert_eq!((function.slots(), function.reads_unwritten_slots()), (8, false));
    // Functions whose arguments are in the same place by both rules stay as they are.
    let setting = Setting { convention: "0iiI_v", ..setting };
    assert_eq!(accepted(&setting, &stream).decoded().blocks.len(), 2);
    // The function declares fewer registers than its arguments take.
    let setting = Setting { convention: "0iIiIi_v", slots: 4, ..setting };
    refused(&setting, &stream, 0, "need 7 value and 0 reference registers, 4 and 2 are declared");
}

#[test]
fn every_truncation_is_refused() {
    let whole = start()
        .add(&[0, 1, 2])
        .u8(opcode::core::CALL)
        .u32(0x8000_0000)
        .list(&[0, 1])
        .list(&[2])
        .u8(opcode::core::PRINT)
        .u16(&[3])
        .u8(b'a')
        .u8(b'b')
        .u8(b'c')
        .list(&[0, REF])
        .ret(&[]);
    accepted(&SETTING, &whole);
    for length in 0..whole.0.len() {
        let stream = Stream(whole.0[..length].to_vec());
        assert!(verify(&SETTING, &stream).is_err(), "{length} bytes are accepted");
    }
}

#[test]
fn every_mutation_of_a_byte_ends_in_an_answer() {
    let whole = start().add(&[0, 1, 2]).br(20, &[2, 0]).block().ret(&[]);
    let setting = Setting { blocks: 2, ..SETTING };
    accepted(&setting, &whole);
    for index in 0..whole.0.len() {
        for value in 0..=u8::MAX {
            let mut stream = whole.clone();
            stream.0[index] = value;
            // Accepted or refused: neither may panic, and what is accepted can be printed.
            if let Ok(function) = verify(&setting, &stream) {
                let _ = disassemble(function.decoded(), Names::default());
            }
        }
    }
}

#[test]
fn streams_of_noise_end_in_an_answer() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..2000 {
        let mut stream = start();
        for _ in 0..next() % 64 {
            stream = stream.u8(next().to_le_bytes()[0]);
        }
        let _ = verify(&Setting { features: 3, ..SETTING }, &stream);
    }
}

#[test]
fn huge_counts_are_refused_before_memory_is_taken() {
    refused(
        &SETTING,
        &start().u8(opcode::core::RETURN).pad().u16(&[0xFFFF]),
        1,
        "a list of 65535 items needs 131070 bytes",
    );
    refused(&SETTING, &start().u8(opcode::core::BR).u32(0).pad().u16(&[0xFFFF]), 1, "a list of 65535 items");
    let table = start().u8(opcode::core::BR_TABLE).u16(&[0]).u32(0).pad().u16(&[0]).u16(&[0xFFFF]);
    refused(&SETTING, &table, 1, "a list of 65535 items");
    refused(&SETTING, &start().u8(opcode::core::FAIL).u16(&[0, 0xFFFF]).u8(b'x'), 1, "a list of 65535 items");
}

#[test]
fn structure() {
    refused(&SETTING, &Stream::default(), 0, "no block");
    refused(&SETTING, &Stream::default().ret(&[]), 0, "expected a block marker");
    refused(&SETTING, &start().add(&[0, 1, 2]), 8, "does not end in a terminator");
    refused(&SETTING, &start().block().ret(&[]), 1, "0x79 is not an opcode");
    refused(&SETTING, &start().ret(&[]).add(&[0, 1, 2]), 4, "expected a block marker");
    refused(&SETTING, &start().u8(0xFF), 1, "0xff is not an opcode of the set core");
    refused(&Setting { blocks: 2, ..SETTING }, &start().ret(&[]), 0, "declares 2 blocks and has 1");
    // A branch into the middle of an op, and one past the end.
    refused(&SETTING, &start().br(2, &[]), 1, "0x0002 is not a block marker");
    refused(&SETTING, &start().br(0xFFFF_FFFF, &[]), 1, "0xffffffff is not a block marker");
    accepted(&SETTING, &start().br(0, &[]));
}

#[test]
fn registers() {
    refused(&SETTING, &start().add(&[0, 1, 4]).ret(&[]), 1, "add.i32: register i4");
    refused(&SETTING, &start().add(&[REF, 1, 2]).ret(&[]), 1, "expected a value register");
    let add_i64 = |registers: &[u16; 3]| start().u8(opcode::core::ADD_I64).u16(registers).ret(&[]);
    accepted(&SETTING, &add_i64(&[0, 2, 2]));
    refused(&SETTING, &add_i64(&[0, 1, 2]), 1, "register i1 starts a 64-bit value and is odd");
    refused(&Setting { slots: 2, ..SETTING }, &add_i64(&[0, 0, 2]), 1, "register i2 of a value of 2 slots");
    refused(&SETTING, &add_i64(&[0, 0, 0x7FFE]), 1, "register i32766");
    let assign = |source, result| start().u8(opcode::core::ASSIGN_REF).u16(&[source, result]).ret(&[]);
    accepted(&SETTING, &assign(MOVE, REF + 1));
    refused(&SETTING, &assign(MOVE + 2, REF), 1, "register r2");
    refused(&SETTING, &assign(0, REF), 1, "expected a reference register");
    // Comparisons take no MOVE bit.
    let compare = |lhs| start().u8(opcode::core::CMP_EQ_REF).u16(&[lhs, REF, 0]).ret(&[]);
    accepted(&SETTING, &compare(REF));
    refused(&SETTING, &compare(MOVE), 1, "the MOVE bit");
    // Remap pairs stay within a bank and within the frame.
    refused(&SETTING, &start().br(0, &[0, REF]), 1, "crosses register banks");
    refused(&SETTING, &start().br(0, &[0, 4]), 1, "register i4");
    refused(&SETTING, &start().br(0, &[REF + 2, REF]), 1, "register r2");
}

#[test]
fn frames() {
    let return_nothing = start().ret(&[]);
    refused(&Setting { slots: 0x8001, ..SETTING }, &return_nothing, 0, "at most 32768");
    refused(&Setting { refs: 0x4001, ..SETTING }, &return_nothing, 0, "at most 32768 and 16384");
    // An i32, then an i64 on an even pair, then a reference.
    accepted(&Setting { convention: "0iIr_v", ..SETTING }, &return_nothing);
    refused(&Setting { convention: "0iIr_v", slots: 2, ..SETTING }, &return_nothing, 0, "need 4 value and 1 reference");
    refused(&Setting { convention: "0rr_v", refs: 0, ..SETTING }, &return_nothing, 0, "need 0 value and 2 reference");
    refused(&Setting { convention: "0CiD_v", ..SETTING }, &return_nothing, 0, "variadic span");
    refused(
        &Setting { features: 0x8000_0000, ..SETTING },
        &return_nothing,
        0,
        "the feature bits 0x80000000 have no meaning in bytecode 17.0",
    );
}

/// As the reference has it, which rounds the counts up to powers of two and to one at least.
#[test]
fn frames_have_some_more_registers_than_they_declare() {
    let counts = |setting: &Setting, stream: &Stream| {
        let function = accepted(setting, stream);
        (function.slots(), function.refs())
    };
    let return_nothing = start().ret(&[]);
    for (convention, slots, refs, needed) in [
        ("0v_v", 3, 0, (3, 0)),
        ("0i_v", 0, 0, (1, 0)),
        ("0r_v", 0, 0, (0, 1)),
        ("0iIr_v", 3, 0, (4, 1)),
        ("0iiiii_v", 5, 2, (5, 2)),
    ] {
        assert_eq!(counts(&Setting { convention, slots, refs, ..SETTING }, &return_nothing), needed, "{convention}");
    }
    let few = Setting { slots: 3, refs: 0, ..SETTING };
    assert_eq!(counts(&few, &start().add(&[0, 1, 3]).ret(&[])), (4, 0));
    let assign = start().u8(opcode::core::ASSIGN_REF).u16(&[REF, REF]).ret(&[]);
    assert_eq!(counts(&few, &assign), (3, 1));
}

#[test]
fn globals_are_checked_with_their_width() {
    let load = |opcode: u8, offset: u32| start().u8(opcode).u32(offset).u16(&[0]).ret(&[]);
    accepted(&SETTING, &load(opcode::core::GLOBAL_LOAD_I32, 12));
    refused(&SETTING, &load(opcode::core::GLOBAL_LOAD_I32, 13), 1, "4 bytes of globals at 13");
    accepted(&SETTING, &load(opcode::core::GLOBAL_LOAD_I64, 8));
    refused(&SETTING, &load(opcode::core::GLOBAL_LOAD_I64, 12), 1, "8 bytes of globals at 12");
    // A sum that wraps in 32 bits.
    refused(&SETTING, &load(opcode::core::GLOBAL_LOAD_I32, 0xFFFF_FFFC), 1, "4 bytes of globals at 4294967292");
    let f64_load = |offset| {
        let prefix = start().u8(opcode::core::PREFIX_EXT_F64).u8(opcode::ext_f64::GLOBAL_LOAD_F64);
        prefix.u32(offset).u16(&[0]).ret(&[])
    };
    let with_f64 = Setting { features: opcode::ext_f64::FEATURES, ..SETTING };
    accepted(&with_f64, &f64_load(8));
    refused(&with_f64, &f64_load(12), 1, "8 bytes of globals at 12");
    let ref_load = |global| start().u8(opcode::core::GLOBAL_LOAD_REF).u32(global).u32(0).u16(&[REF]).ret(&[]);
    accepted(&SETTING, &ref_load(1));
    refused(&SETTING, &ref_load(2), 1, "ref global 2 is out of range: there are 2");
}

#[test]
fn opcode_sets_need_their_feature() {
    let stream = start().u8(opcode::core::PREFIX_EXT_F32).u8(opcode::ext_f32::ADD_F32).u16(&[0, 1, 2]).ret(&[]);
    refused(&SETTING, &stream, 1, "the opcode set ext_f32 needs the feature bits 0x1");
    accepted(&Setting { features: opcode::ext_f32::FEATURES, ..SETTING }, &stream);
    let unknown = start().u8(opcode::core::PREFIX_EXT_F32).u8(0xFE);
    refused(&Setting { features: 3, ..SETTING }, &unknown, 1, "0xfe is not an opcode of the set ext_f32");
}

#[test]
fn ordinals() {
    let rodata = |ordinal| start().u8(opcode::core::CONST_REF_RODATA).u32(ordinal).u16(&[REF]).ret(&[]);
    accepted(&SETTING, &rodata(0));
    refused(&SETTING, &rodata(1), 1, "rodata segment 1 is out of range: there are 1");
    let cast = |ty| start().u8(opcode::core::CAST_ANY_REF).u16(&[REF]).u32(ty).u16(&[REF]).ret(&[]);
    accepted(&SETTING, &cast(2));
    refused(&SETTING, &cast(0xFFFF_FFFF), 1, "type 4294967295 is out of range: there are 3");
    let resolved = |import| start().u8(opcode::core::IMPORT_RESOLVED).u32(import).u16(&[0]).ret(&[]);
    accepted(&SETTING, &resolved(2));
    accepted(&SETTING, &resolved(0x8000_0002));
    refused(&SETTING, &resolved(0x8000_0003), 1, "import 3 is out of range: there are 3");
}

#[test]
fn calls_match_the_convention_of_the_callee() {
    let call = |callee, operands: &[u16], results: &[u16]| {
        start().u8(opcode::core::CALL).u32(callee).list(operands).list(results).ret(&[])
    };
    let import = 0x8000_0000;
    accepted(&SETTING, &call(import, &[0, 1], &[2]));
    refused(&SETTING, &call(import, &[0], &[2]), 1, "1 operands are given, the convention has 2");
    refused(&SETTING, &call(import, &[0, 1, 2], &[2]), 1, "3 operands are given");
    refused(&SETTING, &call(import, &[0, 1], &[]), 1, "0 results are given, the convention has 1");
    refused(&SETTING, &call(import, &[0, REF], &[2]), 1, "expected a value register, found r0");
    refused(&SETTING, &call(import + 9, &[], &[]), 1, "import 9 is out of range");
    // One register for each value: the i64 is one entry, on an even pair.
    accepted(&SETTING, &call(1, &[0, 2], &[REF]));
    refused(&SETTING, &call(1, &[0, 1], &[REF]), 1, "register i1 starts a 64-bit value");
    refused(&SETTING, &call(1, &[0, 2], &[0]), 1, "expected a reference register, found i0");
    refused(&SETTING, &call(2, &[], &[]), 1, "function 2 is out of range");
    refused(&SETTING, &call(import + 1, &[0], &[0]), 1, "is variadic, the call has no segments");

    let variadic = |callee, segments: &[u16], operands: &[u16]| {
        start().u8(opcode::core::CALL_VARIADIC).u32(callee).list(segments).list(operands).list(&[2]).ret(&[])
    };
    accepted(&SETTING, &variadic(import + 1, &[0xFFFF, 2], &[0, 1, 2, 3, 0]));
    accepted(&SETTING, &variadic(import + 1, &[0xFFFF, 0], &[0]));
    refused(&SETTING, &variadic(import + 1, &[0xFFFF], &[0]), 1, "1 segments are given");
    // Sizes of arguments that are no spans mean nothing.
    accepted(&SETTING, &variadic(import + 1, &[1, 2], &[0, 1, 2, 3, 0]));
    refused(&SETTING, &variadic(import + 1, &[0xFFFF, 0xFFFF], &[0]), 1, "a span has no segment size");
    refused(&SETTING, &variadic(import + 1, &[0xFFFF, 0xFFFE], &[0]), 1, "need more than the 1 operands");
    refused(
        &SETTING,
        &variadic(import + 1, &[0xFFFF, 1], &[0, 1, 2, 3]),
        1,
        "4 operands are given, the convention has 3",
    );
    refused(&SETTING, &variadic(1, &[0xFFFF, 0xFFFF], &[0, 2]), 1, "not an import");

    let yieldable = |target: u32| {
        let call = start().u8(opcode::core::CALL_YIELDABLE).u32(import + 2).list(&[]).u32(target).list(&[REF]);
        call.block().ret(&[])
    };
    let two = Setting { blocks: 2, ..SETTING };
    let resume = accepted(&two, &yieldable(16));
    assert_eq!(resume.decoded().call(CallId(0)).resume, Some(BlockId(1)));
    refused(&two, &yieldable(17), 1, "not a block marker");
}

#[test]
fn returns_match_the_convention_of_the_function() {
    let setting = Setting { convention: "0v_Ir", ..SETTING };
    accepted(&setting, &start().ret(&[2, MOVE]));
    refused(&setting, &start().ret(&[2]), 1, "1 results are given, the convention has 2");
    refused(&setting, &start().ret(&[1, REF]), 1, "register i1 starts a 64-bit value");
    refused(&setting, &start().ret(&[REF, REF]), 1, "expected a value register");
}

#[test]
fn liveness_follows_copies_and_branches() {
    // ^bb0: i2 = i0 + i1; br ^bb1(i2 -> i3, r0! -> r1)   ^bb1: i0 = i3 + i3; cond_br i0, ^bb1, ^bb2   ^bb2: return i0,
    // r1
    let first = start().add(&[0, 1, 2]).br(24, &[2, 3, MOVE, REF + 1]);
    let second =
        first.block().add(&[3, 3, 0]).u8(opcode::core::COND_BR).u16(&[0]).u32(24).pad().u16(&[0]).u32(48).pad();
    let stream = second.u16(&[0]).block().ret(&[0, MOVE + 1]);
    let setting = Setting { convention: "0iir_ir", blocks: 3, ..SETTING };
    let function = accepted(&setting, &stream);
    let liveness = function.liveness().expect("the function is small");
    let live = |block, reg| liveness.is_slot_live(BlockId(block), Reg(reg));
    assert_eq!([0, 1, 2, 3].map(|reg| live(0, reg)), [true, true, false, false]);
    assert_eq!([0, 1, 2, 3].map(|reg| live(1, reg)), [false, false, false, true]);
    assert_eq!([0, 1, 2, 3].map(|reg| live(2, reg)), [true, false, false, false]);
    assert_eq!([0, 1].map(|index| liveness.is_ref_live(BlockId(0), index)), [true, false]);
    assert_eq!([0, 1].map(|index| liveness.is_ref_live(BlockId(1), index)), [false, true]);
    assert!(!function.reads_unwritten_slots());

    // The same code reads two unwritten slots if they are not arguments.
    let function = accepted(&Setting { convention: "0r_ir", blocks: 3, ..SETTING }, &stream);
    assert!(function.reads_unwritten_slots());
}

#[test]
fn a_slot_that_pads_an_argument_is_not_written() {
    // (i32, i64): i1 is padding.
    let setting = Setting { convention: "0iI_i", ..SETTING };
    assert!(!accepted(&setting, &start().ret(&[0])).reads_unwritten_slots());
    assert!(!accepted(&setting, &start().ret(&[3])).reads_unwritten_slots());
    assert!(accepted(&setting, &start().ret(&[1])).reads_unwritten_slots());
}

#[test]
fn functions_out_of_proportion_have_no_liveness() {
    let blocks = 2100_u32;
    let stream = (0..blocks).fold(Stream::default(), |stream, _| stream.block().ret(&[]));
    let function = accepted(&Setting { slots: 0x8000, blocks, ..SETTING }, &stream);
    assert!(function.liveness().is_none());
    assert!(function.reads_unwritten_slots());
}
