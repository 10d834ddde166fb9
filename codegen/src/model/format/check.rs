//! The rules across entries of a format: numbers are unique, fields of dumps exist, and operations agree with the HAL.

use std::collections::{BTreeMap, BTreeSet};

use super::path::{self, FieldForm, Found, ShownField};
use super::types::{Format, Operation, Replay};
use crate::diag::{Diagnostics, Origin};
use crate::model::hal::{Hal, Layout, LayoutType};

/// Keys of `arguments` that are no arguments.
const BESIDES: [&str; 3] = ["mapping", "result", "zero"];

impl Format {
    /// Checks what needs no other part of the spec.
    pub(super) fn check_fields(&self, diagnostics: &mut Diagnostics) {
        let (mut payloads, mut operations) = (BTreeMap::new(), BTreeMap::new());
        for payload in &self.payloads {
            unique(&mut payloads, payload.code, &payload.name, &payload.origin, diagnostics);
            self.check_shown(&payload.name, &payload.origin, [&payload.text, &payload.json], diagnostics);
        }
        for part in &self.parts {
            self.check_shown(&part.name, &part.origin, [&part.text, &part.json], diagnostics);
        }
        for operation in &self.operations {
            unique(&mut operations, operation.code, &operation.name, &operation.origin, diagnostics);
            for name in operation.payload.iter().chain(&operation.or) {
                if !self.payloads.iter().any(|payload| payload.name == *name) {
                    let known = self.payloads.iter().map(|payload| payload.name.as_str());
                    let message = format!("`{}`: there is no payload `{name}`", operation.name);
                    diagnostics.unknown(&operation.origin, name, message, known);
                }
            }
        }
        for row in &self.rows {
            match self.contents.iter().find(|content| content.name == row.content) {
                Some(content) => self.check_shown(&content.layout, &row.origin, [&row.json, &Vec::new()], diagnostics),
                None => {
                    let known = self.contents.iter().map(|content| content.name.as_str());
                    let message = format!("`{}`: there is no content `{}`", row.name, row.content);
                    diagnostics.unknown(&row.origin, &row.content, message, known);
                }
            }
        }
        for content in &self.contents {
            if path::layout(&self.api, &content.layout).is_none_or(|layout| !layout.writable) {
                let message = format!("`{}`: there is no writable layout `{}`", content.name, content.layout);
                diagnostics.error(&content.origin, message);
            }
        }
    }

    fn check_shown(&self, name: &str, origin: &Origin, forms: [&Vec<ShownField>; 2], diagnostics: &mut Diagnostics) {
        let Some(layout) = path::layout(&self.api, name).filter(|layout| layout.writable) else {
            diagnostics.error(origin, format!("there is no writable layout `{name}`"));
            return;
        };
        for field in forms.into_iter().flatten() {
            if matches!(field.form, FieldForm::Text(_) | FieldForm::Computed(_)) {
                continue;
            }
            let fits = path::find(&self.api, layout, &field.path).is_some_and(|found| self.fits(found, &field.form));
            if !fits {
                let path = field.path.join(".");
                let message = format!("`{name}`: `{path}` is not there, or has no such form");
                diagnostics.error(origin, message);
            }
        }
    }

    /// Whether what was found can be written like this.
    fn fits(&self, found: Found<'_>, form: &FieldForm) -> bool {
        let is_shown = |name: &str| self.parts.iter().any(|part| part.name == name);
        match found {
            Found::Field(field) => match (&field.ty, field.count, form) {
                (LayoutType::Int(_), None, FieldForm::Plain | FieldForm::Hex) => true,
                (LayoutType::Int(int), None, FieldForm::Bit(bit)) => u64::from(*bit) < 8 * int.size(),
                (LayoutType::Int(_), Some(_), FieldForm::Plain) => true,
                (LayoutType::Int(int), Some(count), FieldForm::Word) => int.size() == 1 && count >= 8,
                (LayoutType::Layout(name), None, FieldForm::Plain) => {
                    is_shown(name) || path::layout(&self.api, name).is_none()
                }
                (LayoutType::Layout(name), None, FieldForm::Name | FieldForm::Named) => {
                    path::layout(&self.api, name).is_none()
                }
                _ => false,
            },
            Found::Part(part) => match (&part.part, form) {
                (_, FieldForm::Range) => true,
                (None, FieldForm::String) => true,
                (Some(LayoutType::Int(_)), FieldForm::List) => true,
                (Some(LayoutType::Layout(name)), FieldForm::List) => is_shown(name),
                _ => false,
            },
            Found::Held(_, _, field) => matches!(field.ty, LayoutType::Int(_)) && *form == FieldForm::Plain,
        }
    }

    /// Checks operations against the HAL: each method of an object that captures know is an operation or `unrecorded`,
    /// each argument is named, and each field of a payload is filled.
    pub(crate) fn check_methods(&self, hal: &Hal, diagnostics: &mut Diagnostics) {
        if self.operations.is_empty() {
            return;
        }
        let objects: Vec<&str> = self.objects();
        let mut seen: BTreeMap<&(String, String), &Origin> = BTreeMap::new();
        let recorded =
            self.operations.iter().filter_map(|operation| Some((operation.method.as_ref()?, &operation.origin)));
        let unrecorded = self.unrecorded.iter().map(|method| (&method.method, &method.origin));
        for (method, origin) in recorded.chain(unrecorded) {
            let known = hal.objects().find(|object| object.name == method.0);
            let known = known.is_some_and(|object| object.methods.iter().any(|other| other.name == method.1));
            if !known {
                diagnostics.error(origin, format!("spec/hal has no method `{}.{}`", method.0, method.1));
            }
            if let Some(first) = seen.insert(method, origin) {
                let message = format!("`{}.{}` is there already, at {first}", method.0, method.1);
                diagnostics.error(origin, message);
            }
        }
        for object in hal.objects().filter(|object| objects.contains(&object.name.as_str())) {
            for method in &object.methods {
                let name = (object.name.clone(), method.name.clone());
                if !seen.contains_key(&name) {
                    let message = format!(
                        "`{}.{}` is no operation of captures, nor `unrecorded` for a reason",
                        object.name, method.name
                    );
                    diagnostics.error(&method.origin, message);
                }
            }
        }
        for operation in &self.operations {
            self.check_operation(operation, hal, diagnostics);
        }
    }

    /// The objects that captures have numbers of.
    fn objects(&self) -> Vec<&str> {
        let mut numbers = self.api.files.iter().flat_map(|file| &file.numbers);
        let types = numbers.find(|numbers| numbers.name == "object_type");
        types.map_or(Vec::new(), |types| types.values.iter().map(|value| value.name.as_str()).collect())
    }

    fn check_operation(&self, operation: &Operation, hal: &Hal, diagnostics: &mut Diagnostics) {
        let mut error =
            |message: String| diagnostics.error(&operation.origin, format!("`{}`: {message}", operation.name));
        if let Some(object) = &operation.makes
            && !self.objects().contains(&object.as_str())
        {
            error(format!("there is no object `{object}`"));
        }
        let method = operation.method.as_ref().and_then(|(object, name)| {
            let object = hal.objects().find(|other| other.name == *object)?;
            object.methods.iter().find(|method| method.name == *name)
        });
        let Some(method) = method else { return };
        let Some(arguments) = &operation.arguments else {
            if operation.replay == Replay::Call {
                error("a replay calls it: expected `arguments`".to_string());
            }
            return;
        };
        for field in &method.args {
            if !arguments.iter().any(|(name, _)| *name == field.name) {
                error(format!("the argument `{}` is not named", field.name));
            }
        }
        for (name, _) in arguments {
            if !BESIDES.contains(&name.as_str()) && !method.args.iter().any(|field| field.name == *name) {
                error(format!("the method has no argument `{name}`"));
            }
        }
        let layout = operation.payload.as_ref().and_then(|name| path::layout(&self.api, name));
        let paths: BTreeSet<&str> = arguments.iter().flat_map(|(_, paths)| paths).map(String::as_str).collect();
        let Some(layout) = layout else {
            paths.iter().for_each(|path| error(format!("it has no payload with `{path}`")));
            return;
        };
        for path in &paths {
            let names: Vec<String> = path.split('.').map(str::to_string).collect();
            if path::find(&self.api, layout, &names).is_none() {
                error(format!("its payload has no `{path}`"));
            }
        }
        for path in self.paths_of(layout, "") {
            let is_filled = |filled: &&str| path == **filled || path.starts_with(&format!("{filled}."));
            if !paths.iter().any(is_filled) {
                error(format!("no argument fills `{path}`"));
            }
        }
    }

    /// The paths of `layout` that something must fill: not what is reserved, pads, or counts parts.
    fn paths_of(&self, layout: &Layout, prefix: &str) -> Vec<String> {
        let counts: Vec<&str> = layout.counts().collect();
        let is_filled =
            |name: &str| !name.starts_with("reserved") && !name.starts_with("padding") && !counts.contains(&name);
        let fields = layout.fields.iter().filter(|field| is_filled(&field.name)).flat_map(|field| {
            let path = format!("{prefix}{}", field.name);
            match &field.ty {
                LayoutType::Layout(name) => match path::layout(&self.api, name) {
                    // A slot is filled where there is no buffer.
                    Some(inner) => {
                        let mut paths = self.paths_of(inner, &format!("{path}."));
                        paths.retain(|path| !path.ends_with(".buffer_slot"));
                        paths
                    }
                    None => vec![path],
                },
                _ => vec![path],
            }
        });
        let parts = layout.then.iter().map(|part| format!("{prefix}{}", part.name));
        fields.chain(parts).collect()
    }
}

fn unique<'a>(
    seen: &mut BTreeMap<u32, &'a str>,
    code: u32,
    name: &'a str,
    origin: &Origin,
    diagnostics: &mut Diagnostics,
) {
    if let Some(other) = seen.insert(code, name) {
        diagnostics.error(origin, format!("`{name}`: `{other}` has the number {code} too"));
    }
}
