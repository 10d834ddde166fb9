//! Emits the fields of dumps of a format of files: for each payload, its fields in a dump for people and in one for
//! programs; the rows of exports; and a description of each layout, for tests.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::constants::literal;
use super::hal_types::{type_ident, value_ident};
use super::scope::{Scope, size_of};
use super::trailing;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::model::api::Plain;
use crate::model::format::{FieldForm, Format, Found, PartForm, Payload, ShownField, find, layout};
use crate::model::hal::{Layout, LayoutField, LayoutType};
use crate::model::int::Int;

/// `FORMAT/dump.rs`
pub fn emit(format: &Format) -> Vec<GeneratedFile> {
    let scope = Scope::Api(&format.api, "dump");
    let layouts = format.api.files.iter().flat_map(|file| &file.layouts).filter(|layout| layout.writable);
    let mut items = trailing::descriptions(layouts, scope);
    if !format.payloads.is_empty() {
        items.extend(payloads(format, "text", |payload| &payload.text, scope));
        items.extend(payloads(format, "json", |payload| &payload.json, scope));
        for part in &format.parts {
            items.extend(self::part(format, part, "text", &part.text, scope));
            items.extend(self::part(format, part, "json", &part.json, scope));
        }
        items.extend(names(format));
    }
    let mut files = Vec::new();
    if !format.rows.is_empty() {
        let mut items = rows(format, Scope::Api(&format.api, "rows"));
        let parts = format.parts.iter();
        items.extend(parts.map(|part| self::part(format, part, "json", &part.json, Scope::Api(&format.api, "rows"))));
        files.push(source(&format!("{}/rows.rs", format.api.name), &format!("{}/*.yaml", format.api.folder), items));
    }
    files.extend([source(&format!("{}/dump.rs", format.api.name), &format!("{}/*.yaml", format.api.folder), items)]);
    files
}

/// The names of payloads.
fn names(format: &Format) -> TokenStream {
    let names = format.payloads.iter().map(|payload| {
        let (code, name) = (literal(u64::from(payload.code)), &payload.name);
        quote!((#code, #name))
    });
    let constants = format.payloads.iter().map(|payload| {
        let (code, doc) = (literal(u64::from(payload.code)), format!("The payload `{}`.", payload.name));
        let name = format_ident!("{}", payload.name.to_ascii_uppercase());
        quote!(#[doc = #doc] pub const #name: u32 = #code;)
    });
    quote! {
        /// The number and name of each payload.
        pub const PAYLOADS: &[(u32, &str)] = &[#(#names),*];

        /// The numbers of payloads.
        pub mod payload {
            #(#constants)*
        }
    }
}

fn payloads<'a>(
    format: &'a Format,
    form: &str,
    fields: impl Fn(&'a Payload) -> &'a Vec<ShownField>,
    scope: Scope<'_>,
) -> TokenStream {
    let arms = format.payloads.iter().filter_map(|payload| {
        let layout = layout(&format.api, &payload.name)?;
        let (code, text, path) = (literal(u64::from(payload.code)), &payload.name, scope.path(&payload.name));
        let reserved = layout.fields.iter().any(|field| has_reserved(format, field));
        let reserved = reserved.then(|| quote!(payload.check_reserved(#text, head.reserved_is_zero())?;));
        let end = if layout.then.is_empty() {
            quote!(payload.check_end(#text, #path::SIZE as u64)?;)
        } else {
            quote! {
                let ranges = payload.check_counts(head.ranges())?;
                payload.check_end(#text, ranges.end)?;
            }
        };
        let shown: Vec<&ShownField> = fields(payload).iter().collect();
        let held = held_parts(format, layout, &shown, scope);
        let shown = shown.iter().map(|field| show(format, layout, field, form));
        let origin = comment(&payload.origin.to_string());
        Some(quote! {
            #code => {
                #origin
                let head = #path::read(&payload.head(#text)?);
                #reserved
                #end
                #held
                #(#shown)*
            }
        })
    });
    let name = format_ident!("{form}_fields");
    let doc = format!("Writes the fields of a payload in the form `{form}`. False for a payload that is not known.");
    quote! {
        #[doc = #doc]
        pub(crate) fn #name(code: u32, payload: &mut PayloadReader<'_>, out: &mut dyn Fields) -> Result<bool, ReadError> {
            match code {
                #(#arms)*
                _ => return Ok(false),
            }
            Ok(true)
        }
    }
}

fn has_reserved(format: &Format, field: &LayoutField) -> bool {
    match &field.ty {
        LayoutType::Layout(name) => match format.api.plain(name) {
            Some(Plain::Layout(inner)) => inner.fields.iter().any(|field| has_reserved(format, field)),
            _ => false,
        },
        _ => field.name.starts_with("reserved"),
    }
}

/// Reads the layouts that parts begin with, if a field of one is shown.
fn held_parts(format: &Format, layout: &Layout, shown: &[&ShownField], scope: Scope<'_>) -> TokenStream {
    let mut parts: Vec<(&str, &Layout)> = Vec::new();
    for field in shown {
        if let Some(Found::Held(part, held, _)) = find(&format.api, layout, &field.path)
            && !parts.iter().any(|(name, _)| *name == part.name)
        {
            parts.push((&part.name, held));
        }
    }
    let reads = parts.into_iter().map(|(name, held)| {
        let (ident, path, text) = (value_ident(name), scope.path(&held.name), &held.name);
        let reserved = held.fields.iter().any(|field| has_reserved(format, field));
        let reserved = reserved.then(|| quote!(payload.check_reserved(#text, held.reserved_is_zero())?;));
        quote! {
            let #ident = match ranges.#ident.is_empty() {
                true => None,
                false => {
                    let held = #path::read(&payload.held(#text, &ranges.#ident)?);
                    #reserved
                    let inner = payload.check_counts(held.ranges())?;
                    payload.check_held(#text, &ranges.#ident, inner.end)?;
                    Some(held)
                }
            };
        }
    });
    quote!(#(#reads)*)
}

/// One field of a dump. The layout is the variable `head`, the places of its parts are `ranges`.
fn show(format: &Format, layout: &Layout, field: &ShownField, form: &str) -> TokenStream {
    let label = &field.label;
    let path = field.path.iter().map(|name| value_ident(name));
    match find(&format.api, layout, &field.path) {
        Some(Found::Field(found)) => value(format, found, field, &quote!(head #(.#path)*), form),
        Some(Found::Part(part)) => {
            let range = value_ident(&part.name);
            match (&field.form, &part.part) {
                (FieldForm::Range, _) => quote!(out.range(#label, payload.place(&ranges.#range))?;),
                (FieldForm::List, Some(LayoutType::Layout(name))) => {
                    let function = format_ident!("{name}_{form}");
                    quote!(payload.list(#label, &ranges.#range, out, #function)?;)
                }
                _ => quote!(payload.string(#label, &ranges.#range, out)?;),
            }
        }
        Some(Found::Held(part, _, found)) => {
            let (part, name) = (value_ident(&part.name), value_ident(&found.name));
            let number = number(label, &found.ty, &quote!(held.#name));
            quote!(if let Some(held) = &#part { #number })
        }
        // The model refuses it.
        None => TokenStream::new(),
    }
}

/// A number as a field: `value` is of the type `ty`.
fn number(label: &str, ty: &LayoutType, value: &TokenStream) -> TokenStream {
    match ty {
        LayoutType::Int(Int::I64) => quote!(out.signed(#label, #value)?;),
        LayoutType::Int(Int::I32) => quote!(out.signed(#label, i64::from(#value))?;),
        _ => {
            let wide = wide(ty, value);
            quote!(out.number(#label, #wide)?;)
        }
    }
}

/// `value` as a `u64`.
fn wide(ty: &LayoutType, value: &TokenStream) -> TokenStream {
    match ty {
        LayoutType::Int(int) if int.size() == 8 => value.clone(),
        _ => quote!(u64::from(#value)),
    }
}

fn value(format: &Format, found: &LayoutField, field: &ShownField, value: &TokenStream, form: &str) -> TokenStream {
    let label = &field.label;
    match (&found.ty, &field.form) {
        (LayoutType::Layout(name), FieldForm::Plain) if layout(&format.api, name).is_some() => {
            let function = format_ident!("{name}_{form}");
            quote! {
                out.open(#label)?;
                #function(&#value, out)?;
                out.close()?;
            }
        }
        (LayoutType::Layout(_), FieldForm::Plain) => quote!(out.number(#label, u64::from(#value.0))?;),
        (LayoutType::Layout(_), FieldForm::Name) => quote!(out.name(#label, #value.name())?;),
        (LayoutType::Layout(_), _) => quote!(out.named(#label, #value.name(), u64::from(#value.0))?;),
        (_, FieldForm::Word) => quote!(out.word(#label, first_word(&#value))?;),
        (ty, FieldForm::Hex) => {
            let scope = Scope::Api(&format.api, "dump");
            let (wide, digits) = (wide(ty, value), literal(2 * size_of(ty, scope)));
            quote!(out.hex(#label, #wide, #digits)?;)
        }
        _ if found.count.is_some() => quote!(out.array(#label, &#value)?;),
        (_, FieldForm::Bit(bit)) => {
            let mask = literal(1u64.checked_shl(*bit).unwrap_or(0));
            quote!(out.flag(#label, #value & #mask != 0)?;)
        }
        (ty, _) => number(label, ty, value),
    }
}

/// `FORMAT/rows.rs`: the rows of exports.
fn rows(format: &Format, scope: Scope<'_>) -> TokenStream {
    let rows = format.rows.iter().filter_map(|row| {
        let content = format.contents.iter().find(|content| content.name == row.content)?;
        let layout = layout(&format.api, &content.layout)?;
        let (variant, path, name) = (type_ident(&content.name), scope.path(&layout.name), &row.name);
        let fields = row.json.iter().map(|field| row_field(format, layout, field));
        let read = if layout.then.is_empty() {
            quote!(let head = #path::read(&record.head()?);)
        } else {
            let view = format!("{path}Parts").parse::<TokenStream>().unwrap_or_default();
            quote! {
                let bytes = record.bytes()?;
                let parts = record.check_parts(#view::read(&bytes))?;
                let head = parts.head;
            }
        };
        let origin = comment(&row.origin.to_string());
        Some(quote! {
            Content::#variant => {
                #origin
                #read
                joins.begin(#name, out)?;
                #(#fields)*
            }
        })
    });
    quote! {
        /// Writes the row of a record of a chunk. False if records of this type have none.
        pub(crate) fn row(
            content: Content,
            record: &mut TypedRecord<'_>,
            joins: &Joins<'_>,
            out: &mut dyn Fields,
        ) -> Result<bool, ReadError> {
            match content {
                #(#rows)*
                _ => return Ok(false),
            }
            Ok(true)
        }
    }
}

/// A field of a row. The record is the variable `head`, or `parts` with what follows it.
fn row_field(format: &Format, layout: &Layout, field: &ShownField) -> TokenStream {
    let label = &field.label;
    match &field.form {
        FieldForm::Text(text) => return quote!(out.text(#label, Some(#text))?;),
        FieldForm::Computed(name) => {
            let function = format_ident!("{}_{name}", layout.name);
            let record = if layout.then.is_empty() { quote!(&head) } else { quote!(&parts) };
            return quote!(joins.#function(#label, #record, out)?;);
        }
        _ => {}
    }
    match find(&format.api, layout, &field.path) {
        Some(Found::Part(part)) => {
            let name = value_ident(&part.name);
            match field.form {
                FieldForm::List => quote!(out.numbers(#label, &mut parts.#name.iter())?;),
                _ => quote!(out.string(#label, parts.#name)?;),
            }
        }
        _ => show(format, layout, field, "json"),
    }
}

/// The function that writes the fields of an element.
fn part(format: &Format, part: &PartForm, form: &str, fields: &[ShownField], scope: Scope<'_>) -> TokenStream {
    let Some(layout) = layout(&format.api, &part.name) else { return TokenStream::new() };
    let (name, path) = (format_ident!("{}_{form}", part.name), scope.path(&part.name));
    let fields = fields.iter().map(|field| show(format, layout, field, form));
    quote! {
        fn #name(head: &#path, out: &mut dyn Fields) -> Result<(), ReadError> {
            #(#fields)*
            Ok(())
        }
    }
}
