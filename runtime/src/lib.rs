//! Vireo: a runtime for IREE programs.
//!
//! It loads the `.vmfb` modules that `iree-compile` writes, verifies every byte of them, and runs them: host code on a register
//! virtual machine, device code on HAL devices.
//!
//! ```
//! use vireo::hal::{BufferView, BufferViewRef, create_device};
//! use vireo::modules::hal::HalModule;
//! use vireo::vm::{Context, Module};
//!
//! # fn main() -> vireo::Result<()> {
//! # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).expect("the workspace exists");
//! let device = create_device("local-sync")?;
//! let hal = Module::native(HalModule::new(vec![device.clone()]))?;
//! let model = Module::from_file("fixtures/models/abs.vmfb")?;
//! let context = Context::new([hal, model])?;
//!
//! let input = BufferView::from_slice(&*device, &[], &[-2.0f32])?;
//! let results = context.function("abs")?.call(&[input.into_ref().into()])?;
//! let output = results[0].object::<BufferViewRef>().expect("the function returns a tensor");
//! assert_eq!(output.to_elements::<f32>()?, [2.0]);
//! # Ok(())
//! # }
//! ```
//!
//! A [`vm::Context`] is `Send + Sync` and its functions take `&self`. Errors are a [`Status`] with a code, a message, a cause and the
//! frames of the program that were active.
//!
//! Features: `half` makes `half::f16` and `half::bf16` elements of tensors, `ndarray` adds [`BufferView`](hal::BufferView)`::from_array` and
//! `to_array`.

// The macros write `::vireo::...`, inside this crate as well.
extern crate self as vireo;

pub mod abi;
pub mod asm;
mod blocking;
mod budget;
mod builtin;
pub mod bytecode;
mod executable_memory;
mod generated;
pub mod hal;
mod heap_bytes;
pub mod interp;
pub mod io;
#[cfg(jit)]
mod jit;
mod math;
pub mod modules;
pub mod number_text;
pub mod status;
pub mod vm;
pub mod vmfb;
mod vmvx;

/// Modules in Rust that programs import from.
///
/// A module of your own derives its calling conventions from its methods; a module that `spec/abi/modules` lists is checked against
/// it at compile time. The documentation of [`vireo_macros`] has all the rules.
///
/// ```
/// use vireo::vm::{Context, Module, Value};
/// use vireo::{Result, vm_module};
///
/// struct Greeter;
///
/// #[vm_module(name = "greeter", version = 1)]
/// impl Greeter {
///     #[vm_export("twice")]
///     fn twice(&self, value: i32) -> Result<i32> {
///         Ok(value.wrapping_mul(2))
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let context = Context::new([Module::native(Greeter)?])?;
/// let twice = context.function("greeter.twice")?;
/// assert_eq!(twice.convention().to_string(), "0i_i");
/// assert_eq!(twice.call(&[Value::I32(21)])?, [Value::I32(42)]);
/// # Ok(())
/// # }
/// ```
///
/// What the spec does not have is a compile error:
///
/// ```compile_fail
/// struct Hal;
///
/// #[vireo::vm_module(spec = "hal")]
/// impl Hal {
///     #[vm_export("buffer.length")]
///     fn length(&self, buffer: vireo::vm::Ref) -> vireo::Result<i32> {
///         Ok(0)
///     }
/// }
/// ```
pub use vireo_macros::vm_module;
pub use vireo_macros::{vm_export, vm_state};

pub use budget::MemoryBudget;
pub use hal::policy::SecurityPolicy;
pub use status::{Result, Status, StatusCode};
