//! The answers of `cpuid` about the features that `cpu` looks up, each leaf asked for once. A virtual machine leaves to
//! its host for each `cpuid`, which takes several microseconds. The loader of glibc has asked before the process
//! starts, and tells what it was answered.

use crate::cpu_features::{CPU_FEATURES, CPU_STATE_LEAF, CpuFeature, CpuidRegister};

/// The registers of the leaves that features are in.
pub struct Leaves {
    /// Leaf, subleaf, then `eax`, `ebx`, `ecx` and `edx`.
    known: Vec<(u32, u32, [u32; 4])>,
}

impl Leaves {
    /// Asks for the leaves of all features.
    pub fn query() -> Leaves {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        if let Some(leaves) = Leaves::of_loader() {
            return leaves;
        }
        Leaves::of_processor()
    }

    /// The answers that the loader got.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn of_loader() -> Option<Leaves> {
        loader::leaves(&leaves_of_features()).map(|known| Leaves { known })
    }

    /// Whether the processor has a feature, and keeps the registers that it needs.
    pub fn have(&self, feature: &CpuFeature) -> bool {
        let state = self.registers(CPU_STATE_LEAF, 0)[0];
        let registers = self.registers(feature.leaf, feature.subleaf);
        let register = match feature.register {
            CpuidRegister::Eax => registers[0],
            CpuidRegister::Ebx => registers[1],
            CpuidRegister::Ecx => registers[2],
            CpuidRegister::Edx => registers[3],
        };
        register >> feature.cpuid_bit & 1 != 0 && state & feature.state_mask == feature.state_mask
    }

    fn of_processor() -> Leaves {
        use std::arch::x86_64::{__cpuid, __cpuid_count};

        // The first leaf of each range reports the last one; the first subleaf of a leaf with subleaves reports the
        // last of those.
        const EXTENDED: u32 = 0x8000_0000;
        const WITH_SUBLEAVES: u32 = 7;
        let last = [__cpuid(0).eax, __cpuid(EXTENDED).eax];
        let mut wanted = leaves_of_features();
        wanted.push((CPU_STATE_LEAF, 0));
        let mut leaves = Leaves { known: Vec::with_capacity(wanted.len()) };
        for (leaf, subleaf) in wanted {
            let last_subleaf = if leaf == WITH_SUBLEAVES { leaves.registers(leaf, 0)[0] } else { 0 };
            if leaf <= last[usize::from(leaf >= EXTENDED)] && subleaf <= last_subleaf {
                let found = __cpuid_count(leaf, subleaf);
                leaves.known.push((leaf, subleaf, [found.eax, found.ebx, found.ecx, found.edx]));
            }
        }
        leaves
    }

    /// The registers of a leaf; zeros if the processor has no such leaf.
    fn registers(&self, leaf: u32, subleaf: u32) -> [u32; 4] {
        let found = self.known.iter().find(|known| (known.0, known.1) == (leaf, subleaf));
        found.map_or([0; 4], |known| known.2)
    }
}

/// Leaves and subleaves, in order.
fn leaves_of_features() -> Vec<(u32, u32)> {
    let mut leaves: Vec<_> = CPU_FEATURES.iter().map(|feature| (feature.leaf, feature.subleaf)).collect();
    leaves.sort_unstable();
    leaves.dedup();
    leaves
}

/// The loader's answers, as `<sys/platform/x86.h>` of glibc 2.33 and later describes them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod loader {
    use crate::cpu_features::CPU_STATE_LEAF;

    /// The leaves and subleaves that the loader numbers, with their numbers.
    const NUMBERS: [(u32, u32, u32); 4] = [(1, 0, 0), (7, 0, 1), (0x8000_0001, 0, 2), (7, 1, 6)];

    /// `ecx` of leaf 1: the system keeps registers by `xsave`, and programs may ask for which.
    const OSXSAVE: u32 = 1 << 27;

    /// The record of the loader for each number. The answer comes first; behind that is what it uses itself.
    #[repr(C)]
    struct Leaf {
        /// `eax`, `ebx`, `ecx` and `edx`.
        registers: [u32; 4],
    }

    /// These leaves and subleaves with their registers, and the leaf of states; none if the loader is an older one or
    /// does not number one of them.
    pub fn leaves(wanted: &[(u32, u32)]) -> Option<Vec<(u32, u32, [u32; 4])>> {
        // SAFETY: the name is a string of C.
        let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__x86_get_cpuid_feature_leaf".as_ptr()) };
        if symbol.is_null() {
            return None;
        }
        // SAFETY: the symbol is of glibc's interface, and has this type there. It returns a leaf of zeros for numbers
        // that it does not know.
        let leaf =
            unsafe { std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(u32) -> *const Leaf>(symbol) };
        let mut known = Vec::new();
        for &(wanted, subleaf) in wanted {
            let number = NUMBERS.iter().find(|known| (known.0, known.1) == (wanted, subleaf))?.2;
            // SAFETY: the function takes any number, and what it points to is never written after the loader has
            // started the process.
            known.push((wanted, subleaf, unsafe { (*leaf(number)).registers }));
        }
        let has_state = known.iter().any(|known| (known.0, known.1) == (1, 0) && known.2[2] & OSXSAVE != 0);
        // SAFETY: the processor has the instruction.
        let state = if has_state { unsafe { kept_registers() } } else { 0 };
        known.push((CPU_STATE_LEAF, 0, [state, 0, 0, 0]));
        Some(known)
    }

    /// The registers that the system keeps, by the bits of the leaf of states: of those that the processor has, those
    /// that may be used.
    ///
    /// # Safety
    ///
    /// The system has enabled `xgetbv`.
    #[target_feature(enable = "xsave")]
    unsafe fn kept_registers() -> u32 {
        // SAFETY: register 0 exists wherever the instruction does.
        let bits = unsafe { std::arch::x86_64::_xgetbv(0) };
        bits as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn the_loader_was_answered_what_the_processor_answers() {
        let by_loader = Leaves::of_loader().expect("glibc 2.33 or later");
        let by_processor = Leaves::of_processor();
        for feature in CPU_FEATURES {
            assert_eq!(by_loader.have(feature), by_processor.have(feature), "{}", feature.name);
        }
    }

    #[test]
    fn a_leaf_that_the_processor_does_not_have_has_no_features() {
        let none = Leaves { known: Vec::new() };
        assert!(!CPU_FEATURES.iter().any(|feature| none.have(feature)));
        assert!(CPU_FEATURES.iter().any(|feature| Leaves::query().have(feature)));
    }
}
