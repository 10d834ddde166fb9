//! Drafts of barriers in shared memory, and of matrices that warps store and transpose.

use super::code::{Draft, Place};
use super::instruction::{Lower, Lowered, own};
use super::memory::At;
use crate::error::{LoadError, LoadErrorKind};
use crate::generated::suffixes::{Class, CountSuffix, MbarrierSuffix, Type};
use crate::interp::matrix::{store_matrix, transpose_matrix};
use crate::interp::mbarrier::{self, Kind};
use crate::interp::memory::Space;
use crate::isa::Form;
use crate::machine::Handler;
use crate::syntax::Operand;

/// The first version and target with arrivals of a number that may complete a phase.
const COUNTED_ARRIVALS: (u32, u32) = (78, 90);

impl<'a> Lower<'_, 'a> {
    /// The draft of an instruction on the barrier at an address.
    fn on_barrier(&mut self, form: &Form, address: &Operand<'a>, handler: Handler, kind: Kind) -> Lowered<Draft> {
        let (space, at): (Space, At) = self.access(form, address)?;
        let is_generic = match space {
            Space::Shared => false,
            Space::Generic => true,
            _ => return self.invalid("a barrier that is not in shared memory"),
        };
        let mut draft = Draft::new(handler).with([at.source]);
        draft.number = Kind { is_generic, is_short: at.is_short, ..kind }.number();
        (draft.offset, draft.local) = (at.offset, at.local);
        Ok(draft)
    }

    pub(super) fn init_barrier(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [address, count] = operands else { return self.invalid("expected an address and how many arrivals") };
        let mut draft = self.on_barrier(form, address, own(mbarrier::set), Kind::default())?;
        draft.sources[1] = self.source(count, Type::U32, false)?;
        self.push(draft);
        Ok(())
    }

    pub(super) fn invalidate_barrier(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [address] = operands else { return self.invalid("expected an address") };
        let draft = self.on_barrier(form, address, own(mbarrier::set), Kind::default())?;
        self.push(draft);
        Ok(())
    }

    pub(super) fn arrive(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let stays = form.has(Class::Completion);
        let (result, address, count) = match operands {
            [result, address] if !stays => (result, address, None),
            [result, address, count] => (result, address, Some(count)),
            _ if stays => return self.invalid("expected a result, an address and how many arrivals"),
            _ => return self.invalid("expected a result and an address"),
        };
        if count.is_some() && !stays {
            let (isa, target) = COUNTED_ARRIVALS;
            let opcode = self.opcode;
            if self.context.version < isa {
                let message = format!("{opcode}: a number of arrivals needs version {}.{}", isa / 10, isa % 10);
                return Err(LoadError::new(LoadErrorKind::Version, self.line, message));
            }
            if self.context.target < target {
                let message = format!("{opcode}: a number of arrivals needs sm_{target}");
                return Err(LoadError::new(LoadErrorKind::Target, self.line, message));
            }
        }
        let is_other = form.get::<MbarrierSuffix>() == Some(MbarrierSuffix::ArriveDrop);
        let kind = Kind { is_other, stays, ..Kind::default() };
        let mut draft = self.on_barrier(form, address, own(mbarrier::arrive), kind)?;
        if let Some(count) = count {
            draft.sources[1] = self.source(count, Type::U32, false)?;
        }
        draft.result = match result {
            Operand::Nothing => Place::None,
            result => self.plain_result(result, 64)?,
        };
        self.push(draft);
        Ok(())
    }

    pub(super) fn test_wait(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let may_wait = form.get::<MbarrierSuffix>() == Some(MbarrierSuffix::TryWait);
        // How long it may wait at most may follow.
        let (result, address, phase) = match operands {
            [result, address, phase] => (result, address, phase),
            [result, address, phase, hint] if may_wait => {
                self.source(hint, Type::U32, false)?;
                (result, address, phase)
            }
            _ => return self.invalid("expected a predicate, an address and a phase"),
        };
        let by_parity = form.has(Class::Parity);
        let kind = Kind { is_other: by_parity, ..Kind::default() };
        let mut draft = self.on_barrier(form, address, own(mbarrier::test), kind)?;
        draft.sources[1] = self.source(phase, if by_parity { Type::U32 } else { Type::B64 }, false)?;
        draft.result = self.plain_result(result, 1)?;
        (draft.polls, draft.is_control) = (true, true);
        self.push(draft);
        Ok(())
    }

    pub(super) fn pending_count(&mut self, operands: &[Operand<'a>]) -> Lowered<()> {
        let [result, state] = operands else { return self.invalid("expected a result and a state") };
        let result = self.plain_result(result, 32)?;
        let state = self.source(state, Type::B64, false)?;
        self.push(Draft::new(own(mbarrier::pending_count)).with([state]).to(result));
        Ok(())
    }

    /// An arrival when the copies of the thread end, which they have when they are made.
    pub(super) fn copies_arrive(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [address] = operands else { return self.invalid("expected an address") };
        // Where the barrier expects one arrival more for it, nothing changes.
        let is_counted = form.has(Class::Noinc);
        let handler = if is_counted { own(mbarrier::arrive) } else { own(mbarrier::look) };
        let draft = self.on_barrier(form, address, handler, Kind::default())?;
        self.push(draft);
        Ok(())
    }

    pub(super) fn store_matrix(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [address, values] = operands else { return self.invalid("expected an address and values") };
        let count = match form.get::<CountSuffix>() {
            Some(CountSuffix::X4) => 4,
            Some(CountSuffix::X2) => 2,
            _ => 1,
        };
        let values = Self::values(values);
        if values.len() != count {
            return self.invalid(format!("{} values: expected {count}", values.len()));
        }
        let (space, at) = self.access(form, address)?;
        if !matches!(space, Space::Shared | Space::Generic) {
            return self.invalid("matrices are stored to shared memory");
        }
        let list = values.iter().map(|value| self.source(value, Type::B32, false)).collect::<Lowered<Vec<Place>>>()?;
        let mut draft = Draft::control(own(store_matrix)).with([at.source]);
        draft.number = count as u32
            | u32::from(form.has(Class::Transposed)) << 4
            | u32::from(at.is_short) << 5
            | u32::from(space == Space::Generic) << 6;
        (draft.offset, draft.local) = (at.offset, at.local);
        draft.list = list;
        self.push(draft);
        Ok(())
    }

    pub(super) fn transpose_matrix(&mut self, operands: &[Operand<'a>]) -> Lowered<()> {
        let [result, value] = operands else { return self.invalid("expected a result and a value") };
        let result = self.plain_result(result, 32)?;
        let value = self.source(value, Type::B32, false)?;
        self.push(Draft::control(own(transpose_matrix)).with([value]).to(result));
        Ok(())
    }
}
