//! A graph: what is submitted, what it waits for and signals, and what must become of it. `maker.rs` makes random ones.

use std::fmt;

/// Bytes of every buffer and file.
pub const SIZE: usize = 256;

/// A value of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub line: usize,
    pub value: u64,
}

/// Where bytes are.
#[derive(Clone, Debug)]
pub enum Store {
    /// A buffer of the allocator, with these bytes at first.
    Buffer(Vec<u8>),
    /// A buffer that a queue reserves and returns.
    Transient,
    /// Memory of the host as a file, with these bytes at first.
    File(Vec<u8>),
}

/// Some bytes of a store, or of a parameter of recorded commands.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub store: usize,
    pub offset: usize,
    pub length: usize,
}

/// A transfer that a queue does by itself or in a command buffer.
#[derive(Clone, Debug)]
pub enum Transfer {
    Fill {
        to: Range,
        pattern: Vec<u8>,
    },
    Update {
        to: Range,
        bytes: Vec<u8>,
    },
    Copy {
        from: Range,
        to: Range,
    },
    /// Multiplies the 32-bit integers of two stores into a third one.
    Multiply {
        from: [usize; 2],
        to: usize,
    },
}

/// Recorded commands over parameters, which stand for stores.
#[derive(Clone, Debug)]
pub struct Body {
    pub one_shot: bool,
    pub commands: Vec<Transfer>,
    /// Whether there is a barrier before each command.
    pub barriers: Vec<bool>,
    /// The stores that commands name directly; the others are slots of the binding table.
    pub direct: Vec<Option<usize>>,
}

/// The action of an operation.
#[derive(Clone, Debug)]
pub enum Action {
    Barrier,
    Alloca {
        store: usize,
    },
    Dealloca {
        store: usize,
    },
    Transfer(Transfer),
    /// Runs recorded commands; a missing store is a null binding, which fails.
    Execute {
        body: usize,
        table: Vec<Option<usize>>,
    },
    ReadFile {
        from: Range,
        to: Range,
    },
    WriteFile {
        from: Range,
        to: Range,
    },
    /// The host is called and looks whether the bytes are what they must be now.
    Look {
        at: Range,
    },
    /// The host is called, and signals later from another thread.
    Later,
    /// The host is called and fails.
    FailingCall {
        cause: usize,
    },
    /// A fill of more bytes than there are.
    FailingFill {
        store: usize,
    },
    /// The host must not be called, because something before fails.
    Never,
}

/// Where a failure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A call of the host failed with this number.
    Call(usize),
    /// The host failed a timeline.
    Host,
    /// A range is not there.
    Range,
    /// A binding is null.
    Binding,
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub action: Action,
    pub wait: Vec<Point>,
    pub signal: Vec<Point>,
    /// None if it must succeed; otherwise it must fail, for one of these causes.
    pub causes: Vec<Cause>,
}

/// The final state of a timeline.
#[derive(Clone, Debug)]
pub enum Line {
    /// The host signals 1, 2 and 3.
    Host,
    /// The host fails it.
    Failing,
    /// Operations signal it, up to this value.
    Reaches(u64),
    /// An operation fails it, for one of these causes.
    Fails(Vec<Cause>),
}

/// A graph.
#[derive(Clone, Debug)]
pub struct Plan {
    pub stores: Vec<Store>,
    pub bodies: Vec<Body>,
    pub lines: Vec<Line>,
    pub operations: Vec<Operation>,
    /// Threads that submit.
    pub threads: usize,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points = |points: &[Point]| {
            points.iter().map(|Point { line, value }| format!("{line}@{value}")).collect::<Vec<_>>().join(" ")
        };
        for (index, line) in self.lines.iter().enumerate() {
            writeln!(f, "timeline {index}: {line:?}")?;
        }
        for (index, body) in self.bodies.iter().enumerate() {
            writeln!(f, "commands {index}: {body:?}")?;
        }
        for (index, Operation { action, wait, signal, causes }) in self.operations.iter().enumerate() {
            writeln!(f, "{index}: [{}] {action:?} [{}] {causes:?}", points(wait), points(signal))?;
        }
        write!(f, "submitted by {} threads", self.threads)
    }
}

impl Transfer {
    /// The bytes it reads and those it writes.
    pub fn accesses(&self) -> (Vec<Range>, Range) {
        let whole = |store| Range { store, offset: 0, length: SIZE };
        match self {
            Transfer::Fill { to, .. } | Transfer::Update { to, .. } => (Vec::new(), *to),
            Transfer::Copy { from, to } => (vec![*from], *to),
            Transfer::Multiply { from, to } => (from.map(whole).to_vec(), whole(*to)),
        }
    }

    /// The same with other stores.
    pub fn with_stores(&self, store: impl Fn(usize) -> usize) -> Transfer {
        let moved = |range: &Range| Range { store: store(range.store), ..*range };
        match self {
            Transfer::Fill { to, pattern } => Transfer::Fill { to: moved(to), pattern: pattern.clone() },
            Transfer::Update { to, bytes } => Transfer::Update { to: moved(to), bytes: bytes.clone() },
            Transfer::Copy { from, to } => Transfer::Copy { from: moved(from), to: moved(to) },
            Transfer::Multiply { from, to } => Transfer::Multiply { from: from.map(&store), to: store(*to) },
        }
    }
}

impl Range {
    pub fn whole(store: usize) -> Range {
        Range { store, offset: 0, length: SIZE }
    }

    fn overlaps(&self, other: &Range) -> bool {
        self.store == other.store
            && self.offset < other.offset + other.length
            && other.offset < self.offset + self.length
    }
}

/// Whether two accesses need an order: the bytes, and whether they are written.
pub fn conflict((a, writes_a): &(Range, bool), (b, writes_b): &(Range, bool)) -> bool {
    (*writes_a || *writes_b) && a.overlaps(b)
}

impl Action {
    /// The bytes it touches if it runs, and whether it writes them.
    pub fn accesses(&self, bodies: &[Body]) -> Vec<(Range, bool)> {
        let of = |transfer: &Transfer| {
            let (reads, write) = transfer.accesses();
            reads.into_iter().map(|range| (range, false)).chain([(write, true)]).collect::<Vec<_>>()
        };
        match self {
            Action::Alloca { store } | Action::Dealloca { store } => vec![(Range::whole(*store), true)],
            Action::Transfer(transfer) => of(transfer),
            Action::Execute { body, table } => {
                let bound = |parameter: usize| table[parameter].unwrap_or(usize::MAX);
                bodies[*body].commands.iter().flat_map(|command| of(&command.with_stores(bound))).collect()
            }
            Action::ReadFile { from, to } | Action::WriteFile { from, to } => vec![(*from, false), (*to, true)],
            Action::Look { at } => vec![(*at, false)],
            Action::Barrier
            | Action::Later
            | Action::FailingCall { .. }
            | Action::FailingFill { .. }
            | Action::Never => Vec::new(),
        }
    }
}
