//! Functions that programs which were not written for this library ask for: those of AMD's HIP runtime, and processors
//! without an interpreter.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use vireo_hsa::hsa::*;
use vireo_hsa::packet::KernelDispatchPacket;
use vireo_hsa::packets::Order;
use vireo_hsa::queue::AmdQueue;
use vireo_hsa::signal::Signal;

use crate::support::*;

#[test]
fn extensions_are_those_of_loaded_code_objects() {
    let session = Session::new("");
    let system = |extension, major, minor| {
        let mut supported = CBool(9);
        match optional!(hsa_system_extension_supported(extension, major, minor, &raw mut supported)) {
            OK => Ok(supported.0),
            status => Err(status),
        }
    };
    let agent = |extension, agent| {
        let mut supported = CBool(9);
        match optional!(hsa_agent_extension_supported(extension, agent, 1, 0, &raw mut supported)) {
            OK => Ok(supported.0),
            status => Err(status),
        }
    };
    let (loader, images) = (Extension::AMD_LOADER.0, Extension::IMAGES.0);
    assert_eq!([system(loader, 1, 0), system(loader, 1, 1)], [Ok(1); 2]);
    assert_eq!([system(loader, 1, 2), system(loader, 2, 0), system(images, 1, 0)], [Ok(0); 3]);
    assert_eq!(system(9, 1, 0), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
    assert_eq!([agent(loader, session.gpu()), agent(images, session.cpu())], [Ok(0); 2]);
    assert_eq!(agent(9, session.gpu()), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
    assert_eq!(agent(images, Agent(1)), Err(HsaStatus::ERROR_INVALID_AGENT));
}

#[test]
fn the_value_of_a_signal_is_at_its_address() {
    let session = Session::new("");
    let signal = session.signal(5);
    let mut value: *mut SignalValue = std::ptr::null_mut();
    assert_eq!(optional!(hsa_amd_signal_value_pointer(signal, &raw mut value)), OK);
    assert_eq!(value.addr(), value_of(signal).as_ptr().addr());
    value_of(signal).store(0, Ordering::Release);
    wait(signal);
    let queue = Queue::new(session.gpu(), 16);
    let doorbell = queue.shared().doorbell_signal;
    let status = optional!(hsa_amd_signal_value_pointer(doorbell, &raw mut value));
    assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT, "a doorbell has no value");
    let status = optional!(hsa_amd_signal_value_pointer(Signal(1), &raw mut value));
    assert_eq!(status, HsaStatus::ERROR_INVALID_SIGNAL);
}

#[test]
fn memory_is_registered_and_caches_are_coherent() {
    let session = Session::new("");
    let mut bytes = [0u8; 64];
    let pointer: *mut c_void = (&raw mut bytes).cast();
    assert_eq!(optional!(hsa_memory_register(pointer, 64)), OK);
    assert_eq!(optional!(hsa_memory_register(pointer, 0)), HsaStatus::ERROR_INVALID_ARGUMENT);
    assert_eq!(optional!(hsa_memory_deregister(pointer, 64)), OK);
    let set = |agent, coherency| optional!(hsa_amd_coherency_set_type(agent, coherency));
    for coherency in [CoherencyType::COHERENT, CoherencyType::NONCOHERENT] {
        assert_eq!(set(session.gpu(), coherency), OK);
        assert_eq!(set(session.cpu(), coherency), HsaStatus::ERROR_INVALID_AGENT);
    }
    assert_eq!(set(session.gpu(), CoherencyType(2)), HsaStatus::ERROR_INVALID_ARGUMENT);
}

#[test]
fn programs_define_variables_of_executables() {
    let session = Session::new("agents=2");
    let (gpus, null) = (session.gpus(), std::ptr::null());
    let mut executable = Executable(0);
    let (profile, rounding) = (Profile::BASE, DefaultFloatRoundingMode::DEFAULT);
    assert_eq!(hsa!(hsa_executable_create_alt(profile, rounding, null, &raw mut executable)), OK);
    let memory = session.device_memory(64);
    let define = |agent, name: &std::ffi::CStr, address| {
        optional!(hsa_executable_agent_global_variable_define(executable, agent, name.as_ptr().cast(), address))
    };
    assert_eq!(define(gpus[0], c"table", memory.pointer()), OK);
    assert_eq!(define(gpus[0], c"table", memory.pointer()), HsaStatus::ERROR_VARIABLE_ALREADY_DEFINED);
    assert_eq!(define(gpus[1], c"table", memory.pointer()), OK, "each agent has its own variables");
    assert_eq!(define(gpus[0], c"other", std::ptr::null_mut()), HsaStatus::ERROR_INVALID_ARGUMENT);
    assert_eq!(define(Agent(1), c"other", memory.pointer()), HsaStatus::ERROR_INVALID_AGENT);
    let (mut symbol, mut address) = (ExecutableSymbol(0), 0u64);
    let (name, agent) = (c"table".as_ptr().cast(), &raw const gpus[0]);
    assert_eq!(hsa!(hsa_executable_get_symbol_by_name(executable, name, agent, &raw mut symbol)), OK);
    let attribute = ExecutableSymbolInfo::VARIABLE_ADDRESS;
    assert_eq!(hsa!(hsa_executable_symbol_get_info(symbol, attribute, (&raw mut address).cast())), OK);
    assert_eq!(address, memory.address);
    assert_eq!(hsa!(hsa_executable_freeze(executable, null)), OK);
    assert_eq!(define(gpus[0], c"late", memory.pointer()), HsaStatus::ERROR_FROZEN_EXECUTABLE);
    assert_eq!(hsa!(hsa_executable_destroy(executable)), OK);
    assert_eq!(define(gpus[0], c"late", memory.pointer()), HsaStatus::ERROR_INVALID_EXECUTABLE);
}

#[test]
fn images_fail_with_the_status_of_the_specification() {
    let session = Session::new("");
    let (gpu, null, access) = (session.gpu(), std::ptr::null(), ImageAccess::RO);
    let (mut image, mut sampler, mut info) = (Image(7), Sampler(7), ImageDataInfo::default());
    let descriptor = ImageDescriptor { width: 4, height: 4, ..ImageDescriptor::default() };
    let descriptor = &raw const descriptor;
    let (image_out, region) = (&raw mut image, std::ptr::null());
    let format = HsaStatus::ERROR_IMAGE_FORMAT_UNSUPPORTED;
    assert_eq!(optional!(hsa_ext_image_data_get_info(gpu, descriptor, access, &raw mut info)), format);
    assert_eq!(optional!(hsa_ext_image_create(gpu, descriptor, null, access, image_out)), format);
    assert_eq!(optional!(hsa_amd_image_create(gpu, descriptor, std::ptr::null(), null, access, image_out)), format);
    let layout = ImageDataLayout::LINEAR;
    let status = optional!(hsa_ext_image_create_with_layout(gpu, descriptor, null, access, layout, 0, 0, image_out));
    assert_eq!(status, format);
    let wrong = HsaStatus::ERROR_INVALID_ARGUMENT;
    assert_eq!(optional!(hsa_ext_image_destroy(gpu, Image(7))), wrong);
    assert_eq!(optional!(hsa_ext_image_import(gpu, null, 0, 0, Image(7), region)), wrong);
    assert_eq!(optional!(hsa_ext_image_export(gpu, Image(7), std::ptr::null_mut(), 0, 0, region)), wrong);
    let status = optional!(hsa_ext_sampler_create(gpu, std::ptr::null(), &raw mut sampler));
    assert_eq!(status, HsaStatus::ERROR_SAMPLER_DESCRIPTOR_UNSUPPORTED);
    assert_eq!(optional!(hsa_ext_sampler_destroy(gpu, Sampler(7))), wrong);
    assert_eq!(optional!(hsa_ext_image_destroy(Agent(1), Image(7))), HsaStatus::ERROR_INVALID_AGENT);
    assert_eq!((image, sampler, info), (Image(7), Sampler(7), ImageDataInfo::default()), "nothing is written");
}

/// The code object of `fixtures/softhsa/kernels.cl`, as clang makes it in its default mode.
const CLANG_KERNELS: &[u8] = include_bytes!("../../../../../../fixtures/softhsa/kernels.co");

const GROUP: usize = 64;
const ITEMS: usize = 4 * GROUP;

/// Runs a kernel of clang on these words, and returns what it stored.
fn run_clang_kernel(name: &std::ffi::CStr, words: &[u32; ITEMS]) -> [u32; ITEMS] {
    let session = Session::interpreted("");
    let executable = load(session.gpu(), CLANG_KERNELS).expect("the interpreter has all instructions");
    let mut symbol = ExecutableSymbol(0);
    let any = std::ptr::null();
    assert_eq!(hsa!(hsa_executable_get_symbol_by_name(executable, name.as_ptr().cast(), any, &raw mut symbol)), OK);
    let word = |attribute| {
        let mut value = 0u64;
        assert_eq!(hsa!(hsa_executable_symbol_get_info(symbol, attribute, (&raw mut value).cast())), OK);
        value
    };
    type Info = ExecutableSymbolInfo;
    let [input, output, shared] = [0; 3].map(|_| session.device_memory(4 * ITEMS as u64));
    let kernarg = session.kernarg_memory(4096);
    let pack = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
    (0..ITEMS / 2).for_each(|index| input.store(index, pack(2 * index)));
    [&output, &input, &shared].iter().enumerate().for_each(|(index, memory)| kernarg.store(index, memory.address));
    let (object, groups) = (word(Info::KERNEL_OBJECT), [GROUP as u16, 1, 1]);
    let order = Order::SYSTEM;
    let packet = KernelDispatchPacket::new(order, object, kernarg.address, groups, [ITEMS as u32, 1, 1]);
    let completion = session.signal(1);
    let packet = KernelDispatchPacket {
        group_segment_size: word(Info::KERNEL_GROUP_SEGMENT_SIZE) as u32,
        private_segment_size: word(Info::KERNEL_PRIVATE_SEGMENT_SIZE) as u32,
        completion_signal: completion,
        ..packet.expect("a packet")
    };
    let queue = Queue::new(session.gpu(), 16);
    queue.submit(&[packet.to_bytes()]);
    wait(completion);
    std::array::from_fn(|index| (output.load(index / 2) >> (32 * (index % 2))) as u32)
}

#[test]
fn kernels_of_clang_in_its_default_mode_run() {
    let words: [u32; ITEMS] =
        std::array::from_fn(|index| (index as u32 + 1).wrapping_mul(2_654_435_761) >> (index % 32));
    let group = |index: usize| &words[index / GROUP * GROUP..][..GROUP];
    // Fences between the two waves of a work-group invalidate caches in this mode.
    let sum = |words: &[u32]| words.iter().fold(0u32, |sum, word| sum.wrapping_add(*word));
    let turned = |index: usize| group(index)[GROUP - 1 - index % GROUP] ^ sum(group(index));
    assert_eq!(run_clang_kernel(c"fences.kd", &words), std::array::from_fn(turned));
    let most = |index: usize| group(index).iter().copied().max().unwrap_or_default();
    assert_eq!(run_clang_kernel(c"atomics.kd", &words), std::array::from_fn(most));
    fn mix(value: u32, times: u32) -> u32 {
        match times {
            0 => value,
            _ => mix(value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223), times - 1) ^ times,
        }
    }
    let mixed = |index: usize| mix(words[index], index as u32 % 7);
    assert_eq!(run_clang_kernel(c"calls.kd", &words), std::array::from_fn(mixed));
}

/// The code object of `kernels.s` as a compiler would write it for another processor: its number and its name differ.
fn for_processor(name: &[u8; 7], machine: u8) -> Vec<u8> {
    let mut bytes = KERNELS.to_vec();
    bytes[48] = machine;
    let at = bytes.windows(7).position(|text| text == b"gfx1100").expect("the target of the metadata");
    bytes[at..at + 7].copy_from_slice(name);
    bytes
}

#[test]
fn code_for_a_processor_without_an_interpreter_is_loaded() {
    let session = Session::interpreted("isa=gfx1030");
    assert_eq!(agent_word(session.gpu(), AgentInfo::WAVEFRONT_SIZE), 32);
    let executable = load(session.gpu(), &for_processor(b"gfx1030", 0x36)).expect("it is loaded");
    assert_ne!(kernel_object(executable), 0);
    let other = load(session.gpu(), KERNELS);
    assert_eq!(other, Err(HsaStatus::ERROR_INVALID_CODE_OBJECT), "code for gfx1100 is for another processor");
    drop(session);
    let session = Session::interpreted("isa=gfx90a");
    assert_eq!(agent_word(session.gpu(), AgentInfo::WAVEFRONT_SIZE), 64);
    assert_eq!(agent_word(session.gpu(), AgentInfo::MAX_WAVES_PER_CU), 16);
    let queue = Queue::new(session.gpu(), 16);
    // SAFETY: the queue is there, and the library does not change this part of it.
    let queue = unsafe { queue.pointer.cast::<AmdQueue>().read() };
    assert_eq!(queue.max_wave_id, 15);
}
