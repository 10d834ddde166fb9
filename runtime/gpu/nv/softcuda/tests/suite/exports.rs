//! Every exported name: it is found by name and version, and in the symbol table of the library where that was built.

use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr::null_mut;

use vireo_codegen::model::api::Library;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::SymbolQuery;
use vireo_softcuda::entries::*;

use crate::support::{ok, start};

fn library() -> Library {
    let spec = vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|errors| panic!("{errors}"));
    spec.api("cuda").expect("the API").libraries[0].clone()
}

fn find(name: &str, version: i32, flags: u64) -> (*mut c_void, SymbolQuery) {
    let (mut address, mut query) = (null_mut(), SymbolQuery(9));
    let name = CString::new(name).expect("a name");
    // SAFETY: the pointers are those of values, and the name has a zero at its end.
    ok(unsafe { cuGetProcAddress_v2(name.as_ptr().cast(), &raw mut address, version, flags, &raw mut query) });
    (address, query)
}

#[test]
fn every_name_is_exported_once_and_found() {
    start();
    let library = library();
    let names = library.exported();
    assert_eq!(names.len(), 773);
    for symbol in &library.symbols {
        let (name, _) = library.suffixes.split(&symbol.function.name);
        let version = symbol.version.expect("it is found by version");
        if version <= 12_090 {
            let (address, query) = find(name, version as i32, 0);
            assert!(!address.is_null(), "{name} at {version}: {}", query.0);
        }
    }
}

#[test]
fn versions_and_flags_choose_among_functions_of_one_name() {
    start();
    let address = |function: *const ()| function.cast_mut().cast::<c_void>();
    assert_eq!(find("cuMemAlloc", 11_030, 0).0, address(cuMemAlloc_v2 as *const ()));
    assert_eq!(find("cuMemAlloc", 2000, 0).0, address(cuMemAlloc as *const ()));
    assert_eq!(find("cuCtxCreate", 11_030, 0).0, address(cuCtxCreate_v2 as *const ()));
    assert_eq!(find("cuCtxCreate", 12_000, 0).0, address(cuCtxCreate_v3 as *const ()));
    assert_eq!(find("cuGraphInstantiate", 11_030, 0).0, address(cuGraphInstantiate_v2 as *const ()));
    assert_eq!(find("cuGraphInstantiate", 12_000, 0).0, address(cuGraphInstantiateWithFlags as *const ()));
    assert_eq!(find("cuMemcpyAsync", 12_000, 0).0, address(cuMemcpyAsync as *const ()));
    assert_eq!(find("cuMemcpyAsync", 12_000, 2).0, address(cuMemcpyAsync_ptsz as *const ()));
    assert_eq!(find("cuMemcpyHtoD", 12_000, 2).0, address(cuMemcpyHtoD_v2_ptds as *const ()));
    assert_eq!(find("cuMemcpyAsync", 1000, 0), (null_mut(), SymbolQuery::VERSION_NOT_SUFFICIENT));
    assert_eq!(find("cuNothing", 12_000, 0), (null_mut(), SymbolQuery::SYMBOL_NOT_FOUND));
    let mut found = null_mut();
    // SAFETY: the pointers are those of values, and the name has a zero at its end.
    let status = unsafe { cuGetProcAddress(c"cuNothing".as_ptr().cast(), &raw mut found, 12_000, 0) };
    assert_eq!((status, found), (CuResult::ERROR_NOT_FOUND, null_mut()));
}

#[test]
fn what_is_not_implemented_says_so() {
    start();
    assert_eq!(cuArrayCreate_v2(), CuResult::ERROR_NOT_SUPPORTED);
    assert_eq!(cuTexObjectCreate(), CuResult::ERROR_NOT_SUPPORTED);
}

/// Reads the dynamic symbols of the library that `cargo xtask soft target/soft` built.
#[test]
fn the_library_has_every_name_in_its_symbol_table() {
    use object::{Object, ObjectSymbol};
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../target/soft/libcuda.so.1");
    let Ok(bytes) = std::fs::read(&path) else {
        println!("skipped: there is no {} (cargo xtask soft target/soft)", path.display());
        return;
    };
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let found: std::collections::BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .filter_map(|symbol| symbol.name().ok().map(str::to_string))
        .collect();
    let wanted: std::collections::BTreeSet<String> = library().exported().into_iter().collect();
    assert_eq!(found, wanted);
}
