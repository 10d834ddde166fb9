//! The items that the macro makes.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::functions::{Function, Value};

/// The items of a model file with these functions.
pub fn items(path: &str, functions: &[Function]) -> TokenStream {
    let traits = functions.iter().flat_map(|function| {
        let arguments = function.arguments.iter();
        arguments.map(|argument| argument_trait(function, argument))
    });
    let fields: Vec<_> = functions.iter().map(|function| format_ident!("{}", function.identifier)).collect();
    let names = functions.iter().map(|function| &function.name);
    let methods = functions.iter().map(method);
    let doc = format!("The functions of the model `{path}`.");
    quote! {
        #[doc = #doc]
        #[derive(Clone, Debug)]
        pub struct Bound {
            session: ::vireo::Session,
            #(#fields: ::vireo::inference::Function,)*
        }

        impl Bound {
            /// The model file.
            pub const FILE: &'static [u8] = include_bytes!(#path);

            /// A session of the model, which is part of the program, with the devices and parameters of a builder.
            ///
            /// # Errors
            /// Those of making the model and the session.
            pub fn load(builder: ::vireo::inference::ModelBuilder) -> ::vireo::Result<Bound> {
                let model = builder.build(::vireo::vm::Module::from_static(Bound::FILE)?)?;
                Bound::of(&model)
            }

            /// Another session of a model that was loaded so.
            ///
            /// # Errors
            /// Those of making a session, and `NOT_FOUND` for another model.
            pub fn of(model: &::vireo::Model) -> ::vireo::Result<Bound> {
                let session = model.session()?;
                Ok(Bound { #(#fields: session.function(#names)?,)* session })
            }

            /// The session.
            pub fn session(&self) -> &::vireo::Session {
                &self.session
            }

            #(#methods)*
        }

        #(#traits)*
    }
}

/// The name of the trait of an argument.
fn trait_name(function: &Function, argument: &Value) -> proc_macro2::Ident {
    let camel = |text: &str| {
        text.split('_')
            .map(|word| {
                let mut letters = word.chars();
                letters.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + letters.as_str())
            })
            .collect::<String>()
    };
    format_ident!("{}{}Argument", camel(&function.identifier), camel(&argument.identifier))
}

/// A trait with the types that an argument can have, so that errors of the compiler name the argument and what it is.
fn argument_trait(function: &Function, argument: &Value) -> TokenStream {
    let name = trait_name(function, argument);
    let message =
        format!("argument `{}` of `{}` is a {}, found `{{Self}}`", argument.name, function.name, argument.declared);
    let label = format!("expected {}", argument.declared);
    let doc = format!("What argument `{}` of `{}` can be.", argument.name, function.name);
    let implementations = argument.r#type.arguments().into_iter().map(|(r#type, input)| {
        quote! {
            impl<'a> #name<'a> for #r#type {
                fn into_input(self) -> ::vireo::Input<'a> {
                    let value = self;
                    #input
                }
            }
        }
    });
    quote! {
        #[doc = #doc]
        #[diagnostic::on_unimplemented(message = #message, label = #label)]
        pub trait #name<'a> {
            /// The argument as an input of a call.
            fn into_input(self) -> ::vireo::Input<'a>;
        }

        #(#implementations)*
    }
}

fn method(function: &Function) -> TokenStream {
    let name = format_ident!("{}", function.identifier);
    let doc = format!("`{}`", function.declaration);
    let arguments: Vec<_> =
        function.arguments.iter().map(|argument| format_ident!("{}", argument.identifier)).collect();
    let traits = function.arguments.iter().map(|argument| trait_name(function, argument));
    let results: Vec<_> = function.results.iter().map(|result| result.r#type.result()).collect();
    let results = match &results[..] {
        [one] => quote!(#one),
        more => quote!((#(#more),*)),
    };
    quote! {
        #[doc = #doc]
        ///
        /// # Errors
        /// `INVALID_ARGUMENT` for a tensor of another shape, else the error of the program.
        #[allow(clippy::too_many_arguments, clippy::type_complexity, reason = "the model says so")]
        pub fn #name<'a>(&self, #(#arguments: impl #traits<'a>),*) -> ::vireo::Result<#results> {
            self.#name.call([#(#arguments.into_input()),*])?.get()
        }
    }
}
