//! Round trips of everything generated from `spec/api/amdgpu/`, bit fields at their edges, and hostile bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::blocks::{Block, BlockError, is_terminator};
use super::command_buffer::*;
use super::hsa::HsaStatus;
use super::hsa_symbols::{HSA_SYMBOLS, HsaFunctions};
use super::kernel_descriptor::*;
use super::packet::*;
use super::packets::Order;
use super::pm4::*;
use super::queue::*;
use super::ring::{Ring, Slot};
use super::signal::*;
use super::{BitField, ReadError, kernarg};

/// A deterministic stream of numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn fill<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next() as u8)
    }
}

/// Any bytes decode to a value that has these bytes, whatever it holds, and that has a text.
macro_rules! round_trips {
    ($($layout:ty),* $(,)?) => {
        $({
            let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
            for _ in 0..200 {
                let bytes: [u8; <$layout>::SIZE] = numbers.fill();
                let value = <$layout>::read(&bytes);
                assert_eq!(value.to_bytes(), bytes, "{value}");
                assert_eq!(<$layout>::read(&value.to_bytes()), value);
            }
            assert_eq!(<$layout>::default().to_bytes(), [0; <$layout>::SIZE]);
            assert_eq!(size_of::<$layout>(), <$layout>::SIZE);
        })*
    };
}

#[test]
fn layouts_keep_every_byte() {
    round_trips!(
        AmdSignal,
        HsaQueue,
        AmdQueue,
        KernelDispatchPacket,
        BarrierAndPacket,
        BarrierOrPacket,
        AgentDispatchPacket,
        VendorPacketHeader,
        Pm4IbPacket,
        BarrierValuePacket,
        Pm4IndirectBuffer,
        Pm4WaitRegMem64,
        KernelDescriptor,
        kernarg::ImplicitArgs,
        CommandBlockHeader,
        CommandHeader,
        BindingSource,
        Pm4FixupEntry,
        BarrierCommand,
        DispatchCommand,
        FillCommand,
        CopyCommand,
        UpdateCommand,
        BranchCommand,
        CondBranchCommand,
        ReturnCommand,
    );
}

/// A field has the bits that the table says, no others change, and one more than the largest value is refused.
macro_rules! edges {
    ($word:ident: $($rest:tt)*) => {{
        let mut fields = $word::FIELDS.iter();
        edges!(@ $word fields $($rest)*);
        assert!(fields.next().is_none(), "a field of {} is not tested", stringify!($word));
    }};
    (@ $word:ident $fields:ident) => {};
    (@ $word:ident $fields:ident $get:ident / $set:ident: bool, $($rest:tt)*) => {
        let field = $fields.next().expect("a field");
        assert_eq!((field.name, field.width), (stringify!($get).trim_start_matches("r#"), 1));
        for before in [0, !0] {
            for value in [false, true] {
                let word = $word(before).$set(value);
                assert_eq!(word.$get(), value);
                check_bits(field, before as u64, word.0 as u64, value as u64);
            }
        }
        edges!(@ $word $fields $($rest)*);
    };
    (@ $word:ident $fields:ident $get:ident / $set:ident: $value:ty, $($rest:tt)*) => {
        let field = $fields.next().expect("a field");
        assert_eq!(field.name, stringify!($get).trim_start_matches("r#"));
        let max = (1u64 << field.width) - 1;
        for before in [0, !0] {
            for value in [0, 1, max / 2, max - 1, max, max + 1, u64::MAX] {
                let Some(given) = <$value as Number>::from_number(value) else { continue };
                match $word(before).$set(given) {
                    Ok(word) => {
                        assert!(value <= max, "{field:?} takes {value}");
                        assert_eq!(word.$get(), given);
                        check_bits(field, before as u64, word.0 as u64, value);
                    }
                    Err(error) => {
                        assert!(value > max, "{error}");
                        assert_eq!((error.field, error.value), (field, value));
                    }
                }
            }
        }
        edges!(@ $word $fields $($rest)*);
    };
}

fn check_bits(field: &BitField, before: u64, after: u64, value: u64) {
    let mask = ((1u64 << field.width) - 1) << field.bit;
    assert_eq!(after & mask, value << field.bit, "{field:?}");
    assert_eq!(after & !mask, before & !mask, "{field:?} touches other bits");
}

/// The types that setters take.
trait Number: Sized + Copy + PartialEq + std::fmt::Debug {
    fn from_number(value: u64) -> Option<Self>;
}

macro_rules! numbers {
    ($($ty:ty),*; $($code:ident),*) => {
        $(impl Number for $ty {
            fn from_number(value: u64) -> Option<Self> {
                Self::try_from(value).ok()
            }
        })*
        $(impl Number for $code {
            fn from_number(value: u64) -> Option<Self> {
                value.try_into().ok().map($code)
            }
        })*
    };
}

numbers!(u8, u16, u32; PacketType, FenceScope, FloatRoundMode, FloatDenormMode, WorkitemIdVgprs, Pm4Opcode, Pm4Compare);

#[test]
fn every_bit_field_at_its_edges() {
    edges!(PacketHeader: r#type / with_type: PacketType, barrier / with_barrier: bool,
        acquire_fence_scope / with_acquire_fence_scope: FenceScope,
        release_fence_scope / with_release_fence_scope: FenceScope,);
    edges!(DispatchSetup: dimensions / with_dimensions: u8,);
    edges!(QueueFeatures: kernel_dispatch / with_kernel_dispatch: bool, agent_dispatch / with_agent_dispatch: bool,);
    edges!(QueueProperties: enable_trap_handler / with_enable_trap_handler: bool, is_ptr64 / with_is_ptr64: bool,
        enable_trap_handler_debug_sgprs / with_enable_trap_handler_debug_sgprs: bool,
        enable_profiling / with_enable_profiling: bool, use_scratch_once / with_use_scratch_once: bool,);
    edges!(Pm4Header: predicate / with_predicate: bool, compute / with_compute: bool, opcode / with_opcode: Pm4Opcode,
        count / with_count: u16, r#type / with_type: u8,);
    edges!(Pm4IndirectBufferSize: dwords / with_dwords: u32, valid / with_valid: bool,);
    edges!(Pm4WaitControl: compare / with_compare: Pm4Compare, memory / with_memory: u8, operation / with_operation: u8,);
    edges!(Pm4WaitPoll: interval / with_interval: u16,
        optimize_ace_offload_mode / with_optimize_ace_offload_mode: bool,);
    edges!(ComputePgmRsrc1: granulated_workitem_vgpr_count / with_granulated_workitem_vgpr_count: u8,
        granulated_wavefront_sgpr_count / with_granulated_wavefront_sgpr_count: u8, priority / with_priority: u8,
        float_round_mode_32 / with_float_round_mode_32: FloatRoundMode,
        float_round_mode_16_64 / with_float_round_mode_16_64: FloatRoundMode,
        float_denorm_mode_32 / with_float_denorm_mode_32: FloatDenormMode,
        float_denorm_mode_16_64 / with_float_denorm_mode_16_64: FloatDenormMode, privileged / with_privileged: bool,
        enable_dx10_clamp / with_enable_dx10_clamp: bool, debug_mode / with_debug_mode: bool,
        enable_ieee_mode / with_enable_ieee_mode: bool, bulky / with_bulky: bool, cdbg_user / with_cdbg_user: bool,
        fp16_overflow / with_fp16_overflow: bool, wgp_mode / with_wgp_mode: bool, mem_ordered / with_mem_ordered: bool,
        fwd_progress / with_fwd_progress: bool,);
    edges!(ComputePgmRsrc2: enable_private_segment / with_enable_private_segment: bool,
        user_sgpr_count / with_user_sgpr_count: u8, enable_trap_handler / with_enable_trap_handler: bool,
        enable_sgpr_workgroup_id_x / with_enable_sgpr_workgroup_id_x: bool,
        enable_sgpr_workgroup_id_y / with_enable_sgpr_workgroup_id_y: bool,
        enable_sgpr_workgroup_id_z / with_enable_sgpr_workgroup_id_z: bool,
        enable_sgpr_workgroup_info / with_enable_sgpr_workgroup_info: bool,
        enable_vgpr_workitem_id / with_enable_vgpr_workitem_id: WorkitemIdVgprs,
        enable_exception_address_watch / with_enable_exception_address_watch: bool,
        enable_exception_memory_violation / with_enable_exception_memory_violation: bool,
        granulated_lds_size / with_granulated_lds_size: u16,
        enable_exception_ieee_754_fp_invalid_operation / with_enable_exception_ieee_754_fp_invalid_operation: bool,
        enable_exception_fp_denormal_source / with_enable_exception_fp_denormal_source: bool,
        enable_exception_ieee_754_fp_division_by_zero / with_enable_exception_ieee_754_fp_division_by_zero: bool,
        enable_exception_ieee_754_fp_overflow / with_enable_exception_ieee_754_fp_overflow: bool,
        enable_exception_ieee_754_fp_underflow / with_enable_exception_ieee_754_fp_underflow: bool,
        enable_exception_ieee_754_fp_inexact / with_enable_exception_ieee_754_fp_inexact: bool,
        enable_exception_int_division_by_zero / with_enable_exception_int_division_by_zero: bool,);
    edges!(ComputePgmRsrc3Gfx11: shared_vgpr_count / with_shared_vgpr_count: u8, inst_pref_size / with_inst_pref_size: u8,
        trap_on_start / with_trap_on_start: bool, trap_on_end / with_trap_on_end: bool, image_op / with_image_op: bool,);
    edges!(ComputePgmRsrc3Gfx90a: accum_offset / with_accum_offset: u8, tg_split / with_tg_split: bool,);
    edges!(KernelCodeProperties:
        enable_sgpr_private_segment_buffer / with_enable_sgpr_private_segment_buffer: bool,
        enable_sgpr_dispatch_ptr / with_enable_sgpr_dispatch_ptr: bool,
        enable_sgpr_queue_ptr / with_enable_sgpr_queue_ptr: bool,
        enable_sgpr_kernarg_segment_ptr / with_enable_sgpr_kernarg_segment_ptr: bool,
        enable_sgpr_dispatch_id / with_enable_sgpr_dispatch_id: bool,
        enable_sgpr_flat_scratch_init / with_enable_sgpr_flat_scratch_init: bool,
        enable_sgpr_private_segment_size / with_enable_sgpr_private_segment_size: bool,
        enable_wavefront_size32 / with_enable_wavefront_size32: bool,
        uses_dynamic_stack / with_uses_dynamic_stack: bool,);
    edges!(KernargPreload: length / with_length: u8, offset / with_offset: u16,);
    edges!(CommandFlags: uses_queue_kernargs / with_uses_queue_kernargs: bool, has_barrier / with_has_barrier: bool,
        acquire_scope / with_acquire_scope: FenceScope, release_scope / with_release_scope: FenceScope,);
    edges!(BindingSourceFlags: dynamic / with_dynamic: bool, indirect_parameters / with_indirect_parameters: bool,
        static_buffer / with_static_buffer: bool,);
    edges!(CommandDispatchFlags: indirect_parameters / with_indirect_parameters: bool,);
}

/// One packet of each kind.
fn packets() -> Vec<Packet> {
    let signals = [Signal(64), Signal(128), Signal(0), Signal(0), Signal(0x1000)];
    let order = Order::SYSTEM;
    let dispatch = KernelDispatchPacket::new(order, 0x7000_0040, 0x8000, [64, 1, 1], [4096, 2, 1]).expect("it fits");
    vec![
        dispatch.into(),
        BarrierAndPacket::new(order, signals).expect("it fits").into(),
        BarrierOrPacket::new(Order::NONE, signals).expect("it fits").into(),
        AgentDispatchPacket::new(order, 7, [1, 2, 3, 4], 0x9000).expect("it fits").into(),
        Pm4IbPacket::new(order, 0x0001_2345_6789_0abc, 9).expect("it fits").into(),
        BarrierValuePacket::new(order, Signal(64), i64::MAX, SignalCondition::LT, 5).expect("it fits").into(),
    ]
}

fn bytes_of(packet: &Packet) -> [u8; 64] {
    let mut bytes = Vec::new();
    packet.write(&mut bytes);
    bytes.try_into().expect("a packet has 64 bytes")
}

#[test]
fn packets_round_trip() {
    for (packet, (name, size)) in packets().iter().zip(Packet::MEMBERS) {
        assert_eq!((packet.name(), 64), (*name, *size));
        let bytes = bytes_of(packet);
        assert_eq!(Packet::read(&bytes), Ok(*packet));
        for end in 4..64 {
            let expected = ReadError::Short { member: name, expected: 64, actual: end };
            assert_eq!(Packet::read(&bytes[..end]), Err(expected));
        }
    }
}

#[test]
fn headers_are_those_seen_on_queues() {
    let header = |packet: &Packet| u16::from_le_bytes([bytes_of(packet)[0], bytes_of(packet)[1]]);
    let all = packets();
    assert_eq!(header(&all[0]), 0x1502);
    assert_eq!(header(&all[1]), 0x1503);
    let order = Order { acquire: FenceScope::NONE, ..Order::SYSTEM };
    let barrier = BarrierAndPacket::new(order, [Signal(0); 5]).expect("it fits");
    assert_eq!(barrier.header.0, 0x1103);
    let bytes = bytes_of(&all[4]);
    let dword = |index: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * index + byte]));
    assert_eq!([dword(0), dword(1), dword(4), dword(5)], [0x0001_1500, 0xc002_3f00, 9 | 1 << 23, 10]);
    assert_eq!([dword(2), dword(3)], [0x6789_0abc, 0x0001_2345]);
    let wait = Pm4WaitRegMem64::until_less(Signal(0x1000), i64::MAX as u64, 3).expect("it fits").to_bytes();
    let dword = |index: usize| u32::from_le_bytes(std::array::from_fn(|byte| wait[4 * index + byte]));
    let expected = [0xc007_9300, 0x11, 0x1008, 0, 3, 0, 0xffff_ffff, 0x7fff_ffff, 0x8000_0004];
    assert_eq!(std::array::from_fn::<u32, 9, _>(dword), expected);
    assert_eq!(Pm4Command::read(&wait).map(|command| command.name()), Ok("wait_reg_mem64"));
}

#[test]
fn packets_have_texts() {
    let texts: Vec<String> = packets().iter().map(Packet::to_string).collect();
    assert_eq!(
        texts[0],
        "kernel_dispatch_packet{header=[type=kernel_dispatch barrier acquire_fence_scope=system \
         release_fence_scope=system], setup=[dimensions=3], workgroup_size=[64, 1, 1], grid_size=[4096, 2, 1], \
         private_segment_size=0, group_segment_size=0, kernel_object=0x70000040, kernarg_address=0x8000, \
         completion_signal=0x0}"
    );
    assert_eq!(
        texts[2],
        "barrier_or_packet{header=[type=barrier_or], dep_signal=[0x40, 0x80, 0x0, 0x0, 0x1000], completion_signal=0x0}"
    );
    let odd = BarrierOrPacket { header: PacketHeader(0xe105), reserved2: 9, ..BarrierOrPacket::default() };
    assert!(odd.to_string().contains("header=[type=barrier_or barrier reserved=0xe000]"), "{odd}");
    assert!(odd.to_string().contains("reserved2=9") && !odd.reserved_is_zero(), "{odd}");
}

#[test]
fn what_is_no_packet_is_refused() {
    assert_eq!(Packet::read(&[]), Err(ReadError::Unknown { family: "packet", head: [0; 4] }));
    for (kind, format) in [(1, 0), (0, 0), (0, 3), (6, 1), (255, 255)] {
        let mut bytes = [0; 64];
        (bytes[0], bytes[2]) = (kind, format);
        let head = [kind, 0, format, 0];
        assert_eq!(Packet::read(&bytes), Err(ReadError::Unknown { family: "packet", head }));
    }
    let mut numbers = Numbers(77);
    for _ in 0..10_000 {
        let mut bytes: [u8; 64] = numbers.fill();
        bytes[0] &= 7;
        if let Ok(packet) = Packet::read(&bytes) {
            assert_eq!(bytes_of(&packet), bytes, "{packet}");
        }
    }
    let scope = FenceScope(4);
    let error = Order { release: scope, ..Order::NONE }.apply(PacketHeader(0)).expect_err("a scope has two bits");
    assert_eq!(error.to_string(), "packet_header.release_fence_scope: 0x4 does not fit 2 bits");
    let error = Pm4IbPacket::new(Order::NONE, 0, 1 << 20).expect_err("20 bits");
    assert_eq!(error.to_string(), "pm4_indirect_buffer_size.dwords: 0x100000 does not fit 20 bits");
}

/// Reads the next packet and frees its slot.
fn consume(ring: &Ring<'_>) -> Option<Result<Packet, ReadError>> {
    let packet = ring.peek(0)?;
    assert_eq!(ring.peek(0).as_ref(), Some(&packet), "the packet stays until it is retired");
    ring.retire();
    Some(packet)
}

#[test]
fn a_ring_hands_packets_over_in_order() {
    let slots: Vec<Slot> = (0..8).map(|_| Slot::invalid().expect("it fits")).collect();
    // Indices close to where they wrap.
    let (write, read) = (AtomicU64::new(u64::MAX - 3), AtomicU64::new(u64::MAX - 3));
    assert!(Ring::new(&slots[..6], &write, &read).is_none());
    let ring = Ring::new(&slots, &write, &read).expect("8 is a power of two");
    assert!(consume(&ring).is_none());
    assert!(ring.try_reserve(0).is_none() && ring.try_reserve(9).is_none());
    let all = packets();
    let bytes: Vec<[u8; 64]> = all.iter().map(bytes_of).collect();
    for _ in 0..5 {
        let first = ring.try_reserve(2).expect("there is room");
        let rest = ring.try_reserve(4).expect("there is room");
        assert!(ring.try_reserve(3).is_none(), "only two slots are free");
        let last = ring.publish(rest, &bytes[2..]);
        assert_eq!(last, write.load(Ordering::Relaxed).wrapping_sub(1));
        assert!(consume(&ring).is_none(), "the first packet is not published yet");
        ring.publish(first, &bytes[..2]);
        for packet in &all {
            assert_eq!(consume(&ring), Some(Ok(*packet)));
        }
        assert!(consume(&ring).is_none());
    }
}

#[test]
fn producers_on_several_threads_lose_nothing() {
    const EACH: u64 = 2_000;
    let slots: Vec<Slot> = (0..16).map(|_| Slot::invalid().expect("it fits")).collect();
    let (write, read) = (AtomicU64::new(0), AtomicU64::new(0));
    let ring = Ring::new(&slots, &write, &read).expect("16 is a power of two");
    let mut next = [0u64; 3];
    std::thread::scope(|scope| {
        for producer in 0..3u64 {
            scope.spawn(move || {
                for count in 0..EACH {
                    let packet = AgentDispatchPacket::new(Order::NONE, 1, [producer, count, 0, 0], 0).expect("it fits");
                    let reservation = loop {
                        match ring.try_reserve(1) {
                            Some(reservation) => break reservation,
                            None => std::thread::yield_now(),
                        }
                    };
                    ring.publish(reservation, &[packet.to_bytes()]);
                }
            });
        }
        for _ in 0..3 * EACH {
            let packet = loop {
                match consume(&ring) {
                    Some(packet) => break packet.expect("it is an agent dispatch"),
                    None => std::thread::yield_now(),
                }
            };
            let Packet::AgentDispatch(packet) = packet else { panic!("{packet}") };
            let producer = packet.arg[0] as usize;
            assert_eq!(packet.arg[1], next[producer]);
            next[producer] += 1;
        }
    });
    assert_eq!(next, [EACH; 3]);
}

/// A block with a fill, a dispatch with 8 bytes after it, one binding source and the return.
fn block() -> Vec<u8> {
    let mut records = Vec::new();
    Command::from(FillCommand { length: 16, pattern_length: 4, ..FillCommand::tagged() }).write(&mut records);
    let mut dispatch = DispatchCommand::tagged();
    dispatch.header.length_qwords += 1;
    Command::from(dispatch).write(&mut records);
    records.extend([7; 8]);
    Command::from(ReturnCommand::tagged()).write(&mut records);
    let end = 64 + records.len() as u32;
    let header = CommandBlockHeader {
        magic: COMMAND_BLOCK_MAGIC,
        version: COMMAND_BLOCK_VERSION,
        header_length: 64,
        block_length: end + 16 + 3,
        command_offset: 64,
        command_length: records.len() as u32,
        binding_source_offset: end,
        command_count: 3,
        binding_source_count: 1,
        rodata_offset: end + 16,
        rodata_length: 3,
        terminator_opcode: CommandOpcode::RETURN,
        ..CommandBlockHeader::default()
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend(records);
    bytes.extend(BindingSource { slot: 3, ..BindingSource::default() }.to_bytes());
    bytes.extend([1, 2, 3]);
    bytes
}

#[test]
fn blocks_are_walked() {
    let bytes = block();
    let block = Block::read(&bytes).expect("it is right");
    let names: Vec<_> = block.commands.iter().map(|(command, rest)| (command.name(), rest.len())).collect();
    assert_eq!(names, [("fill", 0), ("dispatch", 8), ("return", 0)]);
    assert_eq!((block.binding_sources[0].slot, block.rodata), (3, &[1, 2, 3][..]));
    assert!(is_terminator(CommandOpcode::BRANCH) && !is_terminator(CommandOpcode::COPY));
}

#[test]
fn blocks_have_texts() {
    let text = Block::read(&block()).expect("it is right").to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("command_block_header{magic=0x444d4342, version=0, header_length=64, "), "{text}");
    assert!(
        lines[1].starts_with("  fill_command{header=command_header{opcode=fill, flags=[], length_qwords=5, "),
        "{text}"
    );
    assert!(
        lines[2].starts_with("  dispatch_command{") && lines[2].ends_with("} [07, 07, 07, 07, 07, 07, 07, 07]"),
        "{text}"
    );
    assert!(lines[3].starts_with("  return_command{"), "{text}");
    assert_eq!(lines[4], "  binding_source{offset_or_pointer=0x0, slot=3, target_binding_ordinal=0, flags=[]}");
    assert_eq!(lines.len(), 5, "{text}");
}

#[test]
fn wrong_blocks_are_refused() {
    let right = block();
    let refused = |offset: usize, byte: u8| {
        let mut bytes = right.clone();
        bytes[offset] = byte;
        Block::read(&bytes).expect_err("it is wrong")
    };
    assert_eq!(Block::read(&right[..63]).err(), Some(BlockError::NoHeader));
    assert_eq!(Block::read(&right[..right.len() - 1]).err(), Some(BlockError::Misplaced("its bytes")));
    assert_eq!(refused(0, 0), BlockError::WrongHeader);
    assert_eq!(refused(20, 60), BlockError::Misplaced("its records"));
    assert_eq!(refused(30, 1), BlockError::Misplaced("its binding sources"));
    assert_eq!(refused(52, 4), BlockError::Misplaced("its data"));
    assert_eq!(refused(32, 4), BlockError::Count);
    assert_eq!(refused(62, 7), BlockError::Terminator);
    assert_eq!(refused(64, 9), BlockError::Terminator);
    assert_eq!(refused(66, 0), BlockError::Length(64));
    assert_eq!(refused(66, 4), BlockError::Length(64));
    assert!(matches!(refused(64, 6), BlockError::Record(64, ReadError::Unknown { family: "command", .. })));
    let mut numbers = Numbers(5);
    for _ in 0..20_000 {
        let mut bytes = right.clone();
        for _ in 0..1 + numbers.next() % 4 {
            let place = numbers.next() as usize % bytes.len();
            bytes[place] = numbers.next() as u8;
        }
        // Whatever it says, it ends without a panic.
        let _ = Block::read(&bytes);
    }
}

#[test]
fn commands_know_their_lengths() {
    let tagged: [Command; 8] = [
        BarrierCommand::tagged().into(),
        DispatchCommand::tagged().into(),
        FillCommand::tagged().into(),
        CopyCommand::tagged().into(),
        UpdateCommand::tagged().into(),
        BranchCommand::tagged().into(),
        CondBranchCommand::tagged().into(),
        ReturnCommand::tagged().into(),
    ];
    for (command, (name, size)) in tagged.iter().zip(Command::MEMBERS) {
        let header = super::blocks::command_header(command);
        assert_eq!((command.name(), usize::from(header.length_qwords) * 8), (*name, *size));
    }
}

#[test]
fn a_kernel_descriptor_seen_in_a_code_object() {
    let descriptor = KernelDescriptor {
        compute_pgm_rsrc1: ComputePgmRsrc1(0xe0af_0001),
        compute_pgm_rsrc2: ComputePgmRsrc2(0x9e),
        kernel_code_properties: KernelCodeProperties(0x0408),
        ..KernelDescriptor::default()
    };
    let rsrc1 = descriptor.compute_pgm_rsrc1;
    assert_eq!(
        (rsrc1.float_denorm_mode_32(), rsrc1.float_denorm_mode_16_64()),
        (FloatDenormMode::NO_FLUSH, FloatDenormMode::NO_FLUSH)
    );
    assert!(rsrc1.wgp_mode() && rsrc1.mem_ordered() && rsrc1.fwd_progress() && rsrc1.enable_dx10_clamp());
    assert_eq!(descriptor.compute_pgm_rsrc2.user_sgpr_count(), 15);
    assert!(descriptor.compute_pgm_rsrc2.enable_sgpr_workgroup_id_x());
    assert!(descriptor.kernel_code_properties.enable_wavefront_size32());
    assert!(descriptor.kernel_code_properties.enable_sgpr_kernarg_segment_ptr());
    assert_eq!(descriptor.kernel_code_properties.0 & KernelCodeProperties::RESERVED, 0);
}

#[test]
fn missing_functions_are_all_named() {
    // SAFETY: no address is ever returned.
    let missing = unsafe { HsaFunctions::load(|_| None) }.expect_err("nothing is there");
    let required: Vec<_> = HSA_SYMBOLS.iter().filter(|symbol| symbol.required).collect();
    assert_eq!(missing, required);
    assert!(HSA_SYMBOLS.len() > required.len());
}

#[test]
fn found_functions_can_be_called() {
    unsafe extern "C" fn init() -> HsaStatus {
        HsaStatus::INFO_BREAK
    }
    let address = std::ptr::NonNull::new(init as *mut std::ffi::c_void);
    // SAFETY: only `hsa_init` is called below, and its address is that of a function of its type.
    let functions = unsafe {
        HsaFunctions::load(|name| {
            let required = HSA_SYMBOLS.iter().any(|symbol| symbol.required && Ok(symbol.name) == name.to_str());
            address.filter(|_| required)
        })
    }
    .expect("all required functions are there");
    assert!(functions.hsa_amd_vmem_map.is_none());
    // SAFETY: it is `init`.
    assert_eq!(unsafe { (functions.hsa_init)() }, HsaStatus::INFO_BREAK);
}
