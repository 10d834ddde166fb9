//! Programs: frames of functions, layouts of memory, and instructions with the places of their registers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::code::{Draft, Place, Target};
use super::instruction::{self, Context, Drafts, Frame, Lowered, SharedId};
use super::polls::weigh_polls;
use super::special::join_bytes;
use super::symbols::{FunctionId, Symbol, Symbols, is_call};
use crate::allocate::{self, Code, Event, Places};
use crate::error::LoadError;
use crate::generated::limits::{INSTRUCTIONS, LOCAL_BYTES, ROWS, SHARED_BYTES};
use crate::machine::{Constant, FIRST_PREDICATE, Inst, NONE, Origin, Program};
use crate::syntax::{Body, Function, Name, Operand, Source, VariableSpace};

/// Predicates of a program at most.
const MOST_PREDICATES: u32 = 1 << 14;

/// Checks a function that no kernel calls.
pub(super) fn check(sources: &[Source<'_>], symbols: &Symbols<'_>, id: FunctionId) -> Lowered<()> {
    build(sources, symbols, id, &[]).map(|_| ())
}

fn function_of<'s, 'a>(sources: &'s [Source<'a>], id: FunctionId) -> Option<(&'s Function<'a>, &'s Body<'a>)> {
    let function = sources.get(id.0)?.functions.get(id.1)?;
    Some((function, function.body.as_ref()?))
}

/// The functions that one calls.
fn callees(symbols: &Symbols<'_>, id: FunctionId, body: &Body<'_>) -> BTreeSet<FunctionId> {
    let (mut called, mut tables) = (BTreeSet::new(), BTreeSet::new());
    for instruction in body.instructions.iter().filter(|instruction| is_call(instruction.opcode)) {
        for operand in &instruction.operands {
            let Operand::Name(Name::Global(name), _) = operand else { continue };
            if let Some((number, _)) = body.table(instruction.scope, name) {
                tables.insert(number);
            } else if let Some(Symbol::Function(id)) = symbols.find(id.0, name) {
                called.insert(id);
            }
        }
    }
    for (_, table) in tables.into_iter().filter_map(|number| body.table_list.get(number as usize)) {
        called.extend(symbols.candidates(id.0, table).iter().flat_map(|candidates| candidates.iter()));
    }
    called
}

/// The functions that are reached, each after those that it calls.
fn reached(sources: &[Source<'_>], symbols: &Symbols<'_>, first: FunctionId) -> Lowered<Vec<FunctionId>> {
    let mut order = Vec::new();
    // For each function: whether it is open, and its callees that are not done.
    let mut known: HashMap<FunctionId, bool> = HashMap::new();
    let open = |id: FunctionId| {
        let called = function_of(sources, id).map(|(_, body)| callees(symbols, id, body)).unwrap_or_default();
        (id, called.into_iter().collect::<Vec<_>>())
    };
    let mut stack = vec![open(first)];
    known.insert(first, true);
    while let Some((id, rest)) = stack.last_mut() {
        let id = *id;
        match rest.pop() {
            Some(next) => match known.get(&next) {
                Some(true) => {
                    let function = &sources[next.0].functions[next.1];
                    let message = format!("function `{}` calls itself: recursion is not supported", function.name);
                    return Err(LoadError::unsupported(function.line, message));
                }
                Some(false) => {}
                None => {
                    known.insert(next, true);
                    stack.push(open(next));
                }
            },
            None => {
                known.insert(id, false);
                order.push(id);
                stack.pop();
            }
        }
    }
    Ok(order)
}

/// Gives a variable a place after `end`.
fn lay_out(end: &mut u64, size: u64, align: u32) -> u64 {
    let place = end.checked_next_multiple_of(align.max(1).into()).unwrap_or(u64::MAX);
    *end = place.saturating_add(size);
    place
}

/// The local memory of a function.
fn frame(function: &Function<'_>, body: &Body<'_>) -> Lowered<Frame> {
    let (mut frame, mut end) = (Frame::default(), 0u64);
    let variables = body.variables.iter().map(|variable| (variable, 2));
    let parameters = function.parameters.iter().map(|variable| (variable, 0));
    let results = function.results.iter().map(|variable| (variable, 1));
    for (variable, list) in parameters.chain(results).chain(variables) {
        let is_here = match variable.space {
            VariableSpace::Local => true,
            VariableSpace::Param => !(function.is_kernel && list == 0),
            _ => false,
        };
        let mut place = 0;
        if is_here {
            let Some(size) = variable.size else {
                return Err(LoadError::invalid(variable.line, format!("`{}` has no size", variable.name)));
            };
            place = lay_out(&mut end, size, variable.align);
        }
        if end > u64::from(LOCAL_BYTES) {
            let message = format!("more than {LOCAL_BYTES} bytes of local memory");
            return Err(LoadError::unsupported(variable.line, message));
        }
        let offsets = match list {
            0 => &mut frame.parameters,
            1 => &mut frame.results,
            _ => &mut frame.variables,
        };
        offsets.push(place as u32);
    }
    // Frames follow each other with the largest natural alignment.
    frame.bytes = (end as u32).next_multiple_of(16);
    Ok(frame)
}

/// Offsets of shared variables, and how many bytes they have together.
fn shared_layout(
    sources: &[Source<'_>],
    symbols: &Symbols<'_>,
    functions: &[FunctionId],
) -> Lowered<(HashMap<SharedId, u32>, u32)> {
    let mut wanted: BTreeSet<SharedId> = BTreeSet::new();
    for id in functions {
        let Some((_, body)) = function_of(sources, *id) else { continue };
        for (index, variable) in body.variables.iter().enumerate() {
            if variable.space == VariableSpace::Shared {
                wanted.insert(SharedId::Function(*id, index as u32));
            }
        }
        let mut note = |name: &Name<'_>| {
            if let Name::Global(name) = name
                && let Some(Symbol::Shared(source, index)) = symbols.find(id.0, name)
            {
                wanted.insert(SharedId::Module(source, index));
            }
        };
        for operand in body.instructions.iter().flat_map(|instruction| &instruction.operands) {
            match operand {
                Operand::Name(name, _) | Operand::AtName(name, _) => note(name),
                Operand::Vector(parts) | Operand::List(parts) => parts.iter().for_each(|part| {
                    if let Operand::Name(name, _) = part {
                        note(name);
                    }
                }),
                _ => {}
            }
        }
    }
    let (mut offsets, mut end, mut open) = (HashMap::new(), 0u64, Vec::new());
    for id in wanted {
        let variable = match id {
            SharedId::Module(source, index) => sources.get(source).and_then(|source| source.variables.get(index)),
            SharedId::Function(id, index) => {
                function_of(sources, id).and_then(|(_, body)| body.variables.get(index as usize))
            }
        };
        let Some(variable) = variable else { continue };
        match variable.size {
            Some(size) => {
                let place = lay_out(&mut end, size, variable.align);
                if end > u64::from(SHARED_BYTES) {
                    let message = format!("more than {SHARED_BYTES} bytes of shared memory");
                    return Err(LoadError::unsupported(variable.line, message));
                }
                offsets.insert(id, place as u32);
            }
            // Its bytes are those that a launch adds, after all others.
            None => open.push((id, variable.align)),
        }
    }
    let align = open.iter().map(|(_, align)| *align).max().unwrap_or(1);
    let dynamic = lay_out(&mut end, 0, align).min(u64::from(SHARED_BYTES)) as u32;
    offsets.extend(open.into_iter().map(|(id, _)| (id, dynamic)));
    Ok((offsets, dynamic))
}

/// A function with the places of its registers.
struct Allocated {
    id: FunctionId,
    drafts: Drafts,
    places: Places,
    /// Where its rows, predicates and local memory begin.
    rows: u32,
    predicates: u32,
    local: u32,
    /// Where its instructions begin.
    start: u32,
}

/// The program of a kernel, whose parameters have these offsets.
pub(super) fn build(
    sources: &[Source<'_>],
    symbols: &Symbols<'_>,
    first: FunctionId,
    parameters: &[u32],
) -> Lowered<Program> {
    let order = reached(sources, symbols, first)?;
    let (shared, shared_bytes) = shared_layout(sources, symbols, &order)?;
    let mut frames = HashMap::new();
    for id in &order {
        if let Some((function, body)) = function_of(sources, *id) {
            frames.insert(*id, frame(function, body)?);
        }
    }
    let line = sources[first.0].functions[first.1].line;
    let mut functions = Vec::new();
    let mut start = 0u32;
    for id in order {
        let Some((function, body)) = function_of(sources, id) else { continue };
        let context = Context {
            symbols,
            id,
            function,
            body,
            sources,
            parameters: if id == first { parameters } else { &[] },
            shared: &shared,
            frames: &frames,
            version: sources[id.0].version,
            target: sources[id.0].target,
        };
        let mut drafts = instruction::function(context)?;
        join_bytes(&mut drafts, function);
        let places = allocate::places(&code(&drafts, function));
        let count = drafts.drafts.len() as u32;
        functions.push(Allocated { id, drafts, places, rows: 0, predicates: 0, local: 0, start });
        start += count;
        if start > INSTRUCTIONS {
            return Err(LoadError::unsupported(line, format!("more than {INSTRUCTIONS} instructions")));
        }
    }
    // Callers come last, and the frames of what they call begin after theirs.
    let numbers: HashMap<FunctionId, usize> =
        functions.iter().enumerate().map(|(index, function)| (function.id, index)).collect();
    for index in (0..functions.len()).rev() {
        let caller = &functions[index];
        let ends = (
            caller.rows + caller.places.rows,
            caller.predicates + caller.places.predicates,
            caller.local + frames.get(&caller.id).map_or(0, |frame| frame.bytes),
        );
        let Some((_, body)) = function_of(sources, caller.id) else { continue };
        for callee in callees(symbols, caller.id, body) {
            if let Some(callee) = numbers.get(&callee).and_then(|index| functions.get_mut(*index)) {
                callee.rows = callee.rows.max(ends.0);
                callee.predicates = callee.predicates.max(ends.1);
                callee.local = callee.local.max(ends.2);
            }
        }
    }
    let most = |value: fn(&Allocated) -> u32| functions.iter().map(value).max().unwrap_or_default();
    let rows = most(|function| function.rows + function.places.rows);
    let predicates = most(|function| function.predicates + function.places.predicates);
    let local_bytes =
        functions.iter().map(|function| function.local + frames[&function.id].bytes).max().unwrap_or_default();
    for (have, limit, what) in [
        (rows, ROWS, "rows of registers"),
        (predicates, MOST_PREDICATES, "predicates"),
        (local_bytes, LOCAL_BYTES, "bytes of local memory"),
    ] {
        if have > limit {
            return Err(LoadError::unsupported(line, format!("{have} {what}: expected {limit} at most")));
        }
    }
    let mut program = Program {
        insts: Vec::with_capacity(start as usize),
        start: numbers.get(&first).and_then(|index| functions.get(*index)).map_or(0, |function| function.start),
        rows,
        predicates: predicates + u32::from(FIRST_PREDICATE),
        constants: Vec::new(),
        lists: Vec::new(),
        names: Vec::new(),
        origins: Vec::new(),
        files: Vec::new(),
        local_bytes,
        shared_bytes,
    };
    let mut assembler = Assembler {
        functions: &functions,
        numbers: &numbers,
        program: &mut program,
        constants: HashMap::new(),
        tables: HashMap::new(),
    };
    let mut names: HashMap<&str, u32> = HashMap::new();
    let (mut texts, mut polls, mut jumps) = (Vec::new(), Vec::new(), Vec::new());
    let mut files: HashMap<(usize, u64), u32> = HashMap::new();
    for function in &functions {
        let Some((_, body)) = function_of(sources, function.id) else { continue };
        let statements = statements(&function.drafts, body.instructions.len());
        for (index, (draft, statement)) in function.drafts.drafts.iter().enumerate() {
            let origin = body.instructions.get(*statement as usize);
            let (name, line) = origin.map_or(("", 0), |instruction| (instruction.opcode, instruction.line));
            let name = *names.entry(name).or_insert_with(|| {
                texts.push(name.to_string());
                texts.len() as u32 - 1
            });
            let after = statements.get(*statement as usize + 1).copied().unwrap_or(index as u32 + 1);
            let target = |target: Target| match target {
                Target::Statement(statement) => {
                    function.start + statements.get(statement as usize).copied().unwrap_or_default()
                }
                Target::After => function.start + after,
                Target::Skip(count) => function.start + index as u32 + 1 + count,
                Target::Function(id) => numbers.get(&id).map_or(0, |index| functions[*index].start),
            };
            let table = draft.table.map(|number| assembler.table(function, number, &statements));
            let inst = assembler.inst(function, draft, target, table).ok_or_else(|| {
                LoadError::unsupported(line, "more values that are the same in all lanes than a program can have")
            })?;
            let at = assembler.program.insts.len() as u32;
            polls.extend(draft.polls.then_some(at));
            jumps.extend(matches!(draft.target, Some(Target::Statement(_))).then_some(at));
            assembler.program.insts.push(inst);
            let text = function.id.0;
            let source = origin.and_then(|instruction| instruction.origin).and_then(|(number, line)| {
                let file = match files.get(&(text, number)) {
                    Some(file) => *file,
                    None => {
                        let name = sources.get(text)?.files.get(&number)?;
                        assembler.program.files.push((*name).to_string());
                        let file = assembler.program.files.len() as u32 - 1;
                        *files.entry((text, number)).or_insert(file)
                    }
                };
                Some((file, u32::try_from(line).ok()?))
            });
            assembler.program.origins.push(Origin { text: text as u32, line, name, source });
        }
    }
    program.names = texts;
    weigh_polls(&mut program.insts, &jumps, &polls);
    Ok(program)
}

/// The number of the first draft of each statement, and of the end.
fn statements(drafts: &Drafts, count: usize) -> Vec<u32> {
    let mut statements = Vec::with_capacity(count + 2);
    for (index, (_, statement)) in drafts.drafts.iter().enumerate() {
        while statements.len() <= *statement as usize {
            statements.push(index as u32);
        }
    }
    while statements.len() < count + 2 {
        statements.push(drafts.drafts.len() as u32);
    }
    statements
}

/// The uses of registers by the instructions of a function.
fn code(drafts: &Drafts, function: &Function<'_>) -> Code {
    let rows = drafts.registers.iter().map(|bits| if *bits == 1 { 0 } else { bits.div_ceil(32) }).collect();
    let mut code = Code { rows, ..Code::default() };
    let count = drafts.drafts.iter().map(|(_, statement)| *statement as usize + 1).max().unwrap_or_default();
    let statements = statements(drafts, count);
    let mut tables: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for (at, (draft, statement)) in drafts.drafts.iter().enumerate() {
        let mut events = Vec::new();
        let mut note = |place: &Place, is_set: bool| {
            if let Place::Register(register) = place {
                events.push(Event { register: *register, is_set, is_whole: is_set && !draft.is_guarded });
            }
        };
        draft.sources.iter().for_each(|place| note(place, false));
        draft.list[draft.list_results..].iter().for_each(|place| note(place, false));
        // A set under a condition keeps what was there in other lanes.
        if draft.is_guarded {
            note(&draft.result, false);
            note(&draft.result2, false);
            draft.list[..draft.list_results].iter().for_each(|place| note(place, false));
        }
        note(&draft.result, true);
        note(&draft.result2, true);
        draft.list[..draft.list_results].iter().for_each(|place| note(place, true));
        code.events.push((events, draft.shares && !draft.is_guarded));
        let target = match draft.target {
            Some(Target::Statement(statement)) => statements.get(statement as usize).copied(),
            Some(Target::After) => statements.get(*statement as usize + 1).copied(),
            Some(Target::Skip(count)) => Some(at as u32 + 1 + count),
            _ => None,
        };
        code.jumps.extend(target.map(|target| (at as u32, target)));
        if let Some(table) = draft.table {
            let uses = tables.entry(table).or_insert((at as u32, at as u32));
            uses.1 = at as u32;
        }
    }
    // The first jump skips all that others do, and the last one makes the widest loops.
    for (table, (first, last)) in tables {
        for statement in drafts.tables.get(table as usize).into_iter().flatten() {
            let target = statements.get(*statement as usize).copied().unwrap_or_default();
            code.jumps.extend([(first, target), (last, target)]);
        }
    }
    if !function.is_kernel {
        let formals = function.parameters.iter().chain(&function.results);
        code.pinned = formals.filter_map(|formal| formal.register).chain([drafts.link]).collect();
    }
    code
}

struct Assembler<'p> {
    functions: &'p [Allocated],
    numbers: &'p HashMap<FunctionId, usize>,
    program: &'p mut Program,
    constants: HashMap<(Constant, Option<Constant>), u16>,
    /// Where the lists of labels are, by the beginning of the function and their numbers.
    tables: HashMap<(u32, u32), u32>,
}

impl Assembler<'_> {
    /// The number of a place.
    fn place(&mut self, function: &Allocated, place: &Place) -> Option<u16> {
        let register = |function: &Allocated, register: u32| {
            let register = if register == u32::MAX { function.drafts.link } else { register };
            let place = function.places.of.get(register as usize).copied().unwrap_or_default();
            let is_predicate = function.drafts.registers.get(register as usize) == Some(&1);
            let first = if is_predicate { function.predicates + u32::from(FIRST_PREDICATE) } else { function.rows };
            u16::try_from(first + place).ok()
        };
        match place {
            Place::None => Some(NONE),
            Place::Register(number) => register(function, *number),
            Place::Foreign(id, number) => register(&self.functions[*self.numbers.get(id)?], *number),
            Place::Predicate(number) => Some(*number),
            Place::Constant(low, high) => self.constant(*low, *high),
        }
    }

    fn constant(&mut self, low: Constant, high: Option<Constant>) -> Option<u16> {
        if let Some(place) = self.constants.get(&(low, high)) {
            return Some(*place);
        }
        let place = u16::try_from(self.program.rows as usize + self.program.constants.len()).ok()?;
        // The place of a pair and that which stands for none are not those of a row.
        if place >= NONE - 2 {
            return None;
        }
        self.program.constants.push(low);
        self.program.constants.extend(high);
        self.constants.insert((low, high), place);
        Some(place)
    }

    /// The place of a list of labels, of which each has two words.
    fn table(&mut self, function: &Allocated, number: u32, statements: &[u32]) -> u32 {
        let lists = &mut self.program.lists;
        *self.tables.entry((function.start, number)).or_insert_with(|| {
            let at = lists.len() as u32;
            for statement in function.drafts.tables.get(number as usize).into_iter().flatten() {
                let target = function.start + statements.get(*statement as usize).copied().unwrap_or_default();
                lists.extend([target as u16, (target >> 16) as u16]);
            }
            at
        })
    }

    fn inst(
        &mut self,
        function: &Allocated,
        draft: &Draft,
        target: impl Fn(Target) -> u32,
        table: Option<u32>,
    ) -> Option<Inst> {
        let mut sources = [NONE; 4];
        for (source, place) in sources.iter_mut().zip(&draft.sources) {
            *source = self.place(function, place)?;
        }
        let (mut result, result2) = (self.place(function, &draft.result)?, self.place(function, &draft.result2)?);
        if let Some(first) = draft.first {
            sources[0] = first;
        }
        if let Some(second) = draft.second {
            result = second;
        }
        let base = |id: FunctionId| self.numbers.get(&id).map_or(0, |index| self.functions[*index].local);
        if !(draft.list.is_empty() && draft.words.is_empty() && draft.places.is_empty()) {
            let at = self.program.lists.len() as u32;
            (sources[2], sources[3]) = (at as u16, (at >> 16) as u16);
            let mut list = draft.words.clone();
            for place in &draft.places {
                let offset = base(place.function) + place.offset;
                list.extend([offset as u16, (offset >> 16) as u16]);
            }
            for place in &draft.list {
                list.push(self.place(function, place)?);
            }
            self.program.lists.extend(list);
        }
        if let Some(at) = table {
            (sources[2], sources[3]) = (at as u16, (at >> 16) as u16);
        }
        let local = draft.local.map_or(0, |place| i64::from(base(place.function) + place.offset));
        Some(Inst {
            handler: draft.handler,
            sources,
            result,
            result2,
            number: draft.target.map_or(draft.number, target),
            offset: draft.offset.wrapping_add(local),
        })
    }
}
