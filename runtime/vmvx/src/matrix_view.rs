//! Views of buffers as matrices ([`MatrixView`]), checked before a microkernel gets their addresses. Exports of the
//! module make them from the arguments of a call.

use crate::vm::Buffer;
use crate::{Result, Status};

/// The elements of a buffer that the arguments of a call describe. All numbers count elements and are the program's, so
/// they may be anything.
#[derive(Clone, Copy)]
pub(super) struct MatrixView<'a> {
    pub name: &'static str,
    pub buffer: &'a Buffer,
    pub offset: u64,
    /// Distances between rows, and between the elements of a row.
    pub strides: [u64; 2],
}

/// A view that is within its buffer, for the sizes that it was checked with.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckedMatrix {
    /// The first element; it need not be aligned.
    pub data: *mut u8,
    pub strides: [usize; 2],
}

impl CheckedMatrix {
    /// Bytes between elements of a row of `WIDTH` bytes each.
    pub fn distance<const WIDTH: usize>(self) -> usize {
        self.strides[1].saturating_mul(WIDTH)
    }
}

impl MatrixView<'_> {
    /// Checks that `sizes` elements of `width` bytes may be read.
    pub fn readable(&self, width: usize, sizes: [u64; 2]) -> Result<CheckedMatrix> {
        let bytes = self.extent(width, sizes).ok_or_else(|| self.outside(width, sizes))?;
        let start = self.offset.checked_mul(width as u64).ok_or_else(|| self.outside(width, sizes))?;
        let data = self.buffer.range(start, bytes).map_err(|_| self.outside(width, sizes))?;
        // Strides that are used are within the buffer; others are only multiplied by zero.
        Ok(CheckedMatrix { data, strides: self.strides.map(|stride| stride as usize) })
    }

    /// Checks that `sizes` elements of `width` bytes may be written. They are at most as many as fit the buffer, which
    /// bounds the work of a call.
    pub fn writable(&self, width: usize, sizes: [u64; 2]) -> Result<CheckedMatrix> {
        if !self.buffer.is_mutable() {
            return Err(Status::permission_denied(format!("`{}` is a read-only buffer", self.name)));
        }
        let available = (self.buffer.len() / width) as u64;
        match sizes[0].checked_mul(sizes[1]) {
            Some(elements) if elements <= available => self.readable(width, sizes),
            _ => Err(self.outside(width, sizes)),
        }
    }

    /// Bytes from the first to the last element; none if they do not fit 64 bits.
    fn extent(&self, width: usize, sizes: [u64; 2]) -> Option<u64> {
        if sizes.contains(&0) {
            return Some(0);
        }
        let rows = (sizes[0] - 1).checked_mul(self.strides[0])?;
        let row = (sizes[1] - 1).checked_mul(self.strides[1])?;
        rows.checked_add(row)?.checked_add(1)?.checked_mul(width as u64)
    }

    #[cold]
    fn outside(&self, width: usize, sizes: [u64; 2]) -> Status {
        let (name, offset, [stride0, stride1], [size0, size1]) = (self.name, self.offset, self.strides, sizes);
        Status::out_of_range(format!(
            "`{name}`: {size0} x {size1} elements of {width} bytes from element {offset} on, {stride0} and {stride1} elements apart, \
             are not inside of the buffer's {} bytes",
            self.buffer.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::StatusCode;

    fn check(offset: u64, strides: [u64; 2], sizes: [u64; 2]) -> Result<()> {
        let buffer = Buffer::allocate(64, 0)?;
        let view = MatrixView { name: "in", buffer: &buffer, offset, strides };
        view.readable(4, sizes).map(drop)
    }

    #[test]
    fn views_end_where_their_buffer_does() {
        assert!(check(0, [4, 1], [4, 4]).is_ok());
        assert!(check(3, [4, 1], [3, 5]).is_ok());
        assert!(check(0, [0, 0], [u64::MAX, u64::MAX]).is_ok());
        assert!(check(15, [u64::MAX, u64::MAX], [1, 1]).is_ok());
        assert!(check(16, [9, 9], [0, 7]).is_ok());
        for (offset, strides, sizes) in [
            (1, [4, 1], [4, 4]),
            (0, [4, 1], [5, 1]),
            (0, [5, 1], [4, 2]),
            (17, [1, 1], [0, 0]),
            (u64::MAX, [1, 1], [1, 1]),
            (0, [u64::MAX, 1], [2, 1]),
            (0, [1, u64::MAX], [1, 3]),
            (0, [1 << 62, 1], [2, 1]),
            (0, [1, 1], [u64::MAX, u64::MAX]),
            (1 << 62, [1, 1], [1, 1]),
            (0, [(1 << 62) - 1, 1], [2, 2]),
        ] {
            let error = check(offset, strides, sizes).expect_err("the view is not inside");
            assert_eq!(error.code(), StatusCode::OutOfRange, "{error}");
        }
    }

    #[test]
    fn writes_are_bounded_by_the_buffer() {
        let buffer = Buffer::allocate(64, 0).expect("allocates");
        let view = MatrixView { name: "out", buffer: &buffer, offset: 0, strides: [0, 0] };
        assert!(view.readable(4, [17, 1]).is_ok() && view.writable(4, [16, 1]).is_ok());
        for sizes in [[17, 1], [1 << 32, 1 << 32], [u64::MAX, 2]] {
            assert_eq!(view.writable(4, sizes).expect_err("is too much").code(), StatusCode::OutOfRange);
        }
    }

    #[test]
    fn read_only_buffers_are_not_written() {
        let owner = std::sync::Arc::new([0u8; 4]);
        let data = std::ptr::NonNull::from(&*owner).cast();
        // SAFETY: `owner` holds the four bytes, and the buffer is read-only.
        let buffer = unsafe { Buffer::from_shared(owner, data, 4, false) };
        let view = MatrixView { name: "out", buffer: &buffer, offset: 0, strides: [1, 1] };
        assert!(view.readable(4, [1, 1]).is_ok());
        assert_eq!(view.writable(4, [1, 1]).expect_err("is read-only").code(), StatusCode::PermissionDenied);
        assert_eq!(view.writable(4, [0, 0]).expect_err("is read-only").code(), StatusCode::PermissionDenied);
    }
}
