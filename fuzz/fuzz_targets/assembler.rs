//! Texts: the assembler refuses them or writes a file that is in order; what can be run is the same after a round trip through text.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../runtime/tests/support/texts.rs"]
mod texts;

fuzz_target!(|text: &str| {
    texts::round_trip(text);
});
