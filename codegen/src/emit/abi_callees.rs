//! Emits argument types for functions of programs that the runtime calls on its own (`spec/abi/callees.yaml`): each type holds the arguments
//! in order, with the calling convention of the function.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::camel_case::camel_case;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::abi::{Callee, CalleeArg, Kind, Type};

/// `abi/callees.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    if spec.abi.callees.is_empty() {
        return Vec::new();
    }
    let callees = spec.abi.callees.iter().map(|callee| arguments(spec, callee));
    vec![source("abi/callees.rs", "spec/abi/callees.yaml", quote!(#(#callees)*))]
}

fn arguments(spec: &Spec, callee: &Callee) -> TokenStream {
    let name = format_ident!("{}Arguments", camel_case(&callee.name));
    let (origin, doc) = (comment(&callee.origin.to_string()), format!(" Arguments of a call. {}", callee.doc));
    let convention = spec.abi.grammar.text(&callee.convention());
    let symbol = callee.symbol.iter().map(|symbol| {
        quote! {
            #[doc = " The name that programs export the function by."]
            pub const SYMBOL: &'static str = #symbol;
        }
    });
    let (mut parameters, mut initial, mut setters) = (Vec::new(), Vec::new(), Vec::new());
    let mut place = 0;
    for arg in &callee.args {
        let ident = format_ident!("{}", arg.name);
        let count = arg.count.unwrap_or(1) as usize;
        match &arg.ty {
            Type::Number(kind) => {
                let variant = variant(*kind);
                initial.extend((0..count).map(|_| quote!(Value::#variant(Default::default()))));
                setters.push(setter(arg, place, *kind));
            }
            Type::Ref | Type::Object(_) => {
                let ty = object(&arg.ty);
                parameters.push(quote!(#ident: #ty));
                initial.push(quote!(Value::from(#ident)));
            }
        }
        place += count;
    }
    let count = Literal::usize_unsuffixed(place);
    quote! {
        #origin
        #[doc = #doc]
        #[derive(Clone, Debug)]
        pub struct #name([Value; #count]);

        impl #name {
            #(#symbol)*
            #[doc = " The calling convention of the function."]
            pub const CONVENTION: &'static str = #convention;

            #[doc = " The arguments with these references. Numbers are zero."]
            pub fn new(#(#parameters),*) -> Self {
                Self([#(#initial),*])
            }

            #(#setters)*

            #[doc = " All of them in order."]
            pub fn values(&self) -> &[Value] {
                &self.0
            }
        }
    }
}

/// `set_workgroup_id(&mut self, workgroup_id: [i32; 3])`
fn setter(arg: &CalleeArg, place: usize, kind: Kind) -> TokenStream {
    let (ident, method) = (format_ident!("{}", arg.name), format_ident!("set_{}", arg.name));
    let (ty, variant) = (format_ident!("{}", kind.name()), variant(kind));
    let doc = format!(" {}", arg.doc);
    match arg.count {
        None => {
            let place = Literal::usize_unsuffixed(place);
            quote! {
                #[doc = #doc]
                #[inline]
                pub fn #method(&mut self, #ident: #ty) {
                    self.0[#place] = Value::#variant(#ident);
                }
            }
        }
        Some(count) => {
            let places = (place..place + count as usize).map(Literal::usize_unsuffixed);
            let indices = (0..count as usize).map(Literal::usize_unsuffixed);
            let count = Literal::u32_unsuffixed(count);
            quote! {
                #[doc = #doc]
                #[inline]
                pub fn #method(&mut self, #ident: [#ty; #count]) {
                    #(self.0[#places] = Value::#variant(#ident[#indices]);)*
                }
            }
        }
    }
}

fn variant(kind: Kind) -> proc_macro2::Ident {
    format_ident!("{}", camel_case(kind.name()))
}

/// The Rust type of a reference, which is known for the objects of the VM.
fn object(ty: &Type) -> TokenStream {
    match ty {
        Type::Object(name) if name == "vm.buffer" => quote!(Obj<Buffer>),
        Type::Object(name) if name == "vm.list" => quote!(Obj<List>),
        _ => quote!(Ref),
    }
}
