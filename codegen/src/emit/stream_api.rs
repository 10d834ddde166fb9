//! Emits the interface that a driver for streams calls: a trait with a method for each call, a wrapper that tells an
//! observer of each, and the implementation over the functions of the library.

use std::collections::BTreeSet;

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::hal_types::{type_ident, value_ident};
use crate::emit::layouts;
use crate::emit::scope::Scope;
use crate::load::Spec;
use crate::model::api::{Api, Call, Library, PartnerArgument};
use crate::model::hal::LayoutType;

/// `stream/api.rs`, the trait and the wrapper, and `stream/cuda.rs`, the implementation; for an API whose failures name
/// an interface, the trait is in a file of that name.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let apis = spec.apis.values().filter(|api| !api.calls.is_empty());
    let files = apis.flat_map(|api| {
        let origin = &api.calls[0].origin.file;
        let library = api.libraries.iter().find(|library| library.symbols.iter().any(|symbol| is_of(symbol, api)));
        let implementation =
            library.map(|library| source(&format!("stream/{}.rs", api.name), origin, implementation(api, library)));
        let stem = interface_name(api).unwrap_or("api");
        [Some(source(&format!("stream/{stem}.rs"), origin, interface(api))), implementation]
    });
    files.flatten().collect()
}

fn is_of(symbol: &crate::model::api::Symbol, api: &Api) -> bool {
    api.calls[0].symbol.function.name == symbol.function.name
}

/// The name of the interface, if it is not that of libraries with streams.
fn interface_name(api: &Api) -> Option<&str> {
    api.failures.as_ref().and_then(|failures| failures.interface.as_deref())
}

/// The trait of the interface.
fn trait_name(api: &Api) -> Ident {
    interface_name(api).map_or_else(|| format_ident!("StreamApi"), type_ident)
}

/// The signature of a call.
struct Signature {
    name: Ident,
    args: Vec<(Ident, TokenStream)>,
    /// The types of what it returns.
    results: Vec<TokenStream>,
    /// Whether it may fail.
    fails: bool,
    doc: TokenStream,
}

fn signature(api: &Api, call: &Call) -> Signature {
    let scope = Scope::Api(api, "");
    let (mut args, mut results) = (Vec::new(), Vec::new());
    for (name, ty) in &call.symbol.function.args {
        match ty {
            LayoutType::Pointer { to, .. } if call.returns.contains(name) => results.push(layouts::ty(to, scope)),
            _ => args.push((value_ident(name), layouts::ty(ty, scope))),
        }
    }
    let function = &call.symbol.function;
    let names = match &call.hip {
        Some(other) if *other != function.name => format!(" `{}` in CUDA, `{other}` in HIP.", function.name),
        _ => format!(" `{}`.", function.name),
    };
    let lines = [format!(" {}", function.doc.trim()), String::new(), names];
    let differs = differences(api, call).map(|text| quote!(#[doc = ""] #[doc = #text]));
    let fails = api.returns_status(&call.symbol.function);
    if !fails {
        results = call.symbol.function.result.iter().map(|result| layouts::ty(result, scope)).collect();
    }
    let errors = fails.then(|| {
        quote! {
            ///
            /// # Errors
            /// Those of the function.
        }
    });
    Signature {
        name: format_ident!("{}", call.name),
        args,
        results,
        fails,
        doc: quote! {
            #(#[doc = #lines])*
            #differs
            #errors
            ///
            /// # Safety
            /// Handles are of this library and are alive, and addresses are valid for what the function does, also
            /// after it has returned where a stream does it.
        },
    }
}

/// The differences of the function of the partner, in a line for people.
fn differences(api: &Api, call: &Call) -> Option<String> {
    let partner = api.partner.as_ref().filter(|_| call.hip.is_some())?;
    let mut texts = Vec::new();
    if let Some(arguments) = partner.arguments.get(&call.name) {
        let arguments = arguments.iter().map(|argument| match argument {
            PartnerArgument::Same(name) => name.clone(),
            PartnerArgument::Constant(name, value) => format!("{name} = {value}"),
            PartnerArgument::DeviceOf(name) => format!("the device of {name}"),
        });
        texts.push(format!("its arguments are `({})`", arguments.collect::<Vec<String>>().join(", ")));
    }
    for (_, ty) in &call.symbol.function.args {
        let inner = if let LayoutType::Pointer { to, .. } = ty { to } else { ty };
        let LayoutType::Layout(name) = inner else { continue };
        if partner.numbers.contains_key(name) {
            texts.push(format!("`{}` has other numbers", type_ident(name)));
        }
        if let Some(layout) = partner.layouts.get(name) {
            texts.push(format!("`{}` has {} bytes in another order", type_ident(name), layout.size));
        }
    }
    (!texts.is_empty()).then(|| format!(" In {}, {}.", partner.title, texts.join(", and ")))
}

impl Signature {
    fn result(&self) -> TokenStream {
        let value = match self.results.as_slice() {
            [] => quote!(()),
            [one] => one.clone(),
            several => quote!((#(#several),*)),
        };
        if self.fails { quote!(Result<#value, ApiError>) } else { value }
    }

    fn parameters(&self) -> TokenStream {
        let args = self.args.iter().map(|(name, ty)| quote!(#name: #ty));
        quote!(#(#args),*)
    }

    fn names(&self) -> TokenStream {
        let names = self.args.iter().map(|(name, _)| name);
        quote!(#(#names),*)
    }
}

/// The names of the groups of calls.
fn groups(api: &Api) -> BTreeSet<&str> {
    api.calls.iter().filter_map(|call| call.group.as_deref()).collect()
}

fn interface(api: &Api) -> TokenStream {
    let methods = api.calls.iter().map(|call| {
        let signature = signature(api, call);
        let (name, doc, parameters, result) =
            (&signature.name, &signature.doc, signature.parameters(), signature.result());
        let origin = comment(&call.origin.to_string());
        quote! {
            #origin
            #doc
            unsafe fn #name(&self, #parameters) -> #result;
        }
    });
    let traced = api.calls.iter().map(|call| {
        let signature = signature(api, call);
        let (name, parameters, result) = (&signature.name, signature.parameters(), signature.result());
        let (names, text) = (signature.names(), &call.symbol.function.name);
        let shown: Vec<String> = signature.args.iter().map(|(name, _)| format!("{name}={{{name}:?}}")).collect();
        let shown = shown.join(", ");
        let safety = comment("SAFETY: the caller vouches for handles and addresses.");
        let failure = if signature.fails { quote!(outcome.as_ref().err()) } else { quote!(None) };
        let call = quote! {
            #safety
            unsafe { self.api.#name(#names) }
        };
        let outcome = if signature.fails {
            quote! {
                match self.tracer.refuses(#text) {
                    Some(refused) => Err(refused),
                    None => { #call }
                }
            }
        } else {
            quote!({ #call })
        };
        quote! {
            unsafe fn #name(&self, #parameters) -> #result {
                let started = std::time::Instant::now();
                let outcome = #outcome;
                self.tracer.call(#text, started, format_args!(#shown), #failure);
                outcome
            }
        }
    });
    let groups: Vec<TokenStream> = groups(api)
        .into_iter()
        .map(|name| {
            let (variant, doc) = (type_ident(name), format!(" {}.", name[..1].to_uppercase() + &name[1..]));
            quote!(#[doc = #doc] #variant)
        })
        .collect();
    let has_groups = !groups.is_empty();
    let group_type = has_groups.then(|| {
        quote! {
            /// Calls that a driver works without if one of them is missing.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum CallGroup { #(#groups,)* }
        }
    });
    let has = has_groups.then(|| {
        quote! {
            /// Whether the library has all functions of a group.
            fn has(&self, group: CallGroup) -> bool;
        }
    });
    let traced_has = has_groups.then(|| {
        quote! {
            fn has(&self, group: CallGroup) -> bool {
                self.api.has(group)
            }
        }
    });
    let missing = has_optional(api).then(|| {
        quote! {
            /// The functions that the library lacks.
            fn missing(&self) -> Vec<&'static str>;
        }
    });
    let traced_missing = has_optional(api).then(|| {
        quote! {
            fn missing(&self) -> Vec<&'static str> {
                self.api.missing()
            }
        }
    });
    let name = trait_name(api);
    let doc = match api.libraries.first().filter(|_| interface_name(api).is_some()) {
        Some(library) => format!(" The functions of {}.", library.title),
        None => " The functions of a library with streams.".to_string(),
    };
    quote! {
        #group_type

        #[doc = #doc]
        pub trait #name: Send + Sync + 'static {
            #has
            #missing

            #(#methods)*
        }

        impl<A: #name> #name for Traced<A> {
            #traced_has
            #traced_missing

            #(#traced)*
        }
    }
}

/// Whether a driver works without some of the functions.
fn has_optional(api: &Api) -> bool {
    api.calls.iter().any(|call| !call.required)
}

fn implementation(api: &Api, library: &Library) -> TokenStream {
    let functions = format_ident!("{}Calls", type_ident(&library.name));
    let symbols = format_ident!("{}", library.origin.stem());
    let ty = |call: &Call| format_ident!("{}Fn", type_ident(&call.symbol.function.name));
    let fields = api.calls.iter().map(|call| {
        let (name, ty) = (format_ident!("{}", call.name), ty(call));
        if call.required { quote!(#name: #symbols::#ty) } else { quote!(#name: Option<#symbols::#ty>) }
    });
    let lookups = api.calls.iter().map(|call| {
        let (name, ty, text) = (format_ident!("{}", call.name), ty(call), &call.symbol.function.name);
        let plain = library.suffixes.split(text).0;
        let found = Literal::c_string(&std::ffi::CString::new(plain).unwrap_or_default());
        let version = Literal::u32_unsuffixed(call.symbol.version.unwrap_or_default());
        let safety = comment("SAFETY: `find` returned the function of this name.");
        let missing = call.required.then(|| quote!(if #name.is_none() { missing.push(#text); }));
        quote! {
            let #name = find(#found, #version).map(|address| {
                #safety
                unsafe { std::mem::transmute::<std::ptr::NonNull<std::ffi::c_void>, #symbols::#ty>(address) }
            });
            #missing
        }
    });
    let required: Vec<Ident> =
        api.calls.iter().filter(|call| call.required).map(|call| format_ident!("{}", call.name)).collect();
    let optional: Vec<Ident> =
        api.calls.iter().filter(|call| !call.required).map(|call| format_ident!("{}", call.name)).collect();
    let names = api.calls.iter().filter(|call| !call.required).map(|call| &call.symbol.function.name);
    let missing = has_optional(api).then(|| {
        quote! {
            fn missing(&self) -> Vec<&'static str> {
                let found = [#((self.#optional.is_some(), #names)),*];
                found.into_iter().filter(|(is_there, _)| !is_there).map(|(_, name)| name).collect()
            }
        }
    });
    let groups = groups(api).into_iter().map(|name| {
        let variant = type_ident(name);
        let members = api.calls.iter().filter(|call| call.group.as_deref() == Some(name));
        let members = members.map(|call| format_ident!("{}", call.name));
        quote!(CallGroup::#variant => #(self.#members.is_some())&&*)
    });
    let groups: Vec<TokenStream> = groups.collect();
    let has = (!groups.is_empty()).then(|| {
        quote! {
            fn has(&self, group: CallGroup) -> bool {
                match group { #(#groups,)* }
            }
        }
    });
    let interface = trait_name(api);
    let least = api.calls.iter().filter(|call| call.required).filter_map(|call| call.symbol.version).max();
    let least = least.map(|least| {
        let least = Literal::u32_unsuffixed(least);
        quote! {
            /// The oldest version of the library that has all functions that a driver needs.
            pub const LEAST_VERSION: i32 = #least;
        }
    });
    let methods = api.calls.iter().map(|call| method(api, call));
    let classes = classes(api, &functions);
    quote! {
        /// The functions of the library that a driver calls.
        #[derive(Clone, Copy)]
        pub struct #functions { #(#fields,)* }

        impl #functions {
            /// Looks up every function by its name without suffixes and its version.
            ///
            /// # Errors
            /// The names of all functions that a driver needs and `find` does not know.
            ///
            /// # Safety
            /// `find` returns addresses of the functions of these names and versions, in a library that stays loaded.
            pub unsafe fn load(
                mut find: impl FnMut(&'static std::ffi::CStr, u32) -> Option<std::ptr::NonNull<std::ffi::c_void>>,
            ) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                #(#lookups)*
                let (#(Some(#required),)*) = (#(#required,)*) else { return Err(missing); };
                Ok(Self { #(#required,)* #(#optional,)* })
            }
        }

        impl #interface for #functions {
            #has

            #missing

            #(#methods)*
        }

        #least

        #classes
    }
}

fn method(api: &Api, call: &Call) -> TokenStream {
    let scope = Scope::Api(api, "");
    let signature = signature(api, call);
    let (name, parameters, result) = (&signature.name, signature.parameters(), signature.result());
    let text = &call.symbol.function.name;
    let safety = comment("SAFETY: the caller vouches for handles and addresses.");
    let results = call.symbol.function.args.iter().filter(|(name, _)| call.returns.contains(name));
    let places = results.clone().map(|(name, ty)| {
        let LayoutType::Pointer { to, .. } = ty else { return TokenStream::new() };
        let (name, ty) = (value_ident(name), layouts::ty(to, scope));
        quote!(let mut #name = std::mem::MaybeUninit::<#ty>::zeroed();)
    });
    let args = call.symbol.function.args.iter().map(|(name, _)| {
        let ident = value_ident(name);
        if call.returns.contains(name) { quote!(#ident.as_mut_ptr()) } else { quote!(#ident) }
    });
    let values: Vec<TokenStream> = results
        .map(|(name, _)| {
            let name = value_ident(name);
            quote!(unsafe { #name.assume_init() })
        })
        .collect();
    let filled = comment("SAFETY: it is zero, or what the function has written.");
    let values = match values.as_slice() {
        [] => quote!(Ok(())),
        [one] => quote! {
            #filled
            Ok(#one)
        },
        several => quote! {
            #filled
            Ok((#(#several),*))
        },
    };
    let function = if call.required {
        quote!(let entry_point = self.#name;)
    } else {
        quote!(let Some(entry_point) = self.#name else { return Err(ApiError::missing(#text)); };)
    };
    if !signature.fails {
        return quote! {
            unsafe fn #name(&self, #parameters) -> #result {
                #safety
                unsafe { (self.#name)(#(#args),*) }
            }
        };
    }
    quote! {
        #[inline]
        unsafe fn #name(&self, #parameters) -> #result {
            #function
            #(#places)*
            #safety
            let status = unsafe { entry_point(#(#args),*) };
            if status.0 != 0 {
                return Err(failed(self, #text, status));
            }
            #values
        }
    }
}

/// The meaning and the texts of each status.
fn classes(api: &Api, functions: &Ident) -> TokenStream {
    let Some(failures) = &api.failures else { return TokenStream::new() };
    let scope = Scope::Api(api, "");
    let code = scope.path(&failures.code);
    let texts = failures.texts.iter().filter_map(|name| api.calls.iter().find(|call| call.name == *name));
    let texts = texts.filter_map(|call| {
        let result = call.symbol.function.args.iter().find(|(name, _)| call.returns.contains(name));
        let Some((_, LayoutType::Pointer { to, .. })) = result else { return None };
        let (name, ty) = (format_ident!("{}", call.name), layouts::ty(to, scope));
        let safety = comment("SAFETY: it takes any status, and writes to a value.");
        Some(quote! {{
            let mut text: #ty = std::ptr::null();
            #safety
            let outcome = unsafe { (self.#name)(status, &raw mut text) };
            (outcome.0 == 0 && !text.is_null()).then_some(text)
        }})
    });
    let count = Literal::usize_unsuffixed(failures.texts.len());
    let value = |name: &String| {
        let value = format_ident!("{}", name.to_uppercase());
        quote!(#code::#value)
    };
    let pending = value(&failures.pending);
    let lost: Vec<TokenStream> = failures.lost.iter().map(value).collect();
    let lost = (!lost.is_empty()).then(|| quote!(#(#lost)|* => FailureKind::Lost,));
    let arms = failures.statuses.iter().map(|(status, names)| {
        let (status, names) = (type_ident(status), names.iter().map(value));
        quote!(#(#names)|* => FailureKind::Status(StatusCode::#status))
    });
    let texts = (!failures.texts.is_empty()).then(|| {
        quote! {
            impl #functions {
                /// The texts of the library for a status, which it keeps.
                pub(crate) fn texts(&self, status: #code) -> [Option<*const std::ffi::c_char>; #count] {
                    [#(#texts.map(|text| text.cast())),*]
                }
            }
        }
    });
    quote! {
        #texts

        /// The meaning of a status for a driver.
        pub fn failure_kind(status: #code) -> FailureKind {
            match status {
                #pending => FailureKind::Pending,
                #lost
                #(#arms,)*
                _ => FailureKind::Status(StatusCode::Internal),
            }
        }
    }
}
