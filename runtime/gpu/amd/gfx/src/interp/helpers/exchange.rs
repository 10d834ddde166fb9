//! Exchange between lanes.

use vireo_simt::row::lanes;
use vireo_simt::{LANES, Row, TrapKind};

use super::write;
use crate::interp::lanes::source_row;
use crate::interp::scalar;
use crate::isa::immediates::{QuadPerm, Swizzle, SwizzleBitmask};
use crate::machine::{Group, Inst, Next, Wave};

#[inline(always)]
pub(crate) fn readfirstlane(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let row = source_row(wave, inst, 0);
    let lane = wave.exec().trailing_zeros() as usize % LANES;
    wave.set_scalar(inst.result, row.0[lane]);
    Next::Continue
}

#[inline(always)]
pub(crate) fn readlane(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let lane: u32 = scalar::read(wave, inst, 1);
    let row = source_row(wave, inst, 0);
    wave.set_scalar(inst.result, row.0[lane as usize % LANES]);
    Next::Continue
}

#[inline(always)]
pub(crate) fn writelane(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let (value, lane): (u32, u32) = (scalar::read(wave, inst, 0), scalar::read(wave, inst, 1));
    wave.rows[usize::from(inst.result)].0[lane as usize % LANES] = value;
    Next::Continue
}

/// Each lane gets a value of the row of 16 whose number is that of its own, exclusive-or `other`.
#[inline(always)]
fn permlane(wave: &mut Wave, inst: &Inst, other: usize) -> Next {
    let picks: u64 =
        u64::from(scalar::read::<u32>(wave, inst, 1)) | u64::from(scalar::read::<u32>(wave, inst, 2)) << 32;
    let flags = inst.modifiers().high;
    let (fetch_inactive, zero_inactive) = (flags & 1 == 1, flags >> 1 & 1 == 1);
    let from = source_row(wave, inst, 0);
    let exec = wave.exec();
    let old = wave.rows[usize::from(inst.result)];
    let row = Row::from_fn(|lane| {
        let pick = ((lane / 16) ^ other) * 16 + (picks >> (4 * (lane % 16)) & 15) as usize;
        match exec >> pick & 1 == 1 || fetch_inactive {
            true => from.0[pick],
            false if zero_inactive => 0,
            false => old.0[lane],
        }
    });
    write(wave, inst, &row)
}

#[inline(always)]
pub(crate) fn permlane16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    permlane(wave, inst, 0)
}

#[inline(always)]
pub(crate) fn permlanex16(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    permlane(wave, inst, 1)
}

#[inline(always)]
pub(crate) fn mbcnt_lo(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let (mask, start) = (source_row(wave, inst, 0), source_row(wave, inst, 1));
    let row = Row::from_fn(|lane| (mask.0[lane] & ((1 << lane) - 1)).count_ones().wrapping_add(start.0[lane]));
    write(wave, inst, &row)
}

#[inline(always)]
pub(crate) fn mbcnt_hi(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let start = source_row(wave, inst, 1);
    write(wave, inst, &start)
}

#[inline(always)]
pub(crate) fn bpermute(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let (address, data) = (&wave.rows[usize::from(inst.sources[0])], &wave.rows[usize::from(inst.sources[1])]);
    let exec = wave.exec();
    let row = Row::from_fn(|lane| {
        let from = (address.0[lane].wrapping_add(inst.number) >> 2) as usize % LANES;
        data.0[from] & 0u32.wrapping_sub(exec >> from & 1)
    });
    write(wave, inst, &row)
}

#[inline(always)]
pub(crate) fn permute(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let (address, data) = (&wave.rows[usize::from(inst.sources[0])], &wave.rows[usize::from(inst.sources[1])]);
    let mut row = Row::ZERO;
    // Of several lanes that send to one, the last one wins.
    for lane in lanes(wave.exec()) {
        row.0[(address.0[lane].wrapping_add(inst.number) >> 2) as usize % LANES] = data.0[lane];
    }
    write(wave, inst, &row)
}

#[inline(always)]
pub(crate) fn swizzle(wave: &mut Wave, _: &mut Group<'_>, inst: &Inst) -> Next {
    let data = &wave.rows[usize::from(inst.sources[0])];
    let Some(swizzle) = Swizzle::of(inst.number) else {
        return wave.trapped(TrapKind::NotImplemented(format!("the swizzle 0x{:x}", inst.number).into()), None);
    };
    let exec = wave.exec();
    let row = Row::from_fn(|lane| {
        let from = match swizzle {
            Swizzle::QuadPerm(lanes) => lane / 4 * 4 + QuadPerm(lanes).lane(lane as u32 % 4) as usize,
            Swizzle::Bitmask(bits) => {
                let bits = SwizzleBitmask(bits);
                ((lane as u32 & bits.and() | bits.or()) ^ bits.xor()) as usize
            }
        };
        data.0[from] & 0u32.wrapping_sub(exec >> from & 1)
    });
    write(wave, inst, &row)
}
