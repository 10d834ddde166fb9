//! Accesses to memory at the edges: bounds of buffers, offsets that wrap, and memory of the work-group. Expected values
//! are written down from the manual of the instruction set.

mod common;

use common::{Bare, Buffer, Buffers, push, words_of_bytes};
use vireo_gfx::Encoding;
use vireo_gfx::isa::Field;
use vireo_gfx::isa::operands::{LITERAL, NULL};

/// The third dword of a buffer resource and the fourth.
const RAW: u32 = 0x3102_7000;
const UNCHECKED: u32 = 0x2102_7000;

/// Code that sets v1 to four times the lane, makes `s[4:7]` a resource of the first buffer with so many bytes, runs
/// `body`, and stores v8 to v11 to the second buffer, one register after another.
fn program(bytes: u32, flags: u32, body: impl Fn(&mut Vec<u32>)) -> Vec<u32> {
    let mut code = Vec::new();
    push(&mut code, "v_lshlrev_b32", Encoding::Vop2, &[(Field::Vdst, 1), (Field::Src0, 130), (Field::Vsrc1, 0)], None);
    for (register, source, literal) in
        [(4, 0, None), (5, 1, None), (6, LITERAL, Some(bytes)), (7, LITERAL, Some(flags))]
    {
        push(&mut code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, register), (Field::Ssrc0, source)], literal);
    }
    body(&mut code);
    for register in 0..4 {
        let fields =
            [(Field::Offset, 128 * register), (Field::Addr, 1), (Field::Data0, 8 + register), (Field::Saddr, 2)];
        push(&mut code, "global_store_b32", Encoding::Global, &fields, None);
    }
    push(&mut code, "s_endpgm", Encoding::Sopp, &[], None);
    code
}

/// The words 1, 2, 3 and so on in the first buffer, and what v8 to v11 are in each lane after the code.
fn run(code: &[u32], local_bytes: u32) -> (Vec<u32>, Vec<Vec<u32>>) {
    let words: Vec<u8> = (1..=64u32).flat_map(u32::to_le_bytes).collect();
    let memory = Buffers(vec![Buffer::new(&words, true), Buffer::new(&[0xEE; 512], true)]);
    Bare { local_bytes, ..Bare::new(code, &memory) }.run().unwrap_or_else(|trap| panic!("{trap}"));
    let rows = words_of_bytes(&memory.0[1].bytes()).chunks(32).map(<[u32]>::to_vec).collect();
    (words_of_bytes(&memory.0[0].bytes()), rows)
}

fn buffer(code: &mut Vec<u32>, name: &str, offset: u32) {
    let fields = [(Field::Vdata, 8), (Field::Vaddr, 1), (Field::Srsrc, 1), (Field::Soffset, 128), (Field::Offen, 1)];
    push(code, name, Encoding::Mubuf, &[&fields[..], &[(Field::Offset, offset)]].concat(), None);
}

#[test]
fn each_word_of_a_buffer_has_bounds_of_its_own() {
    let (_, rows) = run(&program(24, RAW, |code| buffer(code, "buffer_load_b128", 4)), 0);
    for (word, row) in rows.iter().enumerate() {
        for (lane, found) in row.iter().enumerate() {
            let at = 4 + 4 * lane + 4 * word;
            assert_eq!(*found, if at + 4 <= 24 { (at / 4 + 1) as u32 } else { 0 }, "word {word} of lane {lane}");
        }
    }
    // Half a word is none.
    let (_, rows) = run(&program(22, RAW, |code| buffer(code, "buffer_load_b64", 0)), 0);
    assert_eq!((&rows[0][..7], &rows[1][..7]), (&[1, 2, 3, 4, 5, 0, 0][..], &[2, 3, 4, 5, 0, 0, 0][..]));
    // Lane 4 is the last one whose first word is inside, and the lanes before it overwrite each other's in their order.
    let store = |code: &mut Vec<u32>| {
        for register in 8..12 {
            let fields = [(Field::Vdst, register), (Field::Src0, LITERAL)];
            push(code, "v_mov_b32", Encoding::Vop1, &fields, Some(100 + register));
        }
        push(code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, 126), (Field::Ssrc0, LITERAL)], Some(0x10));
        buffer(code, "buffer_store_b128", 0);
        push(code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, 126), (Field::Ssrc0, 193)], None);
    };
    let (words, _) = run(&program(28, RAW, store), 0);
    assert_eq!(words[3..9], [4, 108, 109, 110, 8, 9]);
}

/// The registers of the address may be among those of the result.
#[test]
fn a_load_that_is_partly_outside_reads_its_address_first() {
    let load = |code: &mut Vec<u32>| {
        push(code, "v_mov_b32", Encoding::Vop1, &[(Field::Vdst, 8), (Field::Src0, 257)], None);
        let fields =
            [(Field::Vdata, 8), (Field::Vaddr, 8), (Field::Srsrc, 1), (Field::Soffset, 128), (Field::Offen, 1)];
        push(code, "buffer_load_b64", Encoding::Mubuf, &fields, None);
    };
    let (_, rows) = run(&program(12, RAW, load), 0);
    assert_eq!((&rows[0][..4], &rows[1][..4]), (&[1, 2, 3, 0][..], &[2, 3, 0, 0][..]));
}

#[test]
fn a_buffer_without_checks_has_no_bounds() {
    let (_, rows) = run(&program(4, UNCHECKED, |code| buffer(code, "buffer_load_b32", 0)), 0);
    assert_eq!(rows[0], (1..=32).collect::<Vec<u32>>());
    let (_, rows) = run(&program(0, UNCHECKED, |code| buffer(code, "buffer_load_b32", 0)), 0);
    assert_eq!(rows[0], [0; 32], "but an empty one has none");
}

/// The scalar offset moves the buffer, whose end stays where it is.
#[test]
fn a_scalar_offset_makes_a_buffer_smaller() {
    let load = |code: &mut Vec<u32>| {
        let fields =
            [(Field::Vdata, 8), (Field::Vaddr, 1), (Field::Srsrc, 1), (Field::Soffset, 136), (Field::Offen, 1)];
        push(code, "buffer_load_b32", Encoding::Mubuf, &fields, None);
    };
    let (_, rows) = run(&program(20, RAW, load), 0);
    assert_eq!(rows[0][..6], [3, 4, 5, 0, 0, 0]);
    let (_, rows) = run(&program(4, RAW, load), 0);
    assert_eq!(rows[0], [0; 32]);
}

#[test]
fn resources_that_are_not_understood_trap() {
    let memory = Buffers(vec![Buffer::new(&[0; 256], true), Buffer::new(&[0; 512], true)]);
    let text = |flags: u32, resource: u32| {
        let body = |code: &mut Vec<u32>| {
            let fields = [(Field::Vdata, 8), (Field::Vaddr, 1), (Field::Srsrc, resource), (Field::Soffset, NULL)];
            push(code, "buffer_load_b32", Encoding::Mubuf, &fields, None);
        };
        Bare::new(&program(64, flags, body), &memory).run().expect_err("a trap").to_string()
    };
    assert!(text(0x0102_7000, 1).contains("bounds of records, in buffer_load_b32"), "{}", text(0x0102_7000, 1));
    assert!(text(RAW | 1 << 23, 1).contains("the lane's number, in buffer_load_b32"), "{}", text(RAW | 1 << 23, 1));
    assert!(text(RAW | 1 << 30, 1).contains("no buffer, in buffer_load_b32"), "{}", text(RAW | 1 << 30, 1));
    // Four scalar registers from `null` on.
    assert!(text(RAW, 31).starts_with("invalid operand"), "{}", text(RAW, 31));
}

/// Compilers subtract from an address and add to the offset.
#[test]
fn offsets_in_the_memory_of_the_work_group_wrap() {
    let body = |code: &mut Vec<u32>| {
        let sub = [(Field::Vdst, 3), (Field::Src0, 257), (Field::Vsrc1, 2)];
        push(code, "v_mov_b32", Encoding::Vop1, &[(Field::Vdst, 2), (Field::Src0, 144)], None);
        push(code, "v_sub_nc_u32", Encoding::Vop2, &sub, None);
        let store = [(Field::Addr, 3), (Field::Data0, 1), (Field::Offset0, 20)];
        push(code, "ds_store_b32", Encoding::Ds, &store, None);
        push(code, "ds_load_b32", Encoding::Ds, &[(Field::Addr, 1), (Field::Vdst, 8), (Field::Offset0, 4)], None);
        let two = [(Field::Addr, 3), (Field::Vdst, 10), (Field::Offset0, 5), (Field::Offset1, 6)];
        push(code, "ds_load_2addr_b32", Encoding::Ds, &two, None);
    };
    let (_, rows) = run(&program(0, RAW, body), 256);
    assert_eq!(rows[0], (0..32).map(|lane| 4 * lane).collect::<Vec<u32>>());
    assert_eq!(rows[2], rows[0]);
    assert_eq!(rows[3][..31], rows[0][1..]);
}
