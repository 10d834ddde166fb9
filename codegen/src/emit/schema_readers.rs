//! Emits readers of the tables of `spec/schema`: for each file one module with typed accessors over the `flatbuffers`
//! crate, verifiers for untrusted bytes, and the little-endian headers and constants around FlatBuffers.
//!
//! An accessor is safe because a table can only be made by `root`, which verifies, or by an `unsafe` function whose
//! caller did.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::schema::{Cell, EnumValue, Field, FieldType, Item, ItemKind, Limits, Scalar, SchemaFile};

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    spec.schema
        .files
        .iter()
        .map(|(stem, file)| {
            let items = file.items.iter().map(|item| {
                let origin = comment(&item.origin.to_string());
                let item = emit_item(file, item);
                quote!(#origin #item)
            });
            source(&format!("schema/{stem}.rs"), &file.path, quote!(#(#items)*))
        })
        .collect()
}

fn emit_item(file: &SchemaFile, item: &Item) -> TokenStream {
    match &item.kind {
        ItemKind::Root { identifier, size_prefixed, limits } => root(item, identifier, *size_prefixed, limits),
        ItemKind::Table(fields) => table(file, item, fields),
        ItemKind::Struct(fields) => structure(file, item, fields),
        ItemKind::Enum { ty, values, .. } => enumeration(item, *ty, values),
        ItemKind::Union(variants) => union(item, variants),
        ItemKind::Layout(fields) => layout(item, fields),
        ItemKind::Constant { ty, value } => {
            let (doc, name, ty) = (doc(&item.doc), format_ident!("{}", item.name), scalar(*ty));
            let value = proc_macro2::Literal::u64_unsuffixed(*value);
            quote!(#doc pub const #name: #ty = #value;)
        }
        ItemKind::Text(text) => {
            let (doc, name) = (doc(&item.doc), format_ident!("{}", item.name));
            quote!(#doc pub const #name: &str = #text;)
        }
        ItemKind::Record { list, fields, rows } => record(item, list, fields, rows),
    }
}

fn doc(text: &str) -> TokenStream {
    let text = format!(" {text}");
    quote!(#[doc = #text])
}

fn scalar(ty: Scalar) -> TokenStream {
    let name = format_ident!("{}", ty.name());
    quote!(#name)
}

fn root(item: &Item, identifier: &str, size_prefixed: bool, limits: &Limits) -> TokenStream {
    let name = format_ident!("{}", item.name);
    let identifier = proc_macro2::Literal::byte_string(identifier.as_bytes());
    let Limits { depth, tables, expansion } = *limits;
    let (depth, tables, expansion) = (depth as usize, tables as usize, expansion as usize);
    let safety = comment("SAFETY: the caller promises verified bytes.");
    let (checked, unchecked, start) = if size_prefixed {
        let start = " The bytes start with their size prefix.";
        (quote!(size_prefixed_root_with_opts), quote!(size_prefixed_root_unchecked), start)
    } else {
        (quote!(root_with_opts), quote!(root_unchecked), " The bytes start with the root offset.")
    };
    quote! {
        /// The four bytes after the root offset of a file of this format.
        pub const IDENTIFIER: &[u8; 4] = #identifier;
        /// Verifies `bytes` and returns the root table.
        #[doc = #start]
        ///
        /// # Errors
        /// The first thing that does not lie inside of `bytes`, is not aligned, or exceeds a limit.
        pub fn root(bytes: &[u8]) -> Result<#name<'_>, flatbuffers::InvalidFlatbuffer> {
            let options = flatbuffers::VerifierOptions {
                max_depth: #depth,
                max_tables: #tables,
                max_apparent_size: bytes.len().saturating_mul(#expansion),
                ignore_missing_null_terminator: false,
            };
            flatbuffers::#checked::<#name>(&options, bytes)
        }
        /// The root table of `bytes`, without verification.
        ///
        /// # Safety
        /// [`root`] must have accepted these very bytes.
        pub unsafe fn root_unchecked(bytes: &[u8]) -> #name<'_> {
            #safety
            unsafe { flatbuffers::#unchecked::<#name>(bytes) }
        }
    }
}

/// A table field with its slot offset in the vtable.
struct Slot<'f> {
    field: &'f Field,
    offset: u16,
}

/// The slots of a table. A union takes two, its tag first.
fn slots<'f>(file: &SchemaFile, fields: &'f [Field]) -> Vec<Slot<'f>> {
    let mut offset = 4;
    let mut slots = Vec::new();
    for field in fields {
        slots.push(Slot { field, offset });
        offset += if union_of(file, &field.ty).is_some() { 4 } else { 2 };
    }
    slots
}

/// Name and variants of the union that a field holds one or many of.
fn union_of<'s>(file: &'s SchemaFile, ty: &FieldType) -> Option<(&'s str, &'s [String])> {
    match ty {
        FieldType::Vector(element) => union_of(file, element),
        FieldType::Named(name) => match file.item(name) {
            Some(Item { name, kind: ItemKind::Union(variants), .. }) => Some((name, variants)),
            _ => None,
        },
        _ => None,
    }
}

fn table(file: &SchemaFile, item: &Item, fields: &[Field]) -> TokenStream {
    let (name, label) = (format_ident!("{}", item.name), format!("{}@{{:#x}}", item.name));
    let doc = doc(&item.doc);
    let slots = slots(file, fields);
    let mut visit = quote!(verifier.visit_table(position)?);
    for slot in &slots {
        visit = verify_field(file, slot, &visit);
    }
    let accessors = slots.iter().map(|slot| accessor(file, slot));
    let slot_constants = slots.iter().map(|slot| {
        let (name, offset) = (format_ident!("SLOT_{}", slot.field.name.to_uppercase()), slot.offset);
        let doc = self::doc(&format!("Slot of `{}` in the vtable, for writers.", slot.field.name));
        quote!(#doc pub const #name: flatbuffers::VOffsetT = #offset;)
    });
    let safety = comment("SAFETY: the caller has verified the table.");
    quote! {
        #doc
        #[derive(Clone, Copy)]
        pub struct #name<'a>(flatbuffers::Table<'a>);
        impl std::fmt::Debug for #name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, #label, self.place())
            }
        }
        impl<'a> flatbuffers::Follow<'a> for #name<'a> {
            type Inner = #name<'a>;
            unsafe fn follow(buffer: &'a [u8], place: usize) -> #name<'a> {
                #safety
                #name(unsafe { flatbuffers::Table::new(buffer, place) })
            }
        }
        impl flatbuffers::Verifiable for #name<'_> {
            fn run_verifier(
                verifier: &mut flatbuffers::Verifier<'_, '_>,
                position: usize,
            ) -> Result<(), flatbuffers::InvalidFlatbuffer> {
                #visit.finish();
                Ok(())
            }
        }
        impl<'a> #name<'a> {
            #(#slot_constants)*
            /// Offset of the table in the FlatBuffer, for messages.
            pub fn place(&self) -> usize {
                self.0.loc()
            }
            #(#accessors)*
        }
    }
}

fn verify_field(file: &SchemaFile, slot: &Slot<'_>, table: &TokenStream) -> TokenStream {
    let (name, offset, required) = (&slot.field.name, slot.offset, slot.field.required);
    let Some((_, variants)) = union_of(file, &slot.field.ty) else {
        let ty = stored(file, &slot.field.ty);
        return quote!(#table.visit_field::<#ty>(#name, #offset, #required)?);
    };
    let (tag_name, value_offset) = (format!("{name}_type"), slot.offset + 2);
    let arms = variants.iter().zip(1u8..).map(|(variant, tag)| {
        let ty = format_ident!("{variant}");
        quote!(#tag => verifier.verify_union_variant::<flatbuffers::ForwardsUOffset<#ty>>(#variant, position),)
    });
    // Tags of later versions are not followed, so nothing has to be proven about their values.
    let verify = quote!(|tag, verifier, position| match tag { #(#arms)* _ => Ok(()) });
    if matches!(slot.field.ty, FieldType::Vector(_)) {
        quote! {
            visit_union_vector(
                #table, #tag_name, #offset, #name, #value_offset, #verify,
            )?
        }
    } else {
        quote!(#table.visit_union::<u8, _>(#tag_name, #offset, #name, #value_offset, #required, #verify)?)
    }
}

/// The type that the `flatbuffers` crate follows for a field that is no union.
fn stored(file: &SchemaFile, ty: &FieldType) -> TokenStream {
    match ty {
        FieldType::Scalar(ty) => scalar(*ty),
        FieldType::String => quote!(flatbuffers::ForwardsUOffset<&str>),
        FieldType::Vector(element) => {
            let element = stored(file, element);
            quote!(flatbuffers::ForwardsUOffset<flatbuffers::Vector<'_, #element>>)
        }
        FieldType::Named(name) => {
            let ident = format_ident!("{name}");
            match file.item(name).map(|item| &item.kind) {
                Some(ItemKind::Enum { ty, .. }) => scalar(*ty),
                Some(ItemKind::Struct(_)) => quote!(#ident),
                _ => quote!(flatbuffers::ForwardsUOffset<#ident<'_>>),
            }
        }
    }
}

/// The type of a vector's elements as accessors return it, with the lifetime of the buffer.
fn element(file: &SchemaFile, ty: &FieldType) -> TokenStream {
    match ty {
        FieldType::String => quote!(flatbuffers::ForwardsUOffset<&'a str>),
        FieldType::Named(name) if matches!(file.item(name).map(|item| &item.kind), Some(ItemKind::Table(_))) => {
            let ident = format_ident!("{name}");
            quote!(flatbuffers::ForwardsUOffset<#ident<'a>>)
        }
        ty => stored(file, ty),
    }
}

fn accessor(file: &SchemaFile, slot: &Slot<'_>) -> TokenStream {
    let field = slot.field;
    let (name, offset, doc) = (format_ident!("{}", field.name), slot.offset, doc(&field.doc));
    let safety = comment("SAFETY: the verifier has seen the field.");
    if let Some((union, variants)) = union_of(file, &field.ty) {
        return union_accessor(slot, union, variants);
    }
    let default = proc_macro2::Literal::u64_unsuffixed(field.default);
    match &field.ty {
        FieldType::Scalar(ty) => {
            let ty = scalar(*ty);
            quote! {
                #doc
                pub fn #name(&self) -> #ty {
                    #safety
                    unsafe { self.0.get::<#ty>(#offset, None) }.unwrap_or(#default)
                }
            }
        }
        FieldType::Named(type_name) => {
            let ident = format_ident!("{type_name}");
            match file.item(type_name).map(|item| &item.kind) {
                Some(ItemKind::Enum { ty, .. }) => {
                    let ty = scalar(*ty);
                    quote! {
                        #doc
                        pub fn #name(&self) -> #ident {
                            #safety
                            #ident(unsafe { self.0.get::<#ty>(#offset, None) }.unwrap_or(#default))
                        }
                    }
                }
                Some(ItemKind::Struct(_)) => quote! {
                    #doc
                    pub fn #name(&self) -> Option<#ident> {
                        #safety
                        unsafe { self.0.get::<#ident>(#offset, None) }
                    }
                },
                _ => quote! {
                    #doc
                    pub fn #name(&self) -> Option<#ident<'a>> {
                        #safety
                        unsafe { self.0.get::<flatbuffers::ForwardsUOffset<#ident<'a>>>(#offset, None) }
                    }
                },
            }
        }
        FieldType::String => {
            let (returned, tail) = if field.required {
                (quote!(&'a str), quote!(.unwrap_or_default()))
            } else {
                (quote!(Option<&'a str>), quote!())
            };
            quote! {
                #doc
                pub fn #name(&self) -> #returned {
                    #safety
                    unsafe { self.0.get::<flatbuffers::ForwardsUOffset<&'a str>>(#offset, None) } #tail
                }
            }
        }
        FieldType::Vector(inner) => {
            let element = element(file, inner);
            quote! {
                #doc
                pub fn #name(&self) -> Option<flatbuffers::Vector<'a, #element>> {
                    #safety
                    unsafe {
                        self.0.get::<flatbuffers::ForwardsUOffset<flatbuffers::Vector<'a, #element>>>(#offset, None)
                    }
                }
            }
        }
    }
}

fn union_accessor(slot: &Slot<'_>, union: &str, variants: &[String]) -> TokenStream {
    let field = slot.field;
    let (name, tag_offset, offset) = (format_ident!("{}", field.name), slot.offset, slot.offset + 2);
    let (doc, union) = (doc(&field.doc), format_ident!("{union}"));
    let safety = comment("SAFETY: the verifier has seen the field.");
    // The verifier has looked at the value of a known tag only, so the value of an unknown one is not touched.
    let arms = |table: TokenStream| {
        let arms = variants.iter().zip(1u8..).map(|(variant, tag)| {
            let variant = format_ident!("{variant}");
            quote!(#tag => #union::#variant(#variant(#table)),)
        });
        quote!(#(#arms)* _ => #union::Unknown(tag),)
    };
    if matches!(field.ty, FieldType::Vector(_)) {
        let (length, element) = (format_ident!("{name}_len"), name);
        let arms = arms(quote!(tables.get(index)));
        quote! {
            /// Number of elements of the vector below.
            pub fn #length(&self) -> usize {
                #safety
                let tags = unsafe {
                    self.0.get::<flatbuffers::ForwardsUOffset<flatbuffers::Vector<'a, u8>>>(#tag_offset, None)
                };
                tags.map_or(0, |tags| tags.len())
            }
            #doc
            /// Element `index`; none if there is no such element or it holds nothing.
            pub fn #element(&self, index: usize) -> Option<#union<'a>> {
                #safety
                let tags = unsafe {
                    self.0.get::<flatbuffers::ForwardsUOffset<flatbuffers::Vector<'a, u8>>>(#tag_offset, None)
                }?;
                #safety
                let tables = unsafe {
                    self.0.get::<flatbuffers::ForwardsUOffset<
                        flatbuffers::Vector<'a, flatbuffers::ForwardsUOffset<flatbuffers::Table<'a>>>,
                    >>(#offset, None)
                }?;
                if index >= tags.len() || index >= tables.len() {
                    return None;
                }
                let tag = tags.get(index);
                if tag == 0 {
                    return None;
                }
                Some(match tag { #arms })
            }
        }
    } else {
        let arms = arms(quote!(table()?));
        quote! {
            #doc
            pub fn #name(&self) -> Option<#union<'a>> {
                #safety
                let tag = unsafe { self.0.get::<u8>(#tag_offset, None) }.unwrap_or(0);
                if tag == 0 {
                    return None;
                }
                let table = || {
                    #safety
                    unsafe { self.0.get::<flatbuffers::ForwardsUOffset<flatbuffers::Table<'a>>>(#offset, None) }
                };
                Some(match tag { #arms })
            }
        }
    }
}

/// Offsets of the fields of a struct, and its size and alignment: each field is at its own alignment.
fn offsets(file: &SchemaFile, fields: &[Field]) -> (Vec<(usize, Scalar)>, usize, usize) {
    let (mut offset, mut align, mut places) = (0usize, 1, Vec::new());
    for field in fields {
        let ty = match &field.ty {
            FieldType::Scalar(ty) => *ty,
            FieldType::Named(name) => match file.item(name).map(|item| &item.kind) {
                Some(ItemKind::Enum { ty, .. }) => *ty,
                _ => continue,
            },
            _ => continue,
        };
        offset = offset.next_multiple_of(ty.size());
        places.push((offset, ty));
        offset += ty.size();
        align = align.max(ty.size());
    }
    (places, offset.next_multiple_of(align), align)
}

fn structure(file: &SchemaFile, item: &Item, fields: &[Field]) -> TokenStream {
    let name = format_ident!("{}", item.name);
    let doc = doc(&item.doc);
    let (places, size, align) = offsets(file, fields);
    let names: Vec<_> = fields.iter().map(|field| format_ident!("{}", field.name)).collect();
    let declarations = fields.iter().zip(&places).map(|(field, (_, ty))| {
        let (doc, name, ty) = (self::doc(&field.doc), format_ident!("{}", field.name), scalar(*ty));
        let ty = match &field.ty {
            FieldType::Named(name) => {
                let name = format_ident!("{name}");
                quote!(#name)
            }
            _ => ty,
        };
        quote!(#doc pub #name: #ty,)
    });
    let reads = fields.iter().zip(&places).map(|(field, (offset, ty))| {
        let read = read_le("bytes", *offset, *ty);
        match &field.ty {
            FieldType::Named(name) => {
                let name = format_ident!("{name}");
                quote!(#name(#read))
            }
            _ => read,
        }
    });
    let writes = fields.iter().zip(&places).map(|(field, (offset, ty))| {
        let (name, end) = (format_ident!("{}", field.name), offset + ty.size());
        let value = if matches!(field.ty, FieldType::Named(_)) { quote!(self.#name.0) } else { quote!(self.#name) };
        quote!(target[#offset..#end].copy_from_slice(&#value.to_le_bytes());)
    });
    let safety = comment("Verified; if not, this panics.");
    let asserts = names.iter().zip(&places).map(|(field, (offset, _))| {
        quote!(
            const _: () = assert!(std::mem::offset_of!(#name, #field) == #offset);
        )
    });
    quote! {
        #doc
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(C)]
        pub struct #name {
            #(#declarations)*
        }
        const _: () = assert!(size_of::<#name>() == #size && align_of::<#name>() == #align);
        #(#asserts)*
        impl<'a> flatbuffers::Follow<'a> for #name {
            type Inner = #name;
            unsafe fn follow(buffer: &'a [u8], place: usize) -> #name {
                #safety
                let bytes = &buffer[place..place + #size];
                #name { #(#names: #reads),* }
            }
        }
        impl flatbuffers::Verifiable for #name {
            fn run_verifier(
                verifier: &mut flatbuffers::Verifier<'_, '_>,
                position: usize,
            ) -> Result<(), flatbuffers::InvalidFlatbuffer> {
                verifier.in_buffer::<#name>(position)
            }
        }
        impl flatbuffers::SimpleToVerifyInSlice for #name {}
        impl flatbuffers::Push for #name {
            type Output = #name;
            unsafe fn push(&self, target: &mut [u8], _written: usize) {
                #(#writes)*
            }
            fn alignment() -> flatbuffers::PushAlignment {
                flatbuffers::PushAlignment::new(#align)
            }
        }
    }
}

fn enumeration(item: &Item, ty: Scalar, values: &[EnumValue]) -> TokenStream {
    let (name, doc, ty) = (format_ident!("{}", item.name), doc(&item.doc), scalar(ty));
    let known = proc_macro2::Literal::u64_unsuffixed(values.iter().fold(0, |all, value| all | value.value));
    let constants = values.iter().map(|value| {
        let (doc, ident) = (self::doc(&value.doc), format_ident!("{}", value.name));
        let number = proc_macro2::Literal::u64_unsuffixed(value.value);
        quote!(#doc pub const #ident: #name = #name(#number);)
    });
    let flags = match &item.kind {
        ItemKind::Enum { flags: true, .. } => quote! {
            /// True if all bits of `other` are set.
            pub fn contains(self, other: #name) -> bool {
                self.0 & other.0 == other.0
            }
            /// The bits that have no name.
            pub fn unknown(self) -> #ty {
                self.0 & !#known
            }
        },
        _ => quote!(),
    };
    quote! {
        #doc
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct #name(pub #ty);
        impl #name {
            #(#constants)*
            #flags
        }
    }
}

fn union(item: &Item, variants: &[String]) -> TokenStream {
    let (name, doc) = (format_ident!("{}", item.name), doc(&item.doc));
    let variants = variants.iter().map(|variant| {
        let (doc, ident) = (self::doc(&format!("A `{variant}`.")), format_ident!("{variant}"));
        quote!(#doc #ident(#ident<'a>),)
    });
    quote! {
        #doc
        #[derive(Clone, Copy, Debug)]
        pub enum #name<'a> {
            #(#variants)*
            /// A variant of a later version, with its tag.
            Unknown(u8),
        }
    }
}

fn layout(item: &Item, fields: &[Field]) -> TokenStream {
    let (name, doc) = (format_ident!("{}", item.name), doc(&item.doc));
    let mut offset = 0;
    let (mut declarations, mut reads, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    for field in fields {
        let FieldType::Scalar(ty) = field.ty else { continue };
        let (doc, field, rust) = (self::doc(&field.doc), format_ident!("{}", field.name), scalar(ty));
        let read = read_le("bytes", offset, ty);
        declarations.push(quote!(#doc pub #field: #rust,));
        reads.push(quote!(#field: #read,));
        let end = offset + ty.size();
        writes.push(quote!(bytes[#offset..#end].copy_from_slice(&self.#field.to_le_bytes());));
        offset = end;
    }
    quote! {
        #doc
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct #name {
            #(#declarations)*
        }
        impl #name {
            /// Bytes in the file.
            pub const SIZE: usize = #offset;
            /// Reads the first bytes of `bytes`; none if they are too few.
            pub fn read(bytes: &[u8]) -> Option<#name> {
                let bytes = bytes.first_chunk::<{ #name::SIZE }>()?;
                Some(#name { #(#reads)* })
            }
            /// The bytes in the file.
            pub fn to_bytes(&self) -> [u8; #name::SIZE] {
                let mut bytes = [0; #name::SIZE];
                #(#writes)*
                bytes
            }
        }
    }
}

/// A struct and the list of all there are of it.
fn record(item: &Item, list: &str, fields: &[Field], rows: &[Vec<Cell>]) -> TokenStream {
    let (name, list, doc) = (format_ident!("{}", item.name), format_ident!("{list}"), doc(&item.doc));
    let declarations = fields.iter().map(|field| {
        let (doc, field_name) = (self::doc(&field.doc), format_ident!("{}", field.name));
        let ty = match field.ty {
            FieldType::Scalar(ty) => scalar(ty),
            _ => quote!(&'static str),
        };
        quote!(#doc pub #field_name: #ty,)
    });
    let rows = rows.iter().map(|row| {
        let values = fields.iter().zip(row).map(|(field, cell)| {
            let field_name = format_ident!("{}", field.name);
            match cell {
                Cell::Number(value) => {
                    let value = proc_macro2::Literal::u64_unsuffixed(*value);
                    quote!(#field_name: #value,)
                }
                Cell::Text(text) => quote!(#field_name: #text,),
            }
        });
        quote!(#name { #(#values)* },)
    });
    quote! {
        #doc
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct #name {
            #(#declarations)*
        }
        /// All of them.
        pub const #list: &[#name] = &[#(#rows)*];
    }
}

/// Reads a little-endian number at a constant offset of the slice called `slice`.
fn read_le(slice: &str, offset: usize, ty: Scalar) -> TokenStream {
    let (slice, ty_name) = (format_ident!("{slice}"), scalar(ty));
    let bytes = (offset..offset + ty.size()).map(|index| quote!(#slice[#index]));
    quote!(#ty_name::from_le_bytes([#(#bytes),*]))
}
