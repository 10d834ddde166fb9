//! Name resolution in layouts: the declaration of the type that a name refers to, and the size of its values. Called by
//! `layouts` and `words`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::hal_types::type_ident;
use crate::model::api::{Api, Plain};
use crate::model::hal::{LayoutField, LayoutType};

/// The scope in which names of layouts are resolved.
#[derive(Clone, Copy)]
pub(crate) enum Scope<'a> {
    /// The layouts of the file itself.
    File,
    /// Everything in a folder of `spec/api/`; the file is called like this.
    Api(&'a Api, &'a str),
}

impl<'a> Scope<'a> {
    /// The Rust path of the type `name`.
    pub(crate) fn path(self, name: &str) -> TokenStream {
        let ident = type_ident(name);
        match self {
            Scope::Api(api, stem) => match api.stem_of(name) {
                Some(other) if other != stem => {
                    let module = format_ident!("{other}");
                    quote!(super::#module::#ident)
                }
                _ => quote!(#ident),
            },
            Scope::File => quote!(#ident),
        }
    }

    /// The plain type `name`, if there is one.
    pub(crate) fn plain(self, name: &str) -> Option<Plain<'a>> {
        match self {
            Scope::File => None,
            Scope::Api(api, _) => api.plain(name),
        }
    }

    /// True for layouts of files, which may pad their fields.
    pub(crate) fn is_format(self) -> bool {
        matches!(self, Scope::Api(api, _) if api.is_format)
    }

    /// The calling conventions of functions, each with the `cfg` of the targets that it is for. Kernels for x86-64
    /// follow the System V convention on every system; on other machines, as in all libraries, it is that of the
    /// platform's C compiler.
    pub(crate) fn conventions(self) -> &'static [(Option<&'static str>, &'static str)] {
        match self {
            Scope::File => {
                &[(Some(r#"target_arch = "x86_64""#), "sysv64"), (Some(r#"not(target_arch = "x86_64")"#), "C")]
            }
            Scope::Api(..) => &[(None, "C")],
        }
    }
}

/// Bytes that a plain type takes.
pub(super) fn size_of(ty: &LayoutType, scope: Scope<'_>) -> u64 {
    match ty {
        LayoutType::Int(int) => int.size(),
        LayoutType::Layout(name) => match scope.plain(name) {
            Some(Plain::Layout(layout)) => layout.size,
            Some(number) => number.int().map_or(0, |int| int.size()),
            None => 0,
        },
        _ => 8,
    }
}

/// The Rust type of a field or argument.
pub(crate) fn ty(ty: &LayoutType, scope: Scope<'_>) -> TokenStream {
    match ty {
        LayoutType::Int(int) => {
            let name = format_ident!("{}", int.name());
            quote!(#name)
        }
        LayoutType::Pointer { to, mutable } => {
            let to = self::ty(to, scope);
            if *mutable { quote!(*mut #to) } else { quote!(*const #to) }
        }
        LayoutType::Void => quote!(std::ffi::c_void),
        LayoutType::Function(name) => {
            let name = scope.path(name);
            quote!(Option<#name>)
        }
        LayoutType::Layout(name) => scope.path(name),
    }
}

/// True for bytes between the fields of a layout of files.
pub(super) fn is_padding(field: &LayoutField, scope: Scope<'_>) -> bool {
    scope.is_format() && field.name.starts_with("padding")
}
