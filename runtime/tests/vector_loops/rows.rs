//! Loops of which several iterations are computed together, since they share vectors: what they share, and when they
//! may not.

use vireo::Fuel;
use vireo::asm::assemble;
use vireo::interp::{CodePart, CodeShape, DispatchMode, Limits, verify_between_passes};
use vireo::vm::{Buffer, Context, Module, Obj, Value};

use super::has_lanes;
use super::skip::{Need, skipped};

/// `for i in 0..rows { for j in 0..columns { for k in 0..depth {c[i*distance + j] += a[i*depth + k] * b[k*step + j]}}}`
/// of some constant numbers. `rows` may be an argument.
fn product(rows: Option<i64>, columns: i64, depth: i64) -> Vec<u8> {
    let rows = rows.map_or(String::new(), |rows| format!("%i0:1 = vm.const.i64 {rows}\n"));
    let text = format!(
        "vm.module @m version 0
vm.type i32
vm.type f32
vm.type i64
vm.type !vm.buffer

vm.export @f
vm.func @f(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64) -> () {{
^bb0:
  {rows}  %i6:7 = vm.const.i64 {columns}
  %i8:9 = vm.const.i64 {depth}
  %i10:11 = vm.const.i64 0
  %i12:13 = vm.const.i64 1
  vm.br ^bb1()
^bb1:
  %i14 = vm.cmp.lt.i64.s %i10:11, %i0:1
  vm.cond_br %i14, ^bb2(), ^bb9()
^bb2:
  %i16:17 = vm.const.i64 0
  vm.br ^bb3()
^bb3:
  %i14 = vm.cmp.lt.i64.s %i16:17, %i6:7
  vm.cond_br %i14, ^bb4(), ^bb8()
^bb4:
  %i18:19 = vm.fma.i64 %i10:11, %i2:3, %i16:17
  %i20:21 = vm.const.i64 0
  vm.br ^bb5()
^bb5:
  %i14 = vm.cmp.lt.i64.s %i20:21, %i8:9
  vm.cond_br %i14, ^bb6(), ^bb7()
^bb6:
  %i22:23 = vm.fma.i64 %i10:11, %i8:9, %i20:21
  %i24 = vm.buffer.load.f32 %r1, %i22:23
  %i22:23 = vm.fma.i64 %i20:21, %i4:5, %i16:17
  %i25 = vm.buffer.load.f32 %r2, %i22:23
  %i26 = vm.buffer.load.f32 %r0, %i18:19
  %i24 = vm.fma.f32 %i24, %i25, %i26
  vm.buffer.store.f32 %i24, %r0, %i18:19
  %i20:21 = vm.add.i64 %i20:21, %i12:13
  vm.br ^bb5()
^bb7:
  %i16:17 = vm.add.i64 %i16:17, %i12:13
  vm.br ^bb3()
^bb8:
  %i10:11 = vm.add.i64 %i10:11, %i12:13
  vm.br ^bb1()
^bb9:
  vm.return
}}
"
    );
    assemble(&text).expect("it is a program")
}

/// `for i in 0..rows * columns { for k in 0..depth { c[q * 64 + r] += a[q * depth + k] * b[k * 64 + r] } }`, where
/// `q = i / columns` and `r = i % columns`: a tile of a product, of which rows and columns are arguments. The third one
/// is not used.
fn tile(depth: i64) -> Vec<u8> {
    let text = format!(
        "vm.module @m version 0
vm.type i32
vm.type f32
vm.type i64
vm.type !vm.buffer

vm.export @f
vm.func @f(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64) -> () {{
^bb0:
  %i6:7 = vm.mul.i64 %i0:1, %i2:3
  %i8:9 = vm.const.i64 {depth}
  %i10:11 = vm.const.i64 0
  %i12:13 = vm.const.i64 1
  %i16:17 = vm.const.i64 64
  vm.br ^bb1()
^bb1:
  %i14 = vm.cmp.lt.i64.s %i10:11, %i6:7
  vm.cond_br %i14, ^bb2(), ^bb6()
^bb2:
  %i18:19 = vm.div.i64.s %i10:11, %i2:3
  %i20:21 = vm.rem.i64.s %i10:11, %i2:3
  %i22:23 = vm.fma.i64 %i18:19, %i16:17, %i20:21
  %i24:25 = vm.const.i64 0
  vm.br ^bb3()
^bb3:
  %i14 = vm.cmp.lt.i64.s %i24:25, %i8:9
  vm.cond_br %i14, ^bb4(), ^bb5()
^bb4:
  %i26:27 = vm.fma.i64 %i18:19, %i8:9, %i24:25
  %i28 = vm.buffer.load.f32 %r1, %i26:27
  %i26:27 = vm.fma.i64 %i24:25, %i16:17, %i20:21
  %i29 = vm.buffer.load.f32 %r2, %i26:27
  %i30 = vm.buffer.load.f32 %r0, %i22:23
  %i28 = vm.fma.f32 %i28, %i29, %i30
  vm.buffer.store.f32 %i28, %r0, %i22:23
  %i24:25 = vm.add.i64 %i24:25, %i12:13
  vm.br ^bb3()
^bb5:
  %i10:11 = vm.add.i64 %i10:11, %i12:13
  vm.br ^bb1()
^bb6:
  vm.return
}}
"
    );
    assemble(&text).expect("it is a program")
}

fn module(bytes: &[u8], lanes: u8) -> Module {
    let mut module = Module::from_bytes(bytes).expect("it is a module");
    module.set_code_shape(CodeShape { max_lanes: lanes, ..CodeShape::default() });
    module
}

/// Calls a product with buffers of so many elements and these numbers on both tiers, with vectors of eight and of
/// sixteen lanes. Gives the status if there is one, the fuel that was used, and the bytes of `c`, which are the same.
fn call(bytes: &[u8], lengths: [usize; 3], numbers: [i64; 3], fuel: u64) -> (Option<String>, u64, Vec<u8>) {
    let outcome = |lanes, dispatch| {
        let context = Context::new([module(bytes, lanes)]).expect("it needs nothing");
        let function = context.function("f").expect("it is exported");
        let buffers = lengths.map(|length| {
            let value = |index: usize| ((index * 37 % 101) as f32 * 0.37 - 11.0).to_le_bytes();
            Obj::new(Buffer::copy_of(&(0..length).flat_map(value).collect::<Vec<u8>>()).expect("there is memory"))
        });
        let fuel = Fuel::new(fuel);
        let mut args: Vec<Value> = buffers.iter().map(|buffer| Value::Ref(Some(buffer.clone().into_ref()))).collect();
        args.extend(numbers.map(Value::I64));
        let limits = Limits { dispatch, fuel: Some(fuel.clone()), ..Limits::default() };
        let failure = function.call_with(&args, limits).err().map(|status| status.to_string());
        (failure, fuel.used(), buffers[0].to_vec())
    };
    let expected = outcome(0, DispatchMode::Loop);
    for lanes in [8, 16] {
        let actual = outcome(lanes, DispatchMode::Compiled);
        let what = format!("{numbers:?} with {lanes} lanes and fuel {fuel}");
        assert_eq!((&actual.0, actual.1), (&expected.0, expected.1), "{what}");
        assert!(actual.2 == expected.2, "{what}: memory differs");
    }
    expected
}

#[test]
fn rows_share_vectors() {
    verify_between_passes();
    for (lanes, register) in [(16, "zmm"), (8, "ymm")] {
        if !has_lanes(lanes) {
            let needed = if lanes == 16 { "avx512dq" } else { "avx2" };
            skipped(Need::Processor(needed), format_args!("there are no vectors of {lanes} lanes"));
            continue;
        }
        for bytes in [product(Some(8), 64, 16), tile(16)] {
            let Ok(Some(compiled)) = module(&bytes, lanes).compiled(0) else {
                skipped(Need::Platform("x86_64"), "there is no machine code in this build");
                return;
            };
            // A block with as many products of vectors as four rows have, and a vector for all of them.
            let (mut products, mut loads, mut shares) = (0, 0, false);
            for part in &compiled.parts {
                let text = part.text.as_str();
                if text.starts_with('b') {
                    shares |= loads > 0 && products >= 4 * loads;
                    (products, loads) = (0, 0);
                }
                products += usize::from(text.contains("Lanes(FmulFadd") && text.contains(register));
                loads += usize::from(text.contains("LoadLanes") && text.contains(register));
            }

            assert!(shares, "no vector of {lanes} lanes is shared");
        }
    }
}

#[test]
fn indices_are_added_up_before_the_loop() {
    verify_between_passes();
    if !has_lanes(8) {
        return skipped(Need::Processor("avx2"), "there are no vectors");
    }
    for bytes in [product(Some(8), 64, 16), tile(16)] {
        let Ok(Some(compiled)) = module(&bytes, 8).compiled(0) else {
            return skipped(Need::Platform("x86_64"), "there is no machine code in this build");
        };
        let blocks = compiled.parts.chunk_by(|_, next| !next.begins_block);
        let count = |block: &[CodePart], what: &str| block.iter().filter(|part| part.text.contains(what)).count();
        let mut products = blocks.filter(|block| count(block, "Lanes(FmulFadd") >= 8);
        let block = products.next().expect("there are products of four rows and two vectors");
        let sums = count(block, "Wrapping");
        assert!(sums <= 3, "{sums} sums besides the counter and an index of each operand");
    }
}

#[test]
fn rows_are_computed_as_the_interpreter_does() {
    verify_between_passes();
    for rows in [None, Some(2), Some(3), Some(8), Some(9), Some(14)] {
        for columns in [8, 17, 40] {
            let bytes = product(rows, columns, 7);
            for given in [0, 1, 2, 4, 5, 8, 11] {
                if rows.is_some() && given > 0 {
                    continue;
                }
                let made = rows.unwrap_or(given) as u64;
                let (failure, used, _) = call(&bytes, [700, 700, 700], [given, 41, 43], u64::MAX);
                assert_eq!((failure, used), (None, made * (1 + columns as u64 * 8)), "{made} rows, {columns} columns");
            }
        }
    }
}

#[test]
fn rows_of_a_tile_are_computed_as_the_interpreter_does() {
    verify_between_passes();
    for depth in [1, 5, 8] {
        let bytes = tile(depth);
        for rows in [1, 2, 3, 4, 5, 9, 10] {
            for columns in [1, 7, 8, 9, 17, 41, 64] {
                let all = (rows * columns * (1 + depth)) as u64;
                for fuel in [u64::MAX, all, all - 1, all / 2, all / 3] {
                    let (failure, used, _) = call(&bytes, [700, 700, 700], [rows, columns, 0], fuel);
                    let what = format!("{rows} rows, {columns} columns, depth {depth}, fuel {fuel}");
                    assert_eq!((failure.is_some(), used), (fuel < all, fuel.min(all)), "{what}");
                }
            }
        }
        // Rows that are longer than the distance between two overlap, and wrong numbers trap or do nothing.
        for (rows, columns) in [(3, 65), (2, 100), (0, 8), (8, 0), (-1, -8), (1 << 40, 1 << 40), (i64::MAX, 2)] {
            call(&bytes, [700, 700, 700], [rows, columns, 0], 100_000);
        }
    }
}

#[test]
fn rows_that_overlap_are_computed_one_after_the_other() {
    verify_between_passes();
    for rows in [Some(8), None] {
        let bytes = product(rows, 33, 5);
        // The last element of each row is the first one of the next.
        for distance in [0, 1, 16, 31, 32, 33, 34] {
            assert_eq!(call(&bytes, [700, 700, 700], [8, distance, 33], u64::MAX).0, None);
        }
    }
}

#[test]
fn rows_out_of_range_are_not_accessed() {
    verify_between_passes();
    // `b` has a negative factor, of the one step that is between two iterations.
    let bytes = product(Some(4), 32, 2);
    for lengths in [[700, 700, 700], [130, 700, 700], [700, 7, 700], [700, 700, 40]] {
        for step in [-1, 1, 9, i64::MIN, i64::MAX] {
            for distance in [-1, 32, 33, 34, i64::MAX] {
                call(&bytes, lengths, [4, distance, step], u64::MAX);
            }
        }
    }
}

#[test]
fn fuel_ends_in_the_middle_of_rows() {
    verify_between_passes();
    let bytes = product(Some(9), 24, 3);
    let all = 9 * (1 + 24 * 4);
    for fuel in (0..all).step_by(29).chain([all - 1]) {
        let (failure, used, _) = call(&bytes, [700, 700, 700], [0, 24, 24], fuel);
        assert_eq!((failure.is_some(), used), (true, fuel));
    }
    assert_eq!(call(&bytes, [700, 700, 700], [0, 24, 24], all).0, None);
}
