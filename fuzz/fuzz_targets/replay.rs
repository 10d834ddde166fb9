//! The fuzz target `replay` of libFuzzer: `src/targets.rs` says what it does.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vireo_fuzz::{Target, target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| target("replay"));

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
