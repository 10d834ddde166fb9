//! The runner of kernels of this build ([`Interpreter`]): decodes their code once and interprets it with the crate
//! `vireo-gfx`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use vireo_gfx::{GridDispatch, KernelRegisters, Program, run, run_counted, vector_registers};
use vireo_hsa::code_object::GFX11_PREFIX;
use vireo_simt::{Pool, Port, Trap, TrapKind};

use crate::dispatch::{KernelDispatch, KernelRunner};

/// Programs that are kept. Those of code objects that were unloaded go when there are more.
const MAX_PROGRAMS: usize = 1024;

/// The code that a program is decoded from: the code object's segment, the address of the first instruction, the
/// number of registers, and whether it is counted.
type Key = (u64, u64, u32, bool);

/// Interprets kernels.
#[derive(Debug, Default)]
pub struct Interpreter {
    programs: Mutex<HashMap<Key, Arc<Program>>>,
    pool: Pool,
}

impl Interpreter {
    fn program(&self, dispatch: &KernelDispatch<'_>) -> Result<Arc<Program>, Trap> {
        let vectors = vector_registers(dispatch.descriptor);
        let is_counted = dispatch.counts.is_some();
        let key = (dispatch.code_segment, dispatch.code, vectors, is_counted);
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = programs.get(&key) {
            return Ok(program.clone());
        }
        let mut port = Port::new(dispatch.memory);
        let mut load = |start: u64, count: u64| -> Result<Vec<u32>, Trap> {
            let words = (0..count).map(|index| match port.load_words::<1>(start + 4 * index) {
                Ok([word]) => Ok(word),
                Err(fault) => Err(Trap::new(TrapKind::Memory(fault))),
            });
            words.collect()
        };
        let decode = if is_counted { Program::decode_counted } else { Program::decode_from };
        let mut program = decode(&load(dispatch.code, dispatch.code_length / 4)?, dispatch.code, 0, vectors);
        if program.calls() {
            let before = dispatch.code_before / 4;
            let start = dispatch.code - 4 * before;
            let words = load(start, before + dispatch.code_length / 4)?;
            program = decode(&words, start, before as usize, vectors);
        }
        let program = Arc::new(program);
        if programs.len() >= MAX_PROGRAMS {
            programs.clear();
        }
        programs.insert(key, program.clone());
        Ok(program)
    }

    /// Runs a dispatch as [`KernelRunner::run`] does, and returns how many instructions its waves executed.
    ///
    /// # Errors
    /// Why the kernel was stopped.
    pub fn execute(&self, dispatch: &KernelDispatch<'_>) -> Result<u64, Trap> {
        self.with_grid(dispatch, run)
    }

    fn with_grid<T>(
        &self,
        dispatch: &KernelDispatch<'_>,
        run: impl FnOnce(&GridDispatch<'_>) -> Result<T, Trap>,
    ) -> Result<T, Trap> {
        if !self.runs(dispatch.isa) {
            let what = format!("there is no interpreter for {}", dispatch.isa);
            return Err(Trap::new(TrapKind::InvalidDispatch(what.into())));
        }
        let program = self.program(dispatch)?;
        let packet = dispatch.packet;
        run(&GridDispatch {
            program: &program,
            descriptor: dispatch.descriptor,
            registers: KernelRegisters {
                dispatch_packet: dispatch.packet_address,
                queue: dispatch.queue_address,
                kernarg: packet.kernarg_address,
                dispatch_id: dispatch.packet_id,
            },
            grid: packet.grid_size,
            work_group: packet.workgroup_size,
            local_bytes: packet.group_segment_size,
            scratch_bytes: packet.private_segment_size,
            memory: dispatch.memory,
            half_sums: dispatch.half_sums,
            hook: dispatch.hook,
            stop: dispatch.stop,
            limit: u64::MAX,
            threads: dispatch.threads,
            pool: &self.pool,
        })
    }
}

impl KernelRunner for Interpreter {
    fn runs(&self, isa: &str) -> bool {
        isa.starts_with(GFX11_PREFIX)
    }

    fn run(&self, dispatch: &KernelDispatch<'_>) -> Result<(), Trap> {
        let Some(counts) = dispatch.counts else { return self.execute(dispatch).map(|_| ()) };
        let counted = self.with_grid(dispatch, run_counted)?;
        counts.get_or_init(|| counted);
        Ok(())
    }
}
