//! Runtime functions for the references of frames that machine code builds when it calls other machine code. The code
//! does everything else of such a frame itself, and calls these only where a frame has references.

use super::handlers::move_ref;
use super::op_execution::After;
use crate::bytecode::ListId;
use crate::convention::Kind;
use crate::interp::frame::header::header_of;
use crate::interp::frame::registers::Registers;
use crate::interp::machine::Machine;

/// Makes the references of a new frame null, and moves or copies the reference arguments of the call into it.
///
/// # Safety
/// The frame with slots `callee` is inside the stack, and its header has the call site; `slots` are those of the
/// caller.
pub unsafe extern "C" fn begin_frame(slots: *mut u32, callee: *mut u32) {
    // SAFETY: sites live as long as the code, and name only references that the frames have. No other code uses them
    // during the call.
    unsafe {
        let header = header_of(callee);
        let Some(site) = (*header).site() else { unreachable!("machine code writes the call to the header") };
        let refs = site.descriptor.refs as usize;
        header.cast::<usize>().sub(refs).write_bytes(0, refs);
        let (from, to) = (Registers::new(slots, usize::MAX, usize::MAX), Registers::new(callee, usize::MAX, refs));
        for (source, target) in &site.refs {
            move_ref(from, *source, to, usize::from(*target));
        }
    }
}

/// Moves the references among the results of a frame to the caller, and the values too if they are `in_slots`, then
/// releases the other references of the frame. False if the code must not continue, because a destructor panicked.
///
/// # Safety
/// As for a handler. Machine code has built the frame with these slots, and `operands` are those of a return of its
/// function.
pub unsafe extern "C" fn end_frame(cx: *mut Machine<'_>, slots: *mut u32, operands: u32, in_slots: bool) -> bool {
    // SAFETY: sites live as long as the code, and name only references that the frames have; the machine is that of the
    // code, which holds no reference to it.
    let (cx, header) = unsafe { (&mut *cx, header_of(slots).read()) };
    cx.execute_for_code(slots, |machine| {
        // SAFETY: sites live as long as the code, and name only references that the frames have. No other code uses
        // them during the call.
        unsafe {
            let Some(site) = header.site() else { unreachable!("machine code writes the call to the header") };
            let refs = site.descriptor.refs as usize;
            let mut from = Registers::new(slots, usize::MAX, refs);
            let mut to = Registers::new(header.caller, usize::MAX, usize::MAX);
            let function = &machine.module.functions[site.descriptor.function as usize];
            let (kinds, sources) = (&function.convention().results, function.decoded().list(ListId(operands)));
            let (mut words, mut targets) = (site.result_words.iter(), site.result_refs.iter());
            for (kind, source) in kinds.iter().zip(sources) {
                if *kind == Kind::Ref {
                    let target = targets.next();
                    target.into_iter().for_each(|target| move_ref(from, source.ref_reg(), to, usize::from(*target)));
                } else if in_slots {
                    for (half, target) in words.by_ref().take(kind.slots() as usize).enumerate() {
                        to.set_word(usize::from(*target), from.word(source.reg().index() + half));
                    }
                }
            }
            (0..refs).for_each(|index| from.assign(index, None));
        }
        After::Next
    })
}
