//! The identity of a group: the address at which its rank 0 listens, and a number that no other group has.

use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use vireo_cuda::nccl::result::NcclResult;
use vireo_cuda::nccl::types::{CChar, NcclUniqueId};

use crate::options::options;
use crate::status::{Failure, Outcome};

/// The first bytes of an identity of this library.
const MAGIC: &[u8; 8] = b"softnccl";
/// Where the length of the address is, and the address itself.
const ADDRESS: usize = 32;

/// A number that no other process has, as far as its start and its number tell.
pub(crate) fn process_number() -> [u8; 16] {
    static NUMBER: OnceLock<[u8; 16]> = OnceLock::new();
    *NUMBER.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let own = std::process::id();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(since.as_nanos() as u64).to_le_bytes());
        bytes[8..12].copy_from_slice(&own.to_le_bytes());
        // The address of a variable, which the system draws.
        bytes[12..].copy_from_slice(&((&raw const since).addr() as u32).to_le_bytes());
        bytes
    })
}

/// The identity of a new group.
pub(crate) fn new() -> Outcome<NcclUniqueId> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let host = &options()?.host;
    let fails = |error: std::io::Error| {
        Failure::new(NcclResult::SYSTEM_ERROR, format!("no port to listen at on {host}: {error}"))
    };
    // Rank 0 listens there when it joins. It may be in another process, so the port cannot be kept.
    let listener = TcpListener::bind((host.as_str(), 0)).map_err(fails)?;
    let address = format!("{host}:{}", listener.local_addr().map_err(fails)?.port());
    let mut bytes = [0; 128];
    let length = address.len();
    if length > bytes.len() - ADDRESS {
        return Err(Failure::usage(format!("the host {host:?} has too long a name")));
    }
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..24].copy_from_slice(&process_number());
    bytes[24..31].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes()[..7]);
    bytes[ADDRESS - 1] = length as u8;
    bytes[ADDRESS..ADDRESS + length].copy_from_slice(address.as_bytes());
    Ok(NcclUniqueId { internal: bytes.map(CChar) })
}

/// The bytes of an identity, and its address.
///
/// # Errors
/// INVALID_ARGUMENT for one that this library has not made.
pub(crate) fn read(id: &NcclUniqueId) -> Outcome<(Vec<u8>, String)> {
    let bytes: Vec<u8> = id.internal.iter().map(|byte| byte.0).collect();
    let length = usize::from(bytes[ADDRESS - 1]);
    let address = bytes.get(ADDRESS..ADDRESS + length).and_then(|address| std::str::from_utf8(address).ok());
    match address {
        Some(address) if bytes.starts_with(MAGIC) && !address.is_empty() => Ok((bytes.clone(), address.to_string())),
        _ => Err(Failure::argument("the identity of the group is none that ncclGetUniqueId of this library made")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_differ_and_carry_an_address() {
        let [first, second] = [(); 2].map(|()| read(&new().expect("an identity")).expect("it is one"));
        assert_ne!(first.0, second.0);
        assert!(first.1.starts_with("127.0.0.1:"), "{}", first.1);
        assert!(read(&NcclUniqueId { internal: [CChar(0); 128] }).is_err());
        let mut wrong = new().expect("an identity");
        wrong.internal[ADDRESS - 1] = CChar(200);
        assert!(read(&wrong).is_err());
    }
}
