//! Control flow, instructions without an effect here, and those on registers of the wave that are not its scalars or
//! vectors.

use std::sync::OnceLock;
use std::time::Instant;

use vireo_hsa::kernel_descriptor::{FloatDenormMode, FloatRoundMode};
use vireo_simt::TrapKind;

use super::scalar;
use crate::isa::immediates::{
    FloatMode, HardwareRegister, Message, ModeRegister, RelativeRegisters, SendMessage, StatusRegister, WaveRegister,
};
use crate::isa::limits::{CLOCK_HERTZ, PRIVATE_BASE, SHARED_BASE};
use crate::isa::operands::{M0, SCALAR_REGISTERS};
use crate::isa::{OperandType, Slot};
use crate::machine::{Denormals, Group, Inst, Next, SINK, Wave};

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

/// Puts a state of the wave where the next instruction reads it.
pub(crate) fn state(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let states = [wave.scc, wave.vcc() == 0, wave.exec() == 0];
    let value = states.get(inst.number as usize).copied().unwrap_or(false);
    wave.set_scalar(inst.result, u32::from(value));
    Next::Continue
}

/// How often the clock has counted since it was asked for the first time.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    (elapsed.as_nanos() * u128::from(CLOCK_HERTZ) / 1_000_000_000) as u64
}

/// Only that for the clock.
pub(crate) fn message_with_answer(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let what = match SendMessage(inst.number).id() {
        Some(Message::RtnGetRealtime) => {
            let answer = clock();
            match words_of_result(group, inst) {
                2 => scalar::write(wave, inst, answer),
                _ => scalar::write(wave, inst, answer as u32),
            }
            return Next::Continue;
        }
        Some(message) => format!("the message {}", message.text()),
        None => format!("the message {}", inst.number),
    };
    wave.trapped(TrapKind::NotImplemented(what.into()), None)
}

/// How many registers the result of an instruction has.
fn words_of_result(group: &Group<'_>, inst: &Inst) -> u32 {
    let result = group.program.instruction(inst).and_then(|instruction| instruction.info().operand(Slot::D));
    result.map_or(1, OperandType::words)
}

/// The modes of a wave.
fn modes(wave: &Wave) -> ModeRegister {
    let bits = |denormals: Denormals| u32::from(!denormals.flush_sources) | u32::from(!denormals.flush_results) << 1;
    let denormals = bits(wave.denormals_32) | bits(wave.denormals_16_64) << 2;
    ModeRegister(denormals << 4 | u32::from(wave.clamp_nan) << 8 | u32::from(wave.ieee) << 9)
}

fn not_implemented(wave: &mut Wave, register: HardwareRegister) -> Next {
    let what = match register.id() {
        Some(id) => format!("the register {}", id.text()),
        None => format!("the register {}", HardwareRegister::FIELDS[0].of(register.0)),
    };
    wave.trapped(TrapKind::NotImplemented(what.into()), None)
}

/// The bits that the immediate of an instruction names, in the lowest bits.
fn mask_of(register: HardwareRegister) -> u32 {
    u32::MAX >> (31 - register.size())
}

pub(crate) fn get_register(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let register = HardwareRegister(inst.number);
    let value = match register.id() {
        Some(WaveRegister::Mode) => modes(wave).0,
        Some(WaveRegister::Status) => {
            let states = [wave.scc, wave.exec() == 0, wave.vcc() == 0].map(u32::from);
            let places = StatusRegister::FIELDS.iter().map(|field| field.bit);
            states.into_iter().zip(places).fold(0, |word, (state, bit)| word | state << bit)
        }
        Some(WaveRegister::ShMemBases) => (PRIVATE_BASE >> 48 | SHARED_BASE >> 48 << 16) as u32,
        Some(WaveRegister::ShaderCycles) => wave.executed as u32 & 0xF_FFFF,
        _ => return not_implemented(wave, register),
    };
    scalar::write(wave, inst, value >> register.offset() & mask_of(register));
    Next::Continue
}

/// Sets bits of the modes, the only register that code may set here.
fn set(wave: &mut Wave, inst: &Inst, value: u32) -> Next {
    let register = HardwareRegister(inst.number);
    if register.id() != Some(WaveRegister::Mode) {
        return not_implemented(wave, register);
    }
    let mask = mask_of(register) << register.offset();
    let modes = ModeRegister(modes(wave).0 & !mask | value << register.offset() & mask);
    if modes.round() != 0 || modes.0 & ModeRegister::RESERVED != 0 {
        let what = format!("the modes 0x{:x}", modes.0);
        return wave.trapped(TrapKind::NotImplemented(what.into()), None);
    }
    set_denormals(wave, FloatMode(modes.denorm()));
    (wave.clamp_nan, wave.ieee) = (modes.dx10_clamp(), modes.ieee());
    Next::Continue
}

pub(crate) fn set_register(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    // The field of the result has the source.
    let value = if inst.result == SINK { 0 } else { wave.scalars[usize::from(inst.result)] };
    set(wave, inst, value)
}

pub(crate) fn set_register_to_literal(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let value = scalar::read(wave, inst, 0);
    set(wave, inst, value)
}

/// Copies as many scalar registers as the result has, so far after the source and the result as these say.
fn move_relative(wave: &mut Wave, group: &Group<'_>, inst: &Inst, after_source: u32, after_result: u32) -> Next {
    let words = words_of_result(group, inst);
    let (source, result) = (u32::from(inst.sources[0]), u32::from(inst.result));
    let place = |first: u32, after: u32| {
        let place = first.checked_add(after)?;
        // Without a distance it may be a constant, or where dropped results go.
        (after == 0 || place + words <= SCALAR_REGISTERS).then_some(place as u16)
    };
    let (Some(source), Some(result)) = (place(source, after_source), place(result, after_result)) else {
        return wave.trapped(TrapKind::InvalidOperand("a scalar register beyond the last one".into()), None);
    };
    let values = [wave.scalars[usize::from(source)], wave.scalars[usize::from(source) + 1]];
    for word in 0..words.min(2) as u16 {
        wave.set_scalar(result + word, values[usize::from(word)]);
    }
    Next::Continue
}

pub(crate) fn move_from_relative(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let distance = wave.scalars[M0 as usize];
    move_relative(wave, group, inst, distance, 0)
}

pub(crate) fn move_to_relative(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let distance = wave.scalars[M0 as usize];
    move_relative(wave, group, inst, 0, distance)
}

pub(crate) fn move_between_relative(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let distances = RelativeRegisters(wave.scalars[M0 as usize]);
    move_relative(wave, group, inst, distances.source(), distances.result())
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
    set_denormals(wave, FloatMode(inst.number));
    Next::Continue
}

#[inline(always)]
fn set_denormals(wave: &mut Wave, mode: FloatMode) {
    wave.denormals_32 = Denormals::of_mode(FloatDenormMode(mode.mode_32() as u8));
    wave.denormals_16_64 = Denormals::of_mode(FloatDenormMode(mode.mode_16_64() as u8));
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
        let is_back = inst.number < wave.next;
        wave.next = inst.number;
        if is_back && !wave.may_jump(group) {
            return wave.paused(group);
        }
    }
    Next::Continue
}

#[inline(always)]
pub(crate) fn branch(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    jump(wave, group, inst, true)
}

/// Those that debuggers ask for.
#[inline(always)]
pub(crate) fn branch_never(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    jump(wave, group, inst, false)
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
    let offset = address.wrapping_sub(group.program.address);
    let word = if offset.is_multiple_of(4) { i64::try_from(offset / 4).unwrap_or(-1) } else { -1 };
    let Some(index) = group.program.index_at(word) else {
        return wave.trapped(TrapKind::InvalidJump(address), None);
    };
    wave.next = index;
    if wave.may_jump(group) { Next::Continue } else { wave.paused(group) }
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

/// As `swap_pc`, to where the immediate says, in words from the next instruction.
#[inline(always)]
pub(crate) fn call(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let next: u64 = scalar::read(wave, inst, 3);
    scalar::write(wave, inst, next);
    let words = i64::from(inst.number as u16 as i16);
    jump_to_address(wave, group, next.wrapping_add_signed(4 * words))
}
