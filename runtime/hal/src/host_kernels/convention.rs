//! The calling convention of kernels and of functions that they share an interface with:
//! [`kernel_functions!`](crate::kernel_functions). Types of such functions are generated from `spec/hal`, with the same
//! two cases.

/// Defines functions that follow the calling convention of kernels, as the function types of
/// [`executable_library`](crate::executable_library) and [`executable_plugin`](crate::executable_plugin) do: the System
/// V convention on x86-64, whatever the system, and elsewhere that of the platform's C compiler. Each is written as an
/// `unsafe fn`.
#[macro_export]
macro_rules! kernel_functions {
    ($($(#[$attribute:meta])* $visibility:vis unsafe fn $name:ident($($arguments:tt)*) $(-> $result:ty)? $body:block)*) => {$(
        #[cfg(target_arch = "x86_64")]
        $(#[$attribute])*
        $visibility unsafe extern "sysv64" fn $name($($arguments)*) $(-> $result)? $body

        #[cfg(not(target_arch = "x86_64"))]
        $(#[$attribute])*
        $visibility unsafe extern "C" fn $name($($arguments)*) $(-> $result)? $body
    )*};
}
