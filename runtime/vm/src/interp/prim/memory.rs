//! Memory primitives: elements of buffers, and value globals.
//!
//! An index counts elements, not bytes, and is read as unsigned. An element lies inside a buffer if
//! `index < length / size`, which cannot wrap; elements need not be aligned, since a buffer may be a part of another
//! one. All multi-byte values are little-endian.

use super::Trap;
use crate::limits::{scope, work};
use crate::{Buffer, Ref};

/// Fills of at least so many bytes check the limits first.
const BULK_BYTES: usize = 64 << 10;

/// The buffer in a ref register.
///
/// # Errors
/// [`Trap::NullBuffer`] for null, [`Trap::NotABuffer`] for another object.
#[inline]
pub fn expect_buffer(reference: Option<&Ref>) -> Result<&Buffer, Trap> {
    match reference {
        None => Err(Trap::NullBuffer),
        Some(reference) => reference.get().ok_or(Trap::NotABuffer(reference.type_name())),
    }
}

/// Checks that `count` elements of `SIZE` bytes from `index` on lie inside `buffer`, and returns the address of the
/// first.
#[inline]
fn elements<const SIZE: usize>(buffer: &Buffer, index: i64, count: i64) -> Result<*mut u8, Trap> {
    let (index, count) = (index as u64, count as u64);
    let available = (buffer.len() / SIZE) as u64;
    match index.checked_add(count) {
        // SAFETY: `index <= available`, so the offset is at most the buffer's length and cannot overflow.
        Some(end) if end <= available => Ok(unsafe { buffer.as_ptr().add(index as usize * SIZE) }),
        _ => Err(Trap::Elements { index, count, size: SIZE as u32, length: buffer.len() as u64 }),
    }
}

#[inline]
fn writable<const SIZE: usize>(buffer: &Buffer, index: i64, count: i64) -> Result<*mut u8, Trap> {
    if buffer.is_mutable() { elements::<SIZE>(buffer, index, count) } else { Err(Trap::ReadOnly) }
}

#[inline]
fn load<const SIZE: usize>(buffer: &Buffer, index: i64) -> Result<[u8; SIZE], Trap> {
    let address = elements::<SIZE>(buffer, index, 1)?;
    // SAFETY: `elements` proved that `SIZE` bytes at `address` are inside the buffer, which `&Buffer` keeps alive.
    Ok(unsafe { address.cast::<[u8; SIZE]>().read() })
}

#[inline]
fn store<const SIZE: usize>(buffer: &Buffer, index: i64, bytes: [u8; SIZE]) -> Result<(), Trap> {
    let address = writable::<SIZE>(buffer, index, 1)?;
    // SAFETY: `writable` proved that `SIZE` bytes at `address` are inside the buffer and may be written.
    unsafe { address.cast::<[u8; SIZE]>().write(bytes) };
    Ok(())
}

#[inline]
fn fill<const SIZE: usize>(buffer: &Buffer, index: i64, count: i64, bytes: [u8; SIZE]) -> Result<(), Trap> {
    let address = writable::<SIZE>(buffer, index, count)?.cast::<[u8; SIZE]>();
    // A large fill takes as long as many ops, and a loop checks the limits only once in about a thousand steps.
    if count as usize * SIZE >= BULK_BYTES && is_over_limits() {
        return Err(Trap::Limits);
    }
    // SAFETY: `writable` proved that `count` elements at `address` are inside the buffer and may be written.
    if unsafe { repeat(address, count as usize, bytes) } { Ok(()) } else { Err(Trap::Limits) }
}

/// Writes an element `count` times; false if a limit of the call stops it. Out of line: in a function as large as the
/// dispatch loop the compiler does not make it a vector loop.
///
/// # Safety
/// So many elements from `address` on must be memory to which there is no reference.
#[inline(never)]
unsafe fn repeat<const SIZE: usize>(address: *mut [u8; SIZE], count: usize, bytes: [u8; SIZE]) -> bool {
    let filled = work::in_parts(count * SIZE, |part| {
        // Parts are whole elements: all of them but the last have a power of two of bytes.
        for element in part.start / SIZE..part.end / SIZE {
            // SAFETY: the caller guarantees that there is memory for the elements, to which there is no reference.
            unsafe { address.add(element).write(bytes) };
        }
    });
    filled.is_ok()
}

/// True if the call has used up its time or memory. Out of line: the status is dropped here, and handlers may hold
/// nothing that is dropped.
#[inline(never)]
fn is_over_limits() -> bool {
    scope::check().is_err()
}

macro_rules! elements {
    ($($load:ident: $element:ident => $value:ident,)*; $($store:ident $fill:ident: $from:ident => $to:ident,)*) => {
        $(
            ///
            /// # Errors
            /// [`Trap::Elements`] if the element is not inside.
            #[doc = concat!("Loads the `", stringify!($element), "` at element `index`.")]
            #[inline]
            pub fn $load(buffer: &Buffer, index: i64) -> Result<$value, Trap> {
                Ok($element::from_le_bytes(load(buffer, index)?) as $value)
            }
        )*
        $(
            ///
            /// # Errors
            /// [`Trap::Elements`] if the element is not inside, [`Trap::ReadOnly`] for a buffer that is read-only.
            #[doc = concat!("Stores the low bits of `value` as the `", stringify!($to), "` at element `index`.")]
            #[inline]
            pub fn $store(buffer: &Buffer, index: i64, value: $from) -> Result<(), Trap> {
                store(buffer, index, (value as $to).to_le_bytes())
            }

            ///
            /// # Errors
            /// [`Trap::Elements`] if the elements are not all inside, [`Trap::ReadOnly`] for a buffer that is
            /// read-only, [`Trap::Limits`] for a long fill of a call that is over its limits.
            #[doc = concat!("Fills `count` elements of type `", stringify!($to), "` from element `index` on.")]
            #[inline]
            pub fn $fill(buffer: &Buffer, index: i64, count: i64, value: $from) -> Result<(), Trap> {
                fill(buffer, index, count, (value as $to).to_le_bytes())
            }
        )*
    };
}

elements! {
    load_i8u: u8 => i32,
    load_i8s: i8 => i32,
    load_i16u: u16 => i32,
    load_i16s: i16 => i32,
    load_i32: i32 => i32,
    load_i64: i64 => i64,
    load_f32: f32 => f32,
    load_f64: f64 => f64,
    ;
    store_i8 fill_i8: i32 => u8,
    store_i16 fill_i16: i32 => u16,
    store_i32 fill_i32: i32 => i32,
    store_i64 fill_i64: i64 => i64,
    store_f32 fill_f32: f32 => f32,
    store_f64 fill_f64: f64 => f64,
}

/// Length of a buffer in bytes.
///
/// # Errors
/// None: the type of the result is that of the other accesses.
#[inline]
pub fn buffer_len(buffer: &Buffer) -> Result<i64, Trap> {
    Ok(buffer.len() as i64)
}

#[inline]
fn global<const SIZE: usize>(globals: &[u8], offset: u32) -> Result<[u8; SIZE], Trap> {
    let bytes = globals.get(offset as usize..).and_then(<[u8]>::first_chunk);
    bytes.copied().ok_or(Trap::Globals { offset, size: SIZE as u32, length: globals.len() as u64 })
}

#[inline]
fn set_global<const SIZE: usize>(globals: &mut [u8], offset: u32, value: [u8; SIZE]) -> Result<(), Trap> {
    let trap = Trap::Globals { offset, size: SIZE as u32, length: globals.len() as u64 };
    *globals.get_mut(offset as usize..).and_then(<[u8]>::first_chunk_mut).ok_or(trap)? = value;
    Ok(())
}

macro_rules! globals {
    ($($load:ident $store:ident $indirect_load:ident $indirect_store:ident: $value:ident,)*) => {$(
        #[doc = concat!("Reads the `", stringify!($value), "` at a byte offset that the verifier proved to be inside.")]
        #[inline]
        pub fn $load(globals: &[u8], offset: u32) -> $value {
            $value::from_le_bytes(proven(global(globals, offset)))
        }

        #[doc = concat!("Writes the `", stringify!($value), "` at a byte offset that the verifier proved to be inside.")]
        #[inline]
        pub fn $store(globals: &mut [u8], offset: u32, value: $value) {
            proven(set_global(globals, offset, value.to_le_bytes()));
        }

        #[doc = concat!("Reads the `", stringify!($value), "` at a computed byte offset, unsigned.")]
        ///
        /// # Errors
        /// [`Trap::Globals`] if it is not inside the globals.
        #[inline]
        pub fn $indirect_load(globals: &[u8], offset: i32) -> Result<$value, Trap> {
            Ok($value::from_le_bytes(global(globals, offset as u32)?))
        }

        #[doc = concat!("Writes the `", stringify!($value), "` at a computed byte offset, unsigned.")]
        ///
        /// # Errors
        /// [`Trap::Globals`] if it is not inside the globals.
        #[inline]
        pub fn $indirect_store(globals: &mut [u8], offset: i32, value: $value) -> Result<(), Trap> {
            set_global(globals, offset as u32, value.to_le_bytes())
        }
    )*};
}

globals! {
    global_load_i32 global_store_i32 global_load_i32_indirect global_store_i32_indirect: i32,
    global_load_i64 global_store_i64 global_load_i64_indirect global_store_i64_indirect: i64,
    global_load_f32 global_store_f32 global_load_f32_indirect global_store_f32_indirect: f32,
    global_load_f64 global_store_f64 global_load_f64_indirect global_store_f64_indirect: f64,
}

/// The value of an access that the verifier has proven to be in range; anything else is a bug of the verifier.
#[inline]
fn proven<T>(access: Result<T, Trap>) -> T {
    access.unwrap_or_else(|trap| panic!("the verifier let an access out of range pass: {trap:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Obj;

    fn buffer(bytes: &[u8]) -> Buffer {
        Buffer::copy_of(bytes).unwrap()
    }

    fn range(index: i64, count: u64, size: u32, length: u64) -> Trap {
        Trap::Elements { index: index as u64, count, size, length }
    }

    #[test]
    fn indices_count_elements() {
        let bytes = buffer(&[1, 0x80, 3, 4, 5, 6, 7, 0xFF, 9]);
        assert_eq!(load_i8u(&bytes, 1), Ok(0x80));
        assert_eq!(load_i8s(&bytes, 1), Ok(-128));
        assert_eq!(load_i16u(&bytes, 3), Ok(0xFF07));
        assert_eq!(load_i16s(&bytes, 3), Ok(-249));
        assert_eq!(load_i32(&bytes, 1), Ok(0xFF07_0605_u32 as i32));
        assert_eq!(load_i64(&bytes, 0), Ok(0xFF07_0605_0403_8001_u64 as i64));
        assert_eq!(load_f32(&bytes, 0).map(f32::to_bits), Ok(0x0403_8001));
        assert_eq!(buffer_len(&bytes), Ok(9));
        // The last, partial element does not exist.
        assert_eq!(load_i16u(&bytes, 4), Err(range(4, 1, 2, 9)));
        assert_eq!(load_i8u(&bytes, 9), Err(range(9, 1, 1, 9)));
    }

    #[test]
    fn range_checks_do_not_wrap() {
        let bytes = buffer(&[0; 64]);
        for index in [8, -1, 0x1FFF_FFFF_FFFF_FFFF, i64::MAX, i64::MIN, 0x2000_0000_0000_0000] {
            assert_eq!(load_i64(&bytes, index), Err(range(index, 1, 8, 64)));
            assert_eq!(store_i64(&bytes, index, 0), Err(range(index, 1, 8, 64)));
        }
        assert_eq!(fill_i8(&bytes, 2, -1, 0), Err(range(2, u64::MAX, 1, 64)));
        assert_eq!(fill_i64(&bytes, 1, 0x1FFF_FFFF_FFFF_FFFF, 0), Err(range(1, 0x1FFF_FFFF_FFFF_FFFF, 8, 64)));
    }

    #[test]
    fn stores_write_only_their_bytes() {
        let bytes = buffer(&[0xAA; 8]);
        store_i8(&bytes, 1, 0x1FF).unwrap();
        store_i16(&bytes, 1, 0x1_1234).unwrap();
        assert_eq!(bytes.to_vec(), [0xAA, 0xFF, 0x34, 0x12, 0xAA, 0xAA, 0xAA, 0xAA]);
        store_f32(&bytes, 1, 1.0).unwrap();
        assert_eq!(bytes.to_vec()[4..], [0, 0, 0x80, 0x3F]);
        store_f64(&bytes, 0, -0.0).unwrap();
        assert_eq!(bytes.to_vec(), [0, 0, 0, 0, 0, 0, 0, 0x80]);
    }

    #[test]
    fn fills_of_nothing_still_check_their_start() {
        let bytes = buffer(&[0; 6]);
        fill_i16(&bytes, 1, 2, 0x0102).unwrap();
        assert_eq!(bytes.to_vec(), [0, 0, 2, 1, 2, 1]);
        assert_eq!(fill_i16(&bytes, 3, 0, 0), Ok(()));
        assert_eq!(fill_i16(&bytes, 4, 0, 0), Err(range(4, 0, 2, 6)));
        assert_eq!(fill_i32(&bytes, 0, 2, 0), Err(range(0, 2, 4, 6)));
    }

    #[test]
    fn read_only_is_reported_before_the_range() {
        let owner = std::sync::Arc::new(*b"abcd");
        let data = std::ptr::NonNull::from(&*owner).cast();
        // SAFETY: `owner` holds the four bytes, and the buffer is read-only.
        let bytes = unsafe { Buffer::from_shared(owner, data, 4, false) };
        assert_eq!(load_i8u(&bytes, 0), Ok(i32::from(b'a')));
        assert_eq!(store_i8(&bytes, 99, 0), Err(Trap::ReadOnly));
        assert_eq!(fill_i8(&bytes, 0, 0, 0), Err(Trap::ReadOnly));
    }

    #[test]
    fn buffers_are_expected_by_type() {
        struct Other;
        impl crate::Object for Other {
            const TYPE_NAME: &'static str = "test.other";
        }
        assert_eq!(expect_buffer(None).err(), Some(Trap::NullBuffer));
        let other = Obj::new(Other).into_ref();
        assert_eq!(expect_buffer(Some(&other)).err(), Some(Trap::NotABuffer("test.other")));
    }

    #[test]
    fn globals_are_checked_with_the_width() {
        let mut globals = [0u8; 12];
        global_store_i64(&mut globals, 4, -2);
        assert_eq!(global_load_i64(&globals, 4), -2);
        assert_eq!(global_load_i32_indirect(&globals, 8), Ok(-1));
        global_store_f32_indirect(&mut globals, 1, 1.0).unwrap();
        assert_eq!(global_load_f32(&globals, 1), 1.0);
        for offset in [9, 12, -4, -1, i32::MIN] {
            let trap = Trap::Globals { offset: offset as u32, size: 4, length: 12 };
            assert_eq!(global_load_i32_indirect(&globals, offset), Err(trap));
            assert_eq!(global_store_i32_indirect(&mut globals, offset, 0), Err(trap));
        }
        assert!(global_load_f64_indirect(&globals, 5).is_err());
    }
}
