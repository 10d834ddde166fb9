//! Drafts of jumps and calls whose target is in a register.
//!
//! A jump has a list of labels. A call compares the address with that of each function that it may be, and calls the
//! one that is equal: frames are fixed, so arguments go to another place for each of them.

use super::code::{Draft, Place, Target};
use super::instruction::{Lower, Lowered, own};
use super::symbols::FunctionId;
use crate::generated::interp::by_hand;
use crate::generated::limits::INDIRECT_CALLS;
use crate::generated::suffixes::Type;
use crate::interp::{control, moves};
use crate::isa::Form;
use crate::machine::TRUE;
use crate::syntax::{Name, Operand, RegisterId, Table};

impl<'a> Lower<'_, 'a> {
    pub(super) fn branch_indexed(&mut self, operands: &[Operand<'a>]) -> Lowered<()> {
        let [index, Operand::Name(Name::Global(name), 0)] = operands else {
            return self.invalid("expected a number and the name of a list of labels");
        };
        let Some((number, (scope, Table::Labels(labels)))) = self.context.body.table(self.scope, name) else {
            return self.invalid(format!("there is no list of labels `{name}`"));
        };
        let index = self.source(index, Type::B32, false)?;
        if self.out.tables.get(number as usize).is_some_and(Vec::is_empty) {
            let mut statements = Vec::with_capacity(labels.len());
            for label in labels {
                match self.context.body.label(*scope, label) {
                    Some(at) => statements.push(at),
                    None => return self.invalid(format!("there is no label `{label}`")),
                }
            }
            self.out.tables[number as usize] = statements;
        }
        let mut draft = Draft::control(own(control::branch_indexed)).with([index]);
        (draft.table, draft.number) = (Some(number), labels.len() as u32);
        self.push(draft);
        Ok(())
    }

    pub(super) fn call_indirect(
        &mut self,
        results: &[Operand<'a>],
        function: RegisterId,
        arguments: &[Operand<'a>],
        name: &str,
    ) -> Lowered<()> {
        let Some((_, (_, table))) = self.context.body.table(self.scope, name) else {
            return self.invalid(format!("there is no list of functions or prototype `{name}`"));
        };
        if let Table::Prototype(formal_results, parameters) = table {
            let (count, expected) = ((results.len(), arguments.len()), (formal_results.len(), parameters.len()));
            if count != expected {
                let (have, want) = (count, expected);
                let message =
                    format!("{} results and {} arguments: expected {} and {}", have.0, have.1, want.0, want.1);
                return self.invalid(message);
            }
        }
        let candidates: Vec<FunctionId> = match self.context.symbols.candidates(self.context.id.0, table) {
            Ok(candidates) => candidates.to_vec(),
            Err(missing) => return self.invalid(format!("there is no function `{missing}`")),
        };
        self.out.indirect_calls += candidates.len();
        if self.out.indirect_calls > INDIRECT_CALLS as usize {
            let message = "calls through registers that may be of more than";
            return self.unsupported(format!("{message} {INDIRECT_CALLS} functions together"));
        }
        // A result may be in the register of the address.
        if self.bits_of(function) != 64 {
            return self.invalid("the address of a function in a register that has not 64 bits");
        }
        let (address, none) = (self.temporary(64), self.temporary(1));
        self.push(Draft::new(by_hand().copy_pair).with([Place::Register(function)]).to(address));
        self.push(Draft::new(own(moves::copy_bits)).with([Place::Predicate(TRUE)]).to(none));
        let (Place::Register(address), Ok(equal)) = (address, Form::find("setp.eq.b64", 3)) else {
            return self.unsupported("no comparison of addresses");
        };
        for id in candidates {
            let is_it = self.temporary(1);
            let Place::Register(register) = is_it else { continue };
            let known = Operand::Integer(self.context.symbols.address_of(id));
            self.expression(&equal, &[Operand::Register(register), Operand::Register(address), known])?;
            // The lanes that have found none so far, and for which it is not this one, either.
            let mut draft = Draft::new(own(moves::join_bits)).with([is_it, none]).to(none);
            draft.number = 16 | 1;
            self.push(draft);
            let at = self.out.drafts.len();
            self.skip_unless(is_it);
            self.call_function(results, id, arguments)?;
            let skipped = (self.out.drafts.len() - at - 1) as u32;
            self.out.drafts[at].0.target = Some(Target::Skip(skipped));
        }
        self.skip_unless(none);
        self.push(Draft::control(own(control::no_function)));
        Ok(())
    }

    /// A jump over the next instruction of the lanes in which a predicate is false.
    fn skip_unless(&mut self, predicate: Place) {
        let mut draft = Draft::control(own(control::branch)).with([predicate]);
        draft.second = Some(1);
        draft.target = Some(Target::Skip(1));
        self.push(draft);
    }
}
