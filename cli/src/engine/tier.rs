//! `--tier=`: the choice of interpreter or machine code.

use vireo::interp::{Tier, verify_between_passes};

use crate::arguments::TierChoice;
use crate::exit::Exit;
use crate::failure::Failure;

/// The tier of a choice; of both the one that runs first. If the program is traced it is the interpreter.
pub fn first_tier(choice: TierChoice, is_traced: bool) -> Result<Tier, Failure> {
    if is_traced {
        return match choice {
            TierChoice::Auto | TierChoice::Interp => Ok(Tier::Traced),
            TierChoice::Jit | TierChoice::Both => {
                let failure = Failure::new(
                    Exit::Usage,
                    "--trace_execution traces the interpreter, and --tier asks for machine code",
                );
                Err(failure.hint("leave --tier out, or use --tier=interp"))
            }
        };
    }
    let (tier, needed) = match choice {
        TierChoice::Auto => (Tier::Auto, Tier::Auto),
        TierChoice::Interp => (Tier::Interpreter, Tier::Interpreter),
        TierChoice::Jit => (Tier::Compiled, Tier::Compiled),
        TierChoice::Both => (Tier::Interpreter, Tier::Compiled),
    };
    let flag = if choice == TierChoice::Both { "both" } else { "jit" };
    needed.check().map_err(|status| Failure::new(Exit::Usage, format!("invalid --tier={flag}")).because(status))?;
    if choice == TierChoice::Both {
        // A comparison of tiers looks for wrong results, so speed does not matter.
        verify_between_passes();
    }
    Ok(tier)
}
