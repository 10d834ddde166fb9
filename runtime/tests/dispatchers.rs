//! Random programs do the same under all dispatchers, of which one is machine code. `VIREO_PROGRAMS` sets how many
//! there are, and `VIREO_FIRST` the number of the first one. A program that does not is made smaller before it is
//! shown.
//!
//! With `VIREO_REFERENCE_TOOLS=FOLDER`, the bin folder of an environment with IREE's tools and their Python bindings,
//! programs are compared with the reference runtime, IREE's own, as well.

#[path = "support/programs.rs"]
mod programs;
#[path = "support/reference_runtime.rs"]
mod reference_runtime;
#[path = "support/skip.rs"]
mod skip;
#[path = "support/ways.rs"]
mod ways;

use std::collections::HashSet;
use std::panic::catch_unwind;

use programs::{Bytes, Choices, program};
use reference_runtime::ReferenceRuntime;
use vireo::Fuel;
use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits, verify_between_passes};
use vireo::vm::{Context, Module, Value};
use vireo_codegen::model::vm::Body;
use ways::{ARGUMENTS, Outcomes, run_all_ways};

/// Fewer in builds without optimisation, which take ten times as long; `.ci/run` runs the tests in both.
const PROGRAMS: u64 = if cfg!(debug_assertions) { 150 } else { 1000 };

/// xorshift64*: the same numbers everywhere.
struct Random(u64);

impl Random {
    /// For the program with a number.
    fn of(number: u64) -> Random {
        Random((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

impl Choices for Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % bound
    }
}

/// The difference between the ways, if there is one, or where one of them panics. Texts that are no program do not
/// differ.
fn difference(text: &str) -> Option<String> {
    let bytes = assemble(text).ok()?;
    run_or_panic(&bytes).ok()?.err()
}

/// The outcomes, or what differs. The verifier of graphs panics, which is a difference, too.
fn run_or_panic(bytes: &[u8]) -> vireo::Result<Result<Outcomes, String>> {
    catch_unwind(|| run_all_ways(bytes)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map_or("it panicked", |text| text.as_str());
        Ok(Err(text.lines().next().unwrap_or_default().to_string()))
    })
}

/// Leaves out whatever is not needed to see a difference.
fn reduced(text: &str, difference: &mut dyn FnMut(&str) -> Option<String>) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut length = lines.len() / 2;
    while length > 0 {
        let mut start = 0;
        while start + length <= lines.len() {
            let fewer = [&lines[..start], &lines[start + length..]].concat();
            if difference(&fewer.join("\n")).is_some() { lines = fewer } else { start += length }
        }
        length /= 2;
    }
    lines.join("\n")
}

/// The numbers of the programs to run.
fn numbers() -> std::ops::Range<u64> {
    let setting = |name, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let first = setting("VIREO_FIRST", 0);
    first..first + setting("VIREO_PROGRAMS", PROGRAMS)
}

#[test]
fn all_dispatchers_agree() {
    verify_between_passes();
    let numbers = numbers();
    let programs = numbers.end - numbers.start;
    let (mut returned, mut failed) = (0, 0);
    for number in numbers {
        let text = program(&mut Random::of(number), None);
        let bytes = assemble(&text).unwrap_or_else(|error| panic!("program {number}: {error}\n{text}"));
        let outcomes = run_or_panic(&bytes).unwrap_or_else(|status| panic!("program {number}: {status}\n{text}"));
        let outcomes = outcomes.unwrap_or_else(|_| {
            let small = reduced(&text, &mut difference);
            panic!("program {number}, {}:\n{small}", difference(&small).unwrap_or_default());
        });
        failed += outcomes.iter().filter(|outcome| outcome.is_err()).count() as u64;
        returned += outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
    }
    println!("{returned} calls returned, {failed} failed");
    // Programs that all end in the same way would prove little.
    let mixed = returned > programs / 2 && failed > programs / 2;
    assert!(programs < 100 || mixed, "{returned} calls returned, {failed} failed");
}

/// Programs that were compiled wrongly once, with what was wrong.
const ONCE_WRONG: [(&str, &str); 4] = [
    (
        "vectors of a loop whose call is inlined checked for no room on the stack",
        r#"
vm.module @m version 0
vm.export @f0
vm.func @f0(%i0: i32, %i1: i32) -> (i32) {
  %i82:83 = vm.const.i64 1
  vm.br ^bb1(%r0->%r2, %R3->%r0, %R2->%r3)
^bb1:
  %i0 = vm.call @f1(%i4, %i2)
  vm.buffer.store.f64 %i0:1, %r2, %i64:65
  %i64:65 = vm.add.i64 %i64:65, %i82:83
  %i84 = vm.cmp.lt.i64.s %i64:65, %i66:67
  vm.cond_br %i84, ^bb1(), ^bb3(%i1->%i1, %i5->%i0, %i1->%i2, %R3->%r2, %r2->%r3)
^bb2:
  vm.br ^bb3()
^bb3:
  vm.return %i92
}
vm.func @f1(%i0: i32, %i1: i32) -> (i32) {
  vm.return %i1
}
vm.func @f2(%i0: i32, %i1: i32) -> (i32) {
  vm.return %i92
}
"#,
    ),
    (
        "a loop that a later block enters brings its references in other registers than it expects",
        r#"
vm.module @m version 0
vm.import @host.later cconv "0i_i"
vm.rodata[0] = 0102038485868788090a0b0c0d0e0f90
vm.export @f0
vm.func @f0(%i0: i32, %i1: i32) -> (i32) {
  %r4 = vm.const.ref.rodata 0
  vm.br ^bb1()
^bb1:
  vm.call.yieldable @host.later(%i3) -> ^bb4(%i7)
^bb2:
  %i3 = vm.cmp.lt.i32.u %i5, %i7
  vm.cond_br %i3, ^bb3(), ^bb2(%i1->%i1, %i6->%i0, %i1->%i5, %r0->%r2, %R3->%r0, %R2->%r3)
^bb3:
  %i0:1 = vm.buffer.load.i64 %r2, %i90:91
  vm.cond_br %i84, ^bb1(%i7->%i5, %r0->%r2), ^bb1(%i6->%i0, %i0->%i0, %i0->%i3, %r3->%r2)
^bb4:
  vm.cond_br %i84, ^bb3(%i3->%i5, %i7->%i3), ^bb2(%r4->%r2)
^bb5:
  vm.return %i92
}
"#,
    ),
    (
        "a block that no path leads to goes on where constants are known, and cannot know them",
        r#"
vm.module @m version 0
vm.import @host.mix cconv "0iI_Ii"
vm.export @f0
vm.func @f0(%i0: i32, %i1: i32) -> (i32) {
  %i80:81 = vm.const.i64 7
  vm.br ^bb1()
^bb1:
  vm.br_table %i5 { default: ^bb3(), 0: ^bb5(%i4->%i0), 1: ^bb6() }
^bb2:
  vm.cond_br %i3, ^bb6(%i3->%i3, %i0->%i4, %i6->%i1), ^bb1()
^bb3:
  vm.cond_br %i7, ^bb3(), ^bb6()
^bb4:
  %i2:3, %i4 = vm.call @host.mix(%i2, %i2:3)
  vm.cond_br %i84, ^bb5(%i5->%i2, %i4->%i5), ^bb1()
^bb5:
  %i4:5 = vm.global.load.indirect.i64 .rwdata[%i94]
  %i90:91 = vm.and.i64 %i6:7, %i80:81
  vm.br ^bb3()
^bb6:
  vm.return %i92
}
"#,
    ),
    (
        "a value of a vector loop is used by nothing but the branch that leaves it",
        r#"
vm.module @m version 0
vm.export @f0
vm.func @f0(%i0: i32, %i1: i32) -> (i32) {
  %i82:83 = vm.const.i64 1
  vm.br ^bb1()
^bb1:
  %i90:91 = vm.add.i64 %i72:73, %i72:73
  %i7 = vm.buffer.load.i32 %r3, %i90:91
  %i72:73 = vm.add.i64 %i72:73, %i82:83
  %i84 = vm.cmp.lt.i64.s %i72:73, %i74:75
  vm.cond_br %i84, ^bb1(), ^bb3(%i3->%i0)
^bb2:
  vm.br ^bb3()
^bb3:
  %i56:57 = vm.cast.si32.f64 %i7
  vm.return %i92
}
"#,
    ),
];

#[test]
fn programs_that_were_compiled_wrongly_once_agree() {
    verify_between_passes();
    for (what, text) in ONCE_WRONG {
        let bytes = assemble(text).unwrap_or_else(|error| panic!("{what}: {error}"));
        run_all_ways(&bytes).unwrap().unwrap_or_else(|difference| panic!("{what}: {difference}"));
    }
}

/// The other tests would not notice that an op is never tried.
#[test]
fn programs_have_all_ops() {
    let texts: String = (0..1500).map(|number| program(&mut Random::of(number), None)).collect();
    let words: HashSet<&str> = texts.split_whitespace().filter_map(|word| word.strip_prefix("vm.")).collect();
    let spec = vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let missing = spec.vm("vm").expect("the VM").ops.iter().filter(|op| !matches!(op.body, Body::Structure(_)));
    let missing: Vec<&str> = missing.map(|op| op.mnemonic.as_str()).filter(|op| !words.contains(op)).collect();
    assert_eq!(missing, [""; 0]);
}

/// As the fuzz target `program` makes them.
#[test]
fn any_bytes_are_a_program() {
    let mut random = Random::of(0);
    for length in 0..100 {
        let bytes: Vec<u8> = (0..length * 8).map(|_| random.below(256) as u8).collect();
        let text = program(&mut Bytes(&bytes), None);
        let bytes = assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let outcomes = run_all_ways(&bytes).unwrap_or_else(|status| panic!("{status}\n{text}"));
        assert!(outcomes.is_ok(), "{outcomes:?}\n{text}");
    }
}

/// How a call ended by which both can be compared: the result, or the name of the status. None if only we have such
/// limits.
fn comparable(bytes: &[u8], args: [i32; 2]) -> vireo::Result<Option<String>> {
    // Both begin with the module as it was loaded.
    let function = Context::new([Module::from_bytes(bytes)?])?.function("f0")?;
    let fuel = Some(Fuel::new(6 << 10));
    let limits = Limits { fuel, dispatch: DispatchMode::Compiled, stack_bytes: 1 << 14, ..Limits::default() };
    Ok(match function.call_with(&args.map(Value::I32), limits) {
        Ok(values) => match values.as_slice() {
            [Value::I32(value)] => Some(value.to_string()),
            other => panic!("{other:?}"),
        },
        Err(status) if ["RESOURCE_EXHAUSTED", "CANCELLED", "DEADLINE_EXCEEDED"].contains(&status.code().name()) => None,
        Err(status) => Some(status.code().name().to_string()),
    })
}

/// The first difference to the reference runtime, and how many calls were compared.
fn difference_to_reference(reference: &mut ReferenceRuntime, text: &str) -> (Option<String>, u64) {
    let Ok(bytes) = assemble(text) else { return (None, 0) };
    let mut compared = 0;
    for args in ARGUMENTS {
        let Ok(Some(ours)) = comparable(&bytes, args) else { continue };
        let theirs = reference.call(&bytes, args);
        compared += 1;
        if ours != theirs {
            return (Some(format!("{args:?}: we {ours}, the reference {theirs}")), compared);
        }
    }
    (None, compared)
}

#[test]
fn the_reference_agrees() {
    let Some(mut reference) = ReferenceRuntime::start() else { return };
    let (mut compared, numbers, ops) = (0, numbers(), reference_runtime::portable_ops());
    for number in numbers.clone() {
        let text = program(&mut Random::of(number), Some(&ops));
        assemble(&text).unwrap_or_else(|error| panic!("program {number}: {error}\n{text}"));
        let (differs, calls) = difference_to_reference(&mut reference, &text);
        compared += calls;
        if let Some(differs) = differs {
            let small = reduced(&text, &mut |text| difference_to_reference(&mut reference, text).0);
            let same = difference_to_reference(&mut reference, &small).0;
            panic!("program {number}, {differs}; smaller, {}:\n{small}", same.unwrap_or_default());
        }
    }
    println!("{compared} calls of {} programs are those of the reference", numbers.end - numbers.start);
}

/// A loop of `i1` iterations, so that for one of the arguments the interpreter checks the limits at the call and makes
/// it itself.
const BRANCHES_OF_THE_INTERPRETER: &str = "
vm.module @m version 0
vm.export @f0
vm.func @f0(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 5
  %i3 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %i1 = vm.sub.i32 %i1, %i3
  vm.cond_br %i1, ^bb1(), ^bb2()
^bb2:
  vm.cond_br %i0, ^bb3(), ^bb4()
^bb4:
  vm.br ^bb5()
^bb3:
  %i4 = vm.const.i32 7
  vm.cond_br %i0, ^bb5(%i4->%i2, %r0->%r1), ^bb5()
^bb5:
  %i5 = vm.call @g()
  %i2 = vm.add.i32 %i2, %i5
  vm.return %i2
}

vm.func @g() -> (i32) {
^bb0:
  %i0 = vm.const.i32 1
  vm.return %i0
}
";

#[test]
fn branches_of_the_interpreter_bring_values_of_their_own() {
    let context = Context::new([Module::from_bytes(&assemble(BRANCHES_OF_THE_INTERPRETER).unwrap()).unwrap()]).unwrap();
    let function = context.function("f0").unwrap();
    for (choice, expected) in [(0, 6), (1, 8)] {
        for iterations in 1..3000 {
            let fuel = Some(Fuel::new(1 << 20));
            let limits = Limits { fuel, dispatch: DispatchMode::Compiled, ..Limits::default() };
            let values = function.call_with(&[Value::I32(choice), Value::I32(iterations)], limits).unwrap();
            assert!(matches!(values.as_slice(), [Value::I32(value)] if *value == expected), "{iterations}: {values:?}");
        }
    }
}

/// A search for zeros in a buffer of as many bytes as the first argument says. If the second is 1 it goes on ten bytes
/// after the end, and if that is 0 there is no buffer. Sequences that one handler executes are entered and left in many
/// ways.
const SEARCH: &str = r"
vm.module @m version 0
vm.export @f0
vm.func @f0(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2:3 = vm.ext.i32.i64.s %i0
  %i4:5 = vm.const.i64.zero
  %i6 = vm.const.i32 1
  %i8:9 = vm.const.i64 1
  %i10:11 = vm.const.i64 2
  %i12 = vm.const.i32 16
  %i14:15 = vm.const.i64 7
  %i16 = vm.const.i32.zero
  %r0 = vm.buffer.alloc %i2:3, %i12
  vm.buffer.fill.i8 %r0, %i4:5, %i2:3, %i6
  %i12 = vm.cmp.lt.i64.s %i14:15, %i2:3
  vm.cond_br %i12, ^bb1(), ^bb2()
^bb1:
  vm.buffer.store.i8 %i16, %r0, %i14:15
  %i14:15 = vm.add.i64 %i14:15, %i14:15
  %i12 = vm.cmp.lt.i64.s %i14:15, %i2:3
  vm.cond_br %i12, ^bb1(), ^bb2()
^bb2:
  vm.br_table %i1 { default: ^bb5(), 0: ^bb3(), 1: ^bb4() }
^bb3:
  %r0 = vm.const.ref.zero
  vm.br ^bb5()
^bb4:
  %i14:15 = vm.const.i64 10
  %i2:3 = vm.add.i64 %i2:3, %i14:15
  vm.br ^bb5()
^bb5:
  %i12 = vm.cmp.lt.i64.s %i10:11, %i2:3
  vm.cond_br %i12, ^bb6(), ^bb9()
^bb6:
  %i12 = vm.buffer.load.i8.u %r0, %i10:11
  %i12 = vm.cmp.nz.i32 %i12
  vm.cond_br %i12, ^bb8(), ^bb7()
^bb7:
  %i17 = vm.trunc.i64.i32 %i10:11
  %i16 = vm.add.i32 %i16, %i17
  vm.br ^bb8()
^bb8:
  %i10:11 = vm.add.i64 %i10:11, %i8:9
  vm.br ^bb5()
^bb9:
  vm.discard.refs %r0
  vm.return %i16
}
";

/// The result of a program with these arguments and this number of steps, and how many it takes.
fn returned(bytes: &[u8], dispatch: DispatchMode) -> impl Fn([i32; 2], u64) -> (Result<String, String>, u64) {
    let module = Module::from_bytes(bytes).unwrap();
    let function = Context::new([module]).unwrap().function("f0").unwrap();
    move |arguments: [i32; 2], fuel| {
        let fuel = Fuel::new(fuel);
        let limits = Limits { fuel: Some(fuel.clone()), dispatch, ..Limits::default() };
        let result = function.call_with(&arguments.map(Value::I32), limits);
        (result.map(|values| format!("{values:?}")).map_err(|status| status.to_string()), fuel.used())
    }
}

#[test]
fn a_search_agrees_wherever_its_fuel_ends() {
    let bytes = assemble(SEARCH).unwrap();
    let (one_by_one, threaded) = (returned(&bytes, DispatchMode::Loop), returned(&bytes, DispatchMode::Threaded));
    let (mut returned, mut failed) = (0, 0);
    for length in [0, 1, 2, 3, 5, 7, 8, 9, 15, 40] {
        for buffer in 0..3 {
            for fuel in 0..100 {
                let (arguments, expected) = ([length, buffer], one_by_one([length, buffer], fuel));
                assert_eq!(threaded(arguments, fuel), expected, "{arguments:?} with fuel {fuel}");
                if expected.0.is_ok() { returned += 1 } else { failed += 1 }
            }
        }
    }
    assert!(returned > 500 && failed > 500, "{returned} calls returned, {failed} failed");
}

/// Loops of sequences that one handler executes, with any registers: `A` to `C` are values, `P` to `W` pairs.
const LOOPS: [&str; 6] = [
    "
^bb1:
  %A = vm.buffer.load.i32 %r0, %P
  %B = vm.add.i32 %C, %A
  %P = vm.add.i64 %S, %U
  %i19 = vm.cmp.lt.i64.s %P, %W
  vm.cond_br %i19, ^bb1(), ^bb3()",
    "
^bb1:
  vm.buffer.store.i8 %A, %r0, %P
  %P = vm.add.i64 %P, %U
  %i19 = vm.cmp.lt.i64.s %P, %W
  vm.cond_br %i19, ^bb1(), ^bb3()",
    "
^bb1:
  %P = vm.add.i64 %S, %U
  %i19 = vm.cmp.lt.i64.s %P, %W
  vm.cond_br %i19, ^bb2(), ^bb3()
^bb2:
  %A = vm.buffer.load.i8.u %r0, %P
  %i19 = vm.cmp.nz.i32 %A
  vm.cond_br %i19, ^bb1(), ^bb3()",
    "
^bb1:
  %A = vm.add.i32 %B, %C
  %A = vm.and.i32 %A, %B
  %P = vm.ext.i32.i64.u %A
  %C = vm.buffer.load.i32 %r0, %P
  vm.buffer.store.i32 %C, %r0, %U
  %A = vm.add.i32 %A, %C
  %i19 = vm.cmp.lt.i32.s %A, %B
  %i19 = vm.xor.i32 %i19, %i18
  vm.cond_br %i19, ^bb2(), ^bb3()
^bb2:
  %B = vm.add.i32 %B, %i18
  vm.br ^bb1()",
    "
^bb1:
  %P = vm.add.i64 %S, %U
  %S = vm.and.i64 %P, %W
  %B = vm.buffer.load.i32 %r0, %S
  %A = vm.and.i32 %C, %B
  %i19 = vm.cmp.nz.i32 %A
  vm.cond_br %i19, ^bb2(%LP->%LU, %HP->%HU, %A->%B), ^bb3()
^bb2:
  vm.br ^bb1(%LW->%LS, %HW->%HS, %LU->%LW, %HU->%HW, %B->%C, %A->%B)",
    "
^bb1:
  %P = vm.ext.i32.i64.s %A
  vm.buffer.store.i8 %B, %r0, %U
  %A = vm.add.i32 %A, %i18
  %i19 = vm.cmp.lt.i64.s %P, %W
  %i19 = vm.xor.i32 %i19, %i18
  vm.cond_br %i19, ^bb3(%LP->%LS, %HP->%HS), ^bb1(%LP->%LU, %HP->%HU, %A->%C, %B->%A)",
];

/// A program with such a loop, whose registers may be parts of each other, as mostly those of a sum are.
fn looping(random: &mut Random) -> String {
    let kind = random.below(LOOPS.len() as u64) as usize;
    let mut body = LOOPS[kind].to_string();
    let (fill, length) = [("i32", 25), ("i8", 100), ("i8", 100), ("i32", 25), ("i32", 25), ("i8", 100)][kind];
    let pairs = [6, 6, 6, 9].map(|bound| 10_u64.min(2 * random.below(bound))).map(|low| format!("i{low}:{}", low + 1));
    let same_pair = random.below(3) > 0;
    for (name, register) in ["%P", "%S", "%U", "%W"].iter().zip(&pairs) {
        let register = if same_pair && *name == "%S" { &pairs[0] } else { register };
        body = body.replace(name, &format!("%{register}"));
        // The halves, which branches copy.
        let (low, high) = register.trim_start_matches('i').split_once(':').unwrap();
        body = body.replace(&name.replace('%', "%L"), &format!("%i{low}"));
        body = body.replace(&name.replace('%', "%H"), &format!("%i{high}"));
    }
    let values = [(); 3].map(|()| format!("%i{}", random.below(12)));
    let same_value = random.below(3) > 0;
    for (index, name) in ["%A", "%B", "%C"].iter().enumerate() {
        body = body.replace(name, if same_value && index == 2 { &values[1] } else { &values[index] });
    }
    // Most pairs are small numbers, and one of them is a number of iterations.
    let constants = (2..12).map(|register| {
        let value = match register {
            10 => 20,
            _ if register % 2 == 1 => u64::from(random.below(16) == 0),
            _ => random.below(4),
        };
        format!("  %i{register} = vm.const.i32 {value}\n")
    });
    let constants: String = constants.collect();
    let sum: String = (1..12).map(|register| format!("  %i0 = vm.add.i32 %i0, %i{register}\n")).collect();
    format!(
        "vm.module @m version 0
vm.export @f0
vm.func @f0(%i0: i32, %i1: i32) -> (i32) {{
^bb0:
  %i16:17 = vm.const.i64 100
  %i18 = vm.const.i32 1
  %r0 = vm.buffer.alloc %i16:17, %i18
  %i20:21 = vm.const.i64.zero
  %i16:17 = vm.const.i64 {length}
  vm.buffer.fill.{fill} %r0, %i20:21, %i16:17, %i18
{constants}  vm.br ^bb1(){body}
^bb3:
  vm.discard.refs %r0
{sum}  vm.return %i0
}}"
    )
}

#[test]
fn sequences_agree_whatever_their_registers_are() {
    let (mut returned_values, mut failed) = (0, 0);
    for number in 0..2 * PROGRAMS {
        let text = looping(&mut Random::of(number));
        let bytes = assemble(&text).unwrap_or_else(|error| panic!("program {number}: {error}\n{text}"));
        let (one_by_one, threaded) = (returned(&bytes, DispatchMode::Loop), returned(&bytes, DispatchMode::Threaded));
        for fuel in [1, 2, 3, 5, 8, 50, 400] {
            let expected = one_by_one([5, 3], fuel);
            assert_eq!(threaded([5, 3], fuel), expected, "program {number} with fuel {fuel}:\n{text}");
            if expected.0.is_ok() { returned_values += 1 } else { failed += 1 }
        }
    }
    assert!(returned_values > 100 && failed > 100, "{returned_values} calls returned, {failed} failed");
}
