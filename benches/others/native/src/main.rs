//! The programs of `fixtures/bench/vm.vmasm` in Rust, in the same order of loops and of additions:
//! `vireo_bench_harness` has the flags.
//!
//! It is the code of an optimising ahead-of-time compiler for the given processor, so `RUSTFLAGS=-Ctarget-cpu=native`
//! matters. Nothing stops a function once it runs.
//!
//! `--module=FILE` is a shared library whose functions take and return an `i32`.

use std::arch::asm;
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;

use vireo_bench_harness::{Answer, Call, Error, Program, command};

/// The same value, in a register, of which the compiler knows nothing: a loop that counts is one.
#[inline(always)]
fn opaque(value: i32) -> i32 {
    let mut wide = u64::from(value as u32);
    // SAFETY: there are no instructions; the register is written with what is in it.
    unsafe { asm!("/* {0} */", inout(reg) wide, options(pure, nomem, nostack, preserves_flags)) };
    wide as i32
}

#[inline(never)]
fn empty() {
    black_box(());
}

#[inline(never)]
fn count(limit: i32) -> i32 {
    let mut iterations = 0;
    loop {
        iterations = opaque(iterations + 1);
        if iterations >= limit {
            return iterations;
        }
    }
}

#[inline(never)]
fn fib(number: i32) -> i32 {
    if number < 2 { number } else { fib(number - 1).wrapping_add(fib(number - 2)) }
}

#[inline(never)]
fn increment(value: i32) -> i32 {
    opaque(value + 1)
}

#[inline(never)]
fn internal_call(limit: i32) -> i32 {
    let mut iterations = 0;
    loop {
        iterations = increment(iterations);
        if iterations >= limit {
            return iterations;
        }
    }
}

#[inline(never)]
fn buffer_reduce(count: i32) -> i32 {
    let mut elements = vec![0; count as usize];
    elements.fill(1);
    // The compiler does not know that the elements are ones.
    black_box(&mut elements).iter().fold(0, |sum: i32, element| sum.wrapping_add(*element))
}

#[inline(never)]
fn matmul(extent: i32) -> f32 {
    let extent = extent as usize;
    let (a, b) = (vec![1.5; extent * extent], vec![0.5; extent * extent]);
    let mut c = vec![0.0; extent * extent];
    let (a, b): (&[f32], &[f32]) = (black_box(&a), black_box(&b));
    for row in 0..extent {
        for column in 0..extent {
            let mut sum = 0.0;
            for k in 0..extent {
                sum += a[row * extent + k] * b[k * extent + column];
            }
            c[row * extent + column] = sum;
        }
    }
    black_box(&c)[extent * extent - 1]
}

#[inline(never)]
fn sieve(limit: i32) -> i32 {
    let limit = limit as usize;
    let mut crossed = vec![0_u8; limit];
    let mut primes = 0;
    for number in 2..limit {
        if crossed[number] == 0 {
            primes += 1;
            let mut multiple = number * number;
            while multiple < limit {
                crossed[multiple] = 1;
                multiple += number;
            }
        }
    }
    primes
}

/// A function of a shared library, which stays loaded.
fn load_library(file: &Path, name: &str, input: i32) -> Result<Call, Error> {
    // SAFETY: the user names the file, which `benches/programs/build.py` has written, without initialisers.
    let library = unsafe { libloading::Library::new(file.canonicalize()?)? };
    // SAFETY: the functions that such a library exports have this type.
    let function = unsafe { *library.get::<extern "C" fn(i32) -> i32>(name.as_bytes())? };
    Ok(Box::new(move || {
        let _loaded = &library;
        Ok(Answer::I32(function(black_box(input))))
    }))
}

fn load(program: &Program) -> Result<Call, Error> {
    let (name, input) = (program.function.as_str(), program.input);
    if let Some(file) = program.module() {
        return load_library(file, name, input.ok_or("the function takes a number")?);
    }
    if name == "empty" {
        return Ok(Box::new(|| {
            empty();
            Ok(Answer::Nothing)
        }));
    }
    let input = input.filter(|input| *input >= 0).ok_or("the function takes a number that is not negative")?;
    if name == "matmul" {
        return Ok(Box::new(move || Ok(Answer::F32(matmul(black_box(input))))));
    }
    let function: fn(i32) -> i32 = match name {
        "loop" => count,
        "fib" => fib,
        "internal_call" => internal_call,
        "buffer_reduce" => buffer_reduce,
        "sieve" => sieve,
        _ => return Err(format!("there is no function {name}").into()),
    };
    Ok(Box::new(move || Ok(Answer::I32(function(black_box(input))))))
}

/// The widest vectors that the compiler was allowed.
const VECTORS: &str = if cfg!(target_feature = "avx512f") {
    "Rust for AVX-512"
} else if cfg!(target_feature = "avx2") {
    "Rust for AVX2"
} else {
    "Rust for the base architecture"
};

fn main() -> ExitCode {
    command(VECTORS, load)
}
