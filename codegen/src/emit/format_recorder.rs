//! Emits the recorder of a format of files: for each operation that stands for a method of the HAL, the record of a
//! call of it. `arguments` of the operation says which fields an argument becomes; arguments that become a part
//! together with fields, such as the storage of a file, are encoded by a method of the runtime that is named after the
//! operation and the argument.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::constants::literal;
use super::hal_types::{method_variant, type_ident, value_ident};
use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::api::Api;
use crate::model::format::{Format, Found, Operation, Replay, find, layout};
use crate::model::hal::{Field, Hal, Kind, Layout, LayoutType, Method, Object, Trailing};

/// Keys of `arguments` that fill nothing, since a head begins with zeros.
const BESIDES: [&str; 2] = ["mapping", "zero"];

/// The argument of operations of queues with the points that they signal.
const SIGNAL: &str = "signal";

/// `FORMAT/recorder.rs` of formats with operations.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let formats = spec.formats.values().filter(|format| !format.operations.is_empty());
    formats.map(|format| recorder(format, &spec.hal)).collect()
}

fn recorder(format: &Format, hal: &Hal) -> GeneratedFile {
    let observed = hal.observed();
    let mut sorted: Vec<&Operation> = format.operations.iter().collect();
    sorted.sort_by_key(|operation| operation.code);
    let arms = sorted.iter().filter_map(|operation| {
        let (object, method) = operation.method.as_ref()?;
        let object = observed.wrapped.iter().find(|other| other.name == *object)?;
        let method = object.methods.iter().find(|other| other.name == *method)?;
        Some(arm(format, hal, operation, object, method))
    });
    let makers: Vec<_> = sorted
        .iter()
        .filter_map(|operation| {
            let (object, method) = operation.method.as_ref()?;
            let object = observed.wrapped.iter().find(|other| other.name == *object)?;
            let method = object.methods.iter().find(|other| other.name == *method)?;
            let makes = operation.makes.as_ref()?;
            let pattern = if method.args.is_empty() { quote!() } else { quote!({ .. }) };
            let hook = if makes == "buffer" { quote!(made_buffer) } else { quote!(made_object) };
            Some((method_variant(object, method), pattern, hook))
        })
        .collect();
    let made = makers.iter().map(|(variant, _, hook)| quote!(Reply::#variant(object) => encoder.#hook(object),));
    let makes = makers.iter().map(|(variant, pattern, _)| quote!(Call::#variant #pattern));
    // Operations of queues are the calls that signal points.
    let signals = observed.wrapped.iter().flat_map(|object| {
        let methods = object.methods.iter().filter(|method| method.args.iter().any(|arg| arg.name == SIGNAL));
        methods.map(|method| method_variant(object, method))
    });
    let signals: Vec<Ident> = signals.collect();
    let signals = (!signals.is_empty()).then(|| quote!(#(Call::#signals { signal, .. })|* => Some(signal),));
    let items = quote! {
        /// The points that an operation of a queue signals; none of other calls.
        pub(crate) fn signal<'a>(call: &Call<'a>) -> Option<&'a [Timepoint]> {
            match *call {
                #signals
                _ => None,
            }
        }

        /// Whether a call makes an object.
        pub(crate) fn makes(call: &Call<'_>) -> bool {
            matches!(call, #(#makes)|*)
        }

        /// Notes the object that a call made.
        ///
        /// # Errors
        /// UNIMPLEMENTED for a buffer that cannot be watched.
        pub(crate) fn made(reply: &Reply<'_>, encoder: &mut Encoder<'_>) -> Result<()> {
            match *reply {
                #(#made)*
                _ => Ok(()),
            }
        }

        /// Appends the record of a call, unless the format has none for it.
        ///
        /// # Errors
        /// UNIMPLEMENTED for an object that was not recorded, and those of the file.
        pub(crate) fn record(call: &Call<'_>, encoder: &mut Encoder<'_>) -> Result<()> {
            match *call {
                #(#arms)*
                _ => Ok(()),
            }
        }
    };
    let (name, folder) = (&format.api.name, &format.api.folder);
    source(&format!("{name}/recorder.rs"), &format!("{folder}/operations.yaml"), items)
}

fn arm(format: &Format, hal: &Hal, operation: &Operation, object: &Object, method: &Method) -> TokenStream {
    let variant = method_variant(object, method);
    let origin = comment(&operation.origin.to_string());
    let code = literal(u64::from(operation.code));
    let payload = operation.payload.as_ref().and_then(|name| {
        let payload = format.payloads.iter().find(|payload| payload.name == *name)?;
        Some((literal(u64::from(payload.code)), layout(&format.api, name)?))
    });
    let (Some((payload, layout)), Some(arguments)) = (payload, &operation.arguments) else {
        let pattern = if method.args.is_empty() { quote!() } else { quote!({ .. }) };
        let append = match operation.replay {
            Replay::Refuse => quote!(encoder.append_unsupported(#code)),
            _ => quote!(encoder.append_bare(#code)),
        };
        return quote!(Call::#variant #pattern => { #origin #append });
    };
    let filled = arguments.iter().filter(|(name, paths)| !BESIDES.contains(&name.as_str()) && !paths.is_empty());
    let filler = Filler { api: &format.api, hal, operation, layout, method };
    let (mut fields, mut places) = (TokenStream::new(), TokenStream::new());
    for (name, paths) in filled.clone() {
        let (field, place) = filler.argument(name, paths);
        fields.extend(field);
        places.extend(place);
    }
    let used: Vec<Ident> = method
        .args
        .iter()
        .filter(|arg| filled.clone().any(|(name, _)| *name == arg.name))
        .map(|arg| value_ident(&arg.name))
        .collect();
    let rest = (used.len() < method.args.len()).then(|| quote!(..));
    let parts = layout.then.iter().map(|part| filler.part(part, arguments));
    let head = type_ident(&layout.name);
    let names = layout.then.iter().map(part_ident);
    quote! {
        Call::#variant { #(#used,)* #rest } => {
            #origin
            let mut head = payloads::#head::default();
            #fields
            #places
            #(#parts)*
            encoder.append(#code, #payload, &head.to_bytes(), &[#(&#names),*])
        }
    }
}

/// The variable of a part, which is no argument of the method.
fn part_ident(part: &Trailing) -> Ident {
    format_ident!("{}_part", part.name)
}

/// Fills the head of a payload.
struct Filler<'a> {
    api: &'a Api,
    hal: &'a Hal,
    operation: &'a Operation,
    layout: &'a Layout,
    method: &'a Method,
}

impl Filler<'_> {
    /// The fields that an argument becomes, and the statements that follow once the other fields are there.
    fn argument(&self, name: &str, paths: &[String]) -> (TokenStream, TokenStream) {
        let found: Vec<(&String, Found<'_>)> = paths.iter().filter_map(|path| Some((path, self.find(path)?))).collect();
        let parts: Vec<&Trailing> = found.iter().filter_map(|(_, found)| part_of(*found)).collect();
        let value = value_ident(name);
        let argument = self.method.args.iter().find(|arg| arg.name == name);
        if let [part] = parts[..]
            && (paths.len() > 1 || argument.is_none())
        {
            let hook = format_ident!("{}_{name}", self.operation.name.replace('.', "_"));
            let (ident, value) = (part_ident(part), argument.map(|_| quote!(#value,)));
            return (quote!(let #ident = encoder.#hook(#value &mut head)?;), quote!());
        }
        if let [part] = parts[..] {
            return (self.list(part, argument), quote!());
        }
        let (mut fields, mut places) = (TokenStream::new(), TokenStream::new());
        for (path, found) in found {
            let (field, place) = self.field(path, found, &value, argument);
            fields.extend(field);
            places.extend(place);
        }
        (fields, places)
    }

    /// A part that an argument becomes as a whole.
    fn list(&self, part: &Trailing, argument: Option<&Field>) -> TokenStream {
        let (ident, value) =
            (part_ident(part), value_ident(&argument.map_or(part.name.clone(), |arg| arg.name.clone())));
        let is_encoded = argument.is_some_and(|arg| matches!(arg.shape.kind, Kind::Struct(_) | Kind::Object(_)));
        match &part.part {
            Some(LayoutType::Layout(name)) if is_encoded => {
                let ty = type_ident(name);
                quote!(let #ident = encoder.parts::<payloads::#ty, _>(#value)?;)
            }
            Some(_) if is_encoded => quote!(let #ident = encoder.parts::<u64, _>(#value)?;),
            _ => quote!(let #ident = #value;),
        }
    }

    /// A field that an argument, or a field of an argument, becomes.
    fn field(
        &self,
        path: &str,
        found: Found<'_>,
        value: &Ident,
        argument: Option<&Field>,
    ) -> (TokenStream, TokenStream) {
        let target = target(path);
        let Some(argument) = argument else { return (quote!(), quote!()) };
        let is_layout = matches!(found, Found::Field(field) if matches!(field.ty, LayoutType::Layout(_)));
        match &argument.shape.kind {
            Kind::Object(name) if name == "buffer" && is_layout => {
                (quote!(), quote!(encoder.whole(#value, &mut #target)?;))
            }
            Kind::Object(name) if name == "buffer" => {
                let reference = target_of(path);
                (quote!(), quote!(encoder.place(#value, &mut #reference)?;))
            }
            Kind::Object(_) => (quote!(#target = encoder.id(#value)?;), quote!()),
            Kind::Handle(_) => (quote!(#target = encoder.ordinal(executable, #value)?;), quote!()),
            Kind::Struct(_) if is_layout && self.is_whole(path, argument) => {
                (quote!(#target = encoder.part(#value)?;), quote!())
            }
            Kind::Struct(name) => {
                let last = path.rsplit('.').next().unwrap_or(path);
                let fields = self.hal.structure(name).into_iter().flat_map(|structure| &structure.fields);
                let suffix = format!("_{last}");
                let mut fields = fields.filter(|field| field.name == last || field.name.ends_with(&suffix));
                let field = value_ident(fields.next().map_or(last, |field| &field.name));
                match is_layout {
                    true => (quote!(#target = encoder.part(&#value.#field)?;), quote!()),
                    false => (quote!(#target = #value.#field.to_field();), quote!()),
                }
            }
            _ => (quote!(#target = #value.to_field();), quote!()),
        }
    }

    /// Whether a struct becomes a layout as a whole, and not one of its fields.
    fn is_whole(&self, path: &str, argument: &Field) -> bool {
        let arguments = self.operation.arguments.iter().flatten();
        arguments.filter(|(name, _)| *name == argument.name).any(|(_, paths)| paths.len() == 1 && paths[0] == path)
    }

    /// The number of elements of a part, and its bytes if no argument becomes it.
    fn part(&self, part: &Trailing, arguments: &[(String, Vec<String>)]) -> TokenStream {
        let is_filled = arguments.iter().any(|(name, paths)| {
            !BESIDES.contains(&name.as_str())
                && paths.iter().any(|path| path == &part.name || path.starts_with(&format!("{}.", part.name)))
        });
        let (ident, count) = (part_ident(part), value_ident(&part.count));
        let none = (!is_filled).then(|| quote!(let #ident: &[u8] = &[];));
        let size = part
            .part
            .as_ref()
            .map_or(1, |ty| super::scope::size_of(ty, super::scope::Scope::Api(self.api, "payloads")));
        let size = literal(size);
        quote! {
            #none
            head.#count = elements(#ident.byte_length(), #size)?;
        }
    }

    fn find(&self, path: &str) -> Option<Found<'_>> {
        let names: Vec<String> = path.split('.').map(str::to_string).collect();
        find(self.api, self.layout, &names)
    }
}

fn part_of(found: Found<'_>) -> Option<&Trailing> {
    match found {
        Found::Part(part) | Found::Held(part, ..) => Some(part),
        Found::Field(_) => None,
    }
}

/// `head.target_ref.offset`
fn target(path: &str) -> TokenStream {
    let names = path.split('.').map(value_ident);
    quote!(head #(.#names)*)
}

/// The layout that the field is in.
fn target_of(path: &str) -> TokenStream {
    target(path.rsplit_once('.').map_or(path, |(before, _)| before))
}
