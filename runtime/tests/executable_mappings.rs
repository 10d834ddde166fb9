//! No memory is writable and executable while compiled code runs, and the memory of code goes when its module goes.
//!
//! The test looks at all mappings of the process, so it has a process of its own.
#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "jit"))]

use vireo::asm::assemble;
use vireo::hal::local::VmvxLoader;
use vireo::hal::{ExecutableCachingMode, ExecutableLoader};
use vireo::interp::{DispatchMode, Limits, Tier, background};
use vireo::vm::{Context, Module, Value};
use vireo::{Result, vm_module};

const PROGRAM: &str = "
vm.module @m version 0
vm.import @host.look cconv \"0v_i\"

vm.export @least
vm.func @least(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i0 = vm.min.i32.s %i0, %i1
  vm.return %i0
}

vm.export @sum
vm.func @sum(%i0: i32) -> (i32, i32) {
^bb0:
  %i1 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %i2 = vm.add.i32 %i2, %i0
  %i0 = vm.sub.i32 %i0, %i1
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb2:
  %i1 = vm.call @host.look()
  vm.return %i2, %i1
}
";

/// How many mappings may be executed. None may also be written, and those of code that was made have pages around them
/// that no thread may access.
fn executable() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux says what is mapped");
    let lines: Vec<(&str, &str, bool)> = maps.lines().filter_map(parts).collect();
    let mut count = 0;
    for (index, (range, protection, has_name)) in lines.iter().enumerate() {
        if !protection.contains('x') {
            continue;
        }
        count += 1;
        assert!(!protection.contains('w'), "{maps}");
        if !has_name {
            let (start, end) = range.split_once('-').expect("a range");
            let guard = |other: usize| lines.get(other).is_some_and(|(_, protection, _)| protection.starts_with("---"));
            let before = lines[index - 1].0.ends_with(&format!("-{start}")) && guard(index - 1);
            let after = lines[index + 1].0.starts_with(&format!("{end}-")) && guard(index + 1);
            assert!(before && after, "{range} has no guard pages\n{maps}");
        }
    }
    count
}

/// The range of a mapping, its protection, and whether it is of a file or of the kernel.
fn parts(line: &str) -> Option<(&str, &str, bool)> {
    let mut parts = line.split_whitespace();
    Some((parts.next()?, parts.next()?, parts.nth(3).is_some()))
}

/// Called by compiled code, while it runs.
struct Host;

#[vm_module(name = "host", version = 0)]
impl Host {
    #[vm_export("look")]
    fn look(&self) -> Result<i32> {
        Ok(i32::try_from(executable()).expect("a small number"))
    }
}

fn context(file: &[u8], modules: usize) -> Vec<Context> {
    let context = || Context::new([Module::native(Host)?, Module::from_bytes(file)?]);
    (0..modules).map(|_| context().expect("it has all it needs")).collect()
}

fn run(context: &Context, dispatch: DispatchMode) -> usize {
    let sum = context.function("m.sum").expect("it is exported");
    let results = sum.call_with(&[Value::I32(10)], Limits { dispatch, ..Limits::default() }).expect("it returns");
    let [Value::I32(55), Value::I32(seen)] = results.as_slice() else { panic!("{results:?}") };
    *seen as usize
}

#[test]
fn code_is_never_writable_and_goes_with_its_module() {
    // One after the other: each counts all mappings of the process.
    each_module_has_its_own();
    code_lives_as_long_as_a_module_does();
    code_can_be_made_before_it_is_run();
    kernels_are_compiled_when_they_are_loaded();
}

fn each_module_has_its_own() {
    let file = assemble(PROGRAM).expect("it is a program");
    let contexts = context(&file, 3);
    let before = executable();
    assert_eq!(run(&contexts[0], DispatchMode::Threaded), before, "the interpreter needs no executable memory");
    for (index, context) in contexts.iter().enumerate() {
        // Code of one module is in one mapping.
        let least = context.function("m.least").expect("it is exported");
        let limits = Limits { dispatch: DispatchMode::Compiled, ..Limits::default() };
        assert_eq!(least.call_with(&[Value::I32(2), Value::I32(1)], limits).expect("it returns"), [Value::I32(1)]);
        let seen = run(context, DispatchMode::Compiled);
        assert_eq!(seen, before + 1 + index, "{before} before");
        assert_eq!(run(context, DispatchMode::Compiled), seen, "code is made once");
    }
    drop(contexts);
    assert_eq!(executable(), before, "code has outlived its module");
}

fn code_lives_as_long_as_a_module_does() {
    let module = Module::from_bytes(&assemble(PROGRAM).expect("it is a program")).expect("it loads");
    let contexts = || {
        let host = Module::native(Host).expect("it is a module");
        Context::new([host, module.clone()]).expect("it has all it needs")
    };
    let first = contexts();
    let seen = run(&first, DispatchMode::Compiled);
    drop(first);
    // A second context of the module finds the code.
    assert_eq!(run(&contexts(), DispatchMode::Compiled), seen);
}

fn code_can_be_made_before_it_is_run() {
    let [context] = &context(&assemble(PROGRAM).expect("it is a program"), 1)[..] else { panic!("there is one") };
    let before = executable();
    assert!(context.function("m.least").expect("it is exported").compile().expect("this build has a compiler"));
    assert_eq!(executable(), before + 1);
    // The interpreter uses code that there is.
    assert_eq!(run(context, DispatchMode::Threaded), before + 1);
}

fn kernels_are_compiled_when_they_are_loaded() {
    let kernel = "vm.module @kernels version 0
vm.type i32
vm.type !vm.buffer
vm.type !vm.list<!vm.buffer>
vm.export @kernel
vm.func @kernel(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.list<!vm.buffer>, %i0: i32, %i1: i32, %i2: i32, %i3: i32, %i4: i32, %i5: i32, \
                  %i6: i32, %i7: i32, %i8: i32) -> () {
^bb0:
  vm.return
}
";
    let kernel = assemble(kernel).expect("it is a program");
    let before = executable();
    for (tier, count) in [(Tier::Interpreter, 0), (Tier::Auto, 1), (Tier::Compiled, 1)] {
        let loader = VmvxLoader::default().with_tier(tier);
        let executable_of_tier = loader.load(ExecutableCachingMode::empty(), "vmvx-bytecode-fb", &kernel, &[]);
        let _loaded = executable_of_tier.expect("it loads");
        background::wait();
        assert_eq!(executable(), before + count, "{tier:?}");
    }
}
