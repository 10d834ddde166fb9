//! The printer of the tree: a canonical text, from which the parser makes the same tree.
//!
//! Registers, variables of functions, labels and lists get names from their numbers, so that scopes are not needed.
//! Directives that the tree has not, such as lines of the source, are not there.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use super::tree::{
    Body, Function, Initial, Instruction, Linkage, Name, Operand, RegisterId, Source, Table, Variable, VariableSpace,
};

/// Prints a text.
pub fn print(source: &Source<'_>) -> String {
    let mut text = String::new();
    // A string takes all that is written to it.
    let _ = Printer::new(source).source(source, &mut text);
    text
}

/// The beginnings of names that the printer gives, which no name of the text has.
struct Printer {
    /// Registers by their bits, and those that are parameters.
    registers: [(u32, String); 6],
    formal: String,
    variable: String,
    label: String,
    table: String,
}

/// The function whose instructions are printed.
struct Printed<'p, 'a> {
    printer: &'p Printer,
    function: &'p Function<'a>,
    body: &'p Body<'a>,
    formals: BTreeSet<RegisterId>,
}

fn linkage(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Private => "",
        Linkage::Visible => ".visible ",
        Linkage::Weak => ".weak ",
        Linkage::Extern => ".extern ",
    }
}

fn space(space: VariableSpace) -> &'static str {
    match space {
        VariableSpace::Global => ".global",
        VariableSpace::Const => ".const",
        VariableSpace::Shared => ".shared",
        VariableSpace::Local => ".local",
        VariableSpace::Param => ".param",
        VariableSpace::Register => ".reg",
    }
}

/// An integer with its sign, so that it fits where few bits are wanted.
fn integer(value: u64) -> i64 {
    value as i64
}

/// A number that is added to a name or register.
fn addend(value: i64) -> String {
    if value == 0 { String::new() } else { format!("+{value}") }
}

/// Names that begin with `stem`, or with a longer one if the text has such names.
fn fresh(names: &BTreeSet<&str>, stem: &str) -> String {
    let mut stem = stem.to_string();
    while names.range(stem.as_str()..).next().is_some_and(|name| name.starts_with(stem.as_str())) {
        stem.push('_');
    }
    stem
}

/// The instruction that an operand of a branch names by its label.
fn label(body: &Body<'_>, instruction: &Instruction<'_>, name: &str) -> Option<u32> {
    let is_branch = instruction.opcode.split('.').next() == Some("bra");
    if is_branch { body.label(instruction.scope, name) } else { None }
}

/// The number of the list or prototype that an operand names.
fn table(body: &Body<'_>, instruction: &Instruction<'_>, name: &str) -> Option<u32> {
    let takes_tables = matches!(instruction.opcode.split('.').next(), Some("brx" | "call"));
    if takes_tables { body.table(instruction.scope, name).map(|(number, _)| number) } else { None }
}

/// All names of a text that the printer keeps.
fn kept<'a>(source: &Source<'a>) -> BTreeSet<&'a str> {
    fn of_operand<'a>(operand: &Operand<'a>, names: &mut BTreeSet<&'a str>) {
        match operand {
            Operand::Name(Name::Global(name), _) | Operand::AtName(Name::Global(name), _) => {
                names.insert(name);
            }
            Operand::Vector(parts) | Operand::List(parts) => parts.iter().for_each(|part| of_operand(part, names)),
            Operand::Pair(pair) => pair.iter().for_each(|part| of_operand(part, names)),
            _ => {}
        }
    }
    let mut names: BTreeSet<&str> = source.variables.iter().map(|variable| variable.name).collect();
    for initial in source.variables.iter().flat_map(|variable| &variable.initial) {
        names.extend(initial.name());
    }
    for function in &source.functions {
        names.insert(function.name);
        let formals = function.parameters.iter().chain(&function.results);
        names.extend(formals.filter(|formal| formal.space != VariableSpace::Register).map(|formal| formal.name));
        let Some(body) = &function.body else { continue };
        for instruction in &body.instructions {
            for operand in &instruction.operands {
                match operand {
                    // Labels and lists get other names.
                    Operand::Name(Name::Global(name), 0) if label(body, instruction, name).is_some() => {}
                    Operand::Name(Name::Global(name), 0) if table(body, instruction, name).is_some() => {}
                    operand => of_operand(operand, &mut names),
                }
            }
        }
        for (scope, table) in &body.table_list {
            match table {
                Table::Labels(labels) => {
                    names.extend(labels.iter().filter(|label| body.label(*scope, label).is_none()));
                }
                Table::Functions(functions) => names.extend(functions.iter().copied()),
                Table::Prototype(..) => {}
            }
        }
    }
    names
}

impl Printer {
    fn new(source: &Source<'_>) -> Self {
        let names = kept(source);
        let registers = [(1, "%p"), (8, "%c"), (16, "%h"), (32, "%r"), (64, "%d"), (128, "%q")];
        Printer {
            registers: registers.map(|(bits, stem)| (bits, fresh(&names, stem))),
            formal: fresh(&names, "%a"),
            variable: fresh(&names, "$v"),
            label: fresh(&names, "$L"),
            table: fresh(&names, "$T"),
        }
    }

    fn source(&self, source: &Source<'_>, out: &mut String) -> fmt::Result {
        writeln!(out, ".version {}.{}", source.version / 10, source.version % 10)?;
        writeln!(out, ".target sm_{}", source.target)?;
        writeln!(out, ".address_size 64")?;
        let declared = source.functions.iter().filter(|function| function.body.is_none());
        // A first value may be the address of a function, which is declared before that.
        let initials = source.variables.iter().flat_map(|variable| &variable.initial);
        let named: BTreeSet<&str> = initials.filter_map(|initial| initial.name()).collect();
        let known: BTreeSet<&str> = declared.clone().map(|function| function.name).collect();
        let wanted = |function: &&Function<'_>| {
            function.body.is_some() && named.contains(function.name) && !known.contains(function.name)
        };
        for function in declared.chain(source.functions.iter().filter(wanted)) {
            self.head(function, true, out)?;
            writeln!(out, ";")?;
        }
        for variable in &source.variables {
            write!(out, "{}{}", linkage(variable.linkage), space(variable.space))?;
            self.variable(variable, variable.name, out)?;
            writeln!(out, ";")?;
        }
        for function in &source.functions {
            if let Some(body) = &function.body {
                self.function(function, body, out)?;
            }
        }
        Ok(())
    }

    /// The type, name, size and first values.
    fn variable(&self, variable: &Variable<'_>, name: &str, out: &mut String) -> fmt::Result {
        let bits = 8 * variable.element;
        if variable.space == VariableSpace::Register {
            return write!(out, " .b{bits} {name}");
        }
        write!(out, " .align {} .b{bits} {name}", variable.align)?;
        match variable.size {
            None => write!(out, "[]")?,
            Some(size) if size == u64::from(variable.element) && variable.initial.len() <= 1 => {}
            Some(size) => write!(out, "[{}]", size / u64::from(variable.element.max(1)))?,
        }
        let values = variable.initial.iter().map(|initial| match initial {
            Initial::Bits(bits) => integer(*bits).to_string(),
            Initial::Address(name, number) => format!("{name}{}", addend(*number)),
        });
        let values: Vec<String> = values.collect();
        match values.as_slice() {
            [] => Ok(()),
            [single] if variable.size == Some(variable.element.into()) => write!(out, " = {single}"),
            values => write!(out, " = {{{}}}", values.join(", ")),
        }
    }

    fn formals(&self, formals: &[Variable<'_>], is_declared: bool, out: &mut String) -> fmt::Result {
        write!(out, "(")?;
        for (index, formal) in formals.iter().enumerate() {
            write!(out, "{}{}", if index == 0 { "" } else { ", " }, space(formal.space))?;
            if formal.space == VariableSpace::Register {
                // A function that is only declared has no registers.
                let number = formal.register.filter(|_| !is_declared).unwrap_or(index as u32);
                self.variable(formal, &format!("{}{number}", self.formal), out)?;
            } else {
                self.variable(formal, formal.name, out)?;
            }
        }
        write!(out, ")")
    }

    fn head(&self, function: &Function<'_>, is_declared: bool, out: &mut String) -> fmt::Result {
        write!(out, "{}{} ", linkage(function.linkage), if function.is_kernel { ".entry" } else { ".func" })?;
        if !function.results.is_empty() {
            self.formals(&function.results, is_declared, out)?;
            write!(out, " ")?;
        }
        write!(out, "{}", function.name)?;
        self.formals(&function.parameters, is_declared, out)?;
        for (directive, threads) in [("maxntid", function.max_threads), ("reqntid", function.required_threads)] {
            if let Some([x, y, z]) = threads {
                write!(out, " .{directive} {x}, {y}, {z}")?;
            }
        }
        Ok(())
    }

    fn function(&self, function: &Function<'_>, body: &Body<'_>, out: &mut String) -> fmt::Result {
        self.head(function, false, out)?;
        let formals = function.parameters.iter().chain(&function.results).filter_map(|formal| formal.register);
        let printed = Printed { printer: self, function, body, formals: formals.collect() };
        writeln!(out, "\n{{")?;
        printed.declarations(out)?;
        let mut targets = BTreeSet::new();
        for instruction in &body.instructions {
            targets.extend(instruction.operands.iter().filter_map(|operand| printed.target(instruction, operand)));
        }
        for (scope, table) in &body.table_list {
            if let Table::Labels(labels) = table {
                targets.extend(labels.iter().filter_map(|label| body.label(*scope, label)));
            }
        }
        for (at, instruction) in (0..).zip(&body.instructions) {
            if targets.contains(&at) {
                writeln!(out, "{}{at}:", self.label)?;
            }
            printed.instruction(instruction, out)?;
        }
        let end = body.instructions.len() as u32;
        if targets.contains(&end) {
            writeln!(out, "{}{end}:", self.label)?;
        }
        writeln!(out, "}}")
    }
}

impl Printed<'_, '_> {
    /// Registers, variables, and lists of targets.
    fn declarations(&self, out: &mut String) -> fmt::Result {
        let count = self.body.registers.len();
        for (bits, stem) in &self.printer.registers {
            if self.body.registers.contains(bits) {
                let ty = if *bits == 1 { ".pred".into() } else { format!(".b{bits}") };
                writeln!(out, "\t.reg {ty} {stem}<{count}>;")?;
            }
        }
        for (index, variable) in self.body.variables.iter().enumerate() {
            write!(out, "\t{}", space(variable.space))?;
            self.printer.variable(variable, &format!("{}{index}", self.printer.variable), out)?;
            writeln!(out, ";")?;
        }
        for (number, (scope, table)) in self.body.table_list.iter().enumerate() {
            write!(out, "\t{}{number}: ", self.printer.table)?;
            match table {
                Table::Labels(labels) => {
                    let label = |name: &&str| match self.body.label(*scope, name) {
                        Some(at) => format!("{}{at}", self.printer.label),
                        None => (*name).to_string(),
                    };
                    let labels: Vec<String> = labels.iter().map(label).collect();
                    write!(out, ".branchtargets {}", labels.join(", "))?;
                }
                Table::Functions(functions) => write!(out, ".calltargets {}", functions.join(", "))?,
                Table::Prototype(results, parameters) => {
                    write!(out, ".callprototype ")?;
                    if !results.is_empty() {
                        self.anonymous(results, out)?;
                        write!(out, " ")?;
                    }
                    write!(out, "_ ")?;
                    self.anonymous(parameters, out)?;
                }
            }
            writeln!(out, ";")?;
        }
        Ok(())
    }

    fn anonymous(&self, formals: &[Variable<'_>], out: &mut String) -> fmt::Result {
        write!(out, "(")?;
        for (index, formal) in formals.iter().enumerate() {
            write!(out, "{}{}", if index == 0 { "" } else { ", " }, space(formal.space))?;
            self.printer.variable(formal, "_", out)?;
        }
        write!(out, ")")
    }

    /// The instruction that an operand names by its label.
    fn target(&self, instruction: &Instruction<'_>, operand: &Operand<'_>) -> Option<u32> {
        let Operand::Name(Name::Global(name), 0) = operand else { return None };
        label(self.body, instruction, name)
    }

    fn instruction(&self, instruction: &Instruction<'_>, out: &mut String) -> fmt::Result {
        write!(out, "\t")?;
        if let Some(guard) = instruction.guard {
            write!(out, "@{}{} ", if guard.negated { "!" } else { "" }, self.register(guard.register))?;
        }
        write!(out, "{}", instruction.opcode)?;
        for (index, operand) in instruction.operands.iter().enumerate() {
            write!(out, "{}", if index == 0 { " " } else { ", " })?;
            self.operand(instruction, operand, out)?;
        }
        writeln!(out, ";")
    }

    fn register(&self, register: RegisterId) -> String {
        if self.formals.contains(&register) {
            return format!("{}{register}", self.printer.formal);
        }
        let bits = self.body.registers.get(register as usize).copied().unwrap_or(32);
        let stem = self.printer.registers.iter().find(|(of, _)| *of == bits).map_or("%r", |(_, stem)| stem.as_str());
        format!("{stem}{register}")
    }

    fn name(&self, instruction: &Instruction<'_>, name: &Name<'_>) -> String {
        let formal = |formals: &[Variable<'_>], index: &u32| {
            formals.get(*index as usize).map_or_else(String::new, |formal| formal.name.to_string())
        };
        match name {
            Name::Local(index) => format!("{}{index}", self.printer.variable),
            Name::Parameter(index) => formal(&self.function.parameters, index),
            Name::Result(index) => formal(&self.function.results, index),
            Name::Global(name) => match table(self.body, instruction, name) {
                Some(number) => format!("{}{number}", self.printer.table),
                None => (*name).to_string(),
            },
        }
    }

    fn list(
        &self,
        instruction: &Instruction<'_>,
        parts: &[Operand<'_>],
        between: &str,
        out: &mut String,
    ) -> fmt::Result {
        for (index, part) in parts.iter().enumerate() {
            write!(out, "{}", if index == 0 { "" } else { between })?;
            self.operand(instruction, part, out)?;
        }
        Ok(())
    }

    fn operand(&self, instruction: &Instruction<'_>, operand: &Operand<'_>, out: &mut String) -> fmt::Result {
        if let Some(at) = self.target(instruction, operand) {
            return write!(out, "{}{at}", self.printer.label);
        }
        match operand {
            Operand::Register(register) => write!(out, "{}", self.register(*register)),
            Operand::Not(register) => write!(out, "!{}", self.register(*register)),
            Operand::Special(special) => write!(out, "%{}", special.name()),
            Operand::Integer(value) => write!(out, "{}", integer(*value)),
            Operand::Single(bits) => write!(out, "0f{bits:08X}"),
            Operand::Double(bits) => write!(out, "0d{bits:016X}"),
            Operand::Name(name, number) => write!(out, "{}{}", self.name(instruction, name), addend(*number)),
            Operand::AtRegister(register, number) => write!(out, "[{}{}]", self.register(*register), addend(*number)),
            Operand::AtName(name, number) => write!(out, "[{}{}]", self.name(instruction, name), addend(*number)),
            Operand::AtNumber(number) => write!(out, "[{}]", integer(*number)),
            Operand::Vector(parts) => {
                write!(out, "{{")?;
                self.list(instruction, parts, ", ", out)?;
                write!(out, "}}")
            }
            Operand::Pair(pair) => self.list(instruction, pair.as_slice(), "|", out),
            Operand::List(parts) => {
                write!(out, "(")?;
                self.list(instruction, parts, ", ", out)?;
                write!(out, ")")
            }
            Operand::Nothing => write!(out, "_"),
        }
    }
}
