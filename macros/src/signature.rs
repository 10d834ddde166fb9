//! Signatures: derives the kinds of a calling convention from the Rust types of a method. `check` compares them and
//! `expand` converts values.

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{FnArg, GenericArgument, Pat, PathArguments, ReturnType, Type};
use vireo_codegen::model::abi::{Convention, Kind, Slot};

/// A method as the macros see it.
pub struct Signature {
    /// True if the first argument after `&self` is the state.
    pub takes_state: bool,
    /// The arguments in order.
    pub args: Vec<Argument>,
    /// The results in order.
    pub results: Vec<Value>,
    /// True if it returns `Result<Step<_>>`.
    pub waits: bool,
    /// Where the list of arguments stands.
    pub span: Span,
    /// Where the result stands.
    pub result_span: Span,
}

/// One argument.
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Where its type stands.
    pub span: Span,
    /// The shape of the argument or result.
    pub shape: Shape,
}

/// One value, or a span.
pub enum Shape {
    /// One value.
    One(Value),
    /// `Span<X>`, `Vec<X>`, `&[(X, Y)]`.
    Span {
        /// The fields of a tuple.
        fields: Vec<Value>,
        /// True for slices.
        borrowed: bool,
        /// True for slices of words as they are in the call.
        words: bool,
    },
}

/// One value.
pub struct Value {
    /// Its kind in the convention. Of a type that has no kind of its own the spec says it, where there is one.
    pub kind: Option<Kind>,
    /// How the shim's value becomes the method's.
    pub conversion: Conversion,
    /// True for `Option<_>`.
    pub nullable: bool,
    /// `T` of `Obj<T>`.
    pub object: Option<Box<Type>>,
    /// The type that the spec says the value is read as.
    pub named: Option<Box<Type>>,
    /// The type as written.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// How a value of the shim becomes the type that the method uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// It is that type.
    None,
    /// `as u32`, `as u64`.
    Unsigned,
    /// `!= 0`.
    Bool,
    /// A reference.
    Ref,
    /// A text in a buffer, as `&str`.
    Text,
    /// The type that the spec says the value is read as.
    Named,
}

impl Signature {
    /// Reads the types of a method.
    pub fn of(sig: &syn::Signature) -> syn::Result<Signature> {
        let mut inputs = sig.inputs.iter().peekable();
        match inputs.next() {
            Some(FnArg::Receiver(receiver)) if receiver.reference.is_some() && receiver.mutability.is_none() => {}
            _ => return Err(syn::Error::new(sig.ident.span(), "an export takes `&self` first")),
        }
        let is_state = |arg: &&&FnArg| matches!(arg, FnArg::Typed(typed) if matches!(&*typed.ty, Type::Reference(reference) if reference.mutability.is_some()));
        let takes_state = inputs.peek().filter(is_state).is_some();
        if takes_state {
            inputs.next();
        }
        let mut args = Vec::new();
        for (index, arg) in inputs.enumerate() {
            let FnArg::Typed(typed) = arg else { continue };
            let name = match &*typed.pat {
                Pat::Ident(ident) => ident.ident.to_string().trim_start_matches('_').to_string(),
                _ => format!("#{index}"),
            };
            args.push(Argument { name, span: typed.ty.span(), shape: Shape::of(&typed.ty)? });
        }
        let mut result = result_of(sig)?;
        let mut waits = false;
        if let Some(inner) = generic(result, "Step") {
            result = inner;
            waits = true;
        }
        let results = match result {
            Type::Tuple(tuple) => tuple.elems.iter().map(Value::of).collect::<syn::Result<_>>()?,
            ty => vec![Value::of(ty)?],
        };
        let span = sig.ident.span();
        Ok(Signature { takes_state, args, results, waits, span, result_span: result.span() })
    }

    /// The calling convention, if all types have kinds.
    pub fn convention(&self) -> Convention {
        // A type without a kind was refused before.
        let kind = |value: &Value| value.kind.unwrap_or(Kind::Ref);
        let args = self.args.iter().map(|arg| match &arg.shape {
            Shape::One(value) => Slot::One(kind(value)),
            Shape::Span { fields, .. } => Slot::Span(fields.iter().map(kind).collect()),
        });
        Convention { args: args.collect(), results: self.results.iter().map(kind).collect() }
    }

    /// Fails for a type that only a spec gives a kind.
    pub fn need_kinds(&self) -> syn::Result<()> {
        match self.values().find(|value| value.kind.is_none()) {
            Some(value) => Err(unknown(value.span, &value.text)),
            None => Ok(()),
        }
    }

    /// Every `Obj<T>` with `T`.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.args
            .iter()
            .flat_map(|arg| match &arg.shape {
                Shape::One(value) => std::slice::from_ref(value),
                Shape::Span { fields, .. } => fields,
            })
            .chain(&self.results)
    }

    /// The same, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.args
            .iter_mut()
            .flat_map(|arg| match &mut arg.shape {
                Shape::One(value) => std::slice::from_mut(value),
                Shape::Span { fields, .. } => fields,
            })
            .chain(&mut self.results)
    }
}

impl Shape {
    fn of(ty: &Type) -> syn::Result<Shape> {
        let (element, borrowed) = match ty {
            Type::Reference(reference) => match &*reference.elem {
                Type::Slice(slice) => (&*slice.elem, true),
                _ => return Ok(Shape::One(Value::of(ty)?)),
            },
            ty => match generic(ty, "Vec").or_else(|| generic(ty, "Span")) {
                Some(element) => (element, false),
                None => return Ok(Shape::One(Value::of(ty)?)),
            },
        };
        let (fields, tuple): (Vec<Value>, _) = match element {
            Type::Tuple(tuple) if tuple.elems.is_empty() => return Err(unknown(ty.span(), &text_of(ty))),
            Type::Tuple(tuple) => (tuple.elems.iter().map(Value::of).collect::<syn::Result<_>>()?, true),
            element => (vec![Value::of(element)?], false),
        };
        let words = borrowed && !tuple && fields.iter().all(|field| field.text == "u64");
        Ok(Shape::Span { fields, borrowed, words })
    }
}

impl Value {
    fn of(ty: &Type) -> syn::Result<Value> {
        let (inner, nullable) = match generic(ty, "Option") {
            Some(inner) => (inner, true),
            None => (ty, false),
        };
        let (inner, borrowed) = match inner {
            Type::Reference(reference) if reference.mutability.is_none() => (&*reference.elem, true),
            inner => (inner, false),
        };
        let name = last_segment(inner).map(|segment| segment.ident.to_string()).unwrap_or_default();
        let (kind, conversion) = match name.as_str() {
            "i32" => (Some(Kind::I32), Conversion::None),
            "u32" => (Some(Kind::I32), Conversion::Unsigned),
            "bool" => (Some(Kind::I32), Conversion::Bool),
            "i64" => (Some(Kind::I64), Conversion::None),
            "u64" => (Some(Kind::I64), Conversion::Unsigned),
            "f32" => (Some(Kind::F32), Conversion::None),
            "f64" => (Some(Kind::F64), Conversion::None),
            "Ref" | "Obj" => (Some(Kind::Ref), Conversion::Ref),
            "str" if borrowed => (Some(Kind::Ref), Conversion::Text),
            "" | "str" | "String" | "Vec" | "Span" => return Err(unknown(ty.span(), &text_of(ty))),
            _ => (None, Conversion::Named),
        };
        if nullable && kind != Some(Kind::Ref) {
            return Err(syn::Error::new(ty.span(), "only references can be optional"));
        }
        if borrowed && kind != Some(Kind::Ref) {
            return Err(unknown(ty.span(), &text_of(ty)));
        }
        let object = generic(inner, "Obj").cloned().map(Box::new);
        if name == "Obj" && object.is_none() {
            return Err(unknown(ty.span(), &text_of(ty)));
        }
        let named = (conversion == Conversion::Named).then(|| Box::new(inner.clone()));
        let text = text_of(ty);
        Ok(Value { kind, conversion, nullable, object, named, text, span: ty.span() })
    }
}

/// `T` of the `Result<T>` that a method returns.
pub fn result_of(sig: &syn::Signature) -> syn::Result<&Type> {
    let refuse = |span| Err(syn::Error::new(span, "expected a method that returns `Result<_>`"));
    match &sig.output {
        ReturnType::Type(_, ty) => generic(ty, "Result").map_or_else(|| refuse(ty.span()), Ok),
        ReturnType::Default => refuse(sig.ident.span()),
    }
}

fn unknown(span: Span, text: &str) -> syn::Error {
    let message = format!(
        "`{text}` is no type of a call: expected i32, u32, bool, i64, u64, f32, f64, &str, Ref, Obj<T>, a borrowed one of these two, \
         Option of a reference, or a Span, Vec or slice of those or of tuples of those"
    );
    syn::Error::new(span, message)
}

fn text_of(ty: &Type) -> String {
    ty.to_token_stream().to_string().replace(' ', "")
}

/// The name of a type without the modules that it is in.
pub fn last_segment(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        _ => None,
    }
}

/// The first argument of `name<...>`.
fn generic<'t>(ty: &'t Type, name: &str) -> Option<&'t Type> {
    let segment = last_segment(ty).filter(|segment| segment.ident == name)?;
    match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        }),
        _ => None,
    }
}
