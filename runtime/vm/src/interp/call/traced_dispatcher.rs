//! The traced dispatcher: passes the text of each op, with the values of its operands, to the trace sink, and then lets
//! the loop dispatcher execute it. `dispatcher.rs` calls it for the tier `Traced`. The generated disassembler writes
//! the text, so a new op needs nothing here, and the other dispatchers have no code for tracing.

use crate::bytecode::{Decoded, Names, RefReg, Reg, RegisterValues, disassemble_op_with_values};
use crate::generated::vm::interp::dispatch as ops;
use crate::interp::frame::registers::Registers;
use crate::interp::machine::Machine;
use crate::interp::machine::bound_modules::BytecodeModule;
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

/// Reports the op that is next, after the marker of its block if it is the first op of one.
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

/// The offset of the marker of the block whose first op is `pc`, if there is one. Only a branch to the block or a call
/// leads to such an op.
fn block_at(code: &Decoded, pc: usize) -> Option<u32> {
    let index = code.blocks.binary_search_by_key(&pc, |block| block.ops.start as usize).ok()?;
    Some(code.blocks[index].offset)
}

/// The registers of the running frame, as the disassembler reads them.
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

/// The names in a module, in the form that the disassembler takes.
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
