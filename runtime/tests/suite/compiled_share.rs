//! The share of functions of `iree-compile` that becomes machine code. If nothing did, every comparison of tiers would
//! still pass.

use std::path::{Path, PathBuf};

use vireo::vm::Module;

use crate::skip::{Need, skipped};

/// Functions and their ops, and how many of them have machine code.
#[derive(Debug, Default, PartialEq, Eq)]
struct Share {
    functions: usize,
    compiled: usize,
    ops: usize,
    /// Ops for which compiled code leaves, or calls the runtime.
    by_interpreter: usize,
}

fn modules_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of fixtures") {
        let path = entry.expect("a folder of fixtures").path();
        if path.is_dir() {
            modules_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "vmfb") {
            found.push(path);
        }
    }
}

#[test]
fn functions_of_the_fixtures_become_machine_code() {
    if !cfg!(all(target_arch = "x86_64", feature = "jit")) {
        skipped(Need::Platform("x86_64"), "this build makes no machine code");
        return;
    }
    let mut paths = Vec::new();
    modules_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures"), &mut paths);
    let (mut all, mut left) = (Share::default(), Vec::new());
    for path in &paths {
        let module = Module::from_file(path).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
        for (ordinal, function) in module.functions().iter().enumerate() {
            all.functions += 1;
            all.ops += function.decoded().ops.len();
            match module.compiled(ordinal).expect("this build makes machine code") {
                Some(compiled) => {
                    all.compiled += 1;
                    all.by_interpreter += compiled.interpreted.len();
                }
                None => left.push(format!("{} {}", path.display(), module.function_name(ordinal))),
            }
        }
    }
    println!("{all:?} in {} modules", paths.len());
    assert!(left.is_empty(), "left to the interpreter: {left:#?}");
    let by_machine_code = all.ops - all.by_interpreter;
    assert!(all.functions >= 699 && by_machine_code >= 4800, "{all:?}");
}

/// `fib` calls itself; `choice` is not called, and has ops that compiled code leaves to others.
const PROGRAM: &str = "
vm.module @m version 0
vm.type i32
vm.type i64
vm.type !vm.buffer

vm.export @fib
vm.func @fib(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 2
  %i2 = vm.cmp.lt.i32.s %i0, %i1
  vm.cond_br %i2, ^bb2(), ^bb1()
^bb1:
  %i2 = vm.const.i32 1
  %i3 = vm.sub.i32 %i0, %i2
  %i4 = vm.call @fib(%i3)
  %i3 = vm.sub.i32 %i0, %i1
  %i5 = vm.call @fib(%i3)
  %i4 = vm.add.i32 %i4, %i5
  vm.br ^bb3()
^bb2:
  vm.return %i0
^bb3:
  vm.return %i4
}

vm.export @choice
vm.func @choice(%i0:1: i64) -> (!vm.buffer) {
^bb0:
  %i2 = vm.const.i32 16
  %r0 = vm.buffer.alloc %i0:1, %i2
  vm.return %r0
}
";

/// The snapshots of machine code say what becomes of these ops.
#[test]
fn branches_calls_and_returns_are_machine_code() {
    if !cfg!(all(target_arch = "x86_64", feature = "jit")) {
        skipped(Need::Platform("x86_64"), "this build makes no machine code");
        return;
    }
    let bytes = vireo::asm::assemble(PROGRAM).unwrap_or_else(|error| panic!("{error}"));
    let module = Module::from_bytes(&bytes).expect("the module is valid");
    let code = |ordinal| module.compiled(ordinal).expect("this build makes machine code").expect("it is compiled");
    let says = |ordinal, wanted: &str| code(ordinal).parts.iter().any(|part| part.text.contains(wanted));
    assert_eq!(code(0).interpreted, [0_u32; 0], "all of it is machine code");
    assert!(says(0, "call function 0(") && says(0, "return ") && says(0, "if "));
    assert!(says(1, "call the runtime at op 1") && !says(1, "return "));
}
