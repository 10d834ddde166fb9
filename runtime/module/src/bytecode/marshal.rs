//! [`Marshal`]: the plan of a native call, from the registers of the caller to the two argument streams and back. The
//! verifier makes one for each call of an import, and the interpreter executes it.

use super::decoded::{CallSite, Decoded};
use super::operands::{AnyReg, RefReg, Reg};
use crate::convention::{Argument, Convention, Kind};

/// The moves of a call, in the order of the streams. Empty for calls inside a module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marshal {
    /// The value arguments.
    pub words: Box<[Word]>,
    /// The reference arguments, as [`RefReg::frame_relative`].
    pub refs: Box<[(RefReg, Passing)]>,
    /// Which of the first 64 of them are lent, as a bit set.
    pub lent: u64,
    /// The registers of the value results.
    pub result_words: Box<[Word]>,
    /// The registers of the reference results, as [`RefReg::frame_relative`].
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

/// How a reference is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// Moved: the register is left null.
    Move,
    /// Lent: the register gets the reference back after the call, which saves counting it.
    Lend,
    /// Cloned, because it is passed more than once.
    Copy,
}

/// How each reference is passed, and the bit set of those that are lent.
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
        (reg.frame_relative(), passing)
    };
    (refs.iter().enumerate().map(pass).collect(), lent)
}

/// Both streams of a call, under construction.
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
            result_refs: results.refs.into_iter().map(RefReg::frame_relative).collect(),
        }
    }
}
