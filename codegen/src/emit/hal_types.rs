//! Emits the numbers and structs that HAL objects exchange.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::constants::{constant, constant_ident, int_type, literal};
use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::hal::{
    Form, Hal, Handle, Kind, Method, NamedValue, Numbers, Object, Shape, SpecFile, Specials, Struct, type_name,
};

/// `hal/types.rs`: everything but the traits and the binary layouts.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    if spec.hal.files.is_empty() {
        return Vec::new();
    }
    let mut items = quote! { use std::any::Any; use std::sync::Arc; use super::traits::*; };
    for file in spec.hal.files.iter().filter(|file| file.is_interface() && file.cpu_features.is_empty()) {
        items.extend(values(file));
        for structure in &file.structs {
            items.extend(self::structure(&spec.hal, structure));
        }
    }
    vec![source("hal/types.rs", "spec/hal/*.yaml", items)]
}

/// The constants, numbers and handles of a file.
pub(crate) fn values(file: &SpecFile) -> TokenStream {
    let mut items = TokenStream::new();
    items.extend(file.constants.iter().map(constant));
    items.extend(file.numbers.iter().map(numbers));
    items.extend(file.handles.iter().map(handle));
    items
}

/// The Rust name of a type.
pub(crate) fn type_ident(name: &str) -> Ident {
    format_ident!("{}", type_name(name))
}

/// The Rust name of a field, method or argument.
pub(crate) fn value_ident(name: &str) -> Ident {
    match name {
        "type" => format_ident!("r#type"),
        _ => format_ident!("{name}"),
    }
}

fn numbers(numbers: &Numbers) -> TokenStream {
    let body = match numbers.form {
        Form::Enum => enumeration(numbers),
        Form::Bits | Form::OpenBits => bits(numbers),
        Form::Code => code(numbers),
    };
    let origin = comment(&numbers.origin.to_string());
    quote! { #origin #body }
}

fn enumeration(numbers: &Numbers) -> TokenStream {
    let (name, ty, doc, spec_name) = (type_ident(&numbers.name), int_type(numbers.int), &numbers.doc, &numbers.name);
    let variants: Vec<_> = numbers.values.iter().map(|value| type_ident(&value.name)).collect();
    let docs = numbers.values.iter().map(|value| &value.doc);
    let literals: Vec<_> = numbers.values.iter().map(|value| literal(value.value)).collect();
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(#ty)]
        pub enum #name { #(#[doc = #docs] #variants = #literals,)* }

        impl #name {
            /// The value with this number.
            ///
            /// # Errors
            /// INVALID_ARGUMENT if there is none.
            pub fn from_number(number: #ty) -> Result<Self> {
                match number {
                    #(#literals => Ok(Self::#variants),)*
                    _ => Err(Status::invalid_argument(format!(concat!(#spec_name, " {} does not exist"), number))),
                }
            }
        }
    }
}

fn bits(numbers: &Numbers) -> TokenStream {
    let (name, ty, doc, spec_name) = (type_ident(&numbers.name), int_type(numbers.int), &numbers.doc, &numbers.name);
    let constants: Vec<_> = numbers.values.iter().map(|value| constant_ident(&value.name)).collect();
    let docs = numbers.values.iter().map(|value| &value.doc);
    let values = numbers.values.iter().map(|value| literal(value.value));
    let names = numbers.values.iter().map(|value| &value.name);
    let all = match numbers.form {
        Form::OpenBits => quote!(!0),
        _ => literal(numbers.values.iter().fold(0, |all, value| all | value.value)),
    };
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct #name(#ty);

        impl #name {
            #(#[doc = #docs] pub const #constants: Self = Self(#values);)*

            /// The named sets.
            pub const NAMED: &'static [(Self, &'static str)] = &[#((Self::#constants, #names)),*];
        }

        bit_set!(#name, #ty, #all, #spec_name);
    }
}

fn code(numbers: &Numbers) -> TokenStream {
    let (name, ty, doc) = (type_ident(&numbers.name), int_type(numbers.int), &numbers.doc);
    let constants: Vec<_> = numbers.values.iter().map(|value| constant_ident(&value.name)).collect();
    let docs = numbers.values.iter().map(|value| &value.doc);
    let values = numbers.values.iter().map(|value| literal(value.value));
    let text = |value: &NamedValue| value.text.clone().unwrap_or_else(|| value.name.clone());
    let texts = numbers.values.iter().map(text);
    let prefixed =
        numbers.values.iter().filter_map(|value| Some((constant_ident(&value.name), value.prefix.as_ref()?)));
    let prefixed: Vec<_> = prefixed.map(|(name, prefix)| quote!((#prefix, Self::#name))).collect();
    let prefixes = (!prefixed.is_empty()).then(|| {
        quote! {
            /// The prefixes of the names of types of a class.
            pub const PREFIXES: &'static [(&'static str, Self)] = &[#(#prefixed),*];
        }
    });
    let messages =
        numbers.values.iter().filter_map(|value| Some((constant_ident(&value.name), value.message.as_ref()?)));
    let messages: Vec<_> = messages.map(|(name, message)| quote!(Self::#name => #message,)).collect();
    let messages = (!messages.is_empty()).then(|| {
        quote! {
            /// The sentence that stands for the number, if there is one.
            pub const fn message(self) -> Option<&'static str> {
                Some(match self {
                    #(#messages)*
                    _ => return None,
                })
            }
        }
    });
    let floats: Vec<_> = numbers.values.iter().filter_map(narrow_float).collect();
    let floats = (!floats.is_empty()).then(|| {
        quote! {
            /// The format of a float of at most 16 bits that has a sign.
            pub const fn narrow_float(self) -> Option<NarrowFloat> {
                Some(match self {
                    #(#floats)*
                    _ => return None,
                })
            }
        }
    });
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct #name(pub #ty);

        impl #name {
            #(#[doc = #docs] pub const #constants: Self = Self(#values);)*

            /// Every number that has a name, with its name.
            pub const NAMED: &'static [(Self, &'static str)] = &[#((Self::#constants, #texts)),*];

            #prefixes

            #messages

            #floats

            /// The name of the number, if it has one.
            pub fn name(self) -> Option<&'static str> {
                Self::NAMED.iter().find(|(number, _)| *number == self).map(|(_, name)| *name)
            }
        }

        impl std::fmt::Debug for #name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }
    }
}

/// The arm that gives the format of a value, if it is a narrow float.
fn narrow_float(value: &NamedValue) -> Option<TokenStream> {
    let float = value.float?;
    let name = constant_ident(&value.name);
    let (exponent, mantissa) = (Literal::u8_unsuffixed(float.exponent), Literal::u8_unsuffixed(float.mantissa));
    let specials = match float.specials {
        Specials::Ieee => quote!(Specials::Ieee),
        Specials::Fn => quote!(Specials::Fn),
        Specials::Fnuz => quote!(Specials::Fnuz),
    };
    Some(quote!(Self::#name => NarrowFloat::new(#exponent, #mantissa, #specials),))
}

fn handle(handle: &Handle) -> TokenStream {
    let (name, ty, doc) = (type_ident(&handle.name), int_type(handle.int), &handle.doc);
    let origin = comment(&handle.origin.to_string());
    quote! {
        #origin
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct #name(pub #ty);
    }
}

/// The type of one value of `kind` where it is owned.
pub(crate) fn owned(kind: &Kind) -> TokenStream {
    match kind {
        Kind::Bool => quote!(bool),
        Kind::Int(int) => {
            let ty = int_type(*int);
            quote!(#ty)
        }
        Kind::String => quote!(&str),
        Kind::Text => quote!(String),
        Kind::Bytes => quote!(&[u8]),
        Kind::Pointer => quote!(std::ptr::NonNull<u8>),
        Kind::Owner => quote!(Arc<dyn Any + Send + Sync>),
        Kind::Status => quote!(Status),
        Kind::Deadline => quote!(std::time::Instant),
        Kind::Callback => quote!(Box<dyn FnOnce(Result<()>) + Send>),
        Kind::Numbers(name) | Kind::Handle(name) | Kind::Struct(name) => {
            let name = type_ident(name);
            quote!(#name)
        }
        Kind::Object(name) => {
            let name = type_ident(name);
            quote!(Arc<dyn #name>)
        }
        Kind::Layout { module, name } => {
            let (module, name) = (format_ident!("{module}"), type_ident(name));
            quote!(super::#module::#name)
        }
    }
}

fn field_type(shape: &Shape) -> TokenStream {
    in_shape(shape, owned(&shape.kind))
}

/// An array, an option or a list of `ty`, or `ty` itself, as the shape says.
pub(crate) fn in_shape(shape: &Shape, ty: TokenStream) -> TokenStream {
    match shape.count {
        Some(count) => {
            let count = Literal::u32_unsuffixed(count);
            quote!([#ty; #count])
        }
        None if shape.null => quote!(Option<#ty>),
        None if shape.list => quote!(Vec<#ty>),
        None => ty,
    }
}

fn structure(hal: &Hal, structure: &Struct) -> TokenStream {
    let (name, doc) = (type_ident(&structure.name), &structure.doc);
    let names = structure.fields.iter().map(|field| value_ident(&field.name));
    let docs = structure.fields.iter().map(|field| &field.doc);
    let types = structure.fields.iter().map(|field| field_type(&field.shape));
    let copy = is_plain(hal, structure).then(|| quote!(Copy, PartialEq, Eq,));
    let default = has_default(hal, structure).then(|| quote!(Default,));
    let origin = comment(&structure.origin.to_string());
    quote! {
        #origin
        #[doc = #doc]
        #[derive(Clone, Debug, #copy #default)]
        pub struct #name { #(#[doc = #docs] pub #names: #types,)* }
    }
}

/// True if all fields are plain numbers.
pub(crate) fn is_plain(hal: &Hal, structure: &Struct) -> bool {
    structure.fields.iter().all(|field| match &field.shape.kind {
        _ if field.shape.list => false,
        Kind::Bool | Kind::Int(_) | Kind::Numbers(_) | Kind::Handle(_) => true,
        Kind::Struct(name) => hal.structure(name).is_some_and(|inner| is_plain(hal, inner)),
        _ => false,
    })
}

fn has_default(hal: &Hal, structure: &Struct) -> bool {
    let is_enum = |name: &String| {
        let mut numbers = hal.files.iter().flat_map(|file| &file.numbers);
        numbers.any(|numbers| numbers.name == *name && numbers.form == Form::Enum)
    };
    structure.fields.iter().all(|field| match &field.shape.kind {
        _ if field.shape.list => true,
        Kind::Bool | Kind::Int(_) | Kind::Handle(_) | Kind::Text => true,
        Kind::Numbers(name) => !is_enum(name),
        Kind::Struct(name) => hal.structure(name).is_some_and(|inner| has_default(hal, inner)),
        _ => field.shape.null,
    })
}

/// As the type of the argument of the method, but that everything which is no plain number is borrowed.
pub(crate) fn borrowed_argument_type(hal: &Hal, shape: &Shape) -> TokenStream {
    let ty = borrowed_list_item(&shape.kind);
    if shape.list {
        return quote!(&'a [#ty]);
    }
    match &shape.kind {
        Kind::String => quote!(&'a str),
        Kind::Bytes => quote!(&'a [u8]),
        Kind::Struct(name) if hal.structure(name).is_some_and(|structure| is_plain(hal, structure)) => ty,
        Kind::Object(_) if shape.null => quote!(Option<&'a #ty>),
        Kind::Object(_) | Kind::Struct(_) | Kind::Status | Kind::Owner | Kind::Layout { .. } => quote!(&'a #ty),
        _ if shape.null => quote!(Option<#ty>),
        _ => ty,
    }
}

fn borrowed_list_item(kind: &Kind) -> TokenStream {
    match kind {
        Kind::Bytes => quote!(&'a [u8]),
        kind => owned(kind),
    }
}

/// `DeviceQueueFill`
pub(crate) fn method_variant(object: &Object, method: &Method) -> Ident {
    type_ident(&format!("{}_{}", object.name, method.name))
}
