//! Registers by a number that is in M0, and exchange of two registers.

use vireo_simt::TrapKind;

use crate::interp::lanes::source_row;
use crate::isa::immediates::RelativeRegisters;
use crate::isa::operands::M0;
use crate::machine::{Group, Inst, MODIFIED, Next, Wave};

/// The vector register so far after another one, if the wave has it.
fn after(group: &Group<'_>, first: u16, distance: u32) -> Option<u16> {
    let register = u32::from(first).checked_add(distance)?;
    (first < MODIFIED && register < group.program.vectors).then_some(register as u16)
}

fn beyond(wave: &mut Wave) -> Next {
    wave.trapped(TrapKind::InvalidOperand("a vector register that the kernel has not".into()), None)
}

/// Copies the register that is `from` after the source to the one that is `to` after the result.
fn copy(wave: &mut Wave, group: &Group<'_>, inst: &Inst, (from, to): (u32, u32)) -> Next {
    let row = match from {
        0 => Some(source_row(wave, inst, 0)),
        from => after(group, inst.sources[0], from).map(|register| wave.rows[usize::from(register)]),
    };
    let (Some(row), Some(result)) = (row, after(group, inst.result, to)) else { return beyond(wave) };
    let exec = wave.exec_row;
    wave.rows[usize::from(result)].blend(&row, &exec);
    Next::Continue
}

pub(crate) fn move_to_relative(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let distance = wave.scalars[M0 as usize];
    copy(wave, group, inst, (0, distance))
}

pub(crate) fn move_from_relative(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let distance = wave.scalars[M0 as usize];
    copy(wave, group, inst, (distance, 0))
}

pub(crate) fn move_between(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let distance = wave.scalars[M0 as usize];
    copy(wave, group, inst, (distance, distance))
}

pub(crate) fn move_between_relative(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let distances = RelativeRegisters(wave.scalars[M0 as usize]);
    copy(wave, group, inst, (distances.source(), distances.result()))
}

/// Exchanges two registers, which are so far after those of the instruction.
fn exchange(wave: &mut Wave, group: &Group<'_>, inst: &Inst, (from, to): (u32, u32)) -> Next {
    let registers = (after(group, inst.sources[0], from), after(group, inst.result, to));
    let (Some(source), Some(result)) = registers else { return beyond(wave) };
    let old = wave.rows[usize::from(result)];
    let row = wave.rows[usize::from(source)];
    let exec = wave.exec_row;
    wave.rows[usize::from(result)].blend(&row, &exec);
    wave.rows[usize::from(source)].blend(&old, &exec);
    Next::Continue
}

pub(crate) fn swap(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    exchange(wave, group, inst, (0, 0))
}

pub(crate) fn swap_relative(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
    let distances = RelativeRegisters(wave.scalars[M0 as usize]);
    exchange(wave, group, inst, (distances.source(), distances.result()))
}
