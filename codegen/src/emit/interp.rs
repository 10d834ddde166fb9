//! Emits the interpreter: `vm/interp/<family>.rs` holds one inline function for each op, its handler;
//! `vm/interp/dispatch.rs` the loop that calls the handlers; `vm/interp.rs` the trait of the helpers. The threaded
//! dispatcher runs the same handlers, see `threaded`.
//!
//! Handlers are inlined where the optimiser then merges what they keep on the native stack. In other builds every arm
//! of the loop would take stack of its own.
//!
//! The first argument of a handler is a `Frame`, if its op is made of primitives, or else the machine; the operands of
//! the decoded op follow. A handler returns nothing if it cannot fail, `Result<()>` if it can, and `Result<Flow>` if it
//! directs control.

use std::collections::BTreeSet;

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::handler::{Ending, ending, names};
use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::{
    decoded_families, decoded_ops, family_modules, family_source, function, ident, is_call, is_ref, operands, origin,
    rust_type, variant,
};
use crate::emit::threaded;
use crate::model::vm::{Body, ControlOp, Field, FieldKind, Isa, Op, Type};
use crate::sem::{Expr, ExprKind, Home, Ty};

/// The files of this artifact.
pub fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let families = decoded_families(isa);
    let modules = family_modules("interp", &families);
    let helpers = helpers_trait(isa);
    let dispatch = dispatch(isa);
    let tokens = quote! {
        #[path = "interp/dispatch.rs"] pub mod dispatch;
        #[path = "interp/threaded.rs"] pub mod threaded;
        #modules
        #helpers
    };
    let mut files =
        vec![source("vm/interp.rs", "spec/isa/vm", tokens), source("vm/interp/dispatch.rs", "spec/isa/vm", dispatch)];
    files.extend(threaded::emit(isa));
    for (family, ops) in &families {
        let handlers: TokenStream = ops.iter().map(|op| handler(op)).collect();
        let tokens = quote!(use super::prelude::*; #handlers);
        files.push(source(&format!("vm/interp/{family}.rs"), &family_source(family), tokens));
    }
    files
}

/// One method for each helper, with values as values and references as registers.
fn helpers_trait(isa: &Isa) -> TokenStream {
    let mut seen = BTreeSet::new();
    let methods = decoded_ops(isa).filter_map(|op| {
        let Body::Helper(name) = &op.body else { return None };
        if !seen.insert(name) {
            return None;
        }
        let name = ident(name);
        let parameters = op.fields.iter().filter(|field| !is_value_result(field)).map(|field| {
            let (name, ty) = (ident(&field.name), parameter_type(field));
            quote!(#name: #ty)
        });
        let value = value_result(op).and_then(|field| scalar(field.ty)).unwrap_or_else(|| quote!(()));
        let doc = format!(" `{}`: {}", op.mnemonic, op.doc);
        Some(quote! {
            #[doc = #doc]
            fn #name(&mut self, #(#parameters),*) -> Result<#value>;
        })
    });
    quote! {
        #[doc = " The ops that are not made of primitives."]
        pub trait Helpers { #(#methods)* }
    }
}

fn is_value_result(field: &Field) -> bool {
    field.kind == FieldKind::Result && !is_ref(field)
}

/// The result of an op, if it is a value.
fn value_result(op: &Op) -> Option<&Field> {
    op.result().filter(|field| is_value_result(field))
}

/// The Rust type of a value.
fn scalar(ty: Option<Type>) -> Option<TokenStream> {
    let name = ty?.operand()?.scalar()?.name();
    let name = ident(name);
    Some(quote!(#name))
}

/// The argument type of a helper or control function for a field.
fn parameter_type(field: &Field) -> TokenStream {
    match field.kind {
        FieldKind::Reg if !is_ref(field) => scalar(field.ty).unwrap_or_else(|| quote!(Reg)),
        FieldKind::Regs => quote!(&[AnyReg]),
        _ => rust_type(field),
    }
}

fn handler(op: &Op) -> TokenStream {
    let (function, origin) = (function(op), comment(&origin(op)));
    let portable = op.is_portable();
    let parameters = operands(op).into_iter().map(|operand| {
        let name = operand.name;
        let value = portable && op.fields.iter().any(|field| name == ident(&field.name) && field.is_value());
        let ty = if value { quote!(Operand) } else { operand.ty };
        quote!(#name: #ty)
    });
    let (ending, body) = (ending(op), body(op));
    let (returns, last) = match ending {
        Ending::Plain => (quote!(), quote!()),
        Ending::Fallible if portable => (quote!(-> Result<(), F::Error>), quote!(Ok(()))),
        Ending::Fallible => (quote!(-> Result<()>), quote!(Ok(()))),
        Ending::Flow => (quote!(-> Result<Flow>), quote!()),
    };
    let (generics, target) = if portable { (quote!(<F: Frame>), quote!(F)) } else { (quote!(), quote!(Machine<'_>)) };
    quote! {
        #origin
        #[cfg_attr(optimised, inline(always))]
        pub(super) fn #function #generics(cx: &mut #target, #(#parameters),*) #returns { #body #last }
    }
}

fn body(op: &Op) -> TokenStream {
    match &op.body {
        Body::Semantics(expr) => {
            let value = expression(expr, op);
            match value_result(op) {
                Some(result) => store(result, &value),
                None => quote!(#value;),
            }
        }
        Body::Helper(name) => {
            let (name, values) = (ident(name), values(op));
            let lists = lists(op);
            let arguments = op.fields.iter().filter(|field| !is_value_result(field)).map(|field| ident(&field.name));
            let call = quote!(Helpers::#name(cx, #(#arguments),*)?);
            match value_result(op) {
                Some(result) => {
                    let store = store(result, &call);
                    quote!(#values #lists #store)
                }
                None => quote!(#values #lists #call;),
            }
        }
        Body::Control(control) => {
            let name = control_function(*control);
            let values = values(op);
            let arguments = operands(op).into_iter().map(|operand| operand.name);
            let result = value_result(op).map(|field| ident(&field.name));
            let arguments = arguments.filter(|name| Some(name) != result.as_ref());
            let call = quote!(control::#name(cx, #(#arguments),*));
            match value_result(op) {
                Some(result) => {
                    let store = store(result, &quote!(#call?));
                    quote!(#values #store)
                }
                None => quote!(#values #call),
            }
        }
        Body::Structure(_) => quote!(),
    }
}

/// `let index = cx.i32(index);` for each value operand.
fn values(op: &Op) -> TokenStream {
    if is_call(op) {
        return quote!();
    }
    let values = op.fields.iter().filter(|field| field.kind == FieldKind::Reg && !is_ref(field)).map(|field| {
        let (name, read) = (ident(&field.name), scalar(field.ty));
        quote!(let #name = cx.#read(#name);)
    });
    values.collect()
}

/// `let values = cx.register_list(values);` for each register list.
fn lists(op: &Op) -> TokenStream {
    let lists = op.fields.iter().filter(|field| field.kind == FieldKind::Regs).map(|field| {
        let name = ident(&field.name);
        quote!(let #name = cx.register_list(#name);)
    });
    lists.collect()
}

/// `let computed = ...; cx.set_i32(result, computed);`
fn store(result: &Field, value: &TokenStream) -> TokenStream {
    let name = ident(&result.name);
    let ty = result.ty.and_then(Type::operand).and_then(Ty::scalar).map_or("i32", |scalar| scalar.name());
    let write = format_ident!("set_{ty}");
    quote!(let computed = #value; cx.#write(#name, computed);)
}

/// The function of `interp::control` for a control op; a trailing underscore where the name is a keyword.
fn control_function(control: ControlOp) -> proc_macro2::Ident {
    let name = control.name();
    if syn::parse_str::<syn::Ident>(name).is_ok() && name != "yield" {
        format_ident!("{name}")
    } else {
        format_ident!("{name}_")
    }
}

/// Rust that computes `expr`.
fn expression(expr: &Expr, op: &Op) -> TokenStream {
    match &expr.kind {
        ExprKind::Operand(name) => read(name, expr.ty, op),
        ExprKind::Int(value) => {
            let literal = match expr.ty {
                Ty::I32 => i32::try_from(*value).map_or_else(|_| Literal::i64_suffixed(*value), Literal::i32_suffixed),
                _ => Literal::i64_suffixed(*value),
            };
            quote!(#literal)
        }
        ExprKind::Float(bits) => match expr.ty {
            Ty::F32 => {
                let bits = Literal::u64_unsuffixed(bits & u64::from(u32::MAX));
                quote!(f32::from_bits(#bits))
            }
            _ => {
                let bits = Literal::u64_unsuffixed(*bits);
                quote!(f64::from_bits(#bits))
            }
        },
        ExprKind::BoolToI32(inner) => {
            let inner = expression(inner, op);
            quote!(i32::from(#inner))
        }
        ExprKind::Call { primitive, of, args } => {
            let name = ident(primitive.name());
            let question = primitive.effect().traps().then(|| quote!(?));
            let args: Vec<_> = args.iter().map(|arg| expression(arg, op)).collect();
            let of = of.map(|scalar| ident(scalar.name()));
            match primitive.home() {
                Home::Int => quote!(<#of as Int>::#name(#(#args),*)#question),
                Home::Float => quote!(<#of as Float>::#name(#(#args),*)#question),
                Home::Free => quote!(prim::#name(#(#args),*)#question),
                Home::Globals => quote!(prim::#name(cx.globals(), #(#args),*)#question),
                Home::GlobalsMut => {
                    let names: Vec<_> = (0..args.len()).map(|index| format_ident!("operand_{index}")).collect();
                    quote!({ #(let #names = #args;)* prim::#name(cx.globals_mut(), #(#names),*)#question })
                }
                Home::Table => {
                    let (index, default, list) = (&args[0], &args[1], &args[2]);
                    quote!({
                        let list = #list;
                        prim::#name(#index, #default, list.len(), |entry| cx.#of(list[entry].reg()))
                    })
                }
            }
        }
    }
}

/// Rust that reads a field.
fn read(name: &str, ty: Ty, op: &Op) -> TokenStream {
    let immediate = op.field(name).is_some_and(|field| field.kind == FieldKind::Imm);
    let name = ident(name);
    match ty {
        Ty::I32 | Ty::I64 if immediate => quote!(#name),
        Ty::F32 | Ty::F64 if immediate => quote!(#name.value()),
        Ty::I32 => quote!(cx.i32(#name)),
        Ty::I64 => quote!(cx.i64(#name)),
        Ty::F32 => quote!(cx.f32(#name)),
        Ty::F64 => quote!(cx.f64(#name)),
        Ty::Ref => quote!(cx.reference(#name)),
        Ty::Buffer => quote!(cx.buffer(#name)?),
        Ty::List => quote!(cx.list(#name)?),
        Ty::Global => quote!(#name.0),
        Ty::Regs(_) => quote!(cx.register_list(#name)),
        // No field is one of these.
        Ty::I16 | Ty::F16 | Ty::Bool | Ty::Unit => quote!(()),
    }
}

/// The dispatch loop.
fn dispatch(isa: &Isa) -> TokenStream {
    let arms = decoded_ops(isa).map(|op| {
        let (variant, family, function) = (variant(op), ident(&op.family), function(op));
        let names = names(op);
        let portable = op.is_portable();
        let arguments = names.iter().map(|name| {
            let value = portable && op.fields.iter().any(|field| *name == ident(&field.name) && field.is_value());
            if value { quote!(#name.into()) } else { quote!(#name) }
        });
        let call = quote!(#family::#function(cx, #(#arguments),*));
        let call = match ending(op) {
            Ending::Plain => call,
            Ending::Fallible => quote!({ cx.pc = pc; #call?; }),
            Ending::Flow => quote!({
                cx.pc = pc;
                match #call? {
                    Flow::Next => {}
                    Flow::Jump(target) if single => { cx.pc = target; return Ok(()) }
                    Flow::Jump(target) => { pc = target; continue; }
                    Flow::Frame if single => return Ok(()),
                    Flow::Frame => break,
                    Flow::Exit => return Ok(()),
                }
            }),
        };
        quote!(Op::#variant { #(#names),* } => #call,)
    });
    quote! {
        use super::*;
        use super::prelude::{Flow, Machine};

        #[doc = " Runs the frame on top from `cx.pc` on until `cx.exit` is set, or a `single` op. When it fails, `cx.pc` is the op that did."]
        pub fn run(cx: &mut Machine<'_>, single: bool) -> Result<()> {
            loop {
                let ops = cx.code().ops.as_slice();
                let mut pc = cx.pc;
                loop {
                    match ops[pc] { #(#arms)* }
                    pc += 1;
                    if single {
                        cx.pc = pc;
                        return Ok(());
                    }
                }
            }
        }
    }
}
