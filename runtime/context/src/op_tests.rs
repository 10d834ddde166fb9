//! Runs the examples of the spec: from the bytes of functions through decoding, verification and execution to results.
//!
//! The cases are generated from `spec/isa/vm/ops`; this is the harness that they call.

use std::ptr::NonNull;
use std::sync::Arc;

pub(crate) use crate::status::StatusCode;

use crate::bytecode::{FunctionInfo, ModuleInfo, Names, Rules, VerifiedFunction, disassemble, verify_function};
use crate::interp::{
    BoundModule, BytecodeModule, ContextState, DispatchMode, Import, ImportTarget, Invocation, Limits, ModuleList,
    ModuleState, Poll, TraceSink,
};
use crate::module::function_compiler;
use crate::status::Status;
use crate::vmfb::Archive;
use vireo_module::asm;
use vireo_module::convention::Convention;
use vireo_vm::list::{Element, ElementType, List, ListType};
use vireo_vm::{Buffer, Ref, Value};

pub(crate) use self::Literal::*;
pub(crate) use self::Outcome::{Results, Traps};

/// A module as an example describes it.
#[derive(Clone, Copy)]
pub(crate) struct Fixture {
    functions: &'static [Function],
    types: &'static [&'static str],
    imports: &'static [(&'static str, &'static str)],
    rodata: &'static [&'static [u8]],
    global_bytes: usize,
    global_refs: usize,
}

impl Fixture {
    pub(crate) const fn new(functions: &'static [Function]) -> Fixture {
        Fixture { functions, types: &[], imports: &[], rodata: &[], global_bytes: 0, global_refs: 0 }
    }

    pub(crate) const fn types(self, types: &'static [&'static str]) -> Fixture {
        Fixture { types, ..self }
    }

    pub(crate) const fn imports(self, imports: &'static [(&'static str, &'static str)]) -> Fixture {
        Fixture { imports, ..self }
    }

    pub(crate) const fn rodata(self, rodata: &'static [&'static [u8]]) -> Fixture {
        Fixture { rodata, ..self }
    }

    pub(crate) const fn globals(self, global_bytes: usize, global_refs: usize) -> Fixture {
        Fixture { global_bytes, global_refs, ..self }
    }
}

/// A fixture, the arguments of its first function, and what must come of the call.
pub(crate) struct Case {
    name: &'static str,
    origin: &'static str,
    fixture: Fixture,
    globals: &'static [u8],
    args: &'static [Literal],
    outcome: Outcome,
    after: &'static [(usize, After)],
    globals_after: Option<&'static [u8]>,
    any_nan: bool,
    ulp: u32,
}

/// A case without anything special.
pub(crate) const fn case(origin: &'static str, fixture: Fixture, args: &'static [Literal], outcome: Outcome) -> Case {
    let (name, globals, after, globals_after) = ("", &[], &[], None);
    Case { name, origin, fixture, globals, args, outcome, after, globals_after, any_nan: false, ulp: 0 }
}

impl Case {
    pub(crate) const fn named(self, name: &'static str) -> Case {
        Case { name, ..self }
    }

    /// Sets the value globals before the call.
    pub(crate) const fn globals(self, globals: &'static [u8]) -> Case {
        Case { globals, ..self }
    }

    /// Sets the contents of arguments (by index) that are expected after the call.
    pub(crate) const fn after(self, after: &'static [(usize, After)]) -> Case {
        Case { after, ..self }
    }

    /// Sets the value globals that are expected after the call.
    pub(crate) const fn globals_after(self, globals: &'static [u8]) -> Case {
        Case { globals_after: Some(globals), ..self }
    }

    /// Any NaN matches any other.
    pub(crate) const fn any_nan(self) -> Case {
        Case { any_nan: true, ..self }
    }

    /// Results may be this many representable values away.
    pub(crate) const fn ulp(self, ulp: u32) -> Case {
        Case { ulp, ..self }
    }
}

/// A function in bytes, and its descriptor.
pub(crate) struct Function {
    pub convention: &'static str,
    pub code: &'static [u8],
    pub slots: u32,
    pub refs: u32,
    pub blocks: u32,
    pub features: u32,
}

/// The expected outcome of a call.
pub(crate) enum Outcome {
    Results(&'static [Literal]),
    Traps(StatusCode),
}

/// The expected contents of an argument after the call.
pub(crate) enum After {
    Bytes(&'static [u8]),
    List(&'static [Literal]),
}

/// A value; floats as bits.
#[derive(Debug)]
pub(crate) enum Literal {
    I32(i32),
    I64(i64),
    F32(u32),
    F64(u64),
    Null,
    Absent,
    Buffer { bytes: &'static [u8], mutable: bool },
    List { element: &'static str, values: &'static [Literal] },
    Same(usize),
}

/// Runs all cases of an op and fails with all that went wrong.
pub(crate) fn run(cases: &[Case]) {
    let failures: Vec<String> = cases.iter().filter_map(failure).collect();
    assert!(failures.is_empty(), "{} of {} examples fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// The failures of a case, and in which tiers.
fn failure(case: &Case) -> Option<String> {
    let tiers = [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled];
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for dispatch in tiers {
        let Err(why) = check(case, dispatch) else { continue };
        let tier = format!("{dispatch:?}").to_lowercase();
        match reasons.iter_mut().find(|(other, _)| *other == why) {
            Some((_, tiers)) => tiers.push(tier),
            None => reasons.push((why, vec![tier])),
        }
    }
    let name = if case.name.is_empty() { String::new() } else { format!(" {}", case.name) };
    let lines = reasons.into_iter().map(|(why, in_tiers)| {
        let place = if in_tiers.len() == tiers.len() { "all tiers".to_string() } else { in_tiers.join(", ") };
        format!("{}{name} ({place}): {why}", case.origin)
    });
    lines.reduce(|lines, line| format!("{lines}\n{line}"))
}

fn check(case: &Case, dispatch: DispatchMode) -> Result<(), String> {
    let program = Arc::new(program(case)?);
    let mut state = ContextState::new(&program).map_err(|status| status.to_string())?;
    if let Some(ModuleState::Bytecode { globals, .. }) = state.modules.first_mut() {
        globals[..case.globals.len()].copy_from_slice(case.globals);
    }
    let mut args: Vec<Value> = Vec::new();
    for literal in case.args {
        let value = match literal {
            Same(index) => args[*index].clone(),
            literal => value(literal),
        };
        args.push(value);
    }
    let result = call(&program, &args, &mut state, dispatch);
    match (&case.outcome, result) {
        (Traps(expected), Err(status)) if status.code() == *expected => check_backtrace(&status)?,
        (Traps(expected), Err(status)) => return Err(format!("traps with {status}, expected {expected}")),
        (Traps(expected), Ok(values)) => return Err(format!("returns {values:?}, expected trap {expected}")),
        (Results(_), Err(status)) => return Err(format!("traps with {status:?}")),
        (Results(expected), Ok(values)) => {
            if expected.len() != values.len() {
                return Err(format!("returns {values:?}, expected {expected:?}"));
            }
            for (expected, value) in expected.iter().zip(&values) {
                matches(case, expected, value, &args)?;
            }
        }
    }
    for (index, after) in case.after {
        let matched = match after {
            After::Bytes(bytes) => args[*index].object::<Buffer>().is_some_and(|buffer| buffer.to_vec() == *bytes),
            After::List(values) => args[*index].object::<List>().is_some_and(|list| list_matches(list, values)),
        };
        if !matched {
            return Err(format!("argument {index} holds something else afterwards: {}", show(&args[*index])));
        }
    }
    match (case.globals_after, state.modules.first()) {
        (Some(expected), Some(ModuleState::Bytecode { globals, .. })) if globals != expected => {
            Err(format!("the globals are {globals:02x?} afterwards, expected {expected:02x?}"))
        }
        _ => Ok(()),
    }
}

fn call(
    program: &Arc<ModuleList>,
    args: &[Value],
    state: &mut ContextState,
    dispatch: DispatchMode,
) -> Result<Vec<Value>, Status> {
    let target = ImportTarget { module: 0, function: 0 };
    // Small, so that endless recursion ends soon.
    let limits = Limits { stack_bytes: 1 << 16, dispatch, ..Limits::default() };
    block(&mut Invocation::new(program.clone(), target, args, limits)?, state)
}

/// Polls until the function returns. Nothing waits here.
fn block(invocation: &mut Invocation<Arc<ModuleList>, Limits>, state: &mut ContextState) -> Result<Vec<Value>, Status> {
    loop {
        match invocation.poll(state)? {
            Poll::Done(values) => return Ok(values),
            Poll::Yielded => {}
            Poll::Waiting(wait) => invocation.wait(&*wait)?,
        }
    }
}

struct Silent;

impl TraceSink for Silent {
    fn trace(&self, _: &str, _: &[Value]) {}
    fn print(&self, _: &str, _: &[Value]) {}
    fn executed(&self, _: &str) {}
}

/// Every trap says in which op it happened.
fn check_backtrace(status: &Status) -> Result<(), String> {
    match status.backtrace().first() {
        Some(frame) if !frame.op.is_empty() && frame.offset.is_some() && frame.module == "test" => Ok(()),
        other => Err(format!("the trap has no proper backtrace: {other:?}")),
    }
}

fn program(case: &Case) -> Result<ModuleList, String> {
    let convention = |text: &str| text.parse::<Convention>().map_err(|status| status.to_string());
    let conventions: Vec<Convention> =
        case.fixture.functions.iter().map(|function| convention(function.convention)).collect::<Result<_, _>>()?;
    let import_conventions: Vec<Convention> =
        case.fixture.imports.iter().map(|(_, text)| convention(text)).collect::<Result<_, _>>()?;
    let module = ModuleInfo {
        global_bytes: case.fixture.global_bytes as u64,
        global_refs: case.fixture.global_refs as u32,
        types: case.fixture.types.len() as u32,
        rodata: case.fixture.rodata.len() as u32,
        imports: &import_conventions,
        functions: &conventions,
    };
    let functions: Vec<VerifiedFunction> = case
        .fixture
        .functions
        .iter()
        .zip(&conventions)
        .enumerate()
        .map(|(ordinal, (function, convention))| {
            let info = FunctionInfo {
                ordinal: ordinal as u32,
                convention,
                slots: function.slots,
                refs: function.refs,
                blocks: function.blocks,
                features: function.features,
                rules: Rules::default(),
            };
            verify_function(function.code, &info, &module).map_err(|error| format!("does not verify: {error}"))
        })
        .collect::<Result<_, _>>()?;
    functions.iter().try_for_each(check_disassembly)?;
    check_assembly(&case.fixture, &functions)?;
    let imports = case.fixture.imports.iter().zip(import_conventions).map(|((name, _), convention)| Import {
        name: (*name).to_string(),
        convention,
        target: None,
        direct: None,
    });
    let module = BytecodeModule {
        compiler: function_compiler(&functions),
        imports: imports.collect(),
        types: case.fixture.types.iter().map(|name| list_type(name)).collect(),
        rodata: case.fixture.rodata.iter().map(|bytes| buffer(bytes, false)).collect(),
        global_bytes: case.fixture.global_bytes,
        global_refs: case.fixture.global_refs,
        ..BytecodeModule::new("test".to_string(), functions.into())
    };
    Ok(ModuleList { modules: vec![BoundModule::Bytecode(Arc::new(module))], sink: Arc::new(Silent) })
}

/// The text has one line for each block and each op, and each op's line names it.
fn check_disassembly(function: &VerifiedFunction) -> Result<(), String> {
    let decoded = function.decoded();
    let text = disassemble(decoded, Names::default());
    let lines = text.lines().filter(|line| !line.starts_with('^'));
    let named = lines.clone().zip(&decoded.ops).all(|(line, op)| line.contains(op.mnemonic()));
    if lines.count() == decoded.ops.len() && named { Ok(()) } else { Err(format!("disassembles to:\n{text}")) }
}

/// The text of all functions assembles to the bytes of the example.
fn check_assembly(fixture: &Fixture, functions: &[VerifiedFunction]) -> Result<(), String> {
    let own = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let imports: Vec<&str> = fixture.imports.iter().map(|(name, _)| *name).collect();
    let (types, imports) = (own(fixture.types), own(&imports));
    let names = Names { module: "test", types: &types, imports: &imports, ..Names::default() };
    let mut text = String::from("vm.module @test\n");
    types.iter().for_each(|name| text.push_str(&format!("vm.type {name}\n")));
    for (ordinal, bytes) in fixture.rodata.iter().enumerate() {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&format!("vm.rodata[{ordinal}] = {digits}\n"));
    }
    for (name, convention) in fixture.imports {
        text.push_str(&format!("vm.import optional @{name} cconv \"{convention}\"\n"));
    }
    for (ordinal, function) in functions.iter().enumerate() {
        let (signature, blocks) = (asm::signature(function.convention()), disassemble(function.decoded(), names));
        let registers = format!("registers({}, {})", function.slots(), function.refs());
        text.push_str(&format!("vm.func @f{ordinal}{signature} {registers} {{\n{blocks}}}\n"));
    }
    let file = asm::assemble(&text).map_err(|error| format!("{error} in:\n{text}"))?;
    let archive = Archive::from_bytes(&file).map_err(|status| format!("assembles to what cannot be read: {status}"))?;
    let module = crate::Module::from_archive(archive.clone()).map_err(|status| format!("{status} in:\n{text}"))?;
    for (index, (function, found)) in fixture.functions.iter().zip(archive.functions()).enumerate() {
        let found = &archive.bytecode()[found.code.clone()];
        // An import may be encoded in two ways, of which the assembler writes one.
        if found != function.code && module.functions()[index].decoded() != functions[index].decoded() {
            return Err(format!("assembles to {found:02x?}, expected {:02x?}:\n{text}", function.code));
        }
    }
    Ok(())
}

fn list_type(name: &str) -> ListType {
    if let Some(element) = ElementType::from_name(name) {
        return ListType::Value(element);
    }
    match name.trim_start_matches('!') {
        "any" | "?" | "vm.opaque" => ListType::Variant,
        name => ListType::Ref(name.split('<').next().unwrap_or(name).to_string()),
    }
}

fn buffer(bytes: &'static [u8], mutable: bool) -> Ref {
    if mutable {
        return Ref::new(Buffer::copy_of(bytes).expect("a small buffer"));
    }
    // SAFETY: the bytes are static, and the buffer is read-only.
    Ref::new(unsafe { Buffer::from_shared(Arc::new(()), NonNull::from(bytes).cast(), bytes.len(), false) })
}

fn value(literal: &Literal) -> Value {
    match literal {
        I32(value) => Value::I32(*value),
        I64(value) => Value::I64(*value),
        F32(bits) => Value::F32(f32::from_bits(*bits)),
        F64(bits) => Value::F64(f64::from_bits(*bits)),
        Literal::Buffer { bytes, mutable } => Value::Ref(Some(buffer(bytes, *mutable))),
        Literal::List { element, values } => {
            let list = List::new(list_type(element), 0).expect("a small list");
            list.resize(values.len()).expect("a small list");
            for (index, literal) in values.iter().enumerate() {
                if !matches!(literal, Absent) {
                    list.set(index, Element::from(value(literal))).expect("an element of the list's type");
                }
            }
            Value::Ref(Some(Ref::new(list)))
        }
        Null | Absent | Same(_) => Value::NULL,
    }
}

fn matches(case: &Case, expected: &Literal, actual: &Value, args: &[Value]) -> Result<(), String> {
    let same = match (expected, actual) {
        (I32(expected), Value::I32(actual)) => expected == actual,
        (I64(expected), Value::I64(actual)) => expected == actual,
        (F32(expected), Value::F32(actual)) => {
            let nan = f32::from_bits(*expected).is_nan() && (case.any_nan || *expected == f32::NAN.to_bits());
            let place = |bits: u32| if bits >> 31 == 0 { i64::from(bits) } else { -i64::from(bits & !(1 << 31)) };
            *expected == actual.to_bits()
                || nan && actual.is_nan()
                || case.ulp > 0 && place(*expected).abs_diff(place(actual.to_bits())) <= u64::from(case.ulp)
        }
        (F64(expected), Value::F64(actual)) => {
            let nan = f64::from_bits(*expected).is_nan() && (case.any_nan || *expected == f64::NAN.to_bits());
            let place = |bits: u64| {
                if bits >> 63 == 0 { i128::from(bits) } else { -i128::from(bits & !(1 << 63)) }
            };
            *expected == actual.to_bits()
                || nan && actual.is_nan()
                || case.ulp > 0 && place(*expected).abs_diff(place(actual.to_bits())) <= u128::from(case.ulp)
        }
        (Null, Value::Ref(None)) => true,
        (Same(index), actual) => args[*index] == *actual,
        (Literal::Buffer { bytes, .. }, actual) => {
            actual.object::<Buffer>().is_some_and(|buffer| buffer.to_vec() == *bytes)
        }
        (Literal::List { element, values }, actual) => actual
            .object::<List>()
            .is_some_and(|list| *list.element_type() == list_type(element) && list_matches(list, values)),
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("returns {}, expected {}", show(actual), show_literal(expected))) }
}

fn list_matches(list: &List, values: &[Literal]) -> bool {
    list.len() == values.len()
        && values.iter().enumerate().all(|(index, expected)| match (expected, list.get(index)) {
            (_, Err(_)) => false,
            (Absent, Ok(element)) => element == Element::None,
            (Null, Ok(element)) => element == Element::Ref(None),
            (Literal::Buffer { bytes, .. }, Ok(Element::Ref(Some(reference)))) => {
                reference.get::<Buffer>().is_some_and(|buffer| buffer.to_vec() == *bytes)
            }
            (Literal::List { values, .. }, Ok(Element::Ref(Some(reference)))) => {
                reference.get::<List>().is_some_and(|list| list_matches(list, values))
            }
            (literal, Ok(Element::I8(actual))) => matches!(literal, I32(value) if *value == i32::from(actual)),
            (literal, Ok(Element::I16(actual))) => {
                matches!(literal, I32(value) if *value == i32::from(actual))
            }
            (F32(bits), Ok(Element::F32(actual))) => *bits == actual.to_bits(),
            (F64(bits), Ok(Element::F64(actual))) => *bits == actual.to_bits(),
            (literal, Ok(element)) => Element::from(value(literal)) == element,
        })
}

/// As [`show`], so that both can be compared.
fn show_literal(literal: &Literal) -> String {
    match literal {
        I32(_) | I64(_) | F32(_) | F64(_) => show(&value(literal)),
        literal => format!("{literal:02x?}"),
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::F32(value) => format!("{value:?} (f32:{:#010x})", value.to_bits()),
        Value::F64(value) => format!("{value:?} (f64:{:#018x})", value.to_bits()),
        value => match (value.object::<Buffer>(), value.object::<List>()) {
            (Some(buffer), _) => format!("a buffer of {:02x?}", buffer.to_vec()),
            (_, Some(list)) => {
                let elements: Vec<_> = (0..list.len()).filter_map(|index| list.get(index).ok()).collect();
                format!("a list of {}: {elements:?}", list.element_type())
            }
            _ => format!("{value:?}"),
        },
    }
}
