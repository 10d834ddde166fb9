//! Emits what replays a format of calls: for each operation that a replay calls, the arm that reads the payload and
//! calls the method of the HAL; the objects that a payload names; and the points that it waits for and signals.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::constants::literal;
use super::hal_types::{is_plain, type_ident, value_ident};
use super::scope::Scope;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::format::{Format, Found, Operation, Replay, find, layout};
use crate::model::hal::{Field, Hal, Kind, Layout, LayoutType, POINTS, Trailing};
use crate::model::int::Int;

/// `FORMAT/executor.rs`, of formats with operations that a replay calls.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let files = spec.formats.values().filter_map(|format| {
        let called: Vec<&Operation> =
            format.operations.iter().filter(|operation| operation.replay == Replay::Call).collect();
        if called.is_empty() {
            return None;
        }
        let mut items = arms(format, &spec.hal, &called);
        items.extend(references(format, &called));
        items.extend(points(format, &called));
        let (name, folder) = (&format.api.name, &format.api.folder);
        Some(source(&format!("{name}/executor.rs"), &format!("{folder}/operations.yaml"), items))
    });
    files.collect()
}

fn arms(format: &Format, hal: &Hal, called: &[&Operation]) -> TokenStream {
    let arms = called.iter().map(|operation| {
        let (code, origin) = (literal(u64::from(operation.code)), comment(&operation.origin.to_string()));
        let body = arm(format, hal, operation);
        quote!(#code => { #origin #body })
    });
    quote! {
        /// Does what a step says.
        pub(crate) fn call(run: &mut Run<'_>, step: &Step, payload: &[u8]) -> Result<()> {
            match step.code {
                #(#arms)*
                _ => Err(Status::internal(format!("operation {} is not one that is called", step.code))),
            }
        }
    }
}

/// `device_queue_fill`
fn function_name(operation: &Operation) -> String {
    operation.name.replace('.', "_")
}

/// Reads the payload: the variable `parts`, or `head` if no parts follow it.
fn read(format: &Format, layout: &Layout) -> TokenStream {
    let path = Scope::Api(&format.api, "executor").path(&layout.name);
    if layout.then.is_empty() {
        let name = &layout.name;
        return quote!(let head = &#path::read(whole(#name, payload)?););
    }
    let view = view(&path);
    quote!(let parts = &#view::read(payload).map_err(damaged)?;)
}

/// The fields of a layout that was read.
fn head(layout: &Layout) -> TokenStream {
    if layout.then.is_empty() { quote!(head) } else { quote!(parts.head) }
}

/// The type of a layout with the parts that follow it.
fn view(path: &TokenStream) -> TokenStream {
    format!("{path}Parts").parse().unwrap_or_default()
}

/// The variable that functions by hand are given.
fn given(layout: &Layout) -> TokenStream {
    if layout.then.is_empty() { quote!(head) } else { quote!(parts) }
}

fn arm(format: &Format, hal: &Hal, operation: &Operation) -> TokenStream {
    let payload = operation.payload.as_ref().and_then(|name| layout(&format.api, name));
    if operation.by_hand.is_some() {
        let function = format_ident!("{}", function_name(operation));
        return match payload {
            Some(layout) if operation.or.is_none() => {
                let path = Scope::Api(&format.api, "executor").path(&layout.name);
                let view = view(&path);
                match layout.then.is_empty() {
                    true => {
                        let name = &layout.name;
                        quote!(run.#function(step, &#path::read(whole(#name, payload)?)))
                    }
                    false => quote!(run.#function(step, &#view::read(payload).map_err(damaged)?)),
                }
            }
            _ => quote!(run.#function(step, payload)),
        };
    }
    let method = operation.method.as_ref().and_then(|(object, name)| {
        let object = hal.objects().find(|other| other.name == *object)?;
        Some((object, object.methods.iter().find(|method| method.name == *name)?))
    });
    let (Some((object, method)), Some(arguments)) = (method, &operation.arguments) else {
        // The model refuses it.
        return quote!(Ok(()));
    };
    let read = payload.map(|layout| read(format, layout));
    let is_submission = POINTS.iter().all(|point| method.args.iter().any(|arg| arg.name == *point));
    let before = match object.name.as_str() {
        _ if is_submission => quote!(run.before_submission(step)?;),
        "command_buffer" => quote!(run.before_command(step)?;),
        _ => TokenStream::new(),
    };
    let values = method.args.iter().map(|arg| {
        // The plan has them.
        if is_submission && arg.name == "wait" {
            return quote!(&run.waits(step)?);
        }
        if is_submission && arg.name == "signal" {
            return quote!(&run.signals(step)?);
        }
        let paths = arguments.iter().find(|(name, _)| *name == arg.name).map_or(&[][..], |(_, paths)| paths);
        argument(format, hal, (operation, arg), payload, paths)
    });
    let (receiver, name) = (value_ident(&object.name), value_ident(&method.name));
    let made = operation.makes.as_ref().map(|object| {
        let keep = format_ident!("made_{object}");
        quote!(run.#keep(step, made)?;)
    });
    let submitted = is_submission.then(|| quote!(run.submitted(step)?;));
    let result = made.is_some().then(|| quote!(let made =));
    quote! {
        #read
        #before
        #result run.#receiver(step.object)?.#name(#(#values),*)?;
        #made
        #submitted
        Ok(())
    }
}

/// The value of an argument: of the only path that it comes from, or of a function by hand.
fn argument(
    format: &Format,
    hal: &Hal,
    (operation, arg): (&Operation, &Field),
    payload: Option<&Layout>,
    paths: &[String],
) -> TokenStream {
    if paths.is_empty() && arg.shape.null {
        return quote!(None);
    }
    let converted = match (payload, paths) {
        (Some(layout), [path]) => {
            let names: Vec<String> = path.split('.').map(str::to_string).collect();
            match find(&format.api, layout, &names) {
                Some(Found::Field(field)) => {
                    let path = names.iter().map(|name| value_ident(name));
                    let head = head(layout);
                    field_value(arg, &field.ty, &quote!(#head #(.#path)*))
                }
                Some(Found::Part(part)) => part_value(arg, part),
                _ => None,
            }
        }
        _ => None,
    };
    converted.unwrap_or_else(|| {
        let (owner, given) = match payload {
            Some(layout) => (layout.name.clone(), given(layout)),
            None => (function_name(operation), TokenStream::new()),
        };
        // Payloads of several operations have one function for an argument.
        let function = format_ident!("{owner}_{}", arg.name);
        let call = quote!(run.#function(#given)?);
        match &arg.shape.kind {
            Kind::Struct(name) if !hal.structure(name).is_some_and(|structure| is_plain(hal, structure)) => {
                quote!(&#call)
            }
            _ => call,
        }
    })
}

/// A field as an argument; none if that takes a function by hand.
fn field_value(arg: &Field, ty: &LayoutType, value: &TokenStream) -> Option<TokenStream> {
    let label = &arg.name;
    Some(match (&arg.shape.kind, ty) {
        _ if arg.shape.list => return None,
        (Kind::Int(int), LayoutType::Int(other)) if int == other => value.clone(),
        (Kind::Int(_), LayoutType::Int(_)) => quote!(number(#label, #value)?),
        (Kind::Numbers(name), LayoutType::Int(_)) => {
            let name = type_ident(name);
            quote!(#name::from_number(number(#label, #value)?)?)
        }
        (Kind::Object(name), LayoutType::Int(_)) => {
            let name = value_ident(name);
            quote!(run.#name(#value)?)
        }
        (Kind::Struct(name), LayoutType::Layout(other)) if name == other => {
            let name = value_ident(name);
            quote!(&run.#name(&#value)?)
        }
        _ => return None,
    })
}

/// A part as an argument; none if that takes a function by hand.
fn part_value(arg: &Field, part: &Trailing) -> Option<TokenStream> {
    let (label, name) = (&arg.name, value_ident(&part.name));
    Some(match (&arg.shape.kind, arg.shape.list, &part.part) {
        (Kind::Bytes, false, None) => quote!(parts.#name),
        (Kind::String, false, None) => quote!(text(#label, parts.#name)?),
        (Kind::Int(Int::U32), true, None) => quote!(&words(#label, parts.#name)?),
        (Kind::Int(Int::U32), true, Some(LayoutType::Int(Int::U32))) => {
            quote!(&parts.#name.iter().collect::<Vec<u32>>())
        }
        (Kind::Struct(kind) | Kind::Object(kind), true, Some(_)) => {
            let list = format_ident!("{kind}_list");
            quote!(&run.#list(&parts.#name)?)
        }
        _ => return None,
    })
}

/// The payloads of these operations, each once.
fn payloads<'a>(format: &'a Format, called: &[&Operation]) -> Vec<(u32, &'a Layout)> {
    let names: Vec<&String> =
        called.iter().flat_map(|operation| operation.payload.iter().chain(&operation.or)).collect();
    let payloads = format.payloads.iter().filter(|payload| names.contains(&&payload.name));
    payloads.filter_map(|payload| Some((payload.code, layout(&format.api, &payload.name)?))).collect()
}

/// `fn references`: the objects that payloads name.
fn references(format: &Format, called: &[&Operation]) -> TokenStream {
    let arms = payloads(format, called).into_iter().map(|(code, layout)| {
        let (code, read) = (literal(u64::from(code)), read(format, layout));
        let mut visits = fields(format, layout, &head(layout));
        visits.extend(layout.then.iter().filter_map(|part| elements(format, part)));
        let read = match visits.is_empty() {
            true => {
                let path = Scope::Api(&format.api, "executor").path(&layout.name);
                let (view, name) = (view(&path), &layout.name);
                match layout.then.is_empty() {
                    true => quote!(whole::<{ #path::SIZE }>(#name, payload)?;),
                    false => quote!(#view::read(payload).map_err(damaged)?;),
                }
            }
            false => read,
        };
        quote!(#code => { #read #(#visits)* })
    });
    quote! {
        /// Visits the objects that a payload names.
        pub(crate) fn references(
            code: u32,
            payload: &[u8],
            visit: &mut dyn FnMut(Reference) -> Result<()>,
        ) -> Result<()> {
            match code {
                #(#arms)*
                _ => {}
            }
            Ok(())
        }
    }
}

/// The visits of the fields of a layout.
fn fields(format: &Format, layout: &Layout, value: &TokenStream) -> Vec<TokenStream> {
    let visits = layout.fields.iter().filter_map(|field| {
        let name = value_ident(&field.name);
        match &field.ty {
            LayoutType::Layout(inner) if inner == "buffer_ref" => {
                Some(quote!(visit(Reference::range(&#value.#name))?;))
            }
            LayoutType::Layout(inner) => {
                let inner = fields(format, layout_of(format, inner)?, &quote!(#value.#name));
                (!inner.is_empty()).then(|| quote!(#(#inner)*))
            }
            LayoutType::Int(Int::U64) => {
                let object = constant(format, field.name.strip_suffix("_id")?)?;
                Some(quote!(visit(Reference::object(ObjectType::#object, #value.#name))?;))
            }
            _ => None,
        }
    });
    visits.collect()
}

/// The layout `name`: fields above have a variable of the name of the function.
fn layout_of<'a>(format: &'a Format, name: &str) -> Option<&'a Layout> {
    layout(&format.api, name)
}

/// The visits of the elements of a part.
fn elements(format: &Format, part: &Trailing) -> Option<TokenStream> {
    let name = value_ident(&part.name);
    let visits = match part.part.as_ref()? {
        LayoutType::Layout(element) if element == "buffer_ref" => quote!(visit(Reference::range(&element))?;),
        LayoutType::Layout(element) => {
            let visits = fields(format, layout(&format.api, element)?, &quote!(element));
            if visits.is_empty() {
                return None;
            }
            quote!(#(#visits)*)
        }
        LayoutType::Int(Int::U64) => {
            let object = constant(format, part.name.strip_suffix('s')?)?;
            quote!(visit(Reference::object(ObjectType::#object, element))?;)
        }
        _ => return None,
    };
    Some(quote!(for element in parts.#name.iter() { #visits }))
}

/// The constant of the type of an object that a field is called after: `FILE` for `source_file`.
fn constant(format: &Format, name: &str) -> Option<proc_macro2::Ident> {
    let mut numbers = format.api.files.iter().flat_map(|file| &file.numbers);
    let types = numbers.find(|numbers| numbers.name == "object_type")?;
    let mut found =
        types.values.iter().filter(|value| name == value.name || name.ends_with(&format!("_{}", value.name)));
    // `command_buffer` ends like `buffer`.
    let object = found.clone().find(|value| value.name == name).or_else(|| found.next())?;
    Some(format_ident!("{}", object.name.to_ascii_uppercase()))
}

/// `fn points`: what submissions wait for and signal.
fn points(format: &Format, called: &[&Operation]) -> TokenStream {
    let arms = payloads(format, called).into_iter().filter_map(|(code, layout)| {
        let has = |name: &str| layout.then.iter().any(|part| part.name == name);
        let (code, read) = (literal(u64::from(code)), read(format, layout));
        (has("wait") && has("signal")).then(|| {
            quote! {
                #code => {
                    #read
                    Ok(Some((parts.wait, parts.signal)))
                }
            }
        })
    });
    quote! {
        /// The points that a payload waits for and signals, if it is one of a submission.
        pub(crate) fn points(code: u32, payload: &[u8]) -> Result<Option<Points<'_>>> {
            match code {
                #(#arms)*
                _ => Ok(None),
            }
        }
    }
}
