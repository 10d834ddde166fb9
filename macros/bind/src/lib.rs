//! `bind!("model.vmfb")`: a type with a method for each function that a compiled model exports, whose arguments and
//! results have the types of the model's source. What does not fit is an error of the Rust compiler. `vireo::bind`
//! documents what it makes.
//!
//! It stands on `vireo-module`, which reads the file, and knows the crate `vireo` by the paths that it writes.

mod expand;
mod functions;
mod types;

use std::path::{Path, PathBuf};

use proc_macro::TokenStream;
use syn::LitStr;
use vireo_module::vmfb::Archive;

/// Makes the items for a model file, whose path is relative to the `Cargo.toml` of the crate.
#[proc_macro]
pub fn bind(input: TokenStream) -> TokenStream {
    let path = syn::parse_macro_input!(input as LitStr);
    items(&path).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn items(literal: &LitStr) -> syn::Result<proc_macro2::TokenStream> {
    let error = |text: String| syn::Error::new(literal.span(), text);
    let root = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let path = root.join(Path::new(&literal.value()));
    let archive = Archive::read(&path).map_err(|status| error(format!("cannot read the model: {status}")))?;
    let functions = functions::of(&archive).map_err(error)?;
    let text = path.to_str().ok_or_else(|| error(format!("{}: expected a path that is text", path.display())))?;
    Ok(expand::items(text, &functions))
}
