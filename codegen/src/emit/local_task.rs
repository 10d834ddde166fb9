//! Emits the options of `local-task` devices: the struct that holds them, their parser, the list from which commands
//! derive flags, and the table of `docs/devices.md`.

use std::fmt::Write;

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::constants::constant_ident;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::hal::{DeviceOption, OptionType, type_name};

/// `hal/local_task.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let options = spec.hal.file("local_task").options;
    if options.is_empty() {
        return Vec::new();
    }
    let names = options.iter().map(|option| {
        let (ident, name) = (constant_ident(&option.field), &option.name);
        let (origin, doc) = (comment(&option.origin.to_string()), format!(" {}", option.doc));
        quote! {
            #origin
            #[doc = #doc]
            pub const #ident: &str = #name;
        }
    });
    let list = options.iter().map(|option| {
        let (name, value, default, doc) = (&option.name, &option.value, &option.default, &option.doc);
        let flag = name.replace('_', "-");
        let repeats = option.ty == OptionType::ProcessorLists;
        quote!(TaskOption { name: #name, flag: #flag, value: #value, default: #default, doc: #doc, repeats: #repeats },)
    });
    let docs = options.iter().map(|option| format!(" {}", option.doc));
    let fields: Vec<_> = options.iter().map(|option| format_ident!("{}", option.field)).collect();
    let types = options.iter().map(|option| ty(&option.ty));
    let defaults = options.iter().map(default);
    let idents = options.iter().map(|option| constant_ident(&option.field));
    let setters = options.iter().map(|option| set(&option.ty)).zip(&fields).map(|(set, field)| set(field));
    let greatest = options.iter().filter_map(|option| match option.ty {
        OptionType::Number(_, most) => {
            let (ident, most) = (constant_ident(&option.field), Literal::u32_unsuffixed(most));
            let doc = format!(" Of `{}`.", option.name);
            Some(quote!(#[doc = #doc] pub const #ident: u32 = #most;))
        }
        _ => None,
    });
    let ranges = options.iter().zip(&fields).filter_map(|(option, field)| match option.ty {
        OptionType::Number(least, _) => {
            let (ident, least) = (constant_ident(&option.field), Literal::u32_unsuffixed(least));
            Some(quote!((names::#ident, self.#field, #least, greatest::#ident)))
        }
        _ => None,
    });
    let count = Literal::usize_unsuffixed(options.len());
    let tokens = quote! {
        use std::ffi::OsStr;
        use std::path::PathBuf;

        #[doc = " The names of the options."]
        pub mod names { #(#names)* }

        #[doc = " The greatest values of options that are numbers."]
        pub mod greatest { #(#greatest)* }

        #[doc = " The configuration of a `local-task` device. Each field is a parameter of its URI and a flag `--task_*`."]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct TaskConfig { #(#[doc = #docs] pub #fields: #types,)* }

        impl Default for TaskConfig {
            fn default() -> Self {
                TaskConfig { #(#fields: #defaults,)* }
            }
        }

        impl TaskConfig {
            #[doc = " The options, in the order in which they are shown."]
            pub const OPTIONS: [TaskOption; #count] = [#(#list)*];

            #[doc = " Sets one option, from what a user writes."]
            #[doc = ""]
            #[doc = " # Errors"]
            #[doc = " The expected text, if the name or the value is another one."]
            pub fn set(&mut self, name: &str, value: &OsStr) -> Result<(), String> {
                match name {
                    #(names::#idents => #setters,)*
                    _ => {
                        let names = Self::OPTIONS.map(|option| option.name).join(", ");
                        return Err(format!("there is no such parameter; expected one of {names}"));
                    }
                }
                Ok(())
            }

            #[doc = " The numbers, each with its name and the least and the most that it may be."]
            pub(crate) fn ranges(&self) -> impl Iterator<Item = (&'static str, u32, u32, u32)> {
                [#(#ranges),*].into_iter()
            }
        }
    };
    vec![source("hal/local_task.rs", "spec/hal/local_task.yaml", tokens)]
}

fn ty(ty: &OptionType) -> TokenStream {
    match ty {
        OptionType::Number(..) => quote!(u32),
        OptionType::Path => quote!(PathBuf),
        OptionType::ProcessorLists => quote!(Vec<ProcessorList>),
        OptionType::Named(name) => {
            let name = format_ident!("{}", type_name(name));
            quote!(#name)
        }
    }
}

fn default(option: &DeviceOption) -> TokenStream {
    let text = &option.default;
    match &option.ty {
        OptionType::Number(..) => {
            let number: TokenStream = text.parse().unwrap_or_default();
            number
        }
        OptionType::Path | OptionType::ProcessorLists => quote!(Default::default()),
        OptionType::Named(_) => quote!(default(#text)),
    }
}

/// The statement that sets a field.
fn set(ty: &OptionType) -> impl Fn(&proc_macro2::Ident) -> TokenStream + use<> {
    let ty = ty.clone();
    move |field| match &ty {
        OptionType::Number(..) => quote!(self.#field = number(value)?),
        OptionType::Path => quote!(self.#field = PathBuf::from(value)),
        OptionType::ProcessorLists => quote!(self.#field.extend(processor_lists(value)?)),
        OptionType::Named(_) => quote!(self.#field = text(value)?.parse()?),
    }
}

/// The heading of the table in `docs/devices.md`; it ends at the first empty line.
pub const HEADING: &str = "| option | default | |\n";

/// The table of the options, as Markdown.
pub fn table(spec: &Spec) -> String {
    let mut text = format!("{HEADING}|---|---|---|\n");
    for option in spec.hal.file("local_task").options {
        let default = match (&option.ty, option.default.as_str()) {
            (_, "") => String::new(),
            (OptionType::Number(..), number) => format!(" {number}"),
            (_, word) => format!(" `{word}`"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "| `{}` |{default} | {} |", option.name, option.guide);
    }
    text
}
