//! The modules whose code the target `function` replaces: a few functions each, so that loading them takes little time,
//! together with every op. The first byte of an input chooses one.

use std::sync::LazyLock;

use vireo::asm::assemble;

/// Functions of one module.
const FUNCTIONS: usize = 6;

/// The functions of which modules of several functions that do not call each other are made.
const PIECES: [&str; 11] = [
    include_str!("../../fixtures/golden/buffer.vmasm"),
    include_str!("../../fixtures/golden/compare.vmasm"),
    include_str!("../../fixtures/golden/conversion.vmasm"),
    include_str!("../../fixtures/golden/float32.vmasm"),
    include_str!("../../fixtures/golden/float64.vmasm"),
    include_str!("../../fixtures/golden/global.vmasm"),
    include_str!("../../fixtures/golden/integer.vmasm"),
    include_str!("../../fixtures/golden/integer64.vmasm"),
    include_str!("../../fixtures/golden/list.vmasm"),
    include_str!("../../fixtures/golden/ref.vmasm"),
    include_str!("../../fixtures/golden/select.vmasm"),
];

/// Modules that are small enough, or whose functions call each other.
const WHOLE: [&str; 4] = [
    include_str!("../../fixtures/bench/vm.vmasm"),
    include_str!("../../fixtures/context/app.vmasm"),
    include_str!("../../fixtures/golden/call.vmasm"),
    include_str!("../../fixtures/golden/control.vmasm"),
];

/// The module files.
pub static HOSTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let whole = WHOLE.iter().map(|text| assemble(text).expect("a fixture"));
    whole.chain(PIECES.iter().flat_map(|text| pieces(text))).collect()
});

/// Modules with the declarations of `text` and a few of its functions. Functions that need others are left out.
fn pieces(text: &str) -> Vec<Vec<u8>> {
    let mut parts = text.split("\nvm.export ");
    let declarations = parts.next().unwrap_or_default();
    let functions: Vec<&str> = parts.collect();
    let module =
        |functions: &[&str]| assemble(&format!("{declarations}\nvm.export {}", functions.join("\nvm.export ")));
    functions.chunks(FUNCTIONS).filter_map(|chunk| module(chunk).ok()).collect()
}
