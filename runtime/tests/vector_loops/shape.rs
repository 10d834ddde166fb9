//! Which loops become vectors, and what is known after them.

use vireo::asm::assemble;
use vireo::interp::{CodeShape, DispatchMode, Limits, verify_between_passes};
use vireo::vm::{Buffer, Context, Module, Obj, Value};

use super::has_lanes;
use super::skip::{Need, skipped};
use super::wide::widened;

/// A loop whose test is needed where code is left after it, and nowhere else.
const TEST_BEHIND: &str = "
vm.module @m version 0
vm.type i32
vm.type i64
vm.type !vm.buffer

vm.export @f
vm.func @f(%r0: !vm.buffer, %i0:1: i64) -> (i32) {
^bb0:
  %i2:3 = vm.const.i64 0
  %i4:5 = vm.const.i64 1
  %i6 = vm.const.i32 7
  vm.br ^bb1()
^bb1:
  %i7 = vm.cmp.lt.i64.s %i2:3, %i0:1
  vm.cond_br %i7, ^bb2(), ^bb3()
^bb2:
  vm.buffer.store.i32 %i6, %r0, %i2:3
  %i2:3 = vm.add.i64 %i2:3, %i4:5
  vm.br ^bb1()
^bb3:
  vm.return %i7
}
";

#[test]
fn the_test_of_a_vector_loop_is_known_after_it() {
    verify_between_passes();
    let module = Module::from_bytes(&assemble(TEST_BEHIND).expect("it is a program")).expect("it is a module");
    let context = Context::new([module]).expect("it needs nothing");
    let function = context.function("f").expect("it is exported");
    for length in [0_i64, 1, 7, 8, 64, 100, 128] {
        for dispatch in [DispatchMode::Loop, DispatchMode::Compiled] {
            let buffer = Obj::new(Buffer::copy_of(&[0; 512]).expect("there is memory"));
            let args = [Value::Ref(Some(buffer.into_ref())), Value::I64(length)];
            let results = function.call_with(&args, Limits { dispatch, ..Limits::default() }).expect("it succeeds");
            assert_eq!(format!("{results:?}"), "[I32(0)]", "{length} elements, {dispatch:?}");
        }
    }
}

#[test]
fn products_and_sums_become_vectors() {
    let mut module = Module::from_bytes(include_bytes!("../../../fixtures/bench/vm.vmfb")).expect("it is a module");
    for lanes in [16, 8] {
        if !has_lanes(lanes) {
            let needed = if lanes == 16 { "avx512dq" } else { "avx2" };
            skipped(Need::Processor(needed), format_args!("there are no vectors of {lanes} lanes"));
            continue;
        }
        module.set_code_shape(CodeShape { max_lanes: lanes, ..CodeShape::default() });
        for name in ["matmul", "buffer_reduce"] {
            let ordinal = (0..module.functions().len()).find(|ordinal| module.function_name(*ordinal) == name);
            let Ok(Some(compiled)) = module.compiled(ordinal.expect("it is there")) else {
                skipped(Need::Platform("x86_64"), "there is no machine code in this build");
                return;
            };
            let register = if lanes == 16 { "zmm" } else { "ymm" };
            let is_load = |text: &str| text.contains("LoadLanes") && text.contains(register);
            let loads = compiled.parts.iter().filter(|part| is_load(&part.text)).count();
            assert!(loads >= 4, "{name} loads {loads} vectors of {lanes} lanes");
        }
    }
}

/// The greatest of a window of rows, as a pooling computes it, which `ROWS` rows make.
const WINDOW: &str = "
vm.module @m version 0
vm.type f32
vm.type i64
vm.type !vm.buffer

vm.export @f
vm.func @f(%r0: !vm.buffer, %r1: !vm.buffer, %i0:1: i64) -> () {
^bb0:
  %i2:3 = vm.const.i64 ROWS
  %i4:5 = vm.const.i64 1
  %i6:7 = vm.const.i64.zero
  %i8:9 = vm.const.i64 200
  vm.br ^bb1()
^bb1:
  %i10 = vm.cmp.lt.i64.s %i6:7, %i0:1
  vm.cond_br %i10, ^bb2(), ^bb5()
^bb2:
  %i12:13 = vm.const.i64.zero
  vm.br ^bb3()
^bb3:
  %i10 = vm.cmp.lt.i64.s %i12:13, %i2:3
  vm.cond_br %i10, ^bb4(), ^bb6()
^bb4:
  %i14:15 = vm.fma.i64 %i12:13, %i8:9, %i6:7
  %i16 = vm.buffer.load.f32 %r1, %i14:15
  %i17 = vm.buffer.load.f32 %r0, %i6:7
  %i17 = vm.max.f32 %i17, %i16
  vm.buffer.store.f32 %i17, %r0, %i6:7
  %i12:13 = vm.add.i64 %i12:13, %i4:5
  vm.br ^bb3()
^bb6:
  %i6:7 = vm.add.i64 %i6:7, %i4:5
  vm.br ^bb1()
^bb5:
  vm.return
}
";

#[test]
fn a_few_iterations_of_an_inner_loop_are_no_loop() {
    if !has_lanes(8) {
        return skipped(Need::Processor("avx2"), "there are no vectors of eight lanes");
    }
    for (rows, expected) in [(3, "1"), (40, "2")] {
        let text = WINDOW.replace("ROWS", &rows.to_string());
        let module = Module::from_bytes(&assemble(&text).expect("it is a program")).expect("it is a module");
        let Ok(Some(compiled)) = module.compiled(0) else {
            return skipped(Need::Platform("x86_64"), "there is no machine code in this build");
        };
        let (mut depth, mut deepest) = (String::new(), String::new());
        for part in &compiled.parts {
            match part.text.rsplit_once("depth ") {
                Some((_, inside)) if part.begins_block => depth = inside.to_string(),
                _ if part.text.contains("LoadLanes") => deepest = deepest.max(depth.clone()),
                _ => {}
            }
        }
        assert_eq!(deepest, expected, "vectors of {rows} rows are loaded at this depth of loops");
    }
}

/// A product with a transposed matrix: rows of 40 elements.
const TRANSPOSED: &str = "
vm.module @m version 0
vm.type f32
vm.type i64
vm.type !vm.buffer

vm.export @f
vm.func @f(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, %i0:1: i64, %i2:3: i64) -> () {
^bb0:
  %i4:5 = vm.const.i64 40
  %i6:7 = vm.const.i64 1
  %i8:9 = vm.const.i64.zero
  vm.br ^bb1()
^bb1:
  %i10 = vm.cmp.lt.i64.s %i8:9, %i0:1
  vm.cond_br %i10, ^bb2(), ^bb6()
^bb2:
  %i12:13 = vm.const.i64.zero
  vm.br ^bb3()
^bb3:
  %i10 = vm.cmp.lt.i64.s %i12:13, %i2:3
  vm.cond_br %i10, ^bb4(), ^bb5()
^bb4:
  %i14:15 = vm.fma.i64 %i8:9, %i4:5, %i12:13
  %i16 = vm.buffer.load.f32 %r1, %i12:13
  %i17 = vm.buffer.load.f32 %r2, %i14:15
  %i18 = vm.buffer.load.f32 %r0, %i8:9
  %i18 = vm.fma.f32 %i16, %i17, %i18
  vm.buffer.store.f32 %i18, %r0, %i8:9
  %i12:13 = vm.add.i64 %i12:13, %i6:7
  vm.br ^bb3()
^bb5:
  %i8:9 = vm.add.i64 %i8:9, %i6:7
  vm.br ^bb1()
^bb6:
  vm.return
}
";

#[test]
fn rows_are_loaded_and_transposed() {
    let mut module = Module::from_bytes(&assemble(TRANSPOSED).expect("it is a program")).expect("it is a module");
    for lanes in [16, 8] {
        if !has_lanes(lanes) {
            let needed = if lanes == 16 { "avx512dq" } else { "avx2" };
            skipped(Need::Processor(needed), format_args!("there are no vectors of {lanes} lanes"));
            continue;
        }
        module.set_code_shape(CodeShape { max_lanes: lanes, ..CodeShape::default() });
        let Ok(Some(compiled)) = module.compiled(0) else {
            skipped(Need::Platform("x86_64"), "there is no machine code in this build");
            return;
        };
        let count = |what: &str| compiled.parts.iter().filter(|part| part.text.contains(what)).count();
        // Four rows at a time, and the rest of the inner loop one by one; in a vector with a mask all of it.
        assert_eq!((count("LoadRows"), count("Gather")), (4, 2), "{lanes} lanes");
        // The common factor of all rows is loaded to all lanes, and no register is splat.
        assert!(count("LoadSplat") >= 6 && count(" = Splat") <= 1, "{lanes} lanes: {} loads", count("LoadSplat"));
    }
}

#[test]
fn wide_rows_are_loaded_and_transposed() {
    let bytes = assemble(&widened(TRANSPOSED, None)).expect("it is a program");
    let mut module = Module::from_bytes(&bytes).expect("it is a module");
    if !has_lanes(8) {
        skipped(Need::Processor("avx2"), "there are no vectors of four lanes");
        return;
    }
    // Lanes of 64 bits are those of AVX2, whatever else there is.
    for lanes in [16, 8] {
        module.set_code_shape(CodeShape { max_lanes: lanes, ..CodeShape::default() });
        let Ok(Some(compiled)) = module.compiled(0) else {
            skipped(Need::Platform("x86_64"), "there is no machine code in this build");
            return;
        };
        let count = |what: &str| compiled.parts.iter().filter(|part| part.text.contains(what)).count();
        assert_eq!((count("LoadRows"), count("Gather"), count("zmm")), (4, 2, 0), "{lanes} lanes");
        assert!(count("LoadSplat(LoadF64") >= 6 && count(" = Splat") <= 1, "{lanes} lanes: {}", count("LoadSplat"));
        assert!(count("ymm") > 20, "{lanes} lanes");
    }
}

/// `sum[0] = 0; for i in 0..256 { sum[0] += exp(a[i]) }`: without an OSR entry, the base of the sum is known before the
/// loop.
const SUM: &str = "
vm.module @m version 0
vm.type f32
vm.type i64
vm.type !vm.buffer

vm.export @f
vm.func @f(%r0: !vm.buffer, %r1: !vm.buffer) -> () {
^bb0:
  %i0:1 = vm.const.i64 256
  %i2:3 = vm.const.i64 1
  %i4:5 = vm.const.i64.zero
  %i6:7 = vm.const.i64.zero
  %i8 = vm.const.f32.zero
  vm.buffer.store.f32 %i8, %r0, %i4:5
  vm.br ^bb1()
^bb1:
  %i8 = vm.cmp.lt.i64.s %i6:7, %i0:1
  vm.cond_br %i8, ^bb2(), ^bb3()
^bb2:
  %i8 = vm.buffer.load.f32 %r1, %i6:7
  %i9 = vm.buffer.load.f32 %r0, %i4:5
  %i8 = vm.exp.f32 %i8
  %i9 = vm.add.f32 %i8, %i9
  vm.buffer.store.f32 %i9, %r0, %i4:5
  %i6:7 = vm.add.i64 %i6:7, %i2:3
  vm.br ^bb1()
^bb3:
  vm.return
}
";

#[test]
fn a_sum_that_is_stored_before_the_loop_becomes_vectors() {
    if !has_lanes(8) {
        skipped(Need::Processor("avx2"), "there are no vectors of eight lanes");
        return;
    }
    for osr_entries in [true, false] {
        let mut module = Module::from_bytes(&assemble(SUM).expect("it is a program")).expect("it is a module");
        module.set_code_shape(CodeShape { max_lanes: 8, osr_entries, ..CodeShape::default() });
        let Ok(Some(compiled)) = module.compiled(0) else {
            skipped(Need::Platform("x86_64"), "there is no machine code in this build");
            return;
        };
        let calls = compiled.parts.iter().filter(|part| part.text.contains("Lanes(Exp")).count();
        assert!(calls > 0, "OSR entries: {osr_entries}");
    }
}

/// Without OSR entries the outer loop begins at a known number, so nothing is left for vectors of a mask, and there is
/// no entry in the middle.
#[test]
fn kernels_have_no_osr_entries() {
    if !has_lanes(8) {
        skipped(Need::Processor("avx2"), "there are no vectors of eight lanes");
        return;
    }
    let bytes = assemble(RECTANGLE).expect("it is a program");
    let parts = |osr_entries| {
        let mut module = Module::from_bytes(&bytes).expect("it is a module");
        module.set_code_shape(CodeShape { max_lanes: 8, osr_entries, ..CodeShape::default() });
        let compiled = module.compiled(0).expect("it is compiled")?;
        let entries = compiled.parts.iter().filter(|part| part.text.contains("entered at op")).count();
        Some((entries, compiled.parts.len()))
    };
    let (Some((entered, many)), Some((once, few))) = (parts(true), parts(false)) else {
        skipped(Need::Platform("x86_64"), "there is no machine code in this build");
        return;
    };
    assert_eq!((entered, once), (2, 1));
    assert!(few < many, "{few} parts instead of {many}");
}

/// `for i in 0..256 { q = i / 16; r = i % 16; for k in 0..3 { out[r * 16 + q] += a[r * 20 + q + k] } }`, whose columns
/// are consecutive and whose rows are inside.
const RECTANGLE: &str = "
vm.module @m version 0
vm.type f32
vm.type i64
vm.type !vm.buffer

vm.export @f
vm.func @f(%r0: !vm.buffer, %r1: !vm.buffer) -> () {
^bb0:
  %i0:1 = vm.const.i64 256
  %i2:3 = vm.const.i64 16
  %i4:5 = vm.const.i64 20
  %i6:7 = vm.const.i64 1
  %i8:9 = vm.const.i64 3
  %i10:11 = vm.const.i64.zero
  vm.br ^bb1()
^bb1:
  %i30 = vm.cmp.lt.i64.s %i10:11, %i0:1
  vm.cond_br %i30, ^bb2(), ^bb6()
^bb2:
  %i12:13 = vm.div.i64.s %i10:11, %i2:3
  %i14:15 = vm.rem.i64.s %i10:11, %i2:3
  %i16:17 = vm.fma.i64 %i14:15, %i2:3, %i12:13
  %i18:19 = vm.fma.i64 %i14:15, %i4:5, %i12:13
  %i20:21 = vm.const.i64.zero
  vm.br ^bb3()
^bb3:
  %i30 = vm.cmp.lt.i64.s %i20:21, %i8:9
  vm.cond_br %i30, ^bb4(), ^bb5()
^bb4:
  %i22:23 = vm.add.i64 %i18:19, %i20:21
  %i31 = vm.buffer.load.f32 %r1, %i22:23
  %i32 = vm.buffer.load.f32 %r0, %i16:17
  %i32 = vm.add.f32 %i31, %i32
  vm.buffer.store.f32 %i32, %r0, %i16:17
  %i20:21 = vm.add.i64 %i20:21, %i6:7
  vm.br ^bb3()
^bb5:
  %i10:11 = vm.add.i64 %i10:11, %i6:7
  vm.br ^bb1()
^bb6:
  vm.return
}
";

#[test]
fn rectangles_become_vectors_of_columns() {
    verify_between_passes();
    let module = || Module::from_bytes(&assemble(RECTANGLE).expect("it is a program")).expect("it is a module");
    for lanes in [16, 8] {
        if !has_lanes(lanes) {
            let needed = if lanes == 16 { "avx512dq" } else { "avx2" };
            skipped(Need::Processor(needed), format_args!("there are no vectors of {lanes} lanes"));
            continue;
        }
        let mut shaped = module();
        shaped.set_code_shape(CodeShape { max_lanes: lanes, ..CodeShape::default() });
        let Ok(Some(compiled)) = shaped.compiled(0) else {
            skipped(Need::Platform("x86_64"), "there is no machine code in this build");
            return;
        };
        let count = |what: &str| compiled.parts.iter().filter(|part| part.text.contains(what)).count();
        assert!(count("LoadLanes") >= 2 && count("StoreLanes") >= 1, "{lanes} lanes: {} stores", count("StoreLanes"));
        let context = Context::new([shaped]).expect("it needs nothing");
        let [expected, actual] = [DispatchMode::Loop, DispatchMode::Compiled].map(|dispatch| {
            let bytes: Vec<u8> = (0..400).flat_map(|index| ((index * 37 % 101) as f32).to_le_bytes()).collect();
            let [out, from] =
                [&bytes[..1024], &bytes[..]].map(|bytes| Obj::new(Buffer::copy_of(bytes).expect("there is memory")));
            let args = [out.clone(), from].map(|buffer| Value::Ref(Some(buffer.into_ref())));
            let function = context.function("f").expect("it is exported");
            function.call_with(&args, Limits { dispatch, ..Limits::default() }).expect("it succeeds");
            out.to_vec()
        });
        assert!(actual == expected, "memory differs with {lanes} lanes");
    }
}
