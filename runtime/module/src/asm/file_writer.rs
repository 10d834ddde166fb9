//! The file writer: the last stage of the assembler, which writes the FlatBuffer with its size and the external rodata
//! segments after it.

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, WIPOffset};

use super::error::{AsmError, Location};
use super::parsed_module::{Function, ParsedModule};
use crate::bytecode::opcode::NEWEST_BYTECODE;
use crate::vmfb::schema::bytecode_module_def::{
    AttrDef, BytecodeModuleDef, ExportFunctionDef, FeatureBits, FunctionDescriptor, FunctionSignatureDef, IDENTIFIER,
    ImportFlagBits, ImportFunctionDef, ModuleDependencyDef, ModuleDependencyFlagBits, ModuleStateDef, RodataSegmentDef,
    TypeDef,
};
use crate::vmfb::schema::module_file::{BYTECODE_MAJOR_SHIFT, SEGMENT_ALIGNMENT, SizePrefix};

/// A FlatBuffer holds at most this many bytes: the crate asserts that it does not grow beyond 2 GiB.
const MAX_FLATBUFFER: usize = 1 << 30;

type Builder = FlatBufferBuilder<'static>;
type TableOffset = WIPOffset<TableFinishedWIPOffset>;
type TableVector = WIPOffset<flatbuffers::Vector<'static, flatbuffers::ForwardsUOffset<TableFinishedWIPOffset>>>;

/// Writes the file of a module.
pub(super) fn write(module: &ParsedModule<'_>) -> Result<Vec<u8>, AsmError> {
    let embedded: usize =
        module.rodata.iter().filter(|segment| !segment.external).map(|segment| segment.bytes.len()).sum();
    let size = embedded.saturating_add(module.bytecode.len()).saturating_add(tables(module));
    if size > MAX_FLATBUFFER {
        let message =
            format!("the module has {size} bytes besides external segments, expected at most {MAX_FLATBUFFER}");
        return Err(AsmError { location: Location { line: 1, column: 1 }, message });
    }
    let mut builder = Builder::new();
    let root = root(&mut builder, module);
    // Four ASCII bytes; the crate takes them as text.
    let identifier = std::str::from_utf8(IDENTIFIER).ok();
    builder.finish_size_prefixed(root, identifier);
    let mut file = builder.finished_data().to_vec();
    debug_assert!(file.len() >= SizePrefix::SIZE);
    let externals: Vec<&[u8]> =
        module.rodata.iter().filter(|segment| segment.external).map(|segment| segment.bytes.as_slice()).collect();
    for bytes in externals {
        file.resize(aligned(file.len()), 0);
        file.extend_from_slice(bytes);
    }
    Ok(file)
}

/// An upper bound of the bytes of names and tables.
fn tables(module: &ParsedModule<'_>) -> usize {
    let attrs =
        |attrs: &[(String, String)]| attrs.iter().map(|(key, value)| key.len() + value.len() + 64).sum::<usize>();
    let types: usize = module.types.iter().map(|name| name.len() + 64).sum();
    let dependencies: usize = module.dependencies.iter().map(|dependency| dependency.name.len() + 64).sum();
    let imports = module.imports.iter();
    let imports: usize =
        imports.map(|import| import.name.len() + import.convention.as_ref().map_or(0, String::len) + 128).sum();
    let exports: usize = module.exports.iter().map(|export| export.name.len() + 64).sum();
    let functions = module.functions.iter();
    let functions: usize = functions.map(|function| function.convention.len() + attrs(&function.attrs) + 128).sum();
    let segments = module.rodata.len().saturating_mul(96);
    [module.name.len(), attrs(&module.attrs), types, dependencies, imports, exports, functions, segments]
        .into_iter()
        .fold(1 << 10, usize::saturating_add)
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(SEGMENT_ALIGNMENT as usize)
}

fn root(builder: &mut Builder, module: &ParsedModule<'_>) -> TableOffset {
    let name = builder.create_string(&module.name);
    let attrs = attributes(builder, &module.attrs);
    let types = vector(builder, &module.types, |builder, name| {
        let name = builder.create_string(name);
        let start = builder.start_table();
        builder.push_slot_always(TypeDef::SLOT_FULL_NAME, name);
        builder.end_table(start)
    });
    let dependencies = vector(builder, &module.dependencies, |builder, dependency| {
        let name = builder.create_string(&dependency.name);
        let flags = match dependency.optional {
            true => ModuleDependencyFlagBits::OPTIONAL,
            false => ModuleDependencyFlagBits::REQUIRED,
        };
        let start = builder.start_table();
        builder.push_slot_always(ModuleDependencyDef::SLOT_NAME, name);
        builder.push_slot_always(ModuleDependencyDef::SLOT_MINIMUM_VERSION, dependency.minimum_version);
        builder.push_slot_always(ModuleDependencyDef::SLOT_FLAGS, flags.0);
        builder.end_table(start)
    });
    let imports = vector(builder, &module.imports, |builder, import| {
        let name = builder.create_string(&import.name);
        let signature = import.convention.as_ref().map(|convention| signature(builder, convention, &[]));
        let flags = if import.optional { ImportFlagBits::OPTIONAL } else { ImportFlagBits::REQUIRED };
        let start = builder.start_table();
        builder.push_slot_always(ImportFunctionDef::SLOT_FULL_NAME, name);
        if let Some(signature) = signature {
            builder.push_slot_always(ImportFunctionDef::SLOT_SIGNATURE, signature);
        }
        builder.push_slot_always(ImportFunctionDef::SLOT_FLAGS, flags.0);
        builder.end_table(start)
    });
    let exports = vector(builder, &module.exports, |builder, export| {
        let name = builder.create_string(&export.name);
        let start = builder.start_table();
        builder.push_slot_always(ExportFunctionDef::SLOT_LOCAL_NAME, name);
        builder.push_slot_always(ExportFunctionDef::SLOT_INTERNAL_ORDINAL, export.ordinal as i32);
        builder.end_table(start)
    });
    let signatures = vector(builder, &module.functions, |builder, function| {
        signature(builder, &function.convention, &function.attrs)
    });
    let rodata = rodata(builder, module);
    let state = (module.global_bytes != 0 || module.global_refs != 0).then(|| {
        let start = builder.start_table();
        builder.push_slot_always(ModuleStateDef::SLOT_GLOBAL_BYTES_CAPACITY, module.global_bytes as i32);
        builder.push_slot_always(ModuleStateDef::SLOT_GLOBAL_REF_COUNT, module.global_refs as i32);
        builder.end_table(start)
    });
    let descriptors: Vec<FunctionDescriptor> = module.functions.iter().map(descriptor).collect();
    let descriptors = builder.create_vector(&descriptors);
    let bytecode = builder.create_vector(&module.bytecode);
    let derived = module.functions.iter().fold(0, |all, function| all | function.features);
    let version = u32::from(NEWEST_BYTECODE.major) << BYTECODE_MAJOR_SHIFT | u32::from(NEWEST_BYTECODE.minor);

    let start = builder.start_table();
    builder.push_slot_always(BytecodeModuleDef::SLOT_NAME, name);
    builder.push_slot_always(BytecodeModuleDef::SLOT_VERSION, module.version);
    builder.push_slot_always(BytecodeModuleDef::SLOT_REQUIREMENTS, module.stated_features.unwrap_or(derived));
    let tables = [
        (BytecodeModuleDef::SLOT_ATTRS, attrs),
        (BytecodeModuleDef::SLOT_TYPES, types),
        (BytecodeModuleDef::SLOT_DEPENDENCIES, dependencies),
        (BytecodeModuleDef::SLOT_IMPORTED_FUNCTIONS, imports),
        (BytecodeModuleDef::SLOT_EXPORTED_FUNCTIONS, exports),
        (BytecodeModuleDef::SLOT_FUNCTION_SIGNATURES, signatures),
        (BytecodeModuleDef::SLOT_RODATA_SEGMENTS, rodata),
    ];
    for (slot, tables) in tables {
        if let Some(tables) = tables {
            builder.push_slot_always(slot, tables);
        }
    }
    if let Some(state) = state {
        builder.push_slot_always(BytecodeModuleDef::SLOT_MODULE_STATE, state);
    }
    builder.push_slot_always(BytecodeModuleDef::SLOT_FUNCTION_DESCRIPTORS, descriptors);
    builder.push_slot_always(BytecodeModuleDef::SLOT_BYTECODE_VERSION, version);
    builder.push_slot_always(BytecodeModuleDef::SLOT_BYTECODE_DATA, bytecode);
    builder.end_table(start)
}

/// A vector of tables; none if it is empty.
fn vector<T>(
    builder: &mut Builder,
    items: &[T],
    table: impl Fn(&mut Builder, &T) -> TableOffset,
) -> Option<TableVector> {
    let tables: Vec<TableOffset> = items.iter().map(|item| table(builder, item)).collect();
    (!tables.is_empty()).then(|| builder.create_vector(&tables))
}

fn attributes(builder: &mut Builder, attrs: &[(String, String)]) -> Option<TableVector> {
    vector(builder, attrs, |builder, (key, value)| {
        let (key, value) = (builder.create_string(key), builder.create_string(value));
        let start = builder.start_table();
        builder.push_slot_always(AttrDef::SLOT_KEY, key);
        builder.push_slot_always(AttrDef::SLOT_VALUE, value);
        builder.end_table(start)
    })
}

fn signature(builder: &mut Builder, convention: &str, attrs: &[(String, String)]) -> TableOffset {
    let convention = builder.create_string(convention);
    let attrs = attributes(builder, attrs);
    let start = builder.start_table();
    builder.push_slot_always(FunctionSignatureDef::SLOT_CALLING_CONVENTION, convention);
    if let Some(attrs) = attrs {
        builder.push_slot_always(FunctionSignatureDef::SLOT_ATTRS, attrs);
    }
    builder.end_table(start)
}

fn rodata(builder: &mut Builder, module: &ParsedModule<'_>) -> Option<TableVector> {
    // External segments follow each other, each at its alignment; their offsets count from the first.
    let mut next = 0;
    let places: Vec<Option<usize>> = module
        .rodata
        .iter()
        .map(|segment| {
            segment.external.then(|| {
                let start = aligned(next);
                next = start + segment.bytes.len();
                start
            })
        })
        .collect();
    let items: Vec<_> = module.rodata.iter().zip(places).collect();
    vector(builder, &items, |builder, (segment, location)| {
        let data = location.is_none().then(|| builder.create_vector(&segment.bytes));
        let start = builder.start_table();
        if let Some(data) = data {
            builder.push_slot_always(RodataSegmentDef::SLOT_EMBEDDED_DATA, data);
        }
        if let Some(location) = location {
            builder.push_slot_always(RodataSegmentDef::SLOT_EXTERNAL_DATA_OFFSET, *location as u64);
            builder.push_slot_always(RodataSegmentDef::SLOT_EXTERNAL_DATA_LENGTH, segment.bytes.len() as u64);
        }
        builder.end_table(start)
    })
}

fn descriptor(function: &Function) -> FunctionDescriptor {
    FunctionDescriptor {
        // The code of the module was found to be below 2 GiB.
        bytecode_offset: function.offset as i32,
        bytecode_length: function.length as i32,
        requirements: FeatureBits(function.features),
        reserved: 0,
        block_count: function.blocks as i16,
        i32_register_count: function.slots as i16,
        ref_register_count: function.refs as i16,
    }
}
