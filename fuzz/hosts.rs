//! Modules whose code the target `function` replaces, chosen by the first byte of its input.

/// They have globals, rodata, types and imports of every kind.
pub static HOSTS: [&[u8]; 4] = [
    include_bytes!("../fixtures/golden/buffer.vmfb"),
    include_bytes!("../fixtures/golden/list.vmfb"),
    include_bytes!("../fixtures/golden/global.vmfb"),
    include_bytes!("../fixtures/golden/call.vmfb"),
];
