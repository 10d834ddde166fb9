//! Runs code and sees what it did to registers.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};

use crate::executable_memory::{Protection, SealedImage, WritableImage};
use crate::ir::types::Scalar;
use crate::processor::features::Features;
use crate::processor::registers::{RAX, RCX, RDX, SCRATCH, VECTOR_SCRATCH};
use crate::x64::lower::{Asm, emit};

/// The contents of registers before and after a run.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct State {
    pub(super) general: [u64; 16],
    pub(super) vector: [u64; 16],
    pub(super) trapped: u64,
}

impl State {
    /// Something different in each register, and nothing that a primitive would compute.
    pub(super) fn new() -> State {
        let filler = |index: usize| 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(index as u64 + 1);
        State {
            general: std::array::from_fn(filler),
            vector: std::array::from_fn(|index| filler(index + 16)),
            trapped: 0,
        }
    }

    pub(super) fn register(&mut self, of: Scalar, number: u8) -> &mut u64 {
        let bank = if of.is_float() { &mut self.vector } else { &mut self.general };
        &mut bank[usize::from(number)]
    }
}

pub(super) struct Code {
    image: SealedImage,
}

impl Code {
    /// A function that loads all registers, runs what `body` assembles, and saves all registers. `body` may jump to the
    /// label.
    pub(super) fn new(features: Features, body: impl FnOnce(&mut Asm, DynamicLabel)) -> Code {
        let mut asm = Asm::new(features);
        let (trap, save) = (asm.ops.new_dynamic_label(), asm.ops.new_dynamic_label());
        let general = || (0..16u8).filter(|number| ![4, 7].contains(number));
        emit!(asm; push rbx; push rbp; push r12; push r13; push r14; push r15; push rdi);
        for number in 0..16u8 {
            emit!(asm; movq Rx(number), [rdi + 128 + 8 * i32::from(number)]);
        }
        for number in general() {
            emit!(asm; mov Rq(number), [rdi + 8 * i32::from(number)]);
        }
        emit!(asm; mov rdi, [rdi + 56]);
        body(&mut asm, trap);
        emit!(asm; push rdi; mov rdi, [rsp + 8]; mov QWORD [rdi + 256], 0; jmp =>save);
        emit!(asm; =>trap; push rdi; mov rdi, [rsp + 8]; mov QWORD [rdi + 256], 1; =>save);
        for number in general() {
            emit!(asm; mov [rdi + 8 * i32::from(number)], Rq(number));
        }
        emit!(asm; pop rax; mov [rdi + 56], rax);
        for number in 0..16u8 {
            emit!(asm; movq [rdi + 128 + 8 * i32::from(number)], Rx(number));
        }
        emit!(asm; pop rdi; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx; ret);
        let code = asm.ops.finalize().unwrap();
        let mut image = WritableImage::new(code.len()).unwrap();
        image.bytes_mut()[..code.len()].copy_from_slice(&code);
        let pages = 0..image.bytes().len();
        Code { image: image.seal(vec![(pages, Protection::ReadExecute)]).unwrap() }
    }

    /// Runs it.
    pub(super) fn call(&self, state: &mut State) {
        // SAFETY: the image starts with a function of this type, which `new` has assembled.
        let function: extern "sysv64" fn(&mut State) = unsafe { std::mem::transmute(self.image.base()) };
        function(state);
    }

    /// Runs it, and checks that it changed nothing but `dst` and scratch registers; nothing but `r11` if it trapped.
    pub(super) fn run(&self, before: &State, dst: Option<(Scalar, u8)>) -> State {
        let mut after = *before;
        self.call(&mut after);
        let mut expected = *before;
        expected.trapped = after.trapped;
        let mut free = vec![(Scalar::I64, SCRATCH)];
        if after.trapped == 0 {
            free.extend([(Scalar::I64, RAX), (Scalar::I64, RCX), (Scalar::I64, RDX), (Scalar::F64, VECTOR_SCRATCH)]);
            free.extend(dst);
        }
        for (of, number) in free {
            *expected.register(of, number) = *after.register(of, number);
        }
        assert_eq!(expected.general, after.general);
        assert_eq!(expected.vector, after.vector);
        after
    }
}

/// Runs code with vectors of AVX2. A register has the address of `memory`.
pub(super) fn run_vectors<T>(memory: &mut [T], register: u8, body: impl FnOnce(&mut Asm)) {
    let code = Code::new(Features::detect(), |asm, _| {
        body(asm);
        emit!(asm; vzeroupper);
    });
    let mut state = State::new();
    state.general[usize::from(register)] = memory.as_mut_ptr() as u64;
    code.call(&mut state);
}
