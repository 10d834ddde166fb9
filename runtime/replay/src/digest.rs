//! The digest of files and outputs in captures.

use crate::generated::format::FNV1A_PRIME;

/// The digest of what `digest` is of, and these bytes.
pub(crate) fn fnv1a(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(FNV1A_PRIME))
}
