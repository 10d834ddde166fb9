//! Limits of programs: what is within them runs, and what is not is refused by name.

use std::fmt::Write;

use crate::support::{Buffers, load, run, text};
use vireo_ptx::limits::ROWS;
use vireo_ptx::{LoadErrorKind, Module, Options};

/// A kernel in which this many registers are live at once: each is the number of the thread times an odd number, and
/// their sum is stored.
fn live_registers(count: u32) -> String {
    let mut body = String::new();
    for index in 0..count {
        writeln!(body, "mul.lo.u32 %v{index}, %t, {};", 2 * index + 1).unwrap();
    }
    // The last one first, so that all are there at once.
    for index in (0..count).rev() {
        writeln!(body, "add.u32 %sum, %sum, %v{index};").unwrap();
    }
    text(&format!(
        ".entry k(.param .u64 p) {{ .reg .b32 %v<{count}>; .reg .b32 %t; .reg .b32 %sum; .reg .b64 %rd<4>;\n\
         mov.u32 %t, %tid.x; mov.u32 %sum, 0;\n{body}ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %t, 4;\n\
         add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %sum; ret; }}"
    ))
}

/// A softmax that IREE compiles has 1,057 rows; the limit is far above that.
#[test]
fn a_kernel_has_thousands_of_rows() {
    for count in [1057, 5000, ROWS - 16] {
        let module = load(&live_registers(count));
        let kernel = module.kernel("k").unwrap();
        assert!((count..=ROWS).contains(&kernel.registers()), "{} rows", kernel.registers());
        let mut buffers = Buffers::new();
        let to = buffers.add_words(&[0; 64]);
        run(kernel, &buffers, [1, 1, 1], [64, 1, 1], &[to]).unwrap();
        // The sum of the first odd numbers is a square.
        let factor = count.wrapping_mul(count);
        assert!(buffers.words(to).iter().zip(0..).all(|(sum, thread)| *sum == factor.wrapping_mul(thread)));
    }
}

#[test]
fn more_rows_than_a_warp_may_have_are_refused() {
    let error = Module::load(live_registers(ROWS + 1).as_bytes(), &Options::default()).unwrap_err();
    assert_eq!(error.kind, LoadErrorKind::Unsupported);
    assert!(error.message.contains("rows of registers: expected 16384 at most"), "{error}");
}
