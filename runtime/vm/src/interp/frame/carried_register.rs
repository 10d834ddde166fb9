//! [`CarriedRegister`]: the VM register whose value each handler passes to the next in a register of the processor.
//! `threaded/entry_carries.rs` chooses it.

use smallvec::SmallVec;

use super::registers::Registers;
use crate::bytecode::{Reg, Remap};

/// At most so many registers are tracked that hold one value after the copies of a branch.
const MAX_ALIASES: usize = 8;
/// A register, or a pair of them, whose value is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedRegister {
    /// The register, of a pair the first.
    pub reg: Reg,
    /// Whether it is a pair.
    pub wide: bool,
}

/// A value of 32 bits.
pub fn narrow(reg: Reg) -> CarriedRegister {
    CarriedRegister { reg, wide: false }
}

/// A value of 64 bits.
pub fn wide(reg: Reg) -> CarriedRegister {
    CarriedRegister { reg, wide: true }
}

impl CarriedRegister {
    /// The value of the register.
    #[inline(always)]
    pub fn value(self, registers: Registers) -> u64 {
        if self.wide { registers.wide(self.reg) } else { u64::from(registers.word(self.reg.index())) }
    }

    /// True if the carry of this register also holds the operand `read`.
    pub fn provides(self, read: CarriedRegister) -> bool {
        self.reg == read.reg && (self.wide || !read.wide)
    }

    /// The registers that hold the carried value after the copies of a branch.
    pub fn after_copies(self, copies: &[Remap]) -> SmallVec<[CarriedRegister; 2]> {
        let (mut low, mut high) = (SmallVec::<[u16; MAX_ALIASES]>::new(), SmallVec::<[u16; MAX_ALIASES]>::new());
        low.push(self.reg.0);
        high.extend(self.wide.then_some(self.reg.0 + 1));
        for copy in copies.iter().filter(|copy| !copy.source.is_ref()) {
            let (source, target) = (copy.source.reg().0, copy.target.reg().0);
            for half in [&mut low, &mut high] {
                let copied = half.contains(&source);
                half.retain(|slot| *slot != target);
                if copied && half.len() < MAX_ALIASES {
                    half.push(target);
                }
            }
        }
        low.iter().map(|slot| CarriedRegister { reg: Reg(*slot), wide: high.contains(&(slot + 1)) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::AnyReg;

    fn copies(pairs: &[(u16, u16)]) -> Vec<Remap> {
        let any = AnyReg::from_bits;
        pairs.iter().map(|(source, target)| Remap { source: any(*source), target: any(*target) }).collect()
    }

    #[test]
    fn copies_rename_what_is_carried() {
        let after = |carry: CarriedRegister, pairs| carry.after_copies(&copies(pairs)).to_vec();
        assert_eq!(after(narrow(Reg(3)), &[(3, 1)]), [narrow(Reg(3)), narrow(Reg(1))]);
        assert_eq!(after(narrow(Reg(3)), &[(3, 1), (0, 3)]), [narrow(Reg(1))]);
        assert_eq!(after(narrow(Reg(3)), &[(0, 3)]), []);
        assert_eq!(after(wide(Reg(4)), &[(4, 6), (5, 7)]), [wide(Reg(4)), wide(Reg(6))]);
        // The halves go different ways, or one of them is lost.
        assert_eq!(after(wide(Reg(4)), &[(4, 6), (5, 8)]), [wide(Reg(4)), narrow(Reg(6))]);
        assert_eq!(after(wide(Reg(4)), &[(0, 5)]), [narrow(Reg(4))]);
        // In order: the second copy reads what the first wrote.
        assert_eq!(after(wide(Reg(4)), &[(4, 5), (5, 6)]), [narrow(Reg(4)), narrow(Reg(5)), narrow(Reg(6))]);
    }

    #[test]
    fn a_pair_serves_its_lower_half() {
        assert!(wide(Reg(4)).provides(narrow(Reg(4))));
        assert!(!narrow(Reg(4)).provides(wide(Reg(4))));
        assert!(!wide(Reg(4)).provides(narrow(Reg(5))));
    }
}
