//! The pages of the HAL: objects with their methods in slot order, numbers, structs, layouts and processor features.

use super::html::{self, code, code_link, inline};
use super::layouts::{self, Names};
use super::name::NameKind;
use super::page::Page;
use super::text::first_sentence;
use crate::model::constant::{Constant, ConstantValue};
use crate::model::hal::abi::HEADER_SIZE;
use crate::model::hal::{
    ArmFeature, CpuFeature, DefaultBody, Field, Form, Hal, Kind, Method, Numbers, Object, Rules, Shape, SpecFile,
    Struct,
};

/// The C header that stands beside the pages.
pub(super) const HEADER: &str = "driver.h";

/// The overview and a page for each file.
pub(super) fn pages(hal: &Hal) -> Vec<Page> {
    let mut pages = vec![overview(hal)];
    pages.extend(hal.files.iter().map(|file| file_page(hal, file)));
    pages
}

fn path(file: &SpecFile) -> String {
    format!("hal-{}.html", file.stem)
}

/// Every name that a file declares.
pub(super) fn declared(file: &SpecFile) -> impl Iterator<Item = &str> {
    let numbers = file.numbers.iter().map(|item| item.name.as_str());
    let handles = file.handles.iter().map(|item| item.name.as_str());
    let structs = file.structs.iter().map(|item| item.name.as_str());
    let objects = file.object.iter().map(|item| item.name.as_str());
    let layouts = file.layouts.iter().map(|item| item.name.as_str());
    let functions = file.functions.iter().map(|item| item.name.as_str());
    numbers.chain(handles).chain(structs).chain(objects).chain(layouts).chain(functions)
}

impl Names for Hal {
    fn size(&self, name: &str) -> Option<u64> {
        self.files.iter().flat_map(|file| &file.layouts).find(|layout| layout.name == name).map(|layout| layout.size)
    }

    fn href(&self, name: &str) -> Option<String> {
        let file = self.files.iter().find(|file| declared(file).any(|other| other == name))?;
        Some(format!("{}#{name}", path(file)))
    }
}

fn overview(hal: &Hal) -> Page {
    let mut page = Page::new("hal.html", "Hardware abstraction layer", "hal.html");
    page.text(
        "The objects that drivers implement and programs use, what their methods exchange, and the binary layouts that local devices \
         share with compiled kernels.",
    );
    page.part("objects", "Objects");
    let objects = hal.files.iter().filter_map(|file| Some((file, file.object.as_ref()?)));
    let rows: Vec<Vec<String>> = objects
        .map(|(file, object)| {
            vec![
                code_link(&format!("{}#{}", path(file), object.name), &object.name),
                if object.concrete { String::new() } else { object.id.to_string() },
                hal.slots(object).len().to_string(),
                object.vm_type.as_deref().map(|name| code(&format!("!{name}"))).unwrap_or_default(),
                inline(&object.doc),
            ]
        })
        .collect();
    page.table(&["Object", "Id", "Slots", "In programs", "What it is"], &rows);
    page.part("vtables", "Vtables");
    page.html(format!(
        "<p>Between libraries an object is a pair of pointers, to its vtable and to its data. A vtable is a header of {HEADER_SIZE} bytes \
         (version {} of the interface, the id of the object, the size of the vtable, the library that made the object, {} and {}) and \
         then a function pointer for each method; all take the data as {}. A method that can fail returns a status, null for \
         success, and results are written where {} points. Optional slots may be null or past the end of the vtable.</p>",
        driver_abi_version(hal),
        code("retain"),
        code("release"),
        code("this"),
        code("out"),
    ));
    page.html(format!("<p>All of it as a C header: {}.</p>", html::link(HEADER, HEADER)));
    page.part("pages", "All declarations");
    let rows: Vec<Vec<String>> = hal
        .files
        .iter()
        .map(|file| {
            let names: Vec<String> =
                declared(file).map(|name| code_link(&format!("{}#{name}", path(file)), name)).collect();
            vec![html::link(&path(file), &file.stem), format!("<span class=\"chips\">{}</span>", names.join(" "))]
        })
        .collect();
    page.table(&["Page", "Declares"], &rows);
    page
}

fn file_page(hal: &Hal, file: &SpecFile) -> Page {
    let mut page = Page::new(&path(file), &format!("HAL: {}", file.stem), "hal.html");
    if let Some(object) = &file.object {
        write_object(hal, object, &mut page);
    }
    for item in &file.structs {
        page.part_of(NameKind::Struct, &item.name, (&item.name, &item.name), "struct", &item.doc);
        let mut rows = fields(hal, &item.fields);
        for (row, field) in rows.iter_mut().zip(&item.fields) {
            row[0] = page.member(NameKind::Field, &item.name, &field.name, &field.doc);
        }
        page.table(&["Field", "Type", "What it holds"], &rows);
        if file.layouts.is_empty() {
            write_mirror(hal, item, &mut page);
        }
        page.html(html::source(&item.origin));
    }
    for numbers in &file.numbers {
        write_numbers(numbers, &mut page);
    }
    write_handles(file, &mut page);
    write_constants(file, &mut page);
    for layout in &file.layouts {
        layouts::write(hal, NameKind::Layout, layout, &mut page);
    }
    for function in &file.functions {
        layouts::write_function(hal, function, &mut page);
    }
    write_cpu(file, &mut page);
    page
}

fn write_object(hal: &Hal, object: &Object, page: &mut Page) {
    page.part_of(NameKind::Object, &object.name, (&object.name, &object.name), "object", &object.doc);
    if let Some(name) = &object.vm_type {
        page.html(format!("<p>Programs refer to it as {}.</p>", code(&format!("!{name}"))));
    }
    if object.concrete {
        page.text("There is one implementation, which the runtime contains; drivers know nothing of it.");
    }
    if let Some(base) = object.extends.as_ref().and_then(|name| Some((name, hal.href(name)?))) {
        let base = code_link(&base.1, base.0);
        page.html(format!("<p>It is a {base} too, whose methods are its first slots.</p>"));
    }
    let (offsets, size) = hal.slot_offsets(object);
    let slots = hal.slots(object);
    let rows: Vec<Vec<String>> = slots
        .iter()
        .zip(&offsets)
        .enumerate()
        .map(|(slot, ((of, method), offset))| {
            let id = format!("{}.{}", of.name, method.name);
            let page = hal.href(&of.name).unwrap_or_default();
            let name = code_link(&format!("{}#{id}", page.split('#').next().unwrap_or_default()), &method.name);
            let optional = if method.default.is_some() { "optional" } else { "" };
            vec![
                slot.to_string(),
                code(&offset.to_string()),
                name,
                optional.to_string(),
                inline(first_sentence(&method.doc)),
            ]
        })
        .collect();
    if !object.concrete {
        let size = code(&size.to_string());
        page.html(format!("<p>Object {} between libraries; its vtable takes {size} bytes.</p>", object.id));
        page.table(&["Slot", "Offset", "Method", "", "What it does"], &rows);
    }
    let facets: Vec<Vec<String>> = object
        .facets
        .iter()
        .map(|facet| vec![page.member(NameKind::Facet, &object.name, &facet.name, &facet.doc), inline(&facet.doc)])
        .collect();
    page.table(&["Facet, within one build", "What it gives"], &facets);
    page.html(html::source(&object.origin));
    for ((slot, (of, method)), offset) in slots.iter().enumerate().zip(offsets) {
        if of.name == object.name {
            write_method(hal, object, (slot, offset), method, page);
        }
    }
}

/// The version of the interface between libraries, which is a constant of the spec.
fn driver_abi_version(hal: &Hal) -> String {
    let mut constants = hal.files.iter().flat_map(|file| &file.constants);
    match constants.find(|constant| constant.name == "driver_abi_version").map(|constant| &constant.value) {
        Some(ConstantValue::Int(_, version)) => version.to_string(),
        _ => "?".to_string(),
    }
}

/// Where the fields of a struct are between libraries.
fn write_mirror(hal: &Hal, structure: &Struct, page: &mut Page) {
    let (offsets, extent) = hal.layout_of(structure);
    let rows: Vec<Vec<String>> = structure
        .fields
        .iter()
        .zip(offsets)
        .map(|(field, offset)| {
            let size = hal.extent(&field.shape).size;
            vec![code(&offset.to_string()), size.to_string(), code(&field.name), code(&hal.value_text(&field.shape))]
        })
        .collect();
    page.html(format!("<p>Between libraries: {} bytes, aligned to {}.</p>", extent.size, extent.align));
    page.table(&["Offset", "Size", "Field", "As"], &rows);
}

fn write_method(hal: &Hal, object: &Object, (slot, offset): (usize, u64), method: &Method, page: &mut Page) {
    let id = format!("{}.{}", object.name, method.name);
    page.part_of(NameKind::Method, &id, (&id, &method.name), &format!("slot {slot}, offset {offset}"), &method.doc);
    page.table(&["Argument", "Type", ""], &fields(hal, &method.args));
    let value = method.result.as_ref().map_or_else(|| "nothing".to_string(), |shape| type_of(hal, shape));
    let fails = if method.infallible { "it cannot fail" } else { "or an error" };
    page.html(format!("<p>Returns {value}; {fails}.</p>"));
    if let Some(categories) = &method.recorded {
        let categories: Vec<String> = categories.iter().map(|category| format!(" {}", code(category))).collect();
        page.html(format!("<p>Recorded as a command{}.</p>", categories.concat()));
    }
    page.html(format!("<p>Between libraries: {}</p>", code(&hal.slot_text(method))));
    match method.default {
        Some(DefaultBody::Unimplemented) => page.html("<p>Optional: fails with UNIMPLEMENTED where it is missing.</p>"),
        Some(DefaultBody::Zero) => page.html("<p>Optional: zero, false, empty or absent where it is missing.</p>"),
        None => {}
    }
    if let Some(errors) = &method.errors {
        page.html(format!("<p>Errors: {}</p>", inline(errors)));
    }
    if let Some(safety) = &method.safety {
        page.html(format!("<p><span class=\"badge trap\">unsafe</span>{}</p>", inline(safety)));
    }
    page.html(html::source(&method.origin));
}

fn fields(hal: &Hal, fields: &[Field]) -> Vec<Vec<String>> {
    let row = |field: &Field| {
        let rules = field.rules.as_ref().map_or_else(String::new, Rules::text);
        let text = format!("{} {rules}", field.doc);
        vec![code(&field.name), type_of(hal, &field.shape), inline(text.trim())]
    };
    fields.iter().map(row).collect()
}

/// A type with a link to what it names.
fn type_of(hal: &Hal, shape: &Shape) -> String {
    let (name, declared) = match &shape.kind {
        Kind::Bool => ("bool", false),
        Kind::Int(int) => (int.name(), false),
        Kind::String => ("string", false),
        Kind::Text => ("text", false),
        Kind::Bytes => ("bytes", false),
        Kind::Pointer => ("pointer", false),
        Kind::Owner => ("owner", false),
        Kind::Status => ("status", false),
        Kind::Deadline => ("deadline", false),
        Kind::Callback => ("callback", false),
        Kind::Numbers(name) | Kind::Handle(name) | Kind::Struct(name) | Kind::Object(name) => (name.as_str(), true),
        Kind::Layout { name, .. } => (name.as_str(), true),
    };
    let mut text = match hal.href(name).filter(|_| declared) {
        Some(href) => code_link(&href, name),
        None => code(name),
    };
    if let Some(count) = shape.count {
        text = format!("{text} x {count}");
    }
    if shape.list {
        text = format!("list of {text}");
    }
    if shape.null {
        text.push_str(", may be absent");
    }
    text
}

/// Writes the part of a page about a set of named numbers.
pub(super) fn write_numbers(numbers: &Numbers, page: &mut Page) {
    let (kind, form, rule) = match numbers.form {
        Form::Enum => (NameKind::Enum, "enum", "One of the values, nothing else."),
        Form::Bits => (NameKind::Bits, "bits", "Any union of the values, nothing else."),
        Form::OpenBits => (NameKind::Bits, "bits", "Any union of bits, named or not."),
        Form::Code => (NameKind::Code, "code", "Any number; these have names."),
    };
    let note = format!("{form}, {}", numbers.int.name());
    page.part_of(kind, &numbers.name, (&numbers.name, &numbers.name), &note, &numbers.doc);
    page.text(rule);
    let printed = numbers.values.iter().any(|value| value.text.is_some());
    let rows: Vec<Vec<String>> = numbers
        .values
        .iter()
        .map(|value| {
            let name = page.member(NameKind::Value, &numbers.name, &value.name, &value.doc);
            let mut row = vec![name, code(&format!("{:#x}", value.value)), value.value.to_string()];
            if printed {
                row.push(value.text.as_deref().map(code).unwrap_or_default());
            }
            row.push(inline(&value.doc));
            row
        })
        .collect();
    let columns: &[&str] = if printed {
        &["Name", "Value", "", "Printed as", "What it means"]
    } else {
        &["Name", "Value", "", "What it means"]
    };
    page.table(columns, &rows);
    page.html(html::source(&numbers.origin));
}

fn write_cpu(file: &SpecFile, page: &mut Page) {
    if !file.cpu_states.is_empty() {
        page.part("cpu-states", "Processor state");
        let rows: Vec<Vec<String>> = file
            .cpu_states
            .iter()
            .map(|state| {
                let id = format!("state-{}", state.name);
                let name = page.anchored(NameKind::State, &state.name, (&id, &state.name), &state.doc);
                vec![name, code(&format!("{:#x}", state.mask)), inline(&state.doc)]
            })
            .collect();
        page.table(&["State", "Mask", "What it is"], &rows);
    }
    if !file.cpu_features.is_empty() {
        page.part("cpu-features", "Processor features");
        let rows: Vec<Vec<String>> = file.cpu_features.iter().map(|feature| cpu_feature(file, feature, page)).collect();
        page.table(&["Feature", "Word", "Bit", "cpuid", "Needs", "What it is"], &rows);
    }
    if !file.arm_features.is_empty() {
        page.part("arm-features", "Features of 64-bit Arm processors");
        let rows: Vec<Vec<String>> = file.arm_features.iter().map(|feature| arm_feature(feature, page)).collect();
        page.table(&["Feature", "Word", "Bit", "Reported in", "What it is"], &rows);
    }
}

fn cpu_feature(file: &SpecFile, feature: &CpuFeature, page: &mut Page) -> Vec<String> {
    let cpuid = &feature.cpuid;
    let place = format!("{:#x}.{} {}[{}]", cpuid.leaf, cpuid.subleaf, cpuid.register, cpuid.bit);
    let state = feature.state.and_then(|index| file.cpu_states.get(index)).map(|state| code(&state.name));
    let id = format!("feature-{}", feature.name);
    vec![
        page.anchored(NameKind::Feature, &feature.name, (&id, &feature.name), &feature.doc),
        feature.place.map_or_else(String::new, |(field, _)| field.to_string()),
        feature.place.map_or_else(String::new, |(_, bit)| bit.to_string()),
        code(&place),
        state.unwrap_or_default(),
        inline(&feature.doc),
    ]
}

fn arm_feature(feature: &ArmFeature, page: &mut Page) -> Vec<String> {
    let (word, bit) = feature.hwcap;
    let id = format!("arm-feature-{}", feature.name);
    vec![
        page.anchored(NameKind::Feature, &feature.name, (&id, &feature.name), &feature.doc),
        feature.place.0.to_string(),
        feature.place.1.to_string(),
        code(&format!("{}[{bit}]", if word == 0 { "AT_HWCAP" } else { "AT_HWCAP2" })),
        inline(&feature.doc),
    ]
}

/// Writes the part of a page about handles, if there are any.
pub(super) fn write_handles(file: &SpecFile, page: &mut Page) {
    if !file.handles.is_empty() {
        page.part("handles", "Handles");
        let rows: Vec<Vec<String>> = file
            .handles
            .iter()
            .map(|handle| {
                let name = page.anchored(NameKind::Handle, &handle.name, (&handle.name, &handle.name), &handle.doc);
                vec![name, code(handle.int.name()), inline(&handle.doc)]
            })
            .collect();
        page.table(&["Handle", "Type", "What it identifies"], &rows);
    }
}

/// Writes the part of a page about constants, if there are any.
pub(super) fn write_constants(file: &SpecFile, page: &mut Page) {
    if !file.constants.is_empty() {
        page.part("constants", "Constants");
        constant_table(&file.constants, page);
    }
}

/// Writes a table of constants.
pub(super) fn constant_table(constants: &[Constant], page: &mut Page) {
    let rows: Vec<Vec<String>> = constants
        .iter()
        .map(|constant| {
            let (ty, value) = match &constant.value {
                ConstantValue::Int(int, value) => (int.name(), format!("{value:#x}")),
                ConstantValue::Text(text) => ("string", format!("{text:?}")),
            };
            let id = format!("constant-{}", constant.name);
            let name = page.anchored(NameKind::Constant, &constant.name, (&id, &constant.name), &constant.doc);
            vec![name, code(ty), code(&value), inline(&constant.doc)]
        })
        .collect();
    page.table(&["Constant", "Type", "Value", "What it means"], &rows);
}
