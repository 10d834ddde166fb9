//! Target identifiers ([`TargetId`]): a processor and the state of its two optional features, `gfx942:sramecc+:xnack-`.
//! Executables and agents have one each, and [`TargetId::runs_on`] tells whether the code of the one runs on the other.
//!
//! The processors are those of `spec/schema/amdgpu_targets.yaml`. A feature that code does not name may have any state.
//! Agents name the state of every feature that they have.

use std::fmt;

use crate::code_object::CodeObjectFlags;
use crate::targets::{PROCESSORS, Processor};

/// Longest text of a target.
const MAX_LENGTH: usize = 128;

/// The state of an optional feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Not named: any state, or none at all.
    #[default]
    Any,
    /// Off.
    Off,
    /// On.
    On,
}

/// A target that code is compiled for, or that an agent is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TargetId {
    processor: &'static Processor,
    /// Error correction of on-chip memory.
    sramecc: Feature,
    /// Replayable page faults.
    xnack: Feature,
}

/// A text or number that is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No processor is called so.
    #[error("`{0}` is not the name of an AMD GPU processor")]
    Processor(String),
    /// The text after the processor is no feature.
    #[error("`{0}` is no feature of a target: expected `sramecc` or `xnack`, each once, with `+` or `-`")]
    Feature(String),
    /// The text is longer than any target.
    #[error("a target of {0} bytes: expected at most {MAX_LENGTH}")]
    Length(usize),
    /// No processor has this number in the flags of ELF files.
    #[error("no AMD GPU processor has the number {0:#x}")]
    Number(u32),
}

/// How the queues of a processor wait for signals of other queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueWait {
    /// By a packet that compares the value of a signal.
    BarrierValue,
    /// By a PM4 command that polls the value of a signal.
    Pm4,
    /// The host holds the operation back.
    Host,
}

impl TargetId {
    /// Parses a target. Before the processor there may be the triple of the code: all up to the last `-` that is
    /// followed by `gfx`.
    ///
    /// # Errors
    /// If there is no such processor or feature.
    pub fn parse(text: &str) -> Result<TargetId, TargetError> {
        if text.len() > MAX_LENGTH {
            return Err(TargetError::Length(text.len()));
        }
        let text = text.rfind("-gfx").map_or(text, |at| &text[at + 1..]);
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or("");
        let processor = PROCESSORS.iter().find(|processor| processor.name == name);
        let processor = processor.ok_or_else(|| TargetError::Processor(name.to_string()))?;
        let (mut sramecc, mut xnack) = (Feature::Any, Feature::Any);
        for part in parts {
            let wrong = || TargetError::Feature(part.to_string());
            let (feature, state) = match part.as_bytes() {
                [feature @ .., b'+'] => (feature, Feature::On),
                [feature @ .., b'-'] => (feature, Feature::Off),
                _ => return Err(wrong()),
            };
            let slot = match feature {
                b"sramecc" => &mut sramecc,
                b"xnack" => &mut xnack,
                _ => return Err(wrong()),
            };
            if *slot != Feature::Any {
                return Err(wrong());
            }
            *slot = state;
        }
        Ok(TargetId { processor, sramecc, xnack })
    }

    /// The target that the flags of an ELF file name.
    ///
    /// # Errors
    /// If no processor has the number.
    pub fn of_elf_flags(flags: u32) -> Result<TargetId, TargetError> {
        let flags = CodeObjectFlags(flags);
        let number = u32::from(flags.machine().0);
        let processor = PROCESSORS.iter().find(|processor| processor.mach == number);
        let processor = processor.ok_or(TargetError::Number(number))?;
        let feature = |state: u8| match state {
            0b10 => Feature::Off,
            0b11 => Feature::On,
            // There is no such mode, or code for either.
            _ => Feature::Any,
        };
        Ok(TargetId { processor, sramecc: feature(flags.sramecc()), xnack: feature(flags.xnack()) })
    }

    /// The name of the processor.
    pub fn processor(&self) -> &'static str {
        self.processor.name
    }

    /// The generic target whose code runs here, if there is one.
    pub fn generic(&self) -> Option<&'static str> {
        Some(self.processor.generic).filter(|generic| !generic.is_empty())
    }

    /// The family of products that the processor belongs to; empty for generic targets.
    pub fn family(&self) -> &'static str {
        self.processor.family
    }

    /// How queues of the processor wait for signals of other queues.
    pub fn queue_wait(&self) -> QueueWait {
        match self.processor.queue_wait {
            "barrier_value" => QueueWait::BarrierValue,
            "pm4" => QueueWait::Pm4,
            _ => QueueWait::Host,
        }
    }

    /// Whether code for this target runs on an agent: the processor is the agent's or its generic target, and each
    /// feature that the code names has the agent's state.
    pub fn runs_on(&self, agent: &TargetId) -> bool {
        let same = self.processor == agent.processor || agent.generic() == Some(self.processor());
        let fits = |code: Feature, agent: Feature| code == Feature::Any || code == agent;
        same && fits(self.sramecc, agent.sramecc) && fits(self.xnack, agent.xnack)
    }

    /// How closely code for this target that runs on `agent` was made for it: its processor before a generic one, and
    /// then by the number of features that it names.
    pub fn closeness(&self, agent: &TargetId) -> u32 {
        let named = [self.sramecc, self.xnack].into_iter().filter(|feature| *feature != Feature::Any).count() as u32;
        u32::from(self.processor == agent.processor) * 4 + named
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.processor())?;
        for (name, feature) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            match feature {
                Feature::Any => {}
                Feature::Off => write!(f, ":{name}-")?,
                Feature::On => write!(f, ":{name}+")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> TargetId {
        TargetId::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn targets_are_parsed_and_printed_alike() {
        for text in ["gfx1100", "gfx942:xnack-", "gfx90a:sramecc+:xnack-", "gfx11-generic", "gfx9-4-generic:sramecc-"] {
            assert_eq!(target(text).to_string(), text);
            for triple in ["amdgcn-amd-amdhsa--", "amdgpu11.00-amd-amdhsa-unknown-"] {
                assert_eq!(target(&format!("{triple}{text}")), target(text));
            }
        }
        assert_eq!(target("gfx90a:xnack-:sramecc+").to_string(), "gfx90a:sramecc+:xnack-");
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for text in ["", "gfx", "gfx1", "GFX1100", "gfx1100x", "amdgcn-amd-amdhsa--", "xnack+"] {
            assert!(matches!(TargetId::parse(text), Err(TargetError::Processor(_))), "{text}");
        }
        for text in ["gfx90a:", "gfx90a:xnack", "gfx90a:xnack*", "gfx90a:tgsplit+", "gfx90a:xnack+:xnack-"] {
            assert!(matches!(TargetId::parse(text), Err(TargetError::Feature(_))), "{text}");
        }
        assert_eq!(TargetId::parse(&"g".repeat(1000)), Err(TargetError::Length(1000)));
        assert_eq!(TargetId::of_elf_flags(0xfe), Err(TargetError::Number(0xfe)));
    }

    #[test]
    fn code_runs_on_its_processor_and_on_those_of_its_generic_target() {
        let runs = |code: &str, agent: &str| target(code).runs_on(&target(agent));
        assert!(runs("gfx1100", "gfx1100") && runs("gfx11-generic", "gfx1100") && runs("gfx11-generic", "gfx1151"));
        assert!(!runs("gfx1100", "gfx1101") && !runs("gfx11-generic", "gfx1201") && !runs("gfx1100", "gfx11-generic"));
        assert!(runs("gfx90a", "gfx90a:sramecc+:xnack-") && runs("gfx90a:xnack-", "gfx90a:sramecc+:xnack-"));
        assert!(!runs("gfx90a:xnack+", "gfx90a:sramecc+:xnack-") && !runs("gfx90a:xnack+", "gfx90a"));
        let agent = target("gfx942:sramecc+:xnack-");
        let closeness = |code: &str| target(code).closeness(&agent);
        assert!(closeness("gfx942:xnack-") > closeness("gfx942") && closeness("gfx942") > closeness("gfx9-4-generic"));
    }

    #[test]
    fn flags_of_elf_files_name_targets() {
        let flags = [(0x41, "gfx1100"), (0x54, "gfx11-generic"), (0x54c, "gfx942"), (0xa4c, "gfx942:sramecc-:xnack-")];
        for (flags, text) in flags {
            assert_eq!(TargetId::of_elf_flags(flags).map(|target| target.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn the_table_of_processors_is_consistent() {
        for (index, processor) in PROCESSORS.iter().enumerate() {
            let others = &PROCESSORS[index + 1..];
            assert!(others.iter().all(|other| other.name != processor.name && other.mach != processor.mach));
            assert!(["barrier_value", "pm4", "host"].contains(&processor.queue_wait), "{}", processor.name);
            let generic = |other: &&Processor| other.name == processor.generic && other.generic == other.name;
            assert!(processor.generic.is_empty() || PROCESSORS.iter().any(|other| generic(&other)));
        }
    }
}
