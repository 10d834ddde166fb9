//! Functions that are out of proportion have machine code, too, whose values are in slots between pieces of a few ops.

use std::fmt::Write;

use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits, Tier};
use vireo::vm::{Context, Module, Value};

use crate::skip::{Need, skipped};

/// A function of this name, that runs a loop `%i0` times around the text, which computes `%i2` from itself and the
/// counter `%i1`.
fn repeated(before: &str, body: &str) -> String {
    format!(
        "vm.module @m version 0\nvm.export @f\nvm.func @f(%i0: i32) -> (i32) {{
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32.zero
  %i3 = vm.const.i32 1
{before}  vm.br ^bb1()
^bb1:
{body}  %i1 = vm.add.i32 %i1, %i3
  %i4 = vm.cmp.lt.i32.s %i1, %i0
  vm.cond_br %i4, ^bb1(), ^bb2()
^bb2:
  vm.return %i2
}}
"
    )
}

fn lines(range: std::ops::Range<usize>, line: impl Fn(usize) -> String) -> String {
    range.fold(String::new(), |mut text, index| {
        writeln!(text, "  {}", line(index)).expect("text is written");
        text
    })
}

/// All tiers agree. Says whether the machine code is that of baseline mode.
fn is_baseline(text: &str) -> bool {
    let module = Module::from_bytes(&assemble(text).unwrap_or_else(|error| panic!("{error}"))).unwrap();
    let compiled = module.compiled(0);
    let context = || Context::new([module.clone()]).unwrap();
    for argument in [0, 1, 70, 3000] {
        let call = |dispatch| {
            let limits = Limits { dispatch, ..Limits::default() };
            context().function("f").unwrap().call_with(&[Value::I32(argument)], limits).unwrap()
        };
        let expected = call(DispatchMode::Loop);
        assert_eq!(call(DispatchMode::Threaded), expected);
        if Tier::Compiled.check().is_ok() {
            assert_eq!(call(DispatchMode::Compiled), expected, "{argument}");
        }
    }
    match compiled {
        Ok(Some(compiled)) => compiled.parts.iter().any(|part| part.text.starts_with("flush to slots")),
        Ok(None) => panic!("it has no machine code"),
        Err(status) => {
            skipped(Need::Platform("x86_64"), status);
            true
        }
    }
}

#[test]
fn of_many_slots() {
    let body = lines(0..40, |index| {
        let slot = 10 + index * 125;
        format!("%i{slot} = vm.add.i32 %i{slot}, %i1\n  %i2 = vm.xor.i32 %i2, %i{slot}")
    });
    assert!(is_baseline(&repeated("", &body)));
}

#[test]
fn of_many_values_at_a_time() {
    // Each is live after all others.
    let first =
        lines(10..460, |slot| format!("%i{slot} = vm.mul.i32 %i{}, %i1", if slot == 10 { 0 } else { slot - 1 }));
    let second = lines(10..460, |slot| format!("%i2 = vm.sub.i32 %i{slot}, %i2"));
    let third = lines(10..460, |slot| format!("%i2 = vm.xor.i32 %i{slot}, %i2"));
    assert!(is_baseline(&repeated("", &(first + &second + &third))));
}

#[test]
fn of_many_branches_over_many_slots() {
    let mut body = String::new();
    for block in 10..1500 {
        let slot = 10 + (block * 7) % 3000;
        writeln!(body, "  %i{slot} = vm.add.i32 %i{slot}, %i3\n  %i2 = vm.mul.i32 %i2, %i{slot}").unwrap();
        writeln!(body, "  %i5 = vm.and.i32 %i{slot}, %i3").unwrap();
        writeln!(body, "  vm.cond_br %i5, ^bb{block}(%i2->%i6, %i6->%i2), ^bb{block}()\n^bb{block}:").unwrap();
    }
    assert!(is_baseline(&repeated("", &body)));
}

#[test]
fn long_selections_are_left_to_the_runtime() {
    let registers: Vec<String> = (10..210).map(|slot| format!("%i{slot}")).collect();
    let before = lines(10..210, |slot| format!("%i{slot} = vm.const.i32 {}", slot * slot));
    let body = format!("  %i5 = vm.switch.i32 %i1[{}] else %i2\n  %i2 = vm.xor.i32 %i2, %i5\n", registers.join(", "));
    assert!(!is_baseline(&repeated(&before, &body)) || Tier::Compiled.check().is_err());
}
