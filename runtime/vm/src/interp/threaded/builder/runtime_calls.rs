//! Instructions of ops for which handlers call the runtime: calls of imports, and loads of references.

use super::instruction_stream::InstructionStream;
use super::{CodeBuilder, Pointer};
use crate::bytecode::{CallId, Callee, Marshal, Op, Passing, RefReg, RodataId};
use crate::interp::code::import_site::ImportSite;
use crate::interp::frame::descriptor::BoundFunction;
use crate::interp::threaded::handlers;
use crate::interp::threaded::reference_loads::{self, GlobalLoad, ReferenceLoad, RodataLoad, ZeroLoad};

impl InstructionStream {
    fn reference_load<L: ReferenceLoad>(&mut self, load: L) {
        self.push(reference_loads::load::<L>, load);
        self.carry = None;
    }
}

impl CodeBuilder<'_> {
    /// Emits an op that puts a reference into a register. False for any other op.
    pub(super) fn reference_load(&mut self, op: Op) -> bool {
        let (pc, of) = (self.stream.pc, RefReg::frame_relative);
        match op {
            Op::ConstRefZero { result } => self.stream.reference_load(ZeroLoad { pc, result: of(result) }),
            Op::ConstRefRodata { rodata, result } => {
                self.loaded_rodata.insert(of(result), rodata);
                self.stream.reference_load(RodataLoad { pc, result: of(result), rodata });
            }
            Op::GlobalLoadRef { global, result, .. } if !result.is_move() => {
                self.stream.reference_load(GlobalLoad { pc, result: of(result), global, seen: std::ptr::null_mut() });
            }
            _ => return false,
        }
        true
    }

    /// Emits a call of an import that is bound, and for a yieldable one the branch to where it goes on. False for any
    /// other call.
    pub(super) fn import_call(&mut self, call: CallId) -> bool {
        let site = self.decoded.call(call);
        let Callee::Import(import) = site.callee else { return false };
        let Some(target) = self.module.imports.get(import.index()).and_then(|import| import.target) else {
            return false;
        };
        let marshal = self.function.marshal(call);
        let rodata = self.take_loaded_rodata(marshal);
        self.pointers.push((self.stream.instructions.len(), Pointer::ImportSite(self.import_sites.len())));
        self.import_sites.push(ImportSite {
            caller: BoundFunction::new(self.index, self.function),
            pc: self.stream.pc,
            call,
            target,
            marshal: marshal.clone(),
            rodata,
        });
        self.stream.push(handlers::import_call, std::ptr::null::<ImportSite>());
        self.stream.carry = None;
        if let Some(block) = site.resume {
            self.load_entry_carry(block);
            let entry = self.decoded.entry(block) as u32;
            if entry != self.next_op {
                // Going on counts no step.
                self.branch(entry, false);
            }
        }
        true
    }

    /// The references among the arguments of a call that the block has loaded from rodata and that the call takes, by
    /// position.
    fn take_loaded_rodata(&mut self, marshal: &Marshal) -> Box<[(u16, RodataId)]> {
        let taken = marshal.refs.iter().enumerate().filter_map(|(position, (register, passing))| {
            let rodata = if *passing == Passing::Move { self.loaded_rodata.remove(register) } else { None };
            Some((u16::try_from(position).ok()?, rodata?))
        });
        taken.collect()
    }
}
