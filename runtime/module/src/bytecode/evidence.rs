//! Which rule a module follows for the places of arguments, by the registers that its functions read.

use super::function_info::{FunctionInfo, ModuleInfo};
use super::placement::Placement;
use super::verifier::live_at_entry;

/// The evidence that the functions of a module give of the rule of their compiler.
#[derive(Debug, Default)]
pub struct PlacementEvidence {
    /// A function that reads registers which have arguments by this rule, but not by the other.
    in_order: Option<u32>,
    gap_fill: Option<u32>,
}

impl PlacementEvidence {
    /// Looks at one function, whose arguments may be read before anything is written.
    ///
    /// # Errors
    /// Adds the evidence of a function; the error is what contradicts both rules.
    pub fn add(&mut self, bytes: &[u8], function: &FunctionInfo<'_>, module: &ModuleInfo<'_>) -> Result<(), String> {
        let rules = [Placement::InOrder, Placement::GapFill];
        let [in_order, gap_fill] = rules.map(|rule| rule.slots(function.convention));
        if in_order == gap_fill {
            return Ok(());
        }
        // A fault of the function is reported when it is verified.
        let Ok(live) = live_at_entry(bytes, function, module) else { return Ok(()) };
        let Some(live) = live else {
            return Err("it is too large to find out which registers its arguments are in".to_string());
        };
        let foreign = rules.map(|rule| {
            let is_argument = rule.argument_slots(function.convention, live.len());
            live.iter().zip(is_argument).position(|(live, is_argument)| *live && !is_argument)
        });
        match foreign {
            [Some(first), Some(second)] => Err(format!(
                "it reads registers that are not written before: i{first} is no argument without filled gaps, and i{second} is \
                 none with filled gaps"
            )),
            [None, Some(_)] => {
                self.in_order.get_or_insert(function.ordinal);
                Ok(())
            }
            [Some(_), None] => {
                self.gap_fill.get_or_insert(function.ordinal);
                Ok(())
            }
            [None, None] => Ok(()),
        }
    }

    /// The rule of the module: that of most compilers unless a function needs the other.
    ///
    /// # Errors
    /// Two functions contradict each other.
    pub fn placement(&self) -> Result<Placement, String> {
        match (self.in_order, self.gap_fill) {
            (Some(first), Some(second)) => Err(format!(
                "function {first} reads its arguments without filled gaps, function {second} with filled gaps"
            )),
            (None, Some(_)) => Ok(Placement::GapFill),
            _ => Ok(Placement::InOrder),
        }
    }
}
