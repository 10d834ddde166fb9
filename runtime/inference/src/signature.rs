//! Signatures of functions ([`Signature`]): the names and types of arguments and results, read from the calling convention and, where the
//! compiler left one, the declaration of the source.

use std::fmt;

use vireo_core::status::{Result, Status};
use vireo_hal::{ElementType, NumericalType};
use vireo_module::convention::{Convention, Kind};
use vireo_module::declaration::{Declaration, DeclaredType, DeclaredValue};
use vireo_session::{ExportInfo, InvocationModel, Module, ReflectionAttribute};

/// How many fences the calling model [`InvocationModel::CoarseFences`] has: the last arguments, one to wait for and one to signal.
pub const FENCES: usize = 2;

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
    /// Its name in the source, such as `input0`; empty if the compiler left no declaration.
    pub name: String,
    /// Its type.
    pub r#type: ValueType,
    /// The type as the source declares it, such as `index` for an [`ValueType::I64`]; empty without a declaration.
    pub declared: String,
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
        let infos = |kinds: &[Kind], declared: Option<Vec<DeclaredValue>>| match declared {
            Some(values) => kinds.iter().zip(values).map(|(kind, value)| declared_info(*kind, value)).collect(),
            None => kinds.iter().map(|kind| undeclared_info(*kind)).collect(),
        };
        let (arguments, results) =
            declaration.map_or((None, None), |declaration| (Some(declaration.arguments), Some(declaration.results)));
        Ok(Signature {
            name: export.name.to_string(),
            arguments: infos(given, arguments),
            results: infos(&convention.results, results),
            is_async,
        })
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

fn undeclared_info(kind: Kind) -> ValueInfo {
    ValueInfo { name: String::new(), r#type: ValueType::of_kind(kind), declared: String::new() }
}

fn declared_info(kind: Kind, value: DeclaredValue) -> ValueInfo {
    let declared = value.r#type.to_string();
    let r#type = match value.r#type {
        DeclaredType::Tensor { shape, element } => match element_type(&element) {
            Some(element_type) => ValueType::Tensor(TensorType { shape, element_type }),
            None => ValueType::Reference,
        },
        DeclaredType::Other(_) => ValueType::of_kind(kind),
    };
    ValueInfo { name: value.name, r#type, declared }
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
