//! Compiled code as part of a stream: cells whose handlers are machine code, and those that it goes on at.
//!
//! Code is entered through a cell, wherever it can be entered. Where it leaves for an op that the interpreter executes, it goes on at
//! a cell for that op, behind which is a cell that leads back into the code.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::fixed::Fixed;
use super::handlers::{self, Cell, Handler, Ip, Site, cells_of};
use super::stream::{Code, NO_CELL};
use super::{Machine, Table};
use crate::budget::Charge;
use crate::bytecode::VerifiedFunction;
use crate::interp::limits::{Dispatch, Tier};
use crate::interp::perf_map;
use crate::interp::program::BytecodeModule;
use crate::jit::{Entrance, Leave, Outside, Plan, callees};

/// A function is compiled when it was begun so often, or came so often to where limits are looked at.
const HOT: u32 = 2;

/// The machine code of a function, once it is worth it.
#[derive(Default)]
pub(super) struct Compiled {
    heat: AtomicU32,
    /// None if the function cannot be compiled.
    native: OnceLock<Option<Native>>,
}

impl Compiled {
    pub fn get(&self) -> Option<&Native> {
        self.native.get()?.as_ref()
    }
}

/// The machine code of a function, which is in the space of its module.
pub(super) struct Native {
    cells: Fixed<Cell>,
    /// For each cell the op at which the interpreter goes on.
    pcs: Box<[u32]>,
    /// For each op the cell at which code can be entered there.
    entries: Box<[u32]>,
    sites: Fixed<Site>,
    /// The address at which other compiled code enters, if it may.
    entrance: Option<usize>,
    /// What counts the memory of the code.
    _charge: Charge,
}

/// Machine code takes whole pages.
const CODE_PAGE: u64 = 4096;

/// Most functions that are compiled because of one that calls them, one inside the other if they call each other.
const MAX_CALLEES: usize = 16;

impl Native {
    /// Compiles a function, `always` or if that is worth it.
    fn new(function: &VerifiedFunction, module: &BytecodeModule, code: &Code, always: bool) -> Option<Native> {
        let entrance = |ordinal: u32| {
            let place = module.code.entrances.get(ordinal as usize)?;
            Some(match place.load(Ordering::Acquire) {
                0 => Entrance::Later(place.as_ptr() as usize),
                address => Entrance::At(address),
            })
        };
        let plan = Plan::new(function, module).filter(|plan| always || plan.is_worthwhile())?;
        // Two cells for each departure, one for each other arrival.
        let departures: Vec<_> = plan.departures().collect();
        let arrivals: Vec<_> = plan.arrivals().filter(|arrival| !arrival.resumes).collect();
        let count = departures.len() * 2 + arrivals.len();
        let cells = Fixed::new(vec![Cell::EMPTY; count]);
        let mut pcs = vec![0; count];
        let mut entries = vec![NO_CELL; function.decoded().ops.len()];
        let mut sites = Vec::new();
        let functions = plan.calls().filter_map(|ordinal| Some((ordinal, entrance(ordinal)?)));
        let mut outside = Outside { functions: functions.collect(), ..Outside::default() };
        let mut calls = Vec::new();
        for (index, departure) in departures.iter().enumerate() {
            let position = index * 2;
            (pcs[position], pcs[position + 1]) = (departure.pc, departure.pc + 1);
            let entry = code.entries[departure.pc as usize];
            let carried = entry.carry.map(|carry| (carry.reg.0, carry.wide));
            let ip = code.cells.at(entry.cell as usize);
            match departure.leave {
                Leave::Return => {
                    outside.cells.insert(departure.block, (ip as usize, carried));
                    continue;
                }
                Leave::Call => {
                    if let Some(site) = code.site(ip) {
                        calls.push((position, departure.block, ip));
                        sites.push(site.resumed_at(cells.at(position + 1)));
                        outside.cells.insert(departure.block, (cells.at(position) as usize, carried));
                        continue;
                    }
                }
                Leave::Op => {}
            }
            outside.cells.insert(departure.block, (cells.at(position) as usize, None));
        }
        let sites = Fixed::new(sites);
        outside.sites.extend(calls.iter().zip(0..).map(|((_, block, _), index)| (*block, sites.at(index) as usize)));
        let machine = plan.compile(&outside)?;
        // Whoever cannot have the memory goes on without machine code.
        let bytes = (machine.code.len() + count * size_of::<Cell>()) as u64 + CODE_PAGE;
        let charge = Charge::of_call(bytes, "machine code").ok()?;
        let base = module.code.space.add(&machine.code).ok()?;
        perf_map::note(base, machine.code.len(), || {
            format!("{}.{}", module.name, module.function_name(function.ordinal() as usize))
        });
        let entrance = machine.called.map(|offset| base + offset);
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
            write(position, Cell::with(handlers::cold, u64::from(departure.pc)));
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
        Some(Native { cells, pcs: pcs.into(), entries: entries.into(), sites, entrance, _charge: charge })
    }

    /// The cell at which code can be entered at an op.
    pub fn entry(&self, pc: usize) -> Option<Ip> {
        let cell = self.entries.get(pc).copied().filter(|cell| *cell != NO_CELL)?;
        Some(self.cells.at(cell as usize))
    }

    fn position(&self, ip: Ip) -> Option<usize> {
        let distance = (ip as usize).checked_sub(self.cells.at(0) as usize)? / size_of::<Cell>();
        (distance < self.pcs.len()).then_some(distance)
    }

    /// The op of a cell, if it is one of these.
    pub fn pc(&self, ip: Ip) -> Option<usize> {
        self.position(ip).map(|position| self.pcs[position] as usize)
    }

    /// The call at a cell.
    pub fn site(&self, ip: Ip) -> Option<&Site> {
        let after = self.cells.at(self.position(ip)? + cells_of::<*const Site>());
        self.sites.items().iter().find(|site| site.resume == after)
    }
}

impl Site {
    /// The same call from compiled code, which goes on at `resume`.
    fn resumed_at(&self, resume: Ip) -> Site {
        Site {
            entry: AtomicPtr::new(self.entry.load(Ordering::Acquire)),
            resume,
            stamp: self.stamp,
            advance: self.advance,
            bytes: self.bytes,
            zeroed: self.zeroed,
            words: self.words.clone(),
            only_word: self.only_word,
            refs: self.refs.clone(),
            first_result: self.first_result,
            result_words: self.result_words.clone(),
            result_refs: self.result_refs.clone(),
        }
    }
}

impl Table {
    /// Lets all calls of a function that has been compiled begin in its code.
    fn redirect(&self, ordinal: u32, code: &Code) {
        for caller in self.functions.iter().filter_map(OnceLock::get) {
            let compiled = caller.native.get().map_or(&[][..], |native| native.sites.items());
            for site in caller.sites.items().iter().chain(compiled) {
                if site.stamp.function == ordinal && !site.entry.load(Ordering::Relaxed).is_null() {
                    site.entry.store(code.first().cast_mut(), Ordering::Release);
                }
            }
        }
    }
}

/// Compiles functions of a module, which is in a program.
#[derive(Clone, Copy)]
pub(crate) struct Compiler<'a> {
    pub module: &'a BytecodeModule,
    /// Index of the module in the program.
    pub index: usize,
    /// Whether all functions are compiled when they are first run.
    pub always: bool,
}

impl Compiler<'_> {
    /// Compiles a function at once, and small ones that it calls. False if it is left to the interpreter.
    pub fn compile(self, ordinal: u32) -> bool {
        let compiler = Compiler { always: true, ..self };
        compiler.heat(ordinal, true, &mut Vec::new());
        let code = self.module.code.code(self.module, self.index, ordinal as usize);
        code.is_some_and(|code| code.native.get().is_some())
    }

    /// Compiles a function `at_once`, or when it is hot, and what it calls before it.
    fn heat(self, ordinal: u32, at_once: bool, seen: &mut Vec<u32>) {
        let Compiler { module, index, always } = self;
        let at_once = at_once || always;
        let (function, code) =
            (module.functions.get(ordinal as usize), module.code.code(module, index, ordinal as usize));
        let (Some(function), Some(code)) = (function, code) else { return };
        if code.native.native.get().is_some() {
            return;
        }
        // What another thread counts at the same time may be lost.
        let heat = code.native.heat.load(Ordering::Relaxed);
        if heat < HOT && !at_once {
            code.native.heat.store(heat + 1, Ordering::Relaxed);
            return;
        }
        // Not while this one is being compiled: another thread may come from the other side.
        seen.push(ordinal);
        for callee in callees(module, function) {
            if seen.len() < MAX_CALLEES && !seen.contains(&callee) {
                self.heat(callee, true, seen);
            }
        }
        let native = code.native.native.get_or_init(|| Native::new(function, module, code, always));
        if let Some(native) = native {
            module.code.redirect(ordinal, code);
            // From here on, other code may call it and leave it.
            if let (Some(entrance), Some(place)) = (native.entrance, module.code.entrances.get(ordinal as usize)) {
                place.store(entrance, Ordering::Release);
            }
        }
    }
}

impl Machine<'_> {
    /// Notes that the running function is about to run, or has run for a while, and compiles it if that is worth it.
    pub(super) fn heat(&self) {
        self.heat_function(self.function.ordinal());
    }

    /// The same of a function that is about to be called.
    pub(super) fn heat_function(&self, ordinal: u32) {
        let always = match (self.limits.dispatch, self.limits.tier) {
            (Dispatch::Compiled, _) | (Dispatch::Auto, Tier::Compiled) => true,
            (Dispatch::Auto, Tier::Auto) => false,
            _ => return,
        };
        let compiler = Compiler { module: self.module, index: self.module_index(), always };
        compiler.heat(ordinal, false, &mut Vec::new());
    }
}

const _: () = assert!(cells_of::<u32>() == 1 && cells_of::<*const Site>() == 1);
