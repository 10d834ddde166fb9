//! Recording of dispatches. Arguments are addresses of bindings and then constants; a dispatch may pass all of them
//! itself instead. The size of a grid may be in memory (*indirect*): the host reads it in each execution, between two
//! blocks, which takes as long as a round trip to the GPU.

use std::sync::Arc;

use super::block::{Command, Counts, Launch, Patch};
use super::known::Known;
use super::recorder::StreamRecorder;
use crate::hal::{BufferRef, BufferUsage, DispatchFlags};
use crate::hal_driver::deferred::DispatchRequest;
use crate::hal_driver::references::{Base, Place};
use crate::status::{Result, Status};

impl StreamRecorder {
    fn known(&mut self, request: &DispatchRequest<'_>) -> Result<Known> {
        let (executable, function) = (Arc::as_ptr(request.executable).addr(), request.function);
        match self.last {
            Some(known) if known.executable == executable && known.function == function => Ok(known),
            _ => {
                let (kernel, export) = self.target.kernel(request.executable, function)?;
                let (name, bindings) = (export.name.as_str(), export.bindings.len());
                let (block, shared, constants) = (export.block, export.shared, export.constants as usize);
                // Before its address is kept.
                self.references.hold(request.executable)?;
                let place = match self.names.iter().position(|known| **known == *name) {
                    Some(place) => place,
                    None => {
                        self.names.push(name.into());
                        self.names.len() - 1
                    }
                };
                let export = u32::try_from(place).map_err(|_| Status::out_of_range("too many kernels"))?;
                let grid = self.target.limits().grid;
                let known = Known { executable, function, kernel, block, shared, bindings, constants, grid, export };
                self.last = Some(known);
                Ok(known)
            }
        }
    }

    /// Records a dispatch.
    pub(super) fn record_dispatch(&mut self, request: &DispatchRequest<'_>) -> Result<()> {
        if request
            .flags
            .intersects(DispatchFlags::DYNAMIC_INDIRECT_ARGUMENTS | DispatchFlags::STATIC_INDIRECT_ARGUMENTS)
        {
            return Err(Status::unimplemented("drivers with streams do not read blocks of arguments from buffers"));
        }
        let known = self.known(request)?;
        self.dispatch_of(&known, request).map_err(|status| {
            let name = &self.names[known.export as usize];
            status.context(format!("`{name}`"))
        })
    }

    fn dispatch_of(&mut self, known: &Known, request: &DispatchRequest<'_>) -> Result<()> {
        let size = request.config.workgroup_size;
        if size != [0; 3] && size != known.block {
            let message = format!("blocks of {size:?} threads, its kernel is for {:?}", known.block);
            return Err(Status::invalid_argument(message));
        }
        let is_custom = request.flags.contains(DispatchFlags::CUSTOM_DIRECT_ARGUMENTS);
        let (bindings, constants) =
            if is_custom { (0, request.constants.len()) } else { (known.bindings, known.constants) };
        if request.bindings.len() != bindings || request.constants.len() != constants {
            let (given, values) = (request.bindings.len(), request.constants.len());
            return Err(Status::invalid_argument(format!(
                "it takes {bindings} bindings and {constants} constants, not {given} and {values}"
            )));
        }
        let counts = match request.indirect() {
            Some(counts) => {
                let counts = BufferRef { length: indirect_length(counts.length)?, ..counts.clone() };
                Some(self.references.place(&counts, BufferUsage::DISPATCH_INDIRECT_PARAMETERS)?)
            }
            None => None,
        };
        // Zero if they are in memory.
        let grid = request.grid().count;
        if counts.is_none() && grid.contains(&0) {
            return Ok(());
        }
        if let Some((count, most)) = grid.iter().zip(&known.grid).find(|(count, most)| count > most) {
            let message = format!("{count} blocks along a dimension: the device has at most {most}");
            return Err(Status::out_of_range(message));
        }
        let local = request.config.dynamic_workgroup_local_memory;
        let shared = known.shared.checked_add(local).filter(|shared| *shared <= known.kernel.most_shared);
        let shared = shared.ok_or_else(|| {
            let (need, most) = (u64::from(known.shared) + u64::from(local), known.kernel.most_shared);
            Status::invalid_argument(format!("{need} bytes of dynamic shared memory of a block: at most {most}"))
        })?;
        let mut places: Vec<Place> = Vec::with_capacity(bindings);
        for (ordinal, binding) in request.bindings.iter().enumerate() {
            let place = self.references.place(binding, BufferUsage::empty());
            places.push(place.map_err(|status| status.context(format!("binding {ordinal}")))?);
        }
        let counts = match counts {
            Some(place) => Some(self.read_counts(place)?),
            None => None,
        };
        let length = places.len() * 8 + constants * 4;
        let arguments = self.arguments(length)?;
        self.begin_command()?;
        self.write_arguments(arguments, &places, request.constants);
        let launch = Launch {
            function: known.kernel.function,
            grid,
            block: known.block,
            shared,
            arguments,
            // At most `MAX_ARENA`.
            length: length as u32,
            export: known.export,
        };
        self.block.commands.push(match counts {
            Some(index) => Command::Indirect(launch, Counts { index, most: known.grid }),
            None => Command::Launch(launch),
        });
        Ok(())
    }

    fn write_arguments(&mut self, start: u32, places: &[Place], constants: &[u32]) {
        for (ordinal, place) in (start..).zip(places) {
            self.references.note(place, BufferUsage::empty());
            match place.base {
                Base::Fixed => self.block.arena[ordinal as usize] = place.offset,
                base => self.block.patches.push(Patch { at: ordinal, base, addend: place.offset }),
            }
        }
        let first = start as usize + places.len();
        for (pair, word) in constants.chunks(2).zip(&mut self.block.arena[first..]) {
            *word = u64::from(pair[0]) | u64::from(pair.get(1).copied().unwrap_or(0)) << 32;
        }
    }

    /// Ends the block with a copy of the size of a grid, which the next block begins with; returns its place.
    fn read_counts(&mut self, place: Place) -> Result<u32> {
        let index = self.counts;
        self.counts = index.checked_add(1).ok_or_else(|| Status::out_of_range("too many indirect dispatches"))?;
        self.references.note(&place, BufferUsage::DISPATCH_INDIRECT_PARAMETERS);
        self.block.commands.push(Command::ReadCounts(place, index));
        self.end_block()?;
        self.block.needs = Some(index);
        Ok(index)
    }
}

/// The three counts of an indirect dispatch.
fn indirect_length(length: u64) -> Result<u64> {
    if length >= Counts::LENGTH {
        return Ok(Counts::LENGTH);
    }
    Err(Status::out_of_range(format!("{length} bytes for the size of a grid: expected {}", Counts::LENGTH)))
}
