//! Verified functions of assembled texts and of the fixtures, for tests of the compiler.

pub(crate) mod rewrites;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vireo_module::asm::assemble;
use vireo_module::bytecode::{FunctionInfo, ModuleInfo, Rules, VerifiedFunction, verify_function};
use vireo_module::convention::Convention;
use vireo_module::vmfb::Archive;
use vireo_vm::list::{ElementType, ListType};
use vireo_vm::type_names::VM_OPAQUE;
use vireo_vm::{Buffer, Ref};

use crate::interp::{BytecodeModule, CodeShape, Import};

/// The functions of a module that has functions and at most one type.
pub(crate) fn functions(text: &str) -> Arc<[VerifiedFunction]> {
    verified(&Archive::from_bytes(&assemble(text).unwrap()).unwrap())
}

fn verified(archive: &Archive) -> Arc<[VerifiedFunction]> {
    let conventions: Vec<Convention> = archive.functions().map(|one| one.convention().parse().unwrap()).collect();
    let imports: Vec<Convention> = archive.imports().map(|one| one.convention.parse().unwrap()).collect();
    let (global_bytes, global_refs) = archive.globals();
    let info = ModuleInfo {
        global_bytes: global_bytes as u64,
        global_refs: global_refs as u32,
        types: archive.types().count() as u32,
        rodata: archive.rodata().len() as u32,
        imports: &imports,
        functions: &conventions,
    };
    let verified = archive.functions().enumerate().map(|(ordinal, function)| {
        let info_of = FunctionInfo {
            ordinal: ordinal as u32,
            convention: &conventions[ordinal],
            slots: function.slots,
            refs: function.refs,
            blocks: function.blocks,
            features: function.requirements.0,
            rules: Rules::default(),
        };
        verify_function(&archive.bytecode()[function.code.clone()], &info_of, &info).unwrap()
    });
    verified.collect()
}

/// The folder of the fixtures.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// The modules of the fixtures with their names, and the kernels in portable bytecode inside them.
pub(crate) fn fixture_modules() -> Vec<(String, BytecodeModule)> {
    let folders = ["bench", "models"].map(|folder| std::fs::read_dir(fixtures().join(folder)).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "vmfb")).collect();
    files.sort();
    let mut modules = Vec::new();
    for path in files {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let archive = Archive::from_bytes(&std::fs::read(&path).unwrap()).unwrap();
        for (segment, rodata) in archive.rodata().enumerate() {
            if let Ok(kernels) = Archive::from_bytes(&archive.bytes()[rodata.range]) {
                let module = bound(&kernels);
                modules.push((format!("{name}/{segment}"), BytecodeModule { shape: CodeShape::KERNELS, ..module }));
            }
        }
        modules.push((name, bound(&archive)));
    }
    modules
}

/// A module whose imports are missing. The compiler asks for types of references only.
fn bound(archive: &Archive) -> BytecodeModule {
    let imports = archive.imports().map(|import| Import {
        name: import.full_name.to_string(),
        convention: import.convention.parse().unwrap(),
        target: None,
        direct: None,
    });
    let types = archive.types().map(|name| match name.strip_prefix('!') {
        Some(VM_OPAQUE) => ListType::Variant,
        Some(name) => ListType::Ref(name.to_string()),
        None => ListType::Value(ElementType::I32),
    });
    let rodata = archive.rodata().map(|segment| Buffer::copy_of(&archive.bytes()[segment.range]).unwrap());
    let (global_bytes, global_refs) = archive.globals();
    BytecodeModule {
        imports: imports.collect(),
        types: types.collect(),
        rodata: rodata.map(Ref::new).collect(),
        global_bytes,
        global_refs,
        ..BytecodeModule::new(archive.name().to_string(), verified(archive))
    }
}
