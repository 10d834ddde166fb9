//! The instructions of a function as drafts: operands are checked by the types of the form.

use std::collections::HashMap;

use super::code::{Draft, LocalPlace, Place, Target};
use super::symbols::{FunctionId, Symbol, Symbols};
use crate::error::{LoadError, LoadErrorKind};
use crate::generated::instructions::Special;
use crate::generated::interp::handlers;
use crate::generated::suffixes::{Type, TypeKind};
use crate::interp::{control, lanes, moves, sync};
use crate::isa::{BodyInfo, Form, NoForm};
use crate::machine::{CARRY, Constant, DROPPED, FALSE, Handler, TRUE};
use crate::syntax::{Body, Function, Guard, Instruction, Name, Operand};

pub(super) type Lowered<T> = Result<T, LoadError>;

/// The function whose instructions are lowered, and all that they may name.
pub(super) struct Context<'c, 'a> {
    pub(super) symbols: &'c Symbols<'a>,
    pub(super) id: FunctionId,
    pub(super) function: &'c Function<'a>,
    pub(super) body: &'c Body<'a>,
    pub(super) sources: &'c [crate::syntax::Source<'a>],
    /// Offsets of the parameters of the kernel.
    pub(super) parameters: &'c [u32],
    /// Offsets of shared variables, by text and number, and of those of functions.
    pub(super) shared: &'c HashMap<SharedId, u32>,
    /// Offsets in local memory of each function's parameters, results and variables.
    pub(super) frames: &'c HashMap<FunctionId, Frame>,
    pub(super) version: u32,
    pub(super) target: u32,
}

/// A shared variable: of a text, or of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum SharedId {
    Module(usize, usize),
    Function(FunctionId, u32),
}

/// The local memory of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    pub(super) parameters: Vec<u32>,
    pub(super) results: Vec<u32>,
    pub(super) variables: Vec<u32>,
    pub(super) bytes: u32,
}

/// The drafts of a function.
pub(super) struct Drafts {
    /// With the number of the instruction of the tree.
    pub(super) drafts: Vec<(Draft, u32)>,
    /// The bits of registers, also of those that were added.
    pub(super) registers: Vec<u32>,
    /// The register that has where each lane was called.
    pub(super) link: u32,
    /// For each table of the body the statements that its labels are before, if instructions jump to them.
    pub(super) tables: Vec<Vec<u32>>,
    /// The functions that calls through registers may be of, counted for each call.
    pub(super) indirect_calls: usize,
}

/// Lowers one instruction after another.
pub(super) struct Lower<'c, 'a> {
    pub(super) context: Context<'c, 'a>,
    pub(super) out: Drafts,
    /// The line and the opcode of the instruction.
    pub(super) line: u32,
    pub(super) opcode: &'a str,
    pub(super) scope: u32,
    statement: u32,
}

/// Handlers by hand are compiled for any processor.
pub(super) fn own(
    handler: fn(
        &mut crate::machine::Warp,
        &mut crate::machine::Block<'_>,
        &crate::machine::Inst,
    ) -> crate::machine::Next,
) -> Handler {
    handler
}

pub(super) fn function<'a>(context: Context<'_, 'a>) -> Lowered<Drafts> {
    let mut registers = context.body.registers.clone();
    registers.push(32);
    let link = registers.len() as u32 - 1;
    let (line, body, is_kernel) = (context.function.line, context.body, context.function.is_kernel);
    let tables = vec![Vec::new(); context.body.table_list.len()];
    let out = Drafts { drafts: Vec::new(), registers, link, tables, indirect_calls: 0 };
    let mut lower = Lower { context, out, line, opcode: "", scope: 0, statement: 0 };
    for (statement, instruction) in body.instructions.iter().enumerate() {
        lower.statement = statement as u32;
        lower.instruction(instruction)?;
    }
    // A function may end without an instruction that says so.
    lower.statement = body.instructions.len() as u32;
    lower.return_from(is_kernel);
    Ok(lower.out)
}

impl<'a> Lower<'_, 'a> {
    pub(super) fn invalid<T>(&self, message: impl std::fmt::Display) -> Lowered<T> {
        Err(LoadError::invalid(self.line, format!("{}: {message}", self.opcode)))
    }

    pub(super) fn unsupported<T>(&self, message: impl std::fmt::Display) -> Lowered<T> {
        Err(LoadError::unsupported(self.line, format!("{}: {message}", self.opcode)))
    }

    pub(super) fn push(&mut self, draft: Draft) {
        self.out.drafts.push((draft, self.statement));
    }

    /// A new register of this many bits.
    pub(super) fn temporary(&mut self, bits: u32) -> Place {
        self.out.registers.push(bits);
        Place::Register(self.out.registers.len() as u32 - 1)
    }

    pub(super) fn bits_of(&self, register: u32) -> u32 {
        self.out.registers.get(register as usize).copied().unwrap_or(32)
    }

    fn return_from(&mut self, is_kernel: bool) {
        if is_kernel {
            self.push(Draft::control(own(control::exit)));
        } else {
            let link = Place::Register(self.out.link);
            self.push(Draft::control(own(control::return_from)).with([link]));
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        (self.line, self.opcode, self.scope) = (instruction.line, instruction.opcode, instruction.scope);
        let form = match Form::find(instruction.opcode, instruction.operands.len()) {
            Ok(form) => form,
            Err(NoForm::Refused(reason)) => return self.unsupported(reason),
            Err(NoForm::Opcode) => return self.unsupported("no such instruction"),
            Err(NoForm::Suffixes) => return self.unsupported("the instruction has no such suffixes"),
            Err(NoForm::Operands) => {
                return self.invalid(format!("{} operands are too many or too few", instruction.operands.len()));
            }
        };
        let (isa, target) = form.since();
        if isa > self.context.version {
            let message = format!("{}: needs version {}.{}", self.opcode, isa / 10, isa % 10);
            return Err(LoadError::new(LoadErrorKind::Version, self.line, message));
        }
        if target > self.context.target {
            let message = format!("{}: needs sm_{target}", self.opcode);
            return Err(LoadError::new(LoadErrorKind::Target, self.line, message));
        }
        let first = self.out.drafts.len();
        match form.variant.body {
            BodyInfo::Lanes(_) => self.expression(&form, &instruction.operands)?,
            BodyInfo::Special(Special::Branch) => return self.branch(instruction),
            BodyInfo::Special(special) => self.special(special, &form, &instruction.operands)?,
        }
        if let Some(guard) = instruction.guard {
            self.guard(guard, first);
        }
        Ok(())
    }

    /// Lets the drafts from `first` on happen where a predicate says so.
    fn guard(&mut self, guard: Guard, first: usize) {
        let negated = u32::from(guard.negated);
        let predicate = Place::Register(guard.register);
        let statement = self.statement;
        match &mut self.out.drafts[first..] {
            [] => {}
            [(single, _)] if !single.is_control => {
                single.is_guarded = true;
                let mut draft = Draft::new(own(lanes::guard)).with([predicate]);
                draft.number = negated;
                self.out.drafts.insert(first, (draft, statement));
            }
            _ => {
                let mut draft = Draft::control(own(control::branch)).with([predicate]);
                draft.second = Some(1 - negated as u16);
                draft.target = Some(Target::After);
                self.out.drafts.insert(first, (draft, statement));
            }
        }
    }

    fn branch(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let [Operand::Name(Name::Global(label), 0)] = instruction.operands[..] else {
            return self.invalid("expected a label");
        };
        let Some(at) = self.context.body.label(self.scope, label) else {
            return self.invalid(format!("there is no label `{label}`"));
        };
        let mut draft = match instruction.guard {
            None => Draft::control(own(control::jump)),
            Some(guard) => {
                let mut draft = Draft::control(own(control::branch)).with([Place::Register(guard.register)]);
                draft.second = Some(u16::from(guard.negated));
                draft
            }
        };
        draft.target = Some(Target::Statement(at));
        self.push(draft);
        Ok(())
    }

    /// An expression on lanes.
    pub(super) fn expression(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let Some(handler) = form.handler().and_then(|number| handlers().get(usize::from(number))) else {
            return self.unsupported("no such form");
        };
        let variant = form.variant;
        let mut draft = Draft::new(*handler);
        draft.shares = true;
        let mut after = Vec::new();
        // A pair of results is one operand of the text.
        let mut given: Vec<&Operand<'a>> = Vec::new();
        for operand in operands {
            match operand {
                Operand::Pair(pair) => given.extend(pair.iter()),
                other => given.push(other),
            }
        }
        if given.len() != variant.operands.len() {
            return self.invalid(format!("{} operands: expected {}", given.len(), variant.operands.len()));
        }
        let mut sources = Vec::new();
        for (index, (operand, info)) in given.iter().zip(variant.operands).enumerate() {
            let Some(ty) = form.operand_type(index) else { return self.unsupported("an operand without a type") };
            if index < variant.results {
                let place = self.result(operand, ty, info.may_be_wider, &mut after)?;
                if index == 0 { draft.result = place } else { draft.result2 = place }
            } else {
                sources.push(self.source(operand, ty, info.may_be_wider)?);
            }
        }
        if variant.carry_in {
            sources.push(Place::Predicate(CARRY));
        }
        if variant.carry_out {
            draft.result2 = Place::Predicate(CARRY);
        }
        for (slot, source) in draft.sources.iter_mut().zip(sources) {
            *slot = source;
        }
        super::special::specialize(form, &mut draft);
        self.push(draft);
        for draft in after {
            self.push(draft);
        }
        Ok(())
    }

    /// A result of a type: a register of its width, or a wider one to which the value is extended afterwards.
    fn result(&mut self, operand: &Operand<'a>, ty: Type, wider: bool, after: &mut Vec<Draft>) -> Lowered<Place> {
        let bits = ty.bits();
        match operand {
            Operand::Nothing if ty == Type::Pred => Ok(Place::Predicate(DROPPED)),
            Operand::Nothing => Ok(self.temporary(bits.max(32))),
            Operand::Register(register) => {
                let have = self.bits_of(*register);
                // A value of 8 bits is extended to 32 by its handler.
                let made = if bits == 8 { 32 } else { bits };
                if have == bits || (bits == 8 && wider && matches!(have, 16 | 32)) {
                    return Ok(Place::Register(*register));
                }
                if !wider || have < bits || have == 1 {
                    return self.invalid(format!("a result of {bits} bits in a register of {have}"));
                }
                let temporary = self.temporary(made);
                let mut draft = Draft::new(own(moves::extend)).with([temporary]).to(Place::Register(*register));
                draft.offset = i64::from(made);
                draft.number = u32::from(ty.kind() == TypeKind::Signed) | u32::from(have == 64) << 1;
                after.push(draft);
                Ok(temporary)
            }
            _ => self.invalid("the result is no register"),
        }
    }

    /// A source of a type.
    pub(super) fn source(&mut self, operand: &Operand<'a>, ty: Type, wider: bool) -> Lowered<Place> {
        let bits = ty.bits();
        match operand {
            Operand::Register(register) => {
                let have = self.bits_of(*register);
                if have == bits || (have > bits && have != 1 && (wider || bits == 8)) {
                    return Ok(Place::Register(*register));
                }
                self.invalid(format!("a value of {bits} bits in a register of {have}"))
            }
            Operand::Not(register) if ty == Type::Pred => {
                let temporary = self.temporary(1);
                let mut draft = Draft::new(own(moves::copy_bits)).with([Place::Register(*register)]).to(temporary);
                draft.number = 1;
                self.push(draft);
                Ok(temporary)
            }
            Operand::Integer(value) if ty == Type::Pred => Ok(Place::Predicate(if *value == 0 { FALSE } else { TRUE })),
            Operand::Integer(_) | Operand::Single(_) | Operand::Double(_) => {
                let value = self.immediate(operand, ty)?;
                Ok(constant(value, bits))
            }
            Operand::Special(special) => {
                let have = special.bits();
                if ty == Type::Pred || have == 1 && ty != Type::Pred {
                    return self.unsupported("a special register as a predicate");
                }
                let temporary = self.temporary(bits.max(32));
                let rows = bits.div_ceil(32).min(2) as u16;
                let mut draft = Draft::new(own(moves::special)).to(temporary);
                draft.number = *special as u32;
                draft.first = Some(rows);
                self.push(draft);
                Ok(temporary)
            }
            Operand::Name(name, offset) if bits >= 32 => self.address_of(*name, *offset, bits),
            Operand::Nothing => self.invalid("a source is missing"),
            _ => self.invalid("this operand is no value"),
        }
    }

    /// The bits of an immediate as a type.
    pub(super) fn immediate(&self, operand: &Operand<'a>, ty: Type) -> Lowered<u64> {
        let float = |value: f64| match ty {
            Type::F64 => Some(value.to_bits()),
            Type::F32 => Some(u64::from((value as f32).to_bits())),
            _ => None,
        };
        let value = match operand {
            Operand::Integer(value) if ty.kind() == TypeKind::Float && ty.bits() >= 32 => float(*value as i64 as f64),
            Operand::Integer(value) => Some(*value),
            Operand::Single(bits) => match ty {
                Type::F64 => Some(f64::from(f32::from_bits(*bits)).to_bits()),
                _ if ty.bits() == 32 => Some(u64::from(*bits)),
                _ => None,
            },
            Operand::Double(bits) => match ty {
                Type::F32 => float(f64::from_bits(*bits)),
                _ if ty.bits() == 64 => Some(*bits),
                _ => None,
            },
            _ => None,
        };
        match value {
            Some(value) => Ok(value),
            None => self.invalid(format!("this number is no {}", ty.name())),
        }
    }

    /// The address of something in its space.
    pub(super) fn address_of(&mut self, name: Name<'a>, offset: i64, bits: u32) -> Lowered<Place> {
        let word = |value: i64| constant(value as u64, bits);
        Ok(match self.resolve(name)? {
            Resolved::Global(index) => {
                let high = (bits == 64).then_some(Constant::High(index, offset));
                Place::Constant(Constant::Low(index, offset), high)
            }
            Resolved::Shared(at) => word(i64::from(at).wrapping_add(offset)),
            Resolved::Parameter(at) => word(i64::from(at).wrapping_add(offset)),
            Resolved::Local(place) => {
                let temporary = self.temporary(bits);
                let mut draft = Draft::new(own(moves::add_offset)).with([constant(0, 64)]).to(temporary);
                draft.offset = offset;
                draft.local = Some(place);
                draft.number = u32::from(bits == 32) << 1;
                self.push(draft);
                temporary
            }
            Resolved::Function(id) => {
                let function = &self.context.sources[id.0].functions[id.1];
                if function.is_kernel {
                    return self.unsupported("the address of a kernel");
                }
                if function.body.is_none() {
                    let message = format!("{}: function `{}` is not defined", self.opcode, function.name);
                    return Err(LoadError::new(LoadErrorKind::Unresolved, self.line, message));
                }
                word((self.context.symbols.address_of(id) as i64).wrapping_add(offset))
            }
        })
    }

    /// The meaning of a name of an operand.
    pub(super) fn resolve(&self, name: Name<'a>) -> Lowered<Resolved> {
        let local = |offsets: fn(&Frame) -> &Vec<u32>, index: u32| {
            let frame = self.context.frames.get(&self.context.id);
            let offset = frame.and_then(|frame| offsets(frame).get(index as usize)).copied().unwrap_or_default();
            Resolved::Local(LocalPlace { function: self.context.id, offset })
        };
        Ok(match name {
            Name::Parameter(index) if self.context.function.is_kernel => {
                Resolved::Parameter(self.context.parameters.get(index as usize).copied().unwrap_or_default())
            }
            Name::Parameter(index) => local(|frame| &frame.parameters, index),
            Name::Result(index) => local(|frame| &frame.results, index),
            Name::Local(index) => match self.context.shared.get(&SharedId::Function(self.context.id, index)) {
                Some(offset) => Resolved::Shared(*offset),
                None => local(|frame| &frame.variables, index),
            },
            Name::Global(name) => match self.context.symbols.find(self.context.id.0, name) {
                Some(Symbol::Global(index)) => Resolved::Global(index),
                Some(Symbol::Shared(source, index)) => {
                    let offset = self.context.shared.get(&SharedId::Module(source, index));
                    Resolved::Shared(offset.copied().unwrap_or_default())
                }
                Some(Symbol::Function(id) | Symbol::Missing(id)) => Resolved::Function(id),
                None => {
                    let message = format!("{}: there is no `{name}`", self.opcode);
                    return Err(LoadError::new(LoadErrorKind::Unresolved, self.line, message));
                }
            },
        })
    }

    /// A predicate with its sign.
    pub(super) fn predicate(&mut self, operand: &Operand<'a>) -> Lowered<(Place, bool)> {
        match operand {
            Operand::Not(register) if self.bits_of(*register) == 1 => Ok((Place::Register(*register), true)),
            other => Ok((self.source(other, Type::Pred, false)?, false)),
        }
    }

    fn special(&mut self, special: Special, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        match special {
            Special::Nothing | Special::Fence => {
                self.push(Draft::new(own(control::nothing)));
                Ok(())
            }
            Special::Branch => self.invalid("a branch"),
            Special::BranchIndexed => self.branch_indexed(operands),
            Special::LoadTile => self.access_tile(form, operands, true),
            Special::StoreTile => self.access_tile(form, operands, false),
            Special::MultiplyTiles => self.multiply_tiles(form, operands),
            Special::Return => {
                self.return_from(self.context.function.is_kernel);
                Ok(())
            }
            Special::Exit => {
                self.push(Draft::control(own(control::exit)));
                Ok(())
            }
            Special::Trap => {
                self.push(Draft::control(own(control::trap)));
                Ok(())
            }
            Special::Compare => self.compare(form, operands),
            Special::Call => self.call(operands),
            Special::Move => self.mov(form, operands),
            Special::Load => self.load(form, operands),
            Special::Store => self.store(form, operands),
            Special::ConvertAddress => self.convert_address(form, operands),
            Special::IsSpace => self.is_space(form, operands),
            Special::Atomic | Special::Reduce => self.atomic(form, operands, special == Special::Atomic),
            Special::Copy => self.copy_to_shared(form, operands),
            Special::LoadMatrix => self.load_matrix(form, operands),
            Special::StoreMatrix => self.store_matrix(form, operands),
            Special::TransposeMatrix => self.transpose_matrix(operands),
            Special::InitBarrier => self.init_barrier(form, operands),
            Special::InvalidateBarrier => self.invalidate_barrier(form, operands),
            Special::Arrive => self.arrive(form, operands),
            Special::TestWait => self.test_wait(form, operands),
            Special::PendingCount => self.pending_count(operands),
            Special::CopiesArrive => self.copies_arrive(form, operands),
            Special::Matrix => self.matrix(form, operands),
            Special::WarpBarrier => {
                let [members] = operands else { return self.invalid("expected a mask") };
                let members = self.source(members, Type::B32, false)?;
                self.push(Draft::control(own(sync::warp_barrier)).with([members]));
                Ok(())
            }
            Special::BarrierSync | Special::BarrierArrive => self.barrier(operands, special == Special::BarrierSync),
            Special::BarrierCount | Special::BarrierVote => self.barrier_with_vote(form, operands),
            Special::ActiveMask => {
                let [result] = operands else { return self.invalid("expected a result") };
                let result = self.plain_result(result, 32)?;
                self.push(Draft::control(own(sync::active_mask)).to(result));
                Ok(())
            }
            Special::Shuffle => self.shuffle(form, operands),
            Special::Vote => self.vote(form, operands),
            Special::Match => self.match_lanes(form, operands),
            Special::Redux => self.redux(form, operands),
        }
    }

    /// A register of this many bits as a result.
    pub(super) fn plain_result(&mut self, operand: &Operand<'a>, bits: u32) -> Lowered<Place> {
        match operand {
            Operand::Register(register) if self.bits_of(*register) == bits => Ok(Place::Register(*register)),
            Operand::Nothing if bits == 1 => Ok(Place::Predicate(DROPPED)),
            Operand::Nothing => Ok(self.temporary(bits)),
            _ => self.invalid(format!("the result is no register of {bits} bits")),
        }
    }
}

/// The meaning of a name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resolved {
    /// The variable in device memory with this index.
    Global(usize),
    /// An offset in shared memory.
    Shared(u32),
    /// An offset among the parameters of the kernel.
    Parameter(u32),
    /// A place in local memory.
    Local(LocalPlace),
    /// A function.
    Function(FunctionId),
}

/// A value of this many bits in all lanes.
pub(super) fn constant(value: u64, bits: u32) -> Place {
    match bits {
        64 => Place::Constant(Constant::Word(value as u32), Some(Constant::Word((value >> 32) as u32))),
        32 => Place::Constant(Constant::Word(value as u32), None),
        bits => Place::Constant(Constant::Word(value as u32 & ((1u32 << (bits & 31)) - 1)), None),
    }
}
