//! Measures the interpreter: instructions of warps per second of one core, for loops of arithmetic that are drawn, and
//! for compiled kernels on values that are drawn.
//!
//! `cargo run --release -p vireo-ptx --example speed -- --seed 7`, with parts of names to choose some. Loops have a
//! length between 4 and 128, each ratio as likely as any other, and instructions of those that compilers write most.
//! The time is that of the thread, so that other programs do not count, and the median of several runs.

use vireo_ptx::{Kernel, Launch, Module, Options};
use vireo_simt::{Pool, Stop};

#[path = "../tests/suite/support.rs"]
#[expect(dead_code, reason = "an example uses a part of it")]
mod support;

use support::Buffers;

/// Instructions of loops: a form, and its operands as registers of types of their own.
const FORMS: [(&str, &str); 16] = [
    ("add.f32", "fff"),
    ("mul.f32", "fff"),
    ("fma.rn.f32", "ffff"),
    ("sub.f32", "fff"),
    ("max.f32", "fff"),
    ("add.s32", "rrr"),
    ("mad.lo.s32", "rrrr"),
    ("mul.lo.s32", "rrr"),
    ("and.b32", "rrr"),
    ("xor.b32", "rrr"),
    ("shl.b32", "rrr"),
    ("add.s64", "lll"),
    ("mov.b32", "rr"),
    ("setp.lt.s32", "prr"),
    ("selp.b32", "rrrp"),
    ("cvt.rn.f32.s32", "fr"),
];

/// Numbers that depend on nothing but a seed.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ value >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    /// A number from `low` to `high`, each ratio as likely as any other.
    fn log_uniform(&mut self, low: f64, high: f64) -> usize {
        let part = self.next() as f64 / u64::MAX as f64;
        (low * (high / low).powf(part)).round() as usize
    }

    /// Bytes of floats from -1 to 1.
    fn floats(&mut self, bytes: usize) -> Vec<u8> {
        let value = |draw: &mut Self| (draw.next() >> 40) as f32 / (1 << 23) as f32 - 1.0;
        let mut all: Vec<u8> = (0..bytes.div_ceil(4)).flat_map(|_| value(self).to_le_bytes()).collect();
        all.truncate(bytes);
        all
    }
}

/// A loop of `length` drawn instructions, or of one form.
fn loop_text(draw: &mut Draw, length: usize, form: Option<usize>) -> String {
    let mut body = String::new();
    for _ in 0..length {
        let (name, kinds) = FORMS[form.unwrap_or_else(|| draw.below(FORMS.len()))];
        let operands: Vec<String> = kinds.chars().map(|kind| format!("%{kind}{}", 1 + draw.below(8))).collect();
        body += &format!("{name} {};\n", operands.join(", "));
    }
    let count = 2_000_000 / (length + 3);
    support::text(&format!(
        ".visible .entry k() {{\n.reg .pred %p<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %l<9>; .reg .b32 %n; \
         .reg .pred %q;\nmov.u32 %n, 0;\nL:\n{body}add.u32 %n, %n, 1; setp.lt.u32 %q, %n, {count}; @%q bra L;\nret;\n}}"
    ))
}

fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn launch(kernel: &Kernel, buffers: &Buffers, blocks: u32, block: [u32; 3], shared: u32, params: &[u64]) -> u64 {
    let params: Vec<u8> = params.iter().flat_map(|param| param.to_le_bytes()).collect();
    let (stop, pool) = (Stop::default(), Pool::default());
    let launch = Launch {
        shared_bytes: shared,
        params: &params,
        resident: 64,
        ..Launch::new([blocks, 1, 1], block, buffers, &stop, &pool)
    };
    kernel.launch(&launch).unwrap_or_else(|trap| panic!("{trap}"))
}

/// The instructions of a run, and the median of the times of at least five.
fn measure(least: f64, mut run: impl FnMut() -> u64) -> (u64, f64) {
    let (begin, mut times, mut executed) = (processor_time(), Vec::new(), 0);
    while times.len() < 5 || processor_time() - begin < least {
        let start = processor_time();
        executed = run();
        times.push(processor_time() - start);
    }
    times.sort_by(f64::total_cmp);
    (executed, times[times.len() / 2])
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut seed, mut least, mut names) = (1u64, 0.1, Vec::new());
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().expect("a number after the flag");
        match argument.as_str() {
            "--seed" => seed = number().parse().expect("a seed"),
            // Seconds for each; 0 for five runs, as under a profiler.
            "--seconds" => least = number().parse().expect("seconds"),
            name => names.push(name.to_string()),
        }
    }
    let mut draw = Draw(seed);
    let is_chosen = |what: &str| names.is_empty() || names.iter().any(|name| what.contains(name.as_str()));
    let print = |what: &str, (executed, time): (u64, f64)| {
        println!(
            "{what:16} {:7.1} million instructions per second ({executed} in {:.0} µs)",
            executed as f64 / time / 1e6,
            time * 1e6
        );
        executed as f64 / time / 1e6
    };
    let mut speeds = Vec::new();
    for at in 0..8 {
        let length = draw.log_uniform(4.0, 128.0);
        let module = support::load(&loop_text(&mut draw, length, None));
        let name = format!("loop {at} of {length}");
        if is_chosen(&name) {
            let run = || launch(&module.kernels()[0], &Buffers::new(), 1, [32, 1, 1], 0, &[]);
            speeds.push(print(&name, measure(least, run)));
        }
    }
    for (index, (form, _)) in FORMS.iter().enumerate() {
        let module = support::load(&loop_text(&mut draw, 64, Some(index)));
        if is_chosen(form) && !names.is_empty() {
            let run = || launch(&module.kernels()[0], &Buffers::new(), 1, [32, 1, 1], 0, &[]);
            print(form, measure(least, run));
        }
    }
    if !speeds.is_empty() {
        let mean = speeds.iter().map(|speed| speed.ln()).sum::<f64>() / speeds.len() as f64;
        println!("{:16} {:7.1} million instructions per second, the geometric mean", "loops", mean.exp());
    }
    macro_rules! kernels {
        ($($name:literal($blocks:expr, $block:expr, $shared:expr): $($bytes:expr),*;)*) => {$(
            if is_chosen($name) {
                let text = include_bytes!(concat!("../tests/kernels/", $name, ".ptx"));
                let module = Module::load(text, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
                let mut buffers = Buffers::new();
                let params = [$(buffers.add(&draw.floats($bytes))),*];
                let run = || launch(&module.kernels()[0], &buffers, $blocks, $block, $shared, &params);
                print($name, measure(least, run));
            }
        )*};
    }
    // Products are of 128 by 512 and 512 by 256 values.
    let (a, b, c) = (128 * 512, 512 * 256, 128 * 256);
    kernels! {
        "mm_f32"(8, [32, 8, 1], 0): 4 * a, 4 * b, 4 * c;
        "mm_f32_odd"(2, [32, 8, 1], 0): 4 * 33 * 17, 4 * 17 * 65, 4 * 33 * 65;
        "mm_f16"(8, [128, 1, 1], 48 << 10): 2 * a, 2 * b, 4 * c;
        "mm_f16_f16"(8, [128, 1, 1], 48 << 10): 2 * a, 2 * b, 2 * c;
        "mm_bf16"(8, [128, 1, 1], 48 << 10): 2 * a, 2 * b, 4 * c;
        "mm_i8"(8, [32, 8, 1], 0): a, b, 4 * c;
        "softmax_f32"(16, [32, 1, 1], 0): 4 * 16 * 1000, 4 * 16 * 1000;
        "red_addf_f32"(64, [256, 1, 1], 256): 4 * 64 * 1024, 4 * 64;
        "ew_divf_f32"(32, [32, 1, 1], 0): 4000, 4000, 4000;
        "ew_exp_f32"(32, [32, 1, 1], 0): 4000, 4000;
        "ew_divsi_i64"(32, [32, 1, 1], 0): 8 * 1003, 8 * 1003, 8 * 1003;
        "transpose"(12, [8, 32, 1], 8192): 4 * 128 * 96, 4 * 128 * 96;
    }
}
