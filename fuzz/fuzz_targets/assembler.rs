//! The fuzz target of the assembler: it refuses a text or writes a well-formed file, and a module that verifies is the same after a round trip
//! through text.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../runtime/tests/support/texts.rs"]
mod texts;

fuzz_target!(|text: &str| {
    texts::round_trip(text);
});
