//! Frames that compiled code has not made: a call of compiled code by compiled code leaves nothing but an address on the native stack.
//! When such code is left for the interpreter, the headers of all frames since it was entered are written, as if the interpreter had made
//! the calls.

use std::collections::BTreeMap;
use std::process::abort;
use std::sync::{PoisonError, RwLock};

use super::handlers::Site;
use super::native::Native;
use crate::interp::machine::Machine;
use crate::interp::stack::{Header, header_of};

/// What a call has left behind.
pub(super) struct Called {
    /// Which of the calls of the function it is.
    pub site: usize,
    /// Bytes of the native frame of the caller.
    pub frame: usize,
    /// What slots of the caller are to hold.
    pub constants: Box<[(u16, u32)]>,
}

/// The addresses to which calls of compiled code return, of all functions of a module: the function, and which of its [`Called`].
#[derive(Default)]
pub(super) struct Addresses(RwLock<BTreeMap<usize, (u32, u32)>>);

impl Addresses {
    /// Adds those of a function.
    pub fn add(&self, ordinal: u32, addresses: impl Iterator<Item = usize>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.extend(addresses.zip(0..).map(|(address, index)| (address, (ordinal, index))));
    }

    fn get(&self, address: usize) -> Option<(u32, u32)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&address).copied()
    }
}

impl Machine<'_> {
    fn called(&self, address: usize) -> Option<(&Called, &Site)> {
        let table = &self.module.code;
        let (ordinal, index) = table.addresses.get(address)?;
        let native: &Native = table.functions.get(ordinal as usize)?.get()?.native.get()?;
        native.called(index as usize)
    }
}

/// Writes the headers of all frames that compiled code has called since it was entered, from the one with these slots on. `stack` is the
/// native stack behind the address to return to of that one.
///
/// # Safety
/// Compiled code calls this with the machine that runs it, its frame, and the native stack as it was when it was entered by a call.
pub(crate) unsafe extern "C" fn make_frames(cx: *mut Machine<'_>, mut slots: *mut u32, mut stack: *const usize) {
    // SAFETY: compiled code holds no reference to the machine.
    let cx = unsafe { &*cx };
    let mut last = (0, None);
    while (stack as usize) < cx.native_base {
        // SAFETY: native frames reach up to the base, and each begins with the address that the call returns to.
        let address = unsafe { stack.read() };
        // Recursion returns to few places.
        if last.0 != address {
            last = (address, cx.called(address));
        }
        // Going on without the frame would be going on anywhere.
        let Some((called, site)) = last.1 else { abort() };
        let caller = slots.wrapping_byte_sub(site.advance);
        // SAFETY: the frame is inside the stack, as was checked at the call. It is where the interpreter's call would have made it,
        // and the caller is verified to have the slots that the constants are of.
        unsafe {
            header_of(slots).write(Header { caller, site, stamp: site.stamp });
            for (slot, word) in &called.constants {
                caller.add(usize::from(*slot)).write(*word);
            }
        }
        slots = caller;
        stack = stack.wrapping_byte_add(size_of::<usize>() + called.frame);
    }
    if stack as usize != cx.native_base {
        abort();
    }
}
