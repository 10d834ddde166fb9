//! The parser of `#[vm_module(...)]` and of its `impl` block. Called by the macro in `lib`.

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream};
use syn::{Ident, ImplItem, ImplItemFn, ItemImpl, LitInt, LitStr, Token};

use crate::signature::{self, Signature};

/// The kind of module that its attribute names.
pub enum Kind {
    /// `spec = "hal"`: the module of that spec.
    Spec {
        /// The module's name.
        name: LitStr,
        /// Exports that are absent on purpose.
        unimplemented: Vec<LitStr>,
        /// Which exports the block has, and where the others are.
        part: Part,
    },
    /// `name = "custom", version = 1`: a module that no spec lists.
    Own {
        /// The module's name.
        name: LitStr,
        /// Its version.
        version: u32,
    },
}

/// How the exports of a module are spread over `impl` blocks. What comes before the first dot of an export's name is
/// its group.
pub enum Part {
    /// `parts("buffer", "fence")`: the block that implements the module, without these groups, which other blocks have.
    /// Mostly none.
    Main(Vec<LitStr>),
    /// `part("buffer"), state = State`: a block with these groups only, whose methods may take such a state.
    Groups(Vec<LitStr>, Option<Box<syn::Type>>),
}

impl Part {
    /// True if the exports of a group belong to the block.
    pub fn has(&self, group: &str) -> bool {
        match self {
            Part::Main(elsewhere) => !elsewhere.iter().any(|other| other.value() == group),
            Part::Groups(groups, _) => groups.iter().any(|own| own.value() == group),
        }
    }

    /// The groups that are written in the attribute.
    pub fn named(&self) -> &[LitStr] {
        match self {
            Part::Main(groups) | Part::Groups(groups, _) => groups,
        }
    }
}

impl Parse for Kind {
    fn parse(input: ParseStream<'_>) -> syn::Result<Kind> {
        let (mut spec, mut name, mut version, mut state) = (None, None, None, None);
        let (mut unimplemented, mut parts, mut part) = (Vec::new(), Vec::new(), Vec::new());
        while !input.is_empty() {
            let key: Ident = input.parse()?;
            match key.to_string().as_str() {
                "spec" => spec = Some(value::<LitStr>(input)?),
                "name" => name = Some(value::<LitStr>(input)?),
                "version" => version = Some(value::<LitInt>(input)?),
                "state" => state = Some(Box::new(value::<syn::Type>(input)?)),
                "unimplemented" => unimplemented.extend(list(input)?),
                "parts" => parts.extend(list(input)?),
                "part" => part.extend(list(input)?),
                _ => {
                    let message = "expected spec, name, version, state, part(...), parts(...) or unimplemented(...)";
                    return Err(syn::Error::new(key.span(), message));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        match (spec, name) {
            (Some(name), None) if version.is_none() => match (parts.is_empty(), part.is_empty()) {
                (_, true) if state.is_none() => Ok(Kind::Spec { name, unimplemented, part: Part::Main(parts) }),
                (true, false) => Ok(Kind::Spec { name, unimplemented, part: Part::Groups(part, state) }),
                _ => Err(syn::Error::new(
                    Span::call_site(),
                    "parts(...) belongs to the block that implements the module, part(...) and state to the others",
                )),
            },
            (None, Some(name))
                if unimplemented.is_empty() && parts.is_empty() && part.is_empty() && state.is_none() =>
            {
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

fn list(input: ParseStream<'_>) -> syn::Result<impl IntoIterator<Item = LitStr>> {
    let list;
    syn::parenthesized!(list in input);
    list.parse_terminated(<LitStr as Parse>::parse, Token![,])
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
