//! The start of the process, in place of that of Rust's standard library: it reads the memory map of the process to
//! find the end of the stack, for a message when that overflows, which takes a twentieth of the time in which a small
//! model is loaded and run. What else it does is here.
#![expect(unsafe_code, reason = "the C library calls `main` by its name, and has what it does")]

use std::ffi::{c_char, c_int};
use std::io::{self, Write};

/// Bytes by which the heap grows. The C library would ask the system for 128 KiB several times until the
/// arguments are parsed.
const HEAP_STEP: c_int = 384 << 10;

/// Blocks of at least so many bytes are mapped by the system, and unmapped when they are freed. To a program that
/// allocates a buffer at each call, the system would hand zeroed pages each time, one fault a page; from the heap, it
/// gets the same memory again. The C library raises its limit to this one when such blocks are freed, but no longer
/// does so once any of these settings is given.
const MAPPED_BLOCK: c_int = 32 << 20;

/// As the C library has it for that limit: the heap keeps so many free bytes at its end.
const HEAP_SLACK: c_int = 2 * MAPPED_BLOCK;

// SAFETY: this is the signature of C. The standard library finds the arguments by itself, before `main`.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    open_standard_streams();
    // SAFETY: nothing runs yet that the heap or a signal handler could belong to. Writes to a pipe without a reader
    // give an error instead of a signal, as in all programs in Rust.
    unsafe {
        libc::mallopt(libc::M_TOP_PAD, HEAP_STEP);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BLOCK);
        libc::mallopt(libc::M_TRIM_THRESHOLD, HEAP_SLACK);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    // A panic must not leave a function of C: the process would abort.
    let exit = vireo_cli::exit_code(vireo_cli::main);
    // Commands that need to know whether the output arrived have flushed it before.
    let _ = io::stdout().flush();
    exit
}

/// Opens `/dev/null` where the process was started without standard input, output or error. A file that is opened would
/// take its place.
fn open_standard_streams() {
    let mut streams = [0, 1, 2].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
    // SAFETY: the array has three entries.
    if unsafe { libc::poll(streams.as_mut_ptr(), 3, 0) } < 0 {
        return;
    }
    for _ in streams.iter().filter(|stream| stream.revents & libc::POLLNVAL != 0) {
        // SAFETY: the path is a string of C. The system takes the lowest number that is free, and the streams are in
        // their order.
        unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
    }
}
