//! Puts the machine code of a function where the interpreter finds it: the code into the space of its module, and around it the cells
//! through which it is entered and left.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Plan, SideExitKind};
use crate::bytecode::VerifiedFunction;
use crate::executable_memory::{CodeSpace, page_size};
use crate::interp::BytecodeModule;
use crate::interp::perf_map;
use crate::interp::threaded::{Cell, Code, Compile, Fixed, Handler, NO_CELL, Native, cold};
use crate::limits::Charge;
use crate::x64::outside::{Entrance, Outside};

/// Machine code takes whole pages.
const CODE_PAGE: u64 = 4096;
/// Bytes of machine code that one op becomes, with room to spare.
const CODE_PER_OP: usize = 256;

/// The machine code of a module.
pub struct ModuleCode {
    space: CodeSpace,
    /// Where compiled code enters the functions; null where it cannot, or not yet.
    entrances: Box<[AtomicUsize]>,
}

impl ModuleCode {
    /// For a module of these functions.
    pub fn new(functions: &[VerifiedFunction]) -> ModuleCode {
        let code = |function: &VerifiedFunction| function.decoded().ops.len() * CODE_PER_OP + page_size();
        ModuleCode {
            space: CodeSpace::new(functions.iter().map(code).sum()),
            entrances: functions.iter().map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    fn entrance(&self, ordinal: u32) -> Option<Entrance> {
        let place = self.entrances.get(ordinal as usize)?;
        Some(match place.load(Ordering::Acquire) {
            0 => Entrance::Later(place.as_ptr() as usize),
            address => Entrance::At(address),
        })
    }
}

impl Compile for ModuleCode {
    fn callees(&self, module: &BytecodeModule, function: &VerifiedFunction) -> Vec<u32> {
        super::callees(module, function)
    }

    fn publish(&self, ordinal: u32, native: &Native) {
        if let (Some(entrance), Some(place)) = (native.entrance(), self.entrances.get(ordinal as usize)) {
            place.store(entrance, Ordering::Release);
        }
    }

    fn compile(
        &self,
        module: &BytecodeModule,
        function: &VerifiedFunction,
        code: &Code,
        always: bool,
    ) -> Option<Native> {
        let plan = Plan::new(function, module).filter(|plan| always || plan.is_worthwhile())?;
        // Two cells for each departure, one for each other arrival.
        let departures: Vec<_> = plan.departures().collect();
        let arrivals: Vec<_> = plan.arrivals().filter(|arrival| !arrival.resumes).collect();
        let count = departures.len() * 2 + arrivals.len();
        let cells = Fixed::new(vec![Cell::EMPTY; count]);
        let mut pcs = vec![0; count];
        let mut entries = vec![NO_CELL; function.decoded().ops.len()];
        let mut sites = Vec::new();
        let functions = plan.calls().filter_map(|ordinal| Some((ordinal, self.entrance(ordinal)?)));
        let mut outside = Outside { functions: functions.collect(), ..Outside::default() };
        let mut calls = Vec::new();
        for (index, departure) in departures.iter().enumerate() {
            let position = index * 2;
            (pcs[position], pcs[position + 1]) = (departure.pc, departure.pc + 1);
            let (ip, carried) = code.interpreted(departure.pc);
            match departure.kind {
                SideExitKind::Return => {
                    outside.cells.insert(departure.block, (ip as usize, carried));
                    continue;
                }
                SideExitKind::Call => {
                    if let Some(site) = code.site(ip) {
                        calls.push((position, departure.block, ip));
                        sites.push(site.resumed_at(cells.at(position + 1)));
                        outside.cells.insert(departure.block, (cells.at(position) as usize, carried));
                        continue;
                    }
                }
                SideExitKind::Op => {}
            }
            outside.cells.insert(departure.block, (cells.at(position) as usize, None));
        }
        let sites = Fixed::new(sites);
        outside.sites.extend(calls.iter().zip(0..).map(|((_, block, _), index)| (*block, sites.at(index) as usize)));
        let machine = plan.compile(&outside)?;
        // Whoever cannot have the memory goes on without machine code.
        let bytes = (machine.code.len() + count * size_of::<Cell>()) as u64 + CODE_PAGE;
        let charge = Charge::of_call(bytes, "machine code").ok()?;
        let base = self.space.add(&machine.code).ok()?;
        perf_map::note(base, machine.code.len(), || {
            format!("{}.{}", module.name, module.function_name(function.ordinal() as usize))
        });
        let entrance = machine.native_entry.map(|offset| base + offset);
        let handler = |block: usize| -> Option<Handler> {
            let address = base + machine.entries.get(&block)?;
            // SAFETY: the code at an entry has the convention of handlers.
            Some(unsafe { std::mem::transmute::<usize, Handler>(address) })
        };
        let write = |position: usize, cell: Cell| {
            // SAFETY: the cell is ours, and nobody else has seen it yet.
            unsafe { cells.at(position).cast_mut().write(cell) };
        };
        for (index, departure) in departures.iter().enumerate() {
            let position = index * 2;
            write(position, Cell::with(cold, u64::from(departure.pc)));
            let resumed = plan.arrivals().find(|arrival| arrival.resumes && arrival.pc == departure.pc + 1);
            let resumed = resumed.and_then(|arrival| handler(arrival.block));
            write(position + 1, resumed.map_or(Cell::EMPTY, Cell::of));
            if resumed.is_some() {
                entries[departure.pc as usize + 1] = position as u32 + 1;
            }
        }
        for (site, (position, _, ip)) in calls.into_iter().enumerate() {
            // SAFETY: it is the cell of a call.
            let call = unsafe { (*ip).handler() };
            write(position, Cell::with(call, sites.at(site) as u64));
        }
        for (index, arrival) in arrivals.iter().enumerate() {
            let position = departures.len() * 2 + index;
            write(position, Cell::of(handler(arrival.block)?));
            pcs[position] = arrival.pc;
            entries[arrival.pc as usize] = position as u32;
        }
        Some(Native::new(cells, pcs, entries, sites, entrance, charge))
    }
}
