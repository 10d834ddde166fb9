//! The check of a `#[vm_module]` against its spec: every export has a method with the signature of the spec. Called by
//! `expand`.

use proc_macro2::Span;
use syn::LitStr;
use vireo_codegen::diag::Diagnostics;
use vireo_codegen::entry;
use vireo_codegen::model::abi::{self, Abi, Arg, Field, Grammar, Kind, Meaning};
use vireo_codegen::model::hal::type_name;

use crate::parse::{Errors, Export, Part};
use crate::signature::{Conversion, Shape, Value, last_segment};

/// The calling conventions and modules of the specs. Errors are about `name`.
pub fn abi(name: &LitStr) -> syn::Result<Abi> {
    let mut diagnostics = Diagnostics::default();
    let files = vireo_spec::FILES.iter().filter(|(path, _)| path.starts_with("spec/abi/"));
    let entries: Vec<_> = files.flat_map(|(path, text)| entry::split(path, text, &mut diagnostics)).collect();
    let abi = Abi::load(&entries, &mut diagnostics);
    diagnostics
        .into_result(abi)
        .map_err(|diagnostics| syn::Error::new(name.span(), format!("the specs are wrong:\n{diagnostics}")))
}

/// A module of the specs, and how its conventions are written.
pub struct Spec {
    pub module: abi::Module,
    pub grammar: Grammar,
}

/// Loads the spec'd module called `name`.
pub fn load(name: &LitStr) -> syn::Result<Spec> {
    let Abi { mut modules, grammar, .. } = abi(name)?;
    let module = modules.remove(&name.value()).ok_or_else(|| {
        let known: Vec<_> = modules.keys().cloned().collect();
        let message = format!("no spec lists a module `{}`; known are: {}", name.value(), known.join(", "));
        syn::Error::new(name.span(), message)
    })?;
    Ok(Spec { module, grammar })
}

/// The part of an export's name before the first dot.
pub fn group(export: &str) -> &str {
    export.split('.').next().unwrap_or(export)
}

/// Checks the exports of a block against the module's spec.
pub fn check(
    module: &abi::Module,
    name: &LitStr,
    part: &Part,
    exports: &[Export],
    unimplemented: &[LitStr],
    errors: &mut Errors,
) {
    for named in part.named() {
        if !module.exports.iter().any(|export| group(&export.name) == named.value()) {
            let message = format!("the spec of module `{}` has no exports `{}.*`", module.name, named.value());
            errors.add(syn::Error::new(named.span(), message));
        }
    }
    for export in exports {
        match module.export(&export.name.value()) {
            Some(expected) if !part.has(group(&expected.name)) => {
                let message = format!("exports `{}.*` belong to another block", group(&expected.name));
                errors.add(syn::Error::new(export.name.span(), message));
            }
            Some(expected) => check_export(module, expected, export, errors),
            None => errors.add(unknown(module, &export.name)),
        }
    }
    for absent in unimplemented {
        if module.export(&absent.value()).is_none() {
            errors.add(unknown(module, absent));
        } else if exports.iter().any(|export| export.name.value() == absent.value()) {
            let message = format!("`{}` is implemented: remove it from unimplemented(...)", absent.value());
            errors.add(syn::Error::new(absent.span(), message));
        }
    }
    let missing: Vec<_> = module
        .exports
        .iter()
        .filter(|expected| {
            part.has(group(&expected.name))
                && !exports.iter().any(|export| export.name.value() == expected.name)
                && !unimplemented.iter().any(|absent| absent.value() == expected.name)
        })
        .map(|expected| format!("\n  #[vm_export(\"{}\")]\n  {}", expected.name, signature_of(expected)))
        .collect();
    if !missing.is_empty() {
        let message = format!(
            "module `{}` lacks exports of its spec; implement them or list them in unimplemented(...):{}",
            module.name,
            missing.concat()
        );
        errors.add(syn::Error::new(name.span(), message));
    }
}

fn unknown(module: &abi::Module, name: &LitStr) -> syn::Error {
    let message = format!("the spec of module `{}` ({}) has no export `{}`", module.name, module.origin, name.value());
    syn::Error::new(name.span(), message)
}

fn check_export(module: &abi::Module, expected: &abi::Export, export: &Export, errors: &mut Errors) {
    let mut refuse = |span: Span, what: String| {
        let message = format!(
            "`{}.{}`: {what}\nexpected ({}): {}",
            module.name,
            expected.name,
            expected.origin,
            signature_of(expected)
        );
        errors.add(syn::Error::new(span, message));
    };
    let signature = &export.signature;
    if signature.args.len() != expected.args.len() {
        let what = format!("takes {} arguments, expected {}", signature.args.len(), expected.args.len());
        refuse(signature.span, what);
    }
    for (index, (actual, expected)) in signature.args.iter().zip(&expected.args).enumerate() {
        let what = match (&actual.shape, expected) {
            (Shape::One(value), Arg::One(field)) => mismatch(value, field),
            (Shape::Span { fields, .. }, Arg::Span { fields: expected, .. }) => {
                if fields.len() == expected.len() {
                    fields.iter().zip(expected).find_map(|(value, field)| mismatch(value, field))
                } else {
                    Some(format!("a tuple has {} fields, expected {}", fields.len(), expected.len()))
                }
            }
            (Shape::One(_), Arg::Span { .. }) => {
                Some("is one value, expected a span (`Span<_>`, `Vec<_>` or `&[_]`)".into())
            }
            (Shape::Span { .. }, Arg::One(_)) => Some("is a span, expected one value".into()),
        };
        if let Some(what) = what {
            refuse(actual.span, format!("argument {} `{}` {what}", index + 1, actual.name));
        }
    }
    if signature.results.len() != expected.results.len() {
        let what = format!("returns {} values, expected {}", signature.results.len(), expected.results.len());
        refuse(signature.result_span, what);
    }
    for (index, (value, field)) in signature.results.iter().zip(&expected.results).enumerate() {
        // A result may promise more than the spec does: a function that never returns null need not return an `Option`.
        let what = match mismatch(value, field) {
            Some(_) if value.kind == Some(Kind::Ref) && field.ty.kind() == Kind::Ref && field.nullable => None,
            what => what,
        };
        if let Some(what) = what {
            refuse(value.span, format!("result {} {what}", index + 1));
        }
    }
    if signature.waits && !expected.yields {
        refuse(signature.result_span, "may wait, but its spec does not say `yields: true`".into());
    }
}

fn mismatch(value: &Value, field: &Field) -> Option<String> {
    let fits = match &field.meaning {
        None => value.kind == Some(field.ty.kind()) && !matches!(value.conversion, Conversion::Bool | Conversion::Text),
        Some(Meaning::Bool) => value.conversion == Conversion::Bool,
        Some(Meaning::Text) => value.conversion == Conversion::Text,
        Some(meaning @ (Meaning::Timepoints | Meaning::Number(_))) => {
            let name = value.named.as_deref().and_then(last_segment).map(|segment| segment.ident.to_string());
            return (name != Some(type_name(meaning.name()))).then(|| unlike(value, field));
        }
    };
    (!(fits && value.nullable == field.nullable)).then(|| unlike(value, field))
}

fn unlike(value: &Value, field: &Field) -> String {
    format!("is `{}`, expected `{}` for `{}`", value.text, rust_type(field), field.name)
}

/// Says of every value of a block that was found to be right which kind it has.
pub fn resolve(module: &abi::Module, exports: &mut [Export]) {
    for export in exports {
        let Some(expected) = module.export(&export.name.value()) else { continue };
        for (value, field) in export.signature.values_mut().zip(expected.values()) {
            value.kind = Some(field.ty.kind());
        }
    }
}

/// The object type that the spec demands for a value, in the order of [`crate::signature::Signature::values`].
pub fn object_names(expected: &abi::Export) -> Vec<Option<String>> {
    expected
        .values()
        .map(|field| match &field.ty {
            abi::Type::Object(name) => Some(name.clone()),
            _ => None,
        })
        .collect()
}

/// The signature that the spec asks for, as Rust.
fn signature_of(export: &abi::Export) -> String {
    let args: String = export
        .args
        .iter()
        .map(|arg| match arg {
            Arg::One(field) => format!(", {}: {}", field.name, rust_type(field)),
            Arg::Span { name, fields } => format!(", {name}: Span<{}>", tuple(fields, false)),
        })
        .collect();
    let results = tuple(&export.results, true);
    let results = if export.yields { format!("Step<{results}>") } else { results };
    format!("fn {}(&self, state: &mut State{args}) -> Result<{results}>", export.name.replace('.', "_"))
}

fn tuple(fields: &[Field], unit: bool) -> String {
    match fields {
        [field] => rust_type(field),
        [] if unit => "()".into(),
        fields => format!("({})", fields.iter().map(rust_type).collect::<Vec<_>>().join(", ")),
    }
}

fn rust_type(field: &Field) -> String {
    let inner = match (&field.meaning, &field.ty) {
        (Some(Meaning::Bool), _) => "bool".to_string(),
        (Some(Meaning::Text), _) => "&str".to_string(),
        (Some(meaning @ Meaning::Timepoints), _) => return format!("{}<'_>", type_name(meaning.name())),
        (Some(Meaning::Number(name)), _) => type_name(name),
        (None, abi::Type::Number(kind)) => kind.name().to_string(),
        (None, abi::Type::Ref) => "Ref".to_string(),
        (None, abi::Type::Object(name)) => format!("Obj</* {name} */>"),
    };
    if field.nullable { format!("Option<{inner}>") } else { inner }
}
