//! Fields of dumps: `label=path:form`, and what a path names in a layout.

use crate::model::api::{Api, Plain};
use crate::model::hal::{Layout, LayoutField, LayoutType, Trailing};

/// A field of a dump.
#[derive(Clone, Debug)]
pub struct ShownField {
    /// Its label.
    pub label: String,
    /// The names of the path.
    pub path: Vec<String>,
    /// How it is written.
    pub form: FieldForm,
}

/// How a field is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldForm {
    /// A number, an array of numbers, or the fields of a part.
    Plain,
    /// All digits of a number, in hexadecimal.
    Hex,
    /// The place of a part in the file.
    Range,
    /// The elements of a part.
    List,
    /// The characters of a part.
    String,
    /// The name of a number.
    Name,
    /// The name of a number, and the number.
    Named,
    /// The first eight bytes as a number.
    Word,
    /// Whether a bit of a number is set.
    Bit(u32),
    /// A text, whatever the record is.
    Text(String),
    /// The result of the function of this name.
    Computed(String),
}

impl ShownField {
    /// Reads `label=path:form`, of which `label` and `form` may be left out.
    pub(super) fn parse(text: &str) -> Option<ShownField> {
        let (label, rest) = text.split_once('=').unwrap_or((text.split(':').next()?, text));
        let shown = |form| Some(ShownField { label: label.to_string(), path: Vec::new(), form });
        if let Some(text) = rest.strip_prefix('"') {
            return shown(FieldForm::Text(text.strip_suffix('"')?.to_string()));
        }
        if let Some(name) = rest.strip_prefix('@') {
            return shown(FieldForm::Computed(name.to_string()));
        }
        let (path, form) = rest.split_once(':').unwrap_or((rest, ""));
        let form = match form {
            "" => FieldForm::Plain,
            "hex" => FieldForm::Hex,
            "range" => FieldForm::Range,
            "list" => FieldForm::List,
            "string" => FieldForm::String,
            "name" => FieldForm::Name,
            "named" => FieldForm::Named,
            "word" => FieldForm::Word,
            form if form.starts_with("bit") => FieldForm::Bit(form.strip_prefix("bit")?.parse().ok()?),
            _ => return None,
        };
        Some(ShownField { label: label.to_string(), path: path.split('.').map(str::to_string).collect(), form })
    }
}

/// The target of a path.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// A field of the layout, or of a layout in it.
    Field(&'a LayoutField),
    /// A part that follows.
    Part(&'a Trailing),
    /// A field of the layout that a part begins with.
    Held(&'a Trailing, &'a Layout, &'a LayoutField),
}

/// The layout `name` of `api`.
pub(crate) fn layout<'a>(api: &'a Api, name: &str) -> Option<&'a Layout> {
    match api.plain(name) {
        Some(Plain::Layout(layout)) => Some(layout),
        _ => None,
    }
}

/// The target of `path` in `layout`.
pub(crate) fn find<'a>(api: &'a Api, layout: &'a Layout, path: &[String]) -> Option<Found<'a>> {
    let (first, rest) = path.split_first()?;
    if let Some(part) = layout.then.iter().find(|part| part.name == *first) {
        let Some((name, [])) = rest.split_first() else { return rest.is_empty().then_some(Found::Part(part)) };
        let held = self::layout(api, part.holds.as_ref()?)?;
        let field = held.fields.iter().find(|field| field.name == *name)?;
        return Some(Found::Held(part, held, field));
    }
    let field = layout.fields.iter().find(|field| field.name == *first)?;
    if rest.is_empty() {
        return Some(Found::Field(field));
    }
    match &field.ty {
        LayoutType::Layout(name) => match find(api, self::layout(api, name)?, rest)? {
            Found::Field(field) => Some(Found::Field(field)),
            _ => None,
        },
        _ => None,
    }
}
