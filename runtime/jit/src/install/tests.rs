//! Machine code of graphs without range checks, as a broken pass would leave them: its checked accesses have to find
//! each index that is not in its buffer.

use super::*;
use crate::interp::{
    BoundModule, BytecodeModule, ContextState, ImportTarget, Invocation, Limits, ModuleList, Poll, Stderr,
};
use crate::ir::graph::{Kind, Node};
use crate::tests::functions;
use std::sync::Arc;
use vireo_core::limits::DispatchMode;
use vireo_core::status::{Result, StatusCode};
use vireo_vm::Value;

/// A compiler that loses all range checks.
struct Broken(ModuleCode);

impl FunctionCompiler for Broken {
    fn callees(&self, module: &BytecodeModule, function: &VerifiedFunction) -> Vec<u32> {
        self.0.callees(module, function)
    }

    fn compile(
        &self,
        module: &BytecodeModule,
        function: &VerifiedFunction,
        code: &ThreadedCode,
        _: bool,
        limit: u64,
    ) -> Result<NativeCode, LeftOut> {
        let Plan { mut graph, .. } = Plan::new(function, module).ok_or(LeftOut::TooLarge)?;
        let mut lost = 0;
        for block in graph.blocks.indices() {
            let mut nodes = std::mem::take(&mut graph.blocks[block].nodes);
            let all = nodes.len();
            nodes.retain(|id| graph.node(*id).kind != Kind::InRange);
            lost += all - nodes.len();
            graph.blocks[block].nodes = nodes;
        }
        assert!(lost > 0);
        let allocation = crate::regalloc::allocate(&graph).expect("it is small");
        self.0.install(&Plan { graph, allocation, is_checked: false }, module, function, code, limit)
    }

    fn publish(&self, ordinal: u32, native: &NativeCode) {
        self.0.publish(ordinal, native);
    }
}

/// Functions that take the bytes of a buffer and an index in elements, or a number of elements.
const FUNCTIONS: &str = "vm.module @test version 0
vm.type !vm.buffer

vm.func @load(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2:3 = vm.ext.i32.i64.s %i0
  %i4:5 = vm.ext.i32.i64.s %i1
  %i6 = vm.const.i32 16
  %r0 = vm.buffer.alloc %i2:3, %i6
  %i7 = vm.buffer.load.i32 %r0, %i4:5
  vm.discard.refs %r0
  vm.return %i7
}

vm.func @store(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2:3 = vm.ext.i32.i64.s %i0
  %i4:5 = vm.ext.i32.i64.s %i1
  %i6 = vm.const.i32 16
  %r0 = vm.buffer.alloc %i2:3, %i6
  %i7 = vm.const.i32.zero
  vm.buffer.store.i8 %i7, %r0, %i4:5
  vm.discard.refs %r0
  vm.return %i7
}

vm.func @sum(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2:3 = vm.ext.i32.i64.s %i0
  %i4:5 = vm.ext.i32.i64.s %i1
  %i6 = vm.const.i32 16
  %r0 = vm.buffer.alloc %i2:3, %i6
  %i8:9 = vm.const.i64.zero
  %i10:11 = vm.const.i64 1
  %i7 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %i6 = vm.buffer.load.i32 %r0, %i8:9
  %i7 = vm.add.i32 %i7, %i6
  %i8:9 = vm.add.i64 %i8:9, %i10:11
  %i6 = vm.cmp.lt.i64.s %i8:9, %i4:5
  vm.cond_br %i6, ^bb1(), ^bb2()
^bb2:
  vm.discard.refs %r0
  vm.return %i7
}
";

fn module() -> BytecodeModule {
    let functions = functions(FUNCTIONS);
    let compiler = Broken(ModuleCode::new(&functions));
    BytecodeModule { compiler: Some(Box::new(compiler)), ..BytecodeModule::new("test".to_string(), functions) }
}

fn call(function: usize, bytes: i32, number: i32) -> Result<Vec<Value>> {
    call_of(&Arc::new(module()), function, bytes, number)
}

fn call_of(module: &Arc<BytecodeModule>, function: usize, bytes: i32, number: i32) -> Result<Vec<Value>> {
    crate::verify_always();
    let program = ModuleList { modules: vec![BoundModule::Bytecode(module.clone())], sink: Arc::new(Stderr) };
    let mut state = ContextState::new(&program)?;
    let limits = Limits { dispatch: DispatchMode::Compiled, ..Limits::default() };
    let args = [Value::I32(bytes), Value::I32(number)];
    let target = ImportTarget { module: 0, function };
    let mut invocation = Invocation::new(&program, target, &args, limits)?;
    match invocation.poll(&mut state)? {
        Poll::Done(values) => Ok(values),
        Poll::Yielded | Poll::Waiting(_) => unreachable!("nothing waits"),
    }
}

#[test]
fn an_index_that_no_range_check_covers_fails_the_call() {
    const LOAD: usize = 0;
    const STORE: usize = 1;
    const SUM: usize = 2;
    let bytes = 4 * 1000;
    for (function, number) in [(LOAD, 0), (LOAD, 999), (STORE, 3999), (SUM, 1), (SUM, 7), (SUM, 1000)] {
        let values = call(function, bytes, number).unwrap();
        assert!(matches!(values[..], [Value::I32(0)]), "{values:?}");
    }
    for (function, number) in
        [(LOAD, -1), (LOAD, 1000), (LOAD, i32::MAX), (STORE, 4000), (STORE, -1), (SUM, 1001), (SUM, 1100)]
    {
        let status = call(function, bytes, number).unwrap_err();
        assert_eq!(status.code(), StatusCode::Internal, "{status}");
        assert!(status.to_string().contains("accesses a buffer out of its range"), "{status}");
    }
}

/// A loop over so many elements, of which each is loaded from one buffer and stored to another one, twice as large. The
/// first buffer has so many bytes, the other one has enough.
fn doubles(load: &str, add: &str, store: &str, [from, to]: [&str; 2], stride: u32) -> String {
    let value = if load.starts_with('f') { &load[..3] } else { "i32" };
    let register = if value == "f64" || value == "i64" { "%i12:13" } else { "%i12" };
    format!(
        "vm.module @test version 0
vm.type !vm.buffer

vm.func @double(%i0: i32, %i1: i32) -> (i32) {{
^bb0:
  %i2:3 = vm.ext.i32.i64.s %i0
  %i4:5 = vm.ext.i32.i64.s %i1
  %i6 = vm.const.i32 16
  %r0 = vm.buffer.alloc %i2:3, %i6
  %i2:3 = vm.const.i64 4096
  %r1 = vm.buffer.alloc %i2:3, %i6
  %i8:9 = vm.const.i64.zero
  %i10:11 = vm.const.i64 1
  %i14:15 = vm.const.i64 {stride}
  vm.br ^bb1()
^bb1:
  %i6 = vm.cmp.lt.i64.s %i8:9, %i4:5
  vm.cond_br %i6, ^bb2(), ^bb3()
^bb2:
  %i2:3 = vm.mul.i64 %i8:9, %i14:15
  {register} = vm.buffer.load.{load} {from}, %i2:3
  {register} = vm.{add} {register}, {register}
  vm.buffer.store.{store} {register}, {to}, %i8:9
  %i8:9 = vm.add.i64 %i8:9, %i10:11
  vm.br ^bb1()
^bb3:
  vm.discard.refs %r0, %r1
  %i6 = vm.const.i32.zero
  vm.return %i6
}}
"
    )
}

/// A loop whose last vector has a mask.
struct Masked {
    lanes: u8,
    /// The elements from one that is accessed to the next, and the bytes of each.
    stride: usize,
    bytes: usize,
    text: String,
    /// Whether a node is the access that leaves the first buffer.
    is_access: fn(&Node) -> bool,
}

fn masked_loops() -> Vec<Masked> {
    let (loaded, stored) = (["%r0", "%r1"], ["%r1", "%r0"]);
    let load: fn(&Node) -> bool = |node| matches!(node.kind, Kind::LoadLanes(..)) && node.args.len() == 3;
    let store: fn(&Node) -> bool = |node| matches!(node.kind, Kind::StoreLanes(..)) && node.args.len() == 4;
    let gather: fn(&Node) -> bool = |node| matches!(node.kind, Kind::Gather(..)) && node.args.len() == 4;
    let even: fn(&Node) -> bool = |node| matches!(node.kind, Kind::LoadEven(..)) && node.args.len() == 4;
    let mut all = Vec::new();
    let mut add = |lanes, [load, op, store]: [&str; 3], bytes, buffers, stride, is_access| {
        let text = doubles(load, op, store, buffers, stride);
        all.push(Masked { lanes, stride: stride as usize, bytes, text, is_access });
    };
    let words = ["i32", "add.i32", "i32"];
    for lanes in [8, 16] {
        for (ops, bytes) in [(words, 4), (["f32", "add.f32", "f32"], 4), (["f64", "add.f64", "f64"], 8)] {
            add(lanes, ops, bytes, loaded, 1, load);
            add(lanes, ops, bytes, stored, 1, store);
            add(lanes, ops, bytes, loaded, 3, gather);
        }
    }
    add(8, words, 4, loaded, 2, even);
    add(16, words, 4, loaded, 2, gather);
    // AVX2 has no masks for narrow elements.
    for (ops, bytes) in [(["i16.u", "add.i32", "i16"], 2), (["i8.s", "add.i32", "i8"], 1)] {
        add(16, ops, bytes, loaded, 1, load);
        add(16, ops, bytes, stored, 1, store);
    }
    all
}

#[test]
fn each_lane_of_a_mask_that_is_on_is_checked() {
    let features = crate::processor::features::Features::detect();
    for Masked { lanes, stride, bytes, text, is_access } in masked_loops() {
        if !(if lanes == 16 { features.avx512 } else { features.avx2 }) {
            continue;
        }
        let functions = functions(&text);
        let compiler = Broken(ModuleCode::new(&functions));
        let mut module = BytecodeModule::new("test".to_string(), functions.clone());
        module.shape.max_lanes = lanes;
        let module = Arc::new(BytecodeModule { compiler: Some(Box::new(compiler)), ..module });
        let graph = Plan::new(&functions[0], &module).unwrap().graph;
        let mut nodes = graph.blocks.iter().flat_map(|block| &block.nodes);
        assert!(nodes.any(|id| is_access(graph.node(*id))), "{lanes} lanes, stride {stride}, no mask:\n{text}");
        for number in (0..=17).chain([23, 24, 25, 31, 40]) {
            let what = format!("{number} elements in {lanes} lanes, at stride {stride}");
            let all = if number == 0 { 0 } else { ((number as usize - 1) * stride + 1) * bytes };
            // Lanes that are off would leave the buffer, and access nothing.
            let values = call_of(&module, 0, all as i32, number);
            assert!(matches!(values.as_deref(), Ok([Value::I32(0)])), "{what}, {values:?}:\n{text}");
            // Only the last lane that is on leaves it, or all but the first lane do.
            for room in [all.saturating_sub(bytes), bytes] {
                if room < all {
                    let status = call_of(&module, 0, room as i32, number).expect_err(&format!("{what}:\n{text}"));
                    assert_eq!(status.code(), StatusCode::Internal, "{status}");
                }
            }
        }
    }
}
