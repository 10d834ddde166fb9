//! Machine code of graphs without range checks, as a broken pass would leave them: its checked accesses have to find each index that is not in
//! its buffer.

use super::*;
use crate::interp::{
    BoundModule, BytecodeModule, ContextState, ImportTarget, Invocation, Limits, ModuleList, Poll, Stderr,
};
use crate::ir::graph::Kind;
use crate::tests::functions;
use std::sync::Arc;
use vireo_core::limits::Dispatch;
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
    crate::verify_always();
    let program = ModuleList { modules: vec![BoundModule::Bytecode(Arc::new(module()))], sink: Arc::new(Stderr) };
    let mut state = ContextState::new(&program)?;
    let limits = Limits { dispatch: Dispatch::Compiled, ..Limits::default() };
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
