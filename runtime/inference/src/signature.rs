//! Signatures of functions ([`Signature`]): the names and types of arguments and results, read from the calling
//! convention and, where the compiler left one, the declaration of the source, or else what the code of the function
//! asserts of its arguments.

use std::fmt;

use vireo_context::{ExportInfo, InvocationModel, Module, ReflectionAttribute};
use vireo_core::status::{Result, Status};
use vireo_hal::{ElementType, NumericalType};
use vireo_module::convention::{Convention, Kind};
pub use vireo_module::declaration::FENCES;
use vireo_module::declaration::{Declaration, DeclaredType, DeclaredValue};
use vireo_module::tensor_types::{CheckedTensor, TensorTypes};

/// The arguments and results of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The name of the function.
    pub name: String,
    /// The arguments that callers give, without fences of the calling model.
    pub arguments: Vec<ValueInfo>,
    /// The results.
    pub results: Vec<ValueInfo>,
    /// True if the function takes a fence to wait for and one to signal, which sessions make.
    pub is_async: bool,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueInfo {
    /// Its name in the source, such as `input0`, or where the compiler left no declaration the one that the code has
    /// for messages; empty if nothing is known of it.
    pub name: String,
    /// Its type.
    pub r#type: ValueType,
    /// The type as the source declares it, such as `index` for an [`ValueType::I64`]; empty without a declaration.
    pub declared: String,
    /// For an argument in whose memory the program puts a result, the number of that result (`iree.abi.output`).
    pub storage_of: Option<usize>,
}

/// The type of an argument or a result.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueType {
    /// A 32-bit integer, which also passes narrower ones.
    I32,
    /// A 64-bit integer.
    I64,
    /// A 32-bit float, which also passes narrower ones.
    F32,
    /// A 64-bit float.
    F64,
    /// A tensor of a known type.
    Tensor(TensorType),
    /// A reference to something else, or to a tensor of which nothing is known.
    Reference,
}

/// The type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// The sizes of its dimensions, outermost first; none for those that only a call knows.
    pub shape: Vec<Option<u64>>,
    /// The type of its elements.
    pub element_type: ElementType,
}

impl TensorType {
    /// True if a tensor of this shape is of the type, as far as that is known.
    pub fn allows_shape(&self, shape: &[u64]) -> bool {
        self.shape.len() == shape.len()
            && self.shape.iter().zip(shape).all(|(declared, actual)| declared.is_none_or(|size| size == *actual))
    }
}

impl ValueType {
    /// Its kind in calling conventions.
    pub fn kind(&self) -> Kind {
        match self {
            ValueType::I32 => Kind::I32,
            ValueType::I64 => Kind::I64,
            ValueType::F32 => Kind::F32,
            ValueType::F64 => Kind::F64,
            ValueType::Tensor(_) | ValueType::Reference => Kind::Ref,
        }
    }

    fn of_kind(kind: Kind) -> ValueType {
        match kind {
            Kind::I32 => ValueType::I32,
            Kind::I64 => ValueType::I64,
            Kind::F32 => ValueType::F32,
            Kind::F64 => ValueType::F64,
            Kind::Ref => ValueType::Reference,
        }
    }
}

impl Signature {
    /// The signature of an export.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for a function that takes any number of arguments.
    pub fn of(module: &Module, export: &ExportInfo<'_>) -> Result<Signature> {
        let convention: &Convention = export.convention;
        let kinds = convention.fixed_args().ok_or_else(|| {
            Status::unimplemented(format!("`{}` takes a variable number of arguments (`{convention}`)", export.name))
        })?;
        let attribute = |attribute: ReflectionAttribute| module.attr_of(export, attribute.name());
        let model = attribute(ReflectionAttribute::InvocationModel).and_then(InvocationModel::from_name);
        let is_async = model == Some(InvocationModel::CoarseFences)
            && kinds.iter().rev().take(FENCES).filter(|kind| **kind == Kind::Ref).count() == FENCES;
        let given = &kinds[..kinds.len() - if is_async { FENCES } else { 0 }];
        let declaration = attribute(ReflectionAttribute::Declaration).and_then(|text| Declaration::parse(text).ok());
        // A declaration is text that nothing checks. One that contradicts the calling convention says nothing.
        let declaration = declaration.filter(|declaration| {
            agrees(&declaration.arguments, given) && agrees(&declaration.results, &convention.results)
        });
        let (arguments, results) = match declaration {
            Some(Declaration { arguments, results, .. }) => {
                let infos = |kinds: &[Kind], values: Vec<DeclaredValue>| {
                    kinds.iter().zip(values).map(|(kind, value)| declared_info(*kind, value)).collect()
                };
                (infos(given, arguments), infos(&convention.results, results))
            }
            None => {
                let types =
                    module.archive().map(|archive| TensorTypes::of(archive, module.functions(), export.ordinal));
                let TensorTypes { arguments, results } = types.unwrap_or_default();
                (checked_infos(given, arguments, "input"), checked_infos(&convention.results, results, "output"))
            }
        };
        Ok(Signature { name: export.name.to_string(), arguments, results, is_async })
    }
}

fn agrees(declared: &[DeclaredValue], kinds: &[Kind]) -> bool {
    let is_reference = |r#type: &DeclaredType| match r#type {
        DeclaredType::Tensor { .. } => true,
        DeclaredType::Other(text) => text.starts_with('!'),
    };
    declared.len() == kinds.len()
        && declared.iter().zip(kinds).all(|(value, kind)| is_reference(&value.r#type) == (*kind == Kind::Ref))
}

/// Values of which the code says more than the calling convention. Those without a name have that which declarations
/// would give them.
fn checked_infos(kinds: &[Kind], tensors: Vec<Option<CheckedTensor>>, prefix: &str) -> Vec<ValueInfo> {
    let mut tensors = tensors.into_iter();
    let info = |(index, kind): (usize, &Kind)| match tensors.next().flatten().filter(|_| *kind == Kind::Ref) {
        Some(CheckedTensor { name, element_type, shape }) => ValueInfo {
            name: name.unwrap_or_else(|| format!("{prefix}{index}")),
            r#type: ValueType::Tensor(TensorType { shape, element_type: ElementType(element_type) }),
            declared: String::new(),
            storage_of: None,
        },
        None => ValueInfo {
            name: String::new(),
            r#type: ValueType::of_kind(*kind),
            declared: String::new(),
            storage_of: None,
        },
    };
    kinds.iter().enumerate().map(info).collect()
}

fn declared_info(kind: Kind, value: DeclaredValue) -> ValueInfo {
    let (declared, storage_of) = (value.r#type.to_string(), value.storage_of());
    let r#type = match value.r#type {
        DeclaredType::Tensor { shape, element } => match element_type(&element) {
            Some(element_type) => ValueType::Tensor(TensorType { shape, element_type }),
            None => ValueType::Reference,
        },
        DeclaredType::Other(_) => ValueType::of_kind(kind),
    };
    ValueInfo { name: value.name, r#type, declared, storage_of }
}

/// The element type that the compiler writes as `text`.
fn element_type(text: &str) -> Option<ElementType> {
    let Some(part) = text.strip_prefix("complex<").and_then(|rest| rest.strip_suffix('>')) else {
        return ElementType::parse(text).ok();
    };
    let part = ElementType::parse(part).ok().filter(|part| part.numerical() == NumericalType::FLOAT_IEEE)?;
    let bits = u8::try_from(2 * part.bit_count()).ok()?;
    Some(ElementType::new(NumericalType::FLOAT_COMPLEX, bits))
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for dimension in &self.shape {
            match dimension {
                Some(size) => write!(f, "{size}x")?,
                None => f.write_str("?x")?,
            }
        }
        write!(f, "{}>", self.element_type)
    }
}

impl fmt::Display for ValueInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.declared.is_empty() {
            return f.write_str(&self.declared);
        }
        match &self.r#type {
            ValueType::I32 => f.write_str("i32"),
            ValueType::I64 => f.write_str("i64"),
            ValueType::F32 => f.write_str("f32"),
            ValueType::F64 => f.write_str("f64"),
            ValueType::Tensor(r#type) => r#type.fmt(f),
            ValueType::Reference => f.write_str("reference"),
        }
    }
}

/// `main(input0: tensor<?x4xf32>) -> (output0: tensor<?xf32>)`
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[ValueInfo]| {
            let value = |value: &ValueInfo| match value.name.as_str() {
                "" => value.to_string(),
                name => format!("{name}: {value}"),
            };
            values.iter().map(value).collect::<Vec<_>>().join(", ")
        };
        write!(f, "{}({}) -> ({})", self.name, list(&self.arguments), list(&self.results))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signature of the function `main` of a module in assembly.
    fn signature(functions: &str) -> String {
        let text = format!(
            "vm.module @m version 0\nvm.import @hal.buffer_view.assert cconv \"0rriiCID_v\"\n\
             vm.import @hal.buffer_view.create cconv \"0rIIiiCID_r\"\nvm.rodata[0] = 617267\nvm.rodata[1] = 74656E736F72\n\
             vm.rodata[2] = 1B5B33316D\n{functions}"
        );
        let bytes = vireo_module::asm::assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let module = Module::from_bytes(&bytes).expect("the module is valid");
        let export = module.exports_named("main").next().expect("it is exported");
        Signature::of(&module, &export).expect("it has a signature").to_string()
    }

    const CONSTANTS: &str = "  %i0 = vm.const.i32 553648160\n  %i1 = vm.const.i32 1\n  %i2:3 = vm.const.i64 4\n";

    /// A function of one argument with these statements.
    fn with(statements: &str) -> String {
        let head = "vm.export @main\nvm.func @main(%r0: !vm.ref<?>, %i4: i32) -> () {\n^bb0:\n";
        signature(&format!("{}{CONSTANTS}{statements}  vm.return\n}}\n", head.replace("%i4", "%i0")))
    }

    fn assert_of(view: &str, message: usize, sizes: &[&str]) -> String {
        let operands = sizes.iter().map(|size| format!(", {size}")).collect::<String>();
        format!(
            "  %r1 = vm.const.ref.rodata {message}\n  vm.call.variadic @hal.buffer_view.assert segments[65535, 65535, 65535, 65535, {}]\
             ({view}, %r1, %i0, %i1{operands})\n",
            sizes.len()
        )
    }

    #[test]
    fn code_that_asserts_its_arguments_tells_their_types() {
        assert_eq!(with(&assert_of("%r0", 0, &["%i2", "%i2"])), "main(arg: tensor<4x4xf32>, i32) -> ()");
        // The text that compilers have for arguments without a name, and one that is no name.
        for message in [1, 2] {
            assert_eq!(with(&assert_of("%r0", message, &["%i2"])), "main(input0: tensor<4xf32>, i32) -> ()");
        }
        // A size that is computed.
        let computed = format!("  %i2:3 = vm.add.i64 %i2:3, %i2:3\n{}", assert_of("%r0", 0, &["%i2"]));
        assert_eq!(with(&computed), "main(arg: tensor<?xf32>, i32) -> ()");
        // Half of a constant is not the constant.
        let half = format!("  %i3 = vm.add.i32 %i0, %i0\n{}", assert_of("%r0", 0, &["%i2"]));
        assert_eq!(with(&half), "main(arg: tensor<?xf32>, i32) -> ()");
        // The first assertion fails first.
        let twice = assert_of("%r0", 0, &["%i2"]) + &assert_of("%r0", 0, &["%i2", "%i2"]);
        assert_eq!(with(&twice), "main(arg: tensor<4xf32>, i32) -> ()");
    }

    #[test]
    fn assertions_that_are_not_reached_or_not_of_an_argument_tell_nothing() {
        let nothing = "main(reference, i32) -> ()";
        assert_eq!(with(""), nothing);
        // An element type that is no constant.
        let computed = format!("  %i0 = vm.add.i32 %i0, %i0\n{}", assert_of("%r0", 0, &[]));
        assert_eq!(with(&computed), nothing);
        // A register that has lost the argument.
        let lost = format!("  %r0 = vm.const.ref.zero\n{}", assert_of("%r0", 0, &[]));
        assert_eq!(with(&lost), nothing);
        let moved = format!("  vm.discard.refs %r0\n{}", assert_of("%r0", 0, &[]));
        assert_eq!(with(&moved), nothing);
        let branch = format!(
            "  vm.cond_br %i1, ^bb1(), ^bb2()\n^bb1:\n{}  vm.br ^bb2()\n^bb2:\n",
            assert_of("%r0", 0, &["%i2"])
        );
        assert_eq!(with(&branch), nothing);
        // A way that never ends.
        assert_eq!(with("  vm.br ^bb1()\n^bb1:\n  vm.br ^bb1()\n^bb2:\n"), nothing);
    }

    #[test]
    fn calls_are_followed_and_results_are_the_views_that_code_makes() {
        let inner = format!(
            "vm.func @inner(%r0: !vm.ref<?>, %r1: !vm.ref<?>) -> (!vm.ref<?>, !vm.ref<?>) {{\n^bb0:\n{CONSTANTS}{}{}\
             \x20 %r3 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 1]\
             (%r0, %i2, %i2, %i0, %i1, %i2)\n  vm.return %r3, %r0\n}}\n",
            assert_of("%r0", 0, &["%i2"]).replace("%r1", "%r2"),
            assert_of("%r1", 0, &["%i2", "%i2"]).replace("%r1 =", "%r2 =").replace("(%r1, %r1", "(%r1, %r2")
        );
        let outer = "vm.export @main\nvm.func @main(%r0: !vm.ref<?>, %r1: !vm.ref<?>) -> (!vm.ref<?>, !vm.ref<?>) {\n^bb0:\n\
                     \x20 %r2, %r3 = vm.call @inner(%r1, %r0)\n  vm.br ^bb1(%r2->%r4, %r3->%r5)\n^bb1:\n  vm.return %r4, %r5\n}\n";
        // Both assertions have the same text, which is no name of either then.
        let expected =
            "main(input0: tensor<4x4xf32>, input1: tensor<4xf32>) -> (output0: tensor<4xf32>, arg: tensor<4xf32>)";
        assert_eq!(signature(&format!("{inner}{outer}")), expected);
        // A tree of very many calls is cut off, so what comes after it is not reached.
        let calls = |name: &str| format!("  vm.call @{name}()\n").repeat(200);
        let function = |name: &str, body: &str| format!("vm.func @{name}() -> () {{\n^bb0:\n{body}  vm.return\n}}\n");
        let tree =
            [function("a", &calls("b")), function("b", &calls("c")), function("c", &calls("d")), function("d", "")];
        let main = format!(
            "vm.export @main\nvm.func @main(%r0: !vm.ref<?>) -> () {{\n^bb0:\n{CONSTANTS}  vm.call @a()\n{}  vm.return\n}}\n",
            assert_of("%r0", 0, &["%i2"])
        );
        assert_eq!(signature(&format!("{main}{}", tree.concat())), "main(reference) -> ()");
        let short = main.replace("@a()", "@c()");
        assert_eq!(signature(&format!("{short}{}", tree.concat())), "main(arg: tensor<4xf32>) -> ()");
        // A function that calls itself ends, too.
        let itself = "vm.export @main\nvm.func @main(%r0: !vm.ref<?>) -> (!vm.ref<?>) {\n^bb0:\n  %r0 = vm.call @main(%r0)\n  \
                      vm.return %r0\n}\n";
        assert_eq!(signature(itself), "main(reference) -> (reference)");
    }
}
