//! The execution of a block ([`Replay`]): its commands are given to a stream, with the addresses of the execution.

use std::ptr::null_mut;

use super::block::{Block, Command, Counts, Launch, Operation};
use super::execution::{Execution, extra_of};
use super::program::Program;
use crate::hal_driver::references::Place;
use crate::handles::MemoryPool;
use crate::memory::DeviceMemory;
use crate::status::{Result, Status};
use crate::times::Timing;

/// Copies of ranges that overlap without memory in between, at most.
const MAX_STEPS: u64 = 4096;

/// Memory in which the arguments of an execution are put together; it is used again.
#[derive(Debug, Default)]
pub struct Scratch {
    arena: Vec<u64>,
}

/// An execution of a block.
pub struct Replay<'a> {
    /// Where it runs, and its addresses.
    pub execution: Execution<'a>,
    /// The pool of memory that the stream takes and gives back in its order, if there is one.
    pub pool: Option<&'a MemoryPool>,
    /// The program.
    pub program: &'a Program,
    /// Memory of the host for sizes of grids.
    pub counts: Option<&'a DeviceMemory>,
}

impl Replay<'_> {
    /// Gives a block to the stream, with events around what is to be timed. What was given before a failure stays
    /// there.
    ///
    /// # Errors
    /// Those of the library, with the kernel, and OUT_OF_RANGE for sizes of grids that the device does not have.
    pub fn run(&self, block: &Block, scratch: &mut Scratch, mut timing: Option<&mut Timing<'_>>) -> Result<()> {
        let arena = self.arguments(block, scratch)?;
        // No event can be between the nodes of a graph.
        let may_be_graph = timing.as_ref().is_none_or(|timing| !timing.wants_dispatches());
        if may_be_graph && self.program.blocks().len() == 1 && self.program.graphs.run(&self.execution, block, arena)? {
            if let Some(timing) = timing {
                timing.graph(block.launches());
            }
            return Ok(());
        }
        for command in &block.commands {
            match command {
                Command::Launch(launch) => self.dispatch(launch, launch.grid, arena, timing.as_deref_mut())?,
                Command::Indirect(launch, counts) => {
                    let grid = self.grid(counts).map_err(|status| self.named(launch, status))?;
                    if !grid.contains(&0) {
                        self.dispatch(launch, grid, arena, timing.as_deref_mut())?;
                    }
                }
                Command::Transfer(target, operation) => {
                    self.transfer(block, target, operation)?;
                    if let Some(timing) = &mut timing {
                        timing.other();
                    }
                }
                Command::ReadCounts(place, index) => {
                    let (address, length) = place.range(self.execution.resolved, 0)?;
                    let target = self.counts_of(*index)?;
                    self.copy(target, address, length)?;
                    if let Some(timing) = &mut timing {
                        timing.other();
                    }
                }
                // A stream runs one after the other.
                Command::Barrier => {}
            }
        }
        Ok(())
    }

    /// The arguments of an execution: those that were recorded, or a copy with the addresses in it.
    fn arguments<'s>(&self, block: &'s Block, scratch: &'s mut Scratch) -> Result<&'s [u64]> {
        if block.patches.is_empty() {
            return Ok(&block.arena);
        }
        scratch.arena.clear();
        scratch.arena.extend_from_slice(&block.arena);
        for patch in &block.patches {
            let address = self.execution.resolved.address(patch.base, 0)?.wrapping_add(patch.addend);
            scratch.arena[patch.at as usize] = address;
        }
        Ok(&scratch.arena)
    }

    #[inline]
    fn dispatch(&self, launch: &Launch, grid: [u32; 3], arena: &[u64], timing: Option<&mut Timing<'_>>) -> Result<()> {
        let Some(timing) = timing else { return self.launch(launch, grid, arena) };
        let named = (self.program.name(launch), grid);
        timing.dispatch(self.execution.stream, named, || self.launch(launch, grid, arena))
    }

    #[inline]
    fn launch(&self, launch: &Launch, grid: [u32; 3], arena: &[u64]) -> Result<()> {
        let bytes = u64::from(launch.length);
        let arguments = &arena[launch.arguments as usize..][..launch.length.div_ceil(8) as usize];
        let mut extra = extra_of(arguments, &bytes);
        let ([x, y, z], [i, j, k]) = (grid, launch.block);
        // SAFETY: the kernel is one of an executable that the program holds, and the arguments have as many bytes as
        // the list says, which the library reads before it returns. What they refer to is held by the execution.
        let launched = unsafe {
            self.execution.context.api().launch(
                launch.function,
                x,
                y,
                z,
                i,
                j,
                k,
                launch.shared,
                self.execution.stream,
                null_mut(),
                extra.as_mut_ptr(),
            )
        };
        launched.map_err(|error| {
            let limits = self.execution.context.limits;
            let status = self.execution.context.failed(error);
            let (block, shared) = (launch.block, launch.shared);
            let status = status.context(format!(
                "a grid of {grid:?} blocks of {block:?} threads with {shared} bytes of dynamic shared memory, where the device has at most {:?}, {:?} and {}",
                limits.grid, limits.block, limits.shared
            ));
            self.named(launch, status)
        })
    }

    #[cold]
    fn named(&self, launch: &Launch, status: Status) -> Status {
        match self.program.name(launch) {
            Some(name) => status.context(format!("`{name}`")),
            None => status,
        }
    }

    fn counts_of(&self, index: u32) -> Result<u64> {
        let counts = self.counts.ok_or_else(|| Status::internal("an indirect dispatch without memory for its size"))?;
        Ok(counts.address + u64::from(index) * Counts::BYTES)
    }

    /// The size of a grid, which the stream has copied to where the host reads it.
    fn grid(&self, counts: &Counts) -> Result<[u32; 3]> {
        let host = self.counts.and_then(|counts| counts.host);
        let host = host.ok_or_else(|| Status::internal("an indirect dispatch without memory for its size"))?;
        // SAFETY: there are as many bytes for each index, and the copy to them has ended.
        let grid = unsafe { host.add(counts.index as usize * Counts::BYTES as usize).cast::<[u32; 3]>().read() };
        if let Some((count, most)) = grid.iter().zip(&counts.most).find(|(count, most)| count > most) {
            let message = format!("{count} blocks along a dimension, read from memory: the device has at most {most}");
            return Err(Status::out_of_range(message));
        }
        Ok(grid)
    }

    fn transfer(&self, block: &Block, target: &Place, operation: &Operation) -> Result<()> {
        let (target, length) = target.range(self.execution.resolved, 0)?;
        if length == 0 {
            return Ok(());
        }
        match operation {
            Operation::Fill { pattern, step } => self.fill(target, length, *pattern, *step),
            Operation::Copy { source } => {
                let (source, _) = source.range(self.execution.resolved, 0)?;
                if source.abs_diff(target) < length {
                    self.r#move(target, source, length)
                } else {
                    self.copy(target, source, length)
                }
            }
            Operation::Update { start } => {
                let bytes = block.bytes.get(*start as usize..).and_then(|bytes| bytes.get(..length as usize));
                let bytes = bytes.ok_or_else(|| Status::internal("an update without its bytes"))?;
                let (from, stream) = (bytes.as_ptr().cast(), self.execution.stream);
                // SAFETY: the program has the bytes until the execution has completed, and the target is held too.
                let copied = unsafe { self.execution.context.api().copy_to_device(target, from, length, stream) };
                copied.map_err(|error| self.execution.context.failed(error))
            }
        }
    }

    fn copy(&self, target: u64, source: u64, length: u64) -> Result<()> {
        // SAFETY: both ranges are within memory that the execution holds.
        let copied = unsafe { self.execution.context.api().copy(target, source, length, self.execution.stream) };
        copied.map_err(|error| self.execution.context.failed(error))
    }

    /// Copies between ranges that overlap, through memory of the pool or in steps that do not.
    #[cold]
    fn r#move(&self, target: u64, source: u64, length: u64) -> Result<()> {
        let distance = source.abs_diff(target);
        if distance == 0 {
            return Ok(());
        }
        let steps = length.div_ceil(distance);
        if let Some(pool) = self.pool.filter(|_| steps > 2) {
            let api = self.execution.context.api();
            // SAFETY: the stream takes and gives the memory back in its order.
            let between = unsafe { api.pool_allocate(length, pool.handle, self.execution.stream) };
            let between = between.map_err(|error| self.execution.context.failed(error))?;
            let copied = self.copy(between, source, length).and_then(|()| self.copy(target, between, length));
            // SAFETY: the memory is of the pool, and the copies that use it are on the stream before.
            let freed = unsafe { api.pool_free(between, self.execution.stream) };
            return copied.and(freed.map_err(|error| self.execution.context.failed(error)));
        }
        if steps > MAX_STEPS {
            return Err(Status::unimplemented(format!(
                "a copy of {length} bytes to {distance} bytes from its source, on a device without memory pools"
            )));
        }
        for step in 0..steps {
            // From the end that the target does not overwrite.
            let step = if target < source { step } else { steps - 1 - step };
            let start = step * distance;
            self.copy(target + start, source + start, distance.min(length - start))?;
        }
        Ok(())
    }

    fn fill(&self, target: u64, length: u64, pattern: u64, step: u64) -> Result<()> {
        let (api, stream) = (self.execution.context.api(), self.execution.stream);
        let (low, high) = (pattern as u32, (pattern >> 32) as u32);
        // SAFETY: the range is within memory that the execution holds, and a multiple of the pattern.
        let filled = unsafe {
            match step {
                1 => api.fill_8(target, pattern as u8, length, stream),
                2 => api.fill_16(target, pattern as u16, length / 2, stream),
                4 => api.fill_32(target, low, length / 4, stream),
                _ if low == high => api.fill_32(target, low, length / 4, stream),
                _ => api.fill_32(target, low, 1, stream).and_then(|()| api.fill_32(target + 4, high, 1, stream)),
            }
        };
        filled.map_err(|error| self.execution.context.failed(error))?;
        if step == 8 && low != high {
            // A whole number of patterns is there, so copies of it go on with it.
            let mut done = 8;
            while done < length {
                let part = done.min(length - done);
                self.copy(target + done, target, part)?;
                done += part;
            }
        }
        Ok(())
    }
}
