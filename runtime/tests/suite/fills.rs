//! Buffers that are filled as soon as they are allocated are not zeroed first by machine code; all others are.

use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits, Tier};
use vireo::vm::{Context, Module, Value};

/// Leaves memory that is no zeros to the allocator, then allocates a buffer of `%i2:3 = 4 * %i0` bytes as the text
/// says, which may fill `%i0` elements, and adds up what is in it.
fn program(text: &str) -> String {
    format!(
        "vm.module @m version 0
vm.type !vm.buffer
vm.export @f
vm.func @f(%i0:1: i64) -> (i32) {{
^bb0:
  %i2:3 = vm.const.i64 4
  %i2:3 = vm.mul.i64 %i0:1, %i2:3
  %i4 = vm.const.i32 16
  %i6:7 = vm.const.i64.zero
  %i8:9 = vm.const.i64.zero
  %i10 = vm.const.i32 65537
  %r0 = vm.buffer.alloc %i2:3, %i4
  vm.buffer.fill.i32 %r0, %i6:7, %i0:1, %i10
  vm.discard.refs %r0
{text}  %i12:13 = vm.const.i64 1
  %i11 = vm.const.i32.zero
  %i6:7 = vm.const.i64.zero
  %i2:3 = vm.buffer.length %r0
  %i4 = vm.const.i32 2
  %i2:3 = vm.shr.i64.u %i2:3, %i4
  vm.br ^bb1()
^bb1:
  %i4 = vm.cmp.lt.i64.u %i6:7, %i2:3
  vm.cond_br %i4, ^bb2(), ^bb3()
^bb2:
  %i4 = vm.buffer.load.i32 %r0, %i6:7
  %i11 = vm.add.i32 %i11, %i4
  %i6:7 = vm.add.i64 %i6:7, %i12:13
  vm.br ^bb1()
^bb3:
  vm.return %i11
}}
"
    )
}

/// The result of the program for a number of elements, on all tiers, and whether machine code leaves zeroing out the
/// second time.
fn outcome(text: &str, elements: i64) -> (Result<i32, String>, bool) {
    let module = Module::from_bytes(&assemble(&program(text)).unwrap_or_else(|error| panic!("{error}"))).unwrap();
    let left_out = module.compiled(0).ok().flatten().map(|compiled| {
        compiled.parts.iter().filter(|part| part.text.starts_with("allocate without zeroing at op")).count()
    });
    let context = Context::new([module]).unwrap();
    let call = |dispatch| {
        let limits = Limits { dispatch, ..Limits::default() };
        match context.function("f").unwrap().call_with(&[Value::I64(elements)], limits) {
            Ok(values) => {
                let [Value::I32(sum)] = values[..] else { panic!("{values:?}") };
                Ok(sum)
            }
            Err(status) => Err(status.to_string()),
        }
    };
    let expected = call(DispatchMode::Loop);
    for dispatch in [DispatchMode::Threaded, DispatchMode::Compiled, DispatchMode::Compiled] {
        if dispatch != DispatchMode::Compiled || Tier::Compiled.check().is_ok() {
            assert_eq!(call(dispatch), expected, "{text}");
        }
    }
    (expected, left_out.is_some_and(|count| count == 2))
}

const ALLOC: &str = "  %i2:3 = vm.const.i64 4\n  %i2:3 = vm.mul.i64 %i0:1, %i2:3\n  %r0 = vm.buffer.alloc %i2:3, %i4\n";
const ELEMENTS: i64 = 1000;

#[test]
fn what_is_filled_from_end_to_end_is_not_zeroed() {
    for fill in [
        "  vm.buffer.fill.i32 %r0, %i8:9, %i0:1, %i10\n",
        "  %i8:9 = vm.const.i64.zero\n  vm.buffer.fill.f32 %r0, %i8:9, %i0:1, %i10\n",
        "  %i8:9 = vm.const.i64 7\n  %i8:9 = vm.const.i64.zero\n  vm.buffer.fill.i8 %r0, %i8:9, %i2:3, %i10\n",
    ] {
        let (_, left_out) = outcome(&format!("{ALLOC}{fill}"), ELEMENTS);
        assert!(left_out || Tier::Compiled.check().is_err(), "{fill}");
    }
    assert_eq!(outcome(&format!("{ALLOC}  vm.buffer.fill.i32 %r0, %i8:9, %i0:1, %i10\n"), 3).0, Ok(3 * 65537));
}

#[test]
fn all_else_is() {
    for fill in [
        "",
        "  %i8:9 = vm.const.i64 1\n  vm.buffer.fill.i32 %r0, %i8:9, %i8:9, %i10\n",
        "  %i0:1 = vm.const.i64 5\n  vm.buffer.fill.i32 %r0, %i8:9, %i0:1, %i10\n",
        "  vm.buffer.fill.i16 %r0, %i8:9, %i0:1, %i10\n",
        "  %i9 = vm.const.i32 0\n  vm.buffer.fill.i32 %r0, %i8:9, %i0:1, %i10\n",
        "  %r1 = vm.assign.ref %r0\n  vm.buffer.fill.i32 %r1, %i8:9, %i0:1, %i10\n",
    ] {
        let (sum, left_out) = outcome(&format!("{ALLOC}{fill}"), ELEMENTS);
        assert!(sum.is_ok() && !left_out, "{fill}: {sum:?}");
    }
    // The number of bytes wraps around, and the fill finds that there are too few.
    let (sum, _) = outcome(&format!("{ALLOC}  vm.buffer.fill.i32 %r0, %i8:9, %i0:1, %i10\n"), (1 << 62) + 1);
    assert!(sum.is_err_and(|status| status.contains("OUT_OF_RANGE")));
}
