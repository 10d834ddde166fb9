//! The command `vireo`. All of it is in the library of this package, since what links decides how all crates are
//! optimised together.
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), no_main)]
#![deny(unsafe_code)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod start;

/// Functions of the system's library of mathematics that dependencies call: a progress bar and the reader of `npy`
/// headers, for estimates. A start is a twentieth shorter without loading that library. The runtime has functions of
/// its own anyway, which give the same results everywhere.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod mathematics {
    #![expect(unsafe_code, reason = "the linker finds functions of C by their names")]

    // SAFETY: these are the signatures of C.
    #[unsafe(no_mangle)]
    extern "C" fn pow(base: f64, exponent: f64) -> f64 {
        libm::pow(base, exponent)
    }

    // SAFETY: this is the signature of C for a function that has no other definition in the command.
    #[unsafe(no_mangle)]
    extern "C" fn log2(value: f64) -> f64 {
        libm::log2(value)
    }
}

#[cfg(no_unwind_tables)]
mod unwinder;

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn main() -> std::process::ExitCode {
    vireo_cli::main().into()
}
