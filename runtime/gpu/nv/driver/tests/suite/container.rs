//! Executables in the format of the compiler, with kernels in PTX that tests write.

use vireo_stream::executable_format::{ExecutableDef, ExportDef, IDENTIFIER, ModuleDef};

/// An executable in the format of the compiler, with one kernel of a module: its bindings are not read only.
pub fn executable(text: &str, name: &str, block: [u32; 3], bindings: usize, constants: u32) -> Vec<u8> {
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let image = builder.create_string(text);
    let module = {
        let start = builder.start_table();
        builder.push_slot_always(ModuleDef::SLOT_IMAGE, image);
        builder.end_table(start)
    };
    let kernel_name = builder.create_string(name);
    let flags = builder.create_vector(&vec![0u64; bindings]);
    let export = {
        let start = builder.start_table();
        builder.push_slot_always(ExportDef::SLOT_KERNEL_NAME, kernel_name);
        builder.push_slot_always(ExportDef::SLOT_BLOCK_DIMS, Dimensions(block));
        builder.push_slot(ExportDef::SLOT_CONSTANT_COUNT, constants, 0);
        builder.push_slot_always(ExportDef::SLOT_BINDING_FLAGS, flags);
        builder.end_table(start)
    };
    let modules = builder.create_vector(&[module]);
    let exports = builder.create_vector(&[export]);
    let root = {
        let start = builder.start_table();
        builder.push_slot_always(ExecutableDef::SLOT_EXPORTS, exports);
        builder.push_slot_always(ExecutableDef::SLOT_MODULES, modules);
        builder.end_table(start)
    };
    builder.finish(root, std::str::from_utf8(IDENTIFIER).ok());
    builder.finished_data().to_vec()
}

/// Three numbers in a row, as the table of an export has them.
#[derive(Clone, Copy)]
struct Dimensions([u32; 3]);

impl flatbuffers::Push for Dimensions {
    type Output = Dimensions;

    unsafe fn push(&self, dst: &mut [u8], _: usize) {
        for (bytes, number) in dst.chunks_exact_mut(4).zip(self.0) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
    }

    fn size() -> usize {
        12
    }

    fn alignment() -> flatbuffers::PushAlignment {
        flatbuffers::PushAlignment::new(4)
    }
}

/// A module whose kernel `main` has so many addresses as parameters, and this body.
pub fn module(parameters: usize, body: &str) -> String {
    let parameters: Vec<String> = (0..parameters).map(|index| format!(".param .u64 p{index}")).collect();
    format!(
        ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry main({})\n{{\n{body}\n}}\n",
        parameters.join(", ")
    )
}
