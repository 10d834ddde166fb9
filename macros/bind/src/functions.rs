//! The functions of a model ([`Function`]), with names that Rust takes and with the types of their arguments and
//! results.

use std::collections::HashMap;

use vireo_core::status::Status;
use vireo_module::convention::{Convention, Kind};
use vireo_module::declaration::{Declaration, DeclaredType, DeclaredValue, FENCES};
use vireo_module::reflection::{InvocationModel, ReflectionAttribute};
use vireo_module::tensor_types::{CheckedTensor, TensorTypes};
use vireo_module::verified::verify;
use vireo_module::vmfb::{Archive, is_for_callers};

use crate::types::{Type, kind_text};

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

/// The functions of a model that are there for callers. Those that compilers add have a `$` in their name or are
/// reserved. The types of a function without a declaration, as models from ONNX have them, are what its code asserts.
pub fn of(archive: &Archive) -> Result<Vec<Function>, String> {
    let mut functions = Vec::new();
    let mut identifiers: HashMap<String, String> = HashMap::new();
    // It is only verified if the code of a function has to be followed.
    let mut verified = None;
    for export in archive.exports().filter(|export| is_for_callers(export.name)) {
        let Some(function) = archive.functions().nth(export.ordinal) else { continue };
        let place = |message: String| format!("function `{}`: {message}", export.name);
        let attribute = |attribute: ReflectionAttribute| {
            function.attrs().find(|(key, _)| *key == attribute.name()).map(|(_, text)| text)
        };
        let convention: Convention =
            function.convention().parse().map_err(|status: Status| place(status.to_string()))?;
        let kinds = convention.fixed_args().ok_or_else(|| place("it takes a variable number of arguments".into()))?;
        let (text, declaration) = match attribute(ReflectionAttribute::Declaration) {
            Some(text) => (text.to_string(), Declaration::parse(text).map_err(|status| place(status.to_string()))?),
            None => {
                let verified = match &mut verified {
                    Some(verified) => verified,
                    none => none.insert(verify(archive, None, |_, _| {}).map_err(|status| status.to_string())?),
                };
                let model = attribute(ReflectionAttribute::InvocationModel).and_then(InvocationModel::from_name);
                let is_async = model == Some(InvocationModel::CoarseFences);
                let fences = if is_async { FENCES } else { 0 };
                let given = kinds.get(..kinds.len().saturating_sub(fences)).unwrap_or_default();
                let TensorTypes { arguments, results } = TensorTypes::of(archive, &verified.functions, export.ordinal);
                let declaration = Declaration {
                    is_async,
                    name: export.name.to_string(),
                    arguments: asserted(given, arguments, "input"),
                    results: asserted(&convention.results, results, "output"),
                };
                (text_of(&declaration), declaration)
            }
        };
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
        return Err("the model exports no function that is there for callers".into());
    }
    Ok(functions)
}

/// Values of which the code says more than the calling convention. Those without a name have that which declarations
/// would give them.
fn asserted(kinds: &[Kind], tensors: Vec<Option<CheckedTensor>>, prefix: &str) -> Vec<DeclaredValue> {
    let mut tensors = tensors.into_iter();
    let value = |(index, kind): (usize, &Kind)| {
        let tensor = tensors.next().flatten().filter(|_| *kind == Kind::Ref);
        let r#type = tensor.as_ref().and_then(CheckedTensor::declared);
        DeclaredValue {
            name: tensor.and_then(|tensor| tensor.name).unwrap_or_else(|| format!("{prefix}{index}")),
            r#type: r#type.unwrap_or_else(|| DeclaredType::Other(kind_text(*kind))),
            attributes: Vec::new(),
        }
    };
    kinds.iter().enumerate().map(value).collect()
}

/// `main(input0: tensor<?x4xf32>) -> (output0: tensor<?xf32>)`
fn text_of(declaration: &Declaration) -> String {
    let list = |values: &[DeclaredValue]| {
        values.iter().map(|value| format!("{}: {}", value.name, value.r#type)).collect::<Vec<_>>().join(", ")
    };
    format!("{}({}) -> ({})", declaration.name, list(&declaration.arguments), list(&declaration.results))
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

    /// The texts of the functions of a module in assembly.
    fn texts(assembly: &str) -> Vec<String> {
        let bytes = vireo_module::asm::assemble(assembly).expect("it is assembled");
        let archive = Archive::from_bytes(&bytes).expect("it is a module file");
        of(&archive).expect("it has functions").into_iter().map(|function| function.declaration).collect()
    }

    #[test]
    fn functions_without_a_declaration_have_what_their_code_asserts() {
        let text = "vm.module @m version 0\nvm.import @hal.buffer_view.assert cconv \"0rriiCID_v\"\nvm.rodata[0] = 617267\n\
                    vm.export @main\nvm.func @main(%r0: !vm.ref<?>, %i0: i32, %r1: !vm.ref<?>) -> (i64) {\n^bb0:\n  \
                    %i0 = vm.const.i32 553648160\n  %i1 = vm.const.i32 1\n  %i2:3 = vm.const.i64 4\n  \
                    %r2 = vm.const.ref.rodata 0\n  \
                    vm.call.variadic @hal.buffer_view.assert segments[65535, 65535, 65535, 65535, 1]\
                    (%r0, %r2, %i0, %i1, %i2)\n  vm.return %i2:3\n}\n";
        assert_eq!(texts(text), ["main(arg: tensor<4xf32>, input1: i32, input2: reference) -> (output0: i64)"]);
    }

    #[test]
    fn fences_of_the_calling_model_are_no_arguments() {
        let text = "vm.module @m version 0\nvm.export @main\n\
                    vm.func @main(%i0: i32, %r0: !vm.ref<?>, %r1: !vm.ref<?>) -> () {\n  \
                    vm.attr \"iree.abi.model\" = \"coarse-fences\"\n^bb0:\n  vm.return\n}\n";
        assert_eq!(texts(text), ["main(input0: i32) -> ()"]);
    }
}
