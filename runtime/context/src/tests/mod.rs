//! Tests of invocations: calls across modules, native functions, suspension, limits, traps, and what is released when.

mod sequences;

use std::any::Any;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Instant;

use crate::bytecode::opcode::{IMPORT_BIT as IMPORT, MOVE_BIT as MOVE, REF_BIT as REF, core as op};
use crate::bytecode::{FunctionInfo, ModuleInfo, Rules, verify_function};
use crate::interp::*;
use crate::limits::{Cancellation, Fuel};
use crate::module::function_compiler;
use crate::status::{Result, Status, StatusCode};
use vireo_module::convention::Convention;
use vireo_vm::{BoxedWaitSource, Call, NativeExport, NativeModule, Object, Outcome, Ref, Value, WaitSource};

/// Writes the bytes of a function field by field.
#[derive(Default)]
struct Code(Vec<u8>);

impl Code {
    fn new() -> Code {
        Code::default().op(op::BLOCK)
    }

    fn op(mut self, opcode: u8) -> Code {
        self.0.push(opcode);
        self
    }

    fn u16(mut self, value: u16) -> Code {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Code {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn list(mut self, values: &[u16]) -> Code {
        if !self.0.len().is_multiple_of(2) {
            self.0.push(0);
        }
        values.iter().fold(self.u16(values.len() as u16), |code, value| code.u16(*value))
    }

    /// A branch to the block at byte `target`, without remap pairs.
    fn edge(self, target: u32) -> Code {
        self.u32(target).list(&[])
    }

    fn here(&self) -> u32 {
        self.0.len() as u32
    }

    fn call(self, callee: u32, operands: &[u16], results: &[u16]) -> Code {
        self.op(op::CALL).u32(callee).list(operands).list(results)
    }

    fn returns(self, values: &[u16]) -> Code {
        self.op(op::RETURN).list(values)
    }
}

/// A bytecode module of these functions, each with its number of blocks, and imports bound to (module, function).
fn module(name: &str, functions: &[(&str, u32, Code)], imports: &[(&str, &str, (usize, usize))]) -> BoundModule {
    let parse = |text: &str| text.parse::<Convention>().unwrap();
    let conventions: Vec<_> = functions.iter().map(|(convention, ..)| parse(convention)).collect();
    let imports: Vec<_> = imports
        .iter()
        .map(|(name, convention, (module, function))| Import {
            name: (*name).to_string(),
            convention: parse(convention),
            target: Some(ImportTarget { module: *module, function: *function }),
            direct: None,
        })
        .collect();
    let import_conventions: Vec<_> = imports.iter().map(|import| import.convention.clone()).collect();
    let info = ModuleInfo {
        global_bytes: 8,
        global_refs: 0,
        types: 0,
        rodata: 0,
        imports: &import_conventions,
        functions: &conventions,
    };
    let verified: Vec<_> = functions
        .iter()
        .enumerate()
        .map(|(ordinal, (_, blocks, code))| {
            let convention = &conventions[ordinal];
            let ordinal = ordinal as u32;
            let (blocks, rules) = (*blocks, Rules::default());
            let function = FunctionInfo { ordinal, convention, slots: 16, refs: 8, blocks, features: 0, rules };
            verify_function(&code.0, &function, &info).unwrap()
        })
        .collect();
    BoundModule::Bytecode(Arc::new(BytecodeModule {
        compiler: function_compiler(&verified),
        function_names: vec!["first".to_string()],
        imports,
        global_bytes: 8,
        source_map: Some(Arc::new(Places)),
        ..BytecodeModule::new(name.to_string(), verified.into())
    }))
}

struct Places;

impl SourceMap for Places {
    fn locate(&self, ordinal: usize, offset: u32) -> Option<String> {
        (ordinal == 0).then(|| format!("test.mlir:{offset}"))
    }
}

fn program(modules: Vec<BoundModule>) -> (Arc<ModuleList>, ContextState) {
    program_with(modules, Arc::new(Stderr))
}

fn program_with(modules: Vec<BoundModule>, sink: Arc<dyn TraceSink>) -> (Arc<ModuleList>, ContextState) {
    let program = ModuleList { modules, sink };
    let state = ContextState::new(&program).unwrap();
    (Arc::new(program), state)
}

thread_local! {
    /// How the invocations of this thread are dispatched.
    static DISPATCH: Cell<DispatchMode> = const { Cell::new(DispatchMode::Loop) };
}

/// An invocation that holds its program.
type Held = Invocation<Arc<ModuleList>, Limits>;

fn invoke(program: &Arc<ModuleList>, args: &[Value], limits: Limits) -> Result<Held> {
    let limits = Limits { dispatch: DISPATCH.get(), ..limits };
    Invocation::new(program.clone(), ImportTarget { module: 0, function: 0 }, args, limits)
}

fn run(program: &Arc<ModuleList>, state: &mut ContextState, args: &[Value]) -> Result<Vec<Value>> {
    block(&mut invoke(program, args, Limits::default())?, state)
}

fn block(invocation: &mut Held, state: &mut ContextState) -> Result<Vec<Value>> {
    loop {
        match invocation.poll(state)? {
            Poll::Done(values) => return Ok(values),
            Poll::Yielded => {}
            Poll::Waiting(wait) => invocation.wait(&*wait)?,
        }
    }
}

/// Something whose life can be watched from outside.
struct Witness(#[expect(dead_code, reason = "held to count the references")] Arc<()>);

impl Object for Witness {
    const TYPE_NAME: &'static str = "test.witness";
}

/// The function of the host that a call runs.
type Body = fn(&mut Host, &mut Call) -> Result<Outcome>;

/// A native module of one function.
struct Native {
    exports: [NativeExport; 1],
    body: Body,
}

#[derive(Default)]
struct Host {
    calls: usize,
    ready: Arc<AtomicBool>,
}

impl NativeModule for Native {
    fn name(&self) -> &str {
        "host"
    }

    fn version(&self) -> u32 {
        0
    }

    fn exports(&self) -> &[NativeExport] {
        &self.exports
    }

    fn create_state(&self) -> Result<Box<dyn Any + Send>> {
        Ok(Box::new(Host::default()))
    }

    fn call(&self, _: usize, state: &mut dyn Any, call: &mut Call) -> Result<Outcome> {
        let host = state.downcast_mut::<Host>().unwrap();
        host.calls += 1;
        (self.body)(host, call)
    }
}

fn native(convention: &'static str, body: Body) -> BoundModule {
    let native = Native { exports: [NativeExport { name: "f", convention }], body };
    BoundModule::Native(Arc::new(native), Arc::new([convention.parse().unwrap()]))
}

struct Flag(Arc<AtomicBool>);

impl WaitSource for Flag {
    fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn block(&self, _: Option<Instant>) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn wake(&self, _: &Waker) -> Result<()> {
        unreachable!("no task waits")
    }
}

#[test]
fn spans_are_a_count_and_tuples() {
    let convention = "0iCIrDf_Ir";
    let code = Code::new()
        .op(op::CALL_VARIADIC)
        .u32(IMPORT)
        .list(&[0xFFFF, 2, 0xFFFF])
        .list(&[0, 2, REF, 4, REF | 1, 6])
        .list(&[8, REF | 2])
        .returns(&[8, REF | 2 | MOVE]);
    let caller = module("caller", &[("0iIIfrr_Ir", 1, code)], &[("host.f", convention, (1, 0))]);
    let host = native(convention, |_, call| {
        assert_eq!(call.words[..], [7, 2, 8, u64::MAX, u64::from(1.5f32.to_bits())]);
        call.result_words.push(call.words[3]);
        call.result_refs.push(call.refs[1].take());
        Ok(Outcome::Return)
    });
    let (program, mut state) = program(vec![caller, host]);
    let [a, b] = [(); 2].map(|()| Ref::new(Witness(Arc::new(()))));
    let args = [Value::I32(7), Value::I64(8), Value::I64(-1), Value::F32(1.5), a.into(), b.clone().into()];
    assert_eq!(run(&program, &mut state, &args).unwrap(), [Value::I64(-1), Value::from(b)]);
}

#[test]
fn a_waiting_call_is_repeated_with_its_arguments() {
    let code = Code::new().call(IMPORT, &[0, REF | MOVE], &[0]).returns(&[0]);
    let caller = module("caller", &[("0ir_i", 1, code)], &[("host.f", "0ir_i", (1, 0))]);
    let host = native("0ir_i", |host, call| {
        assert!(call.refs[0].is_some());
        if !host.ready.load(Ordering::Relaxed) {
            return Ok(Outcome::Wait(BoxedWaitSource::new(Flag(host.ready.clone()))));
        }
        call.result_words.push(call.words[0] + host.calls as u64);
        Ok(Outcome::Return)
    });
    let (program, mut state) = program(vec![caller, host]);
    let count = Arc::new(());
    let args = [Value::I32(40), Ref::new(Witness(count.clone())).into()];
    let mut invocation = invoke(&program, &args, Limits::default()).unwrap();
    drop(args);
    let Ok(Poll::Waiting(wait)) = invocation.poll(&mut state) else { panic!("expected to wait") };
    assert!(!wait.is_ready());
    assert!(matches!(invocation.poll(&mut state), Ok(Poll::Waiting(_))));
    assert_eq!(Arc::strong_count(&count), 2);
    wait.block(None);
    let Ok(Poll::Done(values)) = invocation.poll(&mut state) else { panic!("expected to be done") };
    assert_eq!(values, [Value::I32(43)]);
    assert_eq!(Arc::strong_count(&count), 1);
    assert_eq!(invocation.poll(&mut state).err().map(|status| status.code()), Some(StatusCode::FailedPrecondition));
}

#[test]
fn a_native_function_can_be_invoked_itself() {
    let host = native("0If_fI", |host, call| {
        if host.calls == 1 {
            return Ok(Outcome::Wait(BoxedWaitSource::new(Flag(host.ready.clone()))));
        }
        call.result_words.extend([call.words[1], call.words[0]]);
        Ok(Outcome::Return)
    });
    let (program, mut state) = program(vec![host]);
    let values = run(&program, &mut state, &[Value::I64(-5), Value::F32(0.5)]).unwrap();
    assert_eq!(values, [Value::F32(0.5), Value::I64(-5)]);
}

#[test]
fn every_module_has_its_own_globals() {
    // Both store their argument; the caller returns its own global after the callee stored another value to its own.
    let store_and_load = |code: Code| code.op(op::GLOBAL_STORE_I32).u32(4).u16(0);
    let load = |code: Code, result| code.op(op::GLOBAL_LOAD_I32).u32(4).u16(result);
    let caller = store_and_load(Code::new()).call(IMPORT, &[1], &[2]);
    let caller = load(caller, 3).returns(&[2, 3]);
    let callee = load(store_and_load(Code::new()), 5).returns(&[5]);
    let (program, mut state) = program(vec![
        module("caller", &[("0ii_ii", 1, caller)], &[("callee.first", "0i_i", (1, 0))]),
        module("callee", &[("0i_i", 1, callee)], &[]),
    ]);
    let values = run(&program, &mut state, &[Value::I32(1), Value::I32(2)]).unwrap();
    assert_eq!(values, [Value::I32(2), Value::I32(1)]);
    for (module, expected) in state.modules.iter().zip([1, 2]) {
        let ModuleState::Bytecode { globals, .. } = module else { panic!("a bytecode module") };
        assert_eq!(globals[..], [0, 0, 0, 0, expected, 0, 0, 0]);
    }
}

#[test]
fn a_trap_carries_every_frame_and_releases_them() {
    let outer = Code::new().call(IMPORT, &[0, REF], &[0]).returns(&[0]);
    let inner = Code::new().op(op::DIV_I32_S).u16(0).u16(1).u16(0).returns(&[0]);
    let (program, mut state) = program(vec![
        module("outer", &[("0ir_i", 1, outer)], &[("inner.first", "0ir_i", (1, 0))]),
        module("inner", &[("0ir_i", 1, inner)], &[]),
    ]);
    let count = Arc::new(());
    let args = [Value::I32(1), Ref::new(Witness(count.clone())).into()];
    let mut invocation = invoke(&program, &args, Limits::default()).unwrap();
    drop(args);
    let status = invocation.poll(&mut state).err().unwrap();
    assert_eq!(status.code(), StatusCode::InvalidArgument);
    assert_eq!(status.message(), "division by zero");
    let frames: Vec<_> = status.backtrace().iter().map(ToString::to_string).collect();
    assert_eq!(
        frames,
        ["at inner.first+0x1 (div.i32.s) test.mlir:1", "at outer.first+0x1 (call) test.mlir:1"],
        "{status:?}"
    );
    // The invocation still exists, and holds nothing.
    assert_eq!(Arc::strong_count(&count), 1);
    let ModuleState::Bytecode { globals, .. } = &state.modules[1] else { panic!("a bytecode module") };
    assert_eq!(globals.len(), 8);
}

#[test]
fn a_native_failure_names_the_native_function() {
    let code = Code::new().call(IMPORT, &[], &[]).returns(&[]);
    let caller = module("caller", &[("0v_v", 1, code)], &[("host.f", "0v_v", (1, 0))]);
    let host = native("0v_v", |_, _| Err(Status::unimplemented("this function")));
    let (program, mut state) = program(vec![caller, host]);
    let status = run(&program, &mut state, &[]).unwrap_err();
    assert_eq!(status.code(), StatusCode::Unimplemented);
    let frames: Vec<_> = status.backtrace().iter().map(ToString::to_string).collect();
    assert_eq!(frames, ["at host.f", "at caller.first+0x1 (call) test.mlir:1"]);
}

#[test]
fn a_native_function_that_returns_too_little_is_an_error() {
    let code = Code::new().call(IMPORT, &[], &[0]).returns(&[0]);
    let caller = module("caller", &[("0v_i", 1, code)], &[("host.f", "0v_i", (1, 0))]);
    let (program, mut state) = program(vec![caller, native("0v_i", |_, _| Ok(Outcome::Return))]);
    assert_eq!(run(&program, &mut state, &[]).unwrap_err().code(), StatusCode::Internal);
}

#[test]
fn a_yield_hands_control_back() {
    let code = Code::new().op(op::YIELD);
    // Behind the target itself, the padding and an empty remap list.
    let target = (code.here() + 4).next_multiple_of(2) + 2;
    let code = code.edge(target).op(op::BLOCK).returns(&[0]);
    let (program, mut state) = program(vec![module("m", &[("0i_i", 2, code)], &[])]);
    let mut invocation = invoke(&program, &[Value::I32(3)], Limits::default()).unwrap();
    assert!(matches!(invocation.poll(&mut state), Ok(Poll::Yielded)));
    assert!(matches!(invocation.poll(&mut state), Ok(Poll::Done(values)) if values == [Value::I32(3)]));
}

#[test]
fn dropping_a_suspended_invocation_releases_its_frames() {
    let code = Code::new().call(IMPORT, &[REF], &[]).returns(&[]);
    let caller = module("caller", &[("0r_v", 1, code)], &[("host.f", "0r_v", (1, 0))]);
    let host = native("0r_v", |host, _| Ok(Outcome::Wait(BoxedWaitSource::new(Flag(host.ready.clone())))));
    let (program, mut state) = program(vec![caller, host]);
    let count = Arc::new(());
    let mut invocation = invoke(&program, &[Ref::new(Witness(count.clone())).into()], Limits::default()).unwrap();
    assert!(matches!(invocation.poll(&mut state), Ok(Poll::Waiting(_))));
    assert!(Arc::strong_count(&count) > 1);
    drop(invocation);
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn endless_loops_end_at_their_limits() {
    let code = Code::new().op(op::BR).edge(0);
    let (program, mut state) = program(vec![module("m", &[("0v_v", 1, code)], &[])]);
    let cancelled = Cancellation::new();
    cancelled.cancel();
    let cases = [
        (Limits { deadline: Some(Instant::now()), ..Limits::default() }, StatusCode::DeadlineExceeded),
        (Limits { cancellation: Some(cancelled), ..Limits::default() }, StatusCode::Cancelled),
        (Limits { fuel: Some(Fuel::new(10_000)), ..Limits::default() }, StatusCode::ResourceExhausted),
    ];
    for (limits, expected) in cases {
        let status = block(&mut invoke(&program, &[], limits).unwrap(), &mut state).unwrap_err();
        assert_eq!(status.code(), expected, "{status:?}");
        assert_eq!(status.backtrace().len(), 1);
    }
}

#[test]
fn yielding_does_not_escape_the_limits() {
    let code = Code::new().op(op::YIELD).edge(0);
    let (program, mut state) = program(vec![module("m", &[("0v_v", 1, code)], &[])]);
    let limits = Limits { fuel: Some(Fuel::new(5000)), ..Limits::default() };
    let mut invocation = invoke(&program, &[], limits).unwrap();
    let status = (0..10_000).find_map(|_| invocation.poll(&mut state).err()).unwrap();
    assert_eq!(status.code(), StatusCode::ResourceExhausted);
}

#[test]
fn deep_recursion_needs_no_native_stack() {
    let code = Code::new().call(0, &[], &[]).returns(&[]);
    let (program, mut state) = program(vec![module("m", &[("0v_v", 1, code)], &[])]);
    let limits = Limits { stack_bytes: 64 << 20, ..Limits::default() };
    let status = block(&mut invoke(&program, &[], limits).unwrap(), &mut state).unwrap_err();
    assert_eq!(status.code(), StatusCode::ResourceExhausted);
    // Of a very deep stack the frames at both ends are reported.
    assert_eq!(status.backtrace().len(), 80);
}

#[test]
fn one_allocation_has_a_limit() {
    let code = Code::new().op(op::BUFFER_ALLOC).u16(0).u16(2).u16(REF).returns(&[]);
    let (program, mut state) = program(vec![module("m", &[("0Ii_v", 1, code)], &[])]);
    let mut allocate = |length: i64| {
        let limits = Limits { allocation_bytes: 1000, ..Limits::default() };
        let args = [Value::I64(length), Value::I32(0)];
        block(&mut invoke(&program, &args, limits).unwrap(), &mut state).map_err(|status| status.code())
    };
    assert_eq!(allocate(1000), Ok(vec![]));
    assert_eq!(allocate(1001), Err(StatusCode::ResourceExhausted));
    assert_eq!(allocate(-1), Err(StatusCode::InvalidArgument));
}

#[test]
fn arguments_have_to_fit_the_convention() {
    let (program, _) = program(vec![
        module("m", &[("0i_v", 1, Code::new().returns(&[]))], &[]),
        native("0CiD_v", |_, _| Ok(Outcome::Return)),
    ]);
    let code = |target: (usize, usize), args: &[Value]| {
        let target = ImportTarget { module: target.0, function: target.1 };
        Invocation::new(program.clone(), target, args, Limits::default()).err().map(|status| status.code())
    };
    assert_eq!(code((0, 0), &[Value::I32(1)]), None);
    assert_eq!(code((0, 0), &[]), Some(StatusCode::InvalidArgument));
    assert_eq!(code((0, 0), &[Value::I64(1)]), Some(StatusCode::InvalidArgument));
    assert_eq!(code((0, 1), &[]), Some(StatusCode::Internal));
    assert_eq!(code((1, 0), &[]), Some(StatusCode::Unimplemented));
    assert_eq!(code((1, 1), &[]), Some(StatusCode::NotFound));
    assert_eq!(code((2, 0), &[]), Some(StatusCode::Internal));
}

#[test]
fn reports_go_to_the_sink() {
    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);
    impl TraceSink for Recorder {
        fn trace(&self, event: &str, values: &[Value]) {
            self.0.lock().unwrap().push(format!("trace {event} {values:?}"));
        }
        fn print(&self, text: &str, values: &[Value]) {
            self.0.lock().unwrap().push(format!("print {text} {values:?}"));
        }
        fn executed(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_string());
        }
    }
    let mut code = Code::new();
    for (opcode, text) in [(op::TRACE, "start"), (op::PRINT, "end")] {
        code = code.op(opcode).u16(text.len() as u16);
        code.0.extend(text.bytes());
        code = code.list(&[0]);
    }
    let recorder = Arc::new(Recorder::default());
    let modules = vec![module("m", &[("0i_v", 1, code.returns(&[]))], &[])];
    let (program, mut state) = program_with(modules, recorder.clone());
    run(&program, &mut state, &[Value::I32(9)]).unwrap();
    assert_eq!(*recorder.0.lock().unwrap(), ["trace start [I32(9)]", "print end [I32(9)]"]);
}

#[test]
fn invocations_can_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Held>();
    is_send::<ContextState>();
    fn is_sync<T: Send + Sync>() {}
    is_sync::<ModuleList>();
}

#[test]
fn everything_holds_for_the_threaded_dispatcher() {
    everything_holds(DispatchMode::Threaded);
}

#[test]
fn everything_holds_for_machine_code() {
    everything_holds(DispatchMode::Compiled);
}

fn everything_holds(dispatch: DispatchMode) {
    DISPATCH.set(dispatch);
    let tests: [fn(); 16] = [
        spans_are_a_count_and_tuples,
        a_waiting_call_is_repeated_with_its_arguments,
        a_native_function_can_be_invoked_itself,
        every_module_has_its_own_globals,
        a_trap_carries_every_frame_and_releases_them,
        a_native_failure_names_the_native_function,
        a_native_function_that_returns_too_little_is_an_error,
        a_yield_hands_control_back,
        dropping_a_suspended_invocation_releases_its_frames,
        endless_loops_end_at_their_limits,
        yielding_does_not_escape_the_limits,
        deep_recursion_needs_no_native_stack,
        one_allocation_has_a_limit,
        arguments_have_to_fit_the_convention,
        reports_go_to_the_sink,
        invocations_can_move_between_threads,
    ];
    tests.iter().for_each(|test| test());
}
