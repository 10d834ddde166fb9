//! Reads `#[vm_module(...)]` and the `impl` block behind it.

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream};
use syn::{Ident, ImplItem, ImplItemFn, ItemImpl, LitInt, LitStr, Token};

use crate::signature::{self, Signature};

/// What the attribute of a module says.
pub enum Kind {
    /// `spec = "hal"`: the module of that spec.
    Spec {
        /// The module's name.
        name: LitStr,
        /// Exports that are absent on purpose.
        unimplemented: Vec<LitStr>,
    },
    /// `name = "custom", version = 1`: a module that no spec lists.
    Own {
        /// The module's name.
        name: LitStr,
        /// Its version.
        version: u32,
    },
}

impl Parse for Kind {
    fn parse(input: ParseStream<'_>) -> syn::Result<Kind> {
        let (mut spec, mut name, mut version, mut unimplemented) = (None, None, None, Vec::new());
        while !input.is_empty() {
            let key: Ident = input.parse()?;
            match key.to_string().as_str() {
                "spec" => spec = Some(value::<LitStr>(input)?),
                "name" => name = Some(value::<LitStr>(input)?),
                "version" => version = Some(value::<LitInt>(input)?),
                "unimplemented" => {
                    let list;
                    syn::parenthesized!(list in input);
                    unimplemented.extend(list.parse_terminated(<LitStr as Parse>::parse, Token![,])?);
                }
                _ => return Err(syn::Error::new(key.span(), "expected spec, name, version or unimplemented(...)")),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        match (spec, name) {
            (Some(name), None) if version.is_none() => Ok(Kind::Spec { name, unimplemented }),
            (None, Some(name)) if unimplemented.is_empty() => {
                let version = version.map_or(Ok(0), |version| version.base10_parse())?;
                Ok(Kind::Own { name, version })
            }
            _ => Err(syn::Error::new(
                Span::call_site(),
                "expected #[vm_module(spec = \"...\", unimplemented(...))] or #[vm_module(name = \"...\", version = 1)]",
            )),
        }
    }
}

fn value<T: Parse>(input: ParseStream<'_>) -> syn::Result<T> {
    input.parse::<Token![=]>()?;
    input.parse()
}

/// A method with `#[vm_export]`.
pub struct Export {
    /// The name in the attribute.
    pub name: LitStr,
    /// The method.
    pub method: Ident,
    /// Its types.
    pub signature: Signature,
}

/// The `impl` block.
pub struct Module {
    /// The block without our attributes.
    pub item: ItemImpl,
    /// The exports in order.
    pub exports: Vec<Export>,
    /// The method that makes the state, with the type of the state.
    pub state: Option<(Ident, syn::Type)>,
}

impl Module {
    /// Reads the block, or all errors in it.
    pub fn parse(item: TokenStream) -> syn::Result<Module> {
        let mut item: ItemImpl = syn::parse2(item)?;
        if let Some((_, path, _)) = &item.trait_ {
            return Err(syn::Error::new_spanned(path, "#[vm_module] stands on an inherent impl block"));
        }
        let (mut exports, mut state, mut errors) = (Vec::new(), None, Errors::default());
        for member in &mut item.items {
            let ImplItem::Fn(function) = member else { continue };
            if take_attribute(function, "vm_state").is_some() {
                let ty = errors.take(signature::result_of(&function.sig));
                state = ty.map(|ty| (function.sig.ident.clone(), ty.clone()));
            }
            let Some(attribute) = take_attribute(function, "vm_export") else { continue };
            let name = errors.take(attribute.parse_args::<LitStr>());
            let signature = errors.take(Signature::of(&function.sig));
            if let (Some(name), Some(signature)) = (name, signature) {
                exports.push(Export { name, method: function.sig.ident.clone(), signature });
            }
        }
        for (index, export) in exports.iter().enumerate() {
            if exports[..index].iter().any(|other| other.name.value() == export.name.value()) {
                errors.add(syn::Error::new(export.name.span(), format!("two exports `{}`", export.name.value())));
            }
        }
        errors.into_result(Module { item, exports, state })
    }
}

fn take_attribute(function: &mut ImplItemFn, name: &str) -> Option<syn::Attribute> {
    let is_it = |attribute: &syn::Attribute| attribute.path().segments.last().is_some_and(|last| last.ident == name);
    let index = function.attrs.iter().position(is_it)?;
    Some(function.attrs.remove(index))
}

/// Collects errors, so that all of them are reported at once.
#[derive(Default)]
pub struct Errors(Option<syn::Error>);

impl Errors {
    /// Records one error.
    pub fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            none => *none = Some(error),
        }
    }

    /// The value, or none after recording the error.
    pub fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// The value if there was no error.
    pub fn into_result<T>(self, value: T) -> syn::Result<T> {
        self.0.map_or(Ok(value), Err)
    }
}
