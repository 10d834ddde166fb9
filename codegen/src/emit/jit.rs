//! Emits the front end of the JIT: `vm/jit/<family>.rs` holds one builder for each op that compiled code executes,
//! `vm/jit.rs` the dispatch on decoded ops.
//!
//! A builder is the `semantics` of its op, read a second time: each primitive becomes a node of the JIT's graph. Ops
//! with a primitive that has no machine code, and those that are not made of primitives, are left to the interpreter,
//! which compiled code enters for just that op.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::{
    decoded_families, family_modules, family_source, function, ident, is_ref, one_of, one_of_lint, operands, origin,
    variant,
};
use crate::model::vm::{Body, Field, FieldKind, Isa, Op, Type};
use crate::sem::{Effect, Expr, ExprKind, Lowering, Others, Primitive, Scalar, Sig, Ty, Use};

/// The files of this artifact.
pub fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let mut families = decoded_families(isa);
    for (_, ops) in &mut families {
        ops.retain(|op| compiled(op).is_some());
    }
    families.retain(|(_, ops)| !ops.is_empty());
    let mut files = vec![
        source("vm/jit.rs", "spec/isa/vm", top(&families)),
        source("vm/jit_facts.rs", "spec/isa/vm", facts(isa, &families)),
    ];
    for (family, ops) in &families {
        let builders: TokenStream = ops.iter().filter_map(|op| builder(op)).collect();
        let tokens = quote!(use super::*; #builders);
        files.push(source(&format!("vm/jit/{family}.rs"), &family_source(family), tokens));
    }
    files
}

/// A primitive that compiled code executes as a part of an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The primitive.
    pub primitive: Primitive,
    /// The type that this use works on.
    pub of: Scalar,
    /// How.
    pub lowering: Lowering,
}

/// The primitives that compiled code executes for an op, in order; none if the interpreter executes the op.
pub fn steps(op: &Op) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    add_steps(compiled(op)?, &mut steps);
    Some(steps)
}

fn add_steps(expr: &Expr, steps: &mut Vec<Step>) {
    match &expr.kind {
        ExprKind::Operand(_) | ExprKind::Int(_) | ExprKind::Float(_) => {}
        ExprKind::BoolToI32(inner) => add_steps(inner, steps),
        ExprKind::Call { primitive, of, args } => {
            args.iter().for_each(|arg| add_steps(arg, steps));
            let own = type_of(primitive, *of);
            let mut add = |primitive: &Primitive, of: Scalar| {
                steps.push(Step { primitive: primitive.clone(), of, lowering: primitive.lowering() });
            };
            match primitive.others() {
                Some(Others::As(used)) => add(&used.primitive, type_of_use(used, own)),
                Some(Others::Builder { parts, .. }) if !parts.is_empty() => {
                    parts.iter().for_each(|used| add(&used.primitive, type_of_use(used, own)));
                }
                Some(Others::Builder { .. }) | None => add(primitive, own),
            }
        }
    }
}

/// The expression of an op that compiled code executes.
fn compiled(op: &Op) -> Option<&Expr> {
    let Body::Semantics(expr) = &op.body else { return None };
    let is_operand = |field: &Field| {
        use FieldKind::*;
        matches!(field.kind, Reg | Regs | Result | Imm | Global)
    };
    let mut all = op.fields.iter().all(is_operand);
    all &= op.result().is_none_or(|field| !is_ref(field));
    expr.for_each_primitive(&mut |primitive| all &= primitive.lowering() != Lowering::Interpreter);
    all.then_some(expr)
}

/// Whether an op is only arithmetic in every function. Register lists are excluded: their contents belong to the
/// function.
fn is_simple(op: &Op) -> bool {
    let pure = |step: &Step| step.primitive.effect() == Effect::Pure && step.lowering != Lowering::Call;
    let has_list = op.fields.iter().any(|field| field.kind == FieldKind::Regs);
    !has_list && steps(op).is_some_and(|steps| steps.iter().all(pure))
}

fn scalar(scalar: Scalar) -> TokenStream {
    let name = format_ident!("{scalar:?}");
    quote!(Scalar::#name)
}

/// The type of a field's value.
fn field_scalar(field: &Field) -> Option<Scalar> {
    field.ty.and_then(Type::operand).and_then(Ty::scalar)
}

fn builder(op: &Op) -> Option<TokenStream> {
    let expr = compiled(op)?;
    let (name, origin) = (function(op), comment(&origin(op)));
    let parameters = operands(op).into_iter().map(|operand| {
        let (name, ty) = (operand.name, operand.ty);
        quote!(#name: #ty)
    });
    let value = expression(expr, op);
    let body = match op.result() {
        Some(result) => {
            let (register, of) = (ident(&result.name), scalar(field_scalar(result).unwrap_or(Scalar::I32)));
            quote!(let value = #value; builder.write(#of, #register, value);)
        }
        None => quote!(#value;),
    };
    Some(quote! {
        #origin
        pub(super) fn #name(builder: &mut FunctionBuilder<'_>, #(#parameters),*) { #body }
    })
}

/// Rust that builds the nodes of `expr`.
fn expression(expr: &Expr, op: &Op) -> TokenStream {
    let of = expr.ty.scalar().map(scalar);
    match &expr.kind {
        ExprKind::Operand(name) => {
            let immediate = op.field(name).is_some_and(|field| field.kind == FieldKind::Imm);
            let name = ident(name);
            match (expr.ty, immediate) {
                (Ty::I32, true) => quote!(builder.constant(#of, #name as u32 as u64)),
                (Ty::I64, true) => quote!(builder.constant(#of, #name as u64)),
                (Ty::F32, true) => quote!(builder.constant(#of, u64::from(#name.0))),
                (Ty::F64, true) => quote!(builder.constant(#of, #name.0)),
                (Ty::Global, _) => quote!(builder.global(#name)),
                (Ty::Buffer, _) => quote!(builder.buffer(#name)),
                (Ty::Ref, _) => quote!(builder.reference(#name)),
                (Ty::Regs(_), _) => quote!(#name),
                _ => quote!(builder.read(#of, #name)),
            }
        }
        ExprKind::Int(value) => {
            let bits = Literal::u64_unsuffixed(if expr.ty == Ty::I32 { *value as u32 as u64 } else { *value as u64 });
            quote!(builder.constant(#of, #bits))
        }
        ExprKind::Float(bits) => {
            let bits = Literal::u64_unsuffixed(if expr.ty == Ty::F32 { bits & u64::from(u32::MAX) } else { *bits });
            quote!(builder.constant(#of, #bits))
        }
        ExprKind::BoolToI32(inner) => {
            let inner = expression(inner, op);
            quote!({ let truth = #inner; builder.number(truth) })
        }
        ExprKind::Call { primitive, of, args } => {
            let own = type_of(primitive, *of);
            let names: Vec<_> = (0..args.len()).map(|index| format_ident!("operand_{index}")).collect();
            let args = args.iter().map(|arg| expression(arg, op));
            let node = |primitive: &Primitive, of: Scalar| {
                let (name, of) = (ident(primitive.variant()), scalar(of));
                quote!(builder.primitive(Primitive::#name, #of, &[#(#names),*]))
            };
            let built = match primitive.others() {
                None => node(primitive, own),
                Some(Others::As(used)) => node(&used.primitive, type_of_use(used, own)),
                Some(Others::Builder { method, .. }) => {
                    let (method, of) = (ident(method), primitive.is_open().then(|| scalar(own)).into_iter());
                    quote!(builder.#method(#(#of,)* #(#names),*))
                }
            };
            quote!({ #(let #names = #args;)* #built })
        }
    }
}

/// The type that a use of a primitive works on.
fn type_of(primitive: &Primitive, of: Option<Scalar>) -> Scalar {
    of.or_else(|| operated(primitive)).unwrap_or(Scalar::I32)
}

/// The type that a primitive works on in the place of one that works on `own`: its own type, if its signature has one.
fn type_of_use(used: &Use, own: Scalar) -> Scalar {
    used.of.or_else(|| operated(&used.primitive)).unwrap_or(own)
}

/// The type that a primitive of fixed types works on: that of its result, or of the stored value.
fn operated(primitive: &Primitive) -> Option<Scalar> {
    let fixed = |sig: &Sig| if let Sig::Is(ty) = sig { ty.scalar() } else { None };
    fixed(&primitive.result()).or_else(|| primitive.params().last().and_then(fixed))
}

/// The builders of ops.
fn top(families: &[(&str, Vec<&Op>)]) -> TokenStream {
    let modules = family_modules("jit", families);
    let ops = families.iter().flat_map(|(family, ops)| ops.iter().map(move |op| (ident(family), *op)));
    let arms = ops.map(|(family, op)| {
        let (variant, function) = (variant(op), function(op));
        let names: Vec<_> = operands(op).into_iter().map(|operand| operand.name).collect();
        quote!(Op::#variant { #(#names),* } => #family::#function(builder, #(#names),*),)
    });
    quote! {
        #modules

        #[doc = " Builds the nodes of an op. False if compiled code does not execute it."]
        pub(crate) fn build(op: Op, builder: &mut FunctionBuilder<'_>) -> bool {
            match op {
                #(#arms)*
                _ => return false,
            }
            true
        }
    }
}

/// The facts about ops and primitives that analyses ask for, too.
fn facts(isa: &Isa, families: &[(&str, Vec<&Op>)]) -> TokenStream {
    let ops = || families.iter().flat_map(|(_, ops)| ops.iter().copied());
    let lint = one_of_lint();
    let known = one_of(&quote!(op), ops());
    let simple = one_of(&quote!(op), ops().filter(|op| is_simple(op)));
    let constants = ops().filter_map(|op| {
        let (Body::Semantics(expr), Some(result)) = (&op.body, op.result()) else { return None };
        let name = ident(&result.name);
        let (fields, bits) = match &expr.kind {
            ExprKind::Operand(field) if op.field(field)?.kind == FieldKind::Imm => {
                let field = ident(field);
                let bits = match expr.ty {
                    Ty::I32 => quote!(u64::from(#field as u32)),
                    Ty::I64 => quote!(#field as u64),
                    Ty::F32 => quote!(u64::from(#field.0)),
                    _ => quote!(#field.0),
                };
                (quote!(#field, #name), bits)
            }
            ExprKind::Int(value) => {
                let bits = if expr.ty == Ty::I32 { u64::from(*value as u32) } else { *value as u64 };
                let bits = Literal::u64_unsuffixed(bits);
                (quote!(#name), quote!(#bits))
            }
            ExprKind::Float(bits) => {
                let bits = Literal::u64_unsuffixed(if expr.ty == Ty::F32 { bits & u64::from(u32::MAX) } else { *bits });
                (quote!(#name), quote!(#bits))
            }
            _ => return None,
        };
        let (variant, of) = (variant(op), scalar(expr.ty.scalar()?));
        Some(quote!(Op::#variant { #fields } => (#of, #name, #bits),))
    });
    let (functions, addresses): (Vec<_>, Vec<_>) =
        isa.primitives.iter().filter(|primitive| primitive.lowering() == Lowering::Call).flat_map(library).unzip();
    let known_bits = isa.primitives.iter().filter_map(known_bits);
    let fills = isa.ops.iter().filter_map(fill);
    quote! {
        impl Primitive {
            #[doc = " The function that computes it, if instructions do not."]
            pub fn function(self, of: Scalar) -> Option<usize> {
                Some(match (self, of) {
                    #(#addresses)*
                    _ => return None,
                })
            }

            #[doc = " The bits of its value, if it works on integers or makes one of another width, and `operands` are their bits. `of` is the"]
            #[doc = " type that this use works on."]
            pub fn known(self, of: Scalar, operands: &[u64]) -> Option<u64> {
                Some(match (self, of, operands) {
                    #(#known_bits)*
                    _ => return None,
                })
            }
        }

        #(#functions)*

        #[doc = " The constant that an op writes, if it does nothing else."]
        pub(crate) fn constant(op: Op) -> Option<(Scalar, Reg, u64)> {
            Some(match op {
                #(#constants)*
                _ => return None,
            })
        }

        #[doc = " The range of a fill, if the op is one: the buffer, the first element and their number, and the logarithm of the bytes of one."]
        pub(crate) fn fill(op: Op) -> Option<(RefReg, Reg, Reg, u8)> {
            Some(match op {
                #(#fills)*
                _ => return None,
            })
        }

        #[doc = " Whether compiled code executes an op; terminators apart."]
        #lint
        pub(crate) fn is_built(op: Op) -> bool {
            #known
        }

        #[doc = " Whether compiled code executes an op without a side exit, whatever its operands are, without a call and without memory."]
        #lint
        pub(crate) fn is_simple(op: Op) -> bool {
            #simple
        }
    }
}

/// The arm that takes a fill apart: one whose operands are those of the op.
fn fill(op: &Op) -> Option<TokenStream> {
    let Body::Semantics(Expr { kind: ExprKind::Call { primitive, args, .. }, .. }) = &op.body else { return None };
    let fields = args.iter().map(|arg| if let ExprKind::Operand(name) = &arg.kind { Some(ident(name)) } else { None });
    let fields: Vec<_> = fields.collect::<Option<_>>()?;
    let ([buffer, index, count, _], Effect::Store) = (&fields[..], primitive.effect()) else { return None };
    let (variant, shift) = (variant(op), Literal::u32_unsuffixed(primitive.bytes()?.ilog2()));
    Some(quote!(Op::#variant { #buffer, #index, #count, .. } => (#buffer, #index, #count, #shift),))
}

/// The arms that compute a primitive of two or three integers, or a conversion between their widths.
fn known_bits(primitive: &Primitive) -> Option<TokenStream> {
    let (variant, name) = (ident(primitive.variant()), ident(primitive.name()));
    if primitive.effect() != Effect::Pure || primitive.lowering() != Lowering::Instructions {
        return None;
    }
    let bits = |of: Scalar, value: TokenStream| match of {
        Scalar::I32 => quote!(u64::from(#value as u32)),
        _ => quote!(#value as u64),
    };
    let value = |of: Scalar, bits: TokenStream| match of {
        Scalar::I32 => quote!(#bits as u32 as i32),
        _ => quote!(#bits as i64),
    };
    match (primitive.params(), primitive.result()) {
        (operands @ ([Sig::N, Sig::N] | [Sig::N, Sig::N, Sig::N]), Sig::N) => {
            let names: Vec<_> = ["a", "b", "c"].into_iter().take(operands.len()).map(ident).collect();
            let arms = [Scalar::I32, Scalar::I64].map(|of| {
                let (key, ty) = (ident(&format!("{of:?}")), ident(of.name()));
                let values = names.iter().map(|name| value(of, quote!(#name)));
                let bits = bits(of, quote!(<#ty as Int>::#name(#(#values),*)));
                quote!((Primitive::#variant, Scalar::#key, &[#(#names),*]) => #bits,)
            });
            Some(quote!(#(#arms)*))
        }
        ([Sig::Is(from)], Sig::Is(to)) => {
            let is_integer = |ty: &Ty| matches!(ty, Ty::I32 | Ty::I64);
            let (from, to) = (Some(*from).filter(is_integer)?.scalar()?, Some(to).filter(is_integer)?.scalar()?);
            let a = value(from, quote!(a));
            let bits = bits(to, quote!(prim::#name(#a)));
            (from != to).then(|| quote!((Primitive::#variant, _, &[a]) => #bits,))
        }
        _ => None,
    }
}

/// The functions of a primitive that is called, with a convention that compiled code knows, and the arms that find
/// them.
fn library(primitive: &Primitive) -> Vec<(TokenStream, TokenStream)> {
    let variant = ident(primitive.variant());
    let functions = [Scalar::F32, Scalar::F64].into_iter().map(|of| {
        let name = format_ident!("{}_{}", primitive.name(), of.name());
        let ty = |sig: &Sig| match sig {
            Sig::Is(ty) => ident(ty.scalar().map_or("i32", Scalar::name)),
            _ => ident(of.name()),
        };
        let names: Vec<_> = (0..primitive.params().len()).map(|index| format_ident!("operand_{index}")).collect();
        let types = primitive.params().iter().map(ty);
        let (result, of_name, function) = (ty(&primitive.result()), ident(of.name()), ident(primitive.name()));
        let key = scalar(of);
        (
            quote!(extern "C" fn #name(#(#names: #types),*) -> #result { <#of_name as Float>::#function(#(#names),*) }),
            quote!((Primitive::#variant, #key) => #name as *const () as usize,),
        )
    });
    functions.collect()
}
