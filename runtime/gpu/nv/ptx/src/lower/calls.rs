//! Drafts of calls: arguments and results are copied between frames.

use super::code::{Draft, LocalPlace, Place, Target};
use super::instruction::{Lower, Lowered, Resolved, own};
use super::symbols::{FunctionId, Symbol};
use crate::error::{LoadError, LoadErrorKind};
use crate::generated::instructions::{EXTERNALS, ExternalEffect};
use crate::generated::interp::by_hand;
use crate::generated::limits::ASSERTION_TRAP;
use crate::generated::suffixes::Type;
use crate::interp::{control, memory, print};
use crate::isa::Form;
use crate::syntax::{Name, Operand, Variable};

impl<'a> Lower<'_, 'a> {
    /// A call: arguments are copied to the frame of the function, and results from it.
    pub(super) fn call(&mut self, operands: &[Operand<'a>]) -> Lowered<()> {
        // A function in a register comes with a list of functions or a prototype.
        match operands {
            [Operand::Register(function), Operand::Name(Name::Global(table), 0)] => {
                return self.call_indirect(&[], *function, &[], table);
            }
            [Operand::Register(function), Operand::List(arguments), Operand::Name(Name::Global(table), 0)] => {
                return self.call_indirect(&[], *function, arguments, table);
            }
            [Operand::List(results), Operand::Register(function), Operand::Name(Name::Global(table), 0)] => {
                return self.call_indirect(results, *function, &[], table);
            }
            [
                Operand::List(results),
                Operand::Register(function),
                Operand::List(arguments),
                Operand::Name(Name::Global(table), 0),
            ] => return self.call_indirect(results, *function, arguments, table),
            _ => {}
        }
        let (results, name, arguments) = match operands {
            [Operand::Name(Name::Global(name), 0)] => (&[][..], *name, &[][..]),
            [Operand::Name(Name::Global(name), 0), Operand::List(arguments)] => (&[][..], *name, &arguments[..]),
            [Operand::List(results), Operand::Name(Name::Global(name), 0)] => (&results[..], *name, &[][..]),
            [Operand::List(results), Operand::Name(Name::Global(name), 0), Operand::List(arguments)] => {
                (&results[..], *name, &arguments[..])
            }
            _ => return self.unsupported("expected the name of a function, with results and arguments in parentheses"),
        };
        let id = match self.context.symbols.find(self.context.id.0, name) {
            Some(Symbol::Function(id)) => id,
            Some(Symbol::Missing(_)) => {
                if let Some((_, effect)) = EXTERNALS.iter().find(|(external, _)| *external == name) {
                    return self.external(*effect, results, arguments);
                }
                let message = format!("{}: function `{name}` is not defined", self.opcode);
                return Err(LoadError::new(LoadErrorKind::Unresolved, self.line, message));
            }
            _ => return self.invalid(format!("there is no function `{name}`")),
        };
        self.call_function(results, id, arguments)
    }

    /// A call of a function that is known.
    pub(super) fn call_function(
        &mut self,
        results: &[Operand<'a>],
        id: FunctionId,
        arguments: &[Operand<'a>],
    ) -> Lowered<()> {
        let callee = &self.context.sources[id.0].functions[id.1];
        if callee.is_kernel {
            return self.unsupported(format!("`{}` is a kernel", callee.name));
        }
        let count = (results.len(), arguments.len());
        let expected = (callee.results.len(), callee.parameters.len());
        // A linker knows no types, so a text may declare a result that the function of another one does not have; the
        // callers of such a function do not use it.
        let has_more = count.0 > expected.0 && id.0 != self.context.id.0;
        if count.1 != expected.1 || (count.0 != expected.0 && !has_more) {
            let message =
                format!("{} results and {} arguments: expected {} and {}", count.0, count.1, expected.0, expected.1);
            return self.invalid(message);
        }
        for (index, (argument, formal)) in arguments.iter().zip(&callee.parameters).enumerate() {
            self.pass(argument, formal, (id, index, true))?;
        }
        let mut draft = Draft::control(own(control::call)).to(Place::Foreign(id, u32::MAX));
        draft.target = Some(Target::Function(id));
        self.push(draft);
        for (index, (result, formal)) in results.iter().zip(&callee.results).enumerate() {
            self.pass(result, formal, (id, index, false))?;
        }
        Ok(())
    }

    /// A call of a function that the machine has. Its opcode and line say which one.
    fn external(&mut self, effect: ExternalEffect, results: &[Operand<'a>], arguments: &[Operand<'a>]) -> Lowered<()> {
        match effect {
            ExternalEffect::Assertion => {
                self.push(Draft { number: ASSERTION_TRAP, ..Draft::control(own(control::trap)) });
            }
            ExternalEffect::Print => {
                let [format, values] = arguments else { return self.invalid("expected a format and values") };
                let sources = [self.argument(format)?, self.argument(values)?];
                let result = self.temporary(32);
                self.push(Draft::control(own(print::print)).with(sources).to(result));
                if let ([Operand::Name(name, 0)], Place::Register(register)) = (results, result)
                    && let Ok(form) = Form::find("st.param.b32", 2)
                {
                    self.store(&form, &[Operand::AtName(*name, 0), Operand::Register(register)])?;
                }
            }
        }
        Ok(())
    }

    /// An argument of 64 bits of a function that the machine has.
    fn argument(&mut self, actual: &Operand<'a>) -> Lowered<Place> {
        let (Operand::Name(name, 0), Ok(form)) = (actual, Form::find("ld.param.b64", 2)) else {
            return self.source(actual, Type::B64, true);
        };
        let place = self.temporary(64);
        if let Place::Register(register) = place {
            self.load(&form, &[Operand::Register(register), Operand::AtName(*name, 0)])?;
        }
        Ok(place)
    }

    /// Copies an argument to a formal parameter, or a result from one.
    fn pass(
        &mut self,
        actual: &Operand<'a>,
        formal: &Variable<'_>,
        (callee, index, is_argument): (FunctionId, usize, bool),
    ) -> Lowered<()> {
        let bytes = formal.size.unwrap_or_default() as u32;
        if let Some(register) = formal.register {
            let foreign = Place::Foreign(callee, register);
            let bits = formal.element * 8;
            let ty = match bits {
                8 | 16 => Type::B16,
                64 => Type::B64,
                _ => Type::B32,
            };
            let handler = if bits == 64 { by_hand().copy_pair } else { by_hand().copy };
            let draft = if is_argument {
                let source = self.source(actual, ty, true)?;
                Draft::new(handler).with([source]).to(foreign)
            } else {
                let result = self.plain_result(actual, ty.bits())?;
                Draft::new(handler).with([foreign]).to(result)
            };
            self.push(draft);
            return Ok(());
        }
        let frame = self.context.frames.get(&callee);
        let offsets = frame.map(|frame| if is_argument { &frame.parameters } else { &frame.results });
        let offset = offsets.and_then(|offsets| offsets.get(index)).copied().unwrap_or_default();
        let foreign = LocalPlace { function: callee, offset };
        match actual {
            Operand::Name(name, 0) => {
                let Resolved::Local(own_place) = self.resolve(*name)? else {
                    return self.unsupported("an argument that is neither in local memory nor a register");
                };
                let size = match name {
                    Name::Local(index) => self.context.body.variables.get(*index as usize),
                    Name::Parameter(index) => self.context.function.parameters.get(*index as usize),
                    Name::Result(index) => self.context.function.results.get(*index as usize),
                    Name::Global(_) => None,
                };
                let size = size.and_then(|variable| variable.size).unwrap_or_default();
                if size < u64::from(bytes) {
                    return self.invalid(format!("an argument of {size} bytes for a parameter of {bytes}"));
                }
                let mut draft = Draft::new(own(memory::copy_local));
                draft.places = if is_argument { vec![foreign, own_place] } else { vec![own_place, foreign] };
                draft.number = bytes;
                self.push(draft);
                Ok(())
            }
            Operand::Register(_) | Operand::Integer(_) | Operand::Single(_) | Operand::Double(_) if is_argument => {
                self.store_argument(actual, foreign, bytes)
            }
            _ => self.unsupported("this operand as an argument or result"),
        }
    }
}
