//! Forms as text: whether an instruction has these suffixes.

use super::types::{Body, Position, Ptx, Variant};

impl Ptx {
    /// Whether there is a form of this text, such as `add.rn.f32`, or why it is refused.
    ///
    /// # Errors
    /// The reason for which the opcode is refused.
    pub fn has_form(&self, text: &str) -> Result<bool, &str> {
        let begins = |opcode: &String| {
            text.strip_prefix(opcode.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if let Some(refused) = self.refused.iter().find(|refused| refused.opcodes.iter().any(begins)) {
            return Err(&refused.reason);
        }
        let mut parts = text.split('.');
        let name = parts.next().unwrap_or_default();
        let suffixes: Vec<&str> = parts.collect();
        let instructions = self.instructions.iter().filter(|instruction| instruction.name == name);
        Ok(instructions.flat_map(|instruction| &instruction.variants).any(|variant| self.fits(variant, &suffixes)))
    }

    fn fits(&self, variant: &Variant, suffixes: &[&str]) -> bool {
        let mut choices = vec![0; variant.positions.len()];
        if !self.choose(&variant.positions, suffixes, &mut choices) {
            return false;
        }
        let Body::Lanes(forms) = &variant.body else { return true };
        let number = variant.positions.iter().zip(&choices).fold(0, |number, (position, choice)| {
            number * (position.values.len() + usize::from(position.optional)) + choice
        });
        forms.get(number).is_some_and(Option::is_some)
    }

    /// Chooses a suffix for each position, so that all are used in their order.
    fn choose(&self, positions: &[Position], suffixes: &[&str], choices: &mut [usize]) -> bool {
        let [first, rest @ ..] = positions else { return suffixes.is_empty() };
        if let [suffix, others @ ..] = suffixes {
            let values = &self.suffixes[first.class].values;
            if let Some(choice) = first.values.iter().position(|value| values[*value] == *suffix) {
                choices[0] = choice + usize::from(first.optional);
                if self.choose(rest, others, &mut choices[1..]) {
                    return true;
                }
            }
        }
        choices[0] = 0;
        first.optional && self.choose(rest, suffixes, &mut choices[1..])
    }
}
