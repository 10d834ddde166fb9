//! The parser: reads the text of a graph, for tests of passes. All that the graph refers to is there, so passes and
//! analyses do not index out of its tables; whether it makes sense is for the graph verifier to say.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;

use smallvec::SmallVec;

use super::kinds;
pub(crate) use super::scanner::Mistake;
use super::scanner::{Position, Scanner};
use super::words::{Word, ty_of};
use crate::bytecode::{CallId, ListId};
use crate::ir::bits::Bits;
use crate::ir::graph::{
    Block, BlockIndex, Branch, DirectCall, Entry, Exit, ExitId, Graph, Kind, LentOp, NativeCall, NativeKind,
    NativeTerminator, Node, NodeId, Nodes, Part, Passed, PassedIn, RefMove, RuntimeOp, SideExitKind, SlotValue,
    Terminator,
};
use crate::ir::types::{Scalar, Ty};

/// Numbers of nodes and exits are below this, since a graph has room for all numbers below the largest.
const MAX_NUMBER: u32 = 1 << 20;

/// Reads a graph. `first_line` is the number of the first line of the text in its file.
pub(crate) fn parse(text: &str, first_line: usize) -> Result<Graph, Mistake> {
    let mut parser = Parser::default();
    let mut is_begun = false;
    let mut end = Scanner::new("", first_line).position();
    for (number, line) in (first_line..).zip(text.lines()) {
        let mut scanner = Scanner::new(line, number);
        end = scanner.position();
        if scanner.is_at_end() {
            continue;
        }
        if !is_begun {
            scanner.expect("graph")?;
            is_begun = true;
        } else {
            parser.line(&mut scanner)?;
        }
        scanner.end()?;
    }
    if !is_begun {
        return Err(end.mistake("expected `graph`, the text ends"));
    }
    parser.finish(end)
}

/// A reference to something that has to be there in the end.
enum Reference {
    Node(u32),
    Block(u32),
    Exit(u32),
}

#[derive(Default)]
struct Parser {
    graph: Graph,
    nodes: BTreeMap<u32, (Node, Position)>,
    origins: BTreeMap<u32, u32>,
    folded: Vec<u32>,
    blocks: BTreeMap<u32, Block>,
    exits: BTreeMap<u32, Exit>,
    /// The block whose nodes are read, until its terminator is.
    current: Option<u32>,
    /// The block whose terminator was read last.
    ended: Option<u32>,
    references: Vec<(Reference, Position)>,
}

impl Parser {
    fn line(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Mistake> {
        if scanner.numbered('v').is_some() {
            self.node_line(scanner)
        } else if scanner.numbered('b').is_some() {
            self.block_line(scanner)
        } else if scanner.numbered('e').is_some() {
            self.exit_line(scanner)
        } else if scanner.take("native_entry") {
            let block = self.block(scanner)?;
            scanner.expect("function")?;
            self.graph.native_entry = Some((block, scanner.number()?));
            Ok(())
        } else if scanner.take("inlined_entry") {
            self.graph.inlined_entry = Some(self.block(scanner)?);
            Ok(())
        } else if scanner.take("native") {
            self.native_line(scanner)
        } else {
            self.terminator_line(scanner)
        }
    }

    /// A node that has to be there in the end.
    fn value(&mut self, scanner: &mut Scanner<'_>) -> Result<NodeId, Mistake> {
        let at = scanner.position();
        let number = scanner.id('v', "a value such as `v0`")?;
        self.references.push((Reference::Node(number), at));
        Ok(NodeId(number))
    }

    /// Values with commas between them.
    fn values(&mut self, scanner: &mut Scanner<'_>) -> Result<SmallVec<[NodeId; 4]>, Mistake> {
        let mut values = SmallVec::new();
        loop {
            values.push(self.value(scanner)?);
            if !scanner.take(",") {
                break Ok(values);
            }
        }
    }

    fn block(&mut self, scanner: &mut Scanner<'_>) -> Result<BlockIndex, Mistake> {
        let at = scanner.position();
        let number = scanner.id('b', "a block such as `b0`")?;
        self.references.push((Reference::Block(number), at));
        Ok(BlockIndex::new(number as usize))
    }

    fn exit(&mut self, scanner: &mut Scanner<'_>) -> Result<ExitId, Mistake> {
        let at = scanner.position();
        let number = scanner.id('e', "an exit such as `e0`")?;
        self.references.push((Reference::Exit(number), at));
        Ok(ExitId(number))
    }

    /// The number and the type of a node.
    fn definition(&mut self, scanner: &mut Scanner<'_>) -> Result<(u32, Ty, Position), Mistake> {
        let at = scanner.position();
        let number = scanner.id('v', "a value such as `v0`")?;
        if number >= MAX_NUMBER {
            return Err(at.mistake(format!("numbers of values are below {MAX_NUMBER}")));
        }
        let ty = if scanner.take(":") { scanner.one_of("a type", ty_of)? } else { Ty::Nothing };
        Ok((number, ty, at))
    }

    fn define(&mut self, number: u32, node: Node, at: Position) -> Result<(), Mistake> {
        match self.nodes.entry(number) {
            MapEntry::Occupied(_) => Err(at.mistake(format!("there is a v{number} already"))),
            MapEntry::Vacant(entry) => {
                entry.insert((node, at));
                Ok(())
            }
        }
    }

    fn origin(&mut self, scanner: &mut Scanner<'_>, node: u32) -> Result<(), Mistake> {
        if scanner.take("@") {
            self.origins.insert(node, scanner.number()?);
        }
        Ok(())
    }

    fn node_line(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Mistake> {
        let (number, ty, at) = self.definition(scanner)?;
        scanner.expect("=")?;
        let kind_at = scanner.position();
        let kind = kinds::parse(scanner)?;
        if kind == Kind::Parameter {
            return Err(kind_at.mistake("parameters come after the number of their block"));
        }
        let args = match scanner.numbered('v') {
            Some(_) => SmallVec::from_slice(&self.values(scanner)?),
            None => SmallVec::new(),
        };
        let exit = if scanner.take("exit") { Some(self.exit(scanner)?) } else { None };
        if scanner.take("folded") {
            self.folded.push(number);
        }
        self.origin(scanner, number)?;
        self.define(number, Node { kind, ty, args, exit }, at)?;
        let is_before_blocks = self.blocks.is_empty();
        match self.current.and_then(|block| self.blocks.get_mut(&block)) {
            Some(block) => block.nodes.push(NodeId(number)),
            None if is_before_blocks => {}
            None => return Err(at.mistake("its block has ended")),
        }
        Ok(())
    }

    fn block_line(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Mistake> {
        let at = scanner.position();
        self.no_open_block(at)?;
        let number = scanner.id('b', "a block such as `b0`")?;
        let mut parameters = Nodes::new();
        if scanner.take("(") {
            loop {
                let (parameter, ty, at) = self.definition(scanner)?;
                self.define(parameter, Node { kind: Kind::Parameter, ty, args: SmallVec::new(), exit: None }, at)?;
                self.origin(scanner, parameter)?;
                parameters.push(NodeId(parameter));
                if !scanner.take(",") {
                    break;
                }
            }
            scanner.expect(")")?;
        }
        scanner.expect(":")?;
        let depth = if scanner.take("depth") { scanner.number()? } else { 0 };
        let entry = if scanner.take("entry") {
            let pc = scanner.number()?;
            let (resumes, native) = (scanner.take("resumes"), scanner.take("native"));
            Some(Entry { pc, resumes, native })
        } else {
            None
        };
        let preheader_exit = if scanner.take("preheader") { Some(self.exit(scanner)?) } else { None };
        let header_exit = if scanner.take("header") { Some(self.exit(scanner)?) } else { None };
        if !scanner.take("unplaced") {
            self.graph.order.push(BlockIndex::new(number as usize));
        }
        let terminator = Terminator::Open;
        let block = Block { entry, parameters, nodes: Nodes::new(), terminator, preheader_exit, header_exit, depth };
        if self.blocks.insert(number, block).is_some() {
            return Err(at.mistake(format!("there is a b{number} already")));
        }
        (self.current, self.ended) = (Some(number), None);
        Ok(())
    }

    fn no_open_block(&self, at: Position) -> Result<(), Mistake> {
        match self.current {
            Some(block) => Err(at.mistake(format!("b{block} has no terminator"))),
            None => Ok(()),
        }
    }

    fn branch(&mut self, scanner: &mut Scanner<'_>) -> Result<Branch, Mistake> {
        let target = self.block(scanner)?;
        let mut args = Nodes::new();
        if scanner.take("(") {
            args = self.values(scanner)?;
            scanner.expect(")")?;
        }
        let limits_exit = if scanner.take("limits") { Some(self.exit(scanner)?) } else { None };
        let skips_header_test = scanner.take("skips_header_test");
        Ok(Branch { target, args, limits_exit, skips_header_test })
    }

    fn branches(&mut self, scanner: &mut Scanner<'_>) -> Result<[Branch; 2], Mistake> {
        let first = self.branch(scanner)?;
        scanner.expect(",")?;
        Ok([first, self.branch(scanner)?])
    }

    fn terminator_line(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Mistake> {
        let at = scanner.position();
        let terminator = if scanner.take("jump") {
            Terminator::Jump(self.branch(scanner)?)
        } else if scanner.take("branch") {
            let test = self.value(scanner)?;
            scanner.expect(",")?;
            Terminator::Branch(test, self.branches(scanner)?)
        } else if scanner.take("guarded") {
            Terminator::Guarded(self.branches(scanner)?)
        } else if scanner.take("side_exit") {
            let kind = scanner.one_of("`op`, `call` or `return`", SideExitKind::from_word)?;
            Terminator::SideExit(kind, self.exit(scanner)?)
        } else if scanner.take("open") {
            Terminator::Open
        } else {
            return Err(scanner.expected("a value, a block, an exit or a terminator"));
        };
        let Some((number, block)) = self.current.and_then(|number| Some((number, self.blocks.get_mut(&number)?)))
        else {
            return Err(at.mistake("this terminator is in no block"));
        };
        block.terminator = terminator;
        while scanner.take("@") {
            self.graph.terminator_ops.push((BlockIndex::new(number as usize), scanner.number()?));
        }
        (self.current, self.ended) = (None, Some(number));
        Ok(())
    }

    fn native_line(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Mistake> {
        let Some(block) = self.ended.take() else {
            return Err(scanner.expected("no native terminator, which follows the terminator of a block"));
        };
        let kind = match scanner.one_of("`return`, `call` or `op`", SideExitKind::from_word)? {
            SideExitKind::Return => self.native_return(scanner)?,
            SideExitKind::Call => NativeKind::Call(self.native_call(scanner)?),
            SideExitKind::Op => NativeKind::Op(self.runtime_op(scanner)?),
        };
        let mut values = Vec::new();
        let mut is_more = scanner.take("passes");
        while is_more {
            let value = self.value(scanner)?;
            scanner.expect("as")?;
            let of = scanner.one_of("a type", Scalar::from_word)?;
            scanner.expect("slot")?;
            let slot = scanner.number()?;
            let passed_in =
                if scanner.take("register") { PassedIn::Register(scanner.number()?) } else { PassedIn::Slot };
            values.push((value, Passed { of, slot, passed_in }));
            is_more = scanner.take(",");
        }
        self.graph.native_terminators.insert(BlockIndex::new(block as usize), NativeTerminator { values, kind });
        Ok(())
    }

    fn native_return(&mut self, scanner: &mut Scanner<'_>) -> Result<NativeKind, Mistake> {
        scanner.expect("list")?;
        let operands = ListId(scanner.number()?);
        scanner.expect("refs")?;
        let refs = scanner.number()?;
        Ok(NativeKind::Return { operands, refs, through_frames: scanner.take("through_frames") })
    }

    fn native_call(&mut self, scanner: &mut Scanner<'_>) -> Result<NativeCall, Mistake> {
        let mut numbers = [0; 4];
        for (number, name) in numbers.iter_mut().zip(["function", "advance", "size", "zeroed"]) {
            scanner.expect(name)?;
            *number = scanner.number()?;
        }
        let [callee, advance, size, zeroed] = numbers;
        scanner.expect("refs")?;
        let refs = scanner.number()?;
        let (passes_refs, partly_inlined) = (scanner.take("passes_refs"), scanner.take("partly_inlined"));
        scanner.expect("continuation")?;
        let continuation = self.block(scanner)?;
        let mut live_slots = Vec::new();
        let mut is_more = scanner.take("live");
        while is_more {
            live_slots.push(scanner.number()?);
            is_more = scanner.take(",");
        }
        Ok(NativeCall { callee, advance, size, zeroed, refs, passes_refs, continuation, live_slots, partly_inlined })
    }

    fn runtime_op(&mut self, scanner: &mut Scanner<'_>) -> Result<RuntimeOp, Mistake> {
        scanner.expect("continuation")?;
        let continuation = self.block(scanner)?;
        let (is_filled, moves_refs) = (scanner.take("filled"), scanner.take("moves_refs"));
        let import = if scanner.take("import") { Some(CallId(scanner.number()?)) } else { None };
        let lent = if !scanner.take("lent") {
            None
        } else if scanner.take("get") {
            let (list, index) = (scanner.number()?, scanner.number()?);
            Some(LentOp::Get { list, index, result: scanner.number()? })
        } else if scanner.take("data") {
            let rodata = scanner.number()?;
            Some(LentOp::Data { rodata, result: scanner.number()? })
        } else if scanner.take("discard") {
            Some(LentOp::Discard(scanner.number()?))
        } else {
            return Err(scanner.expected("`get`, `data` or `discard`"));
        };
        let direct = if scanner.take("direct") {
            let (import, function) = (scanner.number()?, scanner.number()?);
            let result = if scanner.take("result") {
                let of = scanner.one_of("a type", Scalar::from_word)?;
                Some((of, scanner.number()?))
            } else {
                None
            };
            Some(DirectCall { import, function, result })
        } else {
            None
        };
        Ok(RuntimeOp { continuation, import, is_filled, moves_refs, lent, direct })
    }

    fn exit_line(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Mistake> {
        let at = scanner.position();
        self.no_open_block(at)?;
        let number = scanner.id('e', "an exit such as `e0`")?;
        if number >= MAX_NUMBER {
            return Err(at.mistake(format!("numbers of exits are below {MAX_NUMBER}")));
        }
        scanner.expect(":")?;
        scanner.expect("op")?;
        let pc = scanner.number()?;
        let mut frame_state = Vec::new();
        let mut is_more = scanner.take("slots");
        while is_more {
            let slot = scanner.number()?;
            scanner.expect("=")?;
            let node = self.value(scanner)?;
            let part =
                if scanner.take(".") { scanner.one_of("`low` or `high`", Part::from_word)? } else { Part::Whole };
            frame_state.push(SlotValue { slot, node, part });
            is_more = scanner.take(",");
        }
        let mut references = Vec::new();
        let mut is_more = scanner.take("references");
        while is_more {
            let target = scanner.number()?;
            scanner.expect("=")?;
            let source = if scanner.take("null") { None } else { Some(scanner.number()?) };
            references.push(RefMove { target, source });
            is_more = scanner.take(",");
        }
        let pending_stores = if scanner.take("stores") { self.values(scanner)?.to_vec() } else { Vec::new() };
        let fallback = if scanner.take("fallback") { Some(self.branch(scanner)?) } else { None };
        if self.exits.insert(number, Exit { pc, frame_state, references, pending_stores, fallback }).is_some() {
            return Err(at.mistake(format!("there is an e{number} already")));
        }
        self.ended = None;
        Ok(())
    }

    /// The graph, if all that it refers to is there.
    fn finish(mut self, end: Position) -> Result<Graph, Mistake> {
        self.no_open_block(end)?;
        for (reference, at) in &self.references {
            let missing = match reference {
                Reference::Node(number) => (!self.nodes.contains_key(number)).then(|| format!("v{number}")),
                Reference::Block(number) => (!self.blocks.contains_key(number)).then(|| format!("b{number}")),
                Reference::Exit(number) => (!self.exits.contains_key(number)).then(|| format!("e{number}")),
            };
            if let Some(missing) = missing {
                return Err(at.mistake(format!("there is no {missing}")));
            }
        }
        // Blocks have no gaps, since passes do not leave empty ones.
        for (expected, (number, block)) in (0..).zip(std::mem::take(&mut self.blocks)) {
            if number != expected {
                return Err(end.mistake(format!("there is no b{expected}, but a b{number}")));
            }
            self.graph.blocks.push(block);
        }
        let built = self.origins.last_key_value().map_or(0, |(last, _)| last + 1);
        let nodes = self.nodes.last_key_value().map_or(0, |(last, _)| last + 1);
        self.graph.origins = (0..built).map(|node| self.origins.get(&node).copied().unwrap_or(0)).collect();
        let mut unnamed = self.nodes.range(..built).filter(|(node, _)| !self.origins.contains_key(node));
        if let Some((node, (_, at))) = unnamed.next() {
            return Err(at.mistake(format!("v{node} is from no op, and v{} is from one", built - 1)));
        }
        self.graph.folded = Bits::new(nodes as usize);
        self.folded.iter().for_each(|node| self.graph.folded.insert(*node as usize));
        let mut all = std::mem::take(&mut self.nodes);
        self.graph.nodes =
            (0..nodes).map(|node| all.remove(&node).map_or_else(unused_node, |(node, _)| node)).collect();
        let exits = self.exits.last_key_value().map_or(0, |(last, _)| last + 1);
        self.graph.exits = (0..exits).map(|exit| self.exits.remove(&exit).unwrap_or_else(unused_exit)).collect();
        Ok(self.graph)
    }
}

/// A node that nothing refers to.
pub(super) fn unused_node() -> Node {
    Node { kind: Kind::Constant(0), ty: Ty::Scalar(Scalar::I32), args: SmallVec::new(), exit: None }
}

/// An exit that nothing refers to.
pub(super) fn unused_exit() -> Exit {
    Exit { pc: 0, frame_state: Vec::new(), references: Vec::new(), pending_stores: Vec::new(), fallback: None }
}
