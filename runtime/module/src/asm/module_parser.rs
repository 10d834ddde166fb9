//! The module parser: the grammar of directives and functions, line by line. [`parse`] is the first stage of the
//! assembler; the result goes to the file writer.

use std::borrow::Cow;

use super::code_writer::CodeWriter;
use super::error::{AsmError, Location, at};
use super::parsed_module::{Dependency, Export, Fixup, FixupKind, Function, GlobalDef, Import, ParsedModule, Rodata};
use super::signature::{features, header};
use super::statement::{Statement, Symbol, statements};
use super::{Directive, Keyword};
use crate::bytecode::nameable;
use crate::generated::schema::module_file::FUNCTION_ALIGNMENT;
use crate::generated::vm::asm::OPS;
use crate::generated::vm::opcode::{IMPORT_BIT, INITIALIZER};
use crate::vmfb::archive::{MAX_GLOBAL_BYTES, MAX_GLOBAL_REFS};

/// Parses a module and resolves its names. After this only the size of the file can be an error.
pub(super) fn parse(text: &str) -> Result<ParsedModule<'_>, AsmError> {
    let mut module = ParsedModule::default();
    let mut statements = statements(text);
    let mut last = Location { line: 1, column: 1 };
    while let Some(mut statement) = statements.next() {
        last = statement.location();
        if module.name.is_empty() && !statement.peek(Directive::Module.name()) {
            return Err(statement.expected(&format!("`{} @name` first", Directive::Module)));
        }
        let word = statement.word(&format!("a directive such as `{}`", Directive::Func))?;
        let Some(directive) = Directive::from_name(word) else {
            let found = word.chars().take(32).collect::<String>();
            return at(last, format!("expected {}, found `{found}`", directives()));
        };
        match directive {
            Directive::Module => module.header(&mut statement, last)?,
            Directive::Attr => module.attrs.push(attribute(&mut statement)?),
            Directive::Type => module.type_directive(&mut statement)?,
            Directive::Dependency => module.dependency(&mut statement)?,
            Directive::Import => module.import(&mut statement)?,
            Directive::Export => module.export(&mut statement)?,
            Directive::Rodata => module.rodata(&mut statement)?,
            Directive::State => module.state(&mut statement)?,
            Directive::GlobalI32 => module.global(&mut statement, 4, "i32")?,
            Directive::GlobalI64 => module.global(&mut statement, 8, "i64")?,
            Directive::GlobalF32 => module.global(&mut statement, 4, "f32")?,
            Directive::GlobalF64 => module.global(&mut statement, 8, "f64")?,
            Directive::GlobalRef => module.global(&mut statement, 0, "")?,
            Directive::Func => module.function(&mut statement, &mut statements)?,
        }
    }
    if module.name.is_empty() {
        return at(last, format!("expected `{} @name`, found the end of the text", Directive::Module));
    }
    module.resolve()?;
    Ok(module)
}

/// All directives, as an error lists them: `vm.module, ..., vm.global.* or vm.func`.
fn directives() -> String {
    let mut names: Vec<String> = Directive::ALL
        .iter()
        .map(|directive| match directive.name().rsplit_once('.') {
            Some((several, _)) if several.contains('.') => format!("{several}.*"),
            _ => directive.to_string(),
        })
        .collect();
    names.dedup();
    let last = names.pop().unwrap_or_default();
    format!("{} or {last}", names.join(", "))
}

/// `"key" = "value"`
fn attribute(statement: &mut Statement<'_>) -> Result<(String, String), AsmError> {
    let key = statement.text()?;
    statement.token("=")?;
    let value = statement.text()?;
    statement.end()?;
    Ok((key, value))
}

impl<'t> ParsedModule<'t> {
    /// `vm.module @name version 1 requires(yield)`
    fn header(&mut self, statement: &mut Statement<'t>, location: Location) -> Result<(), AsmError> {
        if !self.name.is_empty() {
            return at(location, format!("expected one {}, found a second", Directive::Module));
        }
        let symbol = statement.name("the name of the module")?;
        if statement.accept_word(Keyword::Version.name()) {
            self.version = statement.u32("a version")?;
        }
        if statement.accept_word(Keyword::Requires.name()) {
            self.stated_features = Some(features(statement)?);
        }
        self.name = symbol.name;
        statement.end()
    }

    /// `vm.type !vm.buffer`
    fn type_directive(&mut self, statement: &mut Statement<'t>) -> Result<(), AsmError> {
        let location = statement.next_location();
        let name = if statement.peek("\"") {
            let name = statement.quoted_name()?;
            statement.end()?;
            name
        } else {
            Cow::Borrowed(statement.take_rest())
        };
        if name.is_empty() {
            return at(location, "expected a type such as !vm.buffer, found nothing");
        }
        let ordinal = self.types.len() as u32;
        if self.type_ordinals.insert(name.clone(), ordinal).is_some() {
            return at(location, format!("the type {} is there twice", name.escape_debug()));
        }
        self.types.push(name);
        Ok(())
    }

    /// The ordinal of a type. A name without `!` refers to the type with `!` if only that one is known.
    pub(super) fn type_ordinal(&mut self, name: &'t str) -> u32 {
        if let Some(ordinal) = self.type_ordinals.get(name) {
            return *ordinal;
        }
        if name.starts_with("vm.")
            && let Some(ordinal) = self.type_ordinals.get(format!("!{name}").as_str())
        {
            return *ordinal;
        }
        // There are at most as many types as characters in the text.
        let ordinal = self.types.len() as u32;
        self.type_ordinals.insert(Cow::Borrowed(name), ordinal);
        self.types.push(Cow::Borrowed(name));
        ordinal
    }

    /// `vm.dependency optional @hal version 7`
    fn dependency(&mut self, statement: &mut Statement<'t>) -> Result<(), AsmError> {
        let optional = statement.accept_word(Keyword::Optional.name());
        let name = statement.name("the name of a module")?.name;
        statement.token(Keyword::Version.name())?;
        let minimum_version = statement.u32("a version")?;
        self.dependencies.push(Dependency { name, minimum_version, optional });
        statement.end()
    }

    /// `vm.import optional @module.function cconv "0i_i"`
    fn import(&mut self, statement: &mut Statement<'t>) -> Result<(), AsmError> {
        let optional = statement.accept_word(Keyword::Optional.name());
        let symbol = statement.name("an import such as @module.function")?;
        let convention = if statement.accept_word(Keyword::Cconv.name()) { Some(statement.text()?) } else { None };
        statement.end()?;
        if !symbol.name.split_once('.').is_some_and(|(module, function)| !module.is_empty() && !function.is_empty()) {
            return at(symbol.location, "expected an import such as @module.function");
        }
        let ordinal = self.imports.len() as u32;
        if self.import_ordinals.insert(symbol.name.clone(), ordinal).is_some() {
            return at(symbol.location, format!("the import @{} is there twice", symbol.name));
        }
        self.imports.push(Import { name: symbol.name, convention, optional });
        Ok(())
    }

    /// `vm.export @name` or `vm.export @name = @function`
    fn export(&mut self, statement: &mut Statement<'t>) -> Result<(), AsmError> {
        let symbol = statement.name("the name of an export")?;
        let function = if statement.accept("=") { statement.name("a function")? } else { symbol.clone() };
        statement.end()?;
        if self.export_names.insert(symbol.name.clone(), ()).is_some() {
            return at(symbol.location, format!("the export @{} is there twice", symbol.name));
        }
        self.exports.push(Export { name: symbol.name, function, ordinal: 0 });
        Ok(())
    }

    /// `vm.rodata[0] = 00FF` or `vm.rodata[0] external = 00FF`
    fn rodata(&mut self, statement: &mut Statement<'t>) -> Result<(), AsmError> {
        statement.token("[")?;
        let next = self.rodata.len() as i128;
        statement.number("the next ordinal", next..=next)?;
        statement.token("]")?;
        let external = statement.accept_word(Keyword::External.name());
        statement.token("=")?;
        let location = statement.next_location();
        let digits = statement.take_rest().as_bytes();
        if !digits.len().is_multiple_of(2) {
            return at(location, "expected two hexadecimal digits for each byte, found an odd number of digits");
        }
        let digit = |digit: u8| (digit as char).to_digit(16).map(|digit| digit as u8);
        let bytes = digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
        match bytes.collect::<Option<Vec<u8>>>() {
            Some(bytes) => self.rodata.push(Rodata { bytes, external }),
            None => return at(location, "expected hexadecimal digits"),
        }
        Ok(())
    }

    /// `vm.state bytes 16 refs 2`: the least size of the globals.
    fn state(&mut self, statement: &mut Statement<'t>) -> Result<(), AsmError> {
        let range = 0..=i128::from(i32::MAX);
        statement.token(Keyword::Bytes.name())?;
        let location = statement.next_location();
        let bytes = statement.number("the size of the globals", range.clone())? as u64;
        statement.token(Keyword::Refs.name())?;
        let refs = statement.number("the number of ref globals", range)? as u64;
        self.need_globals(bytes, refs, location)?;
        statement.end()
    }

    /// `vm.global.i32 private mutable @name = 0 : i32` or `vm.global.ref @name : !vm.buffer`
    fn global(&mut self, statement: &mut Statement<'t>, width: u32, ty: &str) -> Result<(), AsmError> {
        statement.accept_word(Keyword::Private.name());
        statement.accept_word(Keyword::Mutable.name());
        let symbol = statement.name("the name of a global")?;
        if width == 0 {
            if statement.accept(":") {
                statement.any_type()?;
            }
        } else if statement.accept("=") {
            let location = statement.next_location();
            if statement.number("0", i128::from(i64::MIN)..=i128::from(i64::MAX))? != 0 {
                let message = format!("expected 0: other values are stored by a function called {INITIALIZER}");
                return at(location, message);
            }
            statement.token(":")?;
            statement.token(ty)?;
        }
        statement.end()?;
        let Symbol { name, location, .. } = symbol;
        if let Some(index) = self.global_names.insert(name, self.globals.len()) {
            return at(location, format!("the global is there twice; the first is number {index}"));
        }
        self.globals.push(GlobalDef { width, number: 0 });
        Ok(())
    }

    /// A function, up to its closing brace.
    fn function(
        &mut self,
        statement: &mut Statement<'t>,
        statements: &mut impl Iterator<Item = Statement<'t>>,
    ) -> Result<(), AsmError> {
        let symbol = statement.name("the name of a function")?;
        let header = header(statement)?;
        let ordinal = self.functions.len();
        if self.function_ordinals.insert(symbol.name.clone(), ordinal as u32).is_some() {
            return at(symbol.location, format!("the function @{} is there twice", symbol.name));
        }
        let mut attrs = Vec::new();
        let mut code = CodeWriter::new(self, ordinal, symbol.location);
        header.arguments.iter().for_each(|register| code.reserve(*register));
        let mut terminated = false;
        let mut in_code = false;
        loop {
            let Some(mut statement) = statements.next() else {
                return at(symbol.location, "expected `}` at the end of the function, found the end of the text");
            };
            code.location = statement.location();
            if statement.accept("}") {
                statement.end()?;
                if !terminated {
                    return at(
                        code.location,
                        "expected the function to end with an op that leaves its block, such as vm.return",
                    );
                }
                break;
            }
            if statement.peek("^") {
                if in_code && !terminated {
                    return at(
                        code.location,
                        "expected the block in front to end with an op that leaves it, such as vm.br",
                    );
                }
                let label = statement.label()?;
                statement.token(":")?;
                statement.end()?;
                code.block(&label)?;
                (terminated, in_code) = (false, true);
                continue;
            }
            if !in_code && statement.accept_word(Directive::Attr.name()) {
                attrs.push(attribute(&mut statement)?);
                continue;
            }
            if terminated {
                return Err(statement.expected("a block such as `^bb1:`, or `}`"));
            }
            terminated = op(&mut statement, &mut code)?;
            in_code = true;
        }
        let mut finished = code.finish()?;
        if let Some((slots, refs)) = header.registers {
            if nameable(slots) < finished.slots || nameable(refs) < finished.refs {
                let message =
                    format!("the function uses {} value and {} reference registers", finished.slots, finished.refs);
                return at(symbol.location, message);
            }
            (finished.slots, finished.refs) = (slots, refs);
        }
        let narrow = |count: u32, what: &str| {
            let error = || AsmError { location: symbol.location, message: format!("the function has {count} {what}") };
            u16::try_from(count).map_err(|_| error())
        };
        self.functions.push(Function {
            offset: self.bytecode.len(),
            length: finished.bytes.len(),
            convention: header.convention,
            attrs,
            features: header.features.unwrap_or(finished.features),
            blocks: narrow(finished.blocks, "blocks")?,
            slots: narrow(finished.slots, "value registers")?,
            refs: narrow(finished.refs, "reference registers")?,
        });
        self.bytecode.extend_from_slice(&finished.bytes);
        self.bytecode.resize(self.bytecode.len().next_multiple_of(FUNCTION_ALIGNMENT as usize), 0);
        if i32::try_from(self.bytecode.len()).is_err() {
            return at(symbol.location, "the code of the module is larger than 2 GiB");
        }
        Ok(())
    }

    /// Resolves names and writes them into the code.
    fn resolve(&mut self) -> Result<(), AsmError> {
        self.allocate_globals()?;
        for export in &mut self.exports {
            let Some(ordinal) = self.function_ordinals.get(&export.function.name) else {
                let message = format!("expected a function of the module, found @{}", export.function.name);
                return at(export.function.location, message);
            };
            export.ordinal = *ordinal;
        }
        for fixup in std::mem::take(&mut self.fixups) {
            let value = self.lookup(&fixup)?;
            let start = self.functions[fixup.function].offset + fixup.offset;
            self.bytecode[start..start + 4].copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    }

    fn lookup(&self, fixup: &Fixup<'t>) -> Result<u32, AsmError> {
        let Symbol { name, ordinal, location } = &fixup.symbol;
        let unknown = |what: &str| at(*location, format!("expected {what}, found @{name}"));
        match fixup.kind {
            FixupKind::Global { width } => match self.global_names.get(name).map(|index| &self.globals[*index]) {
                Some(global) if global.width == width => Ok(global.number),
                Some(_) => unknown("a global of the type that the op accesses"),
                None => unknown("a global of the module"),
            },
            FixupKind::Import | FixupKind::Function => {
                let local = matches!(fixup.kind, FixupKind::Function);
                if let Some(ordinal) = ordinal {
                    if local && *name == self.name {
                        return Ok(*ordinal);
                    }
                    // Listings print imports without a name like this.
                    if name == "import" && *ordinal < IMPORT_BIT {
                        return Ok(ordinal | IMPORT_BIT);
                    }
                    return unknown("the name of this module before an ordinal");
                }
                if let Some(ordinal) = self.import_ordinals.get(name) {
                    return Ok(ordinal | IMPORT_BIT);
                }
                let own = || name.strip_prefix(&*self.name)?.strip_prefix('.');
                let found = self.function_ordinals.get(name).or_else(|| self.function_ordinals.get(own()?));
                match found.filter(|_| local) {
                    Some(ordinal) => Ok(*ordinal),
                    None if local => unknown("a function or an import of the module"),
                    None => unknown("an import of the module"),
                }
            }
        }
    }

    /// Allocates ordinals and offsets to named globals: references in order, then values, the small ones first.
    fn allocate_globals(&mut self) -> Result<(), AsmError> {
        let (mut refs, mut bytes) = (0_u32, 0_u32);
        for width in [0, 4, 8] {
            if self.globals.iter().any(|global| global.width == width) {
                bytes = bytes.next_multiple_of(width.max(1));
            }
            for global in self.globals.iter_mut().filter(|global| global.width == width) {
                // A global takes more than 8 characters of the text, so the sums cannot overflow before memory is
                // exhausted.
                let next = if width == 0 { &mut refs } else { &mut bytes };
                global.number = *next;
                *next = next.saturating_add(width.max(1));
            }
        }
        self.need_globals(bytes.into(), refs.into(), Location { line: 1, column: 1 })
    }

    /// Extends the globals to at least so many bytes and references.
    pub(super) fn need_globals(&mut self, bytes: u64, refs: u64, location: Location) -> Result<(), AsmError> {
        if bytes > MAX_GLOBAL_BYTES as u64 || refs > MAX_GLOBAL_REFS as u64 {
            let limits = format!("{MAX_GLOBAL_BYTES} bytes and {MAX_GLOBAL_REFS} references");
            return at(location, format!("expected at most {limits} of globals, found {bytes} and {refs}"));
        }
        // Both limits fit 32 bits.
        self.global_bytes = self.global_bytes.max(bytes as u32);
        self.global_refs = self.global_refs.max(refs as u32);
        Ok(())
    }
}

/// Assembles an op, with or without results before it. True if it ends its block.
fn op<'t>(statement: &mut Statement<'t>, code: &mut CodeWriter<'_, 't>) -> Result<bool, AsmError> {
    if statement.peek("%") {
        loop {
            let location = statement.next_location();
            let register = statement.any_reg("a register")?;
            statement.results.push((register, location));
            if !statement.accept(",") {
                break;
            }
        }
        statement.token("=")?;
    }
    let location = statement.next_location();
    let word = statement.word("an op such as vm.add.i32")?;
    let mnemonic = word.strip_prefix("vm.").unwrap_or(word);
    let Ok(index) = OPS.binary_search_by(|op| op.mnemonic.cmp(mnemonic)) else {
        let shown: String = word.chars().take(48).collect();
        return at(location, format!("expected an op such as vm.add.i32, found `{shown}`"));
    };
    let op = &OPS[index];
    (op.assemble)(statement, code)?;
    Ok(op.terminator)
}
