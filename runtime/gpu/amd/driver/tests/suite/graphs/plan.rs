//! Random graphs, and what they must come to.

use std::collections::BTreeSet;

use vireo_core::status::Status;

/// Operations of a graph.
pub const OPERATIONS: usize = 400;
/// Bytes of every store.
pub const SIZE: usize = 256;
/// Stores that are compared: buffers, then files. After them comes a buffer for operations that fail, of which some
/// run.
pub const BUFFERS: usize = 6;
pub const FILES: usize = 2;
pub const SCRATCH: usize = BUFFERS + FILES;
pub const QUEUES: usize = 4;

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ value >> 31) % bound as u64) as usize
    }

    fn once_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// Bytes of a store, or of a slot of recorded commands.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub store: usize,
    pub offset: usize,
    pub length: usize,
}

#[derive(Clone, Debug)]
pub enum Transfer {
    Fill {
        to: Range,
        pattern: [u8; 4],
    },
    Update {
        to: Range,
        value: u8,
    },
    Copy {
        from: Range,
        to: Range,
    },
    /// The kernel that clears the sign of 64 floats; the size of its grid may be in memory.
    Abs {
        from: usize,
        to: usize,
        indirect: bool,
    },
}

#[derive(Clone, Debug)]
pub enum Action {
    Barrier,
    Transfer(Transfer),
    /// Recorded commands over two slots, with their stores.
    Execute {
        body: usize,
        stores: [usize; 2],
    },
    Read {
        from: Range,
        to: Range,
    },
    Write {
        from: Range,
        to: Range,
    },
    /// An execution with an empty slot.
    Refused,
}

/// Why an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    Refused,
    Host(usize),
    Trap,
}

impl Cause {
    pub fn is(self, failure: &Status) -> bool {
        let expected = match self {
            Cause::Refused => "slot 0 of the binding table is null".to_string(),
            Cause::Host(index) => format!("cause {index}."),
            Cause::Trap => "stopped with".to_string(),
        };
        failure.message().contains(&expected)
    }
}

#[derive(Debug)]
pub struct Operation {
    pub queue: usize,
    pub action: Action,
    /// Indices of operations, or of timelines that the host fails.
    pub after: Vec<usize>,
    pub failed_lines: Vec<usize>,
    /// The timeline and the value that it signals.
    pub line: usize,
    pub value: u64,
    pub causes: BTreeSet<Cause>,
}

#[derive(Debug)]
pub struct Graph {
    pub bodies: Vec<Vec<Transfer>>,
    pub operations: Vec<Operation>,
    /// Timelines, of which the last few are failed by the host.
    pub lines: usize,
    pub host_lines: Vec<usize>,
}

struct Maker {
    random: Random,
    graph: Graph,
    /// By store: who wrote it last, and who has read it since.
    writers: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
    /// Timelines that several operations signal: who did last, and with which value.
    shared: Vec<(usize, Option<usize>, u64)>,
}

impl Maker {
    fn range(&mut self, store: usize, step: usize) -> Range {
        let offset = self.random.below(SIZE / step) * step;
        let length = self.random.below((SIZE - offset) / step + 1) * step;
        Range { store, offset, length }
    }

    fn pair(&mut self, from: usize, to: usize) -> (Range, Range) {
        let (mut from, mut to) = (self.range(from, 1), self.range(to, 1));
        let length = from.length.min(to.length);
        (from.length, to.length) = (length, length);
        (from, to)
    }

    fn transfer(&mut self, stores: usize) -> Transfer {
        let (from, to) = (self.random.below(stores), self.random.below(stores));
        match self.random.below(8) {
            0..=2 => {
                let pattern = (self.random.below(1 << 31) as u32).to_le_bytes();
                Transfer::Fill { to: self.range(to, 4), pattern }
            }
            3 => Transfer::Update { to: self.range(to, 1), value: self.random.below(256) as u8 },
            4 if from != to => Transfer::Abs { from, to, indirect: self.random.once_in(3) },
            _ => {
                let (from, to) = self.pair(from, to);
                Transfer::Copy { from, to }
            }
        }
    }

    fn action(&mut self) -> Action {
        match self.random.below(12) {
            0 => Action::Barrier,
            1..=3 => {
                let body = self.random.below(self.graph.bodies.len());
                let first = self.random.below(BUFFERS);
                let second = (first + 1 + self.random.below(BUFFERS - 1)) % BUFFERS;
                Action::Execute { body, stores: [first, second] }
            }
            4 | 5 => {
                let (file, buffer) = (BUFFERS + self.random.below(FILES), self.random.below(BUFFERS));
                let (file, buffer) = self.pair(file, buffer);
                if self.random.once_in(2) {
                    Action::Read { from: file, to: buffer }
                } else {
                    Action::Write { from: buffer, to: file }
                }
            }
            _ => Action::Transfer(self.transfer(BUFFERS)),
        }
    }

    /// The stores that an action reads and those that it writes.
    fn accesses(&self, action: &Action) -> (Vec<usize>, Vec<usize>) {
        let of = |transfer: &Transfer| match transfer {
            Transfer::Fill { to, .. } | Transfer::Update { to, .. } => (None, to.store),
            Transfer::Copy { from, to } => (Some(from.store), to.store),
            Transfer::Abs { from, to, .. } => (Some(*from), *to),
        };
        match action {
            Action::Barrier | Action::Refused => (Vec::new(), Vec::new()),
            Action::Transfer(transfer) => {
                let (read, written) = of(transfer);
                (read.into_iter().collect(), vec![written])
            }
            Action::Execute { stores, .. } => (Vec::new(), stores.to_vec()),
            Action::Read { from, to } | Action::Write { from, to } => (vec![from.store], vec![to.store]),
        }
    }

    fn add(&mut self) {
        let index = self.graph.operations.len();
        let queue = self.random.below(QUEUES);
        if self.random.once_in(25)
            || (self.random.once_in(8) && self.graph.operations.iter().any(|op| !op.causes.is_empty()))
        {
            return self.add_failing(queue);
        }
        let action = self.action();
        let (reads, writes) = self.accesses(&action);
        let mut after = BTreeSet::new();
        for store in reads {
            after.extend(self.writers[store]);
            self.readers[store].push(index);
        }
        for store in writes {
            after.extend(self.writers[store].replace(index));
            after.extend(self.readers[store].drain(..).filter(|reader| *reader != index));
        }
        let (line, value) = if self.random.once_in(2) {
            let shared = self.random.below(self.shared.len());
            let (line, last, value) = &mut self.shared[shared];
            after.extend(last.replace(index));
            *value += 1;
            (*line, *value)
        } else {
            self.graph.lines += 1;
            (self.graph.lines - 1, 1)
        };
        let (after, failed_lines, causes) = (after.into_iter().collect(), Vec::new(), BTreeSet::new());
        self.graph.operations.push(Operation { queue, action, after, failed_lines, line, value, causes });
    }

    /// An operation that fails by itself, or because of what it waits for.
    fn add_failing(&mut self, queue: usize) {
        let failing: Vec<usize> =
            (0..self.graph.operations.len()).filter(|index| !self.graph.operations[*index].causes.is_empty()).collect();
        let (mut after, mut failed_lines, mut causes) = (Vec::new(), Vec::new(), BTreeSet::new());
        let action = match self.random.below(3) {
            0 => {
                causes.insert(Cause::Refused);
                Action::Refused
            }
            1 => {
                let line = self.graph.lines;
                self.graph.lines += 1;
                self.graph.host_lines.push(line);
                failed_lines.push(line);
                causes.insert(Cause::Host(line));
                self.doomed()
            }
            _ if failing.is_empty() => return,
            _ => {
                for _ in 0..1 + self.random.below(2) {
                    let other = failing[self.random.below(failing.len())];
                    after.push(other);
                    causes.extend(self.graph.operations[other].causes.iter());
                }
                self.doomed()
            }
        };
        let (line, value) = (self.graph.lines, 1);
        self.graph.lines += 1;
        self.graph.operations.push(Operation { queue, action, after, failed_lines, line, value, causes });
    }

    /// What would run if nothing had failed: it writes where nobody looks.
    fn doomed(&mut self) -> Action {
        if self.random.once_in(3) {
            return Action::Barrier;
        }
        Action::Transfer(Transfer::Fill { to: self.range(SCRATCH, 4), pattern: [7; 4] })
    }
}

pub fn make(seed: u64) -> Graph {
    let mut random = Random(seed);
    let bodies = 5;
    let shared = 1 + random.below(6);
    let graph = Graph { bodies: Vec::new(), operations: Vec::new(), lines: shared, host_lines: Vec::new() };
    let mut maker = Maker {
        random,
        graph,
        writers: vec![None; SCRATCH],
        readers: vec![Vec::new(); SCRATCH],
        shared: (0..shared).map(|line| (line, None, 0)).collect(),
    };
    for body in 0..bodies {
        // The first one has more packets than a ring has slots.
        let commands = if body == 0 { 300 } else { 1 + maker.random.below(12) };
        let commands = (0..commands).map(|_| maker.transfer(2)).collect();
        maker.graph.bodies.push(commands);
    }
    while maker.graph.operations.len() < OPERATIONS {
        maker.add();
    }
    maker.graph
}

/// Does a transfer on plain bytes; `store` says what a slot is.
fn model(stores: &mut [Vec<u8>], transfer: &Transfer, store: impl Fn(usize) -> usize) {
    let bytes = |range: &Range| range.offset..range.offset + range.length;
    match transfer {
        Transfer::Fill { to, pattern } => {
            stores[store(to.store)][bytes(to)].copy_from_slice(&pattern.repeat(to.length / 4));
        }
        Transfer::Update { to, value } => stores[store(to.store)][bytes(to)].fill(*value),
        Transfer::Copy { from, to } => {
            let copied = stores[store(from.store)][bytes(from)].to_vec();
            stores[store(to.store)][bytes(to)].copy_from_slice(&copied);
        }
        Transfer::Abs { from, to, .. } => {
            let mut copied = stores[store(*from)].clone();
            copied.iter_mut().skip(3).step_by(4).for_each(|byte| *byte &= 0x7f);
            stores[store(*to)] = copied;
        }
    }
}

/// What every store must have in the end.
pub fn expected(graph: &Graph, mut stores: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    for operation in graph.operations.iter().filter(|operation| operation.causes.is_empty()) {
        match &operation.action {
            Action::Barrier | Action::Refused => {}
            Action::Transfer(transfer) => model(&mut stores, transfer, |store| store),
            Action::Execute { body, stores: bound } => {
                graph.bodies[*body].iter().for_each(|transfer| model(&mut stores, transfer, |slot| bound[slot]));
            }
            Action::Read { from, to } | Action::Write { from, to } => {
                model(&mut stores, &Transfer::Copy { from: *from, to: *to }, |store| store);
            }
        }
    }
    stores
}
