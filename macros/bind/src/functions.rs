//! The functions of a model ([`Function`]), with names that Rust takes and with the types of their arguments and
//! results.

use std::collections::HashMap;

use vireo_module::convention::{Convention, Kind};
use vireo_module::declaration::{Declaration, DeclaredValue};
use vireo_module::reflection::ReflectionAttribute;
use vireo_module::vmfb::{Archive, is_for_callers};

use crate::types::Type;

/// An exported function.
pub struct Function {
    /// Its name in the model.
    pub name: String,
    /// The same as Rust takes it.
    pub identifier: String,
    /// Its declaration, for documentation.
    pub declaration: String,
    pub arguments: Vec<Value>,
    pub results: Vec<Value>,
}

/// An argument or a result.
pub struct Value {
    /// Its name in the source.
    pub name: String,
    /// The same as Rust takes it.
    pub identifier: String,
    pub r#type: Type,
    /// Its type in the source.
    pub declared: String,
}

/// The functions of a model that have a declaration. Those that compilers add have a `$` in their name or are reserved,
/// and have none.
pub fn of(archive: &Archive) -> Result<Vec<Function>, String> {
    let mut functions = Vec::new();
    let mut identifiers: HashMap<String, String> = HashMap::new();
    for export in archive.exports() {
        let Some(function) = archive.functions().nth(export.ordinal) else { continue };
        let declaration = function
            .attrs()
            .find(|(key, _)| *key == ReflectionAttribute::Declaration.name())
            .map(|(_, text)| text.to_string());
        let Some(text) = declaration.filter(|_| is_for_callers(export.name)) else {
            continue;
        };
        let place = |message: String| format!("function `{}`: {message}", export.name);
        let declaration = Declaration::parse(&text).map_err(|status| place(status.to_string()))?;
        let convention: Convention =
            function.convention().parse().map_err(|status: vireo_core::status::Status| place(status.to_string()))?;
        let kinds = convention.fixed_args().ok_or_else(|| place("it takes a variable number of arguments".into()))?;
        let identifier = identifier(export.name);
        if let Some(other) = identifiers.insert(identifier.clone(), export.name.to_string()) {
            return Err(place(format!("`{other}` has the same name in Rust, `{identifier}`")));
        }
        functions.push(Function {
            name: export.name.to_string(),
            identifier,
            declaration: text,
            // Fences of the calling model follow the declared arguments.
            arguments: values(&declaration.arguments, &kinds).map_err(place)?,
            results: values(&declaration.results, &convention.results).map_err(place)?,
        });
    }
    if functions.is_empty() {
        let attribute = ReflectionAttribute::Declaration.name();
        return Err(format!(
            "the model declares no function: it was compiled without `{attribute}`, as models from ONNX are; \
             `Session::call` calls its functions, with arguments that are checked by what their code asserts"
        ));
    }
    Ok(functions)
}

fn values(declared: &[DeclaredValue], kinds: &[Kind]) -> Result<Vec<Value>, String> {
    if declared.len() > kinds.len() {
        return Err(format!("it declares {} values, and its calling convention has {}", declared.len(), kinds.len()));
    }
    let value = |(value, kind): (&DeclaredValue, &Kind)| Value {
        name: value.name.clone(),
        identifier: identifier(&value.name),
        r#type: Type::of(&value.r#type, *kind),
        declared: value.r#type.to_string(),
    };
    Ok(declared.iter().zip(kinds).map(value).collect())
}

/// A name as Rust takes it.
fn identifier(name: &str) -> String {
    let replaced: String =
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    let begins_well = replaced.chars().next().is_some_and(|letter| !letter.is_ascii_digit());
    let name = if begins_well { replaced } else { format!("_{replaced}") };
    match syn::parse_str::<syn::Ident>(&name) {
        Ok(_) => name,
        // A keyword, or a single underscore.
        Err(_) => format!("{name}_"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_names_of_rust() {
        let names = ["main", "torch.main-1", "fn", "2x", "_", "größe"];
        assert_eq!(names.map(identifier), ["main", "torch_main_1", "fn_", "_2x", "__", "gr__e"]);
    }
}
