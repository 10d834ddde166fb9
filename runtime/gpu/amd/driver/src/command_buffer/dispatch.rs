//! Recording of dispatches. Arguments are addresses of bindings, constants, and implicit arguments; a dispatch may pass
//! all of them itself instead. Their place is chosen by which of them are known when they are recorded:
//!
//! - *published*: all addresses are known, and the program may be executed again. They are written to memory that the
//!   program keeps, and executions refer to them;
//! - *in the template*: an execution copies them, with the addresses that are known, and patches the others: those of
//!   slots and of transient buffers.
//!
//! The size of a grid may be in memory (*indirect*). A kernel of the driver then reads it in each execution, so the
//! arguments are the template's.

use std::mem::offset_of;
use std::sync::Arc;

use vireo_hsa::kernarg::ImplicitArgs;
use vireo_hsa::packet::{FenceScope, KernelDispatchPacket, PacketHeader, PacketType};
use vireo_hsa::packets::Order;

use super::arguments::{IMPLICIT_SIZE, implicit_arguments, reserved_size};
use super::recorder::PacketRecorder;
use super::source::DispatchTarget;
use super::targets::Target;
use super::template::{MAX_ARGUMENTS, Template};
use crate::agent::DispatchLimits;
use crate::executable::LoadedKernel;
use crate::hal::{BufferRef, BufferUsage, DispatchFlags};
use crate::hal_driver::deferred::DispatchRequest;
use crate::hal_driver::references::{Base, Place};
use crate::status::{Result, Status};

/// Bytes of arguments of the kernel that patches the size of a grid.
const PATCH_ARGUMENTS: usize = 40;

impl PacketRecorder {
    /// The target of a dispatch, looked up or found anew.
    #[inline]
    fn target(&mut self, request: &DispatchRequest<'_>) -> Result<Target> {
        let (executable, function) = (Arc::as_ptr(request.executable).addr(), request.function);
        // Another function may have this number too, so what is found is compared.
        let number = (executable as u64).wrapping_add(function.0);
        let is_it = |known: &Target| known.executable == executable && known.function == function;
        match self.work.targets.0.get(number, is_it) {
            Some(target) => Ok(*target),
            None => self.look_up(number, request),
        }
    }

    #[cold]
    fn look_up(&mut self, number: u64, request: &DispatchRequest<'_>) -> Result<Target> {
        let DispatchTarget { kernel, export } = self.source.target(request.executable, request.function)?;
        let explicit = export.explicit_size() as usize;
        let implicit_offset = export.implicit_offset.map(|offset| offset as usize);
        let implicit_end = implicit_offset.map_or(0, |offset| offset + IMPLICIT_SIZE);
        let declared = export.kernel.kernarg_size as usize;
        let length = declared.max(explicit).max(implicit_end);
        if length > MAX_ARGUMENTS / 2 {
            let message = format!("{length} bytes of arguments, a kernel has at most {}", MAX_ARGUMENTS / 2);
            return Err(Status::out_of_range(message));
        }
        let limits = self.source.limits();
        check_kernel(&kernel, export.workgroup_size, &limits)?;
        // Before its address is kept.
        self.work.references.hold(request.executable)?;
        Ok(*self.work.targets.0.add(
            number,
            Target {
                executable: Arc::as_ptr(request.executable).addr(),
                function: request.function,
                kernel,
                workgroup_size: export.workgroup_size,
                bindings: export.bindings.len(),
                constants: export.constants as usize,
                declared,
                implicit_offset,
                length,
                most_group_memory: limits.group_memory,
                most_items: limits.grid_size,
            },
        ))
    }

    /// Puts the name of the function in front of an error.
    #[cold]
    fn named(&self, request: &DispatchRequest<'_>, status: Status) -> Status {
        match self.source.target(request.executable, request.function) {
            Ok(target) => status.context(format!("`{}`", target.export.kernel.name)),
            Err(_) => status,
        }
    }

    /// Records a dispatch.
    pub(super) fn record_dispatch(&mut self, request: &DispatchRequest<'_>) -> Result<()> {
        let flags = request.flags;
        if flags.intersects(DispatchFlags::DYNAMIC_INDIRECT_ARGUMENTS | DispatchFlags::STATIC_INDIRECT_ARGUMENTS) {
            return Err(Status::unimplemented("the driver `amdgpu` does not read blocks of arguments from buffers"));
        }
        let target = self.target(request).map_err(|status| self.named(request, status))?;
        let mut places = std::mem::take(&mut self.work.places);
        places.clear();
        let recorded = self.dispatch_to(&target, request, &mut places);
        self.work.places = places;
        recorded.map_err(|status| self.named(request, status))
    }

    /// Records a dispatch of a function, with memory for its bindings.
    #[inline]
    fn dispatch_to(&mut self, target: &Target, request: &DispatchRequest<'_>, places: &mut Vec<Place>) -> Result<()> {
        let declared = target.workgroup_size.map(u32::from);
        let size = request.config.workgroup_size;
        if size != [0; 3] && size != declared {
            let message = format!("work-groups of {size:?} work-items, its kernel is for {declared:?}");
            return Err(Status::invalid_argument(message));
        }
        let is_custom = request.flags.contains(DispatchFlags::CUSTOM_DIRECT_ARGUMENTS);
        let (bindings, constants) =
            if is_custom { (0, target.declared.div_ceil(4)) } else { (target.bindings, target.constants) };
        if request.bindings.len() != bindings || request.constants.len() != constants {
            let (given, values) = (request.bindings.len(), request.constants.len());
            return Err(Status::invalid_argument(format!(
                "it takes {bindings} bindings and {constants} constants, not {given} and {values}"
            )));
        }
        let references = &mut self.work.references;
        let counts = match request.indirect() {
            Some(counts) => {
                let counts = BufferRef { length: indirect_length(counts.length)?, ..counts.clone() };
                Some(references.place(&counts, BufferUsage::DISPATCH_INDIRECT_PARAMETERS)?)
            }
            None => None,
        };
        // Zero if they are in memory.
        let count = request.grid().count;
        if counts.is_none() && count.contains(&0) {
            return Ok(());
        }
        let mut grid_size = [0; 3];
        for ((items, most), (count, size)) in
            grid_size.iter_mut().zip(&target.most_items).zip(count.iter().zip(&declared))
        {
            let product = count.checked_mul(*size).filter(|items| items <= most);
            *items = product.ok_or_else(|| too_many_items(count, *size, *most))?;
        }
        let local = request.config.dynamic_workgroup_local_memory;
        let group_size = target.kernel.group_size.checked_add(local).filter(|size| *size <= target.most_group_memory);
        let group_size = group_size.ok_or_else(|| too_much_group_memory(target, local))?;
        let mut is_known = true;
        for (ordinal, binding) in request.bindings.iter().enumerate() {
            let place = references.place(binding, BufferUsage::empty());
            let place = place.map_err(|status| status.context(format!("binding {ordinal}")))?;
            is_known &= place.base == Base::Fixed;
            places.push(place);
        }
        let implicit = target.implicit_offset.filter(|_| !is_custom).map(|offset| {
            let arguments = implicit_arguments(count, target.workgroup_size, local);
            (offset, arguments)
        });
        let values = Values { places, constants: request.constants, implicit };
        let dispatch = KernelDispatch {
            kernel: LoadedKernel { group_size, ..target.kernel },
            workgroup_size: target.workgroup_size,
            grid_size,
        };
        if let Some(counts) = counts {
            return self.indirect(target.length, &values, &dispatch, counts);
        }
        if is_known && self.reusable {
            let mut range = self.published.reserve(target.length, &*self.source, &mut self.charge)?;
            let order = self.begin_command(1, 0)?;
            range.clear();
            for (ordinal, place) in values.places.iter().enumerate() {
                range.put_u64(ordinal * 8, place.offset)?;
            }
            values.put(|at, bytes| range.put(at, bytes))?;
            self.template.push(&dispatch.packet(order, range.address())?);
            return Ok(());
        }
        let order = self.begin_command(1, reserved_size(target.length))?;
        let start = self.add_arguments(target.length, &values)?;
        self.template.push_relocated(&dispatch.packet(order, start as u64)?);
        Ok(())
    }

    /// Adds arguments to the template; returns their offset.
    #[inline]
    fn add_arguments(&mut self, length: usize, values: &Values<'_>) -> Result<usize> {
        let PacketRecorder { template, work, .. } = self;
        let start = template.add_arguments(length);
        for (ordinal, place) in values.places.iter().enumerate() {
            work.references.note(place, BufferUsage::empty());
            template.patch(start + ordinal * 8, place.base, place.offset);
        }
        let arguments = template.arguments_mut(start);
        values.put(|at, bytes| {
            let target = arguments.get_mut(at..at + bytes.len());
            target.ok_or_else(|| Status::internal("arguments after their end"))?.copy_from_slice(bytes);
            Ok(())
        })?;
        Ok(start)
    }

    /// A dispatch whose size is in memory: a kernel of the driver reads it, writes it into the packet after its own and
    /// into the implicit arguments, and publishes the packet.
    fn indirect(&mut self, length: usize, values: &Values<'_>, dispatch: &KernelDispatch, counts: Place) -> Result<()> {
        let patch = self.transfer_kernels()?.patch;
        let order = self.begin_command(2, reserved_size(length) + reserved_size(PATCH_ARGUMENTS))?;
        self.work.references.note(&counts, BufferUsage::DISPATCH_INDIRECT_PARAMETERS);
        let arguments = self.add_arguments(length, values)? as u64;
        // It begins once the patch has completed, and reads what that wrote to the implicit arguments.
        let after = Order { barrier: true, acquire: order.acquire.max(FenceScope::AGENT), ..order };
        let packet = dispatch.packet(after, arguments)?;
        let first_dword = u32::from(packet.header.0) | u32::from(packet.setup.0) << 16;
        let template: &mut Template = &mut self.template;
        let start = template.add_arguments(PATCH_ARGUMENTS);
        template.patch(start, counts.base, counts.offset);
        template.put_slot(start + 8, template.packet_count() + 1);
        if let Some((offset, _)) = values.implicit {
            let block_count = offset_of!(ImplicitArgs, block_count) as u64;
            template.patch(start + 16, Base::Arguments, arguments + offset as u64 + block_count);
        }
        let [x, y, z] = dispatch.workgroup_size.map(u64::from);
        template.put(start + 24, y << 32 | x);
        template.put(start + 32, u64::from(first_dword) << 32 | z);
        let of_patch = KernelDispatch { kernel: patch, workgroup_size: [1; 3], grid_size: [1; 3] };
        template.push_relocated(&of_patch.packet(order, start as u64)?);
        let header = PacketHeader::default().with_type(PacketType::INVALID)?;
        template.push_relocated(&KernelDispatchPacket { header, ..packet });
        Ok(())
    }
}

/// The least that a wave has room for on every processor: 8 MiB for 32 work-items.
const MOST_PRIVATE: u32 = (8 << 20) / 32;

/// Checks what a kernel asks of the device whatever it is dispatched with.
fn check_kernel(kernel: &LoadedKernel, workgroup_size: [u16; 3], limits: &DispatchLimits) -> Result<()> {
    let DispatchLimits { workgroup_items: most, workgroup_size: most_sizes, .. } = limits;
    let items: u64 = workgroup_size.iter().map(|size| u64::from(*size)).product();
    let is_larger = workgroup_size.iter().zip(most_sizes).any(|(size, most)| size > most);
    if items > u64::from(*most) || is_larger {
        let message = format!(
            "work-groups of {workgroup_size:?} work-items, which are {items}: the device has at most {most_sizes:?}, and {most} together"
        );
        return Err(Status::invalid_argument(message));
    }
    if kernel.private_size > MOST_PRIVATE {
        let message = format!("{} bytes of memory of a work-item: at most {MOST_PRIVATE}", kernel.private_size);
        return Err(Status::invalid_argument(message));
    }
    Ok(())
}

#[cold]
fn too_many_items(count: &u32, size: u32, most: u32) -> Status {
    let items = u64::from(*count) * u64::from(size);
    Status::out_of_range(format!(
        "{count} work-groups of {size} work-items along a dimension are {items} work-items: the device has at most {most}"
    ))
}

#[cold]
fn too_much_group_memory(target: &Target, local: u32) -> Status {
    let own = target.kernel.group_size;
    let (need, most) = (u64::from(own) + u64::from(local), target.most_group_memory);
    Status::invalid_argument(format!(
        "{need} bytes of work-group memory, {own} of the kernel and {local} of the dispatch: the device has {most}"
    ))
}

/// The arguments of a dispatch.
struct Values<'a> {
    /// The bindings, whose addresses come first.
    places: &'a [Place],
    constants: &'a [u32],
    /// The implicit arguments and their offset.
    implicit: Option<(usize, [u8; IMPLICIT_SIZE])>,
}

impl Values<'_> {
    /// Writes all but the addresses, to memory that is zero.
    #[inline]
    fn put(&self, mut put: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        for (place, constant) in self.constants.iter().enumerate() {
            put(self.places.len() * 8 + place * 4, &constant.to_le_bytes())?;
        }
        match &self.implicit {
            Some((offset, arguments)) => put(*offset, arguments),
            None => Ok(()),
        }
    }
}

/// The fields of the packet of a dispatch that depend on its kernel.
struct KernelDispatch {
    kernel: LoadedKernel,
    workgroup_size: [u16; 3],
    grid_size: [u32; 3],
}

impl KernelDispatch {
    #[inline]
    fn packet(&self, order: Order, arguments: u64) -> Result<KernelDispatchPacket> {
        let LoadedKernel { object, private_size, group_size } = self.kernel;
        let packet = KernelDispatchPacket::new(order, object, arguments, self.workgroup_size, self.grid_size)?;
        Ok(KernelDispatchPacket { private_segment_size: private_size, group_segment_size: group_size, ..packet })
    }
}

/// The three counts of an indirect dispatch.
fn indirect_length(length: u64) -> Result<u64> {
    const COUNTS: u64 = 3 * size_of::<u32>() as u64;
    if length >= COUNTS {
        return Ok(COUNTS);
    }
    Err(Status::out_of_range(format!("{length} bytes for the size of a grid: expected {COUNTS}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_limits_have_both_numbers() {
        let limits = DispatchLimits {
            group_memory: 1 << 16,
            workgroup_items: 1024,
            workgroup_size: [1024, 1024, 64],
            grid_size: [u32::MAX; 3],
        };
        let kernel = LoadedKernel { object: 64, private_size: MOST_PRIVATE, group_size: 0 };
        let refused =
            |kernel: &LoadedKernel, size| check_kernel(kernel, size, &limits).expect_err("too much").to_string();
        check_kernel(&kernel, [1024, 1, 1], &limits).expect("it has room");
        assert!(
            refused(&kernel, [1024, 2, 1])
                .contains("which are 2048: the device has at most [1024, 1024, 64], and 1024")
        );
        assert!(refused(&kernel, [1, 1, 65]).contains("[1, 1, 65]"));
        let large = LoadedKernel { private_size: MOST_PRIVATE + 1, ..kernel };
        assert!(refused(&large, [1, 1, 1]).contains("262145 bytes of memory of a work-item: at most 262144"));
        let message = too_many_items(&(1 << 20), 8192, u32::MAX).to_string();
        assert!(message.contains("8589934592 work-items") && message.contains("at most 4294967295"), "{message}");
    }
}
