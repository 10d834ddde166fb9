//! Start and end of the library, attributes of the system, extensions, and events.

use std::ffi::{CString, c_void};
use std::sync::{OnceLock, PoisonError};

use vireo_hsa::hsa::{Agent as AgentHandle, CBool, CChar, Extension, HsaStatus, SystemEventCallback, SystemInfo};
use vireo_soft::clock;

use super::loader;
use super::pointers::{Attribute, Out, call};
use crate::agents::{LARGE_MODEL, extensions};
use crate::status::{Result, code};
use crate::system::{EventHandler, System, init, shut_down};
use crate::topology::Feature;

/// The version of the specification that the functions follow.
const VERSION: [u16; 2] = [1, 1];

/// The version of the extension for loaded code objects.
const LOADER_VERSION: [u16; 2] = [1, 1];

pub(crate) unsafe extern "C" fn hsa_init() -> HsaStatus {
    code(init())
}

pub(crate) unsafe extern "C" fn hsa_shut_down() -> HsaStatus {
    code(shut_down())
}

pub(crate) unsafe extern "C" fn hsa_status_string(status: HsaStatus, status_string: *mut *const CChar) -> HsaStatus {
    static TEXTS: OnceLock<Vec<(HsaStatus, CString)>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        let text = |name: &str| CString::new(format!("HSA_STATUS_{}", name.to_ascii_uppercase())).unwrap_or_default();
        HsaStatus::NAMED.iter().map(|(status, name)| (*status, text(name))).collect()
    });
    // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
    let result = unsafe { Out::new(status_string) }.and_then(|out| {
        let found = texts.iter().find(|(known, _)| *known == status);
        let (_, text) = found.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        out.set(text.as_ptr().cast());
        Ok(())
    });
    code(result)
}

fn system_info(system: &System, attribute: SystemInfo) -> Result<Vec<u8>> {
    static BUILD: OnceLock<CString> = OnceLock::new();
    Ok(match attribute {
        SystemInfo::VERSION_MAJOR => VERSION[0].to_ne_bytes().to_vec(),
        SystemInfo::VERSION_MINOR => VERSION[1].to_ne_bytes().to_vec(),
        SystemInfo::TIMESTAMP => clock::now().to_ne_bytes().to_vec(),
        SystemInfo::TIMESTAMP_FREQUENCY => clock::FREQUENCY.to_ne_bytes().to_vec(),
        SystemInfo::SIGNAL_MAX_WAIT => u64::MAX.to_ne_bytes().to_vec(),
        // `HSA_ENDIANNESS_LITTLE` and `HSA_ENDIANNESS_BIG`.
        SystemInfo::ENDIANNESS => u32::from(cfg!(target_endian = "big")).to_ne_bytes().to_vec(),
        SystemInfo::MACHINE_MODEL => LARGE_MODEL.to_ne_bytes().to_vec(),
        SystemInfo::EXTENSIONS => match system.topology.has(Feature::Loader) {
            true => extensions(&[Extension::AMD_LOADER.0]),
            false => extensions(&[]),
        },
        SystemInfo::BUILD_VERSION => {
            let text = BUILD
                .get_or_init(|| CString::new(concat!("vireo-softhsa ", env!("CARGO_PKG_VERSION"))).unwrap_or_default());
            text.as_ptr().expose_provenance().to_ne_bytes().to_vec()
        }
        SystemInfo::SVM_SUPPORTED => vec![system.topology.has(Feature::Svm).into()],
        // Memory that the library does not know is not accessible.
        SystemInfo::SVM_ACCESSIBLE_BY_DEFAULT => vec![0],
        SystemInfo::MWAITX_ENABLED | SystemInfo::DMABUF_SUPPORTED | SystemInfo::XNACK_ENABLED => vec![0],
        SystemInfo::EXT_VERSION_MAJOR | SystemInfo::EXT_VERSION_MINOR => 1u16.to_ne_bytes().to_vec(),
        SystemInfo::VIRTUAL_MEM_API_SUPPORTED => vec![super::virtual_memory::is_supported(system).into()],
        _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
    })
}

pub(crate) unsafe extern "C" fn hsa_system_get_info(attribute: SystemInfo, value: *mut c_void) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let value = unsafe { Attribute::new(value) }?;
        value.set(&system_info(system, attribute)?);
        Ok(())
    })
}

/// Whether there is a major version of an extension, which is that of loaded code objects or none.
fn has_extension(system: &System, extension: u16, version_major: u16) -> Result<bool> {
    let extension = Extension(extension);
    if extension.name().is_none() {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    let is_loader = extension == Extension::AMD_LOADER && version_major == LOADER_VERSION[0];
    Ok(is_loader && system.topology.has(Feature::Loader))
}

pub(crate) unsafe extern "C" fn hsa_system_extension_supported(
    extension: u16,
    version_major: u16,
    version_minor: u16,
    result: *mut CBool,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let result = unsafe { Out::new(result) }?;
        let has_major = has_extension(system, extension, version_major)?;
        result.set(CBool((has_major && version_minor <= LOADER_VERSION[1]).into()));
        Ok(())
    })
}

/// Agents have no extensions: that of loaded code objects is the system's.
pub(crate) unsafe extern "C" fn hsa_agent_extension_supported(
    extension: u16,
    agent: AgentHandle,
    _version_major: u16,
    _version_minor: u16,
    result: *mut CBool,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let result = unsafe { Out::new(result) }?;
        if Extension(extension).name().is_none() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        system.agent(agent)?;
        result.set(CBool(0));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_system_major_extension_supported(
    extension: u16,
    version_major: u16,
    version_minor: *mut u16,
    result: *mut CBool,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let (minor, result) = unsafe { (Out::new(version_minor)?, Out::new(result)?) };
        let supported = has_extension(system, extension, version_major)?;
        if supported {
            minor.set(LOADER_VERSION[1]);
        }
        result.set(CBool(supported.into()));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_system_get_major_extension_table(
    extension: u16,
    version_major: u16,
    table_length: u64,
    table: *mut c_void,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks; the
        // length is taken into account below.
        let table = unsafe { Attribute::new(table) }?;
        if table_length == 0 || !has_extension(system, extension, version_major)? {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let functions = loader::table();
        let length = usize::try_from(table_length).unwrap_or(usize::MAX).min(functions.len());
        table.set(&functions[..length]);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_register_system_event_handler(
    callback: Option<SystemEventCallback>,
    data: *mut c_void,
) -> HsaStatus {
    call(|system| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        let mut events = system.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(EventHandler { callback, data });
        Ok(())
    })
}
