//! ISA requirements of a library: decodes its code when it is loaded and checks that the processor has the features of
//! every instruction. Loaders call it with the entry points of the library; `instruction` decodes.
//!
//! A library does not state the features that it was compiled for, and with the reference runtime an unknown
//! instruction kills the process. So all reachable instructions are decoded, from each kernel along jumps, both
//! branches of conditional ones, and calls. If a jump is computed, all code that was not reached is decoded linearly as
//! well. Loading fails with the missing feature and the kernel's name.
//!
//! A kernel that tests the processor data and has two versions of its code is refused where the processor lacks the
//! features of the better one. The compiler does not write such kernels: it knows its target. A host that has them
//! loads with [`DISABLE_VERIFICATION`](crate::hal::ExecutableCachingMode::DISABLE_VERIFICATION).

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::instruction::{FEATURES, Flow, Instruction, decode, feature_name};
use crate::hal::cpu_features::CPU_FEATURES;
use crate::hal::host_kernels::cpu;
use crate::status::{Result, Status, StatusCode};

/// The address and the name of a function.
pub(super) type EntryPoint<'a> = (u64, &'a str);

/// Checks that the processor has the features of all code that can be reached from `entry_points`. Code that was found
/// good is known by a digest, since a program that is loaded again, such as by each replay of a capture, would be
/// decoded again.
pub(super) fn check(code: &[(u64, &[u8])], entry_points: &[EntryPoint<'_>]) -> Result<()> {
    static HOST: LazyLock<Processor> = LazyLock::new(|| Processor::new(host_has));
    static KNOWN: LazyLock<KnownCode> = LazyLock::new(KnownCode::default);
    let digest = KNOWN.digest(code, entry_points);
    if KNOWN.contains(digest) {
        return Ok(());
    }
    CodeScan::new(code, &HOST).run(entry_points)?;
    KNOWN.add(digest);
    Ok(())
}

/// Digests of code that are remembered.
const KNOWN_CODE: usize = 256;

/// Code that this processor can run, by digests. Their key is random in each process, so code cannot be chosen for its
/// digest.
#[derive(Default)]
struct KnownCode {
    key: RandomState,
    digests: Mutex<VecDeque<u64>>,
}

impl KnownCode {
    /// The digest of code, and of where its functions begin, wherever it is loaded.
    fn digest(&self, code: &[(u64, &[u8])], entry_points: &[EntryPoint<'_>]) -> u64 {
        let base = code.first().map_or(0, |(address, _)| *address);
        let mut hasher = self.key.build_hasher();
        code.len().hash(&mut hasher);
        for (address, bytes) in code {
            (address.wrapping_sub(base), bytes).hash(&mut hasher);
        }
        entry_points.iter().for_each(|(address, _)| address.wrapping_sub(base).hash(&mut hasher));
        hasher.finish()
    }

    fn contains(&self, digest: u64) -> bool {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner).contains(&digest)
    }

    fn add(&self, digest: u64) {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if digests.len() >= KNOWN_CODE {
            digests.pop_front();
        }
        digests.push_back(digest);
    }
}

/// The features that code needs, by their names in `cpu_features.yaml` where that has them, and whether this processor
/// has each. All code is decoded linearly, also what no kernel reaches.
pub(super) fn features(code: &[(u64, &[u8])]) -> BTreeMap<String, bool> {
    let mut features = BTreeMap::new();
    for (_, bytes) in code {
        let mut offset = 0;
        while offset < bytes.len() {
            // There may be data between functions.
            let Some(instruction) = decode(&bytes[offset..]) else {
                offset += 1;
                continue;
            };
            offset += instruction.length;
            for feature in instruction.features {
                let name = feature_name(*feature);
                if !features.contains_key(name) {
                    features.insert(name.to_string(), host_has(name));
                }
            }
        }
    }
    features
}

/// Whether this processor has a feature of `cpu_features.yaml`.
fn host_has(name: &str) -> bool {
    cpu::feature(name).unwrap_or_else(|| {
        let feature = CPU_FEATURES.iter().find(|feature| feature.name == name);
        feature.is_some_and(cpu::is_present)
    })
}

/// The features of a processor, queried when code first needs one: `cpuid` is expensive on virtual machines.
struct Processor {
    has: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// The result of the query for each feature, by its number.
    known: [AtomicU8; FEATURES],
}

impl Processor {
    const UNKNOWN: u8 = 0;
    const PRESENT: u8 = 1;
    const MISSING: u8 = 2;

    /// A processor with the features for which `has` is true, and those that all have.
    fn new(has: impl Fn(&str) -> bool + Send + Sync + 'static) -> Processor {
        Processor { has: Box::new(has), known: [const { AtomicU8::new(Self::UNKNOWN) }; FEATURES] }
    }

    fn has(&self, feature: u8) -> bool {
        let known = &self.known[usize::from(feature)];
        match known.load(Ordering::Relaxed) {
            Self::UNKNOWN => {
                let has = (self.has)(feature_name(feature));
                known.store(if has { Self::PRESENT } else { Self::MISSING }, Ordering::Relaxed);
                has
            }
            known => known == Self::PRESENT,
        }
    }

    fn check(&self, instruction: &Instruction) -> Result<(), UnmetRequirement> {
        match instruction.features.iter().find(|feature| !self.has(**feature)) {
            None => Ok(()),
            Some(feature) => Err(UnmetRequirement::Lacks(*feature)),
        }
    }
}

/// A scan of the code of a library.
struct CodeScan<'a> {
    processor: &'a Processor,
    ranges: Vec<CodeRange<'a>>,
    /// Addresses that were found but not followed yet.
    pending: Vec<u64>,
    /// True after a jump whose target is computed.
    computed_jump: bool,
}

/// A contiguous range of code.
struct CodeRange<'a> {
    address: u64,
    bytes: &'a [u8],
    /// A bit for each byte: whether an instruction that starts there was checked.
    visited: Vec<u64>,
}

impl CodeRange<'_> {
    fn offset(&self, address: u64) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        (offset < self.bytes.len()).then_some(offset)
    }

    /// Marks an offset; true if it was marked already.
    fn visit(&mut self, offset: usize) -> bool {
        let (word, bit) = (offset / 64, 1 << (offset % 64));
        let before = self.visited[word] & bit != 0;
        self.visited[word] |= bit;
        before
    }
}

impl<'a> CodeScan<'a> {
    fn new(code: &[(u64, &'a [u8])], processor: &'a Processor) -> CodeScan<'a> {
        let range = |(address, bytes): &(u64, &'a [u8])| CodeRange {
            address: *address,
            bytes,
            visited: vec![0; bytes.len().div_ceil(64)],
        };
        CodeScan { processor, ranges: code.iter().map(range).collect(), pending: Vec::new(), computed_jump: false }
    }

    fn run(mut self, entry_points: &[EntryPoint<'_>]) -> Result<()> {
        for (address, name) in entry_points {
            self.pending.push(*address);
            while let Some(address) = self.pending.pop() {
                self.follow(address).map_err(|unmet| unmet.status(name))?;
            }
        }
        if self.computed_jump { self.sweep(entry_points) } else { Ok(()) }
    }

    /// Checks instructions from `address` on, up to one that does not continue or was checked already.
    fn follow(&mut self, address: u64) -> Result<(), UnmetRequirement> {
        // Code outside of the ranges belongs to another library, whose loader checks it.
        let Some(range) = self.ranges.iter_mut().find(|range| range.offset(address).is_some()) else { return Ok(()) };
        let mut offset = range.offset(address).unwrap_or(0);
        while offset < range.bytes.len() && !range.visit(offset) {
            let Some(instruction) = decode(&range.bytes[offset..]) else {
                return Err(UnmetRequirement::Unknown { address: range.address + offset as u64 });
            };
            self.processor.check(&instruction)?;
            offset += instruction.length;
            let end = range.address.wrapping_add(offset as u64);
            match instruction.flow {
                Flow::Next => {}
                Flow::Branch(distance) => self.pending.push(end.wrapping_add_signed(distance.into())),
                Flow::Jump(distance) => {
                    self.pending.push(end.wrapping_add_signed(distance.into()));
                    break;
                }
                Flow::IndirectJump { ip_relative } => {
                    // A jump through a slot of the linkage table goes to another library.
                    self.computed_jump |= !ip_relative;
                    break;
                }
                Flow::End => break,
            }
        }
        Ok(())
    }

    /// Checks all code linearly.
    fn sweep(&mut self, entry_points: &[EntryPoint<'_>]) -> Result<()> {
        for range in &mut self.ranges {
            let mut offset = 0;
            while offset < range.bytes.len() {
                // There may be data between functions, which does not run. Code may begin after any byte of it.
                let Some(instruction) = decode(&range.bytes[offset..]) else {
                    offset += 1;
                    continue;
                };
                let address = range.address.wrapping_add(offset as u64);
                let visited = range.visit(offset);
                offset += instruction.length;
                if visited {
                    continue;
                }
                let before = |(start, _): &&EntryPoint<'_>| *start <= address;
                let entry = entry_points.iter().filter(before).max_by_key(|(start, _)| *start);
                let name = entry.map_or("a function", |(_, name)| name);
                self.processor.check(&instruction).map_err(|unmet| unmet.status(name))?;
            }
        }
        Ok(())
    }
}

/// An instruction that the processor cannot run.
enum UnmetRequirement {
    /// It needs this feature.
    Lacks(u8),
    Unknown {
        address: u64,
    },
}

impl UnmetRequirement {
    fn status(self, function: &str) -> Status {
        let message = match self {
            UnmetRequirement::Lacks(feature) => {
                let name = feature_name(feature);
                format!("kernel `{function}` was compiled for processors with {name}, which this one does not have")
            }
            UnmetRequirement::Unknown { address } => {
                format!("kernel `{function}` has an instruction at {address:#x} that is not known")
            }
        };
        Status::new(StatusCode::Incompatible, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x1000;

    /// Checks code with two functions for a processor with some features.
    fn check(code: &[u8], features: &[&str]) -> Result<()> {
        let processor = Processor::new({
            let features = features.iter().map(|name| name.to_string()).collect::<Vec<_>>();
            move |name| features.iter().any(|feature| feature == name)
        });
        CodeScan::new(&[(BASE, code)], &processor).run(&[(BASE, "first"), (BASE + 0x20, "second")])
    }

    /// Two functions, the second of which starts at 0x20.
    fn functions(first: &[u8], second: &[u8]) -> Vec<u8> {
        let mut code = vec![0xCC; 0x40];
        code[..first.len()].copy_from_slice(first);
        code[0x20..0x20 + second.len()].copy_from_slice(second);
        code
    }

    const RET: u8 = 0xC3;
    /// `vaddps zmm0, zmm0, zmm0`
    const AVX512: [u8; 6] = [0x62, 0xF1, 0x7C, 0x48, 0x58, 0xC0];
    /// `vaddps ymm0, ymm0, ymm0`
    const AVX: [u8; 4] = [0xC5, 0xFC, 0x58, 0xC0];

    fn then_return(code: &[u8]) -> Vec<u8> {
        [code, &[RET]].concat()
    }

    #[test]
    fn the_first_missing_feature_is_named_with_its_kernel() {
        let code = functions(&then_return(&AVX), &then_return(&AVX512));
        check(&code, &["avx", "avx512f"]).unwrap();
        let error = check(&code, &["avx"]).unwrap_err();
        let message = "kernel `second` was compiled for processors with avx512f, which this one does not have";
        assert_eq!((error.code(), error.message()), (StatusCode::Incompatible, message));
        assert!(
            check(&code, &["avx512f"])
                .unwrap_err()
                .message()
                .starts_with("kernel `first` was compiled for processors with avx,")
        );
        // A feature that the spec does not list is always missing: `fadd [rax]` of 3DNow.
        let old = functions(&[0x0F, 0x0F, 0x00, 0x9E, RET], &[RET]);
        assert!(check(&old, &["avx"]).unwrap_err().message().contains("with d3now,"));
        // `popcnt eax, eax`, `lzcnt eax, eax`, `vpdpbusd ymm0, ymm0, ymm0` as of AVX-VNNI.
        for (code, feature) in [
            (&[0xF3, 0x0F, 0xB8, 0xC0][..], "popcnt"),
            (&[0xF3, 0x0F, 0xBD, 0xC0], "lzcnt"),
            (&[0xC4, 0xE2, 0x7D, 0x50, 0xC0], "avx-vnni"),
        ] {
            let code = functions(&then_return(code), &[RET]);
            check(&code, &[feature]).unwrap();
            assert!(check(&code, &[]).unwrap_err().message().contains(feature));
        }
    }

    #[test]
    fn code_is_known_by_all_that_matters_and_wherever_it_is() {
        let known = KnownCode::default();
        let code = functions(&then_return(&AVX), &[RET]);
        let digest = |base: u64, code: &[u8], second: u64| {
            known.digest(&[(base, code)], &[(base, "first"), (base + second, "second")])
        };
        let first = digest(BASE, &code, 0x20);
        assert!(!known.contains(first));
        known.add(first);
        assert!(known.contains(digest(0x7F00_0000, &code, 0x20)), "elsewhere");
        assert!(!known.contains(digest(BASE, &code, 0x10)), "other functions");
        for at in 0..code.len() {
            let mut other = code.clone();
            other[at] ^= 1;
            assert!(!known.contains(digest(BASE, &other, 0x20)), "other code at {at}");
        }
        (0..KNOWN_CODE as u64).for_each(|number| known.add(number));
        assert!(!known.contains(first), "it is the oldest");
    }

    #[test]
    fn only_reachable_code_counts() {
        // Code after a return.
        check(&functions(&[&[RET], &AVX512[..]].concat(), &[RET]), &[]).unwrap();
        // Both ways of a branch: `je +1; ret`, then the instruction.
        let branch = functions(&[&[0x74, 0x01, RET], &AVX512[..], &[RET]].concat(), &[RET]);
        assert!(check(&branch, &[]).is_err());
        // A jump over it: `jmp +6`.
        check(&functions(&[&[0xEB, 0x06], &AVX512[..], &[RET]].concat(), &[RET]), &[]).unwrap();
        // A call of code after it: `call +1; ret`.
        let call = functions(&[&[0xE8, 0x01, 0, 0, 0, RET], &AVX512[..], &[RET]].concat(), &[RET]);
        assert!(check(&call, &[]).unwrap_err().message().contains("`first`"));
        // A call out of the library, an endless loop, and an end without a return.
        check(&functions(&[0xE8, 0, 0, 0, 0x10, 0xEB, 0xFE], &[RET]), &[]).unwrap();
        check(&[0x90; 0x30], &[]).unwrap();
    }

    #[test]
    fn computed_jumps_may_go_anywhere() {
        // `jmp rax`, and further instructions; the second function has data before its instruction.
        let code = functions(&[0xFF, 0xE0], &[&[RET, 0x06], &AVX512[..]].concat());
        check(&code, &["avx512f"]).unwrap();
        assert!(check(&code, &[]).unwrap_err().message().contains("`second`"));
        // `jmp [rip]` leaves the library.
        check(&functions(&[0xFF, 0x25, 0, 0, 0, 0], &[&[RET], &AVX512[..]].concat()), &[]).unwrap();
    }

    #[test]
    fn unknown_instructions_are_refused_where_they_are_reached() {
        let error = check(&functions(&[0x90, 0x06, RET], &[RET]), &["avx"]).unwrap_err();
        assert_eq!(error.message(), "kernel `first` has an instruction at 0x1001 that is not known");
    }

    #[test]
    fn features_of_the_list_are_those_of_instructions() {
        let names: Vec<&str> = (0..FEATURES as u8).map(feature_name).collect();
        for feature in CPU_FEATURES {
            assert!(names.contains(&feature.name), "{}", feature.name);
        }
    }
}
