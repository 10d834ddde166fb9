//! Instructions of ops for which handlers call the runtime: calls of imports.

use super::{CodeBuilder, Pointer};
use crate::bytecode::{CallId, Callee};
use crate::interp::stack::BoundFunction;
use crate::interp::threaded::handlers;
use crate::interp::threaded::import_site::ImportSite;

impl CodeBuilder<'_> {
    /// Emits a call of an import that is bound, and for a yieldable one the branch to where it goes on. False for any other call.
    pub(super) fn import_call(&mut self, call: CallId) -> bool {
        let site = self.decoded.call(call);
        let Callee::Import(import) = site.callee else { return false };
        let Some(target) = self.module.imports.get(import.index()).and_then(|import| import.target) else {
            return false;
        };
        self.pointers.push((self.stream.instructions.len(), Pointer::ImportSite(self.import_sites.len())));
        self.import_sites.push(ImportSite {
            caller: BoundFunction::new(self.index, self.function),
            pc: self.stream.pc,
            call,
            target,
            marshal: self.function.marshal(call).clone(),
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
}
