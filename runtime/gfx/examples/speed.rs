//! Measures the interpreter: instructions of waves per second of one core, for loops of vector arithmetic and for compiled kernels.
//!
//! `cargo run --release -p vireo-gfx --example speed`

#[path = "../tests/common/mod.rs"]
mod common;

use std::num::NonZeroUsize;

use common::{Buffer, Buffers, Kernel, bytes_of_f32, numbers};
use vireo_gfx::isa::{Field, Opcode};
use vireo_gfx::{Dispatch, Encoding, Instruction, KernelRegisters, Program, run, vector_registers};
use vireo_hsa::kernel_descriptor::KernelDescriptor;
use vireo_simt::Stop;

/// An instruction with these fields.
fn inst(name: &str, encoding: Encoding, fields: &[(Field, u32)]) -> Vec<u32> {
    let opcode = Opcode::of_name(name).expect("an instruction");
    let mut instruction = Instruction::new(opcode, encoding).expect("a form of it");
    for (field, value) in fields {
        instruction.set(*field, *value);
    }
    instruction.encode().to_vec()
}

/// Runs `body` in a loop and prints the speed.
fn measure_loop(what: &str, body: &[Vec<u32>]) {
    use Encoding::{Sop1, Sop2, Sopc, Sopp};
    let turns = 200_000;
    let mut code = inst("s_mov_b32", Sop1, &[(Field::Sdst, 4), (Field::Ssrc0, 128)]);
    code.extend([0xBE85_00FF, turns]);
    let start = code.len();
    code.extend(body.iter().flatten());
    code.extend(inst("s_add_u32", Sop2, &[(Field::Sdst, 4), (Field::Ssrc0, 4), (Field::Ssrc1, 129)]));
    code.extend(inst("s_cmp_lt_u32", Sopc, &[(Field::Ssrc0, 4), (Field::Ssrc1, 5)]));
    let back = start as i32 - code.len() as i32 - 1;
    code.extend(inst("s_cbranch_scc1", Sopp, &[(Field::Simm16, back as u32)]));
    code.extend(inst("s_endpgm", Sopp, &[]));
    let mut descriptor = KernelDescriptor::default();
    descriptor.compute_pgm_rsrc1 =
        descriptor.compute_pgm_rsrc1.with_granulated_workitem_vgpr_count(7).expect("it fits");
    descriptor.compute_pgm_rsrc1.0 |= 0xF << 16;
    descriptor.kernel_code_properties.0 |= 1 << 10;
    let program = Program::decode(&code, 0x1000, vector_registers(&descriptor));
    let (memory, stop) = (Buffers(Vec::new()), Stop::default());
    let dispatch = Dispatch {
        program: &program,
        descriptor: &descriptor,
        registers: KernelRegisters::default(),
        grid: [32, 1, 1],
        work_group: [32, 1, 1],
        local_bytes: 0,
        scratch_bytes: 0,
        memory: &memory,
        hook: None,
        stop: &stop,
        limit: u64::MAX,
        threads: NonZeroUsize::MIN,
    };
    report(what, || run(&dispatch).unwrap_or_else(|trap| panic!("{trap}")));
}

/// Seconds that this thread has run, so that other programs do not count.
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn report(what: &str, mut run: impl FnMut() -> u64) {
    let best = (0..5)
        .map(|_| {
            let start = processor_time();
            let executed = run();
            (executed as f64 / (processor_time() - start), executed)
        })
        .max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((speed, executed)) = best {
        println!("{what:40} {:7.1} million instructions per second ({executed} executed)", speed / 1e6);
    }
}

fn main() {
    use Encoding::{Vop2, Vop3};
    let vop2 = |name: &str, d: u32, a: u32, b: u32| {
        inst(name, Vop2, &[(Field::Vdst, d), (Field::Src0, 256 + a), (Field::Vsrc1, b)])
    };
    let body = |name: &str| (0..32).map(|at| vop2(name, 8 + at % 16, at % 8, 1 + at % 7)).collect::<Vec<_>>();
    measure_loop("v_add_f32", &body("v_add_f32"));
    measure_loop("v_fmac_f32", &body("v_fmac_f32"));
    measure_loop("v_add_nc_u32", &body("v_add_nc_u32"));
    let fma = (0..32).map(|at| {
        let fields = [(Field::Vdst, 8 + at % 16), (Field::Src0, 256), (Field::Src1, 257), (Field::Src2, 258)];
        inst("v_fma_f32", Vop3, &fields)
    });
    measure_loop("v_fma_f32", &fma.collect::<Vec<_>>());
    let matrices = [128, 256, 512];
    measure_kernel("matmul f32", include_bytes!("../tests/kernels/mm_f32.hsaco"), 8, [32, 8, 1], 4, matrices);
    measure_kernel("matmul f16 to f32", include_bytes!("../tests/kernels/mm_f16.hsaco"), 4, [128, 1, 1], 2, matrices);
    measure_kernel("matmul i8", include_bytes!("../tests/kernels/mm_i8.hsaco"), 4, [128, 1, 1], 1, matrices);
    let rows = [16, 1000, 1000];
    measure_kernel("softmax f32", include_bytes!("../tests/kernels/softmax_f32.hsaco"), 16, [32, 1, 1], 4, rows);
}

/// Runs a kernel on matrices of `m` by `k` and `k` by `n` values of this many bytes and prints the speed.
fn measure_kernel(what: &str, object: &[u8], groups: u32, size: [u16; 3], bytes: usize, [m, n, k]: [usize; 3]) {
    let mut kernel = Kernel::load(object);
    let input = |count: usize| bytes_of_f32(&numbers(count * bytes / 4 + 1, 1));
    let (a, b, c) = (input(m * k), input(k * n), vec![0; 4 * m * n]);
    report(what, || {
        let bindings = [&a, &b, &c].into_iter().map(|bytes| Buffer::new(bytes, true)).collect();
        kernel.run(bindings, groups, size, 1).unwrap_or_else(|trap| panic!("{trap}"))
    });
}
