//! No bit of a flag is accepted and forgotten.
//!
//! Every bit of every flag type of `spec/hal` is named by code of the runtime that is no test, or listed here with the
//! reason why no code has to look at it. So a bit that is added to the spec fails this test until someone has thought
//! of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Types, and bits of types, that no code reads.
const NOT_READ: &[(&str, &str)] = &[
    ("MemoryProtection", "of virtual memory, which every allocator of this build refuses"),
    ("MemoryAdvice", "of virtual memory, which every allocator of this build refuses"),
    (
        "TopologyHandleType",
        "describes handles that devices could exchange; those of this build say that there are none",
    ),
    ("PluginResolution::MISSING_OPTIONAL", "told by a plugin; the functions themselves say which of them are missing"),
    ("HostCallFlags::WAIT_ACTIVE", "a hint: the call is expected to be short"),
    ("HostCallFlags::RELAXED", "a permission: memory is made visible for every call"),
    (
        "PoolAcquireFlags::WAIT_FRONTIER_TAINTED",
        "told by pools of other libraries; every frontier is waited for in full",
    ),
    (
        "BufferUsage::DISPATCH_UNIFORM_READ",
        "checked as a part of `DISPATCH_STORAGE`, which kernels need of any binding",
    ),
    ("BufferUsage::DISPATCH_STORAGE_READ", "checked as a part of `DISPATCH_STORAGE`"),
    ("BufferUsage::DISPATCH_STORAGE_WRITE", "checked as a part of `DISPATCH_STORAGE`"),
    ("BufferUsage::DISPATCH_IMAGE_READ", "no device has images, and a buffer for them is one as any other"),
    ("BufferUsage::DISPATCH_IMAGE_WRITE", "no device has images, and a buffer for them is one as any other"),
    ("BufferUsage::SHARING_CONCURRENT", "a permission: all buffers may be used by several queues at a time"),
    ("BufferUsage::MAPPING_ACCESS_RANDOM", "a hint about how the host reads"),
    ("BufferUsage::MAPPING_ACCESS_SEQUENTIAL_WRITE", "a hint about how the host writes"),
    ("CommandBufferMode::UNVALIDATED", "a permission: commands are validated all the same"),
    ("CommandBufferMode::UNRETAINED", "a permission: resources are retained all the same"),
    ("CommandBufferMode::RETAIN_PROFILE_METADATA", "a permission: profiles keep what they name of any command buffer"),
    ("CommandBufferMode::RETAIN_DISPATCH_METADATA", "a permission: profiles keep what they name of any command buffer"),
    ("ExecutionStage", "a barrier orders all stages"),
    ("AccessScope", "a barrier orders all accesses"),
    ("DispatchFlags::ALLOW_INLINE_EXECUTION", "a hint: queues see from the work itself where it runs best"),
    ("DispatchFlags::BORROW_RESOURCE_LIFETIMES", "a permission: resources are retained all the same"),
    ("ExecuteFlags::BORROW_BINDING_TABLE_LIFETIME", "a permission: buffers are retained all the same"),
    ("SemaphoreFlags", "what a semaphore must be able to do; all can do all of it, and refuse to be exported by name"),
    ("ExecutableCachingMode::ALLOW_PERSISTENT_CACHING", "a permission: nothing is kept on disk"),
    ("ExecutableCachingMode::ALLOW_OPTIMIZATION", "a permission: executables are code already, or are compiled anyway"),
    ("ExecutableCachingMode::ENABLE_DEBUGGING", "a wish: executables have what the compiler left in them"),
    ("ExecutableCachingMode::ENABLE_COVERAGE", "a wish: executables have what the compiler left in them"),
    ("ExecutableCachingMode::ENABLE_PROFILING", "a wish: executables have what the compiler left in them"),
    ("DeviceCapabilityBits::PEER_COHERENT", "told by devices; none of this build has peers that share caches"),
    ("DeviceCapabilityBits::P2P_COPY", "told by devices; none of this build has peers"),
    ("DeviceCapabilityBits::ISOLATED", "told by devices; all of this build share the memory of the process"),
    ("DeviceCapabilityBits::PEER_ADDRESSABLE", "told by devices; none of this build has peers"),
    ("SemaphoreCompatibility::DEVICE_WAIT", "told by devices, as a part of all of them"),
    ("SemaphoreCompatibility::DEVICE_SIGNAL", "told by devices, as a part of all of them"),
    ("VmModuleDependencyFlags", "told by modules of other libraries; a dependency that is not optional is required"),
    (
        "Mmt4dFlags::ALLOW_GENERIC_FALLBACK",
        "a permission: every product of tiles has a kernel of its own or the general one",
    ),
];

/// The flag types with their single bits, as Rust spells them.
fn bits(root: &Path) -> Vec<(String, String)> {
    let camel = |name: &str| -> String {
        let words = name.split('_');
        words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
    };
    let mut bits = Vec::new();
    for entry in fs::read_dir(root.join("spec/hal")).expect("the folder of the specs") {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("a spec");
        let mut of = None;
        for line in text.lines() {
            if line.starts_with("- ") {
                of = line.strip_prefix("- bits: ").map(camel);
            }
            let Some((of, rest)) = of.as_ref().zip(line.trim_start().strip_prefix("- {name: ")) else { continue };
            let (name, rest) = rest.split_once(", value: ").expect("names have values");
            let value = rest.split([',', '}']).next().unwrap_or_default();
            let value = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            if value.is_ok_and(u64::is_power_of_two) {
                bits.push((of.clone(), name.to_uppercase()));
            }
        }
    }
    bits
}

/// The text of all Rust files below a folder, without tests.
fn code(folder: &Path, text: &mut String) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !["tests", "benches", "target"].contains(&&*name) {
                code(&path, text);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let file = fs::read_to_string(&path).expect("a source file");
            text.push_str(file.split("#[cfg(test)]\nmod tests").next().unwrap_or_default());
        }
    }
}

/// Whether a text has a path that ends with a name, and not with a longer one.
fn names(text: &str, path: &str) -> bool {
    let is_whole = |start: usize| {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        !text[start + path.len()..].starts_with(part) && !text[..start].ends_with(part)
    };
    text.match_indices(path).any(|(start, _)| is_whole(start))
}

#[test]
fn every_bit_is_read_or_has_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut text = String::new();
    code(&root.join("runtime"), &mut text);
    code(&root.join("cli/src"), &mut text);
    let bits = bits(&root);
    assert!(bits.len() > 100, "only {} bits were found", bits.len());
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (of, bit) in &bits {
        let path = format!("{of}::{bit}");
        let is_read = names(&text, &path);
        let reason = NOT_READ.iter().find(|(name, _)| *name == of || *name == path);
        match (is_read, reason) {
            (false, None) => wrong.push(format!("{path}: no code reads it, and it has no reason")),
            (true, Some((name, _))) if *name == path => {
                wrong.push(format!("{path}: code reads it, and it has a reason"))
            }
            (false, Some((name, _))) => _ = used.insert(*name),
            _ => {}
        }
    }
    let unused = NOT_READ.iter().filter(|(name, _)| !used.contains(name));
    wrong.extend(unused.map(|(name, _)| format!("{name}: has a reason that nothing needs")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
