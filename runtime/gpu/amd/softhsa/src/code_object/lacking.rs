//! Code objects that the interpreter cannot run: told when they are loaded, not when a wave gets there.

use vireo_gfx::listing;
use vireo_hsa::object::CodeObject;

use super::LoadError;

/// Refuses a code object whose kernels or functions have instructions that the interpreter lacks, with all their names.
/// One that has no code, or is for other processors, is not its business.
///
/// # Errors
/// The mnemonics with their kernels and offsets.
pub(crate) fn check(object: &CodeObject<'_>) -> Result<(), LoadError> {
    match listing::lacking_in(object) {
        Ok(lacking) if !lacking.is_empty() => Err(LoadError::Lacking(lacking)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8]) -> Result<(), LoadError> {
        super::check(&CodeObject::parse(bytes)?)
    }

    const KERNELS: &[u8] = include_bytes!("../../tests/kernels.co");

    /// The file with `new` in place of the store of its kernel, and where that is in the kernel.
    fn changed(new: [u32; 2]) -> Vec<u8> {
        // global_store_b32 v0, v1, s[2:3]
        let old = [0xDC6A_0000u32, 0x0002_0100].map(u32::to_le_bytes).concat();
        let at = KERNELS.windows(8).position(|bytes| bytes == old).expect("the store");
        let mut bytes = KERNELS.to_vec();
        bytes[at..at + 8].copy_from_slice(&new.map(u32::to_le_bytes).concat());
        bytes
    }

    #[test]
    fn what_the_agent_lacks_is_named_with_kernel_and_offset() {
        assert!(check(KERNELS).is_ok());
        // ds_gws_init v0 gds; s_rfe_b64 s[0:1] and s_sethalt 0; what begins no encoding, and s_nop 0.
        for (words, expected) in [
            ([0xD866_0000, 0], "ds_gws_init (0xd8660000) at 0x2c of `store`"),
            (
                [0xBE80_4A00, 0xBF82_0000],
                "s_rfe_b64 (0xbe804a00) at 0x2c of `store`, s_sethalt (0xbf820000) at 0x30 of `store`",
            ),
            ([0xFFFF_FFFF, 0xBF80_0000], "0xffffffff at 0x2c of `store`"),
        ] {
            let error = check(&changed(words)).expect_err("it is refused").to_string();
            assert_eq!(error, format!("code object: the software agent does not execute {expected}"));
            let listing = listing::Listing::of(&changed(words)).expect("a listing").to_string();
            assert!(listing.contains(&format!(".long 0x{:08x}", words[0])), "{listing}");
        }
        let listing = listing::Listing::of(&changed([0xD866_0000, 0])).expect("a listing").to_string();
        assert!(listing.contains("  .long 0xd8660000, 0x00000000 ; ds_gws_init "), "{listing}");
    }

    #[test]
    fn waves_of_64_lanes_are_refused() {
        // Bit 10 of the properties, which are 56 bytes after the start of the descriptor.
        let descriptor = listing::Listing::of(KERNELS).expect("a listing").functions[0].descriptor.expect("a kernel");
        let file = object_offset(descriptor);
        let mut bytes = KERNELS.to_vec();
        bytes[file + 57] &= !4;
        let error = check(&bytes).expect_err("it is refused").to_string();
        assert_eq!(error, "code object: the software agent does not execute waves of 64 lanes of `store`");
    }

    /// Where an address of the code object is in the file.
    fn object_offset(address: u64) -> usize {
        let object = CodeObject::parse(KERNELS).expect("a code object");
        let holds = |at: u64, length: usize| (at..at + length as u64).contains(&address);
        let segment = object.segments.iter().find(|segment| holds(segment.address, segment.bytes.len()));
        let segment = segment.expect("a segment");
        (segment.file_offset + address - segment.address) as usize
    }
}
