//! What a call of an import moves between the registers of the caller and the two streams of a native call.

use super::decoded::{CallSite, Decoded};
use super::operands::{AnyReg, RefReg, Reg};
use crate::convention::{Argument, Convention, Kind};

/// The moves of a call, in the order of the streams. For calls inside a module there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marshal {
    /// The value arguments.
    pub words: Box<[Word]>,
    /// The reference arguments.
    pub refs: Box<[(RefReg, Passing)]>,
    /// Which of the first 64 of them are lent.
    pub lent: u64,
    /// Where the value results go.
    pub result_words: Box<[Word]>,
    /// Where the reference results go.
    pub result_refs: Box<[RefReg]>,
}

/// A word of the stream of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The 32 bits of a slot.
    Narrow(Reg),
    /// The 64 bits of a pair of slots.
    Wide(Reg),
    /// The number of tuples of a span.
    Count(u16),
}

/// What becomes of a register whose reference is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// It is left null.
    Move,
    /// It gets the reference back after the call, so that nobody has to count.
    Lend,
    /// It keeps the reference, which is passed more than once.
    Copy,
}

/// How references are passed, and which of them are lent.
fn passing(refs: &[RefReg]) -> (Box<[(RefReg, Passing)]>, u64) {
    let mut lent = 0;
    let pass = |(index, reg): (usize, &RefReg)| {
        let again = || refs.iter().enumerate().any(|(other, same)| other != index && same.index() == reg.index());
        let passing = match reg.is_move() {
            true => Passing::Move,
            false if index >= u64::BITS as usize || again() => Passing::Copy,
            false => Passing::Lend,
        };
        lent |= u64::from(passing == Passing::Lend) << (index % u64::BITS as usize);
        (*reg, passing)
    };
    (refs.iter().enumerate().map(pass).collect(), lent)
}

/// Both streams while they are put together.
#[derive(Default)]
struct Streams {
    words: Vec<Word>,
    refs: Vec<RefReg>,
}

impl Streams {
    fn push(&mut self, kind: Kind, register: AnyReg) {
        match kind {
            Kind::I32 | Kind::F32 => self.words.push(Word::Narrow(register.reg())),
            Kind::I64 | Kind::F64 => self.words.push(Word::Wide(register.reg())),
            Kind::Ref => self.refs.push(register.ref_reg()),
        }
    }
}

impl Marshal {
    /// The moves of a call that the verifier has checked against `convention`, which is that of its callee.
    pub(super) fn new(decoded: &Decoded, site: &CallSite, convention: &Convention) -> Marshal {
        let (mut arguments, mut results) = (Streams::default(), Streams::default());
        let mut registers = decoded.list(site.operands).iter().copied();
        let mut push = |arguments: &mut Streams, kinds: &[Kind]| {
            kinds.iter().zip(registers.by_ref()).for_each(|(kind, register)| arguments.push(*kind, register));
        };
        let segments = site.segments.map_or(&[] as &[u16], |id| decoded.segments(id));
        for (index, argument) in convention.args.iter().enumerate() {
            match argument {
                Argument::One(kind) => push(&mut arguments, &[*kind]),
                Argument::Span(tuple) => {
                    let count = segments.get(index).copied().unwrap_or_default();
                    arguments.words.push(Word::Count(count));
                    (0..count).for_each(|_| push(&mut arguments, tuple));
                }
            }
        }
        for (kind, register) in convention.results.iter().zip(decoded.list(site.results)) {
            results.push(*kind, *register);
        }
        let (refs, lent) = passing(&arguments.refs);
        Marshal {
            words: arguments.words.into(),
            refs,
            lent,
            result_words: results.words.into(),
            result_refs: results.refs.into(),
        }
    }
}
