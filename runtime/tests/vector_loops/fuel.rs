//! The fuel of vector loops: as much as their iterations take, and where it ends.

use vireo::Fuel;
use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits, verify_between_passes};
use vireo::vm::{Buffer, Context, Module, Obj, Value};

use super::has_lanes;
use super::skip::{Need, skipped};

/// `for j in 0..columns { for i in 0..rows by 3 { a[j] += 7 } }` with the tests first, and
/// `do { a[i] += 7 } while (i += 1) < length`.
const COUNTED: &str = "
vm.module @m version 0
vm.type i32
vm.type i64
vm.type !vm.buffer

vm.export @nest
vm.func @nest(%r0: !vm.buffer, %i0:1: i64, %i2:3: i64) -> () {
^bb0:
  %i4:5 = vm.const.i64 0
  %i6:7 = vm.const.i64 1
  %i8:9 = vm.const.i64 3
  vm.br ^bb1()
^bb1:
  %i10 = vm.cmp.lt.i64.s %i4:5, %i0:1
  vm.cond_br %i10, ^bb2(), ^bb6()
^bb2:
  %i12:13 = vm.const.i64 0
  %i14 = vm.const.i32 7
  vm.br ^bb3()
^bb3:
  %i10 = vm.cmp.lt.i64.s %i12:13, %i2:3
  vm.cond_br %i10, ^bb4(), ^bb5()
^bb4:
  %i15 = vm.buffer.load.i32 %r0, %i4:5
  %i15 = vm.add.i32 %i15, %i14
  vm.buffer.store.i32 %i15, %r0, %i4:5
  %i12:13 = vm.add.i64 %i12:13, %i8:9
  vm.br ^bb3()
^bb5:
  %i4:5 = vm.add.i64 %i4:5, %i6:7
  vm.br ^bb1()
^bb6:
  vm.return
}

vm.export @last
vm.func @last(%r0: !vm.buffer, %i0:1: i64) -> () {
^bb0:
  %i4:5 = vm.const.i64 0
  %i6:7 = vm.const.i64 1
  %i14 = vm.const.i32 7
  vm.br ^bb1()
^bb1:
  %i15 = vm.buffer.load.i32 %r0, %i4:5
  %i15 = vm.add.i32 %i15, %i14
  vm.buffer.store.i32 %i15, %r0, %i4:5
  %i4:5 = vm.add.i64 %i4:5, %i6:7
  %i10 = vm.cmp.lt.i64.s %i4:5, %i0:1
  vm.cond_br %i10, ^bb1(), ^bb2()
^bb2:
  vm.return
}
";

/// Calls a function of `COUNTED` on both tiers. Gives the status if there is one, the fuel that was used, and the
/// memory, which are the same.
fn counted(context: &Context, name: &str, numbers: &[i64], fuel: u64) -> (Option<String>, u64, Vec<u8>) {
    let function = context.function(name).expect("it is exported");
    let [expected, actual] = [DispatchMode::Loop, DispatchMode::Compiled].map(|dispatch| {
        let (buffer, fuel) = (Obj::new(Buffer::copy_of(&[0; 4 * 300]).expect("there is memory")), Fuel::new(fuel));
        let mut args = vec![Value::Ref(Some(buffer.clone().into_ref()))];
        args.extend(numbers.iter().copied().map(Value::I64));
        let limits = Limits { dispatch, fuel: Some(fuel.clone()), ..Limits::default() };
        let failure = function.call_with(&args, limits).err().map(|status| status.to_string());
        (failure, fuel.used(), buffer.to_vec())
    });
    assert!(actual == expected, "{name} {numbers:?}, fuel {fuel}: {:?} and {:?}", actual.1, expected.1);
    actual
}

#[test]
fn vector_loops_use_as_much_fuel_as_their_iterations() {
    verify_between_passes();
    let module = Module::from_bytes(&assemble(COUNTED).expect("it is a program")).expect("it is a module");
    let context = Context::new([module]).expect("it needs nothing");
    for length in [1, 2, 7, 8, 9, 31, 32, 33, 64, 65, 127, 200, 300_i64] {
        for rows in [0, 1, 3, 4, 100, 301] {
            let steps = (length * (1 + (rows + 2) / 3)) as u64;
            assert_eq!(counted(&context, "nest", &[length, rows], u64::MAX).1, steps, "{length} times {rows}");
            let (failure, used, _) = counted(&context, "nest", &[length, rows], steps);
            assert_eq!((failure, used), (None, steps), "{length} times {rows}");
        }
        let steps = length as u64 - 1;
        assert_eq!(counted(&context, "last", &[length], u64::MAX).1, steps, "{length}");
        let (failure, used, _) = counted(&context, "last", &[length], steps);
        assert_eq!((failure, used), (None, steps), "{length}");
    }
}

#[test]
fn fuel_ends_in_the_middle_of_vector_loops() {
    verify_between_passes();
    let module = Module::from_bytes(&assemble(COUNTED).expect("it is a program")).expect("it is a module");
    let context = Context::new([module]).expect("it needs nothing");
    for fuel in 0..199 {
        let (failure, used, memory) = counted(&context, "last", &[200], fuel);
        let failure = failure.expect("it takes more");
        let what = format!("RESOURCE_EXHAUSTED: ran out of fuel: {fuel} of {fuel} units used");
        assert!(failure.starts_with(&what), "{failure}");
        assert_eq!(used, fuel);
        // The iteration whose back edge could not be taken has stored its element, and none after it.
        let element = |index: u64| if index <= fuel { 7_u32 } else { 0 };
        let expected: Vec<u8> = (0..300).map(element).flat_map(u32::to_le_bytes).collect();
        assert!(memory == expected, "fuel {fuel}");
    }
    for fuel in (0..66 * 18).step_by(7) {
        let (failure, used, _) = counted(&context, "nest", &[66, 50], fuel);
        assert_eq!((failure.is_some(), used), (true, fuel));
    }
}

#[test]
fn vector_loops_run_where_fuel_is_counted() {
    let module = Module::from_bytes(&assemble(COUNTED).expect("it is a program")).expect("it is a module");
    for ordinal in 0..2 {
        let Ok(Some(compiled)) = module.compiled(ordinal) else {
            skipped(Need::Platform("x86_64"), "there is no machine code in this build");
            return;
        };
        if !has_lanes(8) {
            return skipped(Need::Processor("avx2"), "there are no vectors");
        }
        // The vector loops count their steps themselves, and what leads to them does not depend on fuel.
        let texts: Vec<&str> = compiled.parts.iter().map(|part| part.text.as_str()).collect();
        let find = |what: &str| texts.iter().position(|text| text.contains(what)).expect("the loop is vectorised");
        let (count, store) = (find("CountSteps"), find("StoreLanes"));
        assert!(count < store, "{texts:#?}");
        assert!(!texts[..count].iter().any(|text| text.contains("uel")), "{texts:#?}");
        let fallback =
            texts[count].split_once("fall back to ").expect("it goes on elsewhere if they cannot be counted");
        let target = fallback.1.split('(').next().expect("a block has a name");
        assert!(texts[store..].iter().any(|text| text.starts_with(&format!("{target}("))), "{texts:#?}");
    }
}
