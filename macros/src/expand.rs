//! The expansion of `#[vm_module]`: the implementation of `NativeModule`, with a shim for each export. Called by the
//! macro in `lib`.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use vireo_codegen::emit::abi_shims;
use vireo_codegen::model::abi::{self, Kind as ValueKind};

use crate::check;
use crate::parse::{Errors, Export, Kind, Module, Part};
use crate::signature::{Argument, Conversion, Shape, Value};

/// Expands `#[vm_module(attribute)] item`.
pub fn vm_module(attribute: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let kind: Kind = syn::parse2(attribute)?;
    let mut module = Module::parse(item)?;
    let implementation = match &kind {
        Kind::Spec { name, unimplemented, part } => {
            let spec = check::load(name)?;
            let mut errors = Errors::default();
            check::check(&spec.module, name, part, &module.exports, unimplemented, &mut errors);
            errors.into_result(())?;
            check::resolve(&spec.module, &mut module.exports);
            let asserts = module.exports.iter().filter_map(|export| {
                let expected = spec.module.export(&export.name.value())?;
                Some(object_asserts(export, &check::object_names(expected)))
            });
            let asserts = quote!(#(#asserts)*);
            match part {
                Part::Main(_) => implement_spec(&module, &spec, part, &asserts),
                Part::Groups(_, state) => implement_part(&module, &spec, part, state.as_deref(), &asserts),
            }
        }
        Kind::Own { name, version } => {
            let grammar = check::abi(name)?.grammar;
            let mut errors = Errors::default();
            for export in &module.exports {
                errors.take(export.signature.need_kinds());
            }
            errors.into_result(())?;
            let table = module.exports.iter().map(|export| {
                let (name, convention) = (&export.name, grammar.text(&export.signature.convention()));
                quote!(::vireo::vm::NativeExport { name: #name, convention: #convention })
            });
            let header = quote! {
                fn name(&self) -> &str { #name }
                fn version(&self) -> u32 { #version }
                fn exports(&self) -> &[::vireo::vm::NativeExport] {
                    const EXPORTS: &[::vireo::vm::NativeExport] = &[#(#table),*];
                    EXPORTS
                }
            };
            let (shims, arms): (Vec<_>, Vec<_>) = module
                .exports
                .iter()
                .enumerate()
                .map(|(ordinal, export)| {
                    let convention = export.signature.convention();
                    let name = format_ident!("shim_{ordinal}");
                    let shim = abi_shims::shim(
                        &convention,
                        &name,
                        &quote!(::vireo::),
                        &format!(" `{}`", grammar.text(&convention)),
                    );
                    let call = call(export, &quote!(#name), None, &state_type(&module));
                    (shim, quote!(#ordinal => #call,))
                })
                .unzip();
            let (exports, method) = direct_entries(&module);
            implement(&module, &quote!(#header #method), &quote!(#(#arms)*), &quote!(#(#shims)* #exports))
        }
    };
    let item = &module.item;
    Ok(quote!(#item #implementation))
}

/// The code for a call of `expected`, or of an earlier form of it, which is the business of this block.
fn spec_call(
    module: &Module,
    spec: &check::Spec,
    expected: &abi::Export,
    adaptor: Option<&abi::Adaptor>,
    state: &TokenStream,
) -> TokenStream {
    match module.exports.iter().find(|export| export.name.value() == expected.name) {
        Some(export) => {
            let convention = adaptor.map_or_else(|| expected.convention(), |adaptor| adaptor.convention.clone());
            let shim = format_ident!("{}", spec.grammar.name(&convention));
            call(export, &quote!(::vireo::abi::shims::#shim), adaptor, state)
        }
        None => {
            let message = format!("{}.{} is not implemented", spec.module.name, expected.name);
            quote!(Err(::vireo::Status::unimplemented(#message)))
        }
    }
}

/// The method by which the main block calls the function of another one that has this ordinal.
fn method_of_part(ordinal: usize, expected: &abi::Export) -> Ident {
    format_ident!("vm_call_{ordinal}_{}", expected.name.replace('.', "_"))
}

/// A module of a spec.
fn implement_spec(module: &Module, spec: &check::Spec, part: &Part, asserts: &TokenStream) -> TokenStream {
    let table = format_ident!("{}", spec.module.name);
    let state = state_type(module);
    let arms = spec.module.functions().enumerate().map(|(ordinal, (expected, adaptor))| {
        let call = if part.has(check::group(&expected.name)) {
            spec_call(module, spec, expected, adaptor, &state)
        } else {
            let method = method_of_part(ordinal, expected);
            quote!(self.#method(_state, ::core::marker::PhantomData::<#state>, call))
        };
        quote!(#ordinal => #call,)
    });
    let header = quote! {
        fn name(&self) -> &str { ::vireo::abi::modules::#table::NAME }
        fn version(&self) -> u32 { ::vireo::abi::modules::#table::VERSION }
        fn exports(&self) -> &[::vireo::vm::NativeExport] { ::vireo::abi::modules::#table::EXPORTS }
    };
    implement(module, &header, &quote!(#(#arms)*), asserts)
}

/// Some exports of a module of a spec, for the block that implements the module, which is in the module above.
fn implement_part(
    module: &Module,
    spec: &check::Spec,
    part: &Part,
    state: Option<&syn::Type>,
    asserts: &TokenStream,
) -> TokenStream {
    let ty = &module.item.self_ty;
    let (generics, _, bounds) = module.item.generics.split_for_impl();
    // The type of the state is a parameter, so that the compiler compares it with that of the module.
    let (parameter, state) = match state {
        Some(state) => (quote!(), quote!(#state)),
        None => (quote!(<S>), quote!(S)),
    };
    let functions = spec.module.functions().enumerate();
    let own = functions.filter(|(_, (expected, _))| part.has(check::group(&expected.name)));
    let methods = own.map(|(ordinal, (expected, adaptor))| {
        let (method, call) = (method_of_part(ordinal, expected), spec_call(module, spec, expected, adaptor, &state));
        quote! {
            #[inline]
            pub(super) fn #method #parameter(
                &self,
                _state: &mut dyn ::core::any::Any,
                _: ::core::marker::PhantomData<#state>,
                call: &mut ::vireo::vm::Call,
            ) -> ::vireo::Result<::vireo::vm::Outcome> {
                #call
            }
        }
    });
    quote! {
        const _: () = {
            #asserts
            impl #generics #ty #bounds {
                #(#methods)*
            }
        };
    }
}

/// The type of the state of a module.
fn state_type(module: &Module) -> TokenStream {
    module.state.as_ref().map_or_else(|| quote!(()), |(_, ty)| quote!(#ty))
}

fn implement(module: &Module, header: &TokenStream, arms: &TokenStream, extra: &TokenStream) -> TokenStream {
    let ty = &module.item.self_ty;
    let (generics, _, bounds) = module.item.generics.split_for_impl();
    let create = module.state.as_ref().map_or_else(|| quote!(()), |(method, _)| quote!(self.#method()?));
    quote! {
        const _: () = {
            #extra
            // Out of line, so that a call of an export is a jump.
            #[cold]
            #[inline(never)]
            fn no_export(module: &str, ordinal: usize) -> ::vireo::Status {
                ::vireo::Status::out_of_range(::std::format!("module `{module}` has no export {ordinal}"))
            }
            impl #generics ::vireo::vm::NativeModule for #ty #bounds {
                #header
                fn create_state(&self) -> ::vireo::Result<::std::boxed::Box<dyn ::core::any::Any + Send>> {
                    Ok(::std::boxed::Box::new(#create))
                }
                fn call(
                    &self,
                    ordinal: usize,
                    _state: &mut dyn ::core::any::Any,
                    call: &mut ::vireo::vm::Call,
                ) -> ::vireo::Result<::vireo::vm::Outcome> {
                    match ordinal {
                        #arms
                        _ => Err(no_export(::vireo::vm::NativeModule::name(self), ordinal)),
                    }
                }
            }
        };
    }
}

/// One call of a shim with a closure that calls the method. References are checked first, in their order, then what the
/// spec says that the values are. The shim of an earlier form passes its arguments, of which those of the method are
/// made before anything else. Only a method that takes the state of the module has its type checked.
fn call(export: &Export, shim: &TokenStream, adaptor: Option<&abi::Adaptor>, state: &TokenStream) -> TokenStream {
    let signature = &export.signature;
    let names: Vec<_> = (0..signature.args.len()).map(|index| format_ident!("a{index}")).collect();
    let adapted = |index: usize| adaptor.and_then(|adaptor| adaptor.args.get(index));
    let given = names.iter().enumerate().filter(|(index, _)| adapted(*index).is_none_or(abi::Adapted::is_given));
    let given: Vec<_> = given.map(|(_, name)| name).collect();
    let adapt = names
        .iter()
        .zip(&signature.args)
        .enumerate()
        .filter_map(|(index, (name, arg))| Some(adapt(adapted(index)?, name, &arg.name)));
    let adapt: TokenStream = adapt.collect();
    let (references, args): (Vec<_>, Vec<_>) =
        signature.args.iter().zip(&names).map(|(arg, name)| convert(arg, name)).unzip();
    let method = &export.method;
    let state = signature.takes_state.then(|| quote!(::vireo::abi::state::<#state>(_state)?,));
    let invoke = quote!(self.#method(#state #(#args),*)?);
    let results: Vec<_> = (0..signature.results.len()).map(|index| format_ident!("r{index}")).collect();
    let converted: Vec<_> = signature.results.iter().zip(&results).map(|(value, name)| to_shim(value, name)).collect();
    let (pattern, value) = match (&results[..], &converted[..]) {
        ([result], [converted]) => (quote!(#result), quote!(#converted)),
        _ => (quote!((#(#results),*)), quote!((#(#converted),*))),
    };
    let keep = signature.waits;
    let references = quote!(#adapt #(#references)*);
    let body = if signature.waits {
        quote! {{
            #references
            match #invoke {
                ::vireo::abi::Step::Return(#pattern) => Ok(::vireo::abi::Step::Return(#value)),
                ::vireo::abi::Step::Wait(wait) => Ok(::vireo::abi::Step::Wait(wait)),
            }
        }}
    } else if results.is_empty() {
        quote!({ #references #invoke; Ok(::vireo::abi::Step::Return(())) })
    } else {
        quote!({ #references let #pattern = #invoke; Ok(::vireo::abi::Step::Return(#value)) })
    };
    quote!(#shim(call, #keep, |#(#given),*| #body))
}

/// The direct exports of a module, and the method that returns their entries. A generic type has none.
fn direct_entries(module: &Module) -> (TokenStream, TokenStream) {
    if !module.item.generics.params.is_empty() {
        return Default::default();
    }
    let exports = module.exports.iter().enumerate().filter_map(|(ordinal, export)| {
        let name = format_ident!("Direct{ordinal}");
        let implementation = direct_export(export, &name, &module.item.self_ty, &state_type(module))?;
        Some((implementation, quote!(#ordinal => ::vireo::abi::DirectEntry::of::<#name>(),)))
    });
    let (exports, arms): (Vec<_>, Vec<_>) = exports.unzip();
    if exports.is_empty() {
        return Default::default();
    }
    let method = quote! {
        fn direct_entry(&self, ordinal: usize) -> ::core::option::Option<::vireo::abi::DirectEntry> {
            match ordinal {
                #(#arms)*
                _ => ::core::option::Option::None,
            }
        }
    };
    (quote!(#(#exports)*), method)
}

/// An export as the direct export `name`, if it takes numbers, returns at most one and never waits.
fn direct_export(export: &Export, name: &Ident, module: &syn::Type, state: &TokenStream) -> Option<TokenStream> {
    let signature = &export.signature;
    if signature.waits || signature.results.len() > 1 {
        return None;
    }
    let (mut integers, mut floats) = (0_usize, 0_usize);
    let next = |count: &mut usize| std::mem::replace(count, *count + 1);
    let mut reads = Vec::new();
    let mut args = Vec::new();
    for (index, argument) in signature.args.iter().enumerate() {
        let Shape::One(value) = &argument.shape else { return None };
        let name = format_ident!("a{index}");
        let (read, position) = match value.kind? {
            ValueKind::I32 => (quote!(i32), next(&mut integers)),
            ValueKind::I64 => (quote!(i64), next(&mut integers)),
            ValueKind::F32 => (quote!(f32), next(&mut floats)),
            ValueKind::F64 => (quote!(f64), next(&mut floats)),
            ValueKind::Ref => return None,
        };
        reads.push(quote!(let #name = words.#read(#position);));
        args.push(convert(argument, &name).1);
    }
    let result = format_ident!("result");
    let bits = match signature.results.first() {
        None => quote!(0),
        Some(value) => {
            let converted = to_shim(value, &result);
            match value.kind? {
                ValueKind::I32 => quote!(u64::from((#converted) as u32)),
                ValueKind::I64 => quote!((#converted) as u64),
                ValueKind::F32 => quote!(u64::from((#converted).to_bits())),
                ValueKind::F64 => quote!((#converted).to_bits()),
                ValueKind::Ref => return None,
            }
        }
    };
    let (method, takes_state) = (&export.method, signature.takes_state);
    let state = takes_state.then(|| quote!(::vireo::abi::state::<#state>(_state)?,));
    let pattern = if signature.results.is_empty() { quote!(()) } else { quote!(#result) };
    Some(quote! {
        struct #name;
        impl ::vireo::abi::DirectExport for #name {
            type Module = #module;
            const INTEGERS: usize = #integers;
            const FLOATS: usize = #floats;
            const TAKES_STATE: bool = #takes_state;
            #[inline]
            fn call(
                module: &#module,
                _state: &mut dyn ::core::any::Any,
                words: &::vireo::abi::DirectWords,
            ) -> ::vireo::Result<u64> {
                #(#reads)*
                let #pattern = module.#method(#state #(#args),*)?;
                Ok(#bits)
            }
        }
    })
}

/// The statement that makes an argument of the one of an earlier form, or of nothing.
fn adapt(adapted: &abi::Adapted, name: &Ident, text: &str) -> TokenStream {
    match adapted {
        abi::Adapted::Same => quote!(),
        abi::Adapted::Narrow => quote!(let #name = i64::from(#name as u32);),
        abi::Adapted::Gathered => {
            let held = format_ident!("{name}_held");
            quote! {
                let mut #held = #name.at_most_one(#text)?;
                let #name = ::vireo::abi::RefArgument::held(&mut #held);
            }
        }
        abi::Adapted::Integer(value) => {
            let value = Literal::i64_unsuffixed(*value);
            quote!(let #name = #value;)
        }
        abi::Adapted::Number(value) => {
            let value = Literal::f64_unsuffixed(*value);
            quote!(let #name = #value;)
        }
    }
}

/// How the value of the shim called `name` becomes the argument of the method: a statement for a reference, and the
/// expression that is passed.
fn convert(argument: &Argument, name: &Ident) -> (TokenStream, TokenStream) {
    let text = &argument.name;
    let span = argument.span;
    match &argument.shape {
        Shape::One(value) => match value.conversion {
            Conversion::None => (quote!(), quote!(#name)),
            Conversion::Unsigned if value.kind == Some(ValueKind::I32) => (quote!(), quote!(#name as u32)),
            Conversion::Unsigned => (quote!(), quote!(#name as u64)),
            Conversion::Bool => (quote!(), quote!(#name != 0)),
            Conversion::Named if value.kind != Some(ValueKind::Ref) => {
                let ty = &value.named;
                (quote!(), quote_spanned!(span=> <#ty as ::vireo::abi::FromNumber<_>>::from_argument(#name)?))
            }
            Conversion::Ref | Conversion::Named => {
                (quote_spanned!(span=> let #name = ::vireo::abi::FromRef::from_ref(#name, #text)?;), quote!(#name))
            }
            Conversion::Text if value.nullable => (
                quote!(let #name = ::vireo::abi::TextArgument::optional(#name, #text)?;),
                quote!(#name.as_ref().map(|text| text.text(#text)).transpose()?),
            ),
            Conversion::Text => {
                (quote!(let #name = ::vireo::abi::TextArgument::new(#name, #text)?;), quote!(#name.text(#text)?))
            }
        },
        // The elements of such a list are the words of the call.
        Shape::Span { words: true, .. } => (quote!(), quote!(#name.words())),
        Shape::Span { borrowed: true, .. } => (
            quote_spanned!(span=> let #name = <::std::vec::Vec<_> as ::vireo::abi::FromSpan>::from_span(#name, #text)?;),
            quote!(&#name),
        ),
        Shape::Span { .. } => {
            (quote_spanned!(span=> let #name = ::vireo::abi::FromSpan::from_span(#name, #text)?;), quote!(#name))
        }
    }
}

fn to_shim(value: &Value, name: &Ident) -> TokenStream {
    match value.conversion {
        Conversion::None => quote!(#name),
        Conversion::Unsigned if value.kind == Some(ValueKind::I32) => quote!(#name as i32),
        Conversion::Unsigned => quote!(#name as i64),
        Conversion::Bool => quote!(i32::from(#name)),
        Conversion::Named => quote_spanned!(value.span=> ::vireo::abi::IntoNumber::into_result(#name)),
        // A text is no result, which the compiler says at the type of the method.
        Conversion::Ref | Conversion::Text => {
            quote_spanned!(value.span=> ::vireo::abi::IntoRef::into_optional_ref(#name))
        }
    }
}

/// Asserts that each `Obj<T>` is of the type the spec names.
fn object_asserts(export: &Export, names: &[Option<String>]) -> TokenStream {
    let asserts = export.signature.values().zip(names).filter_map(|(value, name)| {
        let (object, name) = (value.object.as_ref()?, name.as_ref()?);
        let message = format!("`{}`: the spec asks for an object of type `{name}`", export.name.value());
        Some(quote_spanned! {value.span=>
            const _: () = assert!(
                ::vireo::abi::same_name(<#object as ::vireo::vm::Object>::TYPE_NAME, #name), #message
            );
        })
    });
    quote!(#(#asserts)*)
}
