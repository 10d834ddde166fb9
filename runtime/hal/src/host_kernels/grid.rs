//! The size of a dispatch ([`Grid`]), and the positions of its workgroups. Recording, executions and kernels use it.

use crate::status::{Result, Status};

/// Size of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Invocations per workgroup.
    pub size: [u32; 3],
    /// Workgroups.
    pub count: [u32; 3],
    /// Bytes of workgroup memory on top of what the kernel declares.
    pub local_memory: u32,
}

impl Grid {
    /// Number of workgroups.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if there are more than 16 bits can count in z, or 64 bits in all.
    pub fn workgroups(&self) -> Result<u64> {
        let [x, y, z] = self.count;
        check_z(z, "workgroup count")?;
        let plane = u64::from(x) * u64::from(y);
        plane.checked_mul(z.into()).ok_or_else(|| {
            Status::out_of_range(format!("workgroup counts of {x}, {y}, {z}: expected a product below 2^64"))
        })
    }

    /// The position of the workgroup with this number, which must be below their count; x varies fastest.
    #[inline]
    pub fn position(&self, workgroup: u64) -> [u32; 3] {
        // Most runs begin with the first one, and two divisions take as long as calling a small kernel.
        if workgroup == 0 {
            return [0; 3];
        }
        let [x, y, _] = self.count.map(u64::from);
        let (row, column) = (workgroup / x, workgroup % x);
        // Each one is below a 32-bit count.
        [column as u32, (row % y) as u32, (row / y) as u32]
    }

    /// The position of the workgroup after the one at this position.
    #[inline]
    pub fn next(&self, [x, y, z]: [u32; 3]) -> [u32; 3] {
        if x + 1 < self.count[0] {
            [x + 1, y, z]
        } else if y + 1 < self.count[1] {
            [0, y + 1, z]
        } else {
            // There may be no next one.
            [0, 0, z.wrapping_add(1)]
        }
    }
}

/// The third dimension of sizes and counts has 16 bits.
///
/// # Errors
/// `OUT_OF_RANGE` if it has more.
pub fn check_z(z: u32, what: &str) -> Result<u16> {
    u16::try_from(z).map_err(|_| Status::out_of_range(format!("{what} of {z} in z: at most {}", u16::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_workgroup_has_the_next_number() {
        for count in [[1, 1, 1], [3, 1, 1], [1, 4, 1], [1, 1, 2], [3, 4, 2]] {
            let grid = Grid { size: [1; 3], count, local_memory: 0 };
            for workgroup in 1..grid.workgroups().unwrap() {
                assert_eq!(
                    grid.next(grid.position(workgroup - 1)),
                    grid.position(workgroup),
                    "{workgroup} of {count:?}"
                );
            }
        }
    }
}
