//! Measures the interpreter: instructions of waves per second of one core, for loops of vector arithmetic and for
//! compiled kernels.
//!
//! `cargo run --release -p vireo-gfx --example speed`, with parts of names after `--` to choose.

#[path = "../tests/common/mod.rs"]
mod common;

use std::num::NonZeroUsize;

use common::{Buffer, Buffers, Kernel, bytes_of_f32, numbers};
use vireo_gfx::isa::{Field, Opcode};
use vireo_gfx::{Encoding, GridDispatch, Instruction, KernelRegisters, Program, run, vector_registers};
use vireo_hsa::kernel_descriptor::KernelDescriptor;
use vireo_simt::{Pool, Stop};

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
fn measure_loop(what: &str, body: &[Vec<u32>], lines: &mut Vec<Line>) {
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
    let (memory, stop, pool) = (Buffers(Vec::new()), Stop::default(), Pool::default());
    let dispatch = GridDispatch {
        program: &program,
        descriptor: &descriptor,
        registers: KernelRegisters::default(),
        grid: [32, 1, 1],
        work_group: [32, 1, 1],
        local_bytes: 0,
        scratch_bytes: 0,
        memory: &memory,
        half_sums: Default::default(),
        hook: None,
        stop: &stop,
        limit: u64::MAX,
        threads: NonZeroUsize::MIN,
        pool: &pool,
    };
    report(what, lines, || run(&dispatch).unwrap_or_else(|trap| panic!("{trap}")));
}

/// Seconds that this thread has run, so that other programs do not count.
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// A measurement: name, instructions per second, instructions of one run, and a sum of the results, by which runs can
/// be compared.
type Line = (String, f64, u64, u32);

/// Names on the command line choose what is measured.
fn chosen(what: &str) -> bool {
    let mut names = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    names.peek().is_none() || names.any(|name| what.contains(&name))
}

fn report(what: &str, lines: &mut Vec<Line>, mut run: impl FnMut() -> u64) {
    let begin = processor_time();
    let (mut best, mut turns) = ((0.0, 0), 0);
    // Short kernels run more often, so that their caches are warm.
    while turns < 5 || processor_time() - begin < 0.1 {
        let start = processor_time();
        let executed = run();
        let speed = executed as f64 / (processor_time() - start);
        turns += 1;
        if speed > best.0 {
            best = (speed, executed);
        }
    }
    lines.push((what.to_string(), best.0, best.1, 0));
}

fn main() {
    use Encoding::{Vop2, Vop3};
    let vop2 = |name: &str, d: u32, a: u32, b: u32| {
        inst(name, Vop2, &[(Field::Vdst, d), (Field::Src0, 256 + a), (Field::Vsrc1, b)])
    };
    let body = |name: &str| (0..32).map(|at| vop2(name, 8 + at % 16, at % 8, 1 + at % 7)).collect::<Vec<_>>();
    let fma = |at: u32| {
        let fields = [(Field::Vdst, 8 + at % 16), (Field::Src0, 256), (Field::Src1, 257), (Field::Src2, 258)];
        inst("v_fma_f32", Vop3, &fields)
    };
    let mut lines = Vec::new();
    for name in ["v_add_f32", "v_fmac_f32", "v_add_nc_u32"].into_iter().filter(|name| chosen(name)) {
        measure_loop(name, &body(name), &mut lines);
    }
    if chosen("v_fma_f32") {
        measure_loop("v_fma_f32", &(0..32).map(fma).collect::<Vec<_>>(), &mut lines);
    }
    macro_rules! kernels {
        ($($name:literal($groups:literal, $size:expr): $($bytes:expr),*;)*) => {$(
            if chosen($name) {
                let object = include_bytes!(concat!("../tests/kernels/", $name, ".hsaco"));
                measure_kernel($name, object, $groups, $size, &[$($bytes),*], &mut lines);
            }
        )*};
    }
    // Products are of 128 by 512 and 512 by 256 values.
    let (a, b, c) = (128 * 512, 512 * 256, 128 * 256);
    kernels! {
        "mm_f32"(8, [32, 8, 1]): 4 * a, 4 * b, 4 * c;
        "mm_f32_odd"(2, [32, 8, 1]): 4 * 33 * 17, 4 * 17 * 65, 4 * 33 * 65;
        "mm_f16"(4, [128, 1, 1]): 2 * a, 2 * b, 4 * c;
        "mm_f16_f16"(4, [128, 1, 1]): 2 * a, 2 * b, 2 * c;
        "mm_bf16"(4, [128, 1, 1]): 2 * a, 2 * b, 4 * c;
        "mm_i8"(4, [128, 1, 1]): a, b, 4 * c;
        "softmax_f32"(16, [32, 1, 1]): 4 * 16 * 1000, 4 * 16 * 1000;
        "red_addf_f32"(64, [256, 1, 1]): 4 * 64 * 1024, 4 * 64;
        "ew_divf_f32"(32, [32, 1, 1]): 4000, 4000, 4000;
        "ew_exp_f32"(32, [32, 1, 1]): 4000, 4000;
        "ew_divsi_i64"(32, [32, 1, 1]): 8 * 1003, 8 * 1003, 8 * 1003;
        "transpose"(12, [8, 32, 1]): 4 * 128 * 96, 4 * 128 * 96;
    }
    // The slowest first.
    lines.sort_by(|a, b| a.1.total_cmp(&b.1));
    for (what, speed, executed, sum) in lines {
        let (speed, time) = (speed / 1e6, executed as f64 / speed * 1e6);
        println!(
            "{what:16} {speed:7.1} million instructions per second ({executed} in {time:.0} µs), results {sum:08x}"
        );
    }
}

/// Runs a kernel on buffers of these many bytes.
fn measure_kernel(what: &str, object: &[u8], groups: u32, size: [u16; 3], bytes: &[usize], lines: &mut Vec<Line>) {
    let mut kernel = Kernel::load(object);
    let inputs: Vec<Vec<u8>> = (1..)
        .zip(bytes)
        .map(|(seed, bytes)| {
            let mut input = bytes_of_f32(&numbers(bytes.div_ceil(4), seed));
            input.truncate(*bytes);
            input
        })
        .collect();
    kernel.bind(inputs.iter().map(|bytes| Buffer::new(bytes, true)).collect());
    report(what, lines, || kernel.launch(groups, size, 1).unwrap_or_else(|trap| panic!("{what}: {trap}")));
    let results = (0..bytes.len()).flat_map(|index| kernel.binding(index));
    if let Some(line) = lines.last_mut() {
        line.3 = results.fold(0, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    }
}
