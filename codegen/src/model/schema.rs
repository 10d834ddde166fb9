//! The model of `spec/schema/`: FlatBuffer tables, and the headers and constants around them in a file.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;

/// Every entry of `spec/schema/`, by the stem of its file.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The files, by stem: `bytecode_module_def`.
    pub files: BTreeMap<String, SchemaFile>,
}

/// The entries of one file. Names are resolved within the file.
#[derive(Clone, Debug, Default)]
pub struct SchemaFile {
    /// Path from the workspace root.
    pub path: String,
    /// Its entries in order.
    pub items: Vec<Item>,
}

impl SchemaFile {
    /// The entry called `name`.
    pub fn item(&self, name: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.name == name && !matches!(item.kind, ItemKind::Root { .. }))
    }
}

/// One entry.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: ItemKind,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// Kinds of entries.
#[derive(Clone, Debug)]
pub enum ItemKind {
    /// The FlatBuffer root of a file format.
    Root {
        /// The four bytes after the root offset.
        identifier: String,
        /// True if the FlatBuffer starts with its own size, as a word that counts for alignment.
        size_prefixed: bool,
        /// The limits of the verifier.
        limits: Limits,
    },
    /// A table: fields in slot order.
    Table(Vec<Field>),
    /// A struct: fields in order, each at its alignment.
    Struct(Vec<Field>),
    /// Named numbers.
    Enum {
        /// The integer that is stored.
        ty: Scalar,
        /// True if the values are bits.
        flags: bool,
        /// The values.
        values: Vec<EnumValue>,
    },
    /// One of several tables; their tags count from 1, 0 is none.
    Union(Vec<String>),
    /// Little-endian fields without padding, outside of any FlatBuffer.
    Layout(Vec<Field>),
    /// A number.
    Constant {
        /// Its type.
        ty: Scalar,
        /// Its value.
        value: u64,
    },
    /// A text.
    Text(String),
    /// A struct and the list of all there are of it.
    Record {
        /// Name of the list.
        list: String,
        /// The columns: numbers and strings.
        fields: Vec<Field>,
        /// The rows, each with a value for every column.
        rows: Vec<Vec<Cell>>,
    },
}

/// A value in a list of records.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

/// The limits of the FlatBuffer verifier.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Nesting of tables.
    pub depth: u32,
    /// Number of tables.
    pub tables: u32,
    /// Total size of all references, shared parts counted each time, as a multiple of the size of the FlatBuffer.
    pub expansion: u32,
}

/// One field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: FieldType,
    /// Value if the field is absent (tables only).
    pub default: u64,
    /// True if it must not be absent (tables only).
    pub required: bool,
    /// Its documentation.
    pub doc: String,
}

/// Type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A number.
    Scalar(Scalar),
    /// UTF-8 text.
    String,
    /// An entry of the same file: table, struct, enum or union.
    Named(String),
    /// A vector.
    Vector(Box<FieldType>),
}

/// A number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// `u8`
    U8,
    /// `i8`
    I8,
    /// `u16`
    U16,
    /// `i16`
    I16,
    /// `u32`
    U32,
    /// `i32`
    I32,
    /// `u64`
    U64,
    /// `i64`
    I64,
}

impl Scalar {
    /// Every scalar.
    pub const ALL: [Scalar; 8] = [Self::U8, Self::I8, Self::U16, Self::I16, Self::U32, Self::I32, Self::U64, Self::I64];

    /// The name, which is Rust's as well.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
        }
    }

    /// The scalar that `name` names.
    pub fn from_name(name: &str) -> Option<Scalar> {
        Self::ALL.into_iter().find(|scalar| scalar.name() == name)
    }

    /// Bytes.
    pub fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 => 4,
            Self::U64 | Self::I64 => 8,
        }
    }
}

/// One value of an enum.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnumValue {
    /// Its name.
    pub name: String,
    /// Its number.
    pub value: u64,
    /// The meaning of the value.
    #[serde(default)]
    pub doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRoot {
    root: String,
    identifier: String,
    #[serde(default)]
    size_prefixed: bool,
    limits: Limits,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFields {
    #[serde(alias = "table", alias = "struct", alias = "layout")]
    name: String,
    fields: Vec<RawField>,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEnum {
    #[serde(rename = "enum")]
    name: String,
    #[serde(rename = "type")]
    ty: String,
    #[serde(default)]
    flags: bool,
    values: Vec<EnumValue>,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUnion {
    #[serde(rename = "union")]
    name: String,
    variants: Vec<String>,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConstant {
    constant: String,
    #[serde(rename = "type")]
    ty: String,
    value: Cell,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRecord {
    record: String,
    list: String,
    fields: Vec<RawField>,
    rows: Vec<BTreeMap<String, Cell>>,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawField {
    name: String,
    #[serde(rename = "type")]
    ty: String,
    #[serde(default)]
    default: u64,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    doc: String,
}

impl Schema {
    /// Reads the entries of all files below `spec/schema/`, in the order of their paths.
    pub fn load(entries: &[Entry], diagnostics: &mut Diagnostics) -> Self {
        let mut schema = Schema::default();
        for entry in entries {
            let file = schema.files.entry(entry.origin.stem().to_string()).or_default();
            file.path.clone_from(&entry.origin.file);
            let Some(item) = load_item(entry, diagnostics) else { continue };
            if item.doc.trim().is_empty() {
                diagnostics.error(&item.origin, format!("{} `{}` has no doc", entry.kind, item.name));
            }
            let twin = file.item(&item.name).filter(|_| !matches!(item.kind, ItemKind::Root { .. }));
            if let Some(twin) = twin {
                diagnostics.error(&item.origin, format!("`{}` is already described at {}", item.name, twin.origin));
            }
            file.items.push(item);
        }
        for file in schema.files.values() {
            for item in &file.items {
                check(file, item, diagnostics);
            }
        }
        schema
    }
}

fn load_item(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Item> {
    let (name, kind, doc) = match entry.kind.as_str() {
        "root" => {
            let raw = entry.parse::<RawRoot>(diagnostics)?;
            if raw.identifier.len() != 4 {
                diagnostics.error(&entry.origin_of("identifier"), "a file identifier has four bytes");
            }
            let RawRoot { identifier, size_prefixed, limits, .. } = raw;
            (raw.root, ItemKind::Root { identifier, size_prefixed, limits }, raw.doc)
        }
        kind @ ("table" | "struct" | "layout") => {
            let raw = entry.parse::<RawFields>(diagnostics)?;
            let fields = load_fields(kind, raw.fields, entry, diagnostics);
            let kind = match kind {
                "table" => ItemKind::Table(fields),
                "struct" => ItemKind::Struct(fields),
                _ => ItemKind::Layout(fields),
            };
            (raw.name, kind, raw.doc)
        }
        "enum" => {
            let raw = entry.parse::<RawEnum>(diagnostics)?;
            let ty = scalar(&raw.ty, entry, diagnostics)?;
            (raw.name, ItemKind::Enum { ty, flags: raw.flags, values: raw.values }, raw.doc)
        }
        "union" => {
            let raw = entry.parse::<RawUnion>(diagnostics)?;
            (raw.name, ItemKind::Union(raw.variants), raw.doc)
        }
        "constant" => {
            let raw = entry.parse::<RawConstant>(diagnostics)?;
            let kind = match raw.value {
                Cell::Text(text) if raw.ty == "string" => ItemKind::Text(text),
                Cell::Number(value) if raw.ty != "string" => {
                    let ty = scalar(&raw.ty, entry, diagnostics)?;
                    if ty.size() < 8 && value >> (8 * ty.size()) != 0 {
                        let message = format!("{value:#x} does not fit {}", ty.name());
                        diagnostics.error(&entry.origin_of("value"), message);
                    }
                    ItemKind::Constant { ty, value }
                }
                _ => {
                    let expected = if raw.ty == "string" { "a text" } else { "a number" };
                    diagnostics.error(&entry.origin_of("value"), format!("expected {expected}"));
                    return None;
                }
            };
            (raw.constant, kind, raw.doc)
        }
        kind @ "record" => {
            let raw = entry.parse::<RawRecord>(diagnostics)?;
            let fields = load_fields(kind, raw.fields, entry, diagnostics);
            let rows = raw.rows.into_iter().enumerate();
            let rows = rows.map(|(index, row)| load_row(&fields, row, &entry.item_origin("rows", index), diagnostics));
            let rows = rows.collect();
            (raw.record, ItemKind::Record { list: raw.list, fields, rows }, raw.doc)
        }
        kind => {
            let message = format!(
                "unknown kind of entry `{kind}`: expected root, table, struct, enum, union, layout, constant or record"
            );
            diagnostics.error(&entry.origin, message);
            return None;
        }
    };
    Some(Item { name, kind, doc, origin: entry.origin.clone() })
}

fn load_fields(kind: &str, raw: Vec<RawField>, entry: &Entry, diagnostics: &mut Diagnostics) -> Vec<Field> {
    let mut fields = Vec::new();
    for (index, field) in raw.into_iter().enumerate() {
        let origin = entry.item_origin("fields", index);
        let Some(ty) = field_type(&field.ty) else {
            let message = format!("`{}`: `{}` is not a type", field.name, field.ty);
            diagnostics.error(&origin, message);
            continue;
        };
        if kind != "table" && (field.required || field.default != 0) {
            diagnostics.error(&origin, format!("`{}`: only table fields can be absent", field.name));
        }
        if field.doc.is_empty() {
            diagnostics.error(&origin, format!("field `{}` has no doc", field.name));
        }
        let RawField { name, default, required, doc, .. } = field;
        fields.push(Field { name, ty, default, required, doc });
    }
    fields
}

/// The values of a row in the order of the fields.
fn load_row(
    fields: &[Field],
    mut row: BTreeMap<String, Cell>,
    origin: &Origin,
    diagnostics: &mut Diagnostics,
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for field in fields {
        let cell = row.remove(&field.name);
        let fits = match (&field.ty, &cell) {
            (FieldType::Scalar(ty), Some(Cell::Number(value))) => ty.size() == 8 || value >> (8 * ty.size()) == 0,
            (FieldType::String, Some(Cell::Text(_))) => true,
            _ => false,
        };
        if !fits {
            diagnostics.error(origin, format!("`{}` has no value of its type", field.name));
        }
        cells.extend(cell);
    }
    for name in row.keys() {
        diagnostics.error(origin, format!("`{name}` is not a field"));
    }
    cells
}

fn scalar(name: &str, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Scalar> {
    let scalar = Scalar::from_name(name);
    if scalar.is_none() {
        diagnostics.error(&entry.origin_of("type"), format!("`{name}` is not an integer type"));
    }
    scalar
}

fn field_type(text: &str) -> Option<FieldType> {
    if let Some(inner) = text.strip_prefix('[') {
        return Some(FieldType::Vector(Box::new(field_type(inner.strip_suffix(']')?)?)));
    }
    match text {
        "string" => Some(FieldType::String),
        text => Some(match Scalar::from_name(text) {
            Some(scalar) => FieldType::Scalar(scalar),
            None if text.starts_with(|c: char| c.is_ascii_uppercase()) => FieldType::Named(text.to_string()),
            None => return None,
        }),
    }
}

/// Rules that need the other entries of the file.
fn check(file: &SchemaFile, item: &Item, diagnostics: &mut Diagnostics) {
    let mut error = |message: String| diagnostics.error(&item.origin, message);
    match &item.kind {
        ItemKind::Root { .. } => match file.item(&item.name).map(|item| &item.kind) {
            Some(ItemKind::Table(_)) => {}
            _ => error(format!("root `{}` is not a table of this file", item.name)),
        },
        ItemKind::Union(variants) => {
            for variant in variants {
                if !matches!(file.item(variant).map(|item| &item.kind), Some(ItemKind::Table(_))) {
                    error(format!("`{}`: variant `{variant}` is not a table of this file", item.name));
                }
            }
        }
        ItemKind::Table(fields) | ItemKind::Struct(fields) | ItemKind::Layout(fields) => {
            let fixed = !matches!(item.kind, ItemKind::Table(_));
            for field in fields {
                let (element, vector) = match &field.ty {
                    FieldType::Vector(element) => (&**element, true),
                    ty => (ty, false),
                };
                let known = match element {
                    FieldType::Scalar(_) => !(vector && fixed),
                    FieldType::String => !fixed,
                    FieldType::Vector(_) => false,
                    FieldType::Named(name) => match file.item(name).map(|item| &item.kind) {
                        Some(ItemKind::Enum { .. }) => !vector,
                        Some(ItemKind::Table(_) | ItemKind::Union(_)) => !fixed,
                        // Structs nest in nothing but tables; no format needs more.
                        Some(ItemKind::Struct(_)) => !fixed,
                        _ => false,
                    },
                };
                if !known {
                    let message =
                        format!("`{}.{}` is of a type that cannot stand there or is unknown", item.name, field.name);
                    error(message);
                }
            }
        }
        ItemKind::Record { fields, .. } => {
            for field in fields {
                if !matches!(field.ty, FieldType::Scalar(_) | FieldType::String) {
                    error(format!("`{}.{}` is neither a number nor a string", item.name, field.name));
                }
            }
        }
        ItemKind::Enum { .. } | ItemKind::Constant { .. } | ItemKind::Text(_) => {}
    }
}
