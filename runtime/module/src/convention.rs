//! Calling conventions: the argument and result types of a function, parsed from strings such as `0rIiCiID_r`. The
//! verifier, the interpreter, native modules and hosts compare them.
//!
//! A string is a version, arguments and results, each a run of letters or the letter for an empty list. Arguments may
//! contain spans, whose fields repeat as often as the caller says. The letters are those of `spec/abi/types.yaml`.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use smallvec::SmallVec;

use crate::generated::abi::letters;
pub use crate::generated::abi::letters::Kind;
use crate::status::{Result, Status};

/// One top-level argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// One value.
    One(Kind),
    /// Any number of tuples of these kinds.
    Span(SmallVec<[Kind; 4]>),
}

impl Argument {
    /// The kind of a single value.
    #[inline]
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Argument::One(kind) => Some(*kind),
            Argument::Span(_) => None,
        }
    }

    /// Its first letter.
    pub fn first_letter(&self) -> char {
        self.kind().map_or(letters::SPAN_OPENS, Kind::letter)
    }
}

/// A parsed calling convention. Its `Display` is the string it was parsed from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Convention {
    /// The arguments, in order.
    pub args: SmallVec<[Argument; 8]>,
    /// The results, in order.
    pub results: SmallVec<[Kind; 4]>,
}

impl Convention {
    /// The kinds of the arguments, if none of them is a span.
    pub fn fixed_args(&self) -> Option<SmallVec<[Kind; 8]>> {
        self.args
            .iter()
            .map(|argument| match argument {
                Argument::One(kind) => Some(*kind),
                Argument::Span(_) => None,
            })
            .collect()
    }

    /// True if an argument is a span.
    pub fn is_variadic(&self) -> bool {
        self.args.iter().any(|argument| matches!(argument, Argument::Span(_)))
    }
}

impl FromStr for Convention {
    type Err = Status;

    fn from_str(text: &str) -> Result<Convention> {
        let refuse = |what: &str| Err(Status::invalid_argument(format!("calling convention `{text}`: {what}")));
        let Some(body) = text.strip_prefix(letters::VERSION) else {
            return refuse(&format!("expected version `{}` first", letters::VERSION));
        };
        let mut nothing = [0; 4];
        let nothing: &str = letters::NOTHING.encode_utf8(&mut nothing);
        // A string without a separator has no results.
        let (args, results) = body.split_once(letters::RESULTS).unwrap_or((body, nothing));
        let mut convention = Convention::default();
        let mut span: Option<SmallVec<[Kind; 4]>> = None;
        for letter in if args == nothing { "" } else { args }.chars() {
            match (letter, &mut span) {
                (letters::SPAN_OPENS, None) => span = Some(SmallVec::new()),
                (letters::SPAN_OPENS, Some(_)) => return refuse("spans do not nest"),
                (letters::SPAN_CLOSES, open) => match open.take() {
                    Some(kinds) if !kinds.is_empty() => convention.args.push(Argument::Span(kinds)),
                    Some(_) => return refuse("a span has no fields"),
                    None => return refuse(&format!("`{}` without `{}`", letters::SPAN_CLOSES, letters::SPAN_OPENS)),
                },
                (letter, open) => match (Kind::from_letter(letter), open) {
                    (Some(kind), Some(kinds)) => kinds.push(kind),
                    (Some(kind), None) => convention.args.push(Argument::One(kind)),
                    (None, _) => return refuse(&format!("unknown argument `{letter}`")),
                },
            }
        }
        if span.is_some() {
            return refuse(&format!("`{}` without `{}`", letters::SPAN_OPENS, letters::SPAN_CLOSES));
        }
        for letter in if results == nothing { "" } else { results }.chars() {
            match Kind::from_letter(letter) {
                Some(kind) => convention.results.push(kind),
                None => return refuse(&format!("unknown result `{letter}`")),
            }
        }
        Ok(convention)
    }
}

impl fmt::Display for Convention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char(letters::VERSION)?;
        if self.args.is_empty() {
            f.write_char(letters::NOTHING)?;
        }
        for argument in &self.args {
            match argument {
                Argument::One(kind) => f.write_char(kind.letter())?,
                Argument::Span(kinds) => {
                    f.write_char(letters::SPAN_OPENS)?;
                    kinds.iter().try_for_each(|kind| f.write_char(kind.letter()))?;
                    f.write_char(letters::SPAN_CLOSES)?;
                }
            }
        }
        f.write_char(letters::RESULTS)?;
        if self.results.is_empty() {
            f.write_char(letters::NOTHING)?;
        }
        self.results.iter().try_for_each(|kind| f.write_char(kind.letter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_round_trip() {
        for text in ["0v_v", "0rIiiI_r", "0rIiiiICiDCiirIID_v", "0CrIiD_fF"] {
            assert_eq!(text.parse::<Convention>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn malformed_strings_are_refused() {
        for text in ["", "1i_i", "0x_v", "0C_v", "0CD_v", "0D_v", "0CiCiDD_v", "0i_Ci", "0i_i_i", "0iv_i", "0i_vv"] {
            let error = text.parse::<Convention>().unwrap_err();
            assert!(error.message().contains("calling convention"), "{error}");
        }
    }
}
