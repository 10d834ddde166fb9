//! The mnemonics of an assembler against the instructions: each is one, or is left out for a reason, and no instruction
//! has a number that the assembler does not know.

use std::collections::{BTreeMap, BTreeSet};

use super::types::Gfx;
use crate::diag::Diagnostics;

/// The encoding in whose table the numbers of `encoding` are: two of the same fixed bits share one.
fn table_of(encoding: &str) -> &str {
    if encoding == "vop3sd" { "vop3" } else { encoding }
}

impl Gfx {
    pub(super) fn check_mnemonics(&self, diagnostics: &mut Diagnostics) {
        let mut forms: BTreeMap<(&str, u32), &str> = BTreeMap::new();
        for instruction in &self.instructions {
            let name = instruction.name.as_str();
            forms.extend(instruction.forms.iter().map(|form| ((table_of(&form.encoding), form.opcode), name)));
        }
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for table in &self.assembler {
            let encoding = table.encoding.as_str();
            if self.encoding(encoding).is_none() {
                diagnostics.error(&table.origin, format!("there is no encoding `{encoding}`"));
            }
            for (number, name) in &table.names {
                known.insert(name);
                let problem = match (forms.get(&(encoding, *number)), self.left_out(name)) {
                    (Some(instruction), None) if instruction == name => continue,
                    (None, Some(_)) => continue,
                    (Some(_), Some(left_out)) => format!("is left out by `{}` and an instruction", left_out.name),
                    (Some(instruction), None) => format!("is the instruction `{instruction}`"),
                    (None, None) => "is neither an instruction nor left out".to_string(),
                };
                diagnostics.error(&table.origin, format!("`{name}`, 0x{number:02X} of `{encoding}`, {problem}"));
            }
        }
        for instruction in &self.instructions {
            for form in &instruction.forms {
                let encoding = table_of(&form.encoding);
                let Some(table) = self.assembler.iter().find(|table| table.encoding == encoding) else { continue };
                if !table.names.iter().any(|(number, _)| *number == form.opcode) {
                    let message = format!("the assembler has no 0x{:02X} of `{encoding}`", form.opcode);
                    diagnostics.error(&instruction.origin, message);
                }
            }
        }
        for left_out in &self.left_out {
            for name in left_out.names.iter().filter(|name| !known.contains(name.as_str())) {
                diagnostics.error(&left_out.origin, format!("`{name}`: the assembler has no such mnemonic"));
            }
        }
    }
}
