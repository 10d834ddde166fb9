//! The control ops: branches, calls, returns, suspension, and reports to the host. The generated handlers call one
//! function here for each.
//!
//! Each handler returns a [`Flow`]: where execution continues. A call pushes a frame and never recurses, so the depth
//! of a program is bounded by the limit of its stack alone.

use crate::Value;
use crate::bytecode::{AnyReg, CallId, Callee, CasesId, EdgeId, ImportId, ListId, Remap, StringId};
use crate::convention::Kind;
use crate::interp::frame::Frame;
use crate::interp::frame::argument_layout::ArgumentLayout;
use crate::interp::frame::descriptor::FrameDescriptor;
use crate::interp::machine::Machine;
use crate::interp::machine::bound_modules::{BoundModule, BytecodeModule, Import, lookup};
use crate::interp::machine::exit::Exit;
use crate::status::StatusCode;
use crate::status::{Result, Status};

/// Where execution continues after a control op.
pub enum Flow {
    /// At the next op.
    Next,
    /// At the op of this index in the same function.
    Jump(usize),
    /// At `Machine::pc` of the frame that is now on top.
    Frame,
    /// Not before the next poll. `Machine::exit` has the reason; it is not in here, so that a flow is returned in
    /// registers.
    Exit,
}

#[inline(always)]
pub fn br(cx: &mut Machine<'_>, target: EdgeId) -> Result<Flow> {
    cx.branch(target)
}

#[inline(always)]
pub fn cond_br(cx: &mut Machine<'_>, condition: i32, true_target: EdgeId, false_target: EdgeId) -> Result<Flow> {
    // Two branches, not a select of the edge: the processor predicts a branch, but waits for the condition of a select.
    if condition != 0 {
        return cx.branch(true_target);
    }
    cx.branch(false_target)
}

pub fn br_table(cx: &mut Machine<'_>, index: i32, default_target: EdgeId, cases: CasesId) -> Result<Flow> {
    let case = u32::try_from(index).ok().and_then(|index| cx.code().case(cases, index));
    cx.branch(case.unwrap_or(default_target))
}

/// A breakpoint: branches, since there is no debugger to stop in.
pub fn break_(cx: &mut Machine<'_>, target: EdgeId) -> Result<Flow> {
    cx.branch(target)
}

/// A conditional breakpoint: branches whatever the condition is, which only concerns a debugger.
pub fn cond_break(cx: &mut Machine<'_>, _condition: i32, target: EdgeId) -> Result<Flow> {
    cx.branch(target)
}

pub fn yield_(cx: &mut Machine<'_>, target: EdgeId) -> Result<Flow> {
    if let Flow::Jump(pc) = cx.branch(target)? {
        // Where the frame continues when the invocation is resumed.
        cx.stack.pc = pc;
    }
    Ok(cx.exit(Exit::Yielded))
}

pub fn call(cx: &mut Machine<'_>, call: CallId) -> Result<Flow> {
    // A call that has waited was counted when it was made first.
    if cx.stack.pending.is_none() {
        cx.tick()?;
    }
    call_counted(cx, call)
}

/// A call that has been counted as a step.
#[inline(always)]
pub(in crate::interp) fn call_counted(cx: &mut Machine<'_>, call: CallId) -> Result<Flow> {
    let site = cx.code().call(call);
    let import = match site.callee {
        Callee::Function(_) if site.segments.is_some() => {
            return Err(Status::failed_precondition("a variadic call of a function that is not an import"));
        }
        Callee::Function(function) => return cx.enter(cx.module_index(), function.index(), call),
        Callee::Import(import) => cx.import(import)?,
    };
    let Some(target) = import.target else {
        return Err(Status::not_found(format!(
            "the optional import `{}` ({}) is not resolved: no module provides it",
            import.name, import.convention
        )));
    };
    match cx.module_list.modules.get(target.module) {
        Some(BoundModule::Native(module, _)) => {
            let pending = cx.stack.pending.take();
            if !cx.call_native(&**module, target, cx.function.marshal(call), &[], pending)? {
                return Ok(Flow::Exit);
            }
            Ok(site.resume.map_or(Flow::Next, |block| Flow::Jump(cx.code().entry(block))))
        }
        Some(BoundModule::Bytecode(_)) if site.segments.is_some() => Err(Status::unimplemented(format!(
            "a variadic call of `{}` ({}), which is a bytecode function",
            import.name, import.convention
        ))),
        _ => cx.enter(target.module, target.function, call),
    }
}

pub fn call_variadic(cx: &mut Machine<'_>, id: CallId) -> Result<Flow> {
    call(cx, id)
}

pub fn call_yieldable(cx: &mut Machine<'_>, id: CallId) -> Result<Flow> {
    call(cx, id)
}

pub fn call_variadic_yieldable(cx: &mut Machine<'_>, id: CallId) -> Result<Flow> {
    call(cx, id)
}

pub fn return_(cx: &mut Machine<'_>, operands: ListId) -> Result<Flow> {
    let kinds = &cx.function.convention().results;
    let sources = cx.code().list(operands);
    let (Some(header), Some((mut target_frame, caller))) = (cx.stack.header(), cx.stack.caller()) else {
        return Ok(cx.exit(Exit::Returned(operands)));
    };
    let (_, function) = lookup(cx.module_list, caller.descriptor.module as usize, caller.descriptor.function as usize)?;
    let site = function.decoded().call(header.descriptor.call);
    for ((kind, source), target) in kinds.iter().zip(sources).zip(function.decoded().list(site.results)) {
        cx.frame.copy_to(*kind, *source, &mut target_frame, register_index(*target));
    }
    cx.stack.pop();
    cx.select_top()?;
    cx.pc = match site.resume {
        Some(block) => function.decoded().entry(block),
        None => header.descriptor.pc as usize + 1,
    };
    Ok(Flow::Frame)
}

pub fn fail(cx: &mut Machine<'_>, status: i32, message: StringId) -> Result<Flow> {
    let message = String::from_utf8_lossy(cx.code().string(message));
    Err(Status::new(fail_code(status), message))
}

pub fn trace(cx: &mut Machine<'_>, event: StringId, operands: ListId) -> Result<Flow> {
    let values = cx.reported(operands);
    cx.module_list.sink.trace(&String::from_utf8_lossy(cx.code().string(event)), &values);
    Ok(Flow::Next)
}

pub fn print(cx: &mut Machine<'_>, event: StringId, operands: ListId) -> Result<Flow> {
    let values = cx.reported(operands);
    cx.module_list.sink.print(&String::from_utf8_lossy(cx.code().string(event)), &values);
    Ok(Flow::Next)
}

pub fn import_resolved(cx: &mut Machine<'_>, import: ImportId) -> Result<i32> {
    Ok(i32::from(cx.import(import)?.target.is_some()))
}

pub(in crate::interp) fn register_index(register: AnyReg) -> usize {
    if register.is_ref() { register.ref_reg().index() } else { register.reg().index() }
}

impl<'a> Machine<'a> {
    fn exit(&mut self, exit: Exit) -> Flow {
        self.exit = Some(exit);
        Flow::Exit
    }

    /// Takes a branch: executes its copies in order and returns its target.
    #[inline(always)]
    fn branch(&mut self, id: EdgeId) -> Result<Flow> {
        let code = self.code();
        let edge = code.edge(id);
        if edge.has_copies() {
            self.copy_all(code.remaps(edge));
        }
        let target = edge.entry as usize;
        if target <= self.pc {
            self.tick()?;
        }
        Ok(Flow::Jump(target))
    }

    /// Executes copies. Out of line, so that a branch without copies does not save the processor registers that this
    /// needs.
    #[inline(never)]
    fn copy_all(&mut self, remaps: &[Remap]) {
        for remap in remaps {
            if remap.source.is_ref() {
                let value = self.take(remap.source.ref_reg());
                self.assign(remap.target.ref_reg(), value);
            } else {
                let value = self.i32(remap.source.reg());
                self.set_i32(remap.target.reg(), value);
            }
        }
    }

    fn import(&self, import: ImportId) -> Result<&'a Import> {
        let module: &'a BytecodeModule = self.module;
        let found = module.imports.get(import.index());
        found.ok_or_else(|| Status::internal(format!("import {} does not exist", import.index())))
    }

    /// Calls a bytecode function of any module.
    fn enter(&mut self, module: usize, function: usize, id: CallId) -> Result<Flow> {
        let operands = self.code().list(self.code().call(id).operands);
        let (_, callee) = lookup(self.module_list, module, function)?;
        let mut caller = self.frame;
        let descriptor = FrameDescriptor::new(module, callee, self.pc, id);
        let mut new = self.stack.push(descriptor, callee.reads_unwritten_slots())?;
        let mut layout = ArgumentLayout::default();
        let kinds = callee.convention().args.iter().filter_map(|argument| argument.kind());
        for (kind, source) in kinds.zip(operands) {
            caller.copy_to(kind, *source, &mut new, layout.place(kind));
        }
        self.select_top()?;
        self.pc = 0;
        Ok(Flow::Frame)
    }

    /// The operands of a report; references with the MOVE bit are moved out of their registers.
    fn reported(&mut self, operands: ListId) -> Vec<Value> {
        let kind = |source: &AnyReg| if source.is_ref() { Kind::Ref } else { Kind::I32 };
        self.code().list(operands).iter().map(|source| self.frame.value(kind(source), *source)).collect()
    }
}

/// The status code of the op `fail`. Zero is no failure and becomes `INTERNAL`; `DEFERRED`, which has a meaning for the
/// machine, and unknown numbers become `UNKNOWN`.
pub fn fail_code(status: i32) -> StatusCode {
    match StatusCode::from_number(status as u32) {
        _ if status == 0 => StatusCode::Internal,
        None | Some(StatusCode::Deferred) => StatusCode::Unknown,
        Some(code) => code,
    }
}
