//! Loops that divide what they count with: they run in strips in which no quotient changes, with the results, the fuel
//! and the traps that they have in the interpreter.

use vireo::Fuel;
use vireo::asm::assemble;
use vireo::interp::{CodeShape, DispatchMode, Limits, verify_between_passes};
use vireo::vm::{Buffer, Context, Module, Obj, Value};

use super::has_lanes;
use super::skip::{Need, skipped};

/// `for i in start..bound { q = i floordiv d; r = i floormod d; out[q * 64 + r] += scale[q] }`, and the same for three
/// dimensions, where `q = i / (d * e)`, `r = i % (d * e) / e` and `s = i % e`: `out[q * 256 + r * 32 + s] += scale[r]`.
const DIVIDES: &str = "
vm.module @m version 0
vm.type i32
vm.type i64
vm.type !vm.buffer

vm.export @two
vm.func @two(%r0: !vm.buffer, %r1: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64, %i6:7: i64) -> () {
^bb0:
  %i10:11 = vm.const.i64.zero
  %i12:13 = vm.const.i64 1
  %i14:15 = vm.const.i64 -1
  %i16:17 = vm.const.i64 64
  vm.br ^bb1()
^bb1:
  %i18 = vm.cmp.lt.i64.s %i0:1, %i2:3
  vm.cond_br %i18, ^bb2(), ^bb3()
^bb2:
  %i20:21 = vm.div.i64.s %i0:1, %i4:5
  %i22:23 = vm.mul.i64 %i20:21, %i4:5
  %i18 = vm.cmp.ne.i64 %i0:1, %i22:23
  %i24 = vm.cmp.lt.i64.s %i0:1, %i10:11
  %i25 = vm.cmp.lt.i64.s %i4:5, %i10:11
  %i25 = vm.cmp.ne.i32 %i24, %i25
  %i25 = vm.and.i32 %i18, %i25
  %i26:27 = vm.add.i64 %i20:21, %i14:15
  %i20:21 = vm.select.i64 %i25 ? %i26:27 : %i20:21
  %i22:23 = vm.rem.i64.s %i0:1, %i4:5
  %i18 = vm.cmp.lt.i64.s %i22:23, %i10:11
  %i26:27 = vm.add.i64 %i22:23, %i4:5
  %i22:23 = vm.select.i64 %i18 ? %i26:27 : %i22:23
  %i22:23 = vm.fma.i64 %i20:21, %i16:17, %i22:23
  %i24 = vm.buffer.load.i32 %r0, %i22:23
  %i25 = vm.buffer.load.i32 %r1, %i20:21
  %i24 = vm.add.i32 %i24, %i25
  vm.buffer.store.i32 %i24, %r0, %i22:23
  %i0:1 = vm.add.i64 %i0:1, %i12:13
  vm.br ^bb1()
^bb3:
  vm.return
}

vm.export @three
vm.func @three(%r0: !vm.buffer, %r1: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64, %i6:7: i64) -> () {
^bb0:
  %i12:13 = vm.const.i64 1
  %i14:15 = vm.const.i64 256
  %i16:17 = vm.const.i64 32
  vm.br ^bb1()
^bb1:
  %i18 = vm.cmp.lt.i64.s %i0:1, %i2:3
  vm.cond_br %i18, ^bb2(), ^bb3()
^bb2:
  %i8:9 = vm.mul.i64 %i4:5, %i6:7
  %i20:21 = vm.div.i64.s %i0:1, %i8:9
  %i22:23 = vm.rem.i64.s %i0:1, %i8:9
  %i22:23 = vm.div.i64.u %i22:23, %i6:7
  %i24:25 = vm.rem.i64.s %i0:1, %i6:7
  %i24:25 = vm.fma.i64 %i20:21, %i14:15, %i24:25
  %i24:25 = vm.fma.i64 %i22:23, %i16:17, %i24:25
  %i26 = vm.buffer.load.i32 %r0, %i24:25
  %i27 = vm.buffer.load.i32 %r1, %i22:23
  %i26 = vm.add.i32 %i26, %i27
  vm.buffer.store.i32 %i26, %r0, %i24:25
  %i0:1 = vm.add.i64 %i0:1, %i12:13
  vm.br ^bb1()
^bb3:
  vm.return
}
";

const NAMES: [&str; 2] = ["two", "three"];

/// Calls a function on both tiers. Gives the status if there is one, the fuel that was used, and the memory, which are
/// the same.
fn on_both(context: &Context, name: &str, numbers: [i64; 4], fuel: u64) -> (Option<String>, u64, Vec<u8>) {
    let function = context.function(name).expect("it is exported");
    let scale: Vec<u8> = (1..=64_u32).flat_map(u32::to_le_bytes).collect();
    let [expected, actual] = [DispatchMode::Loop, DispatchMode::Compiled].map(|dispatch| {
        let buffer = |bytes: &[u8]| Obj::new(Buffer::copy_of(bytes).expect("there is memory"));
        let (out, scale, fuel) = (buffer(&[0; 4 * 2048]), buffer(&scale), Fuel::new(fuel));
        let mut args = vec![Value::Ref(Some(out.clone().into_ref())), Value::Ref(Some(scale.into_ref()))];
        args.extend(numbers.map(Value::I64));
        let limits = Limits { dispatch, fuel: Some(fuel.clone()), ..Limits::default() };
        let failure = function.call_with(&args, limits).err().map(|status| status.to_string());
        (failure, fuel.used(), out.to_vec())
    });
    assert!(actual == expected, "{name} {numbers:?}, fuel {fuel}: {:?} and {:?}", actual.0, expected.0);
    actual
}

fn context() -> Context {
    let module = Module::from_bytes(&assemble(DIVIDES).expect("it is a program")).expect("it is a module");
    Context::new([module]).expect("it needs nothing")
}

#[test]
fn loops_that_divide_their_counter_become_vectors() {
    let module = Module::from_bytes(&assemble(DIVIDES).expect("it is a program")).expect("it is a module");
    for (ordinal, name) in NAMES.into_iter().enumerate() {
        let Ok(Some(compiled)) = module.compiled(ordinal) else {
            skipped(Need::Platform("x86_64"), "there is no machine code in this build");
            return;
        };
        if !has_lanes(8) {
            return skipped(Need::Processor("avx2"), "there are no vectors");
        }
        let stores = compiled.parts.iter().filter(|part| part.text.contains("StoreLanes")).count();
        assert!(stores >= 4, "{name} stores {stores} vectors");
    }
}

/// `for i in start..bound { out[i % e * 256 + i / (d * e) * 32 + i % (d * e) / e] += a[i] }` for `d` of 9 and `e` of an
/// argument: the columns are far apart, so the rows become lanes.
const RECTANGLES: &str = "
vm.module @m version 0
vm.type i32
vm.type i64
vm.type !vm.buffer

vm.export @three
vm.func @three(%r0: !vm.buffer, %r1: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64, %i6:7: i64) -> () {
^bb0:
  %i8:9 = vm.const.i64.zero
  %i12:13 = vm.const.i64 1
  %i14:15 = vm.const.i64 256
  %i16:17 = vm.const.i64 32
  %i28:29 = vm.const.i64 9
  %i32:33 = vm.const.i64 2
  vm.br ^bb1()
^bb1:
  %i18 = vm.cmp.lt.i64.s %i8:9, %i2:3
  vm.cond_br %i18, ^bb2(), ^bb3()
^bb2:
  %i30:31 = vm.mul.i64 %i6:7, %i28:29
  %i20:21 = vm.div.i64.s %i8:9, %i30:31
  %i22:23 = vm.rem.i64.s %i8:9, %i30:31
  %i22:23 = vm.div.i64.s %i22:23, %i6:7
  %i24:25 = vm.rem.i64.s %i8:9, %i6:7
  %i24:25 = vm.mul.i64 %i24:25, %i14:15
  %i24:25 = vm.fma.i64 %i20:21, %i16:17, %i24:25
  %i24:25 = vm.add.i64 %i24:25, %i22:23
  %i26 = vm.buffer.load.i32 %r0, %i24:25
  %i22:23 = vm.mul.i64 %i22:23, %i32:33
  %i27 = vm.buffer.load.i32 %r1, %i22:23
  %i26 = vm.add.i32 %i26, %i27
  vm.buffer.store.i32 %i26, %r0, %i24:25
  %i8:9 = vm.add.i64 %i8:9, %i12:13
  vm.br ^bb1()
^bb3:
  vm.return
}
";

#[test]
fn rows_of_rectangles_with_as_many_columns_as_an_argument_says_become_lanes() {
    verify_between_passes();
    let mut module = Module::from_bytes(&assemble(RECTANGLES).expect("it is a program")).expect("it is a module");
    // Vectors of sixteen lanes gather every other element where they have a mask.
    module.set_code_shape(CodeShape { max_lanes: 8, ..CodeShape::default() });
    if let (Ok(Some(compiled)), true) = (module.compiled(0), has_lanes(8)) {
        let count = |what: &str| compiled.parts.iter().filter(|part| part.text.contains(what)).count();
        // Nine rows are a vector and a masked one, or one with a mask; every other element is loaded to either, and no
        // element is gathered.
        assert!(
            count("StoreLanes") >= 1 && count("LoadEven") >= 1 && count("Gather") == 0,
            "{:?}",
            count("StoreLanes")
        );
    } else {
        skipped(Need::Processor("avx2"), "there are no vectors");
    }
    let context = Context::new([module]).expect("it needs nothing");
    for columns in [1, 2, 7, 8, 0, -3, i64::MAX] {
        for bound in [0, 9, 63, 64, 72, 126, 144, 145] {
            for fuel in [u64::MAX, 100, 125] {
                on_both(&context, "three", [0, bound, 0, columns], fuel);
            }
        }
    }
    let (failure, used, memory) = on_both(&context, "three", [0, 126, 0, 7], u64::MAX);
    assert_eq!((failure, used), (None, 126));
    for index in 0..126 {
        let at = 4 * (index % 7 * 256 + index / 63 * 32 + index % 63 / 7);
        assert_eq!(memory[at..at + 4], (2 * (index as u32 % 63 / 7) + 1).to_le_bytes(), "element {index}");
    }
}

#[test]
fn strips_compute_what_the_loop_does() {
    verify_between_passes();
    let context = context();
    let divisors = [8, 9, 16, 17, 31, 64, 7, 1, 0, -1, -8, 1 << 31, i64::MAX, i64::MIN];
    for name in NAMES {
        for divisor in divisors {
            for other in [1, 2, 8, 11, 32, 0, -2] {
                for (start, bound) in [(0, 0), (0, 5), (0, 8), (0, 100), (3, 200), (63, 128), (-9, 40), (-40, -3)] {
                    on_both(&context, name, [start, bound, divisor, other], u64::MAX);
                }
            }
        }
    }
    // Quotients and remainders of 16, with a row of 64 elements for each quotient.
    let (failure, used, memory) = on_both(&context, "two", [0, 100, 16, 0], u64::MAX);
    assert_eq!((failure, used), (None, 100));
    for index in 0..100 {
        let at = 4 * (index / 16 * 64 + index % 16);
        assert_eq!(memory[at..at + 4], (index as u32 / 16 + 1).to_le_bytes(), "element {index}");
    }
    let (failure, used, memory) = on_both(&context, "three", [0, 400, 5, 20], u64::MAX);
    assert_eq!((failure, used), (None, 400));
    for index in 0..400 {
        let at = 4 * (index / 100 * 256 + index % 100 / 20 * 32 + index % 20);
        assert_eq!(memory[at..at + 4], (index as u32 % 100 / 20 + 1).to_le_bytes(), "element {index}");
    }
}

#[test]
fn fuel_ends_in_the_middle_of_strips() {
    verify_between_passes();
    let context = context();
    for (name, divisor, other) in [("two", 9, 0), ("two", 16, 0), ("two", 33, 0), ("three", 3, 12), ("three", 2, 16)] {
        for fuel in 0..=101 {
            let (failure, used, _) = on_both(&context, name, [0, 100, divisor, other], fuel);
            assert_eq!((failure.is_some(), used), (fuel < 100, fuel.min(100)), "{name} by {divisor} with {fuel} steps");
        }
    }
}

#[test]
fn strips_trap_where_the_loop_does() {
    verify_between_passes();
    let context = context();
    // The row of quotient 32 is past the end of what is stored to.
    let (failure, used, _) = on_both(&context, "two", [0, 1000, 16, 0], u64::MAX);
    assert!(failure.is_some_and(|failure| failure.contains("OUT_OF_RANGE")) && used == 512, "{used}");
    let (failure, used, _) = on_both(&context, "two", [5, 100, 0, 0], u64::MAX);
    assert!(failure.is_some_and(|failure| failure.contains("INVALID_ARGUMENT")) && used == 0);
}

/// `for i in start..bound { q = i / d; out[512 + q] = q }`, where the header adds one to `out[i]` before it tests.
const STORES_IN_HEADER: &str = "
vm.module @m version 0
vm.type i32
vm.type i64
vm.type !vm.buffer

vm.export @header
vm.func @header(%r0: !vm.buffer, %r1: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64, %i6:7: i64) -> () {
^bb0:
  %i8:9 = vm.const.i64 1
  %i10 = vm.const.i32 1
  %i12:13 = vm.const.i64 512
  vm.br ^bb1()
^bb1:
  %i11 = vm.buffer.load.i32 %r0, %i0:1
  %i11 = vm.add.i32 %i11, %i10
  vm.buffer.store.i32 %i11, %r0, %i0:1
  %i18 = vm.cmp.lt.i64.s %i0:1, %i2:3
  vm.cond_br %i18, ^bb2(), ^bb3()
^bb2:
  %i20:21 = vm.div.i64.s %i0:1, %i4:5
  %i22:23 = vm.add.i64 %i20:21, %i12:13
  %i11 = vm.trunc.i64.i32 %i20:21
  vm.buffer.store.i32 %i11, %r0, %i22:23
  %i0:1 = vm.add.i64 %i0:1, %i8:9
  vm.br ^bb1()
^bb3:
  vm.return
}
";

#[test]
fn headers_that_store_run_once_for_each_iteration() {
    verify_between_passes();
    let module = Module::from_bytes(&assemble(STORES_IN_HEADER).expect("it is a program")).expect("it is a module");
    let context = Context::new([module]).expect("it needs nothing");
    for divisor in [1, 2, 8, 9, 16, 100] {
        for (start, bound) in [(0, 0), (0, 8), (0, 100), (3, 99)] {
            let (failure, used, memory) = on_both(&context, "header", [start, bound, divisor, 0], u64::MAX);
            assert_eq!((failure, used), (None, (bound - start) as u64));
            for index in start as usize..=bound as usize {
                assert_eq!(
                    memory[4 * index..][..4],
                    1_u32.to_le_bytes(),
                    "element {index} of {start}..{bound} by {divisor}"
                );
            }
        }
    }
}
