//! The stream of cells of a function, and where it is entered.

use std::sync::atomic::Ordering;

use super::builder::Builder;
use super::carried_register::Carry;
use super::instruction::{Cell, Held, Ip, Return, Site, cells_of};
use super::native_code::Compiled;
use super::pinned_list::Fixed;
use crate::bytecode::VerifiedFunction;
use crate::interp::bound_modules::BytecodeModule;
use crate::interp::registers::Registers;
use crate::limits::Charge;

/// Cell that does not exist.
pub const NO_CELL: u32 = u32::MAX;

/// How to begin with an op.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// Its first cell; none if it is the second half of another op.
    pub cell: u32,
    /// The head of its block, or any cell if the block is no loop.
    pub head: u32,
    /// What is carried.
    pub carry: Option<Carry>,
}

/// A function as the threaded dispatcher runs it.
pub struct Code {
    pub(super) cells: Fixed<Cell>,
    /// For each cell, the op to execute if the handler stops.
    pub(super) pcs: Box<[u32]>,
    /// For each op, how to begin with it.
    pub(super) entries: Box<[Entry]>,
    pub(super) sites: Fixed<Site>,
    /// Only cells refer to them.
    pub(super) _returns: Fixed<Return>,
    pub(super) native: Compiled,
    /// What counts their memory.
    pub(super) _charge: Charge,
}

// SAFETY: the pointers in cells and sites lead to slices of this value or to the code of the same module, and nothing changes but the
// atomic `entry` of sites.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// The code of `function` of `module`, which is number `index` of its program.
    pub fn new(function: &VerifiedFunction, module: &BytecodeModule, index: usize) -> Code {
        // Only a function that is too long for the distances of fused comparisons is built a second time.
        let build = |fuse| Builder::new(function, module, index, fuse).build();
        build(true).or_else(|| build(false)).unwrap_or_else(|| unreachable!("other branches reach as far as cells go"))
    }

    /// The first cell of op `pc`, if it has one of its own, and what has to be handed to it in a frame.
    pub fn entry(&self, pc: usize, frame: Registers) -> Option<(Ip, Held)> {
        if let Some(ip) = self.native.get().and_then(|native| native.entry(pc)) {
            return Some((ip, Held::default()));
        }
        let entry = self.entries.get(pc).filter(|entry| entry.cell != NO_CELL)?;
        let carry = entry.carry.map_or(0, |carry| carry.value(frame));
        Some((self.cells.at(entry.cell as usize), Held { carry, head: self.cells.at(entry.head as usize) }))
    }

    /// The cell at which a call begins.
    pub(super) fn first(&self) -> Ip {
        if let Some(ip) = self.native.get().and_then(|native| native.entry(0)) {
            return ip;
        }
        self.cells.at(0)
    }

    fn position(&self, ip: Ip) -> usize {
        (ip as usize - self.cells.at(0) as usize) / size_of::<Cell>()
    }

    /// The op of a cell.
    pub fn pc(&self, ip: Ip) -> usize {
        if let Some(pc) = self.native.get().and_then(|native| native.pc(ip)) {
            return pc;
        }
        self.pcs[self.position(ip)] as usize
    }

    /// Where the interpreter executes op `pc`, which is no second half of another: the cell, and the slot, or pair of slots, whose value is
    /// carried to it.
    pub fn interpreted(&self, pc: u32) -> (Ip, Option<(u16, bool)>) {
        let entry = self.entries[pc as usize];
        (self.cells.at(entry.cell as usize), entry.carry.map(|carry| (carry.reg.0, carry.wide)))
    }

    /// The call at a cell.
    pub fn site(&self, ip: Ip) -> Option<&Site> {
        if let Some(site) = self.native.get().and_then(|native| native.site(ip)) {
            return Some(site);
        }
        let after = ip.wrapping_add(cells_of::<*const Site>());
        let sites = self.sites.items();
        let position = sites.binary_search_by_key(&after, |site| site.resume).ok()?;
        sites.get(position)
    }

    /// The function that the call at this cell calls.
    pub fn callee(&self, ip: Ip) -> Option<u32> {
        Some(self.site(ip)?.stamp.function)
    }

    /// The function that the call at this cell calls, if it has never run.
    pub fn unresolved(&self, ip: Ip) -> Option<usize> {
        let site = self.site(ip)?;
        site.entry.load(Ordering::Acquire).is_null().then_some(site.stamp.function as usize)
    }

    /// Lets the call at this cell call `callee`.
    pub fn resolve(&self, ip: Ip, callee: &Code) {
        if let Some(site) = self.site(ip) {
            site.entry.store(callee.first().cast_mut(), Ordering::Release);
        }
    }
}
