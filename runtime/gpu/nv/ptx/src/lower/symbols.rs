//! The names of all texts: variables of modules and functions, and which of them are called.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::error::{LoadError, LoadErrorKind};
use crate::generated::limits::{FUNCTION_STEP, FUNCTION_WINDOW};
use crate::module::{Global, GlobalSpace, Relocation};
use crate::syntax::{Function, Initial, Linkage, Name, Operand, Source, Table, Variable, VariableSpace};

/// A function: the number of its text, and its number there.
pub(super) type FunctionId = (usize, usize);

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    /// The variable in device memory with this index.
    Global(usize),
    /// The shared variable of a text with this number.
    Shared(usize, usize),
    /// A function that is defined.
    Function(FunctionId),
    /// A function that is only declared.
    Missing(FunctionId),
}

/// The names of all texts.
pub(super) struct Symbols<'a> {
    pub(super) globals: Vec<Global>,
    names: Vec<HashMap<&'a str, Symbol>>,
    called: HashSet<FunctionId>,
    /// The number of each function of each text among all that are defined.
    numbers: Vec<Vec<u64>>,
    /// Functions whose address is taken, by their results and parameters.
    taken: HashMap<Signature, Vec<FunctionId>>,
}

/// The bytes of each result and parameter, and whether it is a register.
type Signature = [Vec<(u64, bool)>; 2];

fn signature(results: &[Variable<'_>], parameters: &[Variable<'_>]) -> Signature {
    [results, parameters].map(|formals| {
        let bytes = |formal: &Variable<'_>| formal.size.unwrap_or_default();
        formals.iter().map(|formal| (bytes(formal), formal.space == VariableSpace::Register)).collect()
    })
}

impl<'a> Symbols<'a> {
    pub(super) fn new(sources: &[Source<'a>]) -> Result<Self, LoadError> {
        let mut defined = 0;
        let mut number = |function: &Function<'_>| {
            defined += u64::from(function.body.is_some());
            defined
        };
        let numbers = sources.iter().map(|source| source.functions.iter().map(&mut number).collect()).collect();
        let mut symbols = Symbols {
            globals: Vec::new(),
            names: vec![HashMap::new(); sources.len()],
            called: HashSet::new(),
            numbers,
            taken: HashMap::new(),
        };
        let mut shared_names: HashMap<&'a str, Symbol> = HashMap::new();
        for (source, text) in sources.iter().enumerate() {
            for (index, variable) in text.variables.iter().enumerate() {
                let symbol = match variable.space {
                    VariableSpace::Shared => Symbol::Shared(source, index),
                    _ => symbols.global(variable, &shared_names)?,
                };
                symbols.know(source, variable.name, symbol, variable.line)?;
                if variable.linkage != Linkage::Private {
                    publish(&mut shared_names, variable.name, symbol, variable.linkage, variable.line)?;
                }
            }
            for (index, function) in text.functions.iter().enumerate() {
                let symbol = match function.body {
                    Some(_) => Symbol::Function((source, index)),
                    None => Symbol::Missing((source, index)),
                };
                // A declaration may come before or after the definition.
                match (symbols.names[source].get(function.name), symbol) {
                    (Some(Symbol::Function(_)), Symbol::Missing(_)) => continue,
                    (Some(Symbol::Missing(_)), _) => {
                        symbols.names[source].insert(function.name, symbol);
                    }
                    _ => symbols.know(source, function.name, symbol, function.line)?,
                }
                if function.linkage != Linkage::Private && function.body.is_some() {
                    publish(&mut shared_names, function.name, symbol, function.linkage, function.line)?;
                }
            }
        }
        // Another text may have what one only declares.
        for names in &mut symbols.names {
            for (name, symbol) in names {
                let is_missing = match symbol {
                    Symbol::Missing(_) => true,
                    Symbol::Global(index) => symbols.globals.get(*index).is_some_and(|global| global.is_external),
                    _ => false,
                };
                if is_missing && let Some(found) = shared_names.get(name) {
                    *symbol = *found;
                }
            }
        }
        symbols.initialise(sources)?;
        symbols.note_calls(sources);
        Ok(symbols)
    }

    fn know(&mut self, source: usize, name: &'a str, symbol: Symbol, line: u32) -> Result<(), LoadError> {
        match self.names[source].insert(name, symbol) {
            Some(_) => Err(LoadError::invalid(line, format!("`{name}` is declared twice"))),
            None => Ok(()),
        }
    }

    /// The index of a variable in device memory.
    fn global(&mut self, variable: &Variable<'_>, known: &HashMap<&str, Symbol>) -> Result<Symbol, LoadError> {
        let is_external = variable.linkage == Linkage::Extern;
        if let (Linkage::Extern | Linkage::Weak, Some(found @ Symbol::Global(_))) =
            (variable.linkage, known.get(variable.name))
        {
            return Ok(*found);
        }
        let Some(size) = variable.size.or(is_external.then_some(0)) else {
            return Err(LoadError::invalid(variable.line, format!("`{}` has no size", variable.name)));
        };
        self.globals.push(Global {
            name: variable.name.to_string(),
            space: if variable.space == VariableSpace::Const { GlobalSpace::Const } else { GlobalSpace::Global },
            size,
            align: variable.align,
            initial: Vec::new(),
            relocations: Vec::new(),
            is_external,
        });
        Ok(Symbol::Global(self.globals.len() - 1))
    }

    /// The first bytes of variables.
    fn initialise(&mut self, sources: &[Source<'a>]) -> Result<(), LoadError> {
        for (source, text) in sources.iter().enumerate() {
            for variable in text.variables.iter().filter(|variable| !variable.initial.is_empty()) {
                let Some(Symbol::Global(index)) = self.names[source].get(variable.name).copied() else {
                    let message = format!("`{}` is shared, so it has no first value", variable.name);
                    return Err(LoadError::invalid(variable.line, message));
                };
                let (mut bytes, mut relocations) = (Vec::new(), Vec::new());
                for initial in &variable.initial {
                    match initial {
                        Initial::Bits(bits) => {
                            let all = u128::from(*bits).to_le_bytes();
                            let Some(bits) = all.get(..variable.element as usize) else {
                                return Err(LoadError::invalid(variable.line, "a first value of this size"));
                            };
                            bytes.extend_from_slice(bits);
                        }
                        Initial::Address(name, addend) => {
                            let symbol = self.names[source].get(name);
                            if let (Some(Symbol::Function(id)), 8) = (symbol, variable.element) {
                                let address = self.address_of(*id).wrapping_add(*addend as u64);
                                bytes.extend_from_slice(&address.to_le_bytes());
                                continue;
                            }
                            let Some(Symbol::Global(global)) = symbol else {
                                let message = format!("there is no variable `{name}` in device memory");
                                return Err(LoadError::new(LoadErrorKind::Unresolved, variable.line, message));
                            };
                            if variable.element != 8 {
                                let message = "an address has 8 bytes, which an element of the variable has not";
                                return Err(LoadError::unsupported(variable.line, message));
                            }
                            let offset = bytes.len() as u64;
                            relocations.push(Relocation { offset, global: *global, addend: *addend });
                            bytes.extend_from_slice(&[0; 8]);
                        }
                    }
                }
                if let Some(global) = self.globals.get_mut(index) {
                    global.initial = bytes;
                    global.relocations = relocations;
                }
            }
        }
        Ok(())
    }

    /// Notes which functions are called by their names, and which have their address taken.
    fn note_calls(&mut self, sources: &[Source<'a>]) {
        let mut taken: BTreeSet<FunctionId> = BTreeSet::new();
        for (source, text) in sources.iter().enumerate() {
            let function = |name: &str| match self.names[source].get(name) {
                Some(Symbol::Function(id)) => Some(*id),
                _ => None,
            };
            let bodies = text.functions.iter().filter_map(|function| function.body.as_ref());
            for instruction in bodies.flat_map(|body| &body.instructions) {
                for operand in instruction.operands.iter().flat_map(parts) {
                    let Operand::Name(Name::Global(name), _) = operand else { continue };
                    let Some(id) = function(name) else { continue };
                    if is_call(instruction.opcode) {
                        self.called.insert(id)
                    } else {
                        taken.insert(id)
                    };
                }
            }
            for initial in text.variables.iter().flat_map(|variable| &variable.initial) {
                if let Initial::Address(name, _) = initial {
                    taken.extend(function(name));
                }
            }
        }
        for id in taken {
            let function: &Function<'_> = &sources[id.0].functions[id.1];
            if !function.is_kernel {
                self.taken.entry(signature(&function.results, &function.parameters)).or_default().push(id);
            }
        }
    }

    /// The address of a function.
    pub(super) fn address_of(&self, id: FunctionId) -> u64 {
        let number = self.numbers.get(id.0).and_then(|numbers| numbers.get(id.1)).copied().unwrap_or_default();
        FUNCTION_WINDOW + FUNCTION_STEP * number
    }

    /// The functions that a call through a register may be of.
    ///
    /// # Errors
    /// The name of a list that is no function.
    pub(super) fn candidates<'n>(
        &self,
        source: usize,
        table: &Table<'n>,
    ) -> Result<std::borrow::Cow<'_, [FunctionId]>, &'n str> {
        match table {
            Table::Functions(names) => {
                let found = names.iter().map(|name| match self.find(source, name) {
                    Some(Symbol::Function(id)) => Ok(id),
                    _ => Err(*name),
                });
                Ok(found.collect::<Result<Vec<_>, _>>()?.into())
            }
            Table::Prototype(results, parameters) => {
                Ok(self.taken.get(&signature(results, parameters)).map_or(&[][..], Vec::as_slice).into())
            }
            Table::Labels(names) => Err(names.first().copied().unwrap_or_default()),
        }
    }

    /// The meaning of a name in a text.
    pub(super) fn find(&self, source: usize, name: &str) -> Option<Symbol> {
        self.names.get(source)?.get(name).copied()
    }

    pub(super) fn is_called(&self, id: FunctionId) -> bool {
        self.called.contains(&id)
    }
}

/// Whether an opcode is a call.
pub(super) fn is_call(opcode: &str) -> bool {
    opcode.split('.').next() == Some("call")
}

/// The parts of a vector, or the operand itself.
fn parts<'o, 'a>(operand: &'o Operand<'a>) -> &'o [Operand<'a>] {
    match operand {
        Operand::Vector(parts) => parts,
        other => std::slice::from_ref(other),
    }
}

fn publish<'a>(
    names: &mut HashMap<&'a str, Symbol>,
    name: &'a str,
    symbol: Symbol,
    linkage: Linkage,
    line: u32,
) -> Result<(), LoadError> {
    if linkage == Linkage::Extern {
        return Ok(());
    }
    match names.get(name) {
        Some(found) if *found != symbol && linkage != Linkage::Weak => {
            Err(LoadError::invalid(line, format!("`{name}` is defined twice")))
        }
        Some(_) => Ok(()),
        None => {
            names.insert(name, symbol);
            Ok(())
        }
    }
}
