//! Start and end, attributes, and handles that name nothing.

use std::ffi::{CStr, c_void};

use vireo_hsa::hsa::*;
use vireo_hsa::hsa_symbols::HSA_SYMBOLS;

use crate::support::*;

#[test]
fn the_library_is_counted_and_refuses_what_comes_before() {
    let session = Session::new("");
    assert_eq!(hsa!(hsa_init()), OK);
    assert_eq!(hsa!(hsa_shut_down()), OK);
    assert_eq!(session.agents().len(), 2);
    assert_eq!(hsa!(hsa_shut_down()), OK);
    // Everything is an error now, and nothing a crash.
    assert_eq!(hsa!(hsa_shut_down()), HsaStatus::ERROR_NOT_INITIALIZED);
    assert_eq!(hsa!(hsa_iterate_agents(None, std::ptr::null_mut())), HsaStatus::ERROR_NOT_INITIALIZED);
    assert_eq!(hsa!(hsa_signal_load_relaxed(Default::default())), 0);
    assert_eq!(hsa!(hsa_init()), OK);
    drop(session);
}

#[test]
fn the_table_has_every_function() {
    let text = format!("{:?}", vireo_softhsa::functions());
    assert!(!text.contains("None"), "{text}");
    assert!(HSA_SYMBOLS.len() > 110);
}

fn system_info<T: Default>(attribute: SystemInfo) -> T {
    let mut value = T::default();
    assert_eq!(hsa!(hsa_system_get_info(attribute, (&raw mut value).cast())), OK, "{attribute:?}");
    value
}

#[test]
fn the_system_answers() {
    let _session = Session::new("");
    assert_eq!(system_info::<u16>(SystemInfo::VERSION_MAJOR), 1);
    assert_eq!(system_info::<u32>(SystemInfo::ENDIANNESS), 0);
    assert_eq!(system_info::<u32>(SystemInfo::MACHINE_MODEL), 1);
    assert_eq!(system_info::<u8>(SystemInfo::SVM_SUPPORTED), 1);
    assert!(system_info::<u64>(SystemInfo::TIMESTAMP_FREQUENCY) > 0);
    let times = [system_info::<u64>(SystemInfo::TIMESTAMP), system_info(SystemInfo::TIMESTAMP)];
    assert!(0 < times[0] && times[0] <= times[1]);
    let mut value = 0u64;
    let unknown = hsa!(hsa_system_get_info(SystemInfo(9999), (&raw mut value).cast()));
    assert_eq!(unknown, HsaStatus::ERROR_INVALID_ARGUMENT);
    let null = hsa!(hsa_system_get_info(SystemInfo::TIMESTAMP, std::ptr::null_mut()));
    assert_eq!(null, HsaStatus::ERROR_INVALID_ARGUMENT);
}

#[test]
fn every_status_has_a_text() {
    for (status, name) in HsaStatus::NAMED {
        let mut text = std::ptr::null();
        assert_eq!(hsa!(hsa_status_string(*status, &raw mut text)), OK);
        // SAFETY: the library's text lives as long as it.
        let text = unsafe { CStr::from_ptr(text.cast()) };
        assert_eq!(text.to_str(), Ok(format!("HSA_STATUS_{}", name.to_uppercase()).as_str()));
    }
    let mut text = std::ptr::null();
    assert_eq!(hsa!(hsa_status_string(HsaStatus(77), &raw mut text)), HsaStatus::ERROR_INVALID_ARGUMENT);
}

#[test]
fn agents_answer_every_attribute() {
    let session = Session::new("agents=2,queues=7,compute-units=5");
    assert_eq!(session.gpus().len(), 2);
    for agent in session.agents() {
        for (attribute, name) in AgentInfo::NAMED {
            let mut value = [0xccu8; 256];
            let status = hsa!(hsa_agent_get_info(agent, *attribute, value.as_mut_ptr().cast()));
            // The processor has no register that publishes its own writes.
            let missing = *attribute == AgentInfo::HDP_FLUSH && agent == session.cpu();
            assert_eq!(status == OK, !missing, "{name}");
            assert_eq!(value[0] == 0xcc && value[1] == 0xcc, missing, "{name}");
        }
        let mut value = 0u64;
        let unknown = hsa!(hsa_agent_get_info(agent, AgentInfo(0xffff), (&raw mut value).cast()));
        assert_eq!(unknown, HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    let gpu = session.gpu();
    assert_eq!(agent_word(gpu, AgentInfo::QUEUES_MAX), 7);
    assert_eq!(agent_word(gpu, AgentInfo::COMPUTE_UNIT_COUNT), 5);
    let mut name = [0u8; 64];
    assert_eq!(hsa!(hsa_agent_get_info(gpu, AgentInfo::NAME, name.as_mut_ptr().cast())), OK);
    // Programs have as many bytes for it as the header of the library says.
    let mut uuid = [b'?'; 22];
    assert_eq!(hsa!(hsa_agent_get_info(gpu, AgentInfo::UUID, uuid.as_mut_ptr().cast())), OK);
    assert_eq!(uuid, *b"GPU-0000000000000001\0?");
    assert!(name.starts_with(b"gfx1100\0"));
}

#[test]
fn a_gpu_has_an_instruction_set_and_the_processor_none() {
    unsafe extern "C" fn collect(isa: Isa, data: *mut c_void) -> HsaStatus {
        // SAFETY: `data` is the vector below.
        unsafe { (*data.cast::<Vec<Isa>>()).push(isa) };
        HsaStatus::INFO_BREAK
    }
    let session = Session::new("isa=gfx1201");
    let mut isas: Vec<Isa> = Vec::new();
    assert_eq!(hsa!(hsa_agent_iterate_isas(session.cpu(), Some(collect), (&raw mut isas).cast())), OK);
    assert!(isas.is_empty());
    let status = hsa!(hsa_agent_iterate_isas(session.gpu(), Some(collect), (&raw mut isas).cast()));
    assert_eq!(status, HsaStatus::INFO_BREAK, "what the callback returned");
    let mut length = 0u32;
    assert_eq!(hsa!(hsa_isa_get_info_alt(isas[0], IsaInfo::NAME_LENGTH, (&raw mut length).cast())), OK);
    let mut name = vec![0u8; length as usize];
    assert_eq!(hsa!(hsa_isa_get_info_alt(isas[0], IsaInfo::NAME, name.as_mut_ptr().cast())), OK);
    assert_eq!(CStr::from_bytes_with_nul(&name), Ok(c"amdgcn-amd-amdhsa--gfx1201"));
    let wrong = hsa!(hsa_isa_get_info_alt(Isa(3), IsaInfo::NAME_LENGTH, (&raw mut length).cast()));
    assert_eq!(wrong, HsaStatus::ERROR_INVALID_ISA);
}

#[test]
fn pools_and_regions_are_those_of_the_machine() {
    let session = Session::new("memory=1GiB,without=fine-grained+large-bar");
    assert_eq!(session.pools(session.cpu()).len(), 3);
    let pools = session.pools(session.gpu());
    assert_eq!(pools.len(), 2, "coarse-grained memory and that of work-groups");
    let mut size = 0u64;
    assert_eq!(hsa!(hsa_amd_memory_pool_get_info(pools[0], MemoryPoolInfo::SIZE, (&raw mut size).cast())), OK);
    assert_eq!(size, 1 << 30);
    let status = optional!(hsa_region_get_info(Region(pools[0].0), RegionInfo::SIZE, (&raw mut size).cast()));
    assert_eq!((status, size), (OK, 1 << 30));
    let access = |agent, pool| {
        let mut access = MemoryPoolAccess(9);
        let attribute = AgentMemoryPoolInfo::ACCESS;
        assert_eq!(hsa!(hsa_amd_agent_memory_pool_get_info(agent, pool, attribute, (&raw mut access).cast())), OK);
        access
    };
    assert_eq!(access(session.gpu(), pools[0]), MemoryPoolAccess::ALLOWED_BY_DEFAULT);
    assert_eq!(access(session.cpu(), pools[0]), MemoryPoolAccess::NEVER_ALLOWED);
    let host = session.pool(session.cpu(), KERNARG);
    assert_eq!(access(session.gpu(), host), MemoryPoolAccess::DISALLOWED_BY_DEFAULT);
}

#[test]
fn wrong_handles_are_errors() {
    let session = Session::new("");
    let mut word = 0u64;
    let out = (&raw mut word).cast();
    for wrong in [0, 1, session.gpu().0 + 1, u64::MAX] {
        assert_eq!(hsa!(hsa_agent_get_info(Agent(wrong), AgentInfo::NODE, out)), HsaStatus::ERROR_INVALID_AGENT);
        let status = hsa!(hsa_amd_memory_pool_get_info(MemoryPool(wrong), MemoryPoolInfo::SIZE, out));
        assert_eq!(status, HsaStatus::ERROR_INVALID_MEMORY_POOL);
        assert_eq!(hsa!(hsa_executable_destroy(Executable(wrong))), HsaStatus::ERROR_INVALID_EXECUTABLE);
        let status = hsa!(hsa_code_object_reader_destroy(CodeObjectReader(wrong)));
        assert_eq!(status, HsaStatus::ERROR_INVALID_CODE_OBJECT_READER);
        let status = hsa!(hsa_executable_symbol_get_info(ExecutableSymbol(wrong), ExecutableSymbolInfo::TYPE, out));
        assert_eq!(status, HsaStatus::ERROR_INVALID_EXECUTABLE_SYMBOL);
        let signal = vireo_hsa::signal::Signal(wrong);
        assert_eq!(hsa!(hsa_signal_destroy(signal)), HsaStatus::ERROR_INVALID_SIGNAL);
        hsa!(hsa_signal_store_relaxed(signal, 5));
        assert_eq!(hsa!(hsa_signal_load_scacquire(signal)), 0);
        let queue = std::ptr::without_provenance_mut(wrong as usize);
        assert_eq!(hsa!(hsa_queue_destroy(queue)), HsaStatus::ERROR_INVALID_QUEUE);
        assert_eq!(optional!(hsa_queue_add_write_index_relaxed(queue, 1)), 0);
        assert_eq!(hsa!(hsa_amd_memory_unlock(queue.cast())), HsaStatus::ERROR_INVALID_ARGUMENT);
    }
}

#[test]
fn unsupported_functions_fail() {
    let _session = Session::new("without=loader");
    let (mut minor, mut supported) = (0u16, CBool(9));
    let loader = Extension::AMD_LOADER.0;
    let status = optional!(hsa_system_major_extension_supported(loader, 1, &raw mut minor, &raw mut supported));
    assert_eq!((status, supported.0), (OK, 0));
    let mut table = [0usize; 5];
    let status = hsa!(hsa_system_get_major_extension_table(loader, 1, 40, table.as_mut_ptr().cast()));
    assert_eq!((status, table), (HsaStatus::ERROR_INVALID_ARGUMENT, [0; 5]));
    assert_eq!(optional!(hsa_amd_portable_close_dmabuf(3)), HsaStatus::ERROR);
}
