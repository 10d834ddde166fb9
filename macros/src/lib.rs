//! `#[vm_module]` and `#[vm_export]`: modules in Rust that programs import from.
//!
//! A module is an `impl` block. The macro implements `vireo::vm::NativeModule` for its type; the methods stay as they
//! are. The crate has no facts of its own: it looks modules up in the model of `vireo-codegen`, from the texts of
//! `vireo-spec`. `vireo-modules` and `vireo-vmvx` use it for the built-in modules, and hosts for theirs, through the
//! crate `vireo`.
//!
//! # A module that a spec lists
//!
//! ```ignore
//! #[vm_module(spec = "hal", unimplemented("channel.create", "channel.split"))]
//! impl HalModule {
//!     #[vm_state]
//!     fn create(&self) -> Result<HalState> { ... }
//!
//!     #[vm_export("allocator.allocate")]
//!     fn allocator_allocate(
//!         &self,
//!         state: &mut HalState,
//!         allocator: Obj<Allocator>,
//!         queue_affinity: QueueAffinity,
//!         memory_types: MemoryType,
//!         buffer_usage: BufferUsage,
//!         allocation_size: i64,
//!     ) -> Result<Obj<Buffer>> { ... }
//! }
//! ```
//!
//! Each method is compared with `spec/abi/modules/hal.yaml` at compile time. A missing export, a name that the spec
//! does not have, and an argument or result of another type are errors at the place that is wrong, with the signature
//! that was expected. Exports that are deliberately absent are listed in `unimplemented(...)`; a call of one fails with
//! `UNIMPLEMENTED` and its name.
//!
//! A large module may be spread over several blocks. What comes before the first dot of an export's name is its group:
//! the block that implements the module names the groups that others have, and each of those says which it has and what
//! state its methods take.
//!
//! ```ignore
//! #[vm_module(spec = "hal", parts("buffer", "fence"))]
//! impl HalModule { ... }
//!
//! mod memory {
//!     #[vm_module(spec = "hal", part("buffer"), state = HalState)]
//!     impl HalModule { ... }
//! }
//! ```
//!
//! # A module of your own
//!
//! ```ignore
//! #[vm_module(name = "custom", version = 1)]
//! impl Custom {
//!     #[vm_export("scale")]
//!     fn scale(&self, value: f32, factors: &[f32]) -> Result<f32> { ... }   // 0fCfD_f
//! }
//! ```
//!
//! The calling convention of each export is derived from the method. `version` is 0 if it is not written.
//!
//! # Types
//!
//! | Rust | convention | |
//! |---|---|---|
//! | `i32`, `u32`, `bool` | `i` | the same bits; `bool` is true for anything but zero |
//! | `i64`, `u64` | `I` | the same bits |
//! | `f32`, `f64` | `f`, `F` | |
//! | `Ref`, `Obj<T>` | `r` | null and objects of another type are refused before the method is called |
//! | `&Ref`, `&Obj<T>` | `r` | the same, for as long as the call lasts: the caller's own reference, which is not counted |
//! | `Option<Ref>`, `Option<&Obj<T>>` and so on | `r` | null is `None`; spec'd arguments are optional exactly where the spec says so |
//! | `&str`, `Option<&str>` | `r` | the text in a `vm.buffer`; what is not UTF-8 is refused before the method is called |
//! | `CopyFlags` and so on | `i`, `I`, `r` | what the spec says that an argument or result is read `as`; numbers that have no such meaning are refused before the method is called |
//! | `Span<X>`, `Vec<X>`, `&[X]` | `C x D` | span; arguments only. `Span` and `&[u64]` read the call in place, the others allocate |
//! | `Span<(X, Y)>`, `Vec<(X, Y)>`, `&[(X, Y)]` | `C x y D` | span of tuples; arguments only |
//!
//! A method takes `&self`, then, if it wants it, the state of the context as `&mut S`, then its arguments. It returns
//! `Result<R>` where `R` is `()`, one type of the table or a tuple of them; or `Result<Step<R>>` if it may have to
//! wait. After `Step::Wait` the method is called again with the same arguments once the wait is over.
//!
//! `#[vm_state]` marks the method that makes the state of a context: `fn(&self) -> Result<S>`, with
//! `S: Send + 'static`. Without it the state is `()`.
#![forbid(unsafe_code)]

mod check;
mod expand;
mod parse;
mod signature;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Implements `NativeModule` for the type of an `impl` block; see the crate's documentation.
#[proc_macro_attribute]
pub fn vm_module(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::vm_module(attribute.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Marks a method of a `#[vm_module]` as the export with the given name.
#[proc_macro_attribute]
pub fn vm_export(_attribute: TokenStream, item: TokenStream) -> TokenStream {
    misplaced("vm_export", item)
}

/// Marks the method of a `#[vm_module]` that makes the state of a context.
#[proc_macro_attribute]
pub fn vm_state(_attribute: TokenStream, item: TokenStream) -> TokenStream {
    misplaced("vm_state", item)
}

/// `vm_module` removes these attributes, so one that is expanded stands outside of such a block.
fn misplaced(name: &str, item: TokenStream) -> TokenStream {
    let message = format!("#[{name}] marks methods of an impl block with #[vm_module]");
    let mut tokens: TokenStream = syn::Error::new(proc_macro2::Span::call_site(), message).into_compile_error().into();
    tokens.extend(item);
    tokens
}
