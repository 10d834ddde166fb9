//! Rules of arguments: what a caller of a method must keep besides types, as data. `hal_checks` emits the checks of a
//! validated device from them, and the manual shows them.

use crate::diag::Origin;

/// The requirements on an argument besides its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Values of `buffer_usage`, all of which the buffer must allow.
    pub usage: Vec<String>,
    /// Values of `buffer_usage`, of whose bits the buffer must allow one.
    pub any_usage: Vec<String>,
    /// Values of `memory_access`, all of which the buffer or file must allow.
    pub access: Vec<String>,
    /// Whether the range that it is must be there; other rules of ranges imply it.
    pub in_range: bool,
    /// The arguments that are the offset and the length of a range of the buffer or file.
    pub range: Option<(String, String)>,
    /// The argument whose number of bytes the range must be a multiple of, and begin at one.
    pub multiple_of: Option<String>,
    /// The argument that must have as many bytes.
    pub same_length: Option<String>,
    /// Numbers of bytes or items that it may have.
    pub lengths: Vec<u64>,
    /// The constant that is the most bytes or items that it may have.
    pub at_most: Option<String>,
    /// Whether it must have been made by the device that the method is of, or that made the object.
    pub same_device: bool,
    /// Where the argument is declared.
    pub origin: Origin,
}

impl Rules {
    pub(super) fn none(origin: Origin) -> Rules {
        Rules {
            usage: Vec::new(),
            any_usage: Vec::new(),
            access: Vec::new(),
            in_range: false,
            range: None,
            multiple_of: None,
            same_length: None,
            lengths: Vec::new(),
            at_most: None,
            same_device: false,
            origin,
        }
    }

    /// Whether something is asked of a range or of what it is of.
    pub fn are_of_memory(&self) -> bool {
        let asks = !(self.usage.is_empty() && self.any_usage.is_empty() && self.access.is_empty());
        asks || self.in_range || self.range.is_some() || self.multiple_of.is_some() || self.same_length.is_some()
    }

    /// The rules as sentences, for people.
    pub fn text(&self) -> String {
        let list = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let mut sentences = Vec::new();
        if !self.usage.is_empty() {
            sentences.push(format!("Its usage includes {}.", list(&self.usage)));
        }
        if !self.any_usage.is_empty() {
            sentences.push(format!("Its usage includes one of {}.", list(&self.any_usage)));
        }
        if !self.access.is_empty() {
            sentences.push(format!("It allows {}.", list(&self.access)));
        }
        if self.in_range {
            sentences.push("The range is there.".to_string());
        }
        if let Some((offset, length)) = &self.range {
            sentences.push(format!("The range at `{offset}` of `{length}` is within it."));
        }
        if let Some(other) = &self.multiple_of {
            sentences.push(format!("The range begins and ends at multiples of the length of `{other}`."));
        }
        if let Some(other) = &self.same_length {
            sentences.push(format!("It is as long as `{other}`."));
        }
        if !self.lengths.is_empty() {
            let lengths: Vec<String> = self.lengths.iter().map(u64::to_string).collect();
            sentences.push(format!("Its length is one of {}.", lengths.join(", ")));
        }
        if let Some(most) = &self.at_most {
            sentences.push(format!("It is at most as long as `{most}`."));
        }
        if self.same_device {
            sentences.push("The same device made it.".to_string());
        }
        sentences.join(" ")
    }
}
