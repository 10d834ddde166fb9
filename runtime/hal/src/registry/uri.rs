//! Device URIs: `driver`, `driver://path`, `driver://path?key=value&key=value`. Registries and drivers parse them.

use std::fmt;

use crate::StringPair;
use crate::status::{Result, Status};
use crate::visible_text::excerpt;

/// Longest URI.
const MAX_LENGTH: usize = 4096;
/// Most parameters of a URI.
const MAX_PARAMS: usize = 128;

/// A device URI: the driver, the driver's path of the device, and parameters.
#[derive(Clone, Debug)]
pub struct DeviceUri {
    /// The driver.
    pub driver: String,
    /// The device; empty for the one that the driver chooses.
    pub path: String,
    /// Options for the driver.
    pub params: Vec<StringPair>,
}

impl DeviceUri {
    /// Parses a URI. The driver ends at the first `:`; the path follows after up to two slashes and ends at the first
    /// `?`; parameters are separated by `&`, with an empty value if they have no `=`. Nothing is percent-decoded.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is malformed or too long.
    pub fn parse(text: &str) -> Result<DeviceUri> {
        let problem = |problem: String| Err(Status::invalid_argument(format!("device `{}`: {problem}", excerpt(text))));
        if text.len() > MAX_LENGTH {
            return problem(format!("a URI of {} bytes; expected at most {MAX_LENGTH}", text.len()));
        }
        if let Some(control) = text.chars().find(|c| c.is_control()) {
            return problem(format!("control character {:#04x} in a URI", u32::from(control)));
        }
        let (driver, rest) = text.split_once(':').unwrap_or((text, ""));
        if let Err(expected) = check_driver_name(driver) {
            return problem(format!("{expected}, as in `driver://path?key=value`"));
        }
        let rest = rest.strip_prefix("//").or_else(|| rest.strip_prefix('/')).unwrap_or(rest);
        let (path, params) = rest.split_once('?').unwrap_or((rest, ""));
        let params = params.trim_matches('&').split('&').filter(|param| !param.is_empty());
        let mut pairs: Vec<StringPair> = Vec::new();
        for param in params {
            let (key, value) = param.split_once('=').unwrap_or((param, ""));
            if key.is_empty() {
                return problem(format!("parameter `{param}` has no name"));
            }
            if pairs.iter().any(|pair| pair.key == key) {
                return problem(format!("parameter `{key}` is given twice"));
            }
            if pairs.len() == MAX_PARAMS {
                return problem(format!("more than {MAX_PARAMS} parameters"));
            }
            pairs.push(StringPair { key: key.to_string(), value: value.to_string() });
        }
        Ok(DeviceUri { driver: driver.to_string(), path: path.to_string(), params: pairs })
    }
}

/// `driver://path?key=value`.
impl fmt::Display for DeviceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.driver, self.path)?;
        for (index, StringPair { key, value }) in self.params.iter().enumerate() {
            f.write_str(if index == 0 { "?" } else { "&" })?;
            f.write_str(key)?;
            if !value.is_empty() {
                write!(f, "={value}")?;
            }
        }
        Ok(())
    }
}

/// Checks that a URI can name the driver; the error says what is expected.
pub(super) fn check_driver_name(name: &str) -> std::result::Result<(), String> {
    const LONGEST: usize = 64;
    match name.chars().find(|c| !(c.is_ascii_alphanumeric() || "+-._".contains(*c))) {
        None if name.is_empty() => Err("no driver; expected the name of one".to_string()),
        None if name.len() > LONGEST => {
            Err(format!("a driver's name of {} bytes; expected at most {LONGEST}", name.len()))
        }
        None => Ok(()),
        Some(c) => Err(format!("`{}` in a driver's name; expected letters, digits and `+-._`", c.escape_debug())),
    }
}
