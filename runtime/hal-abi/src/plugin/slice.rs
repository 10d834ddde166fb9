//! Borrowed slices at the boundary between libraries, with checks of null and length.

use crate::status::{Result, Status};

/// A borrowed slice. Text is UTF-8 without a terminating zero.
#[repr(C)]
#[derive(Debug)]
pub struct RawSlice<T> {
    /// The first value; may be null if there is none.
    pub data: *const T,
    /// Number of values.
    pub length: usize,
}

impl<T> Clone for RawSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RawSlice<T> {}

impl<T> RawSlice<T> {
    /// Points to `slice`.
    pub fn of(slice: &[T]) -> RawSlice<T> {
        RawSlice { data: slice.as_ptr(), length: slice.len() }
    }

    /// The values.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the list is null and not empty, or larger than memory.
    ///
    /// # Safety
    /// `data` points to `length` values that stay as they are for `'a`, or is null.
    pub unsafe fn get<'a>(self) -> Result<&'a [T]> {
        check_length::<T>(self.data, self.length)?;
        if self.length == 0 {
            return Ok(&[]);
        }
        // SAFETY: the caller guarantees that `data` points to `length` values that stay as they are, and the length is
        // one that slices may have.
        Ok(unsafe { std::slice::from_raw_parts(self.data, self.length) })
    }
}

impl RawSlice<u8> {
    /// The text.
    ///
    /// # Errors
    /// As [`RawSlice::get`], and `INVALID_ARGUMENT` if it is no UTF-8.
    ///
    /// # Safety
    /// As for [`RawSlice::get`].
    pub unsafe fn text<'a>(self) -> Result<&'a str> {
        // SAFETY: the caller guarantees that the slice points to bytes that stay as they are.
        let bytes = unsafe { self.get() }?;
        std::str::from_utf8(bytes).map_err(|error| Status::invalid_argument(format!("a text is not UTF-8: {error}")))
    }
}

fn check_length<T>(data: *const T, length: usize) -> Result<()> {
    let bytes = length.checked_mul(size_of::<T>().max(1)).filter(|bytes| isize::try_from(*bytes).is_ok());
    match bytes {
        None => Err(Status::invalid_argument(format!("a list of {length} elements does not fit memory"))),
        Some(_) if data.is_null() && length > 0 => {
            Err(Status::invalid_argument(format!("a list of {length} elements is null")))
        }
        Some(_) => Ok(()),
    }
}
