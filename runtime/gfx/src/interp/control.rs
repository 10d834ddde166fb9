//! Control flow, and instructions without an effect here.

use vireo_hsa::kernel_descriptor::{FloatDenormMode, FloatRoundMode};
use vireo_simt::TrapKind;

use super::wave::{Denormals, Group, Wave};
use super::{Next, scalar};
use crate::isa::immediates::{FloatMode, Message, SendMessage};
use crate::program::Inst;

/// An instruction that cannot be executed.
pub(crate) fn problem(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let kind = group.program.problems.get(inst.number as usize).cloned().unwrap_or(TrapKind::InvalidAddress);
    wave.trapped(kind, None)
}

#[inline(always)]
pub(crate) fn nothing(_: &mut Wave, _: &mut Group<'_>, _: &Inst) -> Next {
    Next::Continue
}

/// Only the release of vector registers, after which a wave ends.
#[inline(always)]
pub(crate) fn message(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let what = match SendMessage(inst.number).id() {
        Some(Message::DeallocVgprs) => return Next::Continue,
        Some(message) => format!("the message {}", message.text()),
        None => format!("the message {}", inst.number),
    };
    wave.trapped(TrapKind::NotImplemented(what.into()), None)
}

#[inline(always)]
pub(crate) fn code_end(wave: &mut Wave, _: &mut Group<'_>, _: &Inst) -> Next {
    wave.trapped(TrapKind::InvalidAddress, None)
}

#[inline(always)]
pub(crate) fn trap(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    wave.trapped(TrapKind::Raised(inst.number), None)
}

#[inline(always)]
pub(crate) fn end(_: &mut Wave, _: &mut Group<'_>, _: &Inst) -> Next {
    Next::End
}

#[inline(always)]
pub(crate) fn barrier(_: &mut Wave, _: &mut Group<'_>, _: &Inst) -> Next {
    Next::Barrier
}

#[inline(always)]
pub(crate) fn denorm_mode(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let mode = FloatMode(inst.number);
    wave.denormals_32 = Denormals::of_mode(FloatDenormMode(mode.mode_32() as u8));
    wave.denormals_16_64 = Denormals::of_mode(FloatDenormMode(mode.mode_16_64() as u8));
    Next::Continue
}

#[inline(always)]
pub(crate) fn round_mode(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let mode = FloatMode(inst.number);
    if [mode.mode_32(), mode.mode_16_64()]
        .iter()
        .all(|mode| FloatRoundMode(*mode as u8) == FloatRoundMode::NEAREST_EVEN)
    {
        return Next::Continue;
    }
    wave.trapped(TrapKind::NotImplemented("rounding other than to nearest".into()), None)
}

#[inline(always)]
fn jump(wave: &mut Wave, group: &Group<'_>, inst: &Inst, taken: bool) -> Next {
    if taken {
        // Only jumps back can make a kernel run forever.
        if inst.number < wave.next && (group.stop.requested() || wave.executed > group.limit) {
            return wave.trapped(TrapKind::Stopped, None);
        }
        wave.next = inst.number;
    }
    Next::Continue
}

#[inline(always)]
pub(crate) fn branch(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    jump(wave, group, inst, true)
}

#[inline(always)]
pub(crate) fn branch_scc0(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    jump(wave, group, inst, !wave.scc)
}

#[inline(always)]
pub(crate) fn branch_scc1(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    jump(wave, group, inst, wave.scc)
}

#[inline(always)]
pub(crate) fn branch_vccz(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    jump(wave, group, inst, wave.vcc() == 0)
}

#[inline(always)]
pub(crate) fn branch_vccnz(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    jump(wave, group, inst, wave.vcc() != 0)
}

#[inline(always)]
pub(crate) fn branch_execz(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    jump(wave, group, inst, wave.exec() == 0)
}

#[inline(always)]
pub(crate) fn branch_execnz(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    jump(wave, group, inst, wave.exec() != 0)
}

fn jump_to_address(wave: &mut Wave, group: &Group<'_>, address: u64) -> Next {
    if group.stop.requested() || wave.executed > group.limit {
        return wave.trapped(TrapKind::Stopped, None);
    }
    let offset = address.wrapping_sub(group.program.address);
    let word = if offset.is_multiple_of(4) { i64::try_from(offset / 4).unwrap_or(-1) } else { -1 };
    let Some(index) = group.program.index_at(word) else {
        return wave.trapped(TrapKind::InvalidJump(address), None);
    };
    wave.next = index;
    Next::Continue
}

#[inline(always)]
pub(crate) fn set_pc(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let address: u64 = scalar::read(wave, inst, 0);
    jump_to_address(wave, group, address)
}

/// The return address is the second source, which the decoder makes a constant.
#[inline(always)]
pub(crate) fn swap_pc(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let address: u64 = scalar::read(wave, inst, 0);
    let next: u64 = scalar::read(wave, inst, 3);
    scalar::write(wave, inst, next);
    jump_to_address(wave, group, address)
}
