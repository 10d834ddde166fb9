//! Compilation in the background: what runs meanwhile, when code is entered, and what becomes of modules, panics and
//! budgets.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::*;
use crate::interp::{
    BoundModule, BytecodeModule, ContextState, ImportTarget, Invocation, Limits, ModuleList, Poll, TraceSink,
};
use crate::ir::graph::Kind;
use crate::tests::functions;
use vireo_core::background::{self, Hold};
use vireo_core::limits::{DispatchMode, MemoryBudget};
use vireo_core::status::Result;
use vireo_vm::Value;

/// The amount by which functions of the tests count, and by which their machine code does.
const STEP: i32 = 3;
const COMPILED_STEP: i32 = 5;

/// `@count` counts to a number in steps, and reports when it is at half of it.
const FUNCTIONS: &str = "vm.module @test version 0
vm.type i32

vm.func @count(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 3
  %i2 = vm.const.i32.zero
  %i3 = vm.const.i32.zero
  %i4 = vm.const.i32 1
  %i6 = vm.const.i32 2
  %i7 = vm.div.i32.s %i0, %i6
  vm.br ^bb1()
^bb1:
  %i2 = vm.add.i32 %i2, %i1
  %i3 = vm.add.i32 %i3, %i4
  %i5 = vm.cmp.eq.i32 %i3, %i7
  vm.cond_br %i5, ^bb2(), ^bb3()
^bb2:
  vm.trace \"half\"(%i3)
  vm.br ^bb3()
^bb3:
  %i5 = vm.cmp.lt.i32.s %i3, %i0
  vm.cond_br %i5, ^bb1(), ^bb4()
^bb4:
  vm.return %i2
}
";

/// A compiler that makes functions count differently, so that results show what has run, and that tests can stop.
struct Marked {
    code: ModuleCode,
    compiled: Arc<AtomicUsize>,
    /// Is told when it begins, and waits for an answer.
    stop: Option<Mutex<(Sender<()>, Receiver<()>)>>,
    panics: bool,
    /// Whether the time of the call is over when it compiles.
    is_over: Arc<AtomicBool>,
}

impl FunctionCompiler for Marked {
    fn callees(&self, module: &BytecodeModule, function: &VerifiedFunction) -> Vec<u32> {
        self.code.callees(module, function)
    }

    fn compile(
        &self,
        module: &BytecodeModule,
        function: &VerifiedFunction,
        code: &ThreadedCode,
        _: bool,
        limit: u64,
    ) -> std::result::Result<NativeCode, LeftOut> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        if let Some(stop) = &self.stop {
            let (begun, goes_on) = &*stop.lock().unwrap();
            begun.send(()).unwrap();
            goes_on.recv().unwrap();
        }
        if self.panics {
            // The panic hook would write to the log of the tests.
            std::panic::resume_unwind(Box::new("the compiler"));
        }
        if self.is_over.load(Ordering::Relaxed) {
            let _started = limits::scope::start(&Limits { timeout: Some(Duration::ZERO), ..Limits::default() });
            return self.code.compile(module, function, code, true, limit);
        }
        let Plan { mut graph, .. } = Plan::new(function, module).ok_or(LeftOut::TooLarge)?;
        let mut marked = 0;
        for node in graph.nodes.iter_mut().filter(|node| node.kind == Kind::Constant(STEP as u64)) {
            node.kind = Kind::Constant(COMPILED_STEP as u64);
            marked += 1;
        }
        assert!(marked > 0);
        let allocation = crate::regalloc::allocate(&graph).expect("it is small");
        self.code.install(&Plan { graph, allocation, is_checked: false }, module, function, code, limit)
    }

    fn publish(&self, ordinal: u32, native: &NativeCode) {
        self.code.publish(ordinal, native);
    }
}

/// Releases the jobs and waits for them when a program is at half of its count, if it is asked to.
#[derive(Default)]
struct AtHalf(Mutex<Option<Hold>>);

impl TraceSink for AtHalf {
    fn trace(&self, _: &str, _: &[Value]) {
        if let Some(hold) = self.0.lock().unwrap().take() {
            drop(hold);
            background::wait();
        }
    }

    fn print(&self, _: &str, _: &[Value]) {}

    fn executed(&self, _: &str) {}
}

struct Test {
    list: ModuleList,
    module: Weak<BytecodeModule>,
    sink: Arc<AtHalf>,
    compiled: Arc<AtomicUsize>,
    limits: Limits,
    /// The tests hold jobs, so there is one at a time.
    _alone: MutexGuard<'static, ()>,
}

impl Test {
    fn new(configure: impl FnOnce(&mut Marked)) -> Test {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        background::always_available();
        let functions = functions(FUNCTIONS);
        let compiled = Arc::new(AtomicUsize::new(0));
        let code = ModuleCode::new(&functions);
        let mut compiler =
            Marked { code, compiled: Arc::clone(&compiled), stop: None, panics: false, is_over: Arc::default() };
        configure(&mut compiler);
        let module = BytecodeModule::new("test".to_string(), functions);
        let module = Arc::new(BytecodeModule { compiler: Some(Box::new(compiler)), ..module });
        let (weak, sink) = (Arc::downgrade(&module), Arc::new(AtHalf::default()));
        let list = ModuleList { modules: vec![BoundModule::Bytecode(module)], sink: sink.clone() };
        let limits = Limits { dispatch: DispatchMode::Tiered, ..Limits::default() };
        Test { list, module: weak, sink, compiled, limits, _alone: alone }
    }

    fn count(&self, to: i32) -> i32 {
        let call = || -> Result<Vec<Value>> {
            let mut state = ContextState::new(&self.list)?;
            let target = ImportTarget { module: 0, function: 0 };
            let mut invocation = Invocation::new(&self.list, target, &[Value::I32(to)], self.limits.clone())?;
            match invocation.poll(&mut state)? {
                Poll::Done(values) => Ok(values),
                Poll::Yielded | Poll::Waiting(_) => unreachable!("nothing waits"),
            }
        };
        match call().unwrap()[..] {
            [Value::I32(count)] => count,
            ref other => panic!("{other:?}"),
        }
    }

    /// Calls the function until it is queued.
    fn warm_up(&self) {
        for _ in 0..4 {
            assert_eq!(self.count(10), 10 * STEP);
        }
    }

    fn machine_code(&self) -> Option<std::result::Result<u64, LeftOut>> {
        self.module.upgrade().unwrap().code.machine_code(0)
    }
}

#[test]
fn calls_return_while_the_function_is_queued_and_enter_its_code_when_it_is_there() {
    let test = Test::new(|_| {});
    let hold = Hold::new();
    test.warm_up();
    assert_eq!((test.count(20), test.machine_code()), (20 * STEP, None));
    drop(hold);
    background::wait();
    assert!(test.machine_code().unwrap().unwrap() > 0);
    assert_eq!(test.count(20), 20 * COMPILED_STEP);
    assert_eq!(test.compiled.load(Ordering::Relaxed), 1);
}

#[test]
fn a_loop_that_runs_enters_the_code_at_its_header() {
    let test = Test::new(|_| {});
    *test.sink.0.lock().unwrap() = Some(Hold::new());
    let to = 1_000_000;
    let count = test.count(to);
    // The code is there from the half on, and the interpreter looks for it when it checks its limits.
    assert!(count > to * STEP && count < to * COMPILED_STEP, "{count}");
    let entered_at = (to * COMPILED_STEP - count) / (COMPILED_STEP - STEP);
    assert!((to / 2..to / 2 + 100_000).contains(&entered_at), "{entered_at}");
}

#[test]
fn a_module_that_is_dropped_while_a_function_is_queued_is_freed_at_once() {
    let test = Test::new(|_| {});
    let hold = Hold::new();
    test.warm_up();
    let Test { list, module, compiled, _alone, .. } = test;
    drop(list);
    assert_eq!(module.strong_count(), 0);
    drop(hold);
    background::wait();
    assert_eq!(compiled.load(Ordering::Relaxed), 0);
}

#[test]
fn a_module_that_is_dropped_while_a_function_is_compiled_is_freed_then() {
    let ((begins, begun), (go_on, goes_on)) = (channel(), channel());
    let test = Test::new(|compiler| compiler.stop = Some(Mutex::new((begins, goes_on))));
    test.warm_up();
    begun.recv().unwrap();
    // The compiler is busy, and calls go on.
    assert_eq!(test.count(10), 10 * STEP);
    let Test { list, module, _alone, .. } = test;
    drop(list);
    assert_eq!(module.strong_count(), 1);
    go_on.send(()).unwrap();
    background::wait();
    assert_eq!(module.strong_count(), 0);
}

#[test]
fn a_panic_of_the_compiler_leaves_the_function_to_the_interpreter() {
    let test = Test::new(|compiler| compiler.panics = true);
    test.warm_up();
    background::wait();
    assert_eq!(test.machine_code(), Some(Err(LeftOut::Panicked)));
    test.warm_up();
    assert_eq!(test.compiled.load(Ordering::Relaxed), 1);
    drop(test);
    // The thread has survived.
    let test = Test::new(|_| {});
    for _ in 0..4 {
        test.count(10);
    }
    background::wait();
    assert_eq!(test.count(10), 10 * COMPILED_STEP);
}

#[test]
fn the_code_is_charged_to_the_budget_of_the_call_that_was_first() {
    let mut test = Test::new(|_| {});
    let budget = MemoryBudget::new(64 << 20);
    test.limits.memory = Some(budget.clone());
    let hold = Hold::new();
    test.warm_up();
    let before = budget.used();
    drop(hold);
    background::wait();
    assert_eq!(budget.used() - before, test.machine_code().unwrap().unwrap());
    drop(test);
    assert_eq!(budget.used(), 0);
}

#[test]
fn without_memory_for_the_code_the_function_is_left_to_the_interpreter() {
    let mut test = Test::new(|_| {});
    let budget = MemoryBudget::new(64 << 20);
    test.limits.memory = Some(budget.clone());
    let hold = Hold::new();
    test.warm_up();
    let rest = budget.charge(budget.limit() - budget.used(), "the rest").unwrap();
    drop(hold);
    background::wait();
    drop(rest);
    assert_eq!(test.machine_code(), Some(Err(LeftOut::Budget)));
    test.warm_up();
}

#[test]
fn a_function_whose_compilation_was_interrupted_is_compiled_for_a_later_call() {
    let is_over = Arc::new(AtomicBool::new(true));
    let mut test = Test::new(|compiler| compiler.is_over = Arc::clone(&is_over));
    test.limits.dispatch = DispatchMode::Compiled;
    assert_eq!((test.count(10), test.machine_code()), (10 * STEP, None));
    is_over.store(false, Ordering::Relaxed);
    assert_eq!(test.count(10), 10 * COMPILED_STEP);
}

#[test]
fn a_call_on_the_compiled_tier_does_not_wait_for_the_background() {
    let mut test = Test::new(|_| {});
    let hold = Hold::new();
    test.warm_up();
    test.limits.dispatch = DispatchMode::Compiled;
    assert_eq!(test.count(10), 10 * COMPILED_STEP);
    drop(hold);
    background::wait();
    assert_eq!(test.compiled.load(Ordering::Relaxed), 1);
}

#[test]
fn beyond_the_limit_of_the_module_functions_are_left_to_the_interpreter() {
    let mut test = Test::new(|_| {});
    test.limits.dispatch = DispatchMode::Compiled;
    assert_eq!(test.count(10), 10 * COMPILED_STEP);
    let bytes = test.machine_code().unwrap().unwrap();
    drop(test);
    for (limit, expected) in [(0, Err(LeftOut::CodeLimit)), (bytes - 1, Err(LeftOut::CodeLimit)), (bytes, Ok(bytes))] {
        let mut test = Test::new(|_| {});
        test.limits.machine_code_bytes = limit;
        for _ in 0..4 {
            test.count(10);
        }
        background::wait();
        assert_eq!(test.machine_code(), Some(expected), "{limit}");
        let all = test.module.upgrade().unwrap().code.all_machine_code();
        assert_eq!((all.functions, all.bytes), if limit < bytes { (0, 0) } else { (1, bytes) });
        assert_eq!(all.left_out.len(), 1 - all.functions);
    }
}
