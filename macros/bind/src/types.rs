//! The Rust types of arguments and results.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use vireo_module::convention::Kind;
use vireo_module::declaration::DeclaredType;

/// The type of an argument or a result.
pub enum Type {
    /// A number that is passed as it is.
    Number(Kind),
    /// A tensor whose elements Rust has a type for.
    Tensor { element: TokenStream, shape: Vec<Option<u64>> },
    /// A tensor of other elements.
    OtherTensor,
    /// A reference to an object.
    Reference,
}

/// The Rust type of elements that the source writes as `text`.
fn element(text: &str) -> Option<TokenStream> {
    if matches!(text, "f32" | "f64") {
        let name = format_ident!("{text}");
        return Some(quote!(#name));
    }
    // Integers without a sign of their own are signed in Rust.
    let unsigned = text.strip_prefix('u').and_then(|rest| rest.strip_prefix('i'));
    let signed = text.strip_prefix('s').unwrap_or(text).strip_prefix('i');
    match (unsigned, signed) {
        (None, Some("1")) => Some(quote!(bool)),
        (Some(bits @ ("8" | "16" | "32" | "64")), _) => {
            let name = format_ident!("u{bits}");
            Some(quote!(#name))
        }
        (None, Some(bits @ ("8" | "16" | "32" | "64"))) => {
            let name = format_ident!("i{bits}");
            Some(quote!(#name))
        }
        _ => None,
    }
}

impl Type {
    /// The type of a value that is declared so and passed as `kind`.
    pub fn of(declared: &DeclaredType, kind: Kind) -> Type {
        match (declared, kind) {
            (DeclaredType::Tensor { shape, element: text }, Kind::Ref) => match element(text) {
                Some(element) => Type::Tensor { element, shape: shape.clone() },
                None => Type::OtherTensor,
            },
            (_, Kind::Ref) => Type::Reference,
            (_, kind) => Type::Number(kind),
        }
    }

    /// The type that a function returns for it.
    pub fn result(&self) -> TokenStream {
        match self {
            Type::Number(kind) => number(*kind),
            Type::Tensor { element, shape } if shape.is_empty() => scalar(element),
            Type::Tensor { element, .. } => quote!(::vireo::inference::Elements<#element>),
            Type::OtherTensor => quote!(::vireo::inference::Tensor),
            Type::Reference => quote!(::vireo::inference::Output),
        }
    }

    /// The types of parameters that a function has for it, with the expression that makes an input of `value`.
    pub fn arguments(&self) -> Vec<(TokenStream, TokenStream)> {
        let plain = quote!(::vireo::Input::from(value));
        let tensors = || {
            vec![
                (quote!(::vireo::inference::Tensor), plain.clone()),
                (quote!(&::vireo::inference::Tensor), plain.clone()),
                (quote!(::vireo::inference::HostTensor<'a>), plain.clone()),
            ]
        };
        match self {
            Type::Number(kind) => vec![(number(*kind), plain)],
            Type::Reference => vec![(quote!(::vireo::vm::Ref), plain), (quote!(::vireo::Input<'a>), quote!(value))],
            Type::OtherTensor => tensors(),
            Type::Tensor { element, shape } => {
                let mut types = tensors();
                match &shape[..] {
                    [] => types.push((quote!(#element), plain.clone())),
                    [None] => {
                        types.push((quote!(&'a [#element]), plain.clone()));
                        types.push((quote!(&'a ::std::vec::Vec<#element>), plain.clone()));
                    }
                    _ => {}
                }
                if let Some(sizes) = shape
                    .iter()
                    .map(|size| size.and_then(|size| usize::try_from(size).ok()))
                    .collect::<Option<Vec<usize>>>()
                    && let Some((last, outer)) = sizes.split_last()
                {
                    // Arrays of arrays have a shape that the Rust compiler checks.
                    let mut array = quote!([#element; #last]);
                    for size in outer.iter().rev() {
                        array = quote!([#array; #size]);
                    }
                    let mut flat = quote!(&value[..]);
                    for _ in outer {
                        flat = quote!((#flat).as_flattened());
                    }
                    types.push((quote!(&'a #array), quote!(::vireo::Input::from(([#(#sizes),*], #flat)))));
                }
                types.extend(arrays(element, shape.len()));
                types
            }
        }
    }
}

/// Arrays and views of the crate `ndarray`.
fn arrays(element: &TokenStream, rank: usize) -> Vec<(TokenStream, TokenStream)> {
    if !cfg!(feature = "ndarray") {
        return Vec::new();
    }
    // It has a type for each rank up to six.
    let dimension = if rank <= 6 { format_ident!("Ix{rank}") } else { format_ident!("IxDyn") };
    let plain = quote!(::vireo::Input::from(value));
    vec![
        (quote!(&'a ::vireo::ndarray::Array<#element, ::vireo::ndarray::#dimension>), plain.clone()),
        (quote!(&'a ::vireo::ndarray::ArrayView<'_, #element, ::vireo::ndarray::#dimension>), plain),
    ]
}

/// A number, or the element of a tensor of rank zero. Those that results are not read as directly are lists of one.
fn scalar(element: &TokenStream) -> TokenStream {
    match element.to_string().as_str() {
        "i32" | "i64" | "f32" | "f64" => element.clone(),
        _ => quote!(::vireo::inference::Elements<#element>),
    }
}

/// The text for a value of which only the kind is known.
pub fn kind_text(kind: Kind) -> String {
    match kind {
        Kind::Ref => "reference".to_string(),
        kind => number(kind).to_string(),
    }
}

fn number(kind: Kind) -> TokenStream {
    match kind {
        Kind::I32 => quote!(i32),
        Kind::I64 => quote!(i64),
        Kind::F32 => quote!(f32),
        Kind::F64 => quote!(f64),
        Kind::Ref => quote!(::vireo::vm::Ref),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_types_of_rust() {
        let of = |text: &str| element(text).map(|tokens| tokens.to_string()).unwrap_or_default();
        let names = ["i1", "i8", "i64", "f32", "f16", "i4"];
        assert_eq!(names.map(of), ["bool", "i8", "i64", "f32", "", ""]);
        // With a sign of their own.
        assert_eq!([of(&format!("u{}", "i8")), of(&format!("s{}", "i32"))], ["u8", "i32"]);
    }
}
