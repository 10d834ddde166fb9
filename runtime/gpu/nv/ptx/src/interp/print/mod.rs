//! `vprintf`: a text for each lane, by a format of C. The values are in memory as C passes them: 32 bits of integers
//! that the format does not call long, else 64, each aligned to its size.

mod format;

use vireo_simt::row::lanes;
use vireo_simt::{Access, Refusal, Row, TrapKind};

use self::format::{Length, Spec, Value, parse};
use super::memory::{Addresses, Space, fault};
use crate::generated::limits::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW};
use crate::machine::{Block, Inst, Next, Warp};

/// Bytes of a format, or of a text that it puts in, at most.
const MOST_TEXT: usize = 1 << 16;
/// Values of a format at most, as on hardware.
const MOST_VALUES: usize = 32;

/// Bytes of the text of a lane at most: those of the buffer that hardware has for all of a kernel.
const MOST_PRINTED: usize = 1 << 20;

/// Why a lane prints nothing.
enum Failure {
    /// An address where there is no memory.
    Address(u64),
    /// This is wrong with the format.
    Format(String),
}

/// The bytes at a generic address.
fn read(warp: &Warp, block: &mut Block<'_>, lane: usize, address: u64, bytes: &mut [u8]) -> Result<(), Failure> {
    let windows = [(SHARED_WINDOW, Space::Shared), (LOCAL_WINDOW, Space::Local), (PARAM_WINDOW, Space::Param)];
    let window = windows.iter().find(|(window, _)| address >> 24 == window >> 24);
    let (space, at) = window.map_or((Space::Global, address), |(_, space)| (*space, address & 0xFF_FFFF));
    let addresses = Addresses { low: Row::splat(at as u32), high: Row::splat((at >> 32) as u32) };
    warp.load_bytes(block, space, &addresses, lane, bytes).map_err(|_| Failure::Address(address))
}

/// The bytes from an address on, up to a zero.
fn text(warp: &Warp, block: &mut Block<'_>, lane: usize, address: u64) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    loop {
        let mut byte = [0];
        read(warp, block, lane, address.wrapping_add(text.len() as u64), &mut byte)?;
        match byte {
            [0] => return Ok(text),
            _ if text.len() == MOST_TEXT => {
                return Err(Failure::Format(format!("a text of more than {MOST_TEXT} bytes")));
            }
            [byte] => text.push(byte),
        }
    }
}

/// The values of a lane, one after another.
struct Values {
    at: u64,
    count: usize,
}

impl Values {
    fn next(&mut self, warp: &Warp, block: &mut Block<'_>, lane: usize, length: Length) -> Result<u64, Failure> {
        if self.count == MOST_VALUES {
            return Err(Failure::Format(format!("more than {MOST_VALUES} values")));
        }
        let mut bytes = [0; 8];
        let size = if length == Length::Long { 8 } else { 4 };
        let address = self.at.checked_next_multiple_of(size).ok_or(Failure::Address(self.at))?;
        read(warp, block, lane, address, &mut bytes[..size as usize])?;
        (self.at, self.count) = (address.wrapping_add(size), self.count + 1);
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The text of a lane, and how many values are in it.
fn written(
    warp: &Warp,
    block: &mut Block<'_>,
    lane: usize,
    format: &[u8],
    values: u64,
) -> Result<(Vec<u8>, usize), Failure> {
    let mut values = Values { at: values, count: 0 };
    let (mut out, mut rest) = (Vec::new(), format);
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        out.extend(&rest[..at]);
        let (mut spec, length): (Spec, usize) = parse(&rest[at + 1..]).map_err(Failure::Format)?;
        rest = &rest[at + 1 + length..];
        for wanted in [spec.width_is_value, spec.precision_is_value] {
            if wanted.is_some_and(|wanted| wanted) {
                let value = values.next(warp, block, lane, Length::Word)? as i32;
                spec.take(value).map_err(Failure::Format)?;
            }
        }
        let value = match spec.conversion {
            b'%' => Value::Percent,
            b's' => {
                let address = values.next(warp, block, lane, Length::Long)?;
                Value::Text(text(warp, block, lane, address)?)
            }
            _ if spec.is_float() => Value::Float(f64::from_bits(values.next(warp, block, lane, Length::Long)?)),
            _ => Value::Integer(values.next(warp, block, lane, spec.length)?),
        };
        spec.write(&value, &mut out);
        if out.len() > MOST_PRINTED {
            return Err(Failure::Format(format!("a text of more than {MOST_PRINTED} bytes")));
        }
    }
    out.extend(rest);
    Ok((out, values.count))
}

/// Prints a text for each lane, by the addresses of the format and of the values. The result is the number of values.
pub(crate) fn print(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let Some(print) = block.print else {
        let message = "printing, as the owner of the launch takes no texts";
        return warp.trapped(TrapKind::NotImplemented(message.into()), None);
    };
    let (formats, values) =
        (Addresses::at(warp, inst.sources[0], 0, false), Addresses::at(warp, inst.sources[1], 0, false));
    let mut counts = Row::ZERO;
    for lane in lanes(warp.mask) {
        let printed = text(warp, block, lane, formats.lane(lane))
            .and_then(|format| written(warp, block, lane, &format, values.lane(lane)));
        match printed {
            Ok((text, count)) => {
                print(&text);
                counts.0[lane] = count as u32;
            }
            Err(Failure::Address(address)) => {
                let (low, high) = (Row::splat(address as u32), Row::splat((address >> 32) as u32));
                let refused = fault(&Addresses { low, high }, lane, 1, Access::Load, Refusal::Unmapped);
                return warp.refused((refused, lane));
            }
            Err(Failure::Format(why)) => {
                return warp
                    .trapped(TrapKind::InvalidOperand(format!("a format with {why}").into()), Some(lane as u32));
            }
        }
    }
    warp.put(inst.result, &counts);
    Next::Continue
}
