//! The registers of the processor by their hardware numbers, and what each one is for. `regalloc` and `x64` take them
//! from here.
//!
//! ```text
//! rax rcx                   operands that are reloaded, results to be spilled, arguments and results of native calls
//! rsi rdi r8 r9 r10         values; caller-saved
//! rbx rbp r14               values; callee-saved
//! rdx                       values that live where nothing needs it: divisions, calls, arguments and results of native
//!                           calls, and vectors
//! r11                       scratch within one node, and the third operand that is reloaded
//! r12 r13 r15               the slots of the frame, the machine, the countdown
//! rsp                       the native frame
//! vectors 0 to 11           values
//! vectors 12 to 14          as rax, rcx and rdx
//! vector 15                 as r11
//! vectors 16 to 31          values of sixteen lanes, whose instructions alone can name them
//! ```

use crate::ir::types::Width;
use crate::vm::native::{DIRECT_FLOATS, DIRECT_INTEGERS};

pub const RAX: u8 = 0;
pub const RCX: u8 = 1;
pub const RDX: u8 = 2;
pub const RBX: u8 = 3;
pub const RSP: u8 = 4;
pub const RBP: u8 = 5;
pub const RSI: u8 = 6;
pub const RDI: u8 = 7;
pub const R8: u8 = 8;
pub const R9: u8 = 9;
pub const R10: u8 = 10;
pub const R11: u8 = 11;
pub const R12: u8 = 12;
pub const R13: u8 = 13;
pub const R14: u8 = 14;
pub const R15: u8 = 15;

/// The names of the general registers, as listings write them.
pub const NAMES: [&str; 16] =
    ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

/// Holds the address of the slots of the frame.
pub const SLOTS: u8 = R12;
/// Holds the address of the machine.
pub const MACHINE: u8 = R13;
/// Holds the countdown: how many branches may be taken before the limits are checked.
pub const COUNTDOWN: u8 = R15;

/// Scratch registers, which hold nothing from one node to the next.
pub const SCRATCH: u8 = R11;
pub const VECTOR_SCRATCH: u8 = 15;

/// Registers to which spilled operands are reloaded and in which results to be spilled are computed. A node with three
/// operands does not need its scratch register before it has read them.
pub const LOADED: [u8; 3] = [RAX, RCX, SCRATCH];
pub const VECTOR_LOADED: [u8; 3] = [12, 13, 14];

/// Registers of the arguments and results of native calls. None is allocated to a value that lives where they are, so
/// they are read and written in any order.
pub const PASSED: [u8; 3] = [RAX, RCX, RDX];
pub const VECTOR_PASSED: [u8; 3] = VECTOR_LOADED;

/// Registers to which the arguments of direct calls are moved first: those that are not allocated to values there, so
/// in any order. From there they move to the registers of the C convention, by which the values are not needed any
/// more.
pub const DIRECT: [u8; 4] = [RDX, RCX, RAX, SCRATCH];
pub const VECTOR_DIRECT: [u8; 4] = [VECTOR_LOADED[0], VECTOR_LOADED[1], VECTOR_LOADED[2], VECTOR_SCRATCH];
/// The registers of the same arguments in the C convention, after the two of the machine and the import.
pub const C_DIRECT: [u8; 4] = [RDX, RCX, R8, R9];
pub const C_VECTOR_DIRECT: [u8; 4] = [0, 1, 2, 3];

/// General registers that are allocated to values.
pub const GENERAL: [u8; 8] = [RSI, RDI, R8, R9, R10, RBX, RBP, R14];
/// The same for values that live nowhere where `rdx` is needed.
pub const GENERAL_AND_RDX: [u8; 9] = [RSI, RDI, R8, R9, R10, RBX, RBP, R14, RDX];
/// Those of them that C functions preserve.
pub const CALLEE_SAVED: [u8; 3] = [RBX, RBP, R14];
/// Vector registers that are allocated to values. C functions preserve none.
pub const VECTORS: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/// Those that are allocated to vectors of sixteen lanes: first the ones that nothing else can have.
pub const WIDE_VECTORS: [u8; 28] =
    [16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/// Vector registers that are allocated to values of so many lanes, or of one.
pub const fn vectors(width: Option<Width>) -> &'static [u8] {
    match width {
        Some(Width::Sixteen) => &WIDE_VECTORS,
        Some(Width::Four | Width::SixteenBytes | Width::ThirtyTwoBytes | Width::Eight) | None => &VECTORS,
    }
}

/// The first integer arguments and the integer result of a C function, and the same of floats.
pub const C_ARGUMENTS: [u8; 2] = [RDI, RSI];
pub const C_RESULT: u8 = RAX;
pub const C_VECTOR_ARGUMENTS: [u8; 2] = [0, 1];
pub const C_VECTOR_RESULT: u8 = 0;

const fn set(registers: &[u8]) -> u32 {
    let (mut set, mut index) = (0, 0);
    while index < registers.len() {
        assert!(set & 1 << registers[index] == 0, "a register is named twice");
        set |= 1 << registers[index];
        index += 1;
    }
    set
}

/// Whether the sets have no register in common and are, together, all registers of their bank.
const fn divide(sets: &[&[u8]]) -> bool {
    let (mut all, mut index) = (0, 0);
    while index < sets.len() {
        let set = set(sets[index]);
        if all & set != 0 {
            return false;
        }
        all |= set;
        index += 1;
    }
    all == 0xFFFF
}

const _: () = assert!(divide(&[&GENERAL_AND_RDX, &[RAX, RCX], &[SCRATCH], &[SLOTS, MACHINE, COUNTDOWN, RSP]]));
const _: () = assert!(set(&GENERAL_AND_RDX) == set(&GENERAL) | set(&[RDX]));
const _: () = assert!(divide(&[&VECTORS, &VECTOR_LOADED, &[VECTOR_SCRATCH]]));
const _: () = assert!(set(&GENERAL) & set(&DIRECT) == 0 && set(&VECTORS) & set(&VECTOR_DIRECT) == 0);
const _: () = assert!(DIRECT.len() == DIRECT_INTEGERS && VECTOR_DIRECT.len() == DIRECT_FLOATS);
const _: () = assert!(set(&GENERAL) & set(&CALLEE_SAVED) == set(&CALLEE_SAVED));
const _: () = assert!(set(&WIDE_VECTORS) == set(&VECTORS) | 0xFFFF_0000);
// A C function preserves the registers that hold their values all through the code.
const _: () = assert!(set(&[RBX, RBP, R12, R13, R14, R15]) == set(&CALLEE_SAVED) | set(&[SLOTS, MACHINE, COUNTDOWN]));
// Division and shifts have instructions with fixed registers, which overwrite `rax`, `rcx` and `rdx`. No value is in
// the first two, nor in the third where there is a division.
const _: () = assert!(set(&GENERAL) & set(&[RAX, RCX, RDX]) == 0);
