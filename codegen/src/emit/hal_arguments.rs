//! Emits the conversion of numbers of the HAL from arguments of programs and to their results, for those that an export
//! names in `as`. Shims of native modules call it.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::quote;

use crate::emit::constants::int_type;
use crate::emit::file::{GeneratedFile, source};
use crate::emit::hal_types::type_ident;
use crate::load::Spec;
use crate::model::abi::{Arg, Field, Meaning};
use crate::model::hal::Form;
use crate::model::int::Int;

/// `hal/arguments.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    if spec.hal.files.is_empty() {
        return Vec::new();
    }
    let exports = || spec.abi.modules.values().flat_map(|module| &module.exports);
    let arguments = exports().flat_map(|export| &export.args).filter_map(|arg| match arg {
        Arg::One(field) => number(field),
        Arg::Span { .. } => None,
    });
    let arguments: BTreeSet<&str> = arguments.collect();
    let results: BTreeSet<&str> = exports().flat_map(|export| &export.results).filter_map(number).collect();
    let int = |name: &str| spec.hal.integers().find(|(known, _)| *known == name).map(|(_, int)| int);
    let arguments = arguments.iter().filter_map(|name| Some(from_number(spec, name, int(name)?)));
    let results = results.iter().filter_map(|name| Some(into_number(spec, name, int(name)?)));
    let tokens = quote! {
        use super::types::*;
        #(#arguments)*
        #(#results)*
    };
    vec![source("hal/arguments.rs", "spec/abi/modules", tokens)]
}

fn number(field: &Field) -> Option<&str> {
    match &field.meaning {
        Some(Meaning::Number(name)) => Some(name),
        _ => None,
    }
}

/// The type of the value that carries a number, and the one without a sign.
fn carrier(int: Int) -> (TokenStream, TokenStream) {
    if int.size() == 8 { (quote!(i64), quote!(u64)) } else { (quote!(i32), quote!(u32)) }
}

/// True if every number is valid: such a type is a tuple of one public number.
fn is_open(spec: &Spec, name: &str) -> bool {
    spec.hal.numbers(name).is_none_or(|numbers| numbers.form == Form::Code)
}

fn from_number(spec: &Spec, name: &str, int: Int) -> TokenStream {
    let (ty, number, (carrier, unsigned)) = (type_ident(name), int_type(int), carrier(int));
    let narrow = if int.size() < 4 {
        let message = format!("there is no {} {{number:#x}}", name.replace('_', " "));
        quote! {
            let number = #number::try_from(number as #unsigned)
                .map_err(|_| Status::invalid_argument(format!(#message)))?;
        }
    } else {
        quote!(let number = number as #number;)
    };
    let value = if is_open(spec, name) { quote!(Ok(Self(number))) } else { quote!(Self::from_number(number)) };
    quote! {
        impl FromNumber<#carrier> for #ty {
            #[inline]
            fn from_argument(number: #carrier) -> Result<Self> {
                #narrow
                #value
            }
        }
    }
}

fn into_number(spec: &Spec, name: &str, int: Int) -> TokenStream {
    let (ty, (carrier, _)) = (type_ident(name), carrier(int));
    let enumeration = spec.hal.numbers(name).is_some_and(|numbers| numbers.form == Form::Enum);
    let number = if enumeration { quote!(self) } else { quote!(self.0) };
    quote! {
        impl IntoNumber<#carrier> for #ty {
            #[inline]
            fn into_result(self) -> #carrier {
                #number as #carrier
            }
        }
    }
}
