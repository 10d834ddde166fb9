//! From entries to the model, and the rules that one entry must keep. `raw` has the keys of each kind of entry.

use std::collections::BTreeSet;

use super::kind::{Kind, Names, Position, Shape};
use super::layout::{Function, Layout, LayoutField, LayoutType, Trailing};
use super::option;
use super::raw::{
    RawArmFeature, RawCpuFeature, RawCpuState, RawCpuid, RawField, RawFunction, RawHandle, RawLayout, RawLayoutField,
    RawMethod, RawNumbers, RawObject, RawStruct, RawTrailing, RawValue,
};
use super::rules::Rules;
use super::types::{
    ArmFeature, CpuFeature, CpuState, Cpuid, DefaultBody, Facet, Field, Form, Hal, Handle, Method, NamedValue, Numbers,
    Object, SpecFile, Struct,
};
use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;
use crate::model::constant;
use crate::model::int::Int;

/// Reads all entries. Kinds are resolved in a second pass, since they may refer to any file.
pub(crate) fn files(entries: &[Entry], diagnostics: &mut Diagnostics) -> Hal {
    let names = declared_names(entries);
    let mut hal = Hal::default();
    for entry in entries {
        let stem = entry.origin.stem();
        if hal.files.last().is_none_or(|file| file.stem != stem) {
            hal.files.push(SpecFile { stem: stem.to_string(), ..SpecFile::default() });
        }
        if let Some(file) = hal.files.last_mut() {
            Reader { names: &names, diagnostics }.entry(entry, file);
        }
    }
    hal
}

/// The names that kinds may refer to, read from the first keys alone so that a mistake elsewhere in an entry does not
/// make every use of its name wrong too.
fn declared_names(entries: &[Entry]) -> Names {
    let mut names = Names::default();
    for entry in entries {
        let kind: fn(String) -> Kind = match entry.kind.as_str() {
            "enum" | "bits" | "code" => Kind::Numbers,
            "handle" => Kind::Handle,
            "struct" => Kind::Struct,
            "object" => Kind::Object,
            "layout" => {
                let module = entry.origin.stem().to_string();
                names.declare(entry.name(), move |name| Kind::Layout { module, name });
                continue;
            }
            _ => continue,
        };
        names.declare(entry.name(), kind);
    }
    names
}

struct Reader<'a> {
    names: &'a Names,
    diagnostics: &'a mut Diagnostics,
}

/// The kinds of entries below `spec/hal/`.
const KINDS: [&str; 14] = [
    "constant",
    "enum",
    "bits",
    "code",
    "handle",
    "struct",
    "object",
    "method",
    "layout",
    "function",
    "cpu_state",
    "cpu_feature",
    "arm_feature",
    "option",
];

impl Reader<'_> {
    fn entry(&mut self, entry: &Entry, file: &mut SpecFile) {
        match entry.kind.as_str() {
            "constant" => file.constants.extend(constant::read(entry, self.diagnostics)),
            "enum" | "bits" | "code" => file.numbers.extend(self.numbers(entry)),
            "handle" => file.handles.extend(self.handle(entry)),
            "struct" => file.structs.extend(self.structure(entry)),
            "object" => self.object(entry, file),
            "method" => self.method(entry, file),
            "layout" => file.layouts.extend(self.layout(entry)),
            "function" => file.functions.extend(self.function(entry)),
            "cpu_state" => file.cpu_states.extend(self.cpu_state(entry)),
            "cpu_feature" => self.cpu_feature(entry, file),
            "arm_feature" => self.arm_feature(entry, file),
            "option" => {
                let option = option::read(entry, &file.options, self.diagnostics);
                file.options.extend(option);
            }
            kind => self.diagnostics.unknown(&entry.origin, kind, format!("unknown kind of entry `{kind}`"), KINDS),
        }
    }

    fn int(&mut self, entry: &Entry, name: &str) -> Option<Int> {
        let int = Int::from_name(name);
        if int.is_none() {
            self.diagnostics.error(&entry.origin_of("type"), Int::unknown(name));
        }
        int
    }

    fn doc(&mut self, entry: &Entry, doc: &str) {
        if doc.trim().is_empty() {
            self.diagnostics.error(&entry.origin_of("doc"), "the doc is empty");
        }
    }

    fn numbers(&mut self, entry: &Entry) -> Option<Numbers> {
        let raw: RawNumbers = entry.parse(self.diagnostics)?;
        self.doc(entry, &raw.doc);
        let int = self.int(entry, &raw.ty)?;
        let form = match entry.kind.as_str() {
            "enum" => Form::Enum,
            "code" => Form::Code,
            _ if raw.open => Form::OpenBits,
            _ => Form::Bits,
        };
        if raw.open && entry.kind != "bits" {
            self.diagnostics.error(&entry.origin_of("open"), "only bits can be open; open numbers are a `code`");
        }
        let (mut names, mut values) = (BTreeSet::new(), BTreeSet::new());
        for (index, value) in raw.values.iter().enumerate() {
            let origin = entry.item_origin("values", index);
            if !names.insert(&value.name) {
                self.diagnostics.error(&origin, format!("two values are called `{}`", value.name));
            }
            if !values.insert(value.value) {
                self.diagnostics.error(&origin, format!("`{}`: another value is {:#x} too", value.name, value.value));
            }
            if !int.holds(value.value) {
                self.diagnostics
                    .error(&origin, format!("`{}`: {:#x} does not fit {}", value.name, value.value, raw.ty));
            }
            if value.value == 0 && matches!(form, Form::Bits | Form::OpenBits) {
                self.diagnostics
                    .error(&origin, format!("`{}`: a bit set names bits; nothing set is `empty`", value.name));
            }
            let own = [("prefix", value.prefix.is_some()), ("message", value.message.is_some())];
            for (key, _) in own.iter().filter(|(_, is_there)| *is_there && form != Form::Code) {
                self.diagnostics.error(&origin, format!("`{}`: only values of a `code` have a {key}", value.name));
            }
            if let Some(float) = value.float
                && (form != Form::Code || !float.is_narrow())
            {
                let what = "only values of a `code` are floats, of at most 8 bits of exponent, 16 bits in all";
                self.diagnostics.error(&origin, format!("`{}`: {what}", value.name));
            }
            if value.doc.trim().is_empty() {
                self.diagnostics.error(&origin, format!("`{}`: the doc is empty", value.name));
            }
        }
        let values = raw.values.into_iter();
        let value = |raw: RawValue| NamedValue {
            name: raw.name,
            value: raw.value,
            text: raw.text,
            prefix: raw.prefix,
            message: raw.message,
            float: raw.float,
            doc: raw.doc,
        };
        let values = values.map(value).collect();
        Some(Numbers { name: raw.name, form, int, doc: raw.doc, values, origin: entry.origin.clone() })
    }

    fn handle(&mut self, entry: &Entry) -> Option<Handle> {
        let raw: RawHandle = entry.parse(self.diagnostics)?;
        self.doc(entry, &raw.doc);
        let int = self.int(entry, &raw.ty)?;
        Some(Handle { name: raw.handle, int, doc: raw.doc, origin: entry.origin.clone() })
    }

    fn structure(&mut self, entry: &Entry) -> Option<Struct> {
        let raw: RawStruct = entry.parse(self.diagnostics)?;
        self.doc(entry, &raw.doc);
        for (index, field) in raw.fields.iter().enumerate().filter(|(_, field)| field.doc.trim().is_empty()) {
            self.diagnostics.error(&entry.item_origin("fields", index), format!("`{}`: the doc is empty", field.name));
        }
        let fields = raw.fields.into_iter().map(|field| (field, None, Vec::new())).collect();
        let fields = self.fields(entry, "fields", fields, Position::Field);
        Some(Struct { name: raw.name, doc: raw.doc, fields, origin: entry.origin.clone() })
    }

    fn fields(
        &mut self,
        entry: &Entry,
        key: &str,
        raw: Vec<(RawField, Option<Rules>, Vec<String>)>,
        position: Position,
    ) -> Vec<Field> {
        let mut names = BTreeSet::new();
        let mut fields = Vec::with_capacity(raw.len());
        for (index, (field, rules, accesses)) in raw.into_iter().enumerate() {
            let origin = entry.item_origin(key, index);
            if !names.insert(field.name.clone()) {
                self.diagnostics.error(&origin, format!("two are called `{}`", field.name));
            }
            let shape = (field.null, field.list, field.count);
            if let Some(shape) = self.shape(&origin, &field.name, &field.kind, shape, position) {
                fields.push(Field { name: field.name, shape, doc: field.doc, rules, accesses });
            }
        }
        fields
    }

    fn shape(
        &mut self,
        origin: &Origin,
        name: &str,
        kind: &str,
        (null, list, count): (bool, bool, Option<u32>),
        position: Position,
    ) -> Option<Shape> {
        let Some(kind) = self.names.find(kind) else {
            self.diagnostics.unknown(origin, kind, format!("`{name}`: there is no kind `{kind}`"), self.names.all());
            return None;
        };
        let shape = Shape { kind, null, list, count };
        if let Some(problem) = shape.problem(position) {
            self.diagnostics.error(origin, format!("`{name}`: {problem}"));
            return None;
        }
        Some(shape)
    }

    fn object(&mut self, entry: &Entry, file: &mut SpecFile) {
        let Some(raw) = entry.parse::<RawObject>(self.diagnostics) else { return };
        self.doc(entry, &raw.doc);
        if raw.object != file.stem {
            let message = format!("object `{}` belongs in {}.yaml, one file for each object", raw.object, raw.object);
            self.diagnostics.error(&entry.origin, message);
        }
        if let Some(first) = &file.object {
            self.diagnostics.error(&entry.origin, format!("the file has an object already, at {}", first.origin));
            return;
        }
        if raw.concrete && !raw.facets.is_empty() {
            self.diagnostics.error(&entry.origin_of("facets"), "a concrete object has no trait, so it has no facets");
        }
        let facets = raw.facets.into_iter().map(|facet| {
            self.doc(entry, &facet.doc);
            Facet { name: facet.name, part: facet.part, doc: facet.doc }
        });
        let facets = facets.collect();
        file.object = Some(Object {
            name: raw.object,
            id: raw.id,
            vm_type: raw.vm_type,
            concrete: raw.concrete,
            extends: raw.extends,
            bare: raw.bare,
            facets,
            doc: raw.doc,
            methods: Vec::new(),
            origin: entry.origin.clone(),
        });
    }

    fn method(&mut self, entry: &Entry, file: &mut SpecFile) {
        let Some(raw) = entry.parse::<RawMethod>(self.diagnostics) else { return };
        self.doc(entry, &raw.doc);
        let args = raw.args.into_iter().enumerate();
        let args = args.map(|(index, arg)| arg.split(entry.item_origin("args", index))).collect();
        let args = self.fields(entry, "args", args, Position::Argument);
        let result = raw.result.and_then(|result| {
            let shape = (result.null, result.list, None);
            self.shape(&entry.origin_of("result"), "result", &result.kind, shape, Position::Result)
        });
        let default = raw.default.as_deref().and_then(|text| self.default_body(entry, text, raw.infallible, &result));
        if raw.infallible && raw.errors.is_some() {
            self.diagnostics.error(&entry.origin_of("errors"), "nothing makes a method fail that cannot fail");
        }
        let Some(object) = file.object.as_mut() else {
            self.diagnostics.error(&entry.origin, "a method stands below the object it belongs to");
            return;
        };
        if object.concrete {
            self.diagnostics.error(&entry.origin, "a concrete object has no methods in the spec");
        }
        if let Some(first) = object.methods.iter().find(|method| method.name == raw.method) {
            self.diagnostics.error(&entry.origin, format!("`{}` is declared at {} already", raw.method, first.origin));
        }
        object.methods.push(Method {
            name: raw.method,
            doc: raw.doc,
            errors: raw.errors,
            safety: raw.safety,
            args,
            result,
            infallible: raw.infallible,
            recorded: raw.recorded,
            operation: raw.operation,
            default,
            origin: entry.origin.clone(),
        });
    }

    fn default_body(
        &mut self,
        entry: &Entry,
        text: &str,
        infallible: bool,
        result: &Option<Shape>,
    ) -> Option<DefaultBody> {
        let object = result.as_ref().is_some_and(|shape| matches!(shape.kind, Kind::Object(_)) && !shape.null);
        let problem = match text {
            "unimplemented" if infallible => "a method that cannot fail cannot be `unimplemented`".to_string(),
            "unimplemented" => return Some(DefaultBody::Unimplemented),
            "zero" if object => "there is no object to return: expected a result that may be null".to_string(),
            "zero" => return Some(DefaultBody::Zero),
            other => format!("`{other}` is no default: expected `unimplemented` or `zero`"),
        };
        self.diagnostics.error(&entry.origin_of("default"), problem);
        None
    }

    fn layout_type(&mut self, origin: &Origin, name: &str, text: &str) -> Option<LayoutType> {
        let ty = LayoutType::parse(text);
        if ty.is_none() {
            self.diagnostics.error(origin, format!("`{name}`: `{text}` is not a layout type"));
        }
        ty
    }

    fn layout(&mut self, entry: &Entry) -> Option<Layout> {
        let raw: RawLayout = entry.parse(self.diagnostics)?;
        self.doc(entry, &raw.doc);
        let mut fields = Vec::with_capacity(raw.fields.len());
        for (index, field) in raw.fields.into_iter().enumerate() {
            let origin = entry.item_origin("fields", index);
            let ty = self.layout_type(&origin, &field.name, &field.ty)?;
            let RawLayoutField { name, offset, count, hex, doc, .. } = field;
            fields.push(LayoutField { name, offset, ty, count, hex, doc, origin });
        }
        let mut then = Vec::with_capacity(raw.then.len());
        for (index, part) in raw.then.into_iter().enumerate() {
            let origin = entry.item_origin("then", index);
            let RawTrailing { name, part, count, bytes, holds, doc } = part;
            let (part, count) = match (part, count, bytes) {
                (Some(part), Some(count), None) if holds.is_none() => {
                    (Some(self.layout_type(&origin, &name, &part)?), count)
                }
                (None, None, Some(bytes)) => (None, bytes),
                _ => {
                    let message = format!("`{name}`: expected `part` and `count`, or `bytes` and perhaps `holds`");
                    self.diagnostics.error(&origin, message);
                    continue;
                }
            };
            then.push(Trailing { name, part, count, holds, doc, origin });
        }
        Some(Layout {
            name: raw.layout,
            size: raw.size,
            align: raw.align,
            readable: raw.readable,
            writable: raw.writable,
            over_aligned: raw.over_aligned,
            doc: raw.doc,
            fields,
            then,
            origin: entry.origin.clone(),
        })
    }

    fn function(&mut self, entry: &Entry) -> Option<Function> {
        let raw: RawFunction = entry.parse(self.diagnostics)?;
        self.doc(entry, &raw.doc);
        let mut args = Vec::with_capacity(raw.args.len());
        for arg in raw.args {
            let ty = self.layout_type(&entry.origin_of("args"), &arg.name, &arg.ty)?;
            args.push((arg.name, ty));
        }
        let result = match raw.result {
            Some(text) => Some(self.layout_type(&entry.origin_of("result"), "result", &text)?),
            None => None,
        };
        Some(Function { name: raw.function, doc: raw.doc, args, result, origin: entry.origin.clone() })
    }

    fn cpu_state(&mut self, entry: &Entry) -> Option<CpuState> {
        let raw: RawCpuState = entry.parse(self.diagnostics)?;
        self.doc(entry, &raw.doc);
        Some(CpuState { name: raw.cpu_state, mask: raw.mask, doc: raw.doc, origin: entry.origin.clone() })
    }

    /// Reports a place that the processor data does not have.
    fn processor_bit(&mut self, entry: &Entry, place: Option<(u8, u8)>) {
        if place.is_some_and(|(field, bit)| field >= 8 || bit >= 64) {
            self.diagnostics.error(&entry.origin_of("bit"), "the processor data is 8 words of 64 bits");
        }
    }

    fn arm_feature(&mut self, entry: &Entry, file: &mut SpecFile) {
        let Some(raw) = entry.parse::<RawArmFeature>(self.diagnostics) else { return };
        self.doc(entry, &raw.doc);
        let place = (raw.field, raw.bit);
        self.processor_bit(entry, Some(place));
        if raw.hwcap.word >= 2 || raw.hwcap.bit >= 64 {
            self.diagnostics.error(&entry.origin_of("hwcap"), "the capabilities are 2 words of 64 bits");
        }
        if let Some(first) = file.arm_features.iter().find(|feature| feature.place == place) {
            self.diagnostics.error(&entry.origin_of("bit"), format!("the bit is that of {} already", first.origin));
        }
        file.arm_features.push(ArmFeature {
            name: raw.arm_feature,
            place,
            hwcap: (raw.hwcap.word, raw.hwcap.bit),
            doc: raw.doc,
            origin: entry.origin.clone(),
        });
    }

    fn cpu_feature(&mut self, entry: &Entry, file: &mut SpecFile) {
        let Some(raw) = entry.parse::<RawCpuFeature>(self.diagnostics) else { return };
        self.doc(entry, &raw.doc);
        let place = raw.field.zip(raw.bit);
        if raw.field.is_some() != raw.bit.is_some() {
            self.diagnostics.error(&entry.origin, "`field` and `bit` belong together");
        }
        self.processor_bit(entry, place);
        if raw.cpuid.bit >= 32 || !["eax", "ebx", "ecx", "edx"].contains(&raw.cpuid.register.as_str()) {
            self.diagnostics.error(&entry.origin_of("cpuid"), "expected a bit below 32 of eax, ebx, ecx or edx");
        }
        let same = |feature: &&CpuFeature| place.is_some() && feature.place == place;
        if let Some(first) = file.cpu_features.iter().find(same) {
            self.diagnostics.error(&entry.origin_of("bit"), format!("the bit is that of {} already", first.origin));
        }
        let state = raw.needs.as_ref().and_then(|needs| {
            let state = file.cpu_states.iter().position(|state| state.name == *needs);
            if state.is_none() {
                let message = format!("there is no cpu_state `{needs}` above");
                let known = file.cpu_states.iter().map(|state| state.name.as_str());
                self.diagnostics.unknown(&entry.origin_of("needs"), needs, message, known);
            }
            state
        });
        let RawCpuid { leaf, subleaf, register, bit } = raw.cpuid;
        file.cpu_features.push(CpuFeature {
            name: raw.cpu_feature,
            place,
            cpuid: Cpuid { leaf, subleaf, register, bit },
            state,
            doc: raw.doc,
            origin: entry.origin.clone(),
        });
    }
}
