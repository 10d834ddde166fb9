//! The text with which a software GPU is configured, such as `agents=2,memory=1GiB,without=svm+peers`: names with
//! values, of which each library has its own ([`settings`], [`Setting`]).

use std::fmt;
use std::str::FromStr;

use vireo_core::byte_size;

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// An option has no value.
    NoValue(String),
    /// The library has no option with this name.
    Unknown(String),
    /// A value is not what it should be.
    Value {
        /// The name of the option.
        name: String,
        /// Its value.
        value: String,
        /// The values that it may have, after "is not".
        expected: String,
    },
    /// A value is out of range, or contradicts another one.
    Refused {
        /// The name of the option.
        name: String,
        /// The reason.
        why: String,
    },
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::NoValue(option) => write!(f, "`{option}` has no `=`"),
            OptionError::Unknown(name) => write!(f, "there is no option `{name}`"),
            OptionError::Value { name, value, expected } => write!(f, "{name}: `{value}` is not {expected}"),
            OptionError::Refused { name, why } => write!(f, "{name}: {why}"),
        }
    }
}

impl std::error::Error for OptionError {}

/// An option with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: &'a str,
}

/// The options of a text, in their order. Empty ones are skipped, and so is space around them.
pub fn settings(text: &str) -> impl Iterator<Item = Result<Setting<'_>, OptionError>> {
    text.split(',').map(str::trim).filter(|option| !option.is_empty()).map(|option| {
        let (name, value) = option.split_once('=').ok_or_else(|| OptionError::NoValue(option.to_string()))?;
        Ok(Setting { name, value })
    })
}

impl Setting<'_> {
    /// The error for a value that is something else than expected.
    fn wrong(&self, value: &str, expected: impl Into<String>) -> OptionError {
        OptionError::Value { name: self.name.to_string(), value: value.to_string(), expected: expected.into() }
    }

    /// The error for a name that no option has.
    pub fn unknown(&self) -> OptionError {
        OptionError::Unknown(self.name.to_string())
    }

    /// The value as a number.
    ///
    /// # Errors
    /// If it is none.
    pub fn number(&self) -> Result<u32, OptionError> {
        self.value.parse().map_err(|_| self.wrong(self.value, "a number"))
    }

    /// The value as a number of bytes, `1GiB`.
    ///
    /// # Errors
    /// If it is none.
    pub fn bytes(&self) -> Result<u64, OptionError> {
        byte_size::parse(self.value).ok_or_else(|| self.wrong(self.value, "a number of bytes"))
    }

    /// The choice that the value names.
    ///
    /// # Errors
    /// If it names none.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, OptionError> {
        let found = choices.iter().find(|(name, _)| *name == self.value);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let expected = match names.split_last() {
                Some((last, [])) => (*last).to_string(),
                Some((last, others)) => format!("{} or {last}", others.join(", ")),
                None => "possible".to_string(),
            };
            self.wrong(self.value, expected)
        })
    }

    /// The choices that the parts of the value name, which have `+` between them.
    ///
    /// # Errors
    /// If a part names none of the choices.
    pub fn several<T: Copy>(&self, choices: &[(&str, T)]) -> Result<Vec<T>, OptionError> {
        let known = || choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let part = |part: &str| {
            let found = choices.iter().find(|(name, _)| *name == part);
            found.map(|(_, choice)| *choice).ok_or_else(|| self.wrong(part, format!("one of {}", known())))
        };
        self.value.split('+').map(part).collect()
    }

    /// The value as its type reads it.
    ///
    /// # Errors
    /// Those of the type.
    pub fn parsed<T: FromStr>(&self) -> Result<T, OptionError>
    where
        T::Err: fmt::Display,
    {
        let refused = |error: T::Err| OptionError::Refused { name: self.name.to_string(), why: error.to_string() };
        self.value.parse().map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_their_options_ask_for() {
        let all: Result<Vec<Setting<'_>>, OptionError> = settings("a=2, b=1KiB,,c=x+y").collect();
        let [a, b, c] = all.expect("options with values")[..] else { panic!("three options") };
        assert_eq!((a.name, a.number(), b.bytes()), ("a", Ok(2), Ok(1024)));
        let choices = [("x", 1), ("y", 2), ("z", 3)];
        assert_eq!(c.several(&choices), Ok(vec![1, 2]));
        assert_eq!(c.choice(&choices).map_err(|error| error.to_string()), Err("c: `x+y` is not x, y or z".into()));
        assert_eq!(a.several(&choices).map_err(|error| error.to_string()), Err("a: `2` is not one of x, y, z".into()));
        assert_eq!((a.parsed::<u8>(), c.parsed::<u8>().is_err()), (Ok(2), true));
        assert_eq!(settings("a").next(), Some(Err(OptionError::NoValue("a".into()))));
    }
}
