//! Drafts of comparisons with predicates, and of what lanes of a warp and warps of a block do together.

use super::code::{Draft, Place};
use super::instruction::{Lower, Lowered, own};
use crate::generated::interp::by_hand;
use crate::generated::suffixes::{
    BooleanSuffix, Class, MatchSuffix, ReductionSuffix, ShuffleSuffix, Type, TypeKind, VoteSuffix,
};
use crate::interp::{moves, sync};
use crate::isa::{BodyInfo, Form};
use crate::machine::DROPPED;
use crate::syntax::Operand;

impl<'a> Lower<'_, 'a> {
    /// A comparison with two results, or one that is joined with a predicate.
    pub(super) fn compare(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let (result, a, b, joined) = match operands {
            [result, a, b] => (result, a, b, None),
            [result, a, b, joined] => (result, a, b, Some(joined)),
            _ => return self.invalid("expected a result and two values"),
        };
        let join = form.get::<BooleanSuffix>();
        let is_half = form.type_of(Class::Type).is_some_and(|ty| ty.bits() == 16 && ty.kind() == TypeKind::Float);
        if join.is_some() != joined.is_some() {
            return self.invalid("a predicate comes with the suffix that says how it is joined");
        }
        let text = form.text_without(Class::Boolean);
        let plain = match Form::find(&text, 3) {
            Ok(plain) if matches!(plain.variant.body, BodyInfo::Lanes(_)) => plain,
            _ => return self.unsupported("no such comparison"),
        };
        self.out.registers.push(1);
        let register = self.out.registers.len() as u32 - 1;
        self.expression(&plain, &[Operand::Register(register), a.clone(), b.clone()])?;
        let (with, negated) = match joined {
            Some(joined) => self.predicate(joined)?,
            None => (Place::None, false),
        };
        let with = if negated {
            let opposite = self.temporary(1);
            let mut draft = Draft::new(own(moves::copy_bits)).with([with]).to(opposite);
            draft.number = 1;
            self.push(draft);
            opposite
        } else {
            with
        };
        let (first, second) = match result {
            Operand::Pair(_) if is_half => return self.invalid("a second result of a comparison of this type"),
            Operand::Pair(pair) => (&pair[0], Some(&pair[1])),
            other => (other, None),
        };
        for (result, opposite) in [(Some(first), 0), (second, 16)] {
            let Some(result) = result else { continue };
            let result = self.plain_result(result, 1)?;
            let mut draft = Draft::new(own(moves::join_bits)).with([Place::Register(register), with]).to(result);
            draft.number = join.map_or(0, |join| join as u32 + 1) | opposite;
            self.push(draft);
        }
        Ok(())
    }

    /// A result, and a predicate if the operand is a pair.
    fn result_and_predicate(&mut self, operand: &Operand<'a>) -> Lowered<(Place, Place)> {
        match operand {
            Operand::Pair(pair) => Ok((self.plain_result(&pair[0], 32)?, self.plain_result(&pair[1], 1)?)),
            other => Ok((self.plain_result(other, 32)?, Place::Predicate(DROPPED))),
        }
    }

    pub(super) fn barrier(&mut self, operands: &[Operand<'a>], waits: bool) -> Lowered<()> {
        let (number, threads) = match operands {
            [number] if waits => (number, None),
            [number, threads] => (number, Some(threads)),
            _ => return self.invalid("expected a barrier, and how many threads"),
        };
        let number = self.source(number, Type::B32, false)?;
        let threads = threads.map_or(Ok(Place::None), |threads| self.source(threads, Type::B32, false))?;
        let mut draft = Draft::control(own(sync::barrier)).with([number, threads]);
        draft.number = u32::from(waits);
        self.push(draft);
        Ok(())
    }

    pub(super) fn barrier_with_vote(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let (result, number, threads, predicate) = match operands {
            [result, number, predicate] => (result, number, None, predicate),
            [result, number, threads, predicate] => (result, number, Some(threads), predicate),
            _ => return self.invalid("expected a result, a barrier, and a predicate"),
        };
        let operation: Option<ReductionSuffix> = form.get();
        let Some(operation) = operation else { return self.unsupported("no operation") };
        let result = self.plain_result(result, if operation == ReductionSuffix::Popc { 32 } else { 1 })?;
        let number = self.source(number, Type::B32, false)?;
        let threads = threads.map_or(Ok(Place::None), |threads| self.source(threads, Type::B32, false))?;
        let (predicate, negated) = self.predicate(predicate)?;
        let mut draft = Draft::control(own(sync::barrier_with_vote)).with([number, threads, predicate]);
        draft.number = u32::from(negated);
        self.push(draft);
        let mut draft = Draft::control(own(sync::barrier_result)).with([number]).to(result);
        draft.number = operation as u32;
        self.push(draft);
        Ok(())
    }

    pub(super) fn shuffle(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [result, value, lane, limits, members] = operands else {
            return self.invalid("expected a result, a value, a lane, limits and a mask");
        };
        let (result, inside) = self.result_and_predicate(result)?;
        let mut sources = [Place::None; 4];
        for (source, operand) in sources.iter_mut().zip([value, lane, limits, members]) {
            *source = self.source(operand, Type::B32, false)?;
        }
        let mut draft = Draft::control(by_hand().shuffle).with(sources).to(result);
        draft.result2 = inside;
        draft.number = form.get::<ShuffleSuffix>().map_or(0, |mode| mode as u32);
        self.push(draft);
        Ok(())
    }

    pub(super) fn vote(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [result, predicate, members] = operands else {
            return self.invalid("expected a result, a predicate and a mask");
        };
        let mode: Option<VoteSuffix> = form.get();
        let bits = if mode == Some(VoteSuffix::Ballot) { 32 } else { 1 };
        let result = self.plain_result(result, bits)?;
        let (predicate, negated) = self.predicate(predicate)?;
        let members = self.source(members, Type::B32, false)?;
        let mut draft = Draft::control(own(sync::vote)).with([predicate, members]).to(result);
        draft.number = mode.map_or(0, |mode| mode as u32) | u32::from(negated) << 8;
        self.push(draft);
        Ok(())
    }

    pub(super) fn match_lanes(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [result, value, members] = operands else { return self.invalid("expected a result, a value and a mask") };
        let (result, all) = self.result_and_predicate(result)?;
        let ty = form.type_of(Class::Type).unwrap_or(Type::B32);
        let value = self.source(value, ty, false)?;
        let members = self.source(members, Type::B32, false)?;
        let is_all = form.get::<MatchSuffix>() == Some(MatchSuffix::All);
        let mut draft = Draft::control(own(sync::match_lanes)).with([value, members]).to(result);
        draft.result2 = all;
        draft.number = u32::from(ty.bits() == 64) | u32::from(is_all) << 1;
        self.push(draft);
        Ok(())
    }

    pub(super) fn redux(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [result, value, members] = operands else { return self.invalid("expected a result, a value and a mask") };
        let result = self.plain_result(result, 32)?;
        let value = self.source(value, form.type_of(Class::Type).unwrap_or(Type::B32), false)?;
        let members = self.source(members, Type::B32, false)?;
        let is_kind = |kind| form.type_of(Class::Type).is_some_and(|ty| ty.kind() == kind);
        let mut draft = Draft::control(own(sync::redux)).with([value, members]).to(result);
        draft.number = form.get::<ReductionSuffix>().map_or(0, |operation| operation as u32)
            | u32::from(is_kind(TypeKind::Signed)) << 8
            | u32::from(is_kind(TypeKind::Float)) << 9
            | u32::from(form.has(Class::Abs)) << 10
            | u32::from(form.has(Class::Nan)) << 11;
        self.push(draft);
        Ok(())
    }
}
