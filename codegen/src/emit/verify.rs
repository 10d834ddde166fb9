//! Emits the checks of each decoded op as a walk over its operands: `vm/verify.rs` holds the dispatch,
//! `vm/verify/<family>.rs` one function for each op. The verifier and the analyses of the runtime are the visitors.

use proc_macro2::TokenStream;
use quote::quote;

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::{
    call_form, decoded_families, decoded_ops, family_modules, family_source, function, ident, is_ref, kind, operands,
    origin, variant,
};
use crate::model::vm::{Body, ControlOp, Field, FieldKind, Isa, Op, Type};

/// The files of this artifact.
pub fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let families = decoded_families(isa);
    let modules = family_modules("verify", &families);
    let arms = decoded_ops(isa).map(|op| {
        let (variant, family, function) = (variant(op), ident(&op.family), function(op));
        let names: Vec<_> = operands(op).into_iter().map(|operand| operand.name).collect();
        quote!(Op::#variant { #(#names),* } => #family::#function(visitor, #(#names),*),)
    });
    let tokens = quote! {
        #modules

        /// Walks over the operands of `op`: reads before writes.
        ///
        /// # Errors
        /// The first error of the visitor, which ends the walk.
        pub fn visit_operands<V: OperandVisitor>(op: Op, visitor: &mut V) -> Result<(), V::Error> {
            match op { #(#arms)* }
        }
    };
    let mut files = vec![source("vm/verify.rs", "spec/isa/vm", tokens)];
    for (family, ops) in &families {
        let functions: TokenStream = ops.iter().map(|op| walk(op)).collect();
        let tokens = quote! {
            use super::*;
            #functions
        };
        files.push(source(&format!("vm/verify/{family}.rs"), &family_source(family), tokens));
    }
    files
}

fn walk(op: &Op) -> TokenStream {
    let (function, origin) = (function(op), comment(&origin(op)));
    let operands = operands(op);
    let parameters = operands.iter().map(|operand| {
        let (name, ty) = (&operand.name, &operand.ty);
        // Strings and immediates have nothing to check.
        let used =
            op.field(&name.to_string()).is_none_or(|field| !matches!(field.kind, FieldKind::String | FieldKind::Imm));
        if used { quote!(#name: #ty) } else { quote!(_: #ty) }
    });
    let steps = match &op.body {
        Body::Control(control) => match call_form(*control) {
            Some((variadic, yieldable)) => {
                vec![quote!(visitor.call(call, CallForm { variadic: #variadic, yieldable: #yieldable })?;)]
            }
            None => steps(op, Some(*control)),
        },
        _ => steps(op, None),
    };
    let visitor = if steps.is_empty() { quote!(_) } else { quote!(visitor) };
    quote! {
        #origin
        pub(super) fn #function<V: OperandVisitor>(#visitor: &mut V, #(#parameters),*) -> Result<(), V::Error> {
            #(#steps)*
            Ok(())
        }
    }
}

/// One step for each operand; results come last, because an op reads all its operands before it writes.
fn steps(op: &Op, control: Option<ControlOp>) -> Vec<TokenStream> {
    let (results, others): (Vec<&Field>, Vec<&Field>) =
        op.fields.iter().partition(|field| field.kind == FieldKind::Result);
    others.into_iter().chain(results).filter_map(|field| step(field, control)).collect()
}

fn step(field: &Field, control: Option<ControlOp>) -> Option<TokenStream> {
    let (name, movable) = (ident(&field.name), field.movable);
    let kind = field.ty.map(kind);
    Some(match field.kind {
        FieldKind::Reg if is_ref(field) => quote!(visitor.read_ref(#name, #movable)?;),
        FieldKind::Reg => quote!(visitor.read(#name, #kind)?;),
        FieldKind::Result if is_ref(field) => quote!(visitor.write_ref(#name)?;),
        FieldKind::Result => quote!(visitor.write(#name, #kind)?;),
        FieldKind::Global if is_ref(field) => quote!(visitor.global_ref(#name)?;),
        FieldKind::Global => {
            let width = field.ty.and_then(Type::operand).and_then(|ty| ty.scalar()).map_or(8, |scalar| scalar.size());
            quote!(visitor.global(#name, #width)?;)
        }
        FieldKind::Type => quote!(visitor.type_id(#name)?;),
        FieldKind::Rodata => quote!(visitor.rodata(#name)?;),
        FieldKind::Import => quote!(visitor.import(#name)?;),
        FieldKind::Edge => quote!(visitor.edge(#name)?;),
        FieldKind::Target => quote!(visitor.target(#name)?;),
        FieldKind::Cases => quote!(visitor.cases(#name)?;),
        FieldKind::Regs => match (control, field.ty) {
            (Some(ControlOp::Return), _) => quote!(visitor.return_values(#name)?;),
            (_, Some(Type::Any)) => quote!(visitor.read_any(#name)?;),
            _ => quote!(visitor.read_list(#name, #kind, #movable)?;),
        },
        // A call op is walked as a whole; immediates and strings have nothing to check.
        FieldKind::Function | FieldKind::Results | FieldKind::Segments | FieldKind::Imm | FieldKind::String => {
            return None;
        }
    })
}
