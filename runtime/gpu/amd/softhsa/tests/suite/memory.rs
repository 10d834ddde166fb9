//! Allocations, pinned memory, copies, and addresses apart from memory.

use std::ffi::c_void;

use vireo_hsa::hsa::*;

use crate::support::*;

#[test]
fn allocations_are_zeroed_counted_and_freed() {
    let session = Session::new("memory=1MiB");
    let pool = session.pool(session.gpu(), COARSE);
    let memory = Memory::new(pool, 1);
    assert_eq!(memory.address % 4096, 0);
    assert_eq!((memory.load(0), memory.load(511)), (0, 0));
    let allocate = |pool, size| {
        let mut pointer = std::ptr::null_mut();
        hsa!(hsa_amd_memory_pool_allocate(pool, size, 0, &raw mut pointer))
    };
    for (size, status) in [
        (0, HsaStatus::ERROR_INVALID_ARGUMENT),
        (1 << 20, HsaStatus::ERROR_OUT_OF_RESOURCES),
        (u64::MAX, HsaStatus::ERROR_OUT_OF_RESOURCES),
        (u64::MAX - 4095, HsaStatus::ERROR_OUT_OF_RESOURCES),
        (1 << 62, HsaStatus::ERROR_OUT_OF_RESOURCES),
    ] {
        assert_eq!(allocate(pool, size), status, "{size}");
    }
    // The pools of an agent share its memory, and that of work-groups is none to allocate.
    assert_eq!(allocate(session.pool(session.gpu(), FINE), 1 << 20), HsaStatus::ERROR_OUT_OF_RESOURCES);
    assert_eq!(allocate(session.pool(session.gpu(), 0), 64), HsaStatus::ERROR_INVALID_ALLOCATION);
    let inside = memory.pointer().wrapping_byte_add(8);
    assert_eq!(hsa!(hsa_amd_memory_pool_free(inside)), HsaStatus::ERROR_INVALID_ALLOCATION);
    let pointer = memory.pointer();
    drop(memory);
    assert_eq!(hsa!(hsa_amd_memory_pool_free(pointer)), HsaStatus::ERROR_INVALID_ALLOCATION, "it is freed already");
    assert_eq!(hsa!(hsa_amd_memory_pool_free(std::ptr::null_mut())), OK);
    Memory::new(pool, 1 << 20);
}

#[test]
fn access_is_allowed_where_it_can_be() {
    let session = Session::new("agents=2,without=peers");
    let memory = session.device_memory(64);
    let gpus = session.gpus();
    memory.allow(&[session.cpu()]);
    let allow = |agents: &[Agent], pointer: *const c_void| {
        hsa!(hsa_amd_agents_allow_access(agents.len() as u32, agents.as_ptr(), std::ptr::null(), pointer))
    };
    assert_eq!(allow(&[gpus[1]], memory.pointer()), HsaStatus::ERROR_INVALID_AGENT, "they are no peers");
    assert_eq!(allow(&[Agent(5)], memory.pointer()), HsaStatus::ERROR_INVALID_AGENT);
    assert_eq!(allow(&[], memory.pointer()), HsaStatus::ERROR_INVALID_ARGUMENT);
    let local = 0u64;
    assert_eq!(allow(&[gpus[0]], (&raw const local).cast()), HsaStatus::ERROR_INVALID_ALLOCATION);
    assert_eq!(accessible(memory.pointer()), [session.cpu(), gpus[0]]);
}

/// The agents that may access an address, as the library tells them.
fn accessible(pointer: *const c_void) -> Vec<Agent> {
    unsafe extern "C" fn alloc(size: u64) -> *mut c_void {
        Vec::<u64>::leak(vec![0; size as usize / 8]).as_mut_ptr().cast()
    }
    let mut info = PointerInfo { size: PointerInfo::SIZE as u32, ..PointerInfo::default() };
    let (mut count, mut list) = (0, std::ptr::null_mut());
    let status = hsa!(hsa_amd_pointer_info(pointer, &raw mut info, Some(alloc), &raw mut count, &raw mut list));
    assert_eq!(status, OK);
    // SAFETY: the library filled as many elements of the memory that `alloc` returned.
    unsafe { std::slice::from_raw_parts(list, count as usize) }.to_vec()
}

fn pointer_info(pointer: *const c_void) -> PointerInfo {
    let mut info = PointerInfo { size: PointerInfo::SIZE as u32, ..PointerInfo::default() };
    let null = (std::ptr::null_mut(), std::ptr::null_mut());
    assert_eq!(hsa!(hsa_amd_pointer_info(pointer, &raw mut info, None, null.0, null.1)), OK);
    info
}

#[test]
fn addresses_lead_to_their_allocations() {
    let session = Session::new("");
    let memory = session.device_memory(8192);
    let info = pointer_info(memory.pointer().wrapping_byte_add(5000));
    assert_eq!((info.agent_base_address, info.size_in_bytes), (memory.address, 8192));
    assert_eq!((info.r#type, info.agent_owner, info.global_flags), (PointerType::HSA.0, session.gpu(), COARSE));
    let unknown = pointer_info(memory.pointer().wrapping_byte_add(8192));
    assert_eq!((unknown.r#type, unknown.size_in_bytes), (PointerType::UNKNOWN.0, 0));
    // A program of an older release has a shorter struct.
    let mut short = PointerInfo { size: 40, global_flags: 99, ..PointerInfo::default() };
    let null = (std::ptr::null_mut(), std::ptr::null_mut());
    assert_eq!(hsa!(hsa_amd_pointer_info(memory.pointer(), &raw mut short, None, null.0, null.1)), OK);
    assert_eq!((short.size, short.size_in_bytes, short.global_flags), (40, 8192, 99));
    let status = hsa!(hsa_amd_pointer_info(memory.pointer(), std::ptr::null_mut(), None, null.0, null.1));
    assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
}

#[test]
fn memory_stays_pinned_as_often_as_it_was_pinned() {
    let session = Session::new("");
    let mut words = vec![0u64; 8];
    let pointer: *mut c_void = words.as_mut_ptr().cast();
    let inside = pointer.wrapping_byte_add(16);
    let (mut gpu, mut result) = (session.gpu(), std::ptr::null_mut());
    let mut pin = |pointer, size| hsa!(hsa_amd_memory_lock(pointer, size, &raw mut gpu, 1, &raw mut result));
    assert_eq!([pin(pointer, 64), pin(pointer, 64), pin(inside, 8)], [OK; 3]);
    let unpin = |pointer| hsa!(hsa_amd_memory_unlock(pointer));
    let wrong = HsaStatus::ERROR_INVALID_ARGUMENT;
    assert_eq!([unpin(pointer), unpin(inside), unpin(inside)], [OK, OK, wrong]);
    assert_eq!(accessible(pointer), [session.cpu(), session.gpu()], "one is left");
    assert_eq!([unpin(pointer), unpin(pointer)], [OK, wrong]);
    assert!(accessible(pointer).is_empty());
    // Memory of a pool is not freed by that.
    let memory = session.device_memory(4096);
    let pointer = memory.pointer();
    assert_eq!([unpin(pointer), pin(pointer, 64), unpin(pointer), unpin(pointer)], [wrong, OK, OK, wrong]);
    assert_eq!(pointer_info(pointer).size_in_bytes, 4096);
}

#[test]
fn memory_of_the_program_is_pinned_and_released() {
    let session = Session::new("");
    let mut words = vec![0u64; 8];
    let pointer: *mut c_void = words.as_mut_ptr().cast();
    let (mut gpu, mut result) = (session.gpu(), std::ptr::null_mut());
    assert_eq!(hsa!(hsa_amd_memory_lock(pointer, 64, &raw mut gpu, 1, &raw mut result)), OK);
    assert_eq!(result, pointer, "agents have the addresses of the host");
    assert_eq!(pointer_info(pointer).r#type, PointerType::LOCKED.0);
    assert_eq!(accessible(pointer), [session.cpu(), gpu]);
    assert_eq!(hsa!(hsa_amd_memory_pool_free(pointer)), HsaStatus::ERROR_INVALID_ALLOCATION);
    assert_eq!(hsa!(hsa_amd_memory_unlock(pointer)), OK);
    assert_eq!(hsa!(hsa_amd_memory_unlock(pointer)), HsaStatus::ERROR_INVALID_ARGUMENT);
    for (pointer, size, count) in [(std::ptr::null_mut(), 64, 1), (pointer, 0, 1), (pointer, 64, -1)] {
        let status = hsa!(hsa_amd_memory_lock(pointer, size, &raw mut gpu, count, &raw mut result));
        assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    let status = hsa!(hsa_amd_memory_lock(pointer, u64::MAX, &raw mut gpu, 1, &raw mut result));
    assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT, "it wraps");
}

#[test]
fn shared_memory_has_attributes() {
    let session = Session::new("");
    let mut words = vec![0u64; 8];
    let pointer: *mut c_void = words.as_mut_ptr().cast();
    let attribute = |attribute: SvmAttribute| SvmAttributePair { attribute: attribute.0, value: session.gpu().0 };
    let query = || {
        let mut pair = attribute(SvmAttribute::ACCESS_QUERY);
        assert_eq!(optional!(hsa_amd_svm_attributes_get(pointer, 64, &raw mut pair, 1)), OK);
        SvmAttribute(pair.attribute)
    };
    assert_eq!(query(), SvmAttribute::AGENT_NO_ACCESS);
    let mut pair = attribute(SvmAttribute::AGENT_ACCESSIBLE);
    assert_eq!(optional!(hsa_amd_svm_attributes_set(pointer, 64, &raw mut pair, 1)), OK);
    assert_eq!(query(), SvmAttribute::AGENT_ACCESSIBLE_IN_PLACE);
    let mut pair = attribute(SvmAttribute::AGENT_NO_ACCESS);
    assert_eq!(optional!(hsa_amd_svm_attributes_set(pointer, 64, &raw mut pair, 1)), OK);
    assert_eq!(query(), SvmAttribute::AGENT_NO_ACCESS);
    assert_eq!(hsa!(hsa_amd_memory_unlock(pointer)), OK);
}

#[test]
fn copies_and_fills_stay_in_their_allocations() {
    let session = Session::new("");
    let (one, two) = (session.device_memory(4096), session.kernarg_memory(4096));
    assert_eq!(optional!(hsa_amd_memory_fill(one.pointer(), 0x0102_0304, 1024)), OK);
    assert_eq!(one.load(511), 0x0102_0304_0102_0304);
    let status = optional!(hsa_amd_memory_fill(one.pointer(), 1, 1025));
    assert_eq!(status, HsaStatus::ERROR_INVALID_ALLOCATION);
    let copy = |to: *mut c_void, from: *const c_void, size| hsa!(hsa_memory_copy(to, from, size));
    assert_eq!(copy(two.pointer().wrapping_byte_add(3), one.pointer(), 9), OK);
    assert_eq!((two.load(0), two.load(1)), (0x401020304000000, 0x4010203));
    let local = [7u64, 8];
    assert_eq!(copy(two.pointer(), local.as_ptr().cast(), 16), OK, "the program vouches for its own memory");
    assert_eq!((two.load(0), two.load(1)), (7, 8));
    let wrong = [
        (two.pointer(), one.pointer(), 4097),
        (two.pointer().wrapping_byte_sub(1), one.pointer(), 2),
        (two.pointer(), one.pointer(), u64::MAX),
        (two.pointer(), std::ptr::null_mut(), 1),
    ];
    for (to, from, size) in wrong {
        assert_ne!(copy(to, from, size), OK, "{size}");
    }
    assert_eq!(two.load(0), 7);
}

#[test]
fn asynchronous_copies_wait_for_signals() {
    let session = Session::new("");
    let (one, two) = (session.device_memory(4096), session.device_memory(4096));
    let (dependency, completion) = (session.signal(1), session.signal(1));
    one.store(0, 5);
    let (gpu, to, from) = (session.gpu(), two.pointer(), one.pointer());
    let status = optional!(hsa_amd_memory_async_copy(to, gpu, from, gpu, 64, 1, &raw const dependency, completion));
    assert_eq!(status, OK);
    assert_eq!((two.load(0), hsa!(hsa_signal_load_scacquire(completion))), (0, 1));
    one.store(0, 6);
    optional!(hsa_signal_subtract_screlease(dependency, 1));
    wait(completion);
    assert_eq!(two.load(0), 6);
    // One that depends on nothing, and one that will never begin.
    let none = std::ptr::null();
    hsa!(hsa_signal_store_relaxed(completion, 1));
    assert_eq!(optional!(hsa_amd_memory_async_copy(to, gpu, from, gpu, 64, 0, none, completion)), OK);
    assert_eq!(hsa!(hsa_signal_load_scacquire(completion)), 0);
    hsa!(hsa_signal_store_relaxed(dependency, 1));
    let status = optional!(hsa_amd_memory_async_copy(to, gpu, from, gpu, 64, 1, &raw const dependency, completion));
    assert_eq!(status, OK);
}

#[cfg(target_os = "linux")]
#[test]
fn memory_is_mapped_at_reserved_addresses() {
    let session = Session::new("memory=64KiB");
    let pool = session.pool(session.gpu(), COARSE);
    let mut address = std::ptr::null_mut();
    let reserve = |out: *mut *mut c_void, size, alignment| {
        optional!(hsa_amd_vmem_address_reserve_align(out, size, 0, alignment, 0))
    };
    assert_eq!(reserve(&raw mut address, 16384, 65536), OK);
    assert_eq!(address.addr() % 65536, 0);
    for (size, alignment) in [(0, 0), (1, 0), (4096, 3), (4096, 1 << 40), (u64::MAX - 4095, 0)] {
        let mut other = std::ptr::null_mut();
        assert_ne!(reserve(&raw mut other, size, alignment), OK, "{size} {alignment}");
    }
    let mut handle = VmemHandle(0);
    let pinned = MemoryType::PINNED;
    assert_eq!(optional!(hsa_amd_vmem_handle_create(pool, 8192, pinned, 0, &raw mut handle)), OK);
    let map = |at: *mut c_void, size, offset, handle| optional!(hsa_amd_vmem_map(at, size, offset, handle, 0));
    let second = address.wrapping_byte_add(8192);
    assert_eq!(map(address, 8192, 0, handle), OK);
    assert_eq!(map(second, 4096, 4096, handle), OK, "the same memory again");
    assert_eq!(map(second, 4096, 0, handle), HsaStatus::ERROR_INVALID_ALLOCATION, "something is mapped there");
    assert_eq!(map(second, 8192, 4096, handle), HsaStatus::ERROR_INVALID_ARGUMENT, "the memory ends before");
    assert_eq!(map(address.wrapping_byte_add(12288), 8192, 0, handle), HsaStatus::ERROR_INVALID_ALLOCATION);
    assert_eq!(map(address, 4096, 0, VmemHandle(1)), HsaStatus::ERROR_INVALID_ALLOCATION);
    assert_eq!(accessible(address), []);
    let access = MemoryAccessDesc { permissions: 3, agent: session.gpu(), ..MemoryAccessDesc::default() };
    assert_eq!(optional!(hsa_amd_vmem_set_access(address, 12288, &raw const access, 1)), OK);
    assert_ne!(optional!(hsa_amd_vmem_set_access(address, 16384, &raw const access, 1)), OK, "a part is not mapped");
    assert_eq!(accessible(address), [session.gpu()]);
    // SAFETY: both addresses are mapped.
    unsafe {
        address.cast::<u64>().add(512).write_volatile(77);
        assert_eq!(second.cast::<u64>().read_volatile(), 77);
    }
    assert_eq!(optional!(hsa_amd_vmem_handle_release(handle)), OK);
    assert_eq!(optional!(hsa_amd_vmem_handle_release(handle)), HsaStatus::ERROR_INVALID_ALLOCATION);
    let free = |size| optional!(hsa_amd_vmem_address_free(address, size));
    assert_eq!(free(16384), HsaStatus::ERROR_RESOURCE_FREE, "memory is mapped there");
    assert_eq!(optional!(hsa_amd_vmem_unmap(address, 8192)), OK);
    assert_eq!(optional!(hsa_amd_vmem_unmap(address, 8192)), HsaStatus::ERROR_INVALID_ALLOCATION);
    // The memory is counted until its last mapping is gone.
    let mut pointer = std::ptr::null_mut();
    let allocate = |out: *mut *mut c_void| hsa!(hsa_amd_memory_pool_allocate(pool, 65536, 0, out));
    assert_eq!(allocate(&raw mut pointer), HsaStatus::ERROR_OUT_OF_RESOURCES);
    assert_eq!(optional!(hsa_amd_vmem_unmap(second, 4096)), OK);
    assert_eq!(allocate(&raw mut pointer), OK);
    assert_eq!(hsa!(hsa_amd_memory_pool_free(pointer)), OK);
    assert_eq!(free(8192), HsaStatus::ERROR_INVALID_ALLOCATION);
    assert_eq!(free(16384), OK);
}

#[test]
fn a_machine_may_lack_virtual_memory() {
    let _session = Session::new("without=virtual-memory+svm");
    let mut address = std::ptr::null_mut();
    assert_eq!(optional!(hsa_amd_vmem_address_reserve_align(&raw mut address, 4096, 0, 0, 0)), HsaStatus::ERROR);
    let mut supported = 9u8;
    for attribute in [SystemInfo::VIRTUAL_MEM_API_SUPPORTED, SystemInfo::SVM_SUPPORTED] {
        assert_eq!(hsa!(hsa_system_get_info(attribute, (&raw mut supported).cast())), OK);
        assert_eq!(supported, 0);
    }
}
