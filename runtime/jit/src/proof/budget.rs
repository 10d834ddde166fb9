//! The steps that a proof may take.

/// The steps that are left. A proof that runs out of them has failed.
#[derive(Debug)]
pub(super) struct Budget(pub usize);

impl Budget {
    pub fn spend(&mut self, steps: usize) -> Option<()> {
        self.0 = self.0.checked_sub(steps)?;
        Some(())
    }
}
