//! Allocators over those of devices, for `--device_allocator`. `engine` puts them on the devices of a program, and
//! `main` reports what they found.

use std::fmt::Write;
use std::sync::Arc;

use vireo::hal::{AllocatorSpec, Device, wrap_allocator};

use crate::arguments::ProgramArguments;
use crate::exit::Exit;
use crate::failure::Failure;

/// Most buffers that are listed.
const MAX_LISTED: usize = 16;

/// Puts the allocators of the flags over those of the devices, the first one innermost.
pub fn wrap(devices: &[Arc<dyn Device>], program: &ProgramArguments) -> Result<(), Failure> {
    let specs = &program.device_allocator;
    if program.policy.untrusted && specs.iter().any(|spec| matches!(spec, AllocatorSpec::Debug(_))) {
        let failure = Failure::new(Exit::Usage, "--device_allocator=debug cannot be combined with --untrusted");
        return Err(failure.hint("the memory of untrusted programs begins as zeros, which hides the patterns"));
    }
    for device in devices {
        for spec in specs {
            wrap_allocator(&**device, |inner| spec.wrap(inner)).map_err(|status| {
                let message = format!("cannot put an allocator of --device_allocator on the device `{}`", device.id());
                Failure::new(Exit::Usage, message).because(status)
            })?;
        }
    }
    Ok(())
}

/// The buffers that were never freed, as debug allocators know them; none if all were. Called when the program and its
/// devices are gone.
pub fn leaks(specs: &[AllocatorSpec]) -> Option<String> {
    let mut text = String::new();
    for spec in specs {
        let AllocatorSpec::Debug(ledger) = spec else { continue };
        let live = ledger.live();
        if live.is_empty() {
            continue;
        }
        let bytes: u64 = live.iter().map(|live| live.bytes).sum();
        let (count, all) = (live.len(), ledger.allocated());
        let _ = writeln!(text, "{count} of {all} buffers, with {bytes} bytes, were never freed:");
        live.iter().take(MAX_LISTED).for_each(|live| {
            let _ = writeln!(text, "  {live}");
        });
        if count > MAX_LISTED {
            let _ = writeln!(text, "  and {} more", count - MAX_LISTED);
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use vireo::hal::{BufferParams, HeapAllocator};

    use super::*;

    #[test]
    fn buffers_that_were_never_freed_are_listed() {
        let specs = ["caching".parse().unwrap(), "debug".parse::<AllocatorSpec>().unwrap()];
        let allocator = specs[1].wrap(Arc::new(HeapAllocator::new())).unwrap();
        let mut buffers =
            Vec::from_iter((0..18).map(|_| allocator.allocate_buffer(BufferParams::default(), 4).unwrap()));
        let text = leaks(&specs).unwrap();
        assert!(
            text.starts_with("18 of 18 buffers, with 72 bytes, were never freed:\n  allocation 1: 4 bytes of "),
            "{text}"
        );
        assert!(text.ends_with("\n  and 2 more\n"), "{text}");
        buffers.clear();
        assert_eq!(leaks(&specs), None);
    }
}
