//! The traced dispatcher: executes one op after the other, and before each one hands its text, with the values of its operands, to the
//! sink of the module_list. Runs of the tier `Traced` use it. The text is made by the generated disassembler, so a new op needs nothing here,
//! and the other dispatchers know nothing of it.

use super::bound_modules::BytecodeModule;
use super::machine::Machine;
use super::registers::Registers;
use crate::bytecode::{Decoded, Names, RefReg, Reg, RegisterValues, disassemble_op_with_values};
use crate::generated::vm::interp::dispatch as ops;
use crate::status::Result;

/// Runs until `machine.exit` is set or an op fails.
pub fn run(machine: &mut Machine<'_>) -> Result<()> {
    let mut names: Vec<Option<OwnedNames>> = machine.module_list.modules.iter().map(|_| None).collect();
    while machine.exit.is_none() {
        let (module, index) = (machine.module, machine.module_index());
        let names = names[index].get_or_insert_with(|| OwnedNames::new(module));
        report(machine, names);
        ops::run(machine, true)?;
    }
    Ok(())
}

/// Hands the op that is next to the sink, and the marker of its block if that begins with it.
fn report(machine: &Machine<'_>, names: &OwnedNames) {
    let (code, ordinal) = (machine.code(), machine.function.ordinal() as usize);
    let function = match machine.module.function_names.get(ordinal).filter(|name| !name.is_empty()) {
        Some(name) => format!("{}.{name}", machine.module.name),
        None => format!("{}@{ordinal}", machine.module.name),
    };
    let line =
        |offset: u32, text: &str| machine.module_list.sink.executed(&format!("[{function}+{offset:08X}]    {text}"));
    if let Some(offset) = block_at(code, machine.pc) {
        line(offset, "<block>");
    }
    let offset = code.offsets.get(machine.pc).copied().unwrap_or_default();
    let values = Values(machine.frame);
    line(offset, &disassemble_op_with_values(code, machine.pc, names.borrowed(machine.module), &values));
}

/// The offset of the marker of the block that begins with an op. Nothing goes to that op but a branch to the block or a call.
fn block_at(code: &Decoded, pc: usize) -> Option<u32> {
    let index = code.blocks.binary_search_by_key(&pc, |block| block.ops.start as usize).ok()?;
    Some(code.blocks[index].offset)
}

/// The registers of the running frame.
struct Values(Registers);

impl RegisterValues for Values {
    fn word(&self, reg: Reg) -> u32 {
        self.0.word(reg.index())
    }

    fn wide(&self, reg: Reg) -> u64 {
        self.0.wide(reg)
    }

    fn object_type(&self, reg: RefReg) -> Option<&str> {
        self.0.reference(reg.index()).as_ref().map(|reference| reference.type_name())
    }
}

/// What a module calls the things that its ops refer to.
struct OwnedNames {
    types: Vec<String>,
    imports: Vec<String>,
    rodata: Vec<usize>,
}

impl OwnedNames {
    fn new(module: &BytecodeModule) -> OwnedNames {
        OwnedNames {
            types: module.types.iter().map(ToString::to_string).collect(),
            imports: module.imports.iter().map(|import| import.name.clone()).collect(),
            rodata: module
                .rodata
                .iter()
                .map(|segment| segment.get::<crate::Buffer>().map_or(0, crate::Buffer::len))
                .collect(),
        }
    }

    fn borrowed<'a>(&'a self, module: &'a BytecodeModule) -> Names<'a> {
        Names {
            module: &module.name,
            types: &self.types,
            imports: &self.imports,
            functions: &module.function_names,
            rodata: &self.rodata,
        }
    }
}
