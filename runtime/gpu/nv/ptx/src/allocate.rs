//! Liveness, and rows for registers: linear scan over one interval for each register.
//!
//! An interval goes from the first occurrence to the last one in the order of the text, which jumps forward do not
//! leave. A jump back makes a range: what is live where it ends is live in all of it. A register that is set in a range
//! before it is read there need not be live in the rest, unless a jump forward may skip that. Lanes of other paths do
//! not matter, since each lane has its own part of a row.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A use of a register by an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) register: u32,
    pub(crate) is_set: bool,
    /// Whether it is set whatever was there before.
    pub(crate) is_whole: bool,
}

/// The instructions of a function, as far as registers are concerned.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// The rows of each register; none for predicates.
    pub(crate) rows: Vec<u32>,
    /// For each instruction, what it does, and whether a result may have the place of a source that ends there.
    pub(crate) events: Vec<(Vec<Event>, bool)>,
    /// Jumps, from and to.
    pub(crate) jumps: Vec<(u32, u32)>,
    /// Registers that are live everywhere.
    pub(crate) pinned: Vec<u32>,
}

/// The places of registers.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The first row, or the predicate.
    pub(crate) of: Vec<u32>,
    pub(crate) rows: u32,
    pub(crate) predicates: u32,
}

#[derive(Clone, Copy)]
struct Interval {
    start: u32,
    end: u32,
    /// Whether it begins with a set that does not depend on what was there.
    is_whole: bool,
}

/// More jumps back than these are joined to ranges that do not overlap.
const MOST_RANGES: usize = 2048;

pub(crate) fn places(code: &Code) -> Places {
    let mut intervals: Vec<Option<Interval>> = vec![None; code.rows.len()];
    for (at, (events, shares)) in code.events.iter().enumerate() {
        for event in events {
            let place = 2 * at as u32 + u32::from(event.is_set || !shares);
            match &mut intervals[event.register as usize] {
                Some(interval) => {
                    // A use of the instruction that sets it is before that.
                    interval.is_whole &= interval.start / 2 != at as u32 || event.is_set;
                    interval.start = interval.start.min(place);
                    interval.end = interval.end.max(place);
                }
                none => *none = Some(Interval { start: place, end: place, is_whole: event.is_set && event.is_whole }),
            }
        }
    }
    for register in &code.pinned {
        let last = 2 * code.events.len() as u32 + 1;
        intervals[*register as usize] = Some(Interval { start: 0, end: last, is_whole: false });
    }
    extend(code, &mut intervals);
    scan(code, &intervals)
}

fn extend(code: &Code, intervals: &mut [Option<Interval>]) {
    let mut ranges: Vec<(u32, u32)> =
        code.jumps.iter().filter(|(from, to)| to <= from).map(|(from, to)| (2 * to, 2 * from + 1)).collect();
    if ranges.is_empty() {
        return;
    }
    ranges.sort_unstable();
    ranges.dedup();
    if ranges.len() > MOST_RANGES {
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for (start, end) in ranges {
            match joined.last_mut() {
                Some((_, last)) if start <= *last => *last = (*last).max(end),
                _ => joined.push((start, end)),
            }
        }
        ranges = joined;
    }
    // Inner ranges first, since outer ones contain them.
    ranges.sort_unstable_by_key(|(start, end)| end - start);
    let skips = skips(code);
    for interval in intervals.iter_mut().flatten() {
        loop {
            let before = (interval.start, interval.end);
            for (start, end) in &ranges {
                if interval.end < *start || interval.start > *end {
                    continue;
                }
                if interval.start < *start {
                    interval.end = interval.end.max(*end);
                } else if !interval.is_whole || skips[(interval.start / 2) as usize] <= interval.end / 2 {
                    interval.start = *start;
                    interval.end = interval.end.max(*end);
                    interval.is_whole = false;
                }
            }
            if (interval.start, interval.end) == before {
                break;
            }
        }
    }
}

/// For each instruction, the nearest one after it that a jump from before it goes to.
fn skips(code: &Code) -> Vec<u32> {
    let count = code.events.len();
    let mut forward: Vec<(u32, u32)> = code.jumps.iter().copied().filter(|(from, to)| to > from).collect();
    forward.sort_unstable();
    let mut jumps = forward.into_iter().peekable();
    let mut targets: BTreeMap<u32, u32> = BTreeMap::new();
    let mut skips = Vec::with_capacity(count);
    for at in 0..count as u32 {
        while let Some((_, to)) = jumps.next_if(|(from, _)| *from < at) {
            *targets.entry(to).or_default() += 1;
        }
        while let Some(entry) = targets.first_entry()
            && *entry.key() <= at
        {
            entry.remove();
        }
        skips.push(targets.first_key_value().map_or(u32::MAX, |(target, _)| *target));
    }
    skips
}

/// Free places of one size.
#[derive(Default)]
struct Pool {
    free: Vec<u32>,
}

fn scan(code: &Code, intervals: &[Option<Interval>]) -> Places {
    let mut order: Vec<u32> =
        (0..intervals.len() as u32).filter(|index| intervals[*index as usize].is_some()).collect();
    order.sort_by_key(|index| intervals[*index as usize].map(|interval| (interval.start, interval.end)));
    let mut places = Places { of: vec![0; intervals.len()], ..Places::default() };
    let mut pools: BTreeMap<u32, Pool> = BTreeMap::new();
    let mut active: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
    for index in order {
        let Some(interval) = intervals[index as usize] else { continue };
        while let Some(Reverse((end, ended))) = active.peek().copied()
            && end < interval.start
        {
            active.pop();
            let size = code.rows[ended as usize];
            pools.entry(size).or_default().free.push(places.of[ended as usize]);
        }
        let size = code.rows[index as usize];
        let free = pools.entry(size).or_default().free.pop();
        places.of[index as usize] = free.unwrap_or_else(|| {
            let next = if size == 0 { &mut places.predicates } else { &mut places.rows };
            let place = *next;
            *next += size.max(1);
            place
        });
        active.push(Reverse((interval.end, index)));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(register: u32) -> Event {
        Event { register, is_set: true, is_whole: true }
    }

    fn read(register: u32) -> Event {
        Event { register, is_set: false, is_whole: false }
    }

    /// Runs random programs of jumps with registers of their own, and with shared places.
    #[test]
    fn values_survive_where_they_are_read() {
        let mut state = 0x5EED_u64;
        let mut draw = |bound: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as u32 % bound
        };
        for round in 0..2000 {
            let (count, registers) = (4 + draw(28), 1 + draw(10));
            // (register set, registers read, jump)
            let mut insts = Vec::new();
            for _ in 0..count {
                let jump = (draw(3) == 0).then(|| draw(count));
                insts.push((draw(registers), [draw(registers), draw(registers)], jump));
            }
            let mut code = Code { rows: vec![1; registers as usize], ..Code::default() };
            for (at, (result, sources, jump)) in insts.iter().enumerate() {
                code.events.push((vec![read(sources[0]), read(sources[1]), set(*result)], true));
                code.jumps.extend(jump.map(|to| (at as u32, to)));
            }
            let places = places(&code);
            // A register that was never set has the value that its place happens to have, so all are set first; they
            // are then live from the beginning if they are read before they are set.
            let (mut own, mut shared) = (vec![None; registers as usize], vec![0u64; places.rows as usize]);
            let mut at = 0usize;
            for step in 0..200u64 {
                let Some((result, sources, jump)) = insts.get(at) else { break };
                let mut value = step;
                for source in sources {
                    let expected: Option<u64> = own[*source as usize];
                    let found = shared[places.of[*source as usize] as usize];
                    if let Some(expected) = expected {
                        assert_eq!(found, expected, "round {round}: register {source} at {at}: {insts:?} {places:?}");
                        value = value.wrapping_mul(31).wrapping_add(expected);
                    }
                }
                own[*result as usize] = Some(value);
                shared[places.of[*result as usize] as usize] = value;
                at = match jump {
                    Some(to) if draw(2) == 0 => *to as usize,
                    _ => at + 1,
                };
            }
        }
    }

    #[test]
    fn places_are_used_again() {
        let mut code = Code { rows: vec![1; 100], ..Code::default() };
        for register in 0..99 {
            code.events.push((vec![read(register), set(register + 1)], true));
        }
        assert_eq!(places(&code).rows, 1);
    }
}
