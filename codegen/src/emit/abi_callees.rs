//! Emits argument types for functions of programs that the runtime calls on its own (`spec/abi/callees.yaml`): each
//! type holds the arguments in order, with the calling convention of the function.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::camel_case::camel_case;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::abi::{Callee, CalleeArg, Type};

/// `abi/callees.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    if spec.abi.callees.is_empty() {
        return Vec::new();
    }
    let callees = spec.abi.callees.iter().map(|callee| arguments(spec, callee));
    vec![source("abi/callees.rs", "spec/abi/callees.yaml", quote!(#(#callees)*))]
}

fn arguments(spec: &Spec, callee: &Callee) -> TokenStream {
    let camel = camel_case(&callee.name);
    let (name, list) = (format_ident!("{camel}Arguments"), format_ident!("{camel}ArgumentList"));
    let (origin, doc) = (comment(&callee.origin.to_string()), format!(" Arguments of a call. {}", callee.doc));
    let convention = spec.abi.grammar.text(&callee.convention());
    let symbol = callee.symbol.iter().map(|symbol| {
        quote! {
            #[doc = " The name that programs export the function by."]
            pub const SYMBOL: &'static str = #symbol;
        }
    });
    let (mut parameters, mut types, mut initial, mut setters) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for arg in &callee.args {
        let ident = format_ident!("{}", arg.name);
        match &arg.ty {
            Type::Number(kind) => {
                let ty = format_ident!("{}", kind.name());
                setters.push(setter(arg, types.len(), &ty));
                for _ in 0..arg.count.unwrap_or(1) {
                    types.push(quote!(#ty));
                    initial.push(quote!(Default::default()));
                }
            }
            Type::Ref | Type::Object(_) => {
                let ty = object(&arg.ty);
                parameters.push(quote!(#ident: #ty));
                types.push(ty);
                initial.push(quote!(#ident));
            }
        }
    }
    quote! {
        #origin
        #[doc = #doc]
        #[derive(Clone, Debug)]
        pub struct #name(#list);

        #[doc = " Their types in order."]
        pub type #list = (#(#types,)*);

        impl #name {
            #(#symbol)*
            #[doc = " The calling convention of the function."]
            pub const CONVENTION: &'static str = #convention;

            #[doc = " The arguments with these references. Numbers are zero."]
            pub fn new(#(#parameters),*) -> Self {
                Self((#(#initial,)*))
            }

            #(#setters)*

            #[doc = " All of them, for one call."]
            #[inline]
            pub fn list(&self) -> #list {
                self.0.clone()
            }
        }

        impl AsRef<#list> for #name {
            #[inline]
            fn as_ref(&self) -> &#list {
                &self.0
            }
        }
    }
}

/// `set_workgroup_id(&mut self, workgroup_id: [i32; 3])`
fn setter(arg: &CalleeArg, place: usize, ty: &Ident) -> TokenStream {
    let (ident, method) = (format_ident!("{}", arg.name), format_ident!("set_{}", arg.name));
    let doc = format!(" {}", arg.doc);
    let (ty, sets) = match arg.count {
        None => {
            let place = Literal::usize_unsuffixed(place);
            (quote!(#ty), quote!(self.0.#place = #ident;))
        }
        Some(count) => {
            let places = (place..place + count as usize).map(Literal::usize_unsuffixed);
            let indices = (0..count as usize).map(Literal::usize_unsuffixed);
            let count = Literal::u32_unsuffixed(count);
            (quote!([#ty; #count]), quote!(#(self.0.#places = #ident[#indices];)*))
        }
    };
    quote! {
        #[doc = #doc]
        #[inline]
        pub fn #method(&mut self, #ident: #ty) {
            #sets
        }
    }
}

/// The Rust type of a reference, which is known for the objects of the VM.
fn object(ty: &Type) -> TokenStream {
    match ty {
        Type::Object(name) if name == "vm.buffer" => quote!(Obj<Buffer>),
        Type::Object(name) if name == "vm.list" => quote!(Obj<List>),
        _ => quote!(Ref),
    }
}
