//! Tests of the readers: files that `iree-compile` wrote (`fixtures/amdgpu/rebuild.sh`), and the same files damaged.

use super::{Container, ContainerError};

const GFX1100: &[u8] = include_bytes!("../../../../../../fixtures/amdgpu/kernels_gfx1100.amd1");
const GFX942: &[u8] = include_bytes!("../../../../../../fixtures/amdgpu/kernels_gfx942.amd1");
const CODE_OBJECT: &[u8] = include_bytes!("../../../../../../fixtures/amdgpu/kernels_gfx1100.hsaco");

fn read(bytes: &[u8]) -> Container<'_> {
    Container::read(bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// A copy whose first bytes are at an address that is a multiple of 8, or `shift` bytes after one.
fn placed(bytes: &[u8], shift: usize, test: impl FnOnce(&[u8])) {
    let mut words = vec![0u64; bytes.len() / 8 + 2];
    let start = shift;
    let all: Vec<u8> = std::iter::repeat_n(0, start).chain(bytes.iter().copied()).collect();
    for (word, chunk) in words.iter_mut().zip(all.chunks(8)) {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(padded);
    }
    let copy: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    test(&copy[start..start + bytes.len()]);
}

#[test]
fn an_executable_of_the_compiler_is_read() {
    for (bytes, target, lanes) in [(GFX1100, "gfx1100", 32), (GFX942, "gfx942", 64)] {
        let executable = read(bytes);
        assert_eq!((executable.target.to_string().as_str(), executable.modules.len()), (target, 1));
        let [add, abs] = executable.exports.as_slice() else { panic!("{:?}", executable.exports) };
        assert_eq!(add.kernel.symbol, "add_dispatch_0_elementwise_D_f32.kd");
        assert_eq!((add.workgroup_size, add.constants, add.explicit_size()), ([lanes, 1, 1], 4, 40));
        assert_eq!((add.bindings.as_slice(), add.kernel.wavefront_size), (&[true, true, false][..], lanes.into()));
        assert_eq!((abs.bindings.as_slice(), abs.constants), (&[true, false][..], 0));
        // The fields that the loader and packets need.
        assert_eq!((add.kernel.kernarg_size, add.kernel.kernarg_alignment), (296, 8));
        assert_eq!((add.implicit_offset, abs.kernel.group_size, abs.kernel.private_size), (Some(40), 0, 0));
    }
}

#[test]
fn a_bare_code_object_exports_its_kernels() {
    let (bare, tables) = (read(CODE_OBJECT), read(GFX1100));
    assert_eq!(bare.target, tables.target);
    assert_eq!(bare.modules[0], tables.modules[0]);
    let mut sorted: Vec<_> = bare.exports.iter().map(|export| export.kernel.clone()).collect();
    sorted.sort_by_key(|kernel| kernel.explicit_size);
    let kernels = [&tables.exports[1], &tables.exports[0]].map(|export| export.kernel.clone());
    assert_eq!(sorted, kernels);
    for export in &bare.exports {
        let other = tables.exports.iter().find(|other| other.kernel == export.kernel).expect("the same kernels");
        let shape = |export: &super::Export| (export.workgroup_size, export.constants, export.bindings.len());
        assert_eq!(shape(export), shape(other));
    }
}

#[test]
fn executables_may_be_at_any_address_that_tables_allow() {
    placed(GFX1100, 0, |bytes| assert_eq!(read(bytes).exports.len(), 2));
    placed(GFX1100, 4, |bytes| assert_eq!(read(bytes).exports.len(), 2));
}

#[test]
fn what_is_no_executable_is_refused() {
    assert_eq!(Container::read(b"").expect_err("empty"), ContainerError::Unknown(vec![]));
    let other = Container::read(b"CUD1............").expect_err("another format");
    assert_eq!(other, ContainerError::Unknown(b"CUD1....".to_vec()));
    assert!(other.to_string().ends_with("it begins with [43, 55, 44, 31, 2e, 2e, 2e, 2e]"), "{other}");
    // Compilers before release 3.9 wrote the tables alone.
    let tables = Container::read(&GFX1100[64..]).expect_err("without a header");
    assert_eq!(tables, ContainerError::WithoutHeader);
    assert!(tables.to_string().contains("from release 3.9 on"), "{tables}");
    let mut version = GFX1100.to_vec();
    version[4] = 7;
    assert!(Container::read(&version).expect_err("a later version").to_string().contains("the version is 7"));
    let short = Container::read(&GFX1100[..100]).expect_err("cut off");
    assert!(matches!(short, ContainerError::Header { field: "the length", .. }), "{short}");
}

#[test]
fn a_module_for_another_target_than_its_executable_is_refused() {
    let at = GFX1100.windows(4).position(|bytes| bytes == b"\x7fELF").expect("it has a code object");
    let mut bytes = GFX1100.to_vec();
    bytes[at + 48] = 0x46;
    let error = Container::read(&bytes).expect_err("for gfx1101");
    assert!(error.to_string().contains("module 0 is for `gfx1101`, and the executable for `gfx1100`"), "{error}");
}

#[test]
fn an_export_that_its_kernel_contradicts_is_refused() {
    // The work-group size of `add`: the only place with these three numbers in the tables.
    let size: Vec<u8> = [32u32, 1, 1].iter().flat_map(|size| size.to_le_bytes()).collect();
    let at = GFX1100.windows(size.len()).position(|bytes| bytes == size).expect("there is the size");
    let mut bytes = GFX1100.to_vec();
    bytes[at] = 64;
    let error = Container::read(&bytes).expect_err("another size").to_string();
    assert!(error.contains("its work-group size is [64, 1, 1], and its kernel was compiled for [32, 1, 1]"), "{error}");
    let symbol = b"abs_dispatch_0_elementwise_64_f32.kd";
    let at = GFX1100.windows(symbol.len()).position(|bytes| bytes == symbol).expect("there is the symbol");
    let mut bytes = GFX1100.to_vec();
    bytes[at] = b'x';
    let error = Container::read(&bytes).expect_err("another symbol").to_string();
    assert!(error.contains("export") && error.contains("no module has its kernel"), "{error}");
}

/// Every byte of the parts that are read, changed in several ways: an error or other contents, never a panic.
#[test]
fn damaged_executables_do_no_harm() {
    let mut refused = 0;
    for bytes in [GFX1100, CODE_OBJECT] {
        for at in (0..bytes.len()).filter(|at| *at < 3000 || bytes.len() - at < 512) {
            for change in [0xff, 0x80, 0x01] {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= change;
                refused += usize::from(Container::read(&damaged).is_err());
            }
        }
        for length in (0..bytes.len()).step_by(7) {
            refused += usize::from(Container::read(&bytes[..length]).is_err());
        }
    }
    assert!(refused > 1000, "{refused}");
}
